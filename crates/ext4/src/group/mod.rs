//! A block group in memory: bitmaps as atomic words, counters, and where its metadata lies.
//!
//! # Data model
//! Inode bits are claimed and freed by atomic operations. A group has two block bitmaps: `on_disk`,
//! what the journal will write, and `busy`, what the allocator may not give out. They differ by the
//! blocks freed in transactions that are not durable yet, and by blocks that are reserved.
//!
//! # Invariants
//! - A thread that changes a bitmap, a counter or a flag runs in a handle that has journal access to the
//!   group's descriptor block first, then to the bitmap's block. So the state a transaction left
//!   is encoded (by the freeze hook) before the next transaction changes it.
//! - `busy` contains `on_disk`.
//!
//! # Locking
//! `changes` (rank `group`) serialises changes of the block bitmaps and of the inode bitmap, each in two variants of its
//! allocation. Bits and counters are atomic.
//!
//! | module | holds |
//! | --- | --- |
//! | `bitmap` | bits of a bitmap as atomic words |
//! | `inode_bits` | the inode bitmap, and what each CPU counts and remembers of it |
//! | `used_blocks` | blocks of the inode table in which this mount made an inode |

pub mod bitmap;
pub(crate) mod inode_bits;
pub(crate) mod used_blocks;

use crate::group::inode_bits::InodeBits;
use crate::group::used_blocks::UsedBlocks;
use crate::prelude::*;
use uext4_sync::atomic::AtomicU16;
use uext4_sync::atomic::Ordering::{Acquire, Release};

/// One block group. On cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
pub struct Group {
    /// Which one; immutable.
    pub no: GroupNo,
    /// The places and whatever else of the descriptor does not change; immutable.
    base: GroupDesc,
    /// The block of group descriptors that holds this group's; immutable.
    pub desc_buffer: Arc<Buffer>,
    /// Clusters that are free on disk; atomic, as are the other counters and the flags. Counted again when a changed descriptor is
    /// encoded, as one variant of block allocation changes only the bitmap.
    pub free_blocks: AtomicU32,
    /// Inodes at the end of the table that were never used.
    pub itable_unused: AtomicU32,
    flags: AtomicU16,
    block_bitmap_csum: AtomicU32,
    inode_bitmap_csum: AtomicU32,
    /// Held by the thread that changes the block bitmaps or the inode bitmap, in the variants that lock.
    pub changes: Mutex<BitmapChanges>,
    /// Where the search for a chunk of free blocks may begin; a hint, changed once for each chunk.
    pub chunk_hint: AtomicU32,
    blocks: OnceLock<BlockBits>,
    inodes: OnceLock<InodeBits>,
    /// A bitmap was found damaged: nothing is allocated here.
    pub damaged: AtomicBool,
    pub used_table_blocks: UsedBlocks,
}

/// What changes with the bitmaps of a group; its guard proves that no other thread changes them.
#[derive(Debug)]
pub struct BitmapChanges {
    /// Where the search for free blocks may begin.
    pub block_hint: u32,
}

/// The block bitmaps of a group.
#[derive(Debug)]
pub struct BlockBits {
    /// The block that holds the bitmap on disk.
    pub buffer: Arc<Buffer>,
    /// What the journal writes.
    pub on_disk: Words,
    /// What the allocator may not give out.
    pub busy: Words,
    /// Changed since its checksum was computed.
    dirty: AtomicBool,
}

/// The words of a bitmap block, the first at the start of a cache line, so that words which lie in different lines by
/// their numbers do so in memory.
#[derive(Debug)]
pub struct Words {
    memory: Box<[AtomicU64]>,
    /// Where in it they begin, and how many they are.
    start: usize,
    len: usize,
}

/// Bytes of a cache line, and words.
const LINE_BYTES: usize = 64;
const LINE_WORDS: usize = LINE_BYTES / 8;

impl Words {
    /// As they are on disk.
    pub fn of(bytes: &[u8]) -> Words {
        let (words, _) = bytes.as_chunks::<8>();
        let values = words.iter().map(|w| u64::from_le_bytes(*w));
        let memory: Box<[AtomicU64]> = (0..words.len() + LINE_WORDS)
            .map(|_| AtomicU64::new(0))
            .collect();
        let start = memory.as_ptr().align_offset(LINE_BYTES) % LINE_WORDS;
        for (to, value) in memory.iter().skip(start).zip(values) {
            to.store(value, Relaxed);
        }
        Words {
            memory,
            start,
            len: words.len(),
        }
    }
}

impl std::ops::Deref for Words {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        &self.memory[self.start..self.start + self.len]
    }
}

/// Writes the words of a bitmap to its block.
pub fn encode_words(words: &[AtomicU64], bytes: &mut [u8]) {
    let (chunks, _) = bytes.as_chunks_mut::<8>();
    for (chunk, word) in chunks.iter_mut().zip(words) {
        *chunk = word.load(Relaxed).to_le_bytes();
    }
}

impl BlockBits {
    /// The bits as read from disk.
    pub fn new(buffer: Arc<Buffer>, bytes: &[u8]) -> BlockBits {
        BlockBits {
            buffer,
            on_disk: Words::of(bytes),
            busy: Words::of(bytes),
            dirty: AtomicBool::new(false),
        }
    }

    /// Says that the bitmap changed.
    pub fn mark_dirty(&self) {
        if !self.dirty.load(Relaxed) {
            self.dirty.store(true, Relaxed);
        }
    }
}

/// Where in the bitmap the last bits are that its checksum covers, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct BitmapBytes {
    /// Of the inode bitmap.
    pub inodes: usize,
    /// Of the block bitmap.
    pub blocks: usize,
}

impl BitmapBytes {
    /// Those of every group.
    pub fn of(geometry: &Geometry) -> BitmapBytes {
        BitmapBytes {
            inodes: geometry.inode_bitmap_bytes(),
            blocks: geometry.block_bitmap_bytes(),
        }
    }
}

impl Group {
    /// The group as its descriptor says.
    pub fn new(no: GroupNo, desc: GroupDesc, desc_buffer: Arc<Buffer>) -> Group {
        Group {
            no,
            base: desc,
            desc_buffer,
            free_blocks: AtomicU32::new(desc.free_blocks),
            itable_unused: AtomicU32::new(desc.itable_unused),
            flags: AtomicU16::new(desc.flags.bits()),
            block_bitmap_csum: AtomicU32::new(desc.block_bitmap_csum),
            inode_bitmap_csum: AtomicU32::new(desc.inode_bitmap_csum),
            changes: Mutex::new(&class::GROUP, BitmapChanges { block_hint: 0 }),
            chunk_hint: AtomicU32::new(0),
            blocks: OnceLock::new(),
            inodes: OnceLock::new(),
            damaged: AtomicBool::new(false),
            used_table_blocks: UsedBlocks::default(),
        }
    }

    /// Clusters that are free on disk, as the bitmap says if it was loaded.
    pub fn count_free_blocks(&self) -> u32 {
        match self.blocks.get() {
            Some(bits) => bitmap::count_clear(&bits.on_disk),
            None => self.free_blocks.load(Relaxed),
        }
    }

    /// How many inodes are free by the descriptor that was mounted.
    pub fn free_inodes_at_first(&self) -> u32 {
        self.base.free_inodes
    }

    /// The first block of the inode table.
    pub fn inode_table(&self) -> Pblk {
        self.base.inode_table
    }

    /// The block of the inode bitmap.
    pub fn inode_bitmap(&self) -> Pblk {
        self.base.inode_bitmap
    }

    /// The block of the block bitmap.
    pub fn block_bitmap(&self) -> Pblk {
        self.base.block_bitmap
    }

    /// How many inodes at the end of the table had never been used when it was mounted.
    pub fn mounted_unused(&self) -> u32 {
        self.base.itable_unused
    }

    /// Free inodes: those of the mount, and what was claimed and released since.
    pub fn free_inodes(&self) -> u32 {
        let change = self.inodes.get().map_or(0, |bits| bits.counted().0);
        self.base.free_inodes.saturating_add_signed(change)
    }

    /// Directories.
    pub fn used_dirs(&self) -> u32 {
        let change = self.inodes.get().map_or(0, |bits| bits.counted().1);
        self.base.used_dirs.saturating_add_signed(change)
    }

    /// Whether the group may have a free inode.
    #[inline]
    pub fn has_free_inode(&self) -> bool {
        match self.inodes.get() {
            Some(bits) => !bits.is_full(),
            None => self.base.free_inodes > 0,
        }
    }

    /// The flags.
    pub fn flags(&self) -> GroupFlags {
        GroupFlags::from_bits_retain(self.flags.load(Acquire))
    }

    /// Clears flags, in a handle that has access to the descriptor block.
    pub fn clear_flags(&self, flags: GroupFlags) {
        if self.flags().intersects(flags) {
            self.flags.fetch_and(!flags.bits(), Release);
        }
    }

    /// The block bitmaps, if they were loaded.
    #[inline(always)]
    pub fn block_bits(&self) -> Option<&BlockBits> {
        self.blocks.get()
    }

    /// The inode bitmap, if it was loaded.
    #[inline(always)]
    pub fn inode_bits(&self) -> Option<&InodeBits> {
        self.inodes.get()
    }

    /// Publishes the block bitmaps; those of the first thread to get here stay.
    pub fn publish_blocks(&self, bits: BlockBits) -> &BlockBits {
        self.blocks.get_or_init(|| bits)
    }

    /// Publishes the inode bitmap; that of the first thread to get here stays.
    pub fn publish_inodes(&self, bits: InodeBits) -> &InodeBits {
        self.inodes.get_or_init(|| bits)
    }

    /// The descriptor as it is now, with checksums and count of changed bitmaps computed; only the freeze
    /// hook calls it.
    pub fn encode(
        &self,
        seed: Option<uext4_ondisk::CsumSeed>,
        bytes: BitmapBytes,
        wide: bool,
    ) -> GroupDesc {
        if let Some(bits) = self.blocks.get()
            && bits.dirty.swap(false, Relaxed)
        {
            self.free_blocks
                .store(bitmap::count_clear(&bits.on_disk), Relaxed);
            if let Some(seed) = seed {
                self.block_bitmap_csum
                    .store(checksum(seed, &bits.on_disk, bytes.blocks), Relaxed);
            }
        }
        if let Some(seed) = seed
            && let Some(bits) = self.inodes.get()
            && bits.take_dirty()
        {
            self.inode_bitmap_csum
                .store(checksum(seed, &bits.words, bytes.inodes), Relaxed);
        }
        self.descriptor(bytes, wide)
    }

    /// The descriptor, with checksums and count of bitmaps as they were last encoded.
    pub fn descriptor(&self, bytes: BitmapBytes, wide: bool) -> GroupDesc {
        let kept = if wide { u32::MAX } else { 0xffff };
        GroupDesc {
            free_blocks: self.free_blocks.load(Relaxed),
            // One that the image counted too high must not grow past what a descriptor may say.
            free_inodes: self.free_inodes().min(bytes.inodes as u32 * 8),
            used_dirs: self.used_dirs(),
            itable_unused: self.itable_unused.load(Relaxed),
            flags: self.flags(),
            block_bitmap_csum: self.block_bitmap_csum.load(Relaxed) & kept,
            inode_bitmap_csum: self.inode_bitmap_csum.load(Relaxed) & kept,
            ..self.base
        }
    }
}

fn checksum(seed: uext4_ondisk::CsumSeed, words: &[AtomicU64], bytes: usize) -> u32 {
    let mut crc = seed.0;
    let mut chunk = [0u8; 512];
    let mut left = bytes;
    for words in words.chunks(64) {
        if left == 0 {
            break;
        }
        encode_words(words, &mut chunk);
        let n = left.min(words.len() * 8);
        crc = uext4_ondisk::crc32c(crc, &chunk[..n]);
        left -= n;
    }
    crc
}

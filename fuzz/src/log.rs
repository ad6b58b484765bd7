//! Logs that a script writes: whole transactions with the right checksums, but now and then, over an image that was not unmounted.

use crate::base;
use crate::input::Input;
use crate::work;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use uext4_block::BlockDevice;
use uext4_ondisk::{
    CommitBlock, DescriptorBuilder, Incompat, Ino, JournalCompat, JournalFormat, JournalIncompat,
    JournalSuper, Pblk, RawSuperblock, RevokeBuilder, Tid, crc32_be, crc32c, journal_escape,
    journal_needs_escape,
};
use uext4_testkit::image::{mke2fs, mount};
use uext4_vfs::{Caller, FileSystem};
use zerocopy::FromBytes;

const BLOCK: usize = 1024;
/// The checksums of a log.
const CSUMS: JournalIncompat = JournalIncompat::CSUM_V2.union(JournalIncompat::CSUM_V3);

/// An image with a log.
struct Base {
    image: base::Base,
    /// The log on the device, which has it in one piece.
    log: Range<usize>,
    /// Names in the root: each with its inode.
    entries: Vec<(Vec<u8>, u32)>,
}

/// The log begins at a block after all metadata, so that it is in one piece.
const SHAPES: [(&str, bool); 7] = [
    ("-t ext4 -b 1024 -N 128 -J size=1,location=1500", false),
    ("-t ext4 -b 1024 -N 128 -J size=1,location=1500", true),
    (
        "-t ext4 -b 1024 -N 128 -O ^metadata_csum,^64bit -J size=1,location=1500",
        false,
    ),
    // Their logs get checksums of the first and the second version.
    (
        "-t ext4 -b 1024 -N 128 -O ^metadata_csum,64bit -J size=1,location=1500",
        true,
    ),
    (
        "-t ext4 -b 1024 -N 128 -O 64bit -J size=1,location=1500",
        true,
    ),
    (
        "-t ext4 -b 1024 -N 128 -O fast_commit,orphan_file -J size=1,location=1500,fast_commit_size=64",
        true,
    ),
    (
        "-t ext4 -b 1024 -N 128 -O fast_commit,inline_data,^metadata_csum,^64bit -J size=1,location=1500,fast_commit_size=64",
        true,
    ),
];

/// Where those with fast commits begin.
const FAST_COMMIT: usize = 5;

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        (0..)
            .zip(&SHAPES)
            .map(|(number, (options, used))| make(number, options, *used))
            .collect()
    })
}

/// One that was used has a log whose superblock has the features that the engine sets.
fn make(number: usize, options: &str, used: bool) -> Base {
    let device = Arc::new(mke2fs(options, 4 << 20).expect(options));
    let mut entries = Vec::new();
    if used {
        let fs = mount(Arc::clone(&device) as Arc<dyn BlockDevice>).expect(options);
        base::fill(&fs);
        let root = fs.root().expect("a root").clone();
        let listed = fs.readdir(&Caller::root(), &root, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.ino as u32));
            true
        });
        listed.expect("a root");
        drop(root);
        fs.unmount().expect("unmount");
    }
    let mut bytes = device.snapshot().to_vec();
    let is_log = |block: &[u8]| JournalSuper::parse(block, BLOCK as u32).is_ok();
    let first = bytes.chunks(BLOCK).position(is_log).expect("a log");
    let log = &mut bytes[first * BLOCK..][..BLOCK];
    let mut log = JournalSuper::parse(log, BLOCK as u32).expect("a log");
    let len = log.raw.maxlen.get() as usize;
    if number >= 3 {
        let mut incompat = log.raw.feature_incompat.get();
        match number {
            3 => {
                incompat &= !CSUMS.bits();
                log.raw.feature_compat.set(JournalCompat::CHECKSUM.bits());
            }
            4 => incompat = incompat & !CSUMS.bits() | JournalIncompat::CSUM_V2.bits(),
            // As a kernel's mount has it, and uext4's unmount does not.
            _ => {
                incompat |= JournalIncompat::FAST_COMMIT.bits();
                log.raw.num_fc_blks.set(64);
            }
        }
        log.raw.feature_incompat.set(incompat);
        log.raw.update_checksum();
        let raw = zerocopy::IntoBytes::as_bytes(&log.raw);
        bytes[first * BLOCK..][..raw.len()].copy_from_slice(raw);
    }
    Base {
        image: base::Base::new(&bytes),
        log: first * BLOCK..(first + len) * BLOCK,
        entries,
    }
}

/// A log as it is written.
struct Log<'b> {
    bytes: &'b mut [u8],
    format: JournalFormat,
    /// The block that is written next.
    next: usize,
    end: usize,
}

impl Log<'_> {
    fn push(&mut self, block: &[u8]) {
        let at = self.next * BLOCK;
        self.bytes[at..at + BLOCK].copy_from_slice(block);
        self.next = if self.next + 1 >= self.end {
            1
        } else {
            self.next + 1
        };
    }

    /// A transaction: copies of blocks, each changed a little, blocks that are revoked, and a commit block.
    fn transaction(&mut self, tid: Tid, image: &[u8], input: &mut Input<'_>) {
        let mut copies = Vec::new();
        let mut descriptor = vec![0; BLOCK];
        let mut builder = DescriptorBuilder::new(&mut descriptor, self.format, tid);
        for _ in 0..input.u8() % 6 {
            let number = input.u16() as usize % (image.len() / BLOCK + 1);
            let mut copy = image
                .get(number * BLOCK..(number + 1) * BLOCK)
                .unwrap_or(&[0; BLOCK])
                .to_vec();
            let at = input.below(BLOCK - 8);
            let len = usize::from(input.u8() % 8);
            let new = input.bytes(len);
            copy[at..at + new.len()].copy_from_slice(new);
            if input.u8().is_multiple_of(8) {
                // Such a block is escaped.
                copy[..4].copy_from_slice(&0xc03b_3998_u32.to_be_bytes());
            }
            let sum = self.format.data_checksum(tid, &copy);
            let escaped = journal_needs_escape(&copy);
            if escaped {
                journal_escape(&mut copy);
            }
            if builder.push(Pblk(number as u64), escaped, sum) {
                copies.push(copy);
            }
        }
        builder.finish();
        self.push_changed(&mut descriptor, input);
        copies.iter().for_each(|copy| self.push(copy));
        let all = std::iter::once(&descriptor).chain(&copies);
        let sum = all.fold(u32::MAX, |sum, block| crc32_be(sum, block));
        let revokes = input.u8() % 4;
        if revokes > 0 {
            let mut block = vec![0; BLOCK];
            let mut builder = RevokeBuilder::new(&mut block, self.format, tid);
            for _ in 0..revokes {
                let _ = builder.push(Pblk(u64::from(input.u16() % 4200)));
            }
            builder.finish();
            self.push_changed(&mut block, input);
        }
        let mut commit = vec![0; BLOCK];
        CommitBlock {
            tid,
            sec: 1,
            nsec: 0,
            v1_checksum: (!input.u8().is_multiple_of(8)).then_some(sum),
        }
        .encode_into(&mut commit, &self.format);
        self.push_changed(&mut commit, input);
    }

    /// Adds a block of the log's own, one time in four with a byte changed and the checksum right or wrong.
    fn push_changed(&mut self, block: &mut [u8], input: &mut Input<'_>) {
        let kind = input.u8();
        if kind % 4 == 3 {
            block[input.below(BLOCK)] = input.u8();
            if kind % 8 == 3 {
                self.format.tail_checksum_set(block);
            }
        }
        self.push(block);
    }
}

/// Transactions in the log.
pub fn recovery(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(base) = input.choose(bases()) else {
        return;
    };
    recover(base, &mut input, |log, tid, image, input| {
        for number in 0..u32::from(input.u8() % 5) {
            let skipped = u32::from(input.u8() / 250);
            log.transaction(Tid(tid.0.wrapping_add(number + skipped)), image, input);
        }
    });
}

/// Fast commits, over a log with or without a transaction.
pub fn fast_commit(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(base) = input.choose(&bases()[FAST_COMMIT..]) else {
        return;
    };
    recover(base, &mut input, |log, tid, image, input| {
        let mut on = tid;
        if input.u8().is_multiple_of(4) {
            log.transaction(tid, image, input);
            on = Tid(tid.0.wrapping_add(1));
        }
        // A block is left between the log and these.
        log.next = log.end + 1;
        while !input.is_empty() && (log.next + 1) * BLOCK <= log.bytes.len() {
            let block = fast_commit_block(base, on, input);
            let at = log.next * BLOCK;
            log.bytes[at..at + BLOCK].copy_from_slice(&block);
            log.next += 1;
            if input.u8() % 4 > 0 {
                break;
            }
        }
    });
}

/// A block of records, with a tail that has the right checksum, but now and then.
fn fast_commit_block(base: &Base, tid: Tid, input: &mut Input<'_>) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK);
    let put = |block: &mut Vec<u8>, tag: u16, value: &[u8]| {
        block.extend(tag.to_le_bytes());
        block.extend((value.len() as u16).to_le_bytes());
        block.extend(value);
    };
    let mut head = [0; 8];
    head[4..].copy_from_slice(&tid.0.to_le_bytes());
    put(&mut block, 9, &head);
    while !input.is_empty() && block.len() < BLOCK - 300 {
        let tag = match input.u8() {
            kind @ 0..=239 => u16::from(kind % 6) + 1,
            kind => u16::from(kind % 10),
        };
        let value = record(base, tag, input);
        put(&mut block, tag, &value);
    }
    let mut crc = crc32c(0, &block);
    let rest = (BLOCK - block.len() - 4) as u16;
    block.extend([8u16.to_le_bytes(), rest.to_le_bytes()].concat());
    block.extend(tid.0.to_le_bytes());
    crc = match input.u8() {
        255 => 0,
        _ => {
            let at = block.len() - 8;
            crc32c(crc, &block[at..])
        }
    };
    block.extend(crc.to_le_bytes());
    block.resize(BLOCK, 0);
    block
}

/// The value of a record.
fn record(base: &Base, tag: u16, input: &mut Input<'_>) -> Vec<u8> {
    let mut value = number(base, input).to_le_bytes().to_vec();
    match tag {
        // A range: logical block, length, and where it is.
        1 => {
            value.extend(u32::from(input.u16() % 500).to_le_bytes());
            value.extend((input.u16() % 40).to_le_bytes());
            value.extend(0u16.to_le_bytes());
            value.extend(u32::from(input.u16() % 4200).to_le_bytes());
        }
        2 => {
            value.extend(u32::from(input.u16() % 500).to_le_bytes());
            value.extend(u32::from(input.u16() % 500).to_le_bytes());
        }
        // A name: its directory, its inode.
        3..=5 => {
            if input.u8() < 200 {
                value = 2u32.to_le_bytes().to_vec();
            }
            let there = input.choose(&base.entries);
            match (input.u8() % 4, there) {
                (0 | 1, Some((name, ino))) => {
                    value.extend(ino.to_le_bytes());
                    value.extend(name);
                }
                (2, Some((name, _))) => {
                    value.extend(number(base, input).to_le_bytes());
                    value.extend(name);
                }
                _ => {
                    value.extend(number(base, input).to_le_bytes());
                    let names: [&[u8]; 5] = [b"new", b"x", b"y", b".", b"n/n"];
                    value.extend(*input.choose(&names).unwrap_or(&names[0]));
                }
            }
        }
        6 => value.extend(inode(base, input)),
        _ => {
            let len = usize::from(input.u8() % 32);
            value.extend(input.bytes(len));
        }
    }
    value
}

/// The number of an inode: of one that is there, of one that can be, or any.
fn number(base: &Base, input: &mut Input<'_>) -> u32 {
    let there = input.choose(&base.entries).map_or(2, |(_, ino)| *ino);
    match input.u8() {
        0..=149 => there,
        150..=199 => 100 + u32::from(input.u8() % 8),
        200..=239 => u32::from(input.u8() % 130),
        _ => input.u32(),
    }
}

/// An inode as a record has it: one that is there, changed a little, or a new one without blocks.
fn inode(base: &Base, input: &mut Input<'_>) -> Vec<u8> {
    let there = input.choose(&base.entries).map_or(2, |(_, ino)| *ino);
    let mut raw = vec![0; 256];
    if input.u8().is_multiple_of(2) {
        raw.copy_from_slice(&base.image.image.bytes[base.image.image.inode_at(Ino(there))]);
    } else {
        let kinds = [0x81a4u16, 0x41ed, 0xa1ff, 0x81a4];
        let mode = kinds[usize::from(input.u8() % 4)];
        raw[..2].copy_from_slice(&mode.to_le_bytes());
        raw[0x1a] = input.u8() % 4;
        raw[0x22] = 8;
        // An empty tree.
        raw[0x28..0x2e].copy_from_slice(&[0x0a, 0xf3, 0, 0, 4, 0]);
        raw[0x64] = input.u8();
        raw[0x80] = 32;
    }
    for _ in 0..input.u8() % 4 {
        let at = usize::from(input.u8());
        raw[at] = input.u8();
    }
    raw
}

/// Writes a log, says in the superblocks that it is in use, and works on what recovery leaves.
fn recover(
    base: &Base,
    input: &mut Input<'_>,
    write: impl Fn(&mut Log<'_>, Tid, &[u8], &mut Input<'_>),
) {
    let mut image = base.image.image.clone();
    let before = &base.image.image.bytes;
    let bytes = &mut image.bytes[base.log.clone()];
    let sb = JournalSuper::parse(&bytes[..BLOCK], BLOCK as u32).expect("a log");
    let first = match input.u8() {
        0..=200 => 1,
        near => sb.log_end() as usize - 1 - usize::from(near - 200) % 50,
    };
    let mut log = Log {
        format: sb.format(),
        next: first,
        end: sb.log_end() as usize,
        bytes,
    };
    let tid = Tid(sb.raw.sequence.get());
    write(&mut log, tid, before, input);
    let mut raw = sb.raw.clone();
    raw.start.set(first as u32);
    if input.u8() >= 200 {
        // A superblock that is wrong somewhere.
        let mut wrong = zerocopy::IntoBytes::as_bytes(&raw).to_vec();
        let at = input.below(0x60);
        wrong[at] = input.u8();
        if let Ok(changed) = uext4_ondisk::RawJournalSuper::read_from_bytes(&wrong) {
            raw = changed;
        }
    }
    raw.update_checksum();
    let raw = zerocopy::IntoBytes::as_bytes(&raw);
    log.bytes[..raw.len()].copy_from_slice(raw);
    if let Ok(sb) = RawSuperblock::mut_from_bytes(&mut image.bytes[1024..2048]) {
        let flags = sb.feature_incompat.get() | Incompat::RECOVER.bits();
        sb.feature_incompat.set(flags);
    }
    image.fix_super();
    let device = Arc::new(base.image.device(&image.bytes));
    // What recovery leaves may be damaged, as the log's copies are; if it is not, work leaves it so.
    if let Ok(fs) = mount(Arc::clone(&device) as Arc<dyn BlockDevice>) {
        let _ = fs.unmount();
    }
    work::leaves_no_damage(&device, input);
}

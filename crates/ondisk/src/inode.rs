//! Inodes: 128 bytes of fields, and more that `i_extra_isize` says are there.
//!
//! Source: Linux documentation, filesystems/ext4, "Index Nodes".
//!
//! # Invariants
//! What follows the extra fields (attributes in the inode) is never touched here. The checksum is set
//! apart from encoding, since it covers those bytes too.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{le16, le32, put_le16, put_le32};
use crate::checksum::{CsumSeed, INODE_KEY_BYTES, InodeSeed, crc32c, inode_key};
use crate::corrupt::{Corrupt, CorruptKind, Result};
use crate::features::{Incompat, RoCompat};
use crate::file_type::{DevNo, FileType};
use crate::inode_flags::InodeFlags;
use crate::raw_superblock::CREATOR_HURD;
use crate::superblock::Superblock;
use crate::timestamp::Timestamp;
use crate::types::{Generation, Ino, Pblk};

/// Size of the fields every inode has.
pub const GOOD_OLD_INODE_SIZE: usize = 128;
/// Bytes beyond 128 of all fields known today.
pub const EXTRA_ISIZE_KNOWN: u16 = 32;

const GENERATION_AT: usize = 0x64;
const CSUM_LO_AT: usize = 0x7c;
const EXTRA_ISIZE_AT: usize = 0x80;
const CSUM_HI_AT: usize = 0x82;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInode {
    mode: U16,
    uid: U16,
    size_lo: U32,
    atime: U32,
    ctime: U32,
    mtime: U32,
    dtime: U32,
    gid: U16,
    links: U16,
    blocks_lo: U32,
    flags: U32,
    version_lo: U32,
    block: [u8; 60],
    generation: U32,
    file_acl_lo: U32,
    size_hi: U32,
    obso_faddr: U32,
    blocks_hi: U16,
    file_acl_hi: U16,
    uid_hi: U16,
    gid_hi: U16,
    checksum_lo: U16,
    reserved: U16,
}

const _: () = assert!(size_of::<RawInode>() == GOOD_OLD_INODE_SIZE);

/// What of the superblock decides how an inode reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InodeParams {
    /// Bytes of an inode.
    pub inode_size: u16,
    /// Bytes of a block.
    pub block_size: u32,
    /// The feature `huge_file`.
    pub huge_file: bool,
    /// The feature `large_dir`.
    pub large_dir: bool,
    /// The feature `64bit`.
    pub bit64: bool,
    /// Inodes have the fields of GNU Hurd where Linux has its own.
    pub hurd: bool,
}

impl InodeParams {
    /// The parameters of a file system.
    pub fn of(sb: &Superblock) -> Self {
        InodeParams {
            inode_size: sb.geometry.inode_size,
            block_size: sb.geometry.block_size,
            huge_file: sb.ro_compat.contains(RoCompat::HUGE_FILE),
            large_dir: sb.incompat.contains(Incompat::LARGE_DIR),
            bit64: sb.incompat.contains(Incompat::BIT64),
            hurd: sb.raw.creator_os.get() == CREATOR_HURD,
        }
    }
}

/// An inode, decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Type and permission.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Links; 16 bits on disk. A directory with 1 has too many to count.
    pub links: u32,
    /// Blocks in units of 512 bytes.
    pub blocks: u64,
    /// Flags, unknown ones kept. `HUGE_FILE` is decided anew by encoding.
    pub flags: InodeFlags,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Creation; 1970 if the inode has no room for it.
    pub crtime: Timestamp,
    /// Deletion, in seconds; or the next orphan.
    pub dtime: u32,
    /// Which use of the inode number this is.
    pub generation: Generation,
    /// Block of extended attributes, or 0.
    pub file_acl: Pblk,
    /// Extent root, block map, short symbolic link, device number or inline data.
    pub i_block: [u8; 60],
    /// Change counter.
    pub version: u64,
    /// Bytes beyond 128 that are fields, a multiple of 4; 0 for 128-byte inodes.
    pub extra_isize: u16,
    /// Project.
    pub projid: u32,
    /// Block of a translator of GNU Hurd, or 0.
    pub translator: u32,
}

impl Default for Inode {
    /// All zeros with room for every known field.
    fn default() -> Self {
        Inode {
            mode: 0,
            uid: 0,
            gid: 0,
            size: 0,
            links: 0,
            blocks: 0,
            flags: InodeFlags::empty(),
            atime: Timestamp::default(),
            ctime: Timestamp::default(),
            mtime: Timestamp::default(),
            crtime: Timestamp::default(),
            dtime: 0,
            generation: Generation(0),
            file_acl: Pblk(0),
            i_block: [0; 60],
            version: 0,
            extra_isize: EXTRA_ISIZE_KNOWN,
            projid: 0,
            translator: 0,
        }
    }
}

/// The extra word at `at`, if the extra fields reach that far.
#[inline]
fn extra_word(raw: &[u8], extra_isize: u16, at: usize) -> Option<u32> {
    if at + 4 <= GOOD_OLD_INODE_SIZE + usize::from(extra_isize) {
        le32(raw, at)
    } else {
        None
    }
}

#[inline]
fn put_extra_word(raw: &mut [u8], extra_isize: u16, at: usize, v: u32) {
    if at + 4 <= GOOD_OLD_INODE_SIZE + usize::from(extra_isize) {
        // Past the end only if the caller changed extra_isize to nonsense; then there is no field.
        let _ = put_le32(raw, at, v);
    }
}

fn join(lo: U16, hi: U16) -> u32 {
    u32::from(hi.get()) << 16 | u32::from(lo.get())
}

impl RawInode {
    /// Blocks in units of 512 bytes.
    fn blocks(&self, p: &InodeParams) -> Result<u64> {
        let lo = u64::from(self.blocks_lo.get());
        if !p.huge_file {
            return Ok(lo);
        }
        let all = u64::from(self.blocks_hi.get()) << 32 | lo;
        if self.flags.get() & InodeFlags::HUGE_FILE.bits() == 0 {
            return Ok(all);
        }
        all.checked_mul(u64::from(p.block_size / 512))
            .ok_or(CorruptKind::InodeHugeBlocks.into())
    }

    fn size(&self, p: &InodeParams) -> u64 {
        let lo = u64::from(self.size_lo.get());
        let wide = match FileType::from_mode(self.mode.get()) {
            FileType::Regular => true,
            FileType::Directory => p.large_dir,
            _ => false,
        };
        if wide {
            u64::from(self.size_hi.get()) << 32 | lo
        } else {
            lo
        }
    }
}

/// The extra size of an inode's bytes, checked against the inode size.
///
/// # Errors
/// [`CorruptKind::InodeExtraSize`].
#[inline]
pub fn extra_isize(raw: &[u8]) -> Result<u16> {
    if raw.len() <= GOOD_OLD_INODE_SIZE {
        return Ok(0);
    }
    match le16(raw, EXTRA_ISIZE_AT) {
        Some(e) if e % 4 == 0 && GOOD_OLD_INODE_SIZE + usize::from(e) <= raw.len() => Ok(e),
        e => Err(Corrupt::new(CorruptKind::InodeExtraSize).detail(e.unwrap_or(0))),
    }
}

impl Inode {
    /// Decodes the bytes of an inode, `inode_size` of them.
    ///
    /// # Errors
    /// [`CorruptKind::InodeShort`], [`CorruptKind::InodeExtraSize`], [`CorruptKind::InodeHugeBlocks`].
    pub fn decode(raw: &[u8], p: &InodeParams) -> Result<Self> {
        let Ok((r, _)) = RawInode::ref_from_prefix(raw) else {
            return Err(CorruptKind::InodeShort.into());
        };
        let extra = extra_isize(raw)?;
        // Hurd has the upper half of the mode there.
        let acl_hi = if p.bit64 && !p.hurd {
            u64::from(r.file_acl_hi.get()) << 32
        } else {
            0
        };
        let version_hi = extra_word(raw, extra, 0x98).unwrap_or(0);
        let (version_lo, translator) = match p.hurd {
            true => (0, r.version_lo.get()),
            false => (r.version_lo.get(), 0),
        };
        let crtime = extra_word(raw, extra, 0x90).unwrap_or(0);
        Ok(Inode {
            mode: r.mode.get(),
            uid: join(r.uid, r.uid_hi),
            gid: join(r.gid, r.gid_hi),
            size: r.size(p),
            links: u32::from(r.links.get()),
            blocks: r.blocks(p)?,
            flags: InodeFlags::from_bits_retain(r.flags.get()),
            ctime: Timestamp::decode(r.ctime.get(), extra_word(raw, extra, 0x84)),
            mtime: Timestamp::decode(r.mtime.get(), extra_word(raw, extra, 0x88)),
            atime: Timestamp::decode(r.atime.get(), extra_word(raw, extra, 0x8c)),
            crtime: Timestamp::decode(crtime, extra_word(raw, extra, 0x94)),
            dtime: r.dtime.get(),
            generation: Generation(r.generation.get()),
            file_acl: Pblk(acl_hi | u64::from(r.file_acl_lo.get())),
            i_block: r.block,
            version: u64::from(version_hi) << 32 | u64::from(version_lo),
            extra_isize: extra,
            projid: extra_word(raw, extra, 0x9c).unwrap_or(0),
            translator,
        })
    }

    /// Writes every known field but the checksum. Bytes past the extra fields, and fields that this
    /// crate does not know, stay. A slice under 128 bytes is left alone.
    pub fn encode_into(&self, raw: &mut [u8], p: &InodeParams) {
        let long = raw.len() > GOOD_OLD_INODE_SIZE;
        let Ok((r, _)) = RawInode::mut_from_prefix(raw) else {
            return;
        };
        let (atime, ctime, mtime) = (
            self.atime.encode(),
            self.ctime.encode(),
            self.mtime.encode(),
        );
        let has = |at: u16| long && self.extra_isize >= at - 0x7c;
        r.mode = self.mode.into();
        r.uid = (self.uid as u16).into();
        r.uid_hi = ((self.uid >> 16) as u16).into();
        r.gid = (self.gid as u16).into();
        r.gid_hi = ((self.gid >> 16) as u16).into();
        r.size_lo = (self.size as u32).into();
        r.size_hi = ((self.size >> 32) as u32).into();
        r.ctime = if has(0x84) {
            ctime.0
        } else {
            self.ctime.encode_short()
        }
        .into();
        r.mtime = if has(0x88) {
            mtime.0
        } else {
            self.mtime.encode_short()
        }
        .into();
        r.atime = if has(0x8c) {
            atime.0
        } else {
            self.atime.encode_short()
        }
        .into();
        r.dtime = self.dtime.into();
        r.links = (self.links as u16).into();
        match p.hurd {
            true => r.version_lo = self.translator.into(),
            false => {
                r.version_lo = (self.version as u32).into();
                r.file_acl_hi = ((self.file_acl.0 >> 32) as u16).into();
            }
        }
        r.block = self.i_block;
        r.generation = self.generation.0.into();
        r.file_acl_lo = (self.file_acl.0 as u32).into();
        let (blocks, flags) = self.encode_blocks(p);
        r.blocks_lo = (blocks as u32).into();
        r.blocks_hi = ((blocks >> 32) as u16).into();
        r.flags = flags.bits().into();
        if long {
            self.encode_extra(raw, atime.1, ctime.1, mtime.1);
        }
    }

    /// The block count on disk, and the flags that define its unit.
    fn encode_blocks(&self, p: &InodeParams) -> (u64, InodeFlags) {
        let flags = self.flags.difference(InodeFlags::HUGE_FILE);
        if self.blocks < 1 << 48 || !p.huge_file {
            return (self.blocks, flags);
        }
        let per_block = u64::from((p.block_size / 512).max(1));
        (self.blocks / per_block, flags | InodeFlags::HUGE_FILE)
    }

    fn encode_extra(&self, raw: &mut [u8], atime: u32, ctime: u32, mtime: u32) {
        let extra = self.extra_isize;
        // The caller checked that the inode is longer than 128 bytes.
        let _ = put_le16(raw, EXTRA_ISIZE_AT, extra);
        let crtime = self.crtime.encode();
        put_extra_word(raw, extra, 0x84, ctime);
        put_extra_word(raw, extra, 0x88, mtime);
        put_extra_word(raw, extra, 0x8c, atime);
        put_extra_word(raw, extra, 0x90, crtime.0);
        put_extra_word(raw, extra, 0x94, crtime.1);
        put_extra_word(raw, extra, 0x98, (self.version >> 32) as u32);
        put_extra_word(raw, extra, 0x9c, self.projid);
    }

    /// Kind of the file.
    #[inline]
    pub fn file_type(&self) -> FileType {
        FileType::from_mode(self.mode)
    }

    /// True if the target of a symbolic link is in `i_block`.
    pub fn is_fast_symlink(&self) -> bool {
        self.file_type() == FileType::Symlink
            && self.size != 0
            && self.size < self.i_block.len() as u64
            && !self
                .flags
                .intersects(InodeFlags::EXTENTS | InodeFlags::INLINE_DATA)
    }

    /// The target of a symbolic link in `i_block`.
    pub fn fast_symlink_target(&self) -> Option<&[u8]> {
        if !self.is_fast_symlink() {
            return None;
        }
        self.i_block.get(..self.size as usize)
    }

    /// The number of a device file.
    pub fn dev_no(&self) -> DevNo {
        let word = |at| le32(&self.i_block, at).unwrap_or(0);
        DevNo::decode(word(0), word(4))
    }

    /// Stores the number of a device file.
    pub fn set_dev_no(&mut self, dev: DevNo) {
        let (a, b) = dev.encode();
        self.i_block = [0; 60];
        // i_block has room for both words.
        let _ = put_le32(&mut self.i_block, 0, a);
        let _ = put_le32(&mut self.i_block, 4, b);
    }

    /// The seed of this inode's checksums.
    #[inline]
    pub fn seed(&self, fs: CsumSeed, ino: Ino) -> InodeSeed {
        fs.inode(ino, self.generation)
    }
}

/// The checksum that an inode's bytes ought to have, and whether its upper half is kept.
fn inode_checksum(raw: &[u8], fs: CsumSeed, ino: Ino) -> Option<(u32, bool)> {
    let generation = Generation(le32(raw, GENERATION_AT)?);
    let has_hi = raw.len() > GOOD_OLD_INODE_SIZE && le16(raw, EXTRA_ISIZE_AT)? >= 4;
    // One pass over a copy is faster than a chain of short pieces.
    if let Some(all) = raw.first_chunk::<256>()
        && raw.len() == 256
    {
        let mut bytes = [0; INODE_KEY_BYTES + 256];
        let (key, copy) = bytes.split_at_mut(INODE_KEY_BYTES);
        key.copy_from_slice(&inode_key(ino, generation));
        copy.copy_from_slice(all);
        put_le16(copy, CSUM_LO_AT, 0)?;
        if has_hi {
            put_le16(copy, CSUM_HI_AT, 0)?;
        }
        return Some((crc32c(fs.0, &bytes), has_hi));
    }
    let seed = fs.inode(ino, generation).0;
    let mut crc = crc32c(seed, raw.get(..CSUM_LO_AT)?);
    crc = crc32c(crc, &[0; 2]);
    if has_hi {
        crc = crc32c(crc, raw.get(CSUM_LO_AT + 2..CSUM_HI_AT)?);
        crc = crc32c(crc, &[0; 2]);
        crc = crc32c(crc, raw.get(CSUM_HI_AT + 2..)?);
    } else {
        crc = crc32c(crc, raw.get(CSUM_LO_AT + 2..)?);
    }
    Some((crc, has_hi))
}

/// Stores the checksum of an inode's bytes (all of `inode_size`). The last step before writing.
pub fn inode_checksum_set(raw: &mut [u8], fs: CsumSeed, ino: Ino) {
    let Some((sum, has_hi)) = inode_checksum(raw, fs, ino) else {
        return;
    };
    // The computation read these fields, so they are there.
    let _ = put_le16(raw, CSUM_LO_AT, sum as u16);
    if has_hi {
        let _ = put_le16(raw, CSUM_HI_AT, (sum >> 16) as u16);
    }
}

/// Checks the checksum of an inode's bytes (all of `inode_size`).
///
/// # Errors
/// [`CorruptKind::InodeChecksum`]. An inode that was never used, all zeros, fails too.
pub fn inode_checksum_verify(raw: &[u8], fs: CsumSeed, ino: Ino) -> Result<()> {
    let ok = inode_checksum(raw, fs, ino).is_some_and(|(sum, has_hi)| {
        le16(raw, CSUM_LO_AT) == Some(sum as u16)
            && (!has_hi || le16(raw, CSUM_HI_AT) == Some((sum >> 16) as u16))
    });
    if ok {
        Ok(())
    } else {
        Err(Corrupt::new(CorruptKind::InodeChecksum).ino(ino))
    }
}

/// True if the checksum of an inode's bytes is right.
pub fn inode_checksum_ok(raw: &[u8], fs: CsumSeed, ino: Ino) -> bool {
    inode_checksum_verify(raw, fs, ino).is_ok()
}

/// Generation of an inode's bytes, without decoding the rest.
pub fn raw_generation(raw: &[u8]) -> Option<Generation> {
    le32(raw, GENERATION_AT).map(Generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: InodeParams = InodeParams {
        inode_size: 256,
        block_size: 4096,
        huge_file: true,
        large_dir: true,
        bit64: true,
        hurd: false,
    };

    fn sample() -> Inode {
        Inode {
            mode: 0x81a4,
            uid: 0x12345,
            gid: 0x54321,
            size: 0x5_0000_0001,
            links: 3,
            blocks: 0x2_0000_0008,
            flags: InodeFlags::EXTENTS,
            atime: Timestamp::new(5_000_000_000, 1),
            ctime: Timestamp::new(-5, 2),
            mtime: Timestamp::new(7, 999_999_999),
            crtime: Timestamp::new(8, 9),
            dtime: 10,
            generation: Generation(0xfeed_f00d),
            file_acl: Pblk(0x1234_5678_9abc),
            i_block: [0x5a; 60],
            version: 0x1_0000_0002,
            extra_isize: 32,
            projid: 77,
            translator: 0,
        }
    }

    #[test]
    fn round_trip_keeps_attributes() {
        let mut raw = [0xeeu8; 256];
        sample().encode_into(&mut raw, &P);
        assert_eq!(Inode::decode(&raw, &P).unwrap(), sample());
        assert!(raw[160..].iter().all(|b| *b == 0xee));
    }

    #[test]
    fn round_trip_128() {
        let mut raw = [0u8; 128];
        let mut i = sample();
        i.encode_into(&mut raw, &P);
        i.atime = Timestamp::new(Timestamp::MAX_SEC_SHORT, 0);
        i.ctime.nsec = 0;
        i.mtime.nsec = 0;
        (i.crtime, i.version, i.extra_isize, i.projid) = (Timestamp::default(), 2, 0, 0);
        assert_eq!(Inode::decode(&raw, &P).unwrap(), i);
    }

    /// What GNU Hurd has in the place of fields of Linux stays.
    #[test]
    fn fields_of_hurd_stay() {
        let hurd = InodeParams { hurd: true, ..P };
        let (mode_high, author) = (118..120, 124..128);
        let mut raw = [0u8; 128];
        raw[36..40].copy_from_slice(&2000_u32.to_le_bytes());
        raw[mode_high.clone()].fill(3);
        raw[author.clone()].fill(9);
        let mut inode = Inode::decode(&raw, &hurd).unwrap();
        assert_eq!((inode.translator, inode.file_acl), (2000, Pblk(0)));
        inode.version = 55;
        inode.encode_into(&mut raw, &hurd);
        assert_eq!(Inode::decode(&raw, &hurd).unwrap().translator, 2000);
        assert_eq!((&raw[mode_high], &raw[author]), (&[3; 2][..], &[9; 4][..]));
    }

    #[test]
    fn huge_block_count_changes_unit() {
        let mut raw = [0u8; 256];
        let i = Inode {
            blocks: 1 << 50,
            ..sample()
        };
        i.encode_into(&mut raw, &P);
        let back = Inode::decode(&raw, &P).unwrap();
        assert_eq!(back.blocks, 1 << 50);
        assert!(back.flags.contains(InodeFlags::HUGE_FILE));
    }

    #[test]
    fn one_changed_byte_is_seen() {
        for (size, extra) in [(128usize, 0u16), (256, 32), (256, 0), (512, 28), (1024, 32)] {
            let mut raw = vec![3u8; size];
            let i = Inode {
                extra_isize: extra,
                ..sample()
            };
            i.encode_into(&mut raw, &P);
            inode_checksum_set(&mut raw, CsumSeed(5), Ino(12));
            assert!(inode_checksum_ok(&raw, CsumSeed(5), Ino(12)));
            assert!(!inode_checksum_ok(&raw, CsumSeed(5), Ino(13)));
            for at in 0..size {
                raw[at] ^= 1;
                let e = inode_checksum_verify(&raw, CsumSeed(5), Ino(12)).unwrap_err();
                assert_eq!(
                    (e.kind, e.ino),
                    (CorruptKind::InodeChecksum, Some(Ino(12))),
                    "{at}"
                );
                raw[at] ^= 1;
            }
        }
    }

    #[test]
    fn bad_extra_size_is_refused() {
        let mut raw = [0u8; 256];
        sample().encode_into(&mut raw, &P);
        for bad in [130u8, 3, 255] {
            raw[EXTRA_ISIZE_AT] = bad;
            assert_eq!(
                Inode::decode(&raw, &P).unwrap_err().kind,
                CorruptKind::InodeExtraSize
            );
        }
        assert_eq!(
            Inode::decode(&raw[..100], &P).unwrap_err().kind,
            CorruptKind::InodeShort
        );
    }

    #[test]
    fn symlink_and_device() {
        let mut i = Inode {
            mode: 0xa1ff,
            size: 5,
            flags: InodeFlags::empty(),
            ..sample()
        };
        assert_eq!(i.fast_symlink_target(), Some(&[0x5a; 5][..]));
        i.size = 60;
        assert_eq!(i.fast_symlink_target(), None);
        i.set_dev_no(DevNo {
            major: 300,
            minor: 70000,
        });
        assert_eq!(
            i.dev_no(),
            DevNo {
                major: 300,
                minor: 70000
            }
        );
    }
}

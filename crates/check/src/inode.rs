//! One inode: checksum, mode, flags, fields, times, size and block count.

use crate::context::Context;
use crate::inode_table::InodeState;
use crate::layout::is_hidden;
use crate::mapping::Mapped;
use crate::prelude::*;
use crate::scan::{DirFound, Scanner};
use uext4_ondisk::{EXTENT_MAGIC, EXTENT_ROOT_ENTRIES, Inode, inode_checksum_ok};

/// Byte of each time's base and extra word, and how much extra space the latter needs.
const TIMES: [(&str, usize, usize); 4] = [
    ("ctime", 0x0c, 0x84),
    ("mtime", 0x10, 0x88),
    ("atime", 0x08, 0x8c),
    ("crtime", 0x90, 0x94),
];

/// True if the file system was never written at a time that could be an inode number.
fn clock_is_right(cx: &Context<'_>) -> bool {
    let (raw, inodes) = (&cx.sb.raw, u64::from(cx.geo.inodes_count));
    let right = |time: u64| time == 0 || time >= inodes;
    raw.write_time() >= inodes && right(raw.mount_time()) && right(raw.mkfs_time())
}

impl Scanner<'_, '_> {
    /// Checks the inode with these bytes.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn check_inode(&mut self, ino: Ino, raw: &[u8]) -> Result<()> {
        let cx = self.cx;
        let (mode, links) = (le16(raw, 0).unwrap_or(0), le16(raw, 0x1a).unwrap_or(0));
        let special = ino < cx.geo.first_ino;
        if mode == 0 && links == 0 && raw.iter().all(|b| *b == 0) {
            if special {
                self.reserved(ino, raw, &Inode::default())?;
            }
            return Ok(());
        }
        if let Some(seed) = cx.seed
            && !inode_checksum_ok(raw, seed, ino)
        {
            self.faults
                .push(Fault::new(FaultKind::Structure(CorruptKind::InodeChecksum)).ino(ino));
        }
        if special {
            let inode = self.decode(ino, raw);
            return self.reserved(ino, raw, &inode);
        }
        let orphan = cx.is_orphan(ino);
        // Quota files and the orphan file are in use by the superblock's word.
        if links == 0 && !orphan && !is_hidden(cx, ino) {
            let dtime = le32(raw, 0x14).unwrap_or(0);
            if mode != 0 && dtime == 0 {
                self.faults
                    .push(Fault::new(FaultKind::InodeZeroDtime).ino(ino));
            } else if dtime != 0 && dtime < cx.geo.inodes_count && clock_is_right(cx) {
                self.faults.push(
                    Fault::new(FaultKind::InodeLostOrphan)
                        .ino(ino)
                        .detail(dtime),
                );
            }
            return Ok(());
        }
        let inode = self.decode(ino, raw);
        self.used(ino, raw, &inode, orphan)
    }

    fn decode(&mut self, ino: Ino, raw: &[u8]) -> Inode {
        match Inode::decode(raw, &self.cx.params) {
            Ok(inode) => inode,
            Err(e) => {
                let extra = e.kind == CorruptKind::InodeExtraSize;
                let fault = Fault::from(e.ino(ino));
                // The extra fields of these are unused.
                let unused = extra && is_hidden(self.cx, ino);
                self.faults.push(if unused { fault.note() } else { fault });
                let short = raw.get(..GOOD_OLD_INODE_SIZE).unwrap_or(raw);
                Inode::decode(short, &self.cx.params).unwrap_or_default()
            }
        }
    }

    /// Checks an inode in use that is not reserved, or is the root.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn used(&mut self, ino: Ino, raw: &[u8], inode: &Inode, orphan: bool) -> Result<()> {
        let file_type = inode.file_type();
        let mut bits = InodeState::USED;
        if orphan && inode.links == 0 {
            bits |= InodeState::ORPHAN;
        }
        if file_type == FileType::Regular && inode.flags.contains(InodeFlags::EA_INODE) {
            bits |= InodeState::VALUE;
        }
        if file_type == FileType::Directory && inode.flags.contains(InodeFlags::INDEX) {
            bits |= InodeState::HASHED;
        }
        if inode.flags.contains(InodeFlags::ENCRYPT) {
            bits |= InodeState::ENCRYPTED;
        }
        self.cx.inodes.set(ino, file_type, bits, inode.links as u16);
        self.count(file_type);
        self.usage.add(self.cx, ino, inode);
        if inode.dtime != 0 && !orphan {
            let fault = Fault::new(FaultKind::InodeDtime).ino(ino);
            self.faults.push(fault.detail(inode.dtime));
        }
        self.check_fields(ino, raw, inode);
        self.check_flags(ino, inode);
        let xattr_blocks = self.check_xattrs(ino, raw, inode)?;
        match file_type {
            FileType::Regular | FileType::Directory => {
                self.check_mapped(ino, raw, inode, xattr_blocks, orphan)
            }
            FileType::Symlink => self.check_symlink(ino, raw, inode, xattr_blocks),
            FileType::Unknown => {
                let detail = format!("{:#o}", inode.mode);
                self.faults
                    .push(Fault::new(FaultKind::InodeMode).ino(ino).detail(detail));
                Ok(())
            }
            _ => {
                self.check_special(ino, raw, inode, xattr_blocks);
                Ok(())
            }
        }
    }

    fn count(&mut self, file_type: FileType) {
        let n = match file_type {
            FileType::Regular => &mut self.counts.files,
            FileType::Directory => &mut self.counts.directories,
            FileType::Symlink => &mut self.counts.symlinks,
            _ => &mut self.counts.specials,
        };
        *n += 1;
        self.counts.inodes += 1;
    }

    /// Fields that must be zero, and times.
    pub(crate) fn check_fields(&mut self, ino: Ino, raw: &[u8], inode: &Inode) {
        let cx = self.cx;
        let lacks_translator = self.lacks_translator(inode);
        // Without a name these are never read.
        let unused = inode.flags.contains(InodeFlags::EA_INODE) || is_hidden(cx, ino);
        let mut zero = |value: u32, what: &str| {
            if value != 0 {
                let fault = Fault::new(FaultKind::InodeField).ino(ino);
                let fault = if unused { fault.note() } else { fault };
                self.faults
                    .push(fault.detail(format_args!("{what} is {value:#x}")));
            }
        };
        zero(le32(raw, 0x70).unwrap_or(0), "fragment address");
        if !cx.params.huge_file {
            zero(
                le16(raw, 0x74).unwrap_or(0).into(),
                "upper half of block count",
            );
        }
        if !cx.params.bit64 && !cx.params.hurd {
            zero(
                le16(raw, 0x76).unwrap_or(0).into(),
                "upper half of attribute block",
            );
        }
        if inode.file_type() == FileType::Directory && !cx.params.large_dir {
            zero(le32(raw, 0x6c).unwrap_or(0), "upper half of directory size");
        }
        if lacks_translator {
            zero(
                inode.translator,
                "block of a translator, which does not exist,",
            );
        }
        let fields_end = GOOD_OLD_INODE_SIZE + usize::from(inode.extra_isize);
        for (what, base, extra) in TIMES {
            if extra + 4 > fields_end {
                continue;
            }
            let (b, e) = (le32(raw, base).unwrap_or(0), le32(raw, extra).unwrap_or(0));
            // The kernel once wrote dates before 1970 so, which reads as the year 2310 and later.
            if b & 0x8000_0000 != 0 && e & 3 == 3 {
                self.faults
                    .push(Fault::new(FaultKind::InodeTime).ino(ino).detail(what));
            }
        }
    }

    /// Whether its translator is in a block that does not exist.
    fn lacks_translator(&self, inode: &Inode) -> bool {
        let at = Pblk(inode.translator.into());
        at != Pblk(0) && self.cx.geo.check_block(at).is_err()
    }

    /// Claims the block of a translator of GNU Hurd. Returns how many blocks it adds to the inode's count.
    pub(crate) fn translator_block(&mut self, ino: Ino, inode: &Inode) -> u64 {
        if inode.translator == 0 || self.lacks_translator(inode) {
            return 0;
        }
        self.claim(ino, Pblk(inode.translator.into()), 1);
        1
    }

    fn check_flags(&mut self, ino: Ino, inode: &Inode) {
        let (cx, flags, kind) = (self.cx, inode.flags, inode.file_type());
        let is_dir = kind == FileType::Directory;
        if flags.contains(InodeFlags::INDEX)
            && (!is_dir
                || !cx.sb.compat.contains(Compat::DIR_INDEX)
                || flags.contains(InodeFlags::INLINE_DATA))
        {
            self.faults.push(Fault::new(FaultKind::HtreeFlag).ino(ino));
        }
        self.check_lost_flag(ino, inode);
        let mut bad = InodeFlags::empty();
        if !cx.incompat(Incompat::EXTENT) {
            bad |= InodeFlags::EXTENTS;
        }
        if !cx.incompat(Incompat::INLINE_DATA) {
            bad |= InodeFlags::INLINE_DATA;
        }
        if !cx.sb.compat.contains(Compat::IMAGIC_INODES) {
            bad |= InodeFlags::IMAGIC;
        }
        if !is_dir || !cx.incompat(Incompat::CASEFOLD) {
            bad |= InodeFlags::CASEFOLD;
        }
        let plain = matches!(kind, FileType::Regular | FileType::Directory);
        if !plain {
            bad |= InodeFlags::IMMUTABLE | InodeFlags::APPEND;
        }
        if !plain && kind != FileType::Symlink {
            bad |= InodeFlags::EXTENTS | InodeFlags::INLINE_DATA;
        }
        let mut have = flags & bad;
        let both = InodeFlags::EXTENTS | InodeFlags::INLINE_DATA;
        if flags.contains(both) {
            have |= both;
        }
        if !have.is_empty() {
            let fault = Fault::new(FaultKind::InodeFlags).ino(ino);
            self.faults
                .push(fault.detail(format_args!("{:#x}", have.bits())));
        }
    }

    /// A root of extents in an inode that does not say so, and the reverse of what clusters need.
    fn check_lost_flag(&mut self, ino: Ino, inode: &Inode) {
        let kind = inode.file_type();
        let plain = matches!(kind, FileType::Regular | FileType::Directory);
        if !plain || inode.flags.contains(InodeFlags::EXTENTS) {
            return;
        }
        let word = |at| le16(&inode.i_block, at).unwrap_or(0);
        let (magic, entries, max) = (word(0), word(2), word(4));
        let root =
            magic == EXTENT_MAGIC && max.abs_diff(EXTENT_ROOT_ENTRIES) <= 2 && entries <= max;
        let mapped = !inode.flags.contains(InodeFlags::INLINE_DATA);
        let clusters = mapped && self.cx.ro_compat(RoCompat::BIGALLOC);
        if clusters || root && max > 0 && self.cx.incompat(Incompat::EXTENT) {
            let fault = Fault::new(FaultKind::InodeFlags).ino(ino);
            self.faults.push(fault.detail("extents without the flag"));
        }
    }

    /// A regular file or directory.
    fn check_mapped(
        &mut self,
        ino: Ino,
        raw: &[u8],
        inode: &Inode,
        xattr_blocks: u64,
        orphan: bool,
    ) -> Result<()> {
        let is_dir = inode.file_type() == FileType::Directory;
        let inline = inode.flags.contains(InodeFlags::INLINE_DATA);
        let first = self.dir_blocks.len();
        if inline {
            self.check_inline(ino, raw, inode);
            self.check_block_count(ino, inode, xattr_blocks);
        } else {
            let mapped = self.walk(ino, inode)?;
            self.counts.fragmented += u64::from(mapped.is_fragmented);
            if mapped.complete {
                self.check_block_count(ino, inode, mapped.blocks.saturating_add(xattr_blocks));
            }
            if !orphan {
                self.check_size(ino, inode, &mapped);
            }
        }
        if is_dir && !(orphan && inode.links == 0) {
            self.note_dir(ino, inode, first);
        }
        Ok(())
    }

    fn note_dir(&mut self, ino: Ino, inode: &Inode, first: usize) {
        let cx = self.cx;
        let size_blocks = inode.size >> cx.geo.block_bits;
        self.dirs.push(DirFound {
            ino,
            seed: cx.seed.map_or(InodeSeed(0), |s| inode.seed(s, ino)),
            size_blocks: u32::try_from(size_blocks).unwrap_or(u32::MAX),
            first,
            len: self.dir_blocks.len().saturating_sub(first),
            indexed: inode.flags.contains(InodeFlags::INDEX)
                && cx.sb.compat.contains(Compat::DIR_INDEX),
            inline: inode.flags.contains(InodeFlags::INLINE_DATA),
            encrypted: inode.flags.contains(InodeFlags::ENCRYPT),
            casefolded: inode.flags.contains(InodeFlags::CASEFOLD)
                && cx.incompat(Incompat::CASEFOLD),
        });
    }

    /// Compares the size with the blocks found.
    pub(crate) fn check_size(&mut self, ino: Ino, inode: &Inode, mapped: &Mapped) {
        if inode.file_type() == FileType::Regular {
            self.check_large(ino, inode.size);
        }
        let bits = self.cx.geo.block_bits;
        let mut bad = |why: &str| {
            let fault = Fault::new(FaultKind::InodeSize).ino(ino);
            let last = mapped.last.map_or("none".to_owned(), |l| l.to_string());
            let detail = format!("{} bytes, last block {last}: {why}", inode.size);
            self.faults.push(fault.detail(detail));
        };
        if inode.file_type() == FileType::Directory {
            let blocks = inode.size >> bits;
            if inode.size & ((1 << bits) - 1) != 0 {
                bad("not whole blocks");
            } else if mapped.last.is_some_and(|l| l >= blocks) {
                bad("blocks past the end");
            } else if mapped.complete && mapped.last.map_or(0, |l| l + 1) < blocks {
                bad("blocks are missing");
            }
            return;
        }
        let verity = inode.flags.contains(InodeFlags::VERITY);
        if !verity && mapped.last_written.is_some_and(|l| inode.size < l << bits) {
            bad("data past the end");
        }
        if inode.size
            > self
                .cx
                .file_size_max(inode.flags.contains(InodeFlags::EXTENTS))
        {
            bad("too large");
        }
    }

    /// A file of 2 GiB needs the feature.
    pub(crate) fn check_large(&mut self, ino: Ino, size: u64) {
        if size >= 1 << 31 && !self.cx.ro_compat(RoCompat::LARGE_FILE) {
            let fault = Fault::new(FaultKind::InodeSize).ino(ino);
            self.faults
                .push(fault.detail(format_args!("{size} bytes without large_file")));
        }
    }

    /// Compares the block count with what was found, in blocks of the file system.
    pub(crate) fn check_block_count(&mut self, ino: Ino, inode: &Inode, blocks: u64) {
        let want = blocks.saturating_mul(u64::from(self.cx.geo.block_size / 512));
        if inode.blocks != want {
            let fault = Fault::new(FaultKind::InodeBlocks).ino(ino);
            self.faults
                .push(fault.detail(format_args!("{}, not {want} sectors", inode.blocks)));
        }
    }
}

impl Context<'_> {
    /// The largest size of a regular file.
    pub(crate) fn file_size_max(&self, extents: bool) -> u64 {
        let bits = self.geo.block_bits;
        if extents {
            return ((1u64 << 32) << bits) - 1;
        }
        let per_block = u64::from(self.geo.block_size / 4);
        let blocks = 12 + per_block + per_block.pow(2) + per_block.pow(3);
        let limit = if self.params.huge_file {
            u64::MAX
        } else {
            (1 << 32) - 1
        };
        (blocks << bits).min(limit.saturating_mul(512))
    }
}

//! Extent trees and block maps: order, bounds, checksums, and a claim on every block.

use crate::prelude::*;
use crate::scan::{DirBlockFound, Scanner};
use uext4_ondisk::{
    Corrupt, Extent, ExtentCheck, ExtentNode, Generation, Inode, extent_block_checksum_verify,
};

/// Pointers of an inode that lead to data.
const DIRECT: usize = 12;

/// Bytes of an extent header and of an entry.
const EXTENT_HEADER: usize = 12;
const EXTENT_ENTRY: usize = 12;
/// Byte of the depth in an extent header.
const DEPTH_AT: usize = 6;

/// What a map covers.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) ino: Ino,
    generation: Generation,
    file_type: FileType,
    /// Blocks of data and of the tree itself.
    pub(crate) blocks: u64,
    /// The last block mapped.
    pub(crate) last: Option<u64>,
    /// The last block that is not unwritten.
    pub(crate) last_written: Option<u64>,
    /// Everything was seen; if not, there is a fault that says why.
    pub(crate) complete: bool,
    /// Its blocks do not follow one another on the device, holes counted; those of a block map are among the pointers.
    pub(crate) is_fragmented: bool,
    /// The cluster of the last block, of which more blocks may follow.
    last_cluster: Option<u64>,
    /// The last block, in the file and on the device.
    previous: Option<(u64, u64)>,
}

impl Mapped {
    /// Of an inode without blocks.
    pub(crate) fn nothing(ino: Ino) -> Self {
        Mapped {
            ino,
            generation: Generation(0),
            file_type: FileType::Unknown,
            blocks: 0,
            last: None,
            last_written: None,
            complete: true,
            is_fragmented: false,
            last_cluster: None,
            previous: None,
        }
    }

    /// Notes the place of blocks.
    fn place(&mut self, lblk: u64, pblk: Pblk, len: u64) {
        if let Some((last_lblk, last)) = self.previous {
            let distance = lblk.wrapping_sub(last_lblk);
            self.is_fragmented |= last.wrapping_add(distance) != pblk.0;
        }
        let rest = len.saturating_sub(1);
        self.previous = Some((lblk.wrapping_add(rest), pblk.0.wrapping_add(rest)));
    }
}

impl Scanner<'_, '_> {
    /// Walks and claims the blocks of an inode.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn walk(&mut self, ino: Ino, inode: &Inode) -> Result<Mapped> {
        let mut m = Mapped {
            generation: inode.generation,
            file_type: inode.file_type(),
            ..Mapped::nothing(ino)
        };
        if inode.flags.contains(InodeFlags::EXTENTS) {
            let root = ExtentCheck::root(self.cx.bounds());
            self.extent_node(&mut m, &inode.i_block, &root, None)?;
        } else {
            self.block_map(&mut m, &inode.i_block)?;
        }
        Ok(m)
    }

    fn bad_node(&mut self, m: &mut Mapped, e: Corrupt, at: Option<Pblk>) {
        m.complete = false;
        let e = e.ino(m.ino);
        self.faults.push(match at {
            Some(at) => e.pblk(at),
            None => e,
        });
    }

    fn extent_node(
        &mut self,
        m: &mut Mapped,
        bytes: &[u8],
        check: &ExtentCheck,
        at: Option<Pblk>,
    ) -> Result<()> {
        let node = match ExtentNode::validate(bytes, check) {
            Ok(node) => node,
            Err(e) => {
                self.bad_node(m, e, at);
                return Ok(());
            }
        };
        // Some kernels and tools leave room for one entry less; more than that is damage.
        let capacity = bytes.len().saturating_sub(EXTENT_HEADER) / EXTENT_ENTRY;
        if usize::from(node.max()) + 2 < capacity {
            let e = Corrupt::new(CorruptKind::ExtentMax).detail(node.max());
            self.bad_node(m, e, at);
        }
        if let Some(at) = at {
            self.check_first_key(m, &node, check, at);
        }
        if node.depth() == 0 {
            for e in node.extents() {
                self.extent(m, &e);
            }
            return Ok(());
        }
        for (i, idx) in node.indexes().enumerate() {
            let Some(child) = node.child_check(i, check) else {
                continue;
            };
            let fresh = self.claim(m.ino, idx.child, 1);
            m.blocks = m
                .blocks
                .saturating_add(u64::from(self.cx.geo.cluster_ratio));
            if !fresh {
                m.complete = false;
                continue;
            }
            self.extent_child(m, idx.child, &child)?;
        }
        Ok(())
    }

    fn check_first_key(
        &mut self,
        m: &Mapped,
        node: &ExtentNode<'_>,
        check: &ExtentCheck,
        at: Pblk,
    ) {
        let fault = |kind| Fault::new(kind).ino(m.ino).pblk(at);
        match node.lblk(0) {
            None => self.faults.push(fault(FaultKind::ExtentEmptyLeaf)),
            Some(first) if first != check.lblk_min => {
                let detail = format!("{first}, not {}", check.lblk_min);
                self.faults
                    .push(fault(FaultKind::ExtentIdxKey).detail(detail));
            }
            Some(_) => {}
        }
    }

    fn extent_child(&mut self, m: &mut Mapped, at: Pblk, check: &ExtentCheck) -> Result<()> {
        let mut block = self.take_buf();
        self.cx.view.read(at, &mut block)?;
        let seed = self.cx.seed.map(|seed| seed.inode(m.ino, m.generation));
        if let Some(seed) = seed
            && let Err(e) = extent_block_checksum_verify(&block, seed)
        {
            self.faults.push(e.ino(m.ino).pblk(at));
        }
        self.mend_depth(m, &mut block, check, at);
        self.extent_node(m, &block, check, Some(at))?;
        self.pool.push(block);
        Ok(())
    }

    /// The parent's word for a node's depth is as good as the node's own, which is noted if it differs.
    fn mend_depth(&mut self, m: &Mapped, block: &mut [u8], check: &ExtentCheck, at: Pblk) {
        let (Some(want), Some(have)) = (check.depth, block.get_mut(DEPTH_AT..DEPTH_AT + 2)) else {
            return;
        };
        let want = want.to_le_bytes();
        if have != want {
            let detail = le16(have, 0).unwrap_or(0);
            let kind = FaultKind::Structure(CorruptKind::ExtentDepth);
            let note = Fault::new(kind).note().ino(m.ino).pblk(at);
            self.faults.push(note.detail(detail));
            have.copy_from_slice(&want);
        }
    }

    fn extent(&mut self, m: &mut Mapped, e: &Extent) {
        let last = e.end().saturating_sub(1);
        m.last = m.last.max(Some(last));
        if !e.unwritten {
            m.last_written = m.last_written.max(Some(last));
        } else if matches!(m.file_type, FileType::Directory | FileType::Symlink) {
            let fault = Fault::new(FaultKind::ExtentUnwritten)
                .ino(m.ino)
                .pblk(e.pblk);
            self.faults
                .push(fault.detail(format_args!("file block {}", e.lblk)));
        }
        m.place(u64::from(e.lblk.0), e.pblk, u64::from(e.len));
        let mut fresh = self.data(m, e.pblk, u64::from(e.len));
        if !self.is_in_place(e) {
            fresh &= self.claim(m.ino, e.pblk, u64::from(e.len));
        }
        if m.file_type == FileType::Directory && fresh {
            for i in 0..u32::from(e.len) {
                self.dir_blocks.push(DirBlockFound {
                    pblk: Pblk(e.pblk.0.saturating_add(u64::from(i))),
                    lblk: Lblk(e.lblk.0.saturating_add(i)),
                });
            }
        }
        m.complete &= fresh;
    }

    /// Whether blocks have the place in their clusters that they have in those of the file. Others are claimed twice: they need
    /// clusters of their own.
    fn is_in_place(&self, e: &Extent) -> bool {
        let mask = u64::from(self.cx.geo.cluster_ratio) - 1;
        (e.pblk.0 ^ u64::from(e.lblk.0)) & mask == 0
    }

    /// Claims data blocks and counts them; a cluster counts once however many blocks of it follow.
    fn data(&mut self, m: &mut Mapped, at: Pblk, len: u64) -> bool {
        let ratio = u64::from(self.cx.geo.cluster_ratio);
        if ratio == 1 {
            m.blocks = m.blocks.saturating_add(len);
            return self.claim(m.ino, at, len);
        }
        let end = self
            .cx
            .cluster(Pblk(at.0.saturating_add(len.saturating_sub(1))));
        let mut first = self.cx.cluster(at);
        if m.last_cluster == Some(first) {
            first = first.saturating_add(1);
        }
        m.last_cluster = Some(end);
        let clusters = end.saturating_add(1).saturating_sub(first);
        m.blocks = m.blocks.saturating_add(clusters.saturating_mul(ratio));
        clusters == 0 || self.claim_clusters(m.ino, first, clusters)
    }

    fn block_map(&mut self, m: &mut Mapped, i_block: &[u8; 60]) -> Result<()> {
        let mut lblk = 0u64;
        for i in 0..15usize {
            let level = (i + 1).saturating_sub(DIRECT) as u32;
            let p = le32(i_block, i * 4).unwrap_or(0);
            self.pointer(m, p, level, &mut lblk, None)?;
        }
        Ok(())
    }

    /// Follows a pointer with `level` levels of pointers below it; `at` is the block that holds it.
    fn pointer(
        &mut self,
        m: &mut Mapped,
        p: u32,
        level: u32,
        lblk: &mut u64,
        at: Option<Pblk>,
    ) -> Result<()> {
        let per_block = u64::from(self.cx.geo.block_size / 4);
        let here = *lblk;
        let next = here.saturating_add(per_block.saturating_pow(level));
        if p == 0 {
            *lblk = next;
            return Ok(());
        }
        let block = Pblk(u64::from(p));
        if !self.cx.bounds().contains(block, 1) || here > u64::from(u32::MAX - 1) {
            let fault = Fault::new(FaultKind::MapBlock)
                .ino(m.ino)
                .pblk(at.unwrap_or(block));
            let detail = format!("file block {here} at {p}");
            self.faults.push(fault.detail(detail));
            (m.complete, *lblk) = (false, next);
            return Ok(());
        }
        if level == 0 {
            m.place(here, block, 1);
            let fresh = self.data(m, block, 1);
            if m.file_type == FileType::Directory && fresh {
                let lblk = Lblk(here as u32);
                self.dir_blocks.push(DirBlockFound { pblk: block, lblk });
            }
            m.complete &= fresh;
            (m.last, m.last_written, *lblk) = (Some(here), Some(here), next);
            return Ok(());
        }
        if m.ino == Ino::BAD_BLOCKS && self.cx.is_metadata(self.cx.cluster(block)) {
            // Blocks of metadata may be bad, but not those that name them.
            let fault = Fault::new(FaultKind::BlockIsMetadata);
            self.faults.push(fault.ino(m.ino).pblk(block));
        }
        // It is expected where the next block of the file would be, and that behind it.
        let before = m.previous.map_or(here, |(last, _)| last.wrapping_add(1));
        m.place(before, block, 1);
        m.previous = Some((here.wrapping_sub(1), block.0));
        let fresh = self.claim(m.ino, block, 1);
        m.blocks = m.blocks.saturating_add(1);
        if !fresh {
            (m.complete, *lblk) = (false, next);
            return Ok(());
        }
        self.pointer_block(m, block, level - 1, lblk)?;
        *lblk = next;
        Ok(())
    }

    fn pointer_block(
        &mut self,
        m: &mut Mapped,
        at: Pblk,
        level: u32,
        lblk: &mut u64,
    ) -> Result<()> {
        let mut block = self.take_buf();
        self.cx.view.read(at, &mut block)?;
        for entry in block.as_chunks::<4>().0 {
            self.pointer(m, u32::from_le_bytes(*entry), level, lblk, Some(at))?;
        }
        self.pool.push(block);
        Ok(())
    }
}

//! Extended attributes of an inode and of a block.

use crate::layout::is_hidden;
use crate::prelude::*;
use crate::scan::{Scanner, ValueRef};
use uext4_ondisk::{
    CONTEXT_NAME, EncryptionContext, Inode, UnknownContext, XattrIndex, XattrValue,
    xattr_entry_hash,
};

/// What is wrong with the encryption context in an area, if it has one. A context of a version or with flags that are not known is taken to be one.
fn context_fault(area: &XattrArea<'_>) -> Option<Option<UnknownContext>> {
    let entry = area.find(XattrIndex::ENCRYPTION, CONTEXT_NAME)?;
    let decoded = match entry.value {
        XattrValue::Inline(value) => EncryptionContext::decode(value).err(),
        XattrValue::Inode { .. } => None,
    };
    Some(decoded.filter(|unknown| matches!(unknown, UnknownContext::Length(_))))
}

impl Scanner<'_, '_> {
    /// Checks the attributes in an inode and notes its attribute block. Returns the blocks this
    /// adds to the inode's count.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn check_xattrs(&mut self, ino: Ino, raw: &[u8], inode: &Inode) -> Result<u64> {
        let mut blocks = self.translator_block(ino, inode);
        let encrypted = inode.flags.contains(InodeFlags::ENCRYPT)
            && !(self.cx.is_reserved(ino) && ino != Ino::ROOT);
        let mut context = None;
        if inode.extra_isize != 0 {
            match XattrArea::in_inode(raw) {
                Ok(Some(area)) => {
                    self.check_area(ino, &area, raw, None);
                    blocks = self.value_blocks(&area);
                    context = context_fault(&area);
                }
                Ok(None) => {}
                Err(e) => self.faults.push(e.ino(ino)),
            }
        }
        if inode.file_acl == Pblk(0) {
            if encrypted {
                self.check_context(ino, context);
            }
            return Ok(blocks);
        }
        let feature = self.cx.sb.compat.contains(Compat::EXT_ATTR);
        if !feature || !self.cx.bounds().contains(inode.file_acl, 1) {
            let fault = Fault::new(FaultKind::XattrBlock)
                .ino(ino)
                .pblk(inode.file_acl);
            // The attributes of the file system's own inodes are unused.
            let value = inode.flags.contains(InodeFlags::EA_INODE);
            let unused = (value || is_hidden(self.cx, ino))
                && self.cx.geo.check_block(inode.file_acl).is_err();
            self.faults.push(if unused { fault.note() } else { fault });
            return Ok(blocks);
        }
        self.xattr_blocks.push((inode.file_acl, ino));
        let mut block = self.take_buf();
        self.cx.view.read(inode.file_acl, &mut block)?;
        if let Ok(area) = XattrArea::in_block(&block) {
            blocks += self.value_blocks(&area);
            context = context.or(context_fault(&area));
        }
        if encrypted {
            self.check_context(ino, context);
        }
        self.pool.push(block);
        Ok(blocks + u64::from(self.cx.geo.cluster_ratio))
    }

    /// Notes that an encrypted inode has no context, or a damaged one.
    fn check_context(&mut self, ino: Ino, found: Option<Option<UnknownContext>>) {
        let fault = Fault::new(FaultKind::XattrContext).ino(ino);
        match found {
            None => self.faults.push(fault),
            Some(Some(unknown)) => self.faults.push(fault.detail(unknown)),
            Some(None) => {}
        }
    }

    /// Blocks of values in inodes of their own: each inode that has the attribute is charged.
    fn value_blocks(&self, area: &XattrArea<'_>) -> u64 {
        let ratio = u64::from(self.cx.geo.cluster_ratio);
        let cluster = u64::from(self.cx.geo.block_size) * ratio;
        let sizes = area.entries().map(|e| match e.value {
            XattrValue::Inline(_) => 0,
            XattrValue::Inode { size, .. } => u64::from(size).div_ceil(cluster) * ratio,
        });
        sizes.sum()
    }

    /// Checks hashes, values that overlap, and notes value inodes. The area ends where `bytes` do.
    pub(crate) fn check_area(
        &mut self,
        ino: Ino,
        area: &XattrArea<'_>,
        bytes: &[u8],
        at: Option<Pblk>,
    ) {
        let place = |f: Fault| match at {
            Some(at) => f.ino(ino).pblk(at),
            None => f.ino(ino),
        };
        if let Err(e) = area.verify_hashes() {
            self.faults.push(place(e.into()));
        }
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for e in area.entries() {
            if e.index == XattrIndex(0) && at.is_some() {
                self.faults.push(place(Fault::new(FaultKind::XattrName)));
            }
            match e.value {
                XattrValue::Inline([]) => {}
                XattrValue::Inline(value) => {
                    let start = value.as_ptr() as usize;
                    // Values take whole words.
                    spans.push((start, start.saturating_add(value.len().next_multiple_of(4))));
                }
                XattrValue::Inode { ino: value, size } => self.value_refs.push(ValueRef {
                    value,
                    owner: ino,
                    size,
                    hash: e.hash,
                    name_hash: xattr_entry_hash(e.name, &[]),
                }),
            }
        }
        spans.sort_unstable();
        let end = (bytes.as_ptr() as usize).saturating_add(bytes.len());
        let pairs = spans.iter().zip(spans.iter().skip(1));
        let overlap = spans.last().is_some_and(|last| last.1 > end)
            || pairs.into_iter().any(|(a, b)| b.0 < a.1);
        if overlap {
            self.faults.push(place(Fault::new(FaultKind::XattrOverlap)));
        }
    }
}

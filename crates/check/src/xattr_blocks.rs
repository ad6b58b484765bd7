//! After the scan: attribute blocks, which inodes may share, and inodes that hold values.

use crate::context::Context;
use crate::journal::read_inode;
use crate::parallel;
use crate::prelude::*;
use crate::scan::{Mode, Scanner, ValueRef};
use uext4_ondisk::{xattr_block_checksum_verify, xattr_refcount};

/// Attribute blocks that a worker takes at once.
const BATCH: usize = 64;

/// Bytes of an inode that a value inode uses for other ends.
const HASH_AT: usize = 0x08;
const REFCOUNT_HIGH_AT: usize = 0x0c;
const REFCOUNT_LOW_AT: usize = 0x24;

/// A block, its first owner, and how many inodes name it.
type Shared = (Pblk, Ino, u32);

/// The distinct blocks of a list of references.
pub(crate) fn distinct(mut refs: Vec<(Pblk, Ino)>) -> Vec<Shared> {
    refs.sort_unstable();
    let mut out: Vec<Shared> = Vec::new();
    for (pblk, ino) in refs {
        match out.last_mut() {
            Some(last) if last.0 == pblk => last.2 = last.2.saturating_add(1),
            _ => out.push((pblk, ino, 1)),
        }
    }
    out
}

/// Checks and claims every attribute block.
///
/// # Errors
/// The device's.
pub(crate) fn run<'c, 'd>(
    cx: &'c Context<'d>,
    blocks: &[Shared],
    mode: Mode<'c>,
) -> Result<Vec<Scanner<'c, 'd>>> {
    parallel::run(
        cx.threads,
        blocks.len().div_ceil(BATCH),
        || Scanner::new(cx, mode),
        |s, i| {
            let batch = blocks.chunks(BATCH).nth(i).unwrap_or(&[]);
            batch.iter().try_for_each(|b| s.check_xattr_block(*b))
        },
    )
}

impl Scanner<'_, '_> {
    fn check_xattr_block(&mut self, (at, ino, named): Shared) -> Result<()> {
        if !self.claim(ino, at, 1) {
            return Ok(());
        }
        let mut block = self.take_buf();
        self.cx.view.read(at, &mut block)?;
        if let Some(seed) = self.cx.seed
            && let Err(e) = xattr_block_checksum_verify(&block, seed, at)
        {
            self.faults.push(e.ino(ino));
        }
        match XattrArea::in_block(&block) {
            Err(e) => self.faults.push(e.ino(ino).pblk(at)),
            Ok(area) => {
                self.check_area(ino, &area, &block, Some(at));
                let count = xattr_refcount(&block).unwrap_or(0);
                if count != named {
                    let fault = Fault::new(FaultKind::XattrRefcount).ino(ino).pblk(at);
                    self.faults
                        .push(fault.detail(format_args!("{count}, not {named}")));
                }
            }
        }
        self.pool.push(block);
        Ok(())
    }
}

/// Checks that value inodes fit the attributes that name them. Returns the value inodes, sorted.
///
/// # Errors
/// The device's.
pub(crate) fn check_values(
    cx: &Context<'_>,
    refs: &mut [ValueRef],
    faults: &mut Faults,
) -> Result<Vec<Ino>> {
    refs.sort_unstable_by_key(|r| (r.value, r.owner));
    let mut values = Vec::new();
    for same in refs.chunk_by(|a, b| a.value == b.value) {
        let Some(first) = same.first() else {
            continue;
        };
        let value = first.value;
        let fault = |kind, why: &str| {
            let detail = format!("{why}, value inode {value}");
            Fault::new(kind).ino(first.owner).detail(detail)
        };
        let state = cx.inodes.state(value);
        if !state.used() || !state.value() {
            faults.push(fault(FaultKind::XattrValueInode, "not in use as one"));
            continue;
        }
        values.push(value);
        let Some(raw) = read_inode(&cx.view, &cx.geo, &cx.descs, value)? else {
            continue;
        };
        let word = |at| le32(&raw, at).unwrap_or(0);
        let size = u64::from(word(0x6c)) << 32 | u64::from(word(4));
        for r in same {
            let hash = r.name_hash.rotate_left(16) ^ word(HASH_AT);
            if u64::from(r.size) != size {
                // The attribute's word counts.
                faults.push(fault(FaultKind::XattrValueInode, "size differs").note());
            } else if r.hash != hash {
                faults.push(fault(FaultKind::XattrValueInode, "hash differs"));
            }
        }
        let count = u64::from(word(REFCOUNT_HIGH_AT)) << 32 | u64::from(word(REFCOUNT_LOW_AT));
        if count != same.len() as u64 {
            let why = format!("{count}, not {}", same.len());
            faults.push(fault(FaultKind::XattrInodeRefcount, &why));
        }
    }
    Ok(values)
}

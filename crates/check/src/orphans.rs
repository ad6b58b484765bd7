//! Orphans: inodes that the next mount deletes or truncates. Both the list through deletion times
//! and the orphan file are read.

use crate::context::Context;
use crate::filemap;
use crate::journal::read_inode;
use crate::prelude::*;
use std::collections::HashSet;
use uext4_ondisk::{Inode, orphan_block_verify, orphan_entries};

/// Where `i_dtime` is.
const DTIME_AT: usize = 0x14;

/// Collects every orphan, if journal replay must precede their deletion. Returns how many
/// there are.
///
/// # Errors
/// The device's.
pub(crate) fn collect(cx: &mut Context<'_>, faults: &mut Faults) -> Result<u64> {
    let mut found = HashSet::new();
    read_list(cx, &mut found, faults)?;
    read_file(cx, &mut found, faults)?;
    let mut list: Vec<Ino> = found.into_iter().collect();
    list.sort_unstable();
    let total = list.len() as u64;
    if cx.needs_recovery {
        cx.orphans = list;
    } else {
        // Nothing else is to be done before the next mount, so they are taken for what they are now.
        for ino in list {
            faults.push(Fault::new(FaultKind::OrphanPending).note().ino(ino));
        }
    }
    Ok(total)
}

fn valid(cx: &Context<'_>, ino: Ino) -> bool {
    ino >= cx.geo.first_ino && ino.0 <= cx.geo.inodes_count
}

fn read_list(cx: &Context<'_>, found: &mut HashSet<Ino>, faults: &mut Faults) -> Result<()> {
    let mut ino = cx.sb.last_orphan();
    while ino != Ino::NONE {
        if !valid(cx, ino) {
            faults.push(Fault::new(FaultKind::OrphanIno).note().ino(ino));
            return Ok(());
        }
        if !found.insert(ino) {
            faults.push(Fault::new(FaultKind::OrphanLoop).note().ino(ino));
            return Ok(());
        }
        let Some(raw) = read_inode(&cx.view, &cx.geo, &cx.descs, ino)? else {
            return Ok(());
        };
        ino = Ino(le32(&raw, DTIME_AT).unwrap_or(0));
    }
    Ok(())
}

fn read_file(cx: &Context<'_>, found: &mut HashSet<Ino>, faults: &mut Faults) -> Result<()> {
    let present = cx.ro_compat(RoCompat::ORPHAN_PRESENT);
    if !cx.sb.compat.contains(Compat::ORPHAN_FILE) {
        if present {
            faults.push(Fault::new(FaultKind::OrphanFile).detail("feature without orphan_file"));
        }
        return Ok(());
    }
    let ino = Ino(cx.sb.raw.orphan_file_inum.get());
    let unusable = |why: &str| Fault::new(FaultKind::OrphanFile).ino(ino).detail(why);
    let Some(raw) = read_inode(&cx.view, &cx.geo, &cx.descs, ino)? else {
        faults.push(unusable("inode is out of range"));
        return Ok(());
    };
    let Ok(inode) = Inode::decode(&raw, &cx.params) else {
        return Ok(());
    };
    if inode.file_type() != FileType::Regular || inode.links == 0 {
        faults.push(unusable("not a regular file"));
        return Ok(());
    }
    let (runs, _) = filemap::load(&cx.view, &cx.geo, &inode)?;
    let seed = cx.seed.map(|s| inode.seed(s, ino));
    let blocks = inode.size >> cx.geo.block_bits;
    if inode.size == 0 || inode.size & u64::from(cx.geo.block_size - 1) != 0 {
        faults.push(unusable("size is not whole blocks"));
    }
    let before = found.len();
    let mut block = vec![0; cx.block_size()];
    for l in 0..u32::try_from(blocks.min(cx.geo.blocks_count)).unwrap_or(u32::MAX) {
        let Some(at) = filemap::find(&runs, Lblk(l)) else {
            faults.push(unusable("has a hole"));
            return Ok(());
        };
        cx.view.read(at, &mut block)?;
        if let Err(e) = orphan_block_verify(&block, seed, at) {
            faults.push(e.ino(ino));
            continue;
        }
        for (_, orphan) in orphan_entries(&block) {
            if !valid(cx, orphan) {
                faults.push(Fault::new(FaultKind::OrphanIno).ino(orphan).pblk(at));
            } else {
                found.insert(orphan);
            }
        }
    }
    if !cx.needs_recovery && present != (found.len() > before) {
        let detail = if present { "holds none" } else { "not marked" };
        let fault = Fault::new(FaultKind::OrphanPresent).ino(ino);
        faults.push(fault.detail(detail));
    }
    Ok(())
}

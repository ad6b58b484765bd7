//! Link counts: as many names as each inode says.

use crate::context::Context;
use crate::layout::is_hidden;
use crate::prelude::*;
use uext4_ondisk::quota_inodes;

/// Links above which a directory says 1.
const LINK_MAX: u32 = 65000;

/// Links that an inode has. Names of the value of an attribute, which are noted, do not count.
pub(crate) fn wanted(cx: &Context<'_>, ino: Ino, values: &[Ino]) -> u32 {
    match cx.inodes.state(ino).value() && values.binary_search(&ino).is_ok() {
        true => 1,
        false => cx.inodes.found(ino),
    }
}

/// Checks every inode; `values` are the inodes that hold attribute values, sorted.
pub(crate) fn run(cx: &Context<'_>, values: &[Ino], faults: &mut Faults) {
    cx.progress.phase("links", u64::from(cx.geo.inodes_count));
    for (kind, ino) in quota_inodes(&cx.sb.raw) {
        let what = kind.name();
        let ordinary = ino == Ino::ROOT || !cx.is_reserved(ino);
        if ino != Ino::NONE && ordinary && cx.inodes.found(ino) > 0 {
            let fault = Fault::new(FaultKind::QuotaInode).ino(ino);
            faults.push(fault.detail(format_args!("{what} quota file has a name")));
        }
    }
    for ino in cx.inodes.unsettled().skip_while(|ino| *ino < Ino::ROOT) {
        let state = cx.inodes.state(ino);
        if !state.used() || state.orphan() || (cx.is_reserved(ino) && ino != Ino::ROOT) {
            continue;
        }
        if cx.inodes.found(ino) == 0 && is_hidden(cx, ino) {
            continue;
        }
        let (links, found) = (u32::from(cx.inodes.links(ino)), wanted(cx, ino, values));
        if found == links {
            continue;
        }
        let is_dir = state.file_type() == FileType::Directory;
        if found == 0 {
            faults.push(Fault::new(FaultKind::Unattached).ino(ino));
            continue;
        }
        // Once a directory had too many links to count, it says 1 for good; then it is hashed.
        let many = cx.ro_compat(RoCompat::DIR_NLINK) && found > LINK_MAX;
        if is_dir && links == 1 && (state.hashed() || many) {
            continue;
        }
        let fault = Fault::new(FaultKind::LinkCount).ino(ino);
        faults.push(fault.detail(format_args!("is {links}, not {found}")));
    }
    cx.progress.advance(u64::from(cx.geo.inodes_count));
}

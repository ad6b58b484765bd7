//! The first pass: superblock, group descriptors, and the places of fixed metadata.

use crate::context::{Context, MetaRange};
use crate::error::{CheckError, Result};
use crate::fault::{Fault, FaultKind, Faults};
use crate::view::View;
use uext4_block::BlockDevice;
use uext4_ondisk::{
    Compat, FormatError, Geometry, GroupCsum, GroupDesc, GroupFlags, GroupNo, Incompat, Mmp, Pblk,
    RawSuperblock, RoCompat, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock,
};

/// Reads the superblock; `None` if its geometry is damaged, which is a fault.
///
/// # Errors
/// The device's, and what makes a check impossible.
pub(crate) fn superblock(
    device: &dyn BlockDevice,
    view: Option<&View<'_>>,
    faults: &mut Faults,
) -> Result<Option<Superblock>> {
    if device.len() < SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE as u64 {
        return Err(FormatError::Short(device.len() as usize).into());
    }
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    match view {
        Some(view) => read_through(view, &mut bytes)?,
        None => device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?,
    }
    let parsed = match Superblock::parse(&bytes) {
        Err(e @ FormatError::Checksum { .. }) => {
            faults.push(Fault::new(FaultKind::SuperblockChecksum).detail(e));
            match RawSuperblock::mut_from(&mut bytes) {
                Some(raw) => Superblock::from_raw(raw.clone()),
                None => return Err(FormatError::Short(bytes.len()).into()),
            }
        }
        other => other,
    };
    match parsed {
        Ok(sb) => Ok(Some(sb)),
        Err(e @ FormatError::BadGeometry { .. }) => {
            faults.push(Fault::new(FaultKind::SuperblockGeometry).detail(e));
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

/// The superblock's bytes as replay would leave them.
fn read_through(view: &View<'_>, bytes: &mut [u8]) -> Result<()> {
    // Blocks of 1 KiB keep it in block 1, larger ones in block 0 from byte 1024 on.
    let size = view.block_size();
    let mut block = vec![0; size];
    let (at, from) = if size == 1024 { (1, 0) } else { (0, 1024) };
    view.read(Pblk(at), &mut block)?;
    if let Some(part) = block.get(from..from + SUPERBLOCK_SIZE) {
        bytes.copy_from_slice(part);
    }
    Ok(())
}

/// Refuses what can't be checked, and checks the superblock's own fields.
///
/// # Errors
/// [`CheckError::Unsupported`].
pub(crate) fn check_fields(sb: &Superblock, faults: &mut Faults) -> Result<()> {
    let unknown = sb.ro_compat.difference(RoCompat::all());
    if !unknown.is_empty() {
        return Err(CheckError::Unsupported(unknown.describe()));
    }
    let unknown = sb.compat.difference(Compat::all());
    if !unknown.is_empty() {
        return Err(CheckError::Unsupported(unknown.describe()));
    }
    let (raw, geo) = (&sb.raw, &sb.geometry);
    let mut check = |ok: bool, what: &str, value: u64| {
        if !ok {
            let detail = format!("{what} is {value}");
            faults.push(Fault::new(FaultKind::SuperblockField).detail(detail));
        }
    };
    let reserved = sb.raw.reserved_blocks_count();
    check(
        reserved <= geo.blocks_count / 2,
        "reserved block count",
        reserved,
    );
    let last = sb.last_orphan().0;
    check(last <= geo.inodes_count, "last orphan", last.into());
    if raw.rev_level.get() > 0 && geo.inode_size > 128 {
        let room = u32::from(geo.inode_size) - 128;
        for (what, v) in [
            ("minimum extra inode size", raw.min_extra_isize.get()),
            ("wanted extra inode size", raw.want_extra_isize.get()),
        ] {
            let ok = v == 0 || (v % 4 == 0 && u32::from(v) <= room);
            check(ok, what, v.into());
        }
    }
    let flex = raw.log_groups_per_flex;
    check(
        flex <= 31,
        "logarithm of groups per flex group",
        flex.into(),
    );
    let desc = raw.desc_size.get();
    let fits = desc == 0 || (desc.is_power_of_two() && desc <= 1024);
    check(fits, "descriptor size", desc.into());
    let reserved_gdt = raw.reserved_gdt_blocks.get();
    let resize = sb.compat.contains(Compat::RESIZE_INODE);
    check(
        resize || reserved_gdt == 0,
        "reserved descriptor block count without resize_inode",
        reserved_gdt.into(),
    );
    let both = sb
        .ro_compat
        .contains(RoCompat::METADATA_CSUM | RoCompat::GDT_CSUM);
    check(!both, "metadata_csum and uninit_bg at once", 1);
    let meta_resize = geo.meta_bg && resize;
    check(!meta_resize, "meta_bg and resize_inode at once", 1);
    Ok(())
}

/// True if the device holds all of the file system.
pub(crate) fn fits_device(sb: &Superblock, device_len: u64, faults: &mut Faults) -> bool {
    let want = sb
        .geometry
        .blocks_count
        .saturating_mul(u64::from(sb.geometry.block_size));
    if want <= device_len {
        return true;
    }
    let detail = format!("{want} bytes, device has {device_len}");
    faults.push(Fault::new(FaultKind::DeviceTooSmall).detail(detail));
    false
}

/// Reads every descriptor, unchecked.
///
/// # Errors
/// The device's.
pub(crate) fn read_descs(view: &View<'_>, geo: &Geometry) -> Result<Vec<(GroupDesc, Vec<u8>)>> {
    let mut out = Vec::new();
    let mut block = vec![0; geo.block_size as usize];
    for nr in 0..geo.desc_blocks {
        let at = geo.desc_block(nr);
        if !geo.contains_blocks(at, 1) {
            block.fill(0);
        } else {
            view.read(at, &mut block)?;
        }
        for bytes in block.chunks_exact(usize::from(geo.desc_size)) {
            if out.len() < geo.groups_count as usize {
                out.push((GroupDesc::decode(bytes).unwrap_or_default(), bytes.to_vec()));
            }
        }
    }
    Ok(out)
}

/// Checks the descriptors and claims all fixed metadata.
///
/// # Errors
/// The device's.
pub(crate) fn check(
    cx: &mut Context<'_>,
    descs: Vec<(GroupDesc, Vec<u8>)>,
    faults: &mut Faults,
) -> Result<()> {
    let csum = GroupCsum::of(&cx.sb);
    for (n, (desc, bytes)) in descs.into_iter().enumerate() {
        let group = GroupNo(n as u32);
        if let Err(e) = csum.verify_desc(group, &bytes) {
            faults.push(Fault::from(e).group(group));
        }
        let usable = check_desc(cx, group, &desc, faults);
        cx.descs.push(desc);
        cx.usable.push(usable);
    }
    let mut ranges = Vec::new();
    for g in 0..cx.geo.groups_count {
        group_ranges(cx, GroupNo(g), &mut ranges);
    }
    if cx.incompat(Incompat::MMP) {
        check_mmp(cx, &mut ranges, faults)?;
    }
    claim(cx, &ranges, faults);
    cx.metadata = cx.claimed.to_bytes();
    ranges.sort_by_key(|r| (r.start, r.end));
    cx.ranges = ranges;
    Ok(())
}

/// True if the places are in the file system.
fn check_desc(cx: &Context<'_>, group: GroupNo, desc: &GroupDesc, faults: &mut Faults) -> bool {
    let geo = &cx.geo;
    let counts = GroupDesc {
        free_blocks: 0,
        free_inodes: 0,
        itable_unused: desc.itable_unused,
        ..*desc
    };
    if let Err(e) = counts.validate(geo, group) {
        let unused = e.kind == uext4_ondisk::CorruptKind::GroupDescUnusedInodes;
        faults.push(Fault::from(e).group(group).detail("group descriptor"));
        return unused;
    }
    if !cx.incompat(Incompat::FLEX_BG) {
        let first = geo.group_first_block(group).0;
        let end = first + u64::from(geo.blocks_in_group(group));
        let itable_end = desc.inode_table.0 + u64::from(geo.itable_blocks_per_group);
        for (at, end_at) in [
            (desc.block_bitmap.0, desc.block_bitmap.0 + 1),
            (desc.inode_bitmap.0, desc.inode_bitmap.0 + 1),
            (desc.inode_table.0, itable_end),
        ] {
            if at < first || end_at > end {
                let fault = Fault::new(FaultKind::GroupMetadataPlace);
                faults.push(fault.group(group).pblk(Pblk(at)));
            }
        }
    }
    check_uninit(cx, group, desc, faults);
    true
}

fn check_uninit(cx: &Context<'_>, group: GroupNo, desc: &GroupDesc, faults: &mut Faults) {
    let uninit = GroupFlags::BLOCK_UNINIT | GroupFlags::INODE_UNINIT;
    let without =
        !cx.sb.has_group_csum() && (desc.flags.intersects(uninit) || desc.itable_unused != 0);
    let last = group.0 + 1 == cx.geo.groups_count && desc.flags.contains(GroupFlags::BLOCK_UNINIT);
    if without || last {
        let fault = Fault::new(FaultKind::GroupUninit).group(group);
        faults.push(fault.detail(if last {
            "last group"
        } else {
            "no group checksums"
        }));
    }
}

/// The fixed metadata of a group, wherever it lies.
fn group_ranges(cx: &Context<'_>, group: GroupNo, out: &mut Vec<MetaRange>) {
    let geo = &cx.geo;
    let first = geo.group_first_block(group).0;
    let base = u64::from(geo.base_meta_blocks(group));
    let mut push = |start: u64, len: u64, what| {
        let end = start.saturating_add(len);
        if len > 0 {
            out.push(MetaRange {
                start,
                end,
                what,
                group,
            });
        }
    };
    push(first, base, "superblock or descriptors");
    if let Some(d) = cx.desc(group) {
        push(d.block_bitmap.0, 1, "block bitmap");
        push(d.inode_bitmap.0, 1, "inode bitmap");
        let len = u64::from(geo.itable_blocks_per_group);
        push(d.inode_table.0, len, "inode table");
    }
}

/// Claims metadata; with clusters, neighbours may share one.
fn claim(cx: &Context<'_>, ranges: &[MetaRange], faults: &mut Faults) {
    for r in ranges {
        let end = r.end.min(cx.geo.blocks_count);
        if end < r.end {
            let fault = Fault::new(FaultKind::MetadataNotMapped).group(r.group);
            faults.push(fault.pblk(Pblk(r.start)).detail(r.what));
        }
        if r.start >= end {
            continue;
        }
        let (a, b) = (cx.cluster(Pblk(r.start)), cx.cluster(Pblk(end - 1)));
        let mut first = None;
        cx.claimed.claim(a, b - a + 1, |c| {
            first.get_or_insert(c);
        });
        if let Some(c) = first.filter(|_| cx.geo.cluster_ratio == 1) {
            let fault = Fault::new(FaultKind::MetadataOverlap).group(r.group);
            faults.push(fault.pblk(cx.cluster_block(c)).detail(r.what));
        }
    }
}

fn check_mmp(cx: &Context<'_>, ranges: &mut Vec<MetaRange>, faults: &mut Faults) -> Result<()> {
    let at = Pblk(cx.sb.raw.mmp_block.get());
    if !cx.geo.contains_blocks(at, 1) {
        faults.push(Fault::new(FaultKind::MmpBlock).pblk(at));
        return Ok(());
    }
    let mut block = vec![0; cx.block_size()];
    cx.view.read(at, &mut block)?;
    if let Err(e) = Mmp::parse(&block, cx.seed) {
        faults.push(e.pblk(at));
    }
    ranges.push(MetaRange {
        start: at.0,
        end: at.0 + 1,
        what: "mmp block",
        group: GroupNo(0),
    });
    Ok(())
}

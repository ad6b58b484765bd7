//! The first pass: superblock, group descriptors, and the places of fixed metadata.

use crate::bitmap::Runs;
use crate::context::{Context, MetaRange};
use crate::prelude::*;
use crate::view::View;
use std::time::{SystemTime, UNIX_EPOCH};
use uext4_ondisk::{
    ENCODING_UTF8_12_1, FormatError, GroupCsum, GroupFlags, Mmp, RawSuperblock, SUPERBLOCK_OFFSET,
    SUPERBLOCK_SIZE, quota_inodes,
};

/// The last sequence number of a mounted file system, and the mark of an unmounted one.
const MMP_SEQ_MAX: u32 = 0xe24d_4d4f;
const MMP_CLEAN: u32 = 0xff4d_4d50;
/// What a group's part of the inode table is called.
pub(crate) const INODE_TABLE: &str = "inode table";
/// What the front of a group holds.
pub(crate) const SUPER_OR_DESCS: &str = "superblock or descriptors";
/// Seconds that clocks may differ.
const CLOCK_SLACK: u64 = 86_400;

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
    refuse_features(sb)?;
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
    if !sb.ro_compat.contains(RoCompat::BIGALLOC) {
        let clusters = raw.clusters_per_group.get();
        check(
            clusters == raw.blocks_per_group.get(),
            "clusters per group",
            clusters.into(),
        );
        let log = raw.log_cluster_size.get();
        check(
            log == raw.log_block_size.get(),
            "logarithm of the cluster size",
            log.into(),
        );
    }
    let meta_resize = geo.meta_bg && resize;
    check(!meta_resize, "meta_bg and resize_inode at once", 1);
    note_oddities(sb, faults);
    Ok(())
}

/// Features that no released tool knows, and encodings of names.
fn refuse_features(sb: &Superblock) -> Result<()> {
    let never = RoCompat::BTREE_DIR | RoCompat::SNAPSHOT | RoCompat::REPLICA;
    let unknown = sb.ro_compat.difference(RoCompat::all().difference(never));
    if !unknown.is_empty() {
        return Err(CheckError::Unsupported(unknown.describe()));
    }
    let never = Compat::LAZY_BG | Compat::SNAPSHOT_BITMAP;
    let unknown = sb.compat.difference(Compat::all().difference(never));
    if !unknown.is_empty() {
        return Err(CheckError::Unsupported(unknown.describe()));
    }
    let encoding = sb.raw.encoding.get();
    if sb.incompat.contains(Incompat::CASEFOLD) && encoding != ENCODING_UTF8_12_1 {
        let what = format!("names in encoding {encoding}");
        return Err(CheckError::Unsupported(what));
    }
    Ok(())
}

/// What e2fsck offers to mend without calling the file system damaged.
fn note_oddities(sb: &Superblock, faults: &mut Faults) {
    let raw = &sb.raw;
    let mut note = |kind, detail: String| faults.push(Fault::new(kind).note().detail(detail));
    if sb.incompat.contains(Incompat::CSUM_SEED) && !sb.has_metadata_csum() {
        let detail = "metadata_csum_seed without metadata_csum";
        note(FaultKind::SuperblockField, detail.to_owned());
    }
    let both = RoCompat::METADATA_CSUM | RoCompat::GDT_CSUM;
    if sb.ro_compat.contains(both) {
        let detail = "metadata_csum and uninit_bg at once";
        note(FaultKind::SuperblockField, detail.to_owned());
    }
    let room = u32::from(sb.geometry.inode_size).saturating_sub(128);
    for (what, v) in [
        ("minimum extra inode size", raw.min_extra_isize.get()),
        ("wanted extra inode size", raw.want_extra_isize.get()),
    ] {
        let ok = v == 0 || room == 0 || (v % 4 == 0 && u32::from(v) <= room);
        if !ok {
            note(FaultKind::SuperblockField, format!("{what} is {v}"));
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let latest = now.map_or(u64::MAX, |d| d.as_secs().saturating_add(CLOCK_SLACK));
    for (what, time) in [
        ("write time", u64::from(raw.wtime.get())),
        ("mount time", u64::from(raw.mtime.get())),
    ] {
        if time > latest {
            note(FaultKind::SuperblockTime, format!("{what} is {time}"));
        }
    }
    for (kind, ino) in quota_inodes(raw) {
        let what = kind.name();
        let reserved = ino.0 < sb.geometry.first_ino.0 && ino.0 != 3 && ino.0 != 4;
        if ino != Ino::NONE && (reserved || ino.0 > sb.geometry.inodes_count) {
            note(FaultKind::QuotaInode, format!("{what} quota in {ino}"));
        }
    }
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
    let clusters = |r: &MetaRange| {
        let end = r.end.min(cx.geo.blocks_count);
        let last = end.checked_sub(1).filter(|last| *last >= r.start)?;
        Some((cx.cluster(Pblk(r.start)), cx.cluster(Pblk(last)) + 1))
    };
    cx.metadata = Runs::new(ranges.iter().filter_map(clusters));
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
        faults.push(if without {
            fault.note().detail("no group checksums")
        } else {
            fault.detail("last group")
        });
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
    push(first, base, SUPER_OR_DESCS);
    if let Some(d) = cx.desc(group) {
        push(d.block_bitmap.0, 1, "block bitmap");
        push(d.inode_bitmap.0, 1, "inode bitmap");
        let len = u64::from(geo.itable_blocks_per_group);
        push(d.inode_table.0, len, INODE_TABLE);
    }
}

/// Reports blocks that two kinds of metadata are in, where those may share clusters.
fn check_overlaps(ranges: &[MetaRange], faults: &mut Faults) {
    let mut sorted: Vec<&MetaRange> = ranges.iter().filter(|r| r.start < r.end).collect();
    sorted.sort_by_key(|r| (r.start, r.end));
    let mut end = 0;
    for r in sorted {
        if r.start < end {
            let fault = Fault::new(FaultKind::MetadataOverlap).group(r.group);
            faults.push(fault.pblk(Pblk(r.start)).detail(r.what));
        }
        end = end.max(r.end);
    }
}

/// Claims metadata; with clusters, neighbours may share one.
fn claim(cx: &Context<'_>, ranges: &[MetaRange], faults: &mut Faults) {
    if cx.geo.cluster_ratio > 1 {
        check_overlaps(ranges, faults);
    }
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
    match Mmp::parse(&block, cx.seed) {
        Err(e) => faults.push(e.pblk(at)),
        Ok(mmp) if mmp.seq > MMP_SEQ_MAX && mmp.seq != MMP_CLEAN => {
            faults.push(Fault::new(FaultKind::MmpInUse).pblk(at).detail(mmp.seq));
        }
        Ok(_) => {}
    }
    ranges.push(MetaRange {
        start: at.0,
        end: at.0 + 1,
        what: "mmp block",
        group: GroupNo(0),
    });
    Ok(())
}

/// True for an inode without a name by design.
pub(crate) fn is_hidden(cx: &Context<'_>, ino: Ino) -> bool {
    let raw = &cx.sb.raw;
    if cx.sb.orphan_file() == Some(ino) || cx.is_reserved(ino) && ino != Ino::ROOT {
        return true;
    }
    cx.ro_compat(RoCompat::QUOTA) && quota_inodes(raw).iter().any(|q| q.1 == ino)
}

//! The order of the passes, and the report.

use crate::bitmap::ClaimBitmap;
use crate::context::Context;
use crate::dir_pass;
use crate::dirs::Dirs;
use crate::inode_table::InodeTable;
use crate::prelude::*;
use crate::quota::Usage;
use crate::report::{CheckOptions, CheckReport, Progress};
use crate::scan::{self, Counts, Mode, Scanner, ValueRef};
use crate::view::View;
use crate::{
    backups, bitmaps, connect, duplicates, htree, journal, layout, links, names, orphans, quota,
    xattr_blocks,
};
use uext4_ondisk::STATE_ERROR;

/// Checks everything of the ext4 file system on a device, and changes nothing.
///
/// # Errors
/// Only what makes a check impossible: the device fails, there is no ext4, or it has a feature that
/// can't be checked. Anything wrong with the image is a fault in the report.
pub fn check(
    device: &dyn BlockDevice,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let mut faults = Faults::new(options.faults_max);
    let examined = examine(
        device,
        options,
        progress,
        &mut report,
        &mut faults,
        None,
        &mut |_, _, _| false,
    )?;
    report.incomplete = examined.cx.is_none();
    report.take(faults);
    Ok(report)
}

/// How far a check has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Superblock, descriptors and journal.
    Superblock,
    /// Orphans, and backups of the superblock.
    Orphans,
    /// Inodes, their blocks and attributes.
    Inodes,
    /// Blocks of directories and hash trees.
    Directories,
    /// Connectivity and link counts.
    Links,
    /// Bitmaps, counters and quota.
    Groups,
}

/// What the scan of the inodes leaves for later passes.
pub(crate) struct Scanned {
    pub(crate) usage: Usage,
    pub(crate) dirs: Dirs,
    counts: Counts,
    pub(crate) values: Vec<Ino>,
    /// Directories that ignore case.
    pub(crate) folding: Vec<Ino>,
    /// References to values in inodes.
    pub(crate) value_refs: Vec<ValueRef>,
    /// Clusters that were claimed more than once.
    pub(crate) duplicates: Vec<u64>,
    /// Attribute blocks: first owner and how many inodes name it.
    pub(crate) xattr_blocks: Vec<(Pblk, Ino, u32)>,
}

/// What a check knows after its last stage.
pub(crate) struct Examined<'d> {
    pub(crate) stage: Stage,
    /// Without it, superblock or descriptors are too damaged for any later stage.
    pub(crate) cx: Option<Context<'d>>,
    /// After the stage of the inodes; the directories are dropped before the stage of the groups.
    pub(crate) scanned: Option<Scanned>,
}

/// What a check found out about the files of an image, for the next check after a change of bitmaps and counters.
pub(crate) struct KnownFiles {
    geo: Geometry,
    /// Of each group.
    places: Vec<GroupPlaces>,
    claimed: ClaimBitmap,
    inodes: InodeTable,
    orphans: Vec<Ino>,
    scanned: Scanned,
    report: CheckReport,
}

/// Block bitmap, inode bitmap, inode table, and how many of its inodes were ever used.
type GroupPlaces = (Pblk, Pblk, Pblk, u32);

fn places(cx: &Context<'_>) -> Vec<GroupPlaces> {
    let descs = (0..).map(GroupNo).zip(&cx.descs);
    let of_group = descs.map(|(group, d)| {
        let used = cx.inodes_in_use_max(group);
        (d.block_bitmap, d.inode_bitmap, d.inode_table, used)
    });
    of_group.collect()
}

impl KnownFiles {
    /// `None` before the last stage.
    pub(crate) fn of(examined: Examined<'_>, report: &CheckReport) -> Option<KnownFiles> {
        let (cx, scanned) = (examined.cx?, examined.scanned?);
        (examined.stage == Stage::Groups).then_some(KnownFiles {
            places: places(&cx),
            geo: cx.geo,
            claimed: cx.claimed,
            inodes: cx.inodes,
            orphans: cx.orphans,
            scanned,
            report: report.clone(),
        })
    }

    /// True if the image has the same inodes in the same places.
    fn are_of(&self, cx: &Context<'_>) -> bool {
        self.geo == cx.geo && self.places == places(cx)
    }

    fn give_back(self, cx: &mut Context<'_>, done: &mut Examined<'_>, report: &mut CheckReport) {
        (cx.claimed, cx.inodes, cx.orphans) = (self.claimed, self.inodes, self.orphans);
        done.scanned = Some(self.scanned);
        report.orphans = self.report.orphans;
        report.inodes_used = self.report.inodes_used;
        report.files = self.report.files;
        report.directories = self.report.directories;
        report.symlinks = self.report.symlinks;
        report.specials = self.report.specials;
        report.fragmented = self.report.fragmented;
    }
}

/// Runs the stages in order, and ends after one at which `stop` returns true. With what is `known` of the image's files, those of files are
/// left out.
///
/// # Errors
/// As [`check`].
pub(crate) fn examine<'d>(
    device: &'d dyn BlockDevice,
    options: &CheckOptions,
    progress: &'d dyn Progress,
    report: &mut CheckReport,
    faults: &mut Faults,
    known: Option<KnownFiles>,
    stop: &mut dyn FnMut(Stage, &Faults, &CheckReport) -> bool,
) -> Result<Examined<'d>> {
    progress.phase("superblock", 1);
    let mut done = Examined {
        stage: Stage::Superblock,
        cx: None,
        scanned: None,
    };
    let Some(mut cx) = prepare(device, options, progress, report, faults)? else {
        return Ok(done);
    };
    report.block_size = cx.geo.block_size;
    report.inodes_total = cx.geo.inodes_count.into();
    report.blocks_total = cx.geo.blocks_count;
    report.first_block = cx.geo.first_data_block.into();
    report.errors_recorded =
        cx.sb.raw.state.get() & STATE_ERROR != 0 || cx.sb.raw.error_count.get() != 0;
    if stop(Stage::Superblock, faults, report) {
        done.cx = Some(cx);
        return Ok(done);
    }
    let known = known.filter(|known| known.are_of(&cx));
    done.stage = Stage::Orphans;
    if known.is_none() {
        report.orphans = orphans::collect(&mut cx, faults)?;
    }
    backups::check(&cx, faults)?;
    if !stop(Stage::Orphans, faults, report) {
        let goes_on = match known {
            Some(known) => {
                known.give_back(&mut cx, &mut done, report);
                true
            }
            None => examine_files(&cx, &mut done, report, faults, stop)?,
        };
        if goes_on {
            examine_groups(&cx, &mut done, report, faults)?;
            stop(Stage::Groups, faults, report);
        }
    }
    done.cx = Some(cx);
    Ok(done)
}

/// The stages from the inodes to the links; false if one was the last.
fn examine_files(
    cx: &Context<'_>,
    done: &mut Examined<'_>,
    report: &mut CheckReport,
    faults: &mut Faults,
    stop: &mut dyn FnMut(Stage, &Faults, &CheckReport) -> bool,
) -> Result<bool> {
    done.stage = Stage::Inodes;
    let scanned = done.scanned.insert(scan_inodes(cx, faults)?);
    report.inodes_used = scanned.counts.inodes;
    report.files = scanned.counts.files;
    report.directories = scanned.counts.directories;
    report.symlinks = scanned.counts.symlinks;
    report.specials = scanned.counts.specials;
    report.fragmented = scanned.counts.fragmented;
    if stop(Stage::Inodes, faults, report) {
        return Ok(false);
    }
    done.stage = Stage::Directories;
    htree::load_roots(cx, &mut scanned.dirs, faults)?;
    dir_pass::run(cx, &scanned.dirs, faults)?;
    htree::run(cx, &scanned.dirs, faults)?;
    names::run(cx, &scanned.dirs, faults)?;
    if stop(Stage::Directories, faults, report) {
        return Ok(false);
    }
    done.stage = Stage::Links;
    cx.progress
        .phase("connectivity", scanned.dirs.dirs.len() as u64);
    connect::run(&scanned.dirs, faults);
    links::run(cx, &scanned.values, faults);
    Ok(!stop(Stage::Links, faults, report))
}

/// The last stage.
fn examine_groups(
    cx: &Context<'_>,
    done: &mut Examined<'_>,
    report: &mut CheckReport,
    faults: &mut Faults,
) -> Result<()> {
    done.stage = Stage::Groups;
    let clusters_used = bitmaps::run(cx, faults)?.blocks_used;
    report.blocks_used = clusters_used.saturating_mul(u64::from(cx.geo.cluster_ratio));
    if let Some(scanned) = &mut done.scanned {
        scanned.dirs = Dirs::default();
        quota::run(cx, &scanned.usage, faults)?;
    }
    Ok(())
}

/// Superblock, journal and descriptors; `None` if they are too damaged to go on.
fn prepare<'d>(
    device: &'d dyn BlockDevice,
    options: &CheckOptions,
    progress: &'d dyn Progress,
    report: &mut CheckReport,
    faults: &mut Faults,
) -> Result<Option<Context<'d>>> {
    let mut early = Faults::new(options.faults_max);
    let Some(mut sb) = layout::superblock(device, None, &mut early)? else {
        faults.absorb([early]);
        return Ok(None);
    };
    layout::check_fields(&sb, &mut early)?;
    if !layout::fits_device(&sb, device.len(), &mut early) {
        faults.absorb([early]);
        return Ok(None);
    }
    let mut view = View::new(device, sb.geometry.block_bits);
    let mut descs = layout::read_descs(&view, &sb.geometry)?;
    let decoded: Vec<_> = descs.iter().map(|d| d.0).collect();
    let log = journal::open(&view, &sb, &decoded, faults)?;
    report.needs_recovery = sb.incompat.contains(Incompat::RECOVER);
    let mut next_tid = None;
    if let Some(log) = log.as_ref().filter(|_| report.needs_recovery) {
        let (overlay, next) = journal::overlay(&view, log, &sb.geometry, faults)?;
        next_tid = next;
        view = view.with_overlay(overlay);
        report.replay_blocks = view.redirected();
        // What was read so far may have newer copies in the journal.
        if view.redirected() > 0 {
            early = Faults::new(options.faults_max);
            let Some(newer) = layout::superblock(view.device(), Some(&view), &mut early)? else {
                faults.absorb([early]);
                return Ok(None);
            };
            layout::check_fields(&newer, &mut early)?;
            if newer.geometry.block_size != sb.geometry.block_size
                || !layout::fits_device(&newer, device.len(), &mut early)
            {
                faults.absorb([early]);
                return Ok(None);
            }
            sb = newer;
            descs = layout::read_descs(&view, &sb.geometry)?;
        }
    }
    faults.absorb([early]);
    let mut cx = Context::new(view, sb, options.threads(), options.faults_max, progress);
    cx.needs_recovery = report.needs_recovery;
    (cx.log, cx.next_tid) = (log, next_tid);
    layout::check(&mut cx, descs, faults)?;
    progress.advance(1);
    Ok(Some(cx))
}

/// The scan, attribute blocks, value inodes, and owners of blocks claimed twice.
fn scan_inodes(cx: &Context<'_>, faults: &mut Faults) -> Result<Scanned> {
    cx.progress.phase("inodes", u64::from(cx.geo.inodes_count));
    let mut workers = scan::run(cx, Mode::Claim)?;
    let mut xattr_refs: Vec<(Pblk, Ino)> = Vec::new();
    for w in &mut workers {
        xattr_refs.append(&mut w.xattr_blocks);
    }
    let blocks = xattr_blocks::distinct(xattr_refs);
    workers.extend(xattr_blocks::run(cx, &blocks, Mode::Claim)?);
    let mut counts = Counts::default();
    let mut usage = Usage::default();
    let mut value_refs: Vec<ValueRef> = Vec::new();
    let mut duplicates = Vec::new();
    let (mut parts, mut found) = (Vec::new(), Vec::new());
    for w in workers {
        let Scanner { counts: c, .. } = w;
        counts.inodes += c.inodes;
        counts.files += c.files;
        counts.directories += c.directories;
        counts.symlinks += c.symlinks;
        counts.specials += c.specials;
        counts.fragmented += c.fragmented;
        usage.absorb(w.usage);
        value_refs.extend(w.value_refs);
        duplicates.extend(w.duplicates);
        parts.push(w.faults);
        found.push((w.dirs, w.dir_blocks));
    }
    faults.absorb(parts);
    if !cx.inodes.state(Ino::ROOT).used() {
        let fault = Fault::new(FaultKind::RootMode).ino(Ino::ROOT);
        faults.push(fault.detail("not in use"));
    }
    let dirs = Dirs::build(found, faults);
    if cx.ro_compat(RoCompat::SHARED_BLOCKS) {
        duplicates.retain(|cluster| cx.is_metadata(*cluster));
    }
    if !duplicates.is_empty() {
        duplicates::report(cx, duplicates.clone(), faults)?;
    }
    let values = xattr_blocks::check_values(cx, &mut value_refs, faults)?;
    let folding = dirs.dirs.iter().filter(|dir| dir.casefolded);
    Ok(Scanned {
        usage,
        folding: folding.map(|dir| dir.ino).collect(),
        dirs,
        counts,
        values,
        value_refs,
        duplicates,
        xattr_blocks: blocks,
    })
}

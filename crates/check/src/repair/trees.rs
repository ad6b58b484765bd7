//! Hash trees of directories that a repair made linear.

use super::editor::Editor;
use super::pack;
use super::plan::{LogPlace, Plan, complete};
use crate::context::Context;
use crate::edits::{EditedDevice, Edits};
use crate::passes::{self, Stage};
use crate::prelude::*;
use crate::report::{CheckOptions, CheckReport, Progress};
use std::collections::BTreeSet;

/// Plans to make hash trees of those of `inodes` that are directories and lost theirs by `edits`, which are carried out before; then the
/// journal is at `log`. `None` if there are none.
///
/// # Errors
/// As of [`crate::check`].
pub(crate) fn plan(
    device: &dyn BlockDevice,
    edits: &Edits,
    log: Option<&LogPlace>,
    inodes: &BTreeSet<Ino>,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Option<Plan>> {
    if inodes.is_empty() {
        return Ok(None);
    }
    let edited = EditedDevice::new(device, edits);
    let examine = |last: Stage| {
        let (mut report, mut faults) = (CheckReport::default(), Faults::new(options.faults_max));
        let stop = &mut |stage, _: &Faults, _: &CheckReport| stage == last;
        passes::examine(
            &edited,
            options,
            progress,
            &mut report,
            &mut faults,
            None,
            stop,
        )
    };
    let superblock = examine(Stage::Superblock)?;
    let Some(cx) = &superblock.cx else {
        return Ok(None);
    };
    let ed = Editor::new(cx);
    let mut linear = Vec::new();
    for &ino in inodes {
        if had_tree(device, cx, ino)? && ed.decoded(ino)?.is_some_and(|now| may_have(cx, &now)) {
            linear.push(ino);
        }
    }
    if linear.is_empty() {
        return Ok(None);
    }
    let examined = examine(Stage::Groups)?;
    let Some(cx) = &examined.cx else {
        return Ok(None);
    };
    let mut ed = Editor::new(cx);
    for ino in linear {
        write(&mut ed, ino)?;
    }
    let mut plan = complete(&edited, ed.into_patch(), &mut |_| {}, options, progress)?;
    plan.is_whole = true;
    plan.log_stays = plan.log.is_some() && plan.log.as_ref() == log;
    Ok(plan
        .mends_all()
        .then_some(plan)
        .filter(|plan| !plan.is_empty()))
}

/// Whether a directory had a hash tree before the repair.
fn had_tree(device: &dyn BlockDevice, cx: &Context<'_>, ino: Ino) -> Result<bool> {
    let Ok((group, index)) = cx.geo.group_of_ino(ino) else {
        return Ok(false);
    };
    let Some(desc) = cx.desc(group) else {
        return Ok(false);
    };
    let (block, at) = cx.geo.itable_position(index);
    let offset = cx
        .geo
        .block_offset(Pblk(desc.inode_table.0 + u64::from(block)));
    let mut raw = vec![0; cx.geo.inode_size.into()];
    device.read_at(offset + at as u64, &mut raw)?;
    let before = Editor::new(cx).decode(&raw);
    Ok(before.flags.contains(InodeFlags::INDEX))
}

/// Whether a directory has none, and can have one.
fn may_have(cx: &Context<'_>, now: &uext4_ondisk::Inode) -> bool {
    let without = InodeFlags::INDEX | InodeFlags::INLINE_DATA;
    now.file_type() == FileType::Directory
        && now.size > cx.geo.block_size.into()
        && !now.flags.intersects(without)
        && !now
            .flags
            .contains(InodeFlags::CASEFOLD | InodeFlags::ENCRYPT)
        && cx.sb.compat.contains(Compat::DIR_INDEX)
}

fn write(ed: &mut Editor<'_, '_>, ino: Ino) -> Result<()> {
    let Some(inode) = ed.decoded(ino)? else {
        return Ok(());
    };
    let seed = ed.cx.seed.map(|seed| inode.seed(seed, ino));
    pack::rewrite(ed, ino, seed, true)?;
    Ok(())
}

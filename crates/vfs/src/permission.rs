//! Permission checks: the POSIX rules as Linux applies them, as functions of attributes and caller.
//!
//! # Invariants
//! Nothing here reads or changes a file; the result is valid while the attributes do not change, so a file
//! system asks under the inode locks. The rules are those of path_resolution(7), inode(7),
//! capabilities(7) and the manual pages of the system calls.

use crate::attr::{Attr, FileKind, NewKind, SetAttr, TimeSet};
use crate::caller::{Caller, Capabilities};
use crate::errno::{Errno, Result};
use bitflags::bitflags;

/// Set-user-id bit.
pub const S_ISUID: u16 = 0o4000;
/// Set-group-id bit.
pub const S_ISGID: u16 = 0o2000;
/// Sticky bit.
pub const S_ISVTX: u16 = 0o1000;
/// The group may execute.
const S_IXGRP: u16 = 0o010;
/// Any of the execute bits.
const S_IXUGO: u16 = 0o111;

bitflags! {
    /// The access that a caller asks for. The bits are those of one class in the mode.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u8 {
        /// Execute a file, search a directory.
        const EXEC = 1;
        /// Write a file, change the entries of a directory.
        const WRITE = 2;
        /// Read a file or the entries of a directory.
        const READ = 4;
    }
}

/// Checks access by mode bits, then by capabilities.
///
/// # Errors
/// `EPERM`: writing to an immutable file. `EACCES`: otherwise.
pub fn check_access(attr: &Attr, caller: &Caller, want: Access) -> Result<()> {
    check_access_with(attr, caller, want, || mode_grants(attr, caller, want))
}

/// As [`check_access`], where `grants` stands for the mode bits: a file with an access control list.
///
/// # Errors
/// As [`check_access`].
pub fn check_access_with(
    attr: &Attr,
    caller: &Caller,
    want: Access,
    grants: impl FnOnce() -> bool,
) -> Result<()> {
    if want.contains(Access::WRITE) && attr.flags & Attr::FLAG_IMMUTABLE != 0 {
        return Err(Errno::EPERM.into());
    }
    if grants() || capability_grants(attr, caller, want) {
        Ok(())
    } else {
        Err(Errno::EACCES.into())
    }
}

/// Whether the mode bits of the caller's class (owner, else group, else others) allow it.
pub fn mode_grants(attr: &Attr, caller: &Caller, want: Access) -> bool {
    let shift = if caller.uid == attr.uid {
        6
    } else if caller.in_group(attr.gid) {
        3
    } else {
        0
    };
    u16::from(want.bits()) & !(attr.mode >> shift) == 0
}

/// Whether capabilities allow it, whatever the mode says. A file without any execute bit can never be executed.
fn capability_grants(attr: &Attr, caller: &Caller, want: Access) -> bool {
    let reads = if attr.kind == FileKind::Directory {
        !want.contains(Access::WRITE)
    } else {
        want == Access::READ
    };
    if reads && caller.has(Capabilities::DAC_READ_SEARCH) {
        return true;
    }
    let overridable = attr.kind == FileKind::Directory
        || !want.contains(Access::EXEC)
        || attr.mode & S_IXUGO != 0;
    overridable && caller.has(Capabilities::DAC_OVERRIDE)
}

/// Whether the caller owns the file or may act as if.
pub fn is_owner_or_capable(attr: &Attr, caller: &Caller) -> bool {
    caller.uid == attr.uid || caller.has(Capabilities::FOWNER)
}

/// Checks that a name can be added to a directory; the access is the file system's to check where
/// there are access control lists, see [`may_create_granted`].
///
/// # Errors
/// `ENOENT`: the directory was removed. Others as [`check_access`].
pub fn may_create(dir: &Attr, caller: &Caller) -> Result<()> {
    may_create_granted(dir)?;
    check_access(dir, caller, Access::WRITE | Access::EXEC)
}

/// The part of [`may_create`] that does not depend on the caller.
///
/// # Errors
/// `ENOENT`: the directory was removed.
pub fn may_create_granted(dir: &Attr) -> Result<()> {
    if dir.nlink == 0 {
        return Err(Errno::ENOENT.into());
    }
    Ok(())
}

/// Checks that the caller may make a file of this kind at all.
///
/// # Errors
/// `EPERM`: a device, without the capability `MKNOD`; but every user may create a whiteout, character device 0, 0.
pub fn may_make(caller: &Caller, kind: &NewKind<'_>) -> Result<()> {
    let whiteout = NewKind::Device {
        kind: FileKind::CharDevice,
        major: 0,
        minor: 0,
    };
    let is_device = matches!(kind, NewKind::Device { .. }) && *kind != whiteout;
    if is_device && !caller.has(Capabilities::MKNOD) {
        return Err(Errno::EPERM.into());
    }
    Ok(())
}

/// Checks that the name of `victim` can be removed from `dir`, or replaced. With `as_dir`, as rmdir(2)
/// does; else as unlink(2).
///
/// # Errors
/// `EPERM`: the directory is append-only or has the sticky bit and both belong to others; the victim
/// is append-only or immutable. `ENOTDIR`, `EISDIR`: the victim is not what `as_dir` says. Others as
/// [`check_access`].
pub fn may_delete(dir: &Attr, victim: &Attr, caller: &Caller, as_dir: bool) -> Result<()> {
    check_access(dir, caller, Access::WRITE | Access::EXEC)?;
    may_delete_granted(dir, victim, caller, as_dir)
}

/// As [`may_delete`], once write and search permission on `dir` are checked.
///
/// # Errors
/// As [`may_delete`].
pub fn may_delete_granted(dir: &Attr, victim: &Attr, caller: &Caller, as_dir: bool) -> Result<()> {
    let fixed = Attr::FLAG_APPEND | Attr::FLAG_IMMUTABLE;
    if dir.flags & Attr::FLAG_APPEND != 0
        || is_sticky_for(dir, victim, caller)
        || victim.flags & fixed != 0
    {
        return Err(Errno::EPERM.into());
    }
    match (as_dir, victim.kind == FileKind::Directory) {
        (true, false) => Err(Errno::ENOTDIR.into()),
        (false, true) => Err(Errno::EISDIR.into()),
        _ => Ok(()),
    }
}

fn is_sticky_for(dir: &Attr, victim: &Attr, caller: &Caller) -> bool {
    dir.mode & S_ISVTX != 0
        && caller.uid != victim.uid
        && caller.uid != dir.uid
        && !caller.has(Capabilities::FOWNER)
}

/// Owner, group and permission bits of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOwner {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The 12 permission bits.
    pub mode: u16,
}

/// What a file made in `dir` with `mode` gets: a directory with the set-group-id bit hands down its
/// group, and to directories the bit; a program of a group that the caller is not in loses it.
pub fn new_owner(dir: &Attr, caller: &Caller, kind: FileKind, mode: u16) -> NewOwner {
    let mut owner = new_owner_unmasked(dir, caller, kind, mode);
    if kind != FileKind::Symlink {
        owner.mode &= !caller.umask;
    }
    owner
}

/// As [`new_owner`], but that the umask is not applied: in a directory with a default access control list.
pub fn new_owner_unmasked(dir: &Attr, caller: &Caller, kind: FileKind, mode: u16) -> NewOwner {
    let mut mode = match kind {
        FileKind::Symlink => 0o777,
        FileKind::Directory => mode & (0o777 | S_ISVTX),
        _ => mode & 0o7777,
    };
    let mut gid = caller.gid;
    if dir.mode & S_ISGID != 0 {
        gid = dir.gid;
        if kind == FileKind::Directory {
            mode |= S_ISGID;
        } else if mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP && !keeps_sgid(caller, gid) {
            mode &= !S_ISGID;
        }
    }
    NewOwner {
        uid: caller.uid,
        gid,
        mode,
    }
}

/// Whether the caller may give, or leave, the set-group-id bit to a file of `gid`.
pub fn keeps_sgid(caller: &Caller, gid: u32) -> bool {
    caller.in_group(gid) || caller.has(Capabilities::FSETID)
}

/// Checks a change of attributes, and gives it with what follows from it: set-id bits that are lost
/// on chown(2), truncation and chmod(2). A mode that is set together with an owner stays.
///
/// # Errors
/// `EPERM`: not the owner; giving a file away without the capability `CHOWN`; to a group the owner is not a
/// member of; the file is immutable or append-only. `EACCES`: times set to now without write
/// permission. `EISDIR`, `EINVAL`: the size of a directory, of anything else that is not a regular file.
/// `EOPNOTSUPP`: the mode of a symbolic link.
pub fn prepare_setattr(attr: &Attr, caller: &Caller, change: &SetAttr) -> Result<SetAttr> {
    let may_write = || check_access(attr, caller, Access::WRITE);
    prepare_setattr_with(attr, caller, change, may_write)
}

/// As [`prepare_setattr`], where `may_write` checks write permission: a file with an access control
/// list.
///
/// # Errors
/// As [`prepare_setattr`].
pub fn prepare_setattr_with(
    attr: &Attr,
    caller: &Caller,
    change: &SetAttr,
    may_write: impl FnOnce() -> Result<()>,
) -> Result<SetAttr> {
    check_fixed(attr, change)?;
    if attr.kind == FileKind::Symlink && change.mode.is_some() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    check_owner_change(attr, caller, change)?;
    if !is_owner_or_capable(attr, caller) {
        if change.mode.is_some() || sets_times(change) {
            return Err(Errno::EPERM.into());
        }
        if is_touch(change) && change.size.is_none() {
            may_write()?;
        }
    }
    if change.size.is_some() {
        check_truncation(attr)?;
    }
    let mut out = *change;
    out.mode = match change.mode {
        Some(mode) => Some(chmod_bits(attr, caller, change.gid, mode & 0o7777)),
        None => lost_set_id(attr, caller, change)?,
    };
    Ok(out)
}

/// Sets both times to now, which write permission allows.
fn is_touch(change: &SetAttr) -> bool {
    change.atime == Some(TimeSet::Now) && change.mtime == Some(TimeSet::Now)
}

/// Any other change of times, but those that come with a truncation.
fn sets_times(change: &SetAttr) -> bool {
    let explicit = |time: Option<TimeSet>| match time {
        None => false,
        Some(TimeSet::Now) => change.size.is_none() && !is_touch(change),
        Some(TimeSet::At(_)) => true,
    };
    explicit(change.atime)
        || explicit(change.mtime)
        || change.ctime.is_some()
        || change.crtime.is_some()
}

/// Immutable files keep everything; append-only ones everything but both times set to now; those with fs-verity their data.
fn check_fixed(attr: &Attr, change: &SetAttr) -> Result<()> {
    let beyond_touch = change.mode.is_some()
        || change.uid.is_some()
        || change.gid.is_some()
        || change.size.is_some()
        || sets_times(change);
    let immutable = attr.flags & Attr::FLAG_IMMUTABLE != 0 && (beyond_touch || is_touch(change));
    let append_only = attr.flags & Attr::FLAG_APPEND != 0 && beyond_touch;
    let verity = attr.flags & Attr::FLAG_VERITY != 0 && change.size.is_some();
    if immutable || append_only || verity {
        return Err(Errno::EPERM.into());
    }
    Ok(())
}

fn check_owner_change(attr: &Attr, caller: &Caller, change: &SetAttr) -> Result<()> {
    if caller.has(Capabilities::CHOWN) {
        return Ok(());
    }
    let owns = caller.uid == attr.uid;
    let uid_fine = change.uid.is_none_or(|uid| owns && uid == attr.uid);
    let gid_fine = change
        .gid
        .is_none_or(|gid| owns && (gid == attr.gid || caller.in_group(gid)));
    if uid_fine && gid_fine {
        Ok(())
    } else {
        Err(Errno::EPERM.into())
    }
}

fn check_truncation(attr: &Attr) -> Result<()> {
    match attr.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Errno::EISDIR.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// What is left of the bits of chmod(2) where the caller is not a member of the file's group.
fn chmod_bits(attr: &Attr, caller: &Caller, new_gid: Option<u32>, mode: u16) -> u16 {
    if keeps_sgid(caller, new_gid.unwrap_or(attr.gid)) {
        mode
    } else {
        mode & !S_ISGID
    }
}

/// The mode after chown(2) or truncation, where that takes set-id bits away. With chown(2) that is a change of the
/// mode, for which the capability `CHOWN` is not enough.
fn lost_set_id(attr: &Attr, caller: &Caller, change: &SetAttr) -> Result<Option<u16>> {
    if change.uid.is_none() && change.gid.is_none() {
        return Ok(change.size.and_then(|_| mode_after_write(attr, caller)));
    }
    // Even for the superuser: a program keeps no rights that its new owner did not give it.
    let lost = (attr.kind != FileKind::Directory)
        .then(|| without_set_id(attr, caller))
        .flatten();
    if lost.is_some() && !is_owner_or_capable(attr, caller) {
        return Err(Errno::EPERM.into());
    }
    Ok(lost.map(|mode| chmod_bits(attr, caller, change.gid, mode)))
}

/// The mode of a file once the caller has written to it, where that takes set-id bits away.
pub fn mode_after_write(attr: &Attr, caller: &Caller) -> Option<u16> {
    if attr.kind != FileKind::Regular || caller.has(Capabilities::FSETID) {
        return None;
    }
    without_set_id(attr, caller)
}

/// Without the group's execute bit, set-group-id does not make a program, and members keep it.
fn without_set_id(attr: &Attr, caller: &Caller) -> Option<u16> {
    let mut mode = attr.mode & !S_ISUID;
    if mode & S_ISGID != 0 && (mode & S_IXGRP != 0 || !keeps_sgid(caller, attr.gid)) {
        mode &= !S_ISGID;
    }
    (mode != attr.mode).then_some(mode)
}

#[cfg(all(test, not(shuttle)))]
mod tests;

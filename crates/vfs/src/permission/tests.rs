//! Tests of the permission rules.

use super::*;
use crate::attr::Timestamp;

fn attr(kind: FileKind, mode: u16, uid: u32, gid: u32) -> Attr {
    Attr {
        ino: 12,
        generation: 1,
        kind,
        mode,
        nlink: 1,
        uid,
        gid,
        size: 0,
        blocks: 0,
        block_size: 4096,
        atime: Timestamp::default(),
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        crtime: Timestamp::default(),
        rdev_major: 0,
        rdev_minor: 0,
        flags: 0,
    }
}

fn file(mode: u16) -> Attr {
    attr(FileKind::Regular, mode, 10, 20)
}

fn dir(mode: u16) -> Attr {
    attr(FileKind::Directory, mode, 10, 20)
}

fn errno<T>(result: Result<T>) -> Option<Errno> {
    result.err().map(|e| e.errno())
}

const OWNER: Caller = Caller::user(10, 99);
const MEMBER: Caller = Caller::user(11, 20);
const OTHER: Caller = Caller::user(12, 98);
const ROOT: Caller = Caller::root();

fn capable(capabilities: Capabilities) -> Caller {
    Caller {
        capabilities,
        ..OTHER
    }
}

#[test]
fn only_the_callers_class_counts() {
    let want = |caller: &Caller, mode, want| errno(check_access(&file(mode), caller, want));
    assert_eq!(want(&OWNER, 0o400, Access::READ), None);
    assert_eq!(want(&OWNER, 0o077, Access::READ), Some(Errno::EACCES));
    assert_eq!(want(&MEMBER, 0o707, Access::READ), Some(Errno::EACCES));
    assert_eq!(want(&MEMBER, 0o060, Access::READ | Access::WRITE), None);
    assert_eq!(want(&OTHER, 0o770, Access::EXEC), Some(Errno::EACCES));
    assert_eq!(want(&OTHER, 0o001, Access::EXEC), None);
    let grouped = OTHER.with_groups(&[20]);
    assert_eq!(want(&grouped, 0o040, Access::READ), None);
}

#[test]
fn capabilities_go_as_far_as_they_go() {
    let all = Access::READ | Access::WRITE;
    assert_eq!(errno(check_access(&file(0), &ROOT, all)), None);
    assert_eq!(
        errno(check_access(&file(0o666), &ROOT, Access::EXEC)),
        Some(Errno::EACCES)
    );
    assert_eq!(errno(check_access(&file(0o001), &ROOT, Access::EXEC)), None);
    assert_eq!(errno(check_access(&dir(0), &ROOT, Access::all())), None);
    let reader = capable(Capabilities::DAC_READ_SEARCH);
    assert_eq!(errno(check_access(&file(0), &reader, Access::READ)), None);
    assert_eq!(
        errno(check_access(&file(0), &reader, all)),
        Some(Errno::EACCES)
    );
    let search = Access::READ | Access::EXEC;
    assert_eq!(errno(check_access(&dir(0), &reader, search)), None);
    let mut fixed = file(0o666);
    fixed.flags = Attr::FLAG_IMMUTABLE;
    assert_eq!(
        errno(check_access(&fixed, &ROOT, Access::WRITE)),
        Some(Errno::EPERM)
    );
    assert_eq!(errno(check_access(&fixed, &ROOT, Access::READ)), None);
}

#[test]
fn creation_needs_a_living_directory_that_can_be_written() {
    assert_eq!(errno(may_create(&dir(0o300), &OWNER)), None);
    assert_eq!(errno(may_create(&dir(0o200), &OWNER)), Some(Errno::EACCES));
    let mut removed = dir(0o700);
    removed.nlink = 0;
    assert_eq!(errno(may_create(&removed, &ROOT)), Some(Errno::ENOENT));
}

#[test]
fn the_sticky_bit_keeps_others_out() {
    let tmp = attr(FileKind::Directory, 0o1777, 0, 0);
    let victim = file(0o666);
    let unlink = |caller: &Caller| errno(may_delete(&tmp, &victim, caller, false));
    assert_eq!(unlink(&OWNER), None);
    assert_eq!(unlink(&OTHER), Some(Errno::EPERM));
    assert_eq!(unlink(&ROOT), None);
    assert_eq!(unlink(&capable(Capabilities::FOWNER)), None);
    let own_dir = attr(FileKind::Directory, 0o1777, OTHER.uid, 0);
    assert_eq!(errno(may_delete(&own_dir, &victim, &OTHER, false)), None);
}

#[test]
fn deletion_minds_kind_and_flags() {
    let parent = dir(0o700);
    let delete = |victim: &Attr, as_dir| errno(may_delete(&parent, victim, &OWNER, as_dir));
    assert_eq!(delete(&file(0), true), Some(Errno::ENOTDIR));
    assert_eq!(delete(&dir(0), false), Some(Errno::EISDIR));
    assert_eq!(delete(&dir(0), true), None);
    for flag in [Attr::FLAG_APPEND, Attr::FLAG_IMMUTABLE] {
        let mut fixed = file(0o666);
        fixed.flags = flag;
        assert_eq!(delete(&fixed, false), Some(Errno::EPERM));
        let mut fixed_dir = dir(0o700);
        fixed_dir.flags = flag;
        let from_fixed = may_delete(&fixed_dir, &file(0), &ROOT, false);
        assert_eq!(errno(from_fixed), Some(Errno::EPERM));
    }
}

#[test]
fn a_set_group_id_directory_hands_down_its_group() {
    let plain = new_owner(&dir(0o777), &OTHER, FileKind::Regular, 0o2775);
    assert_eq!((plain.uid, plain.gid, plain.mode), (12, 98, 0o2775));
    let shared = dir(0o2777);
    let sub = new_owner(&shared, &OTHER, FileKind::Directory, 0o755);
    assert_eq!((sub.gid, sub.mode), (20, 0o2755));
    let program = new_owner(&shared, &OTHER, FileKind::Regular, 0o2775);
    assert_eq!((program.gid, program.mode), (20, 0o775));
    let locking = new_owner(&shared, &OTHER, FileKind::Regular, 0o2765);
    assert_eq!(locking.mode, 0o2765, "no execute bit, no program");
    for caller in [&MEMBER, &capable(Capabilities::FSETID)] {
        let kept = new_owner(&shared, caller, FileKind::Regular, 0o2775);
        assert_eq!(kept.mode, 0o2775);
    }
}

fn set(change: SetAttr, attr: &Attr, caller: &Caller) -> Result<Option<u16>, Errno> {
    prepare_setattr(attr, caller, &change)
        .map(|c| c.mode)
        .map_err(|e| e.errno())
}

fn mode(mode: u16) -> SetAttr {
    SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    }
}

fn chown(uid: Option<u32>, gid: Option<u32>) -> SetAttr {
    SetAttr {
        uid,
        gid,
        ..SetAttr::default()
    }
}

#[test]
fn chmod_is_for_the_owner() {
    assert_eq!(set(mode(0o4755), &file(0o600), &OWNER), Ok(Some(0o4755)));
    assert_eq!(set(mode(0o600), &file(0o666), &MEMBER), Err(Errno::EPERM));
    assert_eq!(
        set(mode(0o2755), &file(0), &OWNER),
        Ok(Some(0o755)),
        "not in the group"
    );
    let member = OWNER.with_groups(&[20]);
    assert_eq!(set(mode(0o2755), &file(0), &member), Ok(Some(0o2755)));
    assert_eq!(set(mode(0o2755), &file(0), &ROOT), Ok(Some(0o2755)));
    let fowner = capable(Capabilities::FOWNER);
    assert_eq!(set(mode(0o2755), &file(0), &fowner), Ok(Some(0o755)));
}

#[test]
fn chown_is_for_the_superuser() {
    let f = file(0o644);
    assert_eq!(set(chown(Some(12), None), &f, &OWNER), Err(Errno::EPERM));
    assert_eq!(set(chown(Some(10), None), &f, &OWNER), Ok(None));
    assert_eq!(set(chown(Some(10), None), &f, &OTHER), Err(Errno::EPERM));
    assert_eq!(set(chown(None, Some(99)), &f, &OWNER), Ok(None));
    assert_eq!(set(chown(None, Some(98)), &f, &OWNER), Err(Errno::EPERM));
    assert_eq!(set(chown(None, Some(98)), &f, &OTHER), Err(Errno::EPERM));
    assert_eq!(set(chown(Some(1), Some(1)), &f, &ROOT), Ok(None));
}

#[test]
fn chown_takes_set_id_bits() {
    let to = chown(Some(1), Some(1));
    assert_eq!(set(to, &file(0o6755), &ROOT), Ok(Some(0o755)));
    assert_eq!(
        set(to, &file(0o6745), &ROOT),
        Ok(Some(0o2745)),
        "no group execute, and FSETID"
    );
    assert_eq!(set(to, &dir(0o6755), &ROOT), Ok(None));
    let both = SetAttr {
        mode: Some(0o4755),
        ..to
    };
    assert_eq!(set(both, &file(0o644), &ROOT), Ok(Some(0o4755)));
}

#[test]
fn truncation_minds_kind_and_takes_set_id_bits() {
    let cut = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    assert_eq!(set(cut, &file(0o4755), &OWNER), Ok(Some(0o755)));
    assert_eq!(set(cut, &file(0o4755), &ROOT), Ok(None));
    assert_eq!(set(cut, &dir(0o755), &ROOT), Err(Errno::EISDIR));
    let fifo = attr(FileKind::Fifo, 0o666, 10, 20);
    assert_eq!(set(cut, &fifo, &ROOT), Err(Errno::EINVAL));
    let mut log = file(0o666);
    log.flags = Attr::FLAG_APPEND;
    assert_eq!(set(cut, &log, &ROOT), Err(Errno::EPERM));
}

#[test]
fn writing_takes_set_id_bits() {
    assert_eq!(mode_after_write(&file(0o4755), &OTHER), Some(0o755));
    assert_eq!(mode_after_write(&file(0o2755), &MEMBER), Some(0o755));
    assert_eq!(mode_after_write(&file(0o2745), &MEMBER), None);
    assert_eq!(mode_after_write(&file(0o6755), &ROOT), None);
    assert_eq!(mode_after_write(&file(0o755), &OTHER), None);
}

#[test]
fn times_are_for_the_owner_and_now_for_writers() {
    let at = TimeSet::At(Timestamp { sec: 1, nsec: 2 });
    let times = |atime, mtime| SetAttr {
        atime: Some(atime),
        mtime: Some(mtime),
        ..SetAttr::default()
    };
    let now = times(TimeSet::Now, TimeSet::Now);
    assert_eq!(set(times(at, at), &file(0), &OWNER), Ok(None));
    assert_eq!(set(times(at, at), &file(0o666), &OTHER), Err(Errno::EPERM));
    assert_eq!(
        set(times(TimeSet::Now, at), &file(0o666), &OTHER),
        Err(Errno::EPERM)
    );
    assert_eq!(set(now, &file(0o002), &OTHER), Ok(None));
    assert_eq!(set(now, &file(0o004), &OTHER), Err(Errno::EACCES));
    assert_eq!(set(now, &file(0), &ROOT), Ok(None));
    let half = SetAttr {
        mtime: Some(TimeSet::Now),
        ..SetAttr::default()
    };
    assert_eq!(set(half, &file(0o666), &OTHER), Err(Errno::EPERM));
    let cut = SetAttr {
        size: Some(0),
        ..half
    };
    assert_eq!(set(cut, &file(0o666), &OTHER), Ok(None));
    let created = SetAttr {
        crtime: Some(at),
        ..SetAttr::default()
    };
    assert_eq!(set(created, &file(0o666), &OTHER), Err(Errno::EPERM));
    let mut log = file(0o666);
    log.flags = Attr::FLAG_APPEND;
    assert_eq!(set(now, &log, &OWNER), Ok(None));
    assert_eq!(set(times(at, at), &log, &ROOT), Err(Errno::EPERM));
    log.flags = Attr::FLAG_IMMUTABLE;
    assert_eq!(set(now, &log, &ROOT), Err(Errno::EPERM));
    assert_eq!(set(mode(0), &log, &ROOT), Err(Errno::EPERM));
}

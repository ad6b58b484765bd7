//! Tests of the rules.

use super::*;
use uext4_vfs::attr::{FileKind, Timestamp};

const NO_ID: u32 = u32::MAX;

fn entry(tag: AclTag, id: u32, perm: u16) -> AclEntry {
    AclEntry { tag, perm, id }
}

/// Owner rwx, user 7 rw, group r, group 9 rwx, mask as given, others none.
fn extended(mask: u16) -> Vec<AclEntry> {
    vec![
        entry(AclTag::UserObj, NO_ID, 7),
        entry(AclTag::User, 7, 6),
        entry(AclTag::GroupObj, NO_ID, 4),
        entry(AclTag::Group, 9, 7),
        entry(AclTag::Mask, NO_ID, mask),
        entry(AclTag::Other, NO_ID, 0),
    ]
}

fn file() -> Attr {
    Attr {
        ino: 12,
        generation: 1,
        kind: FileKind::Regular,
        mode: 0o770,
        nlink: 1,
        uid: 1,
        gid: 2,
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

#[test]
fn what_is_valid() {
    let good = extended(7);
    assert!(is_valid(&good));
    for missing in 0..good.len() {
        let mut acl = good.clone();
        let tag = acl.remove(missing).tag;
        let optional = matches!(tag, AclTag::User | AclTag::Group);
        assert_eq!(is_valid(&acl), optional, "without {tag:?}");
    }
    let mut swapped = good.clone();
    swapped.swap(0, 1);
    assert!(!is_valid(&swapped));
    let mut bits = good.clone();
    bits[0].perm = 8;
    assert!(!is_valid(&bits));
    let mut nobody = good;
    nobody[1].id = NO_ID;
    assert!(!is_valid(&nobody));
}

#[test]
fn the_mode_and_back() {
    let acl = extended(5);
    assert_eq!(mode_of(&acl), (0o750, false));
    let acl = with_mode(&acl, 0o4123);
    assert_eq!(mode_of(&acl), (0o123, false));
    assert_eq!(acl[2].perm, 4, "the group is not the mask");
    let trivial = [&acl[..1], &acl[2..3], &acl[5..]].concat();
    assert_eq!(mode_of(&trivial), (0o143, true));
    assert_eq!(mode_of(&with_mode(&trivial, 0o421)), (0o421, true));
    assert_eq!(mode_of(&inherited(&extended(6), 0o637)), (0o620, false));
}

#[test]
fn who_is_granted_what() {
    let may = |mask, caller: &Caller, want: u8| {
        let want = Access::from_bits_truncate(want);
        grants(&extended(mask), &file(), caller, want)
    };
    let named = Caller::user(7, 2);
    assert!(
        may(7, &named, 6) && !may(7, &named, 1),
        "by name, and no group"
    );
    assert!(!may(5, &named, 2) && may(5, &named, 4), "the mask");
    let member = Caller::user(8, 2);
    assert!(may(7, &member, 4) && !may(7, &member, 2));
    let both = Caller::user(8, 2).with_groups(&[9]);
    assert!(may(7, &both, 3), "one of the groups is enough");
    assert!(!may(4, &both, 2));
    assert!(!may(7, &Caller::user(8, 8), 4), "others");
}

//! Values that calls pass: attributes, access control lists, flags.

use super::person::{GROUPS, USERS};
use fastrand::Rng;
use uext4_ondisk::{AclEntry, AclTag, InodeFlags, acl_encode_xattr};

pub const ACLS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

const NAMES: [&str; 16] = [
    "user.x",
    "user.x",
    "user.x",
    "user.x",
    "user.x",
    "user.y",
    "user.long-name-of-an-attribute",
    "trusted.x",
    "security.x",
    "security.capability",
    "security.capability",
    "security.capability",
    "security.capability",
    "user.",
    "system.x",
    "nothing.x",
];

/// Flags as `FS_IOC_FSSETXATTR` has them, and as `FS_IOC_SETFLAGS`.
pub const XFLAGS: [(u32, InodeFlags); 6] = [
    (0x8, InodeFlags::IMMUTABLE),
    (0x10, InodeFlags::APPEND),
    (0x20, InodeFlags::SYNC),
    (0x40, InodeFlags::NOATIME),
    (0x80, InodeFlags::NODUMP),
    (0x200, InodeFlags::PROJINHERIT),
];

/// The name of an attribute that is not an ACL.
pub fn name(rng: &mut Rng) -> &'static str {
    NAMES[rng.usize(..NAMES.len())]
}

/// A value for it.
pub fn value(rng: &mut Rng, name: &str) -> Vec<u8> {
    if name == "security.capability" {
        // Version 2 of the form: magic and a flag, two times permitted and inheritable.
        let mut value = vec![0u8; 20];
        value[..4].copy_from_slice(&0x0200_0001u32.to_le_bytes());
        value[5] = 4;
        if rng.u8(..8) == 0 {
            value.truncate(rng.usize(1..20));
        }
        return value;
    }
    let len = [0, 1, 10, 60, 200, 2500][rng.usize(..6)];
    vec![rng.u8(..3); len]
}

/// An ACL as setxattr(2) takes it, `maybe_wrong`: or something like one.
pub fn acl(rng: &mut Rng, maybe_wrong: bool) -> Vec<u8> {
    let none = u32::MAX;
    let perm = |rng: &mut Rng| match rng.u8(..3) {
        0 => rng.u16(..8),
        _ => [7, 5, 6, 0][rng.usize(..4)],
    };
    let mut acl = Vec::new();
    let mut add = |rng: &mut Rng, tag, id| {
        let perm = perm(rng);
        acl.push(AclEntry { tag, perm, id });
    };
    let named = rng.u8(..4) != 0;
    add(rng, AclTag::UserObj, none);
    for user in USERS.iter().filter(|_| named) {
        if rng.u8(..3) == 0 {
            add(rng, AclTag::User, *user);
        }
    }
    add(rng, AclTag::GroupObj, none);
    for group in GROUPS.iter().filter(|_| named) {
        if rng.u8(..4) == 0 {
            add(rng, AclTag::Group, *group);
        }
    }
    if named || rng.u8(..4) == 0 {
        add(rng, AclTag::Mask, none);
    }
    add(rng, AclTag::Other, none);
    if !maybe_wrong || rng.u8(..4) != 0 {
        return acl_encode_xattr(&acl);
    }
    let any = rng.usize(..acl.len());
    match rng.u8(..6) {
        0 => drop(acl.remove(any)),
        1 => acl[any].perm = 8,
        2 => rng.shuffle(&mut acl),
        3 => acl.clear(),
        4 => return Vec::new(),
        _ => {
            let mut bytes = acl_encode_xattr(&acl);
            match rng.bool() {
                true => bytes[0] = 1,
                false => bytes.truncate(rng.usize(1..bytes.len())),
            }
            return bytes;
        }
    }
    acl_encode_xattr(&acl)
}

/// Flags to change: often those that forbid something.
pub fn flags(rng: &mut Rng) -> u32 {
    let some = [
        InodeFlags::IMMUTABLE,
        InodeFlags::APPEND,
        InodeFlags::IMMUTABLE | InodeFlags::APPEND,
        InodeFlags::NODUMP,
        InodeFlags::NOATIME,
        InodeFlags::SYNC,
        InodeFlags::DIRSYNC,
        InodeFlags::PROJINHERIT,
        InodeFlags::TOPDIR,
        InodeFlags::NOTAIL,
        InodeFlags::ENCRYPT,
        InodeFlags::empty(),
    ];
    some[rng.usize(..some.len())].bits()
}

/// The same for `FS_IOC_FSSETXATTR`.
pub fn xflags(rng: &mut Rng) -> u32 {
    let weights = [6, 6, 4, 4, 4, 2];
    XFLAGS
        .iter()
        .zip(weights)
        .filter(|(_, weight)| rng.u8(..*weight) == 0)
        .fold(0, |all, ((bit, _), _)| all | bit)
}

//! POSIX access control lists, by the rules of acl(5); the form on disk is `uext4_ondisk`'s.
//!
//! # Data model
//! An access ACL grants access to a file; its owner, other, and mask (without one: group) entries are the
//! permission bits. One that says no more than these bits is not stored. A directory may have a default ACL, from
//! which files made in it get theirs, and which stands in for the umask then.
//!
//! # Invariants
//! What is stored is valid ([`is_valid`]); what was found on disk and is not refuses everything (`EUCLEAN`).
//!
//! | module | holds |
//! | --- | --- |
//! | `cache` | what is known of an inode's ACLs and capabilities without reading them |
//! | `stored` | reading and changing them, and access by them |

pub(crate) mod stored;

use crate::prelude::*;
use uext4_ondisk::AclTag;

/// Bits of one class.
const RWX: u16 = 7;

/// Whether entries are complete and in order: owner, users, group, groups, mask, others. A mask is needed
/// once there are users or groups by name.
pub(crate) fn is_valid(acl: &[AclEntry]) -> bool {
    let count = |tag| acl.iter().filter(|e| e.tag == tag).count();
    let named = count(AclTag::User) + count(AclTag::Group);
    let masks = count(AclTag::Mask);
    let unknown = |e: &AclEntry| {
        let has_id = matches!(e.tag, AclTag::User | AclTag::Group);
        e.perm & !RWX != 0 || has_id && e.id == u32::MAX
    };
    acl.is_sorted_by_key(|e| e.tag)
        && !acl.iter().any(unknown)
        && [AclTag::UserObj, AclTag::GroupObj, AclTag::Other]
            .into_iter()
            .all(|tag| count(tag) == 1)
        && (masks == 1 || masks == 0 && named == 0)
}

/// The nine permission bits that an ACL stands for, and whether they say all that it does.
pub(crate) fn mode_of(acl: &[AclEntry]) -> (u16, bool) {
    let perm = |tag| acl.iter().find(|e| e.tag == tag).map(|e| e.perm & RWX);
    let group = perm(AclTag::Mask).or_else(|| perm(AclTag::GroupObj));
    let bits = |perm: Option<u16>, shift: u16| perm.unwrap_or(0) << shift;
    let mode = bits(perm(AclTag::UserObj), 6) | bits(group, 3) | bits(perm(AclTag::Other), 0);
    let is_trivial = acl
        .iter()
        .all(|e| matches!(e.tag, AclTag::UserObj | AclTag::GroupObj | AclTag::Other));
    (mode, is_trivial)
}

/// The entries that the permission bits of a file stand for, and where they are in the mode.
fn classes(acl: &mut [AclEntry]) -> impl Iterator<Item = (&mut AclEntry, u16)> {
    let has_mask = acl.iter().any(|e| e.tag == AclTag::Mask);
    acl.iter_mut().filter_map(move |e| match e.tag {
        AclTag::UserObj => Some((e, 6)),
        AclTag::Mask => Some((e, 3)),
        AclTag::GroupObj if !has_mask => Some((e, 3)),
        AclTag::Other => Some((e, 0)),
        _ => None,
    })
}

/// What chmod(2) makes of an access ACL.
pub(crate) fn with_mode(acl: &[AclEntry], mode: u16) -> Vec<AclEntry> {
    let mut acl = acl.to_vec();
    for (entry, shift) in classes(&mut acl) {
        entry.perm = mode >> shift & RWX;
    }
    acl
}

/// The access ACL of a file made with `mode` where `default` is the directory's default ACL: each class gets what
/// both allow. [`mode_of`] it are the file's permission bits.
pub(crate) fn inherited(default: &[AclEntry], mode: u16) -> Vec<AclEntry> {
    let mut acl = default.to_vec();
    for (entry, shift) in classes(&mut acl) {
        entry.perm &= mode >> shift & RWX;
    }
    acl
}

/// Whether an access ACL lets the caller do `want` with a file that the caller does not own.
pub(crate) fn grants(acl: &[AclEntry], attr: &Attr, caller: &Caller, want: Access) -> bool {
    let want = u16::from(want.bits());
    let mask = acl.iter().find(|e| e.tag == AclTag::Mask);
    let mask = mask.map_or(RWX, |e| e.perm);
    let allows = |perm: u16| want & !perm == 0;
    let by_name = acl
        .iter()
        .find(|e| e.tag == AclTag::User && e.id == caller.uid);
    if let Some(user) = by_name {
        return allows(user.perm & mask);
    }
    let mut groups = acl
        .iter()
        .filter(|e| match e.tag {
            AclTag::GroupObj => caller.in_group(attr.gid),
            AclTag::Group => caller.in_group(e.id),
            _ => false,
        })
        .peekable();
    if groups.peek().is_some() {
        return groups.any(|e| allows(e.perm & mask));
    }
    acl.iter().any(|e| e.tag == AclTag::Other && allows(e.perm))
}

#[cfg(test)]
mod tests;

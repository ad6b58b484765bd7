//! ACLs that tests set.

use uext4_ondisk::{AclEntry, AclTag, acl_encode_xattr};

/// The value of `system.posix_acl_access` that lets all read and search, except one user.
pub fn acl_against(user: u32) -> Vec<u8> {
    let none = u32::MAX;
    let entries = [
        (AclTag::UserObj, 7, none),
        (AclTag::User, 0, user),
        (AclTag::GroupObj, 5, none),
        (AclTag::Mask, 7, none),
        (AclTag::Other, 5, none),
    ];
    acl_encode_xattr(&entries.map(|(tag, perm, id)| AclEntry { tag, perm, id }))
}

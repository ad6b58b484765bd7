//! Journaled data, moving ranges, data and values in inodes, trimming and access control lists together: what a review
//! of them found, and several threads on them at once. `UEXT4_STRESS` sets how many rounds.

mod one_directory;
mod regressions;
mod rwsem;
mod stress;

use uext4_testkit::prelude::*;

/// Makes a file as the superuser.
fn make(fs: &Ext4, dir: &InodeRef, name: &[u8], kind: NewKind<'_>) -> Result<InodeRef, Errno> {
    let new = NewNode { mode: 0o755, kind };
    FileSystem::create(fs, &Caller::root(), dir, name, &new).map_err(|e| e.errno())
}

/// An ACL of so many users, as setxattr(2) takes it.
fn acl(users: u32) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    let mut entry = |tag: u16, id: u32| {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&7u16.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    };
    entry(1, u32::MAX);
    for user in 0..users {
        entry(2, 1000 + user);
    }
    entry(4, u32::MAX);
    entry(0x10, u32::MAX);
    entry(0x20, u32::MAX);
    value
}

//! What `docs/SEMANTICS.md` says is otherwise with Linux, is.

use crate::mount::{Xattr, beside_the_kernel};
use libc::{EACCES, ENODATA, EOPNOTSUPP, EPERM, ESTALE};
use uext4_testkit::with;
use uext4_vfs::{FileHandle, FileSystem, SetAttr};

#[test]
fn handles() {
    beside_the_kernel(|both| {
        both.same("create", |m| m.create("q", 0o600))
            .expect("makes it");
        for name in ["q", "."] {
            assert_eq!(both.differ(|m| m.handle(name)), (Ok(()), Err(EOPNOTSUPP)));
        }
        let ours = &both.ours;
        let node = ours.lookup("q").expect("is there");
        let handle = ours.fs.handle(&node);
        let other = FileHandle {
            generation: 1,
            ..handle
        };
        let open = |handle| {
            ours.fs
                .open_handle(handle)
                .map(drop)
                .map_err(|e| e.errno().0)
        };
        assert_eq!((open(handle), open(other)), (Ok(()), Err(ESTALE)));
        both.same("unlink", |m| m.unlink("q")).expect("goes");
        assert_eq!(open(handle), Err(ESTALE), "though it is open");
        drop(node);
        both.same("create", |m| m.create("q", 0o600))
            .expect("makes it");
        assert_eq!(open(handle), Err(ESTALE));
        let again = ours.fs.handle(&ours.lookup("q").expect("is there"));
        assert_ne!(again.ino, handle.ino, "no number comes twice");
    });
}

#[test]
fn extended_attributes_without_permission() {
    beside_the_kernel(|both| {
        both.same("create", |m| m.create("q", 0o600))
            .expect("makes it");
        both.same("a user", |m| m.become_user(4871));
        let differ = |call| both.differ(|m| m.xattr("q", call));
        let ours = Err(EOPNOTSUPP);
        assert_eq!(differ(Xattr::Get("user.x")), (ours, Err(EACCES)));
        assert_eq!(differ(Xattr::Get("trusted.x")), (ours, Err(ENODATA)));
        assert_eq!(differ(Xattr::Set("trusted.x", 1)), (ours, Err(EPERM)));
    });
}

#[test]
fn links_to_what_belongs_to_others() {
    beside_the_kernel(|both| {
        both.same("create", |m| m.create("q", 0o600))
            .expect("makes it");
        both.same("chmod", |m| m.chmod(".", 0o755)).expect("may");
        both.same("a user", |m| m.become_user(4872));
        let (ours, linux) = both.differ(|m| m.link("q", "n"));
        assert_eq!(ours, Err(EACCES));
        // As `fs.protected_hardlinks` has it.
        assert!(matches!(linux, Err(EACCES | EPERM)));
    });
}

/// Linux has no time of birth, and gives numbers from one counter to the inodes of all namespaces.
#[test]
fn birth_and_numbers() {
    let ours = crate::ours::Ours::default();
    let root = ours.fs.getattr(&ours.lookup(".").expect("is there"));
    let root = root.expect("is known");
    assert_eq!((root.ino, root.generation), (1, 0));
    let caller = ours.caller();
    let moved = ours.fs.setattr(
        &caller,
        &ours.lookup(".").expect("is there"),
        &with(|o: &mut SetAttr| o.mode = Some(0o700)),
    );
    assert_eq!(moved.map(|a| a.crtime).ok(), Some(root.crtime));
}

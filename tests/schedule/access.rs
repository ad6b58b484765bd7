//! Access control beside changes of it, schedule by schedule: what is known of ACLs is never older than the last change.
use crate::file_system::{Base, FILE, Shape, assert_clean, dir, explore, mount};
use shuttle::thread;
use uext4_testkit::prelude::*;
use uext4_vfs::attr::XattrFlags;

const SMALL: Shape = Shape {
    bytes: 3 << 20,
    inodes: 64,
    files: 0,
    features: "",
};
const USER: Caller = Caller::user(1000, 1000);
/// Look-ups after which attributes are copied for readers.
const UNTIL_COPIED: usize = 80;

fn set(fs: &Ext4, name: &[u8], value: &[u8]) {
    let (root, flags) = (Caller::root(), XattrFlags::empty());
    let set = FileSystem::setxattr(fs, &root, &dir(fs, "a"), name, value, flags);
    set.expect("sets");
}

fn look_up(fs: &Ext4, dir: &InodeRef) -> std::result::Result<(), Errno> {
    let found = FileSystem::lookup(fs, &USER, dir, b"file");
    found.map(drop).map_err(|why| why.errno())
}

/// A directory gets an ACL that keeps the user out, while the user looks a name up in it.
fn an_acl_is_set(base: &Base) {
    let device = base.device();
    let fs = mount(device.clone(), MountOptions::default());
    let kept = dir(&fs, "a");
    drop(fs.make(&kept, "file", &FILE));
    set(&fs, b"user.note", b"x");
    for _ in 0..UNTIL_COPIED {
        let note = FileSystem::getxattr(&*fs, &Caller::root(), &kept, b"user.note");
        assert_eq!(note.expect("reads"), b"x");
    }
    let setter = thread::spawn({
        let fs = Arc::clone(&fs);
        move || set(&fs, b"system.posix_acl_access", &acl_against(USER.uid))
    });
    let reader = thread::spawn({
        let fs = Arc::clone(&fs);
        move || look_up(&fs, &dir(&fs, "a"))
    });
    let beside = reader.join().expect("no panic");
    assert!(matches!(beside, Ok(()) | Err(Errno::EACCES)), "{beside:?}");
    setter.join().expect("no panic");
    assert_eq!(look_up(&fs, &kept), Err(Errno::EACCES), "the ACL is missed");
    drop(kept);
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

#[test]
fn an_acl_counts_once_it_is_set() {
    let base = Base::make(SMALL);
    explore(move || an_acl_is_set(&base));
}

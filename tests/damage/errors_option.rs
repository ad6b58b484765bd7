//! `errors=`: what becomes of a mount that meets damage, and what the superblock says of it.

use uext4_ondisk::{ErrorsBehaviour, Lblk, STATE_ERROR};
use uext4_testkit::image::mount;
use uext4_testkit::prelude::*;

fn make(fs: &Ext4, name: &[u8], kind: NewKind<'_>) -> Result<uext4_ext4::InodeRef, Errno> {
    let root = fs.root().map_err(|e| e.errno())?.clone();
    let new = NewNode { mode: 0o755, kind };
    FileSystem::create(fs, &Caller::root(), &root, name, &new).map_err(|e| e.errno())
}

/// An image with a directory whose only block is damaged: its inode and that block.
fn damaged() -> (Arc<MemoryDevice>, Ino, Pblk) {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = mount(device.clone()).expect("mounts");
    let dir = make(&fs, b"d", NewKind::Directory).expect("is made");
    let pblk = fs.mapping.map_block(&dir, Lblk(0)).expect("maps").pblk;
    let (ino, pblk) = (dir.ino, pblk.expect("has a block"));
    drop(dir);
    fs.unmount().expect("unmounts");
    device
        .write_at(pblk.0 * 4096 + 100, b"damage")
        .expect("writes");
    (device, ino, pblk)
}

fn look(fs: &Ext4) -> Errno {
    let root = Caller::root();
    let dir = FileSystem::lookup(fs, &root, fs.root().expect("there"), b"d").expect("there");
    let found = FileSystem::lookup(fs, &root, &dir, b"x").map(drop);
    found.expect_err("is damaged").errno()
}

#[test]
fn damage_is_recorded_and_the_mount_does_as_it_is_told() {
    use ErrorsBehaviour::{Continue, Panic, RemountRo};
    for (errors, after) in [
        (None, Ok(())),
        (Some(Continue), Ok(())),
        (Some(RemountRo), Err(Errno::EROFS)),
        (Some(Panic), Err(Errno::EROFS)),
    ] {
        let (device, ino, pblk) = damaged();
        let options = with(|o: &mut MountOptions| o.errors = errors);
        let fs = Ext4::mount(device.clone(), options).expect("mounts");
        make(&fs, b"before", NewKind::Regular).expect("is made");
        assert_eq!(look(&fs), Errno::EUCLEAN);
        assert_eq!(make(&fs, b"after", NewKind::Regular).map(drop), after);
        // It can still be read.
        assert_eq!(look(&fs), Errno::EUCLEAN, "{errors:?}");
        let unmounted = fs.unmount();
        assert_eq!(unmounted.is_ok(), errors != Some(Panic), "{unmounted:?}");
        drop(fs);
        // What is left of the journal says it, too.
        let again = mount(device.clone()).expect("mounts");
        FileSystem::lookup(
            &*again,
            &Caller::root(),
            again.root().expect("there"),
            b"before",
        )
        .expect("is there");
        again.unmount().expect("unmounts");
        let raw = read_superblock(&*device).expect("there").raw;
        assert_ne!(raw.state.get() & STATE_ERROR, 0, "{errors:?}");
        let first = raw.first_error().expect("is recorded");
        assert_eq!((first.ino, first.block), (ino, pblk.0));
        assert!(first.func.starts_with(b"directory"), "{:?}", first.func);
        let looked = if after.is_ok() { 2 } else { 1 };
        assert_eq!(raw.error_count.get(), looked, "{errors:?}");
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("image");
        device.save_to(&image).expect("saves");
        let path = image.to_str().expect("a path");
        let text = oracle::run("dumpe2fs", &["-h", path], 0).expect("is read");
        assert!(text.contains("with errors"), "{text}");
        assert!(text.contains("First error inode #"), "{text}");
    }
}

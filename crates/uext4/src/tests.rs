use super::*;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

const READ: OpenOptions = OpenOptions::new().read(true);
const READ_WRITE: OpenOptions = READ.write(true);

fn image() -> (Arc<MemoryDevice>, Filesystem) {
    let device = Arc::new(MemoryDevice::new(32 << 20));
    mkfs_on(&*device, &MkfsOptions::new(), &NoProgress).unwrap();
    let fs = Filesystem::open_device(device.clone(), &ImageOptions::read_write()).unwrap();
    (device, fs)
}

fn assert_clean(device: &MemoryDevice) {
    let report = check_on(device, &CheckOptions::new(), &NoCheckProgress).unwrap();
    assert!(report.is_clean(), "{:?}", report.faults);
}

#[test]
fn paths_work_like_std() {
    let (device, fs) = image();
    fs.create_dir_all("/a/b/c").unwrap();
    fs.create_dir_all("/a/b/c").unwrap();
    fs.write("/a/b/f", b"data").unwrap();
    assert!(fs.create_dir_all("/a/b/f/x").is_err());
    fs.symlink("b/f", "/a/link").unwrap();
    assert_eq!(fs.read("/a/link").unwrap(), b"data");
    assert_eq!(fs.read_link("/a/link").unwrap(), b"b/f");
    fs.hard_link("/a/b/f", "/a/hard").unwrap();
    assert_eq!(fs.metadata("/a/hard").unwrap().nlink(), 2);
    fs.rename("/a/hard", "/a/b/c/moved").unwrap();
    assert!(!fs.exists("/a/hard").unwrap());
    assert_eq!(fs.copy("/a/b/f", "/a/copy").unwrap(), 4);
    assert_eq!(fs.copy("/a/b/f", "/a/b/f").unwrap_err(), Errno::EINVAL);
    fs.set_permissions("/a/copy", 0o600).unwrap();
    fs.chown("/a/copy", Some(7), None).unwrap();
    let attr = fs.metadata("/a/copy").unwrap();
    assert_eq!((attr.permissions(), attr.uid(), attr.gid()), (0o600, 7, 0));
    fs.set_xattr("/a/copy", "user.k", b"v", XattrFlags::empty())
        .unwrap();
    assert_eq!(fs.list_xattrs("/a/copy").unwrap(), [b"user.k".to_vec()]);
    fs.remove_xattr("/a/copy", "user.k").unwrap();
    assert_eq!(
        fs.get_xattr("/a/copy", "user.k").unwrap_err(),
        Errno::ENODATA
    );
    assert_eq!(fs.remove_dir("/a").unwrap_err(), Errno::ENOTEMPTY);
    fs.remove_dir_all("/a").unwrap();
    assert!(!fs.exists("/a").unwrap());
    assert_eq!(fs.create_dir("/").unwrap_err(), Errno::EEXIST);
    fs.unmount().unwrap();
    assert_clean(&device);
}

#[test]
fn files_read_write_and_seek() {
    let (device, fs) = image();
    let mut file = READ_WRITE.create_new(true).open(&fs, "/f").unwrap();
    file.write_all(b"hello world").unwrap();
    file.seek(SeekFrom::Start(6)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "world");
    file.set_len(5).unwrap();
    file.write_all_at(b"x", 100_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 100_001);
    let mut five = [1; 10];
    assert_eq!(file.read_at(&mut five, 0).unwrap(), 10);
    assert_eq!(&five, b"hello\0\0\0\0\0");
    file.sync_all().unwrap();
    let again = READ_WRITE.create_new(true).open(&fs, "/f");
    assert_eq!(again.unwrap_err(), Errno::EEXIST);
    let read_only = fs.open_file("/f").unwrap();
    assert_eq!(read_only.set_len(0).unwrap_err(), Errno::EBADF);
    drop(read_only);
    drop(file);
    fs.unmount().unwrap();
    assert_clean(&device);
}

#[test]
fn directories_hold_many_and_come_once() {
    let (device, fs) = image();
    let dir = fs.root().unwrap().mkdir("d", 0o755).unwrap();
    for i in 0..1000 {
        dir.create_new(format!("file-{i}"), 0o644).unwrap();
    }
    assert_eq!(dir.create_new("file-3", 0o644).unwrap_err(), Errno::EEXIST);
    let mut names: Vec<_> = dir
        .read_dir()
        .unwrap()
        .map(|e| e.unwrap().into_name())
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1000);
    for i in 0..1000 {
        dir.unlink(format!("file-{i}")).unwrap();
    }
    fs.root().unwrap().rmdir("d").unwrap();
    drop(dir);
    fs.unmount().unwrap();
    assert_clean(&device);
}

#[test]
fn a_handle_goes_stale() {
    let (_device, fs) = image();
    fs.write("/f", b"1").unwrap();
    let handle = fs.handle("/f").unwrap();
    let file = fs.open_handle(handle, &READ).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1);
    drop(file);
    fs.remove_file("/f").unwrap();
    fs.write("/g", b"2").unwrap();
    assert_eq!(fs.open_handle(handle, &READ).unwrap_err(), Errno::ESTALE);
}

#[cfg(feature = "unstable")]
#[test]
fn crashed_image_is_read_without_being_written() {
    let (device, fs) = image();
    fs.write("/kept", b"synced").unwrap();
    fs.sync().unwrap();
    fs.engine().crash();
    drop(fs);
    let before = device.snapshot();
    let fs = Filesystem::open_device(device.clone(), &ImageOptions::read_only()).unwrap();
    assert_eq!(fs.read("/kept").unwrap(), b"synced");
    assert_eq!(fs.write("/new", b"").unwrap_err(), Errno::EROFS);
    fs.unmount().unwrap();
    assert!(device.snapshot() == before, "the image was written");
}

#[test]
fn permission_follows_the_caller() {
    let (_device, fs) = image();
    fs.write("/secret", b"x").unwrap();
    fs.set_permissions("/secret", 0o600).unwrap();
    let user = fs.with_caller(Caller::user(1000, 1000));
    assert_eq!(user.read("/secret").unwrap_err(), Errno::EACCES);
    assert_eq!(user.write("/new", b"").unwrap_err(), Errno::EACCES);
    user.access("/", Access::READ | Access::EXEC).unwrap();
}

#[test]
fn the_boot_loader_is_swapped_through_an_open_file() {
    let (device, fs) = image();
    fs.write("/stage2", b"first").unwrap();
    let read_only = fs.open_file("/stage2").unwrap();
    assert_eq!(read_only.swap_boot().unwrap_err(), Errno::EBADF);
    let file = READ_WRITE.open(&fs, "/stage2").unwrap();
    let handle = file.handle();
    assert_eq!(handle.generation, file.generation());
    file.swap_boot().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
    assert_ne!(file.generation(), handle.generation);
    assert_eq!(fs.open_handle(handle, &READ).unwrap_err(), Errno::ESTALE);
    file.write_all_at(b"second one", 0).unwrap();
    let handle = file.handle();
    drop((file, read_only));
    fs.unmount().unwrap();
    assert_clean(&device);

    let fs = Filesystem::open_device(device.clone(), &ImageOptions::read_write()).unwrap();
    let file = fs.open_handle(handle, &READ_WRITE).unwrap();
    file.swap_boot().unwrap();
    drop(file);
    assert_eq!(fs.read("/stage2").unwrap(), b"first");
    fs.create_dir("/d").unwrap();
    fs.hard_link("/stage2", "/d/again").unwrap();
    let file = OpenOptions::new().write(true).open(&fs, "/stage2").unwrap();
    assert_eq!(file.swap_boot().unwrap_err(), Errno::EINVAL);
    drop(file);
    fs.unmount().unwrap();
    assert_clean(&device);
}

#[test]
fn generations_are_set_where_checksums_do_not_depend_on_them() {
    for (features, settable) in [("", false), ("^metadata_csum,^metadata_csum_seed", true)] {
        let device = Arc::new(MemoryDevice::new(32 << 20));
        let options = MkfsOptions::new().features(features).unwrap();
        mkfs_on(&*device, &options, &NoProgress).unwrap();
        let fs = Filesystem::open_device(device.clone(), &ImageOptions::read_write()).unwrap();
        fs.write("/f", b"data").unwrap();
        let old = fs.handle("/f").unwrap();
        let file = fs.open_file("/f").unwrap();
        if settable {
            file.set_generation(old.generation ^ 1).unwrap();
            assert_eq!(fs.open_handle(old, &READ).unwrap_err(), Errno::ESTALE);
            fs.open_handle(file.handle(), &READ).unwrap();
        } else {
            let refused = file.set_generation(1).unwrap_err();
            assert_eq!(refused, Errno::ENOTTY);
            fs.open_handle(old, &READ).unwrap();
        }
        drop(file);
        fs.unmount().unwrap();
        assert_clean(&device);
    }
}

#[test]
fn a_handle_needs_permission_on_the_file_alone() {
    let (_device, fs) = image();
    fs.create_dir("/hidden").unwrap();
    fs.write("/hidden/f", b"data").unwrap();
    fs.set_permissions("/hidden", 0o700).unwrap();
    let handle = fs.handle("/hidden/f").unwrap();
    let user = fs.with_caller(Caller::user(1000, 1000));
    assert_eq!(user.read("/hidden/f").unwrap_err(), Errno::EACCES);
    user.open_handle(handle, &READ).unwrap();
    assert_eq!(
        user.open_handle(handle, &READ_WRITE).unwrap_err(),
        Errno::EACCES
    );
    fs.remove_file("/hidden/f").unwrap();
    assert_eq!(user.open_handle(handle, &READ).unwrap_err(), Errno::ESTALE);
}

/// An image in a file, in a directory that goes with the test.
fn image_file() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let size = MkfsOptions::new().size(16 << 20);
    mkfs(&path, &size, &NoProgress).unwrap();
    (dir, path)
}

fn assert_file_clean(path: &std::path::Path) {
    let report = check(path, &CheckOptions::new(), &NoCheckProgress).unwrap();
    assert!(report.is_clean(), "{:?}", report.faults);
}

#[test]
fn an_image_opened_twice_is_shared() {
    let (dir, path) = image_file();
    let first = Filesystem::open(&path, &ImageOptions::read_write()).unwrap();
    std::fs::hard_link(&path, dir.path().join("link")).unwrap();
    let by_user = ImageOptions::read_write().caller(Caller::user(7, 7));
    let second = Filesystem::open(dir.path().join("link"), &by_user).unwrap();
    assert!(first.session.mount.is_same_as(&second.session.mount));
    assert_eq!(second.caller().uid, 7);

    let refused = Filesystem::open(&path, &ImageOptions::read_only()).unwrap_err();
    assert_eq!(refused, Errno::EBUSY);
    let text = format!("{}: was opened read-write already", path.display());
    assert_eq!(refused.to_string(), text);
    let other = ImageOptions::read_write().lazytime(true);
    let refused = Filesystem::open(&path, &other).unwrap_err();
    assert!(
        refused.to_string().ends_with("with other options"),
        "{refused}"
    );

    // A mount that ends leaves the other; what was done is durable.
    first.write("/f", b"one").unwrap();
    first.unmount().unwrap();
    assert_eq!(second.read("/f").unwrap(), b"one");
    let third = Filesystem::open(&path, &ImageOptions::read_write()).unwrap();
    drop(second);
    third.write("/f", b"two").unwrap();

    // An open file keeps the image open.
    let file = third.open_file("/f").unwrap();
    drop(third);
    let refused = Filesystem::open(&path, &ImageOptions::read_only()).unwrap_err();
    assert_eq!(refused, Errno::EBUSY);
    assert_eq!(file.metadata().unwrap().len(), 3);
    drop(file);
    let [a, b] = [(); 2].map(|()| Filesystem::open(&path, &ImageOptions::read_only()).unwrap());
    assert_eq!(a.read("/f").unwrap(), b"two");
    assert!(Filesystem::open(&path, &ImageOptions::read_write()).is_err());
    drop((a, b));
    assert_file_clean(&path);
}

#[test]
fn a_file_that_is_kept_does_not_lock_the_image() {
    let (_dir, path) = image_file();
    let fs = Filesystem::open(&path, &ImageOptions::read_write()).unwrap();
    fs.write("/f", b"one").unwrap();
    let kept = OpenOptions::new().write(true).open(&fs, "/f").unwrap();
    fs.unmount().unwrap();
    let again = Filesystem::open(&path, &ImageOptions::read_write()).unwrap();
    assert_eq!(kept.write_at(b"two", 0).unwrap_err(), Errno::EROFS);
    assert_eq!(again.read("/f").unwrap(), b"one");
    drop(kept);
    again.unmount().unwrap();
    assert_file_clean(&path);
}

#[test]
fn opens_and_unmounts_race() {
    let (_dir, path) = image_file();
    std::thread::scope(|s| {
        for thread in 0..4 {
            let path = &path;
            s.spawn(move || {
                for i in 0..20 {
                    let fs = Filesystem::open(path, &ImageOptions::read_write()).unwrap();
                    fs.write(format!("/f{thread}"), [i]).unwrap();
                    match i % 3 {
                        0 => fs.unmount().unwrap(),
                        1 => drop(fs),
                        _ => drop((fs.open_file(format!("/f{thread}")).unwrap(), fs)),
                    }
                }
            });
        }
    });
    let fs = Filesystem::open(&path, &ImageOptions::read_only()).unwrap();
    for thread in 0..4 {
        assert_eq!(fs.read(format!("/f{thread}")).unwrap(), [19]);
    }
    drop(fs);
    assert_file_clean(&path);
}

#[test]
fn a_device_opened_twice_is_shared() {
    let (device, fs) = image();
    let again = Filesystem::open_device(device.clone(), &ImageOptions::read_write()).unwrap();
    assert!(fs.session.mount.is_same_as(&again.session.mount));
    fs.unmount().unwrap();
    again.write("/f", b"still there").unwrap();
    let refused = Filesystem::open_device(device.clone(), &ImageOptions::read_only());
    assert_eq!(refused.unwrap_err(), Errno::EBUSY);
    again.unmount().unwrap();
    assert_clean(&device);
    let fs = Filesystem::open_device(device, &ImageOptions::read_only()).unwrap();
    assert_eq!(fs.read("/f").unwrap(), b"still there");
}

#[test]
fn all_types_are_shared_between_threads_and_have_debug() {
    fn assert<T: Send + Sync + std::fmt::Debug>() {}
    macro_rules! assert_all {
        ($($type:ty),*) => { $(assert::<$type>();)* };
    }
    assert_all! {
        Filesystem, Frozen, File, Dir, ReadDir, DirEntry, Metadata, StatFs, ImageOptions, OpenOptions,
        DeviceOptions, MkfsOptions, MkfsReport, CheckOptions, CheckReport, Caller, Error,
        MkfsError, CheckError, BlockError, FileDevice, MemoryDevice, OverlayDevice
    }
}

#[test]
fn names_are_bytes() {
    let (device, fs) = image();
    fs.create_dir(b"/d\xff").unwrap();
    fs.write([b'/', b'd', 0xff, b'/', 0xfe], "1").unwrap();
    fs.write(std::path::PathBuf::from("/path"), "2").unwrap();
    fs.symlink(b"d\xff", "/link").unwrap();
    assert_eq!(fs.read_link("/link").unwrap(), b"d\xff");
    let names: Vec<_> = fs.read_dir(String::from("/link")).unwrap().collect();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0].as_ref().unwrap().name(), [0xfe]);
    fs.unmount().unwrap();
    assert_clean(&device);
}

#[test]
fn positioned_reads_do_not_move_the_position() {
    let (_device, fs) = image();
    let file = READ_WRITE.create(true).open(&fs, "/f").unwrap();
    (&file).write_all(b"0123456789").unwrap();
    let mut four = [0; 4];
    file.read_exact_at(&mut four, 3).unwrap();
    assert_eq!(&four, b"3456");
    assert_eq!(file.read_exact_at(&mut four, 8).unwrap_err(), Errno::EIO);
    assert_eq!((&file).stream_position().unwrap(), 10);
}

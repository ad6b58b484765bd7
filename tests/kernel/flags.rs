//! The flags of chattr(1), set beside the kernel's ext4: the same answers, the same flags afterwards. Projects, which it may
//! only read, as it does not mount them for writing where it was built without quotas.

use rustix::fs::{IFlags, Mode, OFlags};
use uext4_testkit::prelude::*;
use uext4_vfs::{OpenFile, OpenFlags};

/// Flags that Linux can change and this file system doesn't: how data is kept, and one that means nothing
/// any more (docs/SEMANTICS.md).
const KEPT: u32 = 0x40_0000 | InodeFlags::EXTENTS.bits();

/// The flags, or an errno.
type Answer = Result<u32, i32>;

fn in_kernel(fd: &OwnedFd, flags: u32) -> Answer {
    let set = rustix::fs::ioctl_setflags(fd, IFlags::from_bits_retain(flags));
    let now = rustix::fs::ioctl_getflags(fd).expect("has flags").bits();
    set.map(|()| now).map_err(|e| e.raw_os_error())
}

fn here(fs: &Ext4, who: &Caller, node: &InodeRef, flags: u32) -> Answer {
    let set = fs
        .files
        .set_flags(who, node, InodeFlags::from_bits_retain(flags));
    match set {
        Ok(()) => Ok(fs.files.flags(node).bits()),
        Err(e) => Err(e.errno().0),
    }
}

fn open(path: &Path, directory: bool) -> OwnedFd {
    let kind = match directory {
        true => OFlags::DIRECTORY,
        false => OFlags::empty(),
    };
    // Programs that other tests start must not have it: the unmount would fail while they run.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | kind;
    rustix::fs::open(path, flags, Mode::empty()).expect("opens")
}

#[test]
fn flags_are_set_as_the_kernel_sets_them() {
    require!(kernel_mounts());
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    device.save_to(&image).expect("saves");
    let fs = uext4_testkit::image::mount(device.clone()).expect("mounts");
    let mounted =
        oracle::KernelMount::new(&image, &dir.path().join("mount"), "rw").expect("mounts");
    std::fs::create_dir(mounted.dir().join("d")).expect("makes it");
    std::fs::write(mounted.dir().join("f"), "").expect("makes it");
    let root = oracle::this_process();
    let make = |name: &[u8], kind| {
        let new = NewNode { mode: 0o755, kind };
        FileSystem::create(&*fs, &root, fs.root().expect("there"), name, &new).expect("makes it")
    };
    #[rustfmt::skip]
    let both = [
        (make(b"f", NewKind::Regular), open(&mounted.dir().join("f"), false)),
        (make(b"d", NewKind::Directory), open(&mounted.dir().join("d"), true)),
    ];
    let mut rng = Rng::with_seed(7);
    for step in 0..env_number("UEXT4_FLAG_STEPS", 2000) {
        for (node, fd) in &both {
            // Mostly one flag changes, sometimes all.
            let now = fs.files.flags(node).bits();
            let flags = match rng.u8(..8) {
                0 => rng.u32(..),
                1 => 0,
                2 => rng.u32(..) & InodeFlags::USER_MODIFIABLE.bits(),
                _ => now ^ 1 << rng.u32(..32),
            };
            let flags = flags & !KEPT | now & KEPT;
            assert_eq!(
                here(&fs, &root, node, flags),
                in_kernel(fd, flags),
                "step {step}: {:?} after {:?}",
                InodeFlags::from_bits_retain(flags),
                InodeFlags::from_bits_retain(now)
            );
        }
    }
    for (node, fd) in &both {
        // Immutable files lose one flag at a time.
        let kept = fs.files.flags(node).bits() & !InodeFlags::IMMUTABLE.bits();
        assert_eq!(here(&fs, &root, node, kept), in_kernel(fd, kept));
    }
    drop(both);
    mounted.unmount().expect("unmounts");
    fs.end_on(&device);
}

#[test]
fn setting_flags_needs_permission() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = uext4_testkit::image::mount(device).expect("mounts");
    let (root, user) = (Caller::root(), Caller::user(7, 7));
    let new = NewNode {
        mode: 0o644,
        kind: NewKind::Regular,
    };
    let theirs =
        FileSystem::create(&*fs, &root, fs.root().expect("there"), b"f", &new).expect("makes it");
    let nodump = InodeFlags::NODUMP.bits() | fs.files.flags(&theirs).bits();
    assert_eq!(here(&fs, &user, &theirs, nodump), Err(Errno::EPERM.0));
    assert_eq!(here(&fs, &root, &theirs, nodump), Ok(nodump));
    let mut weak = Caller::root();
    weak.capabilities -= Capabilities::LINUX_IMMUTABLE;
    let fixed = nodump | InodeFlags::IMMUTABLE.bits();
    assert_eq!(here(&fs, &weak, &theirs, fixed), Err(Errno::EPERM.0));
    assert_eq!(here(&fs, &root, &theirs, fixed), Ok(fixed));
    let open = |flags| OpenFile::open(Arc::clone(&fs), &root, theirs.clone(), flags).map(drop);
    let refused = open(OpenFlags::WRITE).map_err(|e| e.errno());
    assert_eq!(refused, Err(Errno::EPERM));
    open(OpenFlags::READ).expect("may be read");
    let gone =
        FileSystem::unlink(&*fs, &root, fs.root().expect("there"), b"f").map_err(|e| e.errno());
    assert_eq!(gone, Err(Errno::EPERM));
    assert_eq!(here(&fs, &root, &theirs, nodump), Ok(nodump));
    FileSystem::unlink(&*fs, &root, fs.root().expect("there"), b"f").expect("goes");
}

/// An image with projects.
const WITH_PROJECTS: Shape = Shape {
    name: "with projects",
    mke2fs: Some("-t ext4 -O project -I 256"),
    ..Shape::DEFAULT
};

#[test]
fn projects_are_handed_down_and_kept_apart() {
    let device = Arc::new(WITH_PROJECTS.make().expect("an image"));
    let fs = uext4_testkit::image::mount(device.clone()).expect("mounts");
    let (root, top) = (Caller::root(), fs.root().expect("there").clone());
    let make = |dir: &InodeRef, name: &[u8], kind| {
        let new = NewNode { mode: 0o755, kind };
        FileSystem::create(&*fs, &root, dir, name, &new).expect("makes it")
    };
    let errno = |e: uext4_vfs::Error| e.errno();
    let dir = make(&top, b"d", NewKind::Directory);
    let inherits = fs.files.flags(&dir) | InodeFlags::PROJINHERIT;
    fs.files
        .set_flags_and_project(&root, &dir, Some(inherits), Some(7))
        .expect("sets both");
    let (sub, file) = (
        make(&dir, b"sub", NewKind::Directory),
        make(&dir, b"file", NewKind::Regular),
    );
    assert_eq!((fs.files.project(&sub), fs.files.project(&file)), (7, 7));
    assert!(fs.files.flags(&sub).contains(InodeFlags::PROJINHERIT));
    assert!(!fs.files.flags(&file).contains(InodeFlags::PROJINHERIT));
    let tmpfile = FileSystem::tmpfile(&*fs, &root, &dir, 0o600).expect("makes it");
    assert_eq!(fs.files.project(&tmpfile), 7);
    drop(tmpfile);
    // A file of another project may not be moved in, but may be moved out.
    let other = make(&top, b"other", NewKind::Regular);
    let link = |node, dir: &InodeRef, name: &[u8]| {
        FileSystem::link(&*fs, &root, node, dir, name).map_err(errno)
    };
    let rename = |from: &InodeRef, old: &[u8], to: &InodeRef, new: &[u8], flags| {
        FileSystem::rename(&*fs, &root, from, old, to, new, flags).map_err(errno)
    };
    let (plain, exchange) = (RenameFlags::empty(), RenameFlags::EXCHANGE);
    assert_eq!(link(&other, &dir, b"x"), Err(Errno::EXDEV));
    assert_eq!(rename(&top, b"other", &dir, b"x", plain), Err(Errno::EXDEV));
    let crossed = rename(&top, b"other", &dir, b"file", exchange);
    assert_eq!(crossed, Err(Errno::EXDEV));
    let crossed = rename(&dir, b"file", &top, b"other", exchange);
    assert_eq!(crossed, Err(Errno::EXDEV));
    rename(&dir, b"file", &top, b"out", plain).expect("moved out");
    rename(&top, b"out", &dir, b"in", plain).expect("is of that project");
    let user = Caller::user(7, 7);
    let set = |who, node, project| {
        fs.files
            .set_flags_and_project(who, node, None, Some(project))
            .map_err(|e| e.errno())
    };
    assert_eq!(set(&user, &other, 7), Err(Errno::EPERM));
    assert_eq!(set(&root, &other, u32::MAX), Err(Errno::EINVAL));
    assert_eq!(set(&root, &other, 7), Ok(()));
    link(&other, &dir, b"x").expect("of that project now");
    drop((dir, sub, file, other, top));
    fs.end_on(&device);
    require!(kernel_mounts());
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    device.save_to(&image).expect("saves");
    let mounted =
        oracle::KernelMount::new(&image, &dir.path().join("mount"), "ro").expect("mounts");
    let path = mounted.dir().join("d");
    let listed = oracle::run("lsattr", &["-p", path.to_str().expect("text")], 0).expect("lists");
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert!(listed.lines().all(|l| l.starts_with("    7 ")), "{listed}");
    mounted.unmount().expect("unmounts");
}

#[test]
fn direct_access_is_handed_down_and_excludes_the_journal() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = uext4_testkit::image::mount(device.clone()).expect("mounts");
    let (root, top) = (Caller::root(), fs.root().expect("there").clone());
    let make = |dir: &InodeRef, name: &[u8], kind| {
        let new = NewNode { mode: 0o755, kind };
        FileSystem::create(&*fs, &root, dir, name, &new).expect("makes it")
    };
    let (dax, journal) = (InodeFlags::DAX.bits(), InodeFlags::JOURNAL_DATA.bits());
    let dir = make(&top, b"d", NewKind::Directory);
    let of_dir = fs.files.flags(&dir).bits();
    assert_eq!(here(&fs, &root, &dir, of_dir | dax), Ok(of_dir | dax));
    let refused = here(&fs, &root, &dir, of_dir | dax | journal);
    assert_eq!(refused, Err(Errno::EOPNOTSUPP.0));
    let tmpfile = FileSystem::tmpfile(&*fs, &root, &dir, 0o600).expect("makes it");
    let made = [
        make(&dir, b"d", NewKind::Directory),
        make(&dir, b"f", NewKind::Regular),
        tmpfile,
    ];
    assert!(
        made.iter()
            .all(|node| fs.files.flags(node).bits() & dax != 0)
    );
    let link = make(&dir, b"l", NewKind::Symlink(b"f"));
    assert_eq!(fs.files.flags(&link).bits() & dax, 0);
    let of_file = fs.files.flags(&made[1]).bits() & !dax;
    assert_eq!(here(&fs, &root, &made[1], of_file), Ok(of_file));
    let journaled = of_file | journal;
    assert_eq!(here(&fs, &root, &made[1], journaled), Ok(journaled));
    let refused = here(&fs, &root, &made[1], journaled | dax);
    assert_eq!(refused, Err(Errno::EOPNOTSUPP.0));
    drop((top, dir, made, link));
    fs.end_on(&device);
}

#[test]
fn synchronous_directories_and_files_are_durable_on_return() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = uext4_testkit::image::mount(device.clone()).expect("mounts");
    let (root, top) = (Caller::root(), fs.root().expect("there").clone());
    let make = |dir: &InodeRef, name: &[u8], kind| {
        let new = NewNode { mode: 0o755, kind };
        FileSystem::create(&*fs, &root, dir, name, &new).expect("makes it")
    };
    let dir = make(&top, b"d", NewKind::Directory);
    let both = InodeFlags::SYNC | InodeFlags::DIRSYNC;
    fs.files
        .set_flags(&root, &dir, fs.files.flags(&dir) | both)
        .expect("sets them");
    let file = make(&dir, b"f", NewKind::Regular);
    assert_eq!(fs.files.flags(&file) & both, InodeFlags::SYNC, "by kind");
    FileSystem::write(&*fs, &file, 0, b"durable").expect("writes");
    make(&top, b"late", NewKind::Regular);
    fs.crash();
    drop((top, dir, file, fs));
    let fs = uext4_testkit::image::mount(device).expect("mounts");
    let top = fs.root().expect("there").clone();
    let find = |dir: &InodeRef, name: &[u8]| FileSystem::lookup(&*fs, &root, dir, name);
    let file = find(&find(&top, b"d").expect("there"), b"f").expect("there");
    let mut data = [0; 7];
    FileSystem::read(&*fs, &file, 0, &mut data).expect("reads");
    assert_eq!(&data, b"durable");
    let late = find(&top, b"late").map(drop).map_err(|e| e.errno());
    assert_eq!(late, Err(Errno::ENOENT), "nothing waited for it");
}

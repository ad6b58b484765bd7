//! The sandbox, entered in a child process each time: it can't be left again.

use std::fs::OpenOptions;
use uext4::{DeviceOptions, FileDevice, Filesystem, MkfsOptions, NoProgress, mkfs};
use uext4_mountd::sandbox::{self, Serves};
use uext4_testkit::prelude::*;

/// Set in the child, to a directory to work in.
const CHILD: &str = "UEXT4_TEST_SANDBOX";

/// Runs the test `name` again in a process of its own, which finds [`CHILD`] set.
fn again(name: &str, dir: &TempDir) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env(CHILD, dir.path()).output().unwrap()
}

/// Runs `child` in a process of its own, in a directory that `prepare` filled; it has to succeed.
fn confined(name: &str, prepare: fn(&TempDir), child: fn(&std::path::Path)) {
    if let Some(dir) = std::env::var_os(CHILD) {
        return child(dir.as_ref());
    }
    let dir = TempDir::new().unwrap();
    prepare(&dir);
    let out = again(name, &dir);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}: {said}", out.status);
    eprint!("{said}");
}

#[test]
fn paths_are_out_of_reach_and_what_is_open_is_not() {
    let prepare = |dir: &TempDir| std::fs::write(dir.path().join("open"), b"before").unwrap();
    confined(
        "paths_are_out_of_reach_and_what_is_open_is_not",
        prepare,
        |dir| {
            let mut options = OpenOptions::new();
            let file = options
                .read(true)
                .write(true)
                .open(dir.join("open"))
                .unwrap();
            let confinement = sandbox::enter(Serves::Image).unwrap();
            eprintln!("in force: {confinement}");
            if let Some(warning) = confinement.warning() {
                eprintln!("skipped: Landlock: {warning}");
            }
            for path in ["/etc/passwd", "/proc/self/status", "/dev/null", "open"] {
                assert!(File::open(path).is_err(), "{path} is within reach");
            }
            assert!(std::fs::write(dir.join("new"), b"").is_err());
            assert!(std::fs::remove_file(dir.join("open")).is_err());
            assert!(std::fs::read_dir("/").is_err());
            let in_thread = std::thread::spawn(|| File::open("/etc/passwd").is_err());
            assert!(in_thread.join().unwrap(), "a thread has what it gave up");
            file.write_all_at(b"after", 0).unwrap();
            let mut text = String::new();
            (&file).read_to_string(&mut text).unwrap();
            assert_eq!(text, "aftere");
            let privileges = rustix::thread::capabilities(None);
            assert!(privileges.is_err(), "what it may not ask is refused");
        },
    );
}

#[test]
fn executing_a_program_ends_it() {
    let name = "executing_a_program_ends_it";
    if std::env::var_os(CHILD).is_some() {
        sandbox::enter(Serves::Image).unwrap();
        let error = std::os::unix::process::CommandExt::exec(&mut Command::new("/bin/true"));
        panic!("still here: {error}");
    }
    let out = again(name, &TempDir::new().unwrap());
    assert_eq!(out.status.signal(), Some(libc::SIGSYS), "{out:?}");
}

#[test]
fn a_socket_ends_it() {
    if std::env::var_os(CHILD).is_some() {
        sandbox::enter(Serves::Image).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0");
        panic!("still here: {socket:?}");
    }
    let out = again("a_socket_ends_it", &TempDir::new().unwrap());
    assert_eq!(out.status.signal(), Some(libc::SIGSYS), "{out:?}");
}

#[test]
fn an_image_is_mounted_written_and_clean() {
    let name = "an_image_is_mounted_written_and_clean";
    if let Some(dir) = std::env::var_os(CHILD) {
        let image = std::path::Path::new(&dir).join("image");
        return use_image(&image);
    }
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("image");
    let options = MkfsOptions::new().size(64 << 20);
    mkfs(&image, &options, &NoProgress).unwrap();
    let out = again(name, &dir);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}: {said}", out.status);
    match Command::new("e2fsck").arg("-fn").arg(&image).output() {
        Ok(out) => assert_eq!(out.status.code(), Some(0), "{out:?}"),
        Err(e) => eprintln!("skipped: e2fsck: {e}"),
    }
    let fs = Filesystem::open(&image, &uext4::ImageOptions::read_only()).unwrap();
    assert_eq!(fs.read("/dir3/file99").unwrap(), vec![3; 99 * 100]);
}

/// From several threads, in and past the host's cache.
fn use_image(image: &std::path::Path) {
    let options = DeviceOptions::read_write();
    let device = Arc::new(FileDevice::open(image, &options).unwrap());
    sandbox::enter(Serves::Image).unwrap();
    let fs = Filesystem::open_device(device, &uext4::ImageOptions::read_write()).unwrap();
    std::thread::scope(|scope| {
        for n in 0..4_u8 {
            let fs = &fs;
            scope.spawn(move || {
                fs.create_dir(format!("/dir{n}")).unwrap();
                for i in 0..100 {
                    let path = format!("/dir{n}/file{i}");
                    fs.write(&path, vec![n; i * 100]).unwrap();
                }
                fs.sync().unwrap();
            });
        }
    });
    fs.unmount().unwrap();
}

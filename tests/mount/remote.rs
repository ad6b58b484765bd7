//! Images on servers, made and mounted by the command: a tree that is copied in, random operations on a file, and e2fsck of an export.

use crate::fsx;
use crate::*;
#[cfg(any(feature = "rbd", feature = "s3"))]
use uext4_testkit::ceph::is_client;
use uext4_testkit::remote_image::{RemoteImage, Server};

const BYTES: u64 = 128 << 20;

#[cfg(any(feature = "rbd", feature = "s3"))]
/// The client opens connections while it is mounted, which the sandbox forbids.
const UNCONFINED: &[&str] = &["--no-sandbox"];

fn mounts(server: Server, arguments: &[&str]) {
    require!(can_mount());
    let image = require!(some RemoteImage::new(server, BYTES).unwrap());
    let mut mount = MountedDir::remote(image, arguments).expect("mounts");
    let source = Path::new(WORKSPACE).join("crates/block");
    let to = mount.dir().join("tree");
    oracle::run("cp", &["-a", text(&source), text(&to)], 0).unwrap();
    compare(&source, &to);
    mount.remount().expect("is clean, and mounts again");
    compare(&source, &to);
    let (seed, count) = (
        env_number("UEXT4_FSX_SEED", 1),
        env_number("UEXT4_FSX_OPS", 2000),
    );
    let subject =
        fsx::run(mount, false, seed, count).unwrap_or_else(|e| panic!("{server:?}: {e:#}"));
    subject.close().finish().expect("is clean in the end");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn compare(source: &Path, copy: &Path) {
    let (source, copy) = (tree::of_dir(source).unwrap(), tree::of_dir(copy).unwrap());
    assert!(source.len() > 50, "{} files", source.len());
    if let Some(difference) = tree::difference(&source, &copy) {
        panic!("the source / its copy: {difference}");
    }
}

#[test]
#[ignore = "takes long; make test-remote runs it"]
fn remote_nbd_over_tcp() {
    mounts(Server::NbdTcp, &[]);
}

#[test]
#[ignore = "takes long; make test-remote runs it"]
fn remote_nbd_over_a_socket() {
    mounts(Server::NbdSocket, &[]);
}

#[cfg(feature = "rbd")]
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn remote_rbd() {
    require!(is_client("remote::remote_rbd"));
    mounts(Server::Rbd, UNCONFINED);
}

#[cfg(feature = "s3")]
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn remote_s3() {
    require!(is_client("remote::remote_s3"));
    mounts(Server::S3, UNCONFINED);
}

/// The mount of a reader advances to what is durable since it was made, and what is open stays at its state.
#[cfg(feature = "s3")]
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn remote_s3_mount_is_refreshed() {
    require!(can_mount() && is_client("remote::remote_s3_mount_is_refreshed"));
    let image = require!(some RemoteImage::new(Server::S3, 32 << 20).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let (source, mounted) = (dir.path().join("status"), dir.path().join("mnt"));
    fs::create_dir(&mounted).unwrap();
    let run =
        |arguments: &[&str]| oracle::run(uext4_testkit::built::uext4(), arguments, 0).unwrap();
    let write = |content: &str| {
        fs::write(&source, content).unwrap();
        run(&["cp", text(&source), &format!("{}:/status", image.name())]);
    };
    let refresh = ["mount", "-r", "--refresh", "--no-sandbox"];
    let refresh = || run(&[&refresh[..], &[image.name(), text(&mounted)]].concat());
    let read = || fs::read_to_string(mounted.join("status")).unwrap();
    run(&["mkfs", image.name()]);
    write("one");
    refresh();
    assert_eq!(read(), "one");
    let mut open = fs::File::open(mounted.join("status")).unwrap();
    write("two");
    assert_eq!(read(), "one");
    refresh();
    assert_eq!(read(), "two");
    let mut content = String::new();
    open.read_to_string(&mut content).unwrap();
    assert_eq!(content, "one");
    drop(open);
    run(&["umount", text(&mounted)]);
    assert_eq!(fs::read_dir(&mounted).unwrap().count(), 0);
}

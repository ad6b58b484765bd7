//! Images that an NBD server has: every command, and one writer at a time.

use crate::*;
use uext4_testkit::certificates::Certificates;
use uext4_testkit::mounted_dir::can_mount;
use uext4_testkit::nbd_server::{NbdServer, Over};

#[test]
fn commands_take_the_name_of_an_export() {
    let server = require!(some NbdServer::new(64 << 20));
    let workdir = Workdir::new();
    workdir.tree();
    let disk = &server.name();
    let at = |path: &str| format!("{disk}:{path}");
    workdir.ok(&["mkfs", disk, "--from", "tree", "-q"]);
    workdir.refuses(1, &["mkfs", disk], "--force overwrites it");
    let info = workdir.ok(&["info", "--json", disk]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["blocks"], 16384);
    assert!(info["features"].to_string().contains("\"mmp\""), "{info}");
    fs::write(workdir.path("f"), "text").unwrap();
    workdir.ok(&["cp", "f", &at("/f")]);
    workdir.ok(&["mv", &at("/f"), &at("/g")]);
    workdir.prints(&["cat", &at("/g")], "text");
    workdir.ok(&["cp", &at("/g"), "copy"]);
    assert_eq!(fs::read_to_string(workdir.path("copy")).unwrap(), "text");
    fs::write(workdir.path("script"), "mkdir :/d\nmv :/g :/d/").unwrap();
    workdir.ok(&["apply", disk, "script"]);
    workdir.prints(
        &["find", &at("/d"), "-type", "f"],
        &format!("{disk}:/d/g\n"),
    );
    workdir.ok(&["check", disk]);
    workdir.ok(&["mkfs", "other.img", "--from", disk, "-q"]);
    workdir.prints(&["cat", "other.img:/d/g"], "text");
    oracle::fsck(&server.file()).unwrap();
}

#[test]
fn an_export_has_one_writer() {
    let server = require!(some NbdServer::new(64 << 20));
    let workdir = Workdir::new();
    let disk = &server.name();
    let dir = format!("{disk}:/d");
    // Without the feature nothing says whether another has it open.
    workdir.ok(&["mkfs", disk, "-O", "^mmp", "-q"]);
    workdir.refuses(1, &["mkdir", &dir], "no multi-mount protection");
    workdir.ok(&["--exclusive-elsewhere", "mkdir", &dir]);
    workdir.ok(&["ls", disk]);
    workdir.ok(&["mkfs", disk, "--force", "-q"]);
    workdir.ok(&["mkdir", &dir]);
    let options = uext4::ImageOptions::read_write();
    let held = uext4::Filesystem::open(disk, &options).unwrap();
    held.write("/first", b"text").unwrap();
    held.sync().unwrap();
    let refused = workdir.fails(1, &["mkdir", &format!("{disk}:/other")]);
    assert!(
        refused.contains("has it open, or left it so") && !refused.contains("waits"),
        "{refused}"
    );
    held.unmount().unwrap();
    workdir.ok(&["mkdir", &format!("{disk}:/other")]);
    workdir.prints(&["cat", &format!("{disk}:/first")], "text");
    oracle::fsck(&server.file()).unwrap();
}

#[test]
fn a_server_of_one_client_is_enough() {
    let server = require!(some NbdServer::of_one_client(64 << 20));
    let workdir = Workdir::new();
    let disk = &server.name();
    // Its message opens it a second time.
    workdir.refuses(1, &["ls", disk], "not an ext4 image");
    workdir.ok(&["mkfs", disk, "-q"]);
    workdir.ok(&[
        "cp",
        "-r",
        &format!("{disk}:/lost+found"),
        &format!("{disk}:/copy"),
    ]);
    workdir.prints(&["ls", disk], "copy\nlost+found\n");
}

#[test]
fn an_export_is_mounted() {
    require!(can_mount());
    let server = require!(some NbdServer::new(64 << 20));
    let workdir = Workdir::new();
    let disk = &server.name();
    workdir.ok(&["mkfs", disk, "-q"]);
    fs::create_dir(workdir.path("m")).unwrap();
    workdir.ok(&["mount", disk, "m"]);
    fs::write(workdir.path("m/f"), vec![7; 3 << 20]).unwrap();
    fs::rename(workdir.path("m/f"), workdir.path("m/g")).unwrap();
    workdir.ok(&["umount", "m"]);
    oracle::fsck(&server.file()).unwrap();
    workdir.ok(&["mount", "-r", disk, "m"]);
    assert!(fs::read(workdir.path("m/g")).unwrap() == vec![7; 3 << 20]);
    workdir.ok(&["umount", "m"]);
}

/// In the sandbox, where no certificate can be read.
#[test]
fn an_export_is_mounted_over_tls() {
    require!(can_mount());
    let certificates = require!(some Certificates::new().unwrap());
    let dir = certificates.of_server("localhost", "ip_address = 127.0.0.1\n");
    let server = require!(some NbdServer::with_tls(64 << 20, &dir.unwrap(), Over::Tcp));
    let workdir = Workdir::new();
    let client = certificates.of_client();
    let disk = &format!("{}?tls-certificates={}", server.name(), client.display());
    workdir.refuses(1, &["mkfs", &server.name(), "-q"], "tls-certificates=DIR");
    workdir.ok(&["mkfs", disk, "-q"]);
    fs::create_dir(workdir.path("m")).unwrap();
    workdir.ok(&["mount", disk, "m"]);
    let bytes: Vec<u8> = (0..5 << 20).map(|at: u32| (at / 512) as u8).collect();
    fs::write(workdir.path("m/f"), &bytes).unwrap();
    workdir.ok(&["umount", "m"]);
    oracle::fsck(&server.file()).unwrap();
    workdir.ok(&["mount", "-r", disk, "m"]);
    assert!(fs::read(workdir.path("m/f")).unwrap() == bytes);
    workdir.ok(&["umount", "m"]);
    workdir.prints(&["ls", disk], "f\nlost+found\n");
}

#[test]
fn names_that_are_none_are_answered() {
    let workdir = Workdir::new();
    for (name, said) in [
        ("nbd://", "names no host"),
        ("nbd://host:port/x", "a port that is not a number"),
        ("nbd+unix:///x", "names no socket"),
        ("nbd+unix:///x?socket=/nowhere", "No such file or directory"),
        ("nbd://host/x?tls-hostname=y", "a parameter of TLS"),
        ("nbds://host/x?tls-verify-peer=0", "is not verified"),
        ("nbds://localhost:1/x", "Connection refused"),
        ("nbd://127.0.0.1:1/x", "Connection refused"),
    ] {
        workdir.refuses(1, &["ls", name], said);
        workdir.refuses(1, &["mkdir", &format!("{name}:/d")], said);
    }
    // A name of a file can be said to be one.
    workdir.ok(&["mkfs", "file:nbd", "--size", "16M", "-q"]);
    workdir.ok(&["mkdir", "file:nbd:/d"]);
    workdir.prints(&["ls", "nbd:/"], "d\nlost+found\n");
}

#[test]
fn what_another_has_open_is_not_overwritten() {
    let server = require!(some NbdServer::new(64 << 20));
    let workdir = Workdir::new();
    let disk = &server.name();
    workdir.ok(&["mkfs", disk, "-q"]);
    let options = uext4::ImageOptions::read_write();
    let held = uext4::Filesystem::open(disk, &options).unwrap();
    held.write("/f", b"text").unwrap();
    held.sync().unwrap();
    workdir.refuses(1, &["mkfs", "--force", disk], "has it open, or left it so");
    held.write("/f", b"more").unwrap();
    held.unmount().unwrap();
    workdir.prints(&["cat", &format!("{disk}:/f")], "more");
    // One that fails leaves it free, one that succeeds as well.
    workdir.refuses(1, &["mkfs", "--force", disk, "--size", "1G"], "1073741824");
    workdir.ok(&["mkdir", &format!("{disk}:/d")]);
    workdir.ok(&["mkfs", "--force", disk, "-q"]);
    workdir.ok(&["mkdir", &format!("{disk}:/d")]);
    oracle::fsck(&server.file()).unwrap();
}

#[test]
fn exports_differ_by_their_names() {
    let (one, other) = (
        require!(some NbdServer::new(16 << 20)),
        require!(some NbdServer::new(16 << 20)),
    );
    let workdir = Workdir::new();
    let (a, b) = (&one.name(), &other.name());
    for (disk, text) in [(a, "of a"), (b, "of b")] {
        workdir.ok(&["mkfs", disk, "-q"]);
        fs::write(workdir.path("x"), text).unwrap();
        workdir.ok(&["cp", "x", &format!("{disk}:/x")]);
    }
    workdir.refuses(
        1,
        &["ln", &format!("{a}:/x"), &format!("{b}:/y")],
        "is not in",
    );
    workdir.ok(&["cp", &format!("{a}:/x"), &format!("{b}:/y")]);
    workdir.prints(&["cat", &format!("{b}:/y"), &format!("{b}:/x")], "of aof b");
    // Another name of the same, and one with a slash more, which the server has not.
    let encoded = a.replace("/disk?", "/%64isk?");
    workdir.ok(&["ln", &format!("{a}:/x"), &format!("{encoded}:/z")]);
    let slash = a.replace("/disk?", "//disk?");
    let refused = workdir.run(&["cat", &format!("{a}:/x"), &format!("{slash}:/x")]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(refused.stdout, b"of a");
}

#[test]
fn a_socket_can_be_named_from_the_working_directory() {
    require!(can_mount());
    let server = require!(some NbdServer::new(16 << 20));
    let workdir = Workdir::new();
    let socket = server.file().parent().unwrap().join("s");
    std::os::unix::fs::symlink(socket, workdir.path("a:b")).unwrap();
    let disk = "nbd+unix:///disk?socket=a:b";
    workdir.ok(&["mkfs", disk, "-q"]);
    fs::create_dir(workdir.path("m")).unwrap();
    workdir.ok(&["mount", disk, "m"]);
    fs::write(workdir.path("m/f"), "text").unwrap();
    workdir.ok(&["umount", "m"]);
    workdir.prints(&["cat", &format!("{disk}:/f")], "text");
}

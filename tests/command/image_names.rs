//! Images by name: qcow2, backing files and partitions of disks, beside qemu-img, sgdisk and the kernel.

use crate::workdir::Workdir;
use std::os::unix::fs::symlink;
use uext4_testkit::prelude::*;

/// Runs a program in the directory; `None`, with a line on stderr, where it is missing.
fn run(workdir: &Workdir, line: &str) -> Option<String> {
    let mut sh = Command::new("sh");
    sh.args(["-c", line]).current_dir(workdir.dir());
    sh.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let out = sh.output().unwrap();
    if out.status.code() == Some(127) {
        eprintln!("SKIPPED: {line}");
        return None;
    }
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(out.status.success(), "{line}: {text}");
    Some(text)
}

/// QEMU finds a qcow2 image clean, and e2fsck what it holds.
fn assert_clean_qcow2(workdir: &Workdir, image: &str) {
    run(workdir, &format!("qemu-img check -q {image}"));
    run(
        workdir,
        &format!("qemu-img convert -O raw {image} converted.raw"),
    );
    workdir.assert_clean("converted.raw");
}

/// Images of QEMU of both versions, with small and large clusters, compressed, and over backing files.
#[test]
fn qcow2_of_qemu_is_read_and_written() {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "base.raw", "32M", "--from", "tree"]);
    let base = fs::read(workdir.path("base.raw")).unwrap();
    for options in ["compat=0.10", "compat=1.1", "compat=1.1,refcount_bits=1"] {
        for cluster in ["512", "4k", "64k", "2M"] {
            let options = format!("{options},cluster_size={cluster}");
            for make in [
                format!("qemu-img convert -c -f raw -O qcow2 -o {options} base.raw a.qcow2"),
                format!("qemu-img create -q -f qcow2 -F raw -b base.raw -o {options} a.qcow2"),
            ] {
                if run(&workdir, &make).is_none() {
                    return;
                }
                workdir.prints(&["cat", "a.qcow2:/etc/passwd"], "root:x");
                workdir.ok(&["cp", "tree/large", "a.qcow2:/copy"]);
                workdir.ok(&["rm", "a.qcow2:/large"]);
                workdir.prints(&["check", "a.qcow2"], "clean");
                assert_clean_qcow2(&workdir, "a.qcow2");
                run(
                    &workdir,
                    "qemu-img create -q -f qcow2 -F qcow2 -b a.qcow2 b.qcow2",
                );
                workdir.ok(&["mv", "b.qcow2:/copy", "b.qcow2:/large"]);
                assert_clean_qcow2(&workdir, "b.qcow2");
                workdir.ok(&["diff", "b.qcow2", "converted.raw"]);
                workdir.refuses(1, &["cat", "a.qcow2:/large"], "no such file");
            }
        }
    }
    assert!(fs::read(workdir.path("base.raw")).unwrap() == base);
}

/// A backing file is in the directory of its image, and says which format it has.
#[test]
fn backing_files_elsewhere_are_refused() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "base.raw", "8M"]);
    fs::create_dir(workdir.path("sub")).unwrap();
    symlink("../base.raw", workdir.path("sub/link")).unwrap();
    let outside = "is not in its directory";
    for (name, why) in [
        ("/etc/passwd", outside),
        ("../base.raw", outside),
        ("x/../../base.raw", outside),
        ("link", outside),
        (
            "json:{}",
            "sub/a.qcow2: needs its backing file sub/json:{}, which is not there; copy it there",
        ),
        ("a.qcow2", "twice"),
    ] {
        let make = format!("qemu-img create -q -u -f qcow2 -F qcow2 -b '{name}' sub/a.qcow2 8M");
        if run(&workdir, &make).is_none() {
            return;
        }
        workdir.refuses(1, &["ls", "sub/a.qcow2"], why);
    }
    workdir.refuses(1, &["touch", "sub/a.qcow2:/x"], "");
    run(&workdir, "qemu-img create -q -f qcow2 0.qcow2 8M");
    for i in 1..20 {
        let below = i - 1;
        let make = format!("qemu-img create -q -u -f qcow2 -F qcow2 -b {below}.qcow2 {i}.qcow2 8M");
        run(&workdir, &make);
    }
    workdir.refuses(
        1,
        &["ls", "19.qcow2"],
        "a chain of more than 16 backing files",
    );
    workdir.refuses(1, &["ls", "15.qcow2"], "only zeros");
}

/// Commands of every kind, on a qcow2 image and on a partition.
#[test]
fn every_command_takes_qcow2_and_partitions() {
    let workdir = Workdir::new();
    workdir.tree();
    let from = ["--from", "tree", "--size", "24M", "-L", "named"];
    workdir.ok(&[&["mkfs", "a.qcow2", "--format", "qcow2"][..], &from].concat());
    workdir.ok(&[&["mkfs", "disk", "--partition=root"][..], &from].concat());
    workdir.ok(&[
        &["mkfs", "b.qcow2", "--partition=root", "--format=qcow2"][..],
        &from,
    ]
    .concat());
    for image in ["a.qcow2", "disk?partition=root", "b.qcow2?partition=1"] {
        let at = |path: &str| format!("{image}:{path}");
        for args in [
            &["ls", "-l", &at("/")][..],
            &["tree", image],
            &["find", image],
            &["cat", &at("/etc/passwd")],
            &["stat", &at("/etc")],
            &["du", image],
            &["df", image],
            &["info", image],
            &["dump", image, "inode", "2"],
            &["cp", "-r", "tree/etc", &at("/more")],
            &["mkdir", &at("/dir")],
            &["mv", &at("/more"), &at("/dir")],
            &["ln", &at("/large"), &at("/linked")],
            &["chmod", "600", &at("/large")],
            &["chown", "7:7", &at("/large")],
            &["touch", &at("/dir/new")],
            &["truncate", "-s", "1M", &at("/large")],
            &["chattr", "+d", &at("/large")],
            &["xattr", "set", &at("/large"), "user.a", "b"],
            &["label", image],
            &["rm", &at("/linked")],
            &["trim", image],
            &["check", image],
        ] {
            workdir.ok(args);
        }
        workdir.prints(&["info", image], "named");
    }
    assert_clean_qcow2(&workdir, "a.qcow2");
    run(&workdir, "qemu-img check -q b.qcow2");
    for args in [
        ["disk?partition=2", "has no partition 2, but 1 (root, Linux"],
        ["disk", "'disk?partition=1'"],
    ] {
        workdir.refuses(1, &["ls", args[0]], args[1]);
    }
    workdir.refuses(1, &["ls", "a.qcow2?partition=1"], "has no partitions");
    // A file with the whole name is meant.
    fs::write(workdir.path("disk?partition=9"), "text").unwrap();
    workdir.refuses(1, &["ls", "disk?partition=9"], "but text");
}

/// A disk that mkfs makes: its table is right, its bytes depend on the UUID, and a partition that is there is filled.
#[test]
fn mkfs_makes_disks() {
    let workdir = Workdir::new();
    workdir.tree();
    let uuid = "--uuid=6ba7b810-9dad-41d1-80b4-00c04fd430c8";
    for name in ["one", "two"] {
        let mut mkfs = Command::new(uext4_testkit::built::uext4());
        mkfs.args([
            "mkfs",
            "-q",
            name,
            "20M",
            "--partition=r\u{f6}\u{f6}t",
            "--from",
            "tree",
            uuid,
        ]);
        let made = mkfs
            .env("SOURCE_DATE_EPOCH", "7")
            .current_dir(workdir.dir())
            .status();
        assert!(made.unwrap().success());
    }
    let bytes = fs::read(workdir.path("one")).unwrap();
    assert_eq!(bytes.len(), 20 << 20);
    assert!(bytes == fs::read(workdir.path("two")).unwrap());
    if let Some(text) = run(&workdir, "sgdisk -v one && sfdisk --verify one") {
        assert!(text.contains("No problems found"), "{text}");
    }
    workdir.prints(&["ls", "one?partition=r\u{f6}\u{f6}t"], "large");
    workdir.refuses(1, &["mkfs", "one?partition=1"], "holds an ext2");
    workdir.ok(&["mkfs", "--force", "one?partition=1", "-L", "again"]);
    workdir.prints(&["info", "one?partition=1"], "again");
    workdir.refuses(1, &["mkfs", "three", "1M", "--partition"], "too small");
    workdir.refuses(
        1,
        &["mkfs", "-F", "one?partition=1", "--format", "qcow2"],
        "only a file",
    );
    let long = format!("--partition={}", "x".repeat(37));
    workdir.refuses(1, &["mkfs", "three", "8M", &long], "at most 36 characters");
    assert!(!workdir.path("three").exists());
}

/// The kernel reads the same from the partition that its own table code finds.
#[test]
fn the_kernel_mounts_a_partition() {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "disk", "24M", "--partition=root", "--from", "tree"]);
    workdir.ok(&["cp", "tree/large", "disk?partition=root:/copy"]);
    let Some(node) = workdir.attach("disk", &["-P"]) else {
        return;
    };
    let (node, part) = (node.path(), format!("{}p1", node.path()));
    if !Path::new(&part).exists() {
        let _ = run(&workdir, &format!("partx -a {node} || true"));
    }
    if !Path::new(&part).exists() {
        eprintln!("SKIPPED: no partitions of loop devices");
        return;
    }
    let line = format!(
        "mkdir m && mount -o ro {part} m && cmp m/copy tree/large && cmp m/large tree/large; ok=$?; umount m; exit $ok"
    );
    run(&workdir, &line);
}

/// A mount serves a qcow2 image over a backing file, and a partition, from inside its sandbox.
#[test]
fn mounts_serve_qcow2_and_partitions() {
    let workdir = Workdir::new();
    workdir.tree();
    if fs::File::open("/dev/fuse").is_err() {
        eprintln!("SKIPPED: no /dev/fuse");
        return;
    }
    let from = ["24M", "--from", "tree"];
    workdir.ok(&[&["mkfs", "base.raw"][..], &from].concat());
    workdir.ok(&[&["mkfs", "disk", "--partition=root"][..], &from].concat());
    let make = "qemu-img create -q -f qcow2 -F raw -b base.raw a.qcow2";
    let images = match run(&workdir, make) {
        Some(_) => &["disk?partition=root", "a.qcow2"][..],
        None => &["disk?partition=root"],
    };
    fs::create_dir(workdir.path("m")).unwrap();
    for image in images {
        workdir.ok(&["mount", image, "m"]);
        fs::copy(workdir.path("m/large"), workdir.path("m/copy")).unwrap();
        workdir.prints(&["ls", image], "copy");
        workdir.refuses(1, &["touch", &format!("{image}:/x")], "mounted on");
        workdir.ok(&["umount", image]);
        workdir.prints(&["check", image], "clean");
    }
    if images.len() > 1 {
        assert_clean_qcow2(&workdir, "a.qcow2");
    }
}

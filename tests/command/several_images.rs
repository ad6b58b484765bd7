//! Commands that take several images: each is done, a failure of one does not end the rest, and the exit code says so.

use crate::*;
use std::os::unix::fs::FileExt;

fn two_images(workdir: &Workdir) {
    workdir.ok(&["mkfs", "-q", "a.img", "16M", "-L", "first"]);
    workdir.ok(&["mkfs", "-q", "b.img", "16M", "-L", "second"]);
}

fn run(workdir: &Workdir, code: i32, args: &[&str]) -> (String, String) {
    let out = workdir.run(args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err, status) = (text(out.stdout), text(out.stderr), out.status.code());
    assert_eq!(status, Some(code), "{args:?}: {err}");
    (out, err)
}

#[test]
fn check_exits_with_the_largest_code() {
    let workdir = Workdir::new();
    two_images(&workdir);
    let (out, _) = run(&workdir, 0, &["fsck", "-f", "-n", "a.img", "b.img"]);
    assert!(
        out.contains("a.img: clean") && out.contains("b.img: clean"),
        "{out}"
    );
    let (out, err) = run(&workdir, 8, &["check", "a.img", "none.img", "b.img"]);
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(err.contains("none.img: no such image"), "{err}");
    // Counts of free blocks and inodes in the superblock, and its checksum.
    let file = fs::File::options()
        .write(true)
        .open(workdir.path("b.img"))
        .unwrap();
    file.write_all_at(&[9; 8], 1024 + 12).unwrap();
    run(&workdir, 4, &["check", "b.img", "a.img"]);
    let (out, err) = run(&workdir, 1, &["check", "-y", "b.img", "a.img"]);
    assert!(
        out.contains("a.img: clean") && out.contains("b.img: "),
        "{out}"
    );
    assert!(out.contains("b.img: repaired: superblock"), "{out}");
    assert_eq!(err, "");
    run(&workdir, 0, &["check", "b.img"]);
    run(&workdir, 8, &["check", "none.img", "b.img"]);
}

#[test]
fn documents_of_several_images_are_a_list() {
    let workdir = Workdir::new();
    two_images(&workdir);
    for command in ["check", "info", "trim"] {
        let document = |args: &[&str]| -> serde_json::Value {
            let args = [&[command, "--json"], args].concat();
            serde_json::from_slice(&workdir.run(&args).stdout).unwrap()
        };
        assert!(document(&["a.img"]).is_object(), "{command}");
        let both = document(&["a.img", "b.img"]);
        assert_eq!(both.as_array().unwrap().len(), 2, "{command}");
        let one = document(&["none.img", "b.img"]);
        assert_eq!(one.as_array().unwrap().len(), 1, "{command}");
    }
    let (out, _) = run(&workdir, 0, &["info", "a.img", "b.img"]);
    for line in ["a.img:", "b.img:", "label:               second"] {
        assert!(out.lines().any(|l| l == line), "{out}");
    }
    let (out, _) = run(&workdir, 1, &["trim", "none.img", "a.img"]);
    assert!(out.starts_with("a.img: "), "{out}");
    let (out, _) = run(&workdir, 0, &["trim", "-q", "a.img", "b.img"]);
    assert_eq!(out, "");
    workdir.assert_clean("a.img");
}

#[test]
fn labels_are_shown_and_changed() {
    let workdir = Workdir::new();
    two_images(&workdir);
    assert_eq!(workdir.ok(&["label", "b.img"]), "second\n");
    workdir.ok(&["label", "b.img", "my label"]);
    assert_eq!(workdir.ok(&["label", "b.img"]), "my label\n");
    let long = "sixteen bytes and";
    workdir.refuses(1, &["label", "b.img", long], "at most 16 bytes");
    workdir.assert_clean("b.img");
    let line = workdir.fails(1, &["resize", "b.img", "1M"]);
    assert!(
        line.contains("b.img: what is in use needs at least "),
        "{line}"
    );
    assert!(line.contains(" blocks of 4096 bytes, "), "{line}");
    assert!(
        line.contains(" MiB; `uext4 resize --minimum b.img` makes"),
        "{line}"
    );
    assert_eq!(line.matches("needs at least").count(), 1, "{line}");
    let out = workdir.run(&["create", "c.img"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("mkfs"));
}

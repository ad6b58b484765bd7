//! `uext4 export` and `uext4 diff`: files, pipes, layouts, exit codes, and what is left where one fails.

use crate::*;

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Damages a directory, so that an export fails on the way.
fn damage(workdir: &Workdir, image: &str, dir: &str) {
    let ino = workdir.ok(&["stat", "--json", &format!("{image}:{dir}")]);
    let ino: serde_json::Value = serde_json::from_str(&ino).unwrap();
    let ino = ino["ino"].as_u64().unwrap();
    let args = ["-w", "-R", &format!("sif <{ino}> size 1"), image];
    let mut run = Command::new("debugfs");
    let run = run.args(args).current_dir(workdir.dir()).output();
    assert!(run.unwrap().status.success());
}

fn with_image() -> Workdir {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--from", "tree"]);
    workdir
}

#[test]
fn an_archive_is_compressed_as_its_name_says() {
    let workdir = with_image();
    let before = fs::read(workdir.path("a.img")).unwrap();
    let plain = workdir.run(&["export", "a.img", "-"]);
    assert!(plain.status.success() && plain.stderr.is_empty());
    for name in ["a.tar", "a.tgz", "a.tar.zst", "a.tar.xz", "a.tar.bz2"] {
        workdir.prints(&["export", "a.img", name], &format!("{name}: "));
        let (list, image) = (format!("--from={name}"), format!("{name}.img"));
        workdir.ok(&["mkfs", &image, &list]);
        assert_eq!(workdir.ok(&["diff", "a.img", &image]), "");
    }
    assert!(fs::read(workdir.path("a.tar")).unwrap() == plain.stdout);
    workdir.refuses(1, &["export", "a.img", "b.img"], "--compress");
    workdir.ok(&["export", "a.img", "b", "--compress", "none"]);
    assert!(fs::read(workdir.path("b")).unwrap() == plain.stdout);
    assert!(fs::read(workdir.path("a.img")).unwrap() == before);
}

#[test]
fn a_part_of_an_image_is_exported() {
    let workdir = with_image();
    workdir.ok(&["export", "-q", "a.img:/etc", "etc.tar"]);
    let list = Command::new("tar")
        .args(["-tf", "etc.tar"])
        .current_dir(workdir.dir())
        .output();
    let list = String::from_utf8(list.unwrap().stdout).unwrap();
    assert!(list.lines().any(|line| line == "passwd"), "{list}");
    workdir.refuses(1, &["export", "a.img:/none", "c.tar"], "a.img:/none");
    assert!(!workdir.path("c.tar").exists());
}

#[test]
fn a_report_has_the_digests_of_what_was_written() {
    let workdir = with_image();
    let json = workdir.ok(&["export", "--json", "a.img", "a.tar.gz"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let sum = Command::new("sha256sum")
        .arg(workdir.path("a.tar.gz"))
        .output()
        .unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let digits = sum.split(' ').next().unwrap();
    assert_eq!(json["digest"], format!("sha256:{digits}"));
    assert_ne!(json["digest"], json["diff_id"]);
    let len = fs::metadata(workdir.path("a.tar.gz")).unwrap().len();
    assert_eq!(json["written_bytes"], len);
}

#[test]
fn a_layout_is_made_and_read() {
    let workdir = with_image();
    workdir.ok(&["export", "a.img", "oci:layout:v1"]);
    workdir.ok(&["mkfs", "b.img", "--from", "oci:layout:v1"]);
    assert_eq!(workdir.ok(&["diff", "a.img", "b.img"]), "");
    let xz = ["export", "--compress", "xz", "a.img", "oci:layout"];
    workdir.refuses(1, &xz, "gzip or zstd");
    let wrong = ["export", "--platform", "linux", "a.img", "oci:layout"];
    workdir.refuses(1, &wrong, "OS/ARCH");
    let plain = ["export", "--platform", "linux/arm64", "a.img", "a.tar"];
    workdir.refuses(1, &plain, "container images");
    workdir.refuses(1, &["export", "a.img", "oci:tree"], "not an OCI layout");
    assert_eq!(names(&workdir.path("layout/blobs/sha256")).len(), 3);
    fs::create_dir(workdir.path("a:b")).unwrap();
    workdir.ok(&["export", "a.img", "oci:a:b/layout"]);
    assert!(workdir.path("a:b/layout/index.json").exists());
}

#[test]
fn what_is_not_a_tag_is_refused() {
    let workdir = with_image();
    let before = names(workdir.dir());
    for to in [
        "oci:lay:bad tag",
        "oci:lay:bad tag/../x",
        "oci:lay:.a",
        "oci:lay:a/b",
        "oci:lay:",
    ] {
        workdir.refuses(1, &["export", "a.img", to], "is not a tag");
        assert_eq!(names(workdir.dir()), before, "{to}");
    }
}

#[test]
fn a_layout_that_fails_is_not_left() {
    let workdir = with_image();
    damage(&workdir, "a.img", "/etc");
    let before = names(workdir.dir());
    workdir.refuses(1, &["export", "a.img", "oci:lay"], "a.img:/etc");
    workdir.refuses(1, &["export", "a.img", "oci:new/above/lay"], "a.img:/etc");
    assert_eq!(names(workdir.dir()), before);
    fs::create_dir(workdir.path("empty")).unwrap();
    workdir.refuses(1, &["export", "a.img", "oci:empty"], "a.img:/etc");
    assert_eq!(names(&workdir.path("empty")), [""; 0]);
    workdir.ok(&["mkfs", "b.img", "4M"]);
    workdir.ok(&["export", "b.img", "oci:lay"]);
    let kept = names(&workdir.path("lay/blobs/sha256"));
    workdir.refuses(1, &["export", "a.img", "oci:lay:other"], "a.img:/etc");
    assert_eq!(names(&workdir.path("lay/blobs/sha256")), kept);
}

#[test]
fn an_archive_that_fails_leaves_what_was_there() {
    let workdir = with_image();
    fs::write(workdir.path("old.tar"), "kept").unwrap();
    damage(&workdir, "a.img", "/etc");
    let before = names(workdir.dir());
    for name in ["old.tar", "new.tar.zst"] {
        workdir.refuses(1, &["export", "a.img", name], "a.img:/etc");
    }
    assert_eq!(names(workdir.dir()), before);
    assert_eq!(fs::read(workdir.path("old.tar")).unwrap(), b"kept");
}

#[test]
fn differences_are_lines_and_an_exit_code() {
    let workdir = with_image();
    workdir.ok(&["cp", "a.img:/etc/passwd", "passwd"]);
    fs::copy(workdir.path("a.img"), workdir.path("b.img")).unwrap();
    assert_eq!(
        workdir.run(&["diff", "a.img", "b.img"]).status.code(),
        Some(0)
    );
    workdir.ok(&["chmod", "600", "b.img:/etc/passwd"]);
    workdir.ok(&["mkdir", "b.img:/new"]);
    let out = workdir.run(&["diff", "a.img:/etc", "b.img:/etc"]);
    assert_eq!(out.status.code(), Some(1));
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(text, "M /passwd: permissions 4751 -> 0600\n");
    let text = String::from_utf8(workdir.run(&["diff", "a.img", "b.img"]).stdout).unwrap();
    assert!(
        text.contains("M /: mtime ") && text.contains("\nA /new\n"),
        "{text}"
    );
    let quiet = workdir.run(&["diff", "-q", "a.img", "b.img"]);
    assert_eq!(
        (quiet.status.code(), &quiet.stdout[..]),
        (Some(1), &b""[..])
    );
    let json = workdir.run(&["diff", "--json", "b.img", "a.img"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let removed = json
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["path"] == "/new");
    assert_eq!(removed.unwrap()["change"], "removed");
    workdir.refuses(2, &["diff", "a.img", "none.img"], "none.img");
    // A layer, put on the old image, makes the new one.
    workdir.ok(&["diff", "-o", "layer.tar.gz", "a.img", "b.img"]);
    workdir.ok(&["export", "-q", "a.img", "base.tar"]);
    workdir.ok(&[
        "mkfs",
        "c.img",
        "--from",
        "base.tar",
        "--from",
        "layer.tar.gz",
    ]);
    assert_eq!(workdir.ok(&["diff", "b.img", "c.img"]), "");
}

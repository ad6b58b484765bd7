//! `uext4 tune`: what tune2fs would set is set, and e2fsprogs read it.

use crate::*;
use uext4::{Filesystem, ImageOptions};

/// What dumpe2fs says of a superblock.
fn dumpe2fs(workdir: &Workdir, image: &str) -> String {
    let out = Command::new("dumpe2fs")
        .arg("-h")
        .arg(workdir.path(image))
        .output()
        .expect("dumpe2fs");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[track_caller]
fn says(workdir: &Workdir, name: &str, value: &str) {
    let all = dumpe2fs(workdir, "a.img");
    let line = all.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name}: {all}"));
    assert!(line.contains(value), "{line}");
}

fn made(options: &[&str]) -> Workdir {
    let workdir = Workdir::new();
    workdir.tree();
    let all = [&["mkfs", "-q", "a.img", "64M", "--from", "tree"], options].concat();
    workdir.ok(&all);
    workdir
}

#[test]
fn fields_are_those_that_tune2fs_sets() {
    require!(is_installed("dumpe2fs"));
    let workdir = made(&[]);
    workdir.ok(&[
        "tune",
        "-L",
        "data",
        "-m",
        "1",
        "-u",
        "7",
        "-e",
        "remount-ro",
        "-o",
        "^user_xattr,journal_data_writeback",
        "-E",
        "stride=4,mount_opts=noatime",
        "-c",
        "5",
        "-i",
        "2w",
        "a.img",
    ]);
    for (name, value) in [
        ("Filesystem volume name:", "data"),
        ("Reserved block count:", "163"),
        ("Reserved blocks uid:", "7"),
        ("Errors behavior:", "Remount read-only"),
        ("Default mount options:", "journal_data_writeback acl"),
        ("RAID stride:", "4"),
        ("Mount options:", "noatime"),
        ("Maximum mount count:", "5"),
        ("Check interval:", "1209600"),
    ] {
        says(&workdir, name, value);
    }
    workdir.assert_clean("a.img");
    workdir.ok(&["tune", "-u", "root", "-g", "0", "-c", "-1", "a.img"]);
    says(&workdir, "Reserved blocks uid:", "0");
    says(&workdir, "Maximum mount count:", "-1");
    workdir.refuses(1, &["tune", "a.img"], "nothing to change");
    workdir.refuses(
        1,
        &["tune", "-L", "seventeen bytes .", "a.img"],
        "at most 16",
    );
    workdir.refuses(1, &["tune", "-O", "bigalloc", "a.img"], "can't be enabled");
}

#[test]
fn a_journal_is_removed_and_made_again() {
    require!(is_installed("dumpe2fs"));
    let workdir = made(&[]);
    let list = || workdir.ok(&["ls", "-lR", "a.img:/"]);
    let before = list();
    workdir.ok(&["tune", "-O", "^has_journal", "a.img"]);
    assert!(!dumpe2fs(&workdir, "a.img").contains("has_journal"));
    workdir.assert_clean("a.img");
    workdir.ok(&[
        "tune",
        "-O",
        "has_journal,fast_commit",
        "-J",
        "size=8",
        "a.img",
    ]);
    says(&workdir, "Total journal size:", "8M");
    says(&workdir, "Filesystem features:", "fast_commit");
    workdir.assert_clean("a.img");
    workdir.ok(&["mkdir", "a.img:/new"]);
    workdir.ok(&["rmdir", "a.img:/new"]);
    workdir.assert_clean("a.img");
    assert_eq!(list(), before);
}

#[test]
fn quota_counts_what_each_owner_has() {
    require!(is_installed("dumpe2fs"));
    let workdir = made(&[]);
    workdir.ok(&["tune", "-q", "-O", "project,quota", "a.img"]);
    says(&workdir, "Project quota inode:", "");
    // e2fsck counts too.
    workdir.assert_clean("a.img");
    workdir.ok(&["tune", "-O", "^quota", "a.img"]);
    workdir.assert_clean("a.img");
}

#[test]
fn another_uuid_can_be_undone() {
    require!(is_installed("dumpe2fs"));
    let workdir = made(&["-O", "^metadata_csum_seed"]);
    let uuid = "12345678-1234-5678-9abc-123456789abc";
    workdir.refuses(1, &["tune", "-U", uuid, "a.img"], "--undo FILE");
    let before = fs::read(workdir.path("a.img")).unwrap();
    let seed = ["tune", "-O", "metadata_csum_seed", "-U", uuid];
    let out = workdir.run(&[&seed[..], &["--undo", "old", "a.img"]].concat());
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}");
    says(&workdir, "Filesystem UUID:", uuid);
    workdir.assert_clean("a.img");
    workdir.ok(&["undo", "old", "a.img"]);
    assert!(fs::read(workdir.path("a.img")).unwrap() == before);
    let json = workdir.ok(&["tune", "--json", "-L", "", "a.img"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["changed"], false);
}

#[test]
fn what_rewrites_metadata_takes_an_undo_file() {
    require!(is_installed("dumpe2fs"));
    let workdir = made(&["-O", "^metadata_csum_seed"]);
    let list = || workdir.ok(&["ls", "-lR", "a.img:/"]);
    let (before, bytes) = (list(), fs::read(workdir.path("a.img")).unwrap());
    for (i, change) in [
        ["-U", "random"],
        ["-I", "512"],
        ["-O", "^64bit"],
        ["-O", "^metadata_csum"],
        ["-O", "64bit,metadata_csum"],
    ]
    .iter()
    .enumerate()
    {
        let command = [&["tune", "-q"], &change[..], &["a.img"]].concat();
        workdir.refuses(1, &command, "--undo FILE");
        let undo = format!("old{i}");
        workdir.ok(&[&command[..], &["--undo", &undo]].concat());
        workdir.assert_clean("a.img");
        assert_eq!(list(), before, "{change:?}");
    }
    says(&workdir, "Inode size:", "512");
    for i in (0..5).rev() {
        workdir.ok(&["undo", &format!("old{i}"), "a.img"]);
    }
    assert!(fs::read(workdir.path("a.img")).unwrap() == bytes);
}

#[test]
fn what_a_crash_left_is_recovered_first() {
    require!(is_installed("debugfs"));
    let workdir = made(&[]);
    let image = workdir.path("a.img");
    fs::write(workdir.path("block"), [7; 4096]).unwrap();
    fs::write(workdir.path("script"), "jo\njw -b 9000 block\njc\n").unwrap();
    let out = Command::new("debugfs")
        .current_dir(workdir.dir())
        .args(["-w", "-f", "script"])
        .arg(&image)
        .output()
        .unwrap();
    assert!(out.status.success());
    workdir.ok(&["tune", "-O", "quota", "-L", "later", "a.img"]);
    let bytes = fs::read(&image).unwrap();
    assert!(bytes[9000 * 4096..][..4096].iter().all(|b| *b == 7));
    assert_eq!(workdir.ok(&["label", "a.img"]), "later\n");
    workdir.assert_clean("a.img");
}

#[test]
fn an_image_has_the_size_of_its_file() {
    let workdir = made(&[]);
    let before = workdir.ok(&["ls", "-lR", "a.img:/"]);
    workdir.prints(&["resize", "a.img", "200M"], "51200 blocks of 4096 bytes");
    assert_eq!(
        fs::metadata(workdir.path("a.img")).unwrap().len(),
        200 << 20
    );
    workdir.assert_clean("a.img");
    assert_eq!(workdir.ok(&["ls", "-lR", "a.img:/"]), before);
    let json = workdir.ok(&["resize", "--json", "a.img"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["changed"], &json["blocks"]),
        (&false.into(), &51200.into())
    );
    workdir.prints(&["resize", "a.img", "100M"], "25600 blocks");
    workdir.ok(&["resize", "--minimum", "a.img"]);
    assert!(fs::metadata(workdir.path("a.img")).unwrap().len() < 64 << 20);
    workdir.assert_clean("a.img");
    assert_eq!(workdir.ok(&["ls", "-lR", "a.img:/"]), before);
    assert_eq!(
        workdir.run(&["cat", "a.img:/large"]).stdout,
        vec![0xa5; 3_000_001]
    );
}

#[test]
fn files_are_put_together() {
    let workdir = made(&[]);
    let image = Filesystem::open(workdir.path("a.img"), &ImageOptions::read_write()).unwrap();
    let files = ["/one", "/two"].map(|name| image.create_file(name).unwrap());
    for block in 0..20 {
        for (file, byte) in files.iter().zip(1..) {
            file.write_all_at(&[byte; 4096], block * 4096).unwrap();
        }
    }
    drop(files);
    image.unmount().unwrap();
    let all = ["resize", "--json", "--defragment", "all", "a.img"];
    let said = workdir.ok(&all);
    assert!(said.contains("\"moved\": 2"), "{said}");
    workdir.assert_clean("a.img");
    let one = workdir.ok(&["cat", "a.img:/one"]);
    assert!(one.len() == 20 * 4096 && one.bytes().all(|byte| byte == 1));
    let said = workdir.ok(&all);
    assert!(said.contains("\"moved\": 0"), "{said}");
    workdir.assert_clean("a.img");
    workdir.refuses(
        1,
        &["resize", "--defragment", "/missing", "a.img"],
        "no such file or directory",
    );
}

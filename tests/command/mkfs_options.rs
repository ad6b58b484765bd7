//! Options of `uext4 mkfs` that mke2fs does not have, or that it has and we refuse.

use crate::*;

fn info(workdir: &Workdir, image: &str) -> serde_json::Value {
    serde_json::from_str(&workdir.ok(&["info", "--json", image])).unwrap()
}

fn number(document: &serde_json::Value, field: &str) -> u64 {
    document[field].as_u64().unwrap()
}

/// An image that is filled from a tree can be written to, unless it is to stay as it is.
#[test]
fn room_that_a_tree_gets() {
    let workdir = Workdir::new();
    workdir.tree();
    let make = |args: &[&str]| {
        let _ = fs::remove_file(workdir.path("a.img"));
        workdir.ok(&[&["mkfs", "a.img", "--from", "tree"], args].concat());
        workdir.assert_clean("a.img");
        info(&workdir, "a.img")
    };
    let plain = make(&[]);
    assert_eq!(number(&plain, "journal_bytes"), 4 << 20);
    assert!(number(&plain, "inodes_free") >= 1000);
    let compact = make(&["--compact"]);
    assert!(compact["journal_bytes"].is_null());
    assert!(number(&compact, "inodes_free") < 200);
    assert!(number(&compact, "blocks") < number(&plain, "blocks"));
    let roomy = make(&["--spare", "+200M"]);
    assert!(number(&roomy, "blocks_free") * 4096 >= 200 << 20);
    assert!(number(&roomy, "blocks_free") * 4096 < 208 << 20);
    assert!(number(&roomy, "inodes_free") >= 200 << 20 >> 14);
    let more = make(&["--spare", "100%"]);
    assert!(number(&more, "blocks_free") * 4096 >= 3_000_000);
    make(&["--journal-size", "16M"]);
    make(&["-b", "1024", "-t", "ext2"]);
    for args in [
        &["mkfs", "b.img", "--spare", "1M"][..],
        &["mkfs", "b.img", "4M", "--from", "tree", "--compact"],
        &["mkfs", "b.img", "4M", "--size", "5M"],
        &["mkfs", "b.img", "--from", "tree", "--spare", "many"],
    ] {
        assert_eq!(workdir.run(args).status.code(), Some(2), "{args:?}");
    }
}

/// The size of what is there is kept, as mke2fs does, and the message names that where it does not suffice.
#[test]
fn the_size_of_a_file_is_kept() {
    let workdir = Workdir::new();
    workdir.tree();
    let file = fs::File::create(workdir.path("a.img")).unwrap();
    file.set_len(64 << 20).unwrap();
    workdir.ok(&["mkfs", "a.img", "--from", "tree"]);
    assert_eq!(number(&info(&workdir, "a.img"), "blocks"), 16384);
    workdir.ok(&["mkfs", "-F", "a.img", "--from", "tree", "--spare", "5%"]);
    assert!(number(&info(&workdir, "a.img"), "blocks") < 4096);
    file.set_len(0).unwrap();
    let small = fs::File::create(workdir.path("small.img")).unwrap();
    small.set_len(1 << 20).unwrap();
    workdir.refuses(
        1,
        &["mkfs", "small.img", "-d", "tree"],
        "--spare 5% takes one that fits",
    );
    assert_eq!(small.metadata().unwrap().len(), 1 << 20);
}

/// The size in the message is one that works, and not far above the least.
#[test]
fn a_size_that_is_too_small_is_answered_with_one_that_works() {
    let workdir = Workdir::new();
    workdir.tree();
    for args in [
        &["--size", "50K"][..],
        &["--size", "1K", "-b", "1024", "-n"],
        &["--size", "1M", "--from", "tree"],
    ] {
        let with = |size| [&["mkfs", "-F", "a.img", "--size", size], &args[2..]].concat();
        let said = workdir.fails(1, &with(args[1]));
        let (_, size) = said.split_once("; --size ").expect(&said);
        let size = size.strip_suffix(" suffices\n").expect(&said);
        workdir.ok(&with(size));
        if !args.contains(&"-n") {
            workdir.assert_clean("a.img");
        }
        let kib: u64 = size.strip_suffix('K').unwrap().parse().unwrap();
        workdir.fails(1, &with(&format!("{}K", kib - kib / 4)));
    }
}

#[test]
fn quiet_prints_no_warning_of_a_missing_journal() {
    let workdir = Workdir::new();
    let said = |args: &[&str]| {
        let out = workdir.run(args);
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    let warning = said(&["mkfs", "a.img", "1M"]);
    assert!(warning.contains("has no journal"), "{warning}");
    assert_eq!(said(&["mkfs", "-q", "-F", "a.img", "1M"]), "");
}

#[test]
fn all_files_get_the_owner_that_is_asked_for() {
    let workdir = Workdir::new();
    let tree = workdir.tree();
    std::os::unix::fs::lchown(tree.join("etc/passwd"), Some(1000), Some(1000)).unwrap();
    workdir.ok(&["mkfs", "a.img", "--from", "tree", "--owner", "0:7"]);
    let others = ["find", "a.img:/", "!", "-uid", "0", "-o", "!", "-gid", "7"];
    assert_eq!(workdir.ok(&others), "");
    let out = workdir.run(&["mkfs", "b.img", "--from", "tree", "--owner", "root"]);
    assert_eq!(out.status.code(), Some(2));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("give UID:GID, such as 0:0"), "{said}");
}

#[test]
fn a_dry_run_writes_nothing_and_shows_the_backups() {
    let workdir = Workdir::new();
    workdir.prints(
        &["mkfs", "-n", "-b", "1024", "a.img", "32M"],
        "backups at:          8193 24577\n",
    );
    assert!(!workdir.path("a.img").exists());
    workdir.ok(&["mkfs", "-q", "a.img", "16M"]);
    workdir.ok(&["touch", "a.img:/precious"]);
    let before = fs::read(workdir.path("a.img")).unwrap();
    workdir.ok(&["mkfs", "-n", "a.img"]);
    assert!(fs::read(workdir.path("a.img")).unwrap() == before);
    workdir.prints(&["mkfs", "-v", "b.img", "16M"], "backups at:");
}

#[test]
fn what_can_t_be_done_is_refused_with_a_reason() {
    let workdir = Workdir::new();
    for (args, why) in [
        (&["-c"][..], "badblocks"),
        (&["-l", "list"], "badblocks"),
        (&["-S"], "mke2fs of e2fsprogs"),
        (&["-C", "16384"], "bigalloc"),
        (&["-O", "bigalloc", "-C", "5000"], "power of two"),
        (&["-o", "hurd"], "Linux"),
        (&["-r", "0"], "revision 1"),
        (&["-z", "undo"], "undo"),
        (&["-g", "1001"], "multiple of 8"),
    ] {
        let args = [&["mkfs", "a.img", "16M"], args].concat();
        workdir.refuses(1, &args, why);
    }
    for (args, why) in [
        (&["-J", "device=x"][..], "tune2fs -J"),
        (&["-E", "offset=5"], "offset"),
        (&["-E", "frob"], "root_owner"),
        (&["-e", "ignore"], "remount-ro"),
    ] {
        let args = [&["mkfs", "a.img", "16M"], args].concat();
        let out = workdir.run(&args);
        assert_eq!(out.status.code(), Some(2));
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains(why), "{said}");
    }
    assert!(!workdir.path("a.img").exists());
}

#[test]
fn what_was_made_is_counted_in_words_that_fit() {
    let workdir = Workdir::new();
    fs::create_dir(workdir.path("tree")).unwrap();
    fs::write(workdir.path("tree/one"), "content\n").unwrap();
    symlink("one", workdir.path("tree/link")).unwrap();
    let mkfs = ["mkfs", "--force", "a.img", "--from", "tree"];
    // Of the directories, lost+found is one.
    workdir.prints(&mkfs, ", 1 file, 2 directories, 1 symlink, 8 B of data");
    fs::write(workdir.path("tree/two"), "").unwrap();
    workdir.prints(&mkfs, ", 2 files, ");
    workdir.prints(
        &["resize", "--defragment", "/one", "a.img"],
        "0 of 1 file moved, in 1 piece, ",
    );
}

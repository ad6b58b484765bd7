//! The command as a user meets it: what it prints, what it exits with, what it leaves on disk.

use crate::*;

/// All that `cp -a` keeps, a line for each file.
fn describe(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        if name == "lost+found" {
            continue;
        }
        let m = fs::symlink_metadata(&path).unwrap();
        let content = if m.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            String::new()
        } else if m.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else if m.is_file() {
            format!(
                "{:x?}",
                fs::read(&path).unwrap().iter().fold(0u64, |h, b| {
                    (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3)
                })
            )
        } else {
            m.rdev().to_string()
        };
        let size = if m.is_dir() { 0 } else { m.size() };
        // A link removed does not count against a directory's time, which each copy keeps.
        let links = if m.is_dir() { 0 } else { m.nlink() };
        lines.push(format!(
            "{name} {:o} {links} {} {} {size} {}.{:09} {content}",
            m.mode(),
            m.uid(),
            m.gid(),
            m.mtime(),
            m.mtime_nsec()
        ));
    }
    lines.sort();
    lines
}

#[test]
fn a_tree_survives_mkfs_and_cp_both_ways() {
    let workdir = Workdir::new();
    let tree = workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--from", "tree"]);
    workdir.assert_clean("a.img");
    workdir.ok(&["cp", "-a", "a.img:/", "out-a"]);
    assert_eq!(describe(&tree), describe(&workdir.path("out-a")));

    workdir.ok(&["mkfs", "b.img", "--size", "64M"]);
    workdir.ok(&["cp", "-a", "tree/.", "b.img:/"]);
    workdir.assert_clean("b.img");
    workdir.ok(&["cp", "-a", "b.img:/", "out-b"]);
    assert_eq!(describe(&tree), describe(&workdir.path("out-b")));
    let sparse = fs::metadata(workdir.path("out-b/sparse")).unwrap();
    assert!(sparse.blocks() < 1000, "the hole was filled");

    workdir.ok(&["mkfs", "c.img", "--size", "64M"]);
    workdir.ok(&["cp", "-a", "b.img:/.", "c.img:/"]);
    workdir.assert_clean("c.img");
    workdir.ok(&["cp", "-a", "c.img:/", "out-c"]);
    assert_eq!(describe(&tree), describe(&workdir.path("out-c")));
}

#[test]
fn reading_commands_show_what_is_there() {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--from", "tree", "--label", "demo"]);
    assert_eq!(workdir.ok(&["cat", "a.img:/etc/link"]), "root:x:0:0\n");
    let names = workdir.ok(&["ls", "a.img:/"]);
    assert_eq!(names, "etc\nlarge\nlong-link\nlost+found\npipe\nsparse\n");
    let long = workdir.ok(&["ls", "-l", "a.img:/etc"]);
    assert!(long.contains("-rwsr-x--x 2"), "{long}");
    assert!(long.contains("link -> passwd"), "{long}");
    assert!(workdir.ok(&["ls", "-a", "a.img"]).starts_with(".\n..\n"));
    let found = workdir.ok(&["find", "a.img:/", "-name", "file-1?", "-type", "f"]);
    assert_eq!(found.lines().count(), 10);
    assert_eq!(found.lines().next(), Some("a.img:/etc/file-10"));
    workdir.prints(&["stat", "a.img:/etc/passwd"], "(4751/-rwsr-x--x)");
    let stat: serde_json::Value =
        serde_json::from_str(&workdir.ok(&["stat", "--json", "a.img:/large"])).unwrap();
    assert_eq!(
        (&stat["type"], &stat["size"]),
        (&"file".into(), &3_000_001.into())
    );
    workdir.prints(&["tree", "a.img:/"], "│   ├── empty\n");
    workdir.prints(&["info", "a.img"], "label:               demo");
    for args in [
        &["info", "--json", "a.img"][..],
        &["ls", "--json", "a.img"],
        &["df", "--json", "a.img"],
        &["du", "--json", "a.img"],
        &["tree", "--json", "a.img"],
        &["check", "--json", "a.img"],
    ] {
        let json: serde_json::Value = serde_json::from_str(&workdir.ok(args)).unwrap();
        assert!(!json.is_null());
    }
}

#[test]
fn writing_commands_leave_a_clean_image() {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--size", "64M"]);
    workdir.ok(&["mkdir", "-p", "a.img:/x/y/z"]);
    workdir.ok(&["cp", "-r", "tree/etc", "a.img:/x/"]);
    workdir.ok(&["cp", "a.img:/x/etc/passwd", "a.img:/copy"]);
    workdir.ok(&["mv", "a.img:/x/etc", "a.img:/moved"]);
    workdir.ok(&["ln", "-s", "moved/passwd", "a.img:/soft"]);
    workdir.ok(&["ln", "a.img:/copy", "a.img:/hard"]);
    workdir.ok(&["chmod", "600", "a.img:/copy"]);
    workdir.ok(&["chown", "7:8", "a.img:/copy"]);
    workdir.ok(&["touch", "--time", "1000000000", "a.img:/copy", "a.img:/new"]);
    workdir.ok(&["truncate", "-s", "1M", "a.img:/new"]);
    workdir.ok(&["xattr", "set", "a.img:/copy", "user.k", "v"]);
    assert_eq!(workdir.ok(&["xattr", "get", "a.img:/hard", "user.k"]), "v");
    workdir.ok(&["rm", "-r", "a.img:/x"]);
    workdir.ok(&["rm", "-f", "a.img:/nothing"]);
    let long = workdir.ok(&["ls", "-l", "a.img:/copy"]);
    assert!(
        long.starts_with("-rw------- 2 7 8 11 2001-09-09 01:46 "),
        "{long}"
    );
    assert_eq!(workdir.ok(&["cat", "a.img:/soft"]), "root:x:0:0\n");
    workdir.assert_clean("a.img");
}

#[test]
fn failures_are_one_line_that_says_what_to_do() {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    assert_eq!(
        workdir.fails(1, &["ls", "none.img"]),
        "uext4: none.img: no such image\n"
    );
    workdir.refuses(
        1,
        &["mkdir", "none.img:/x"],
        "no such image; `uext4 mkfs none.img --size 1G` makes one",
    );
    for args in [&["ls", "b.img"][..], &["info", "a.imh"], &["rm", "a"]] {
        workdir.refuses(1, args, "did you mean a.img?");
    }
    workdir.refuses(8, &["check", "A.img"], "did you mean a.img?");
    for file in ["tree/large", "tree/etc/passwd"] {
        workdir.refuses(1, &["ls", file], "not an ext4 image");
        workdir.refuses(8, &["check", file], "not an ext4 image");
        workdir.refuses(1, &["info", file], "not an ext4 image");
    }
    workdir.refuses(1, &["ls", "tree"], "is a directory");
    workdir.refuses(
        1,
        &["cat", "a.img:/nope"],
        "a.img:/nope: no such file or directory; `uext4 find",
    );
    workdir.refuses(1, &["cat", "a.img:/"], "is a directory");
    workdir.refuses(1, &["mkfs", "b.img"], "give --size");
    workdir.refuses(1, &["mkfs", "b.img", "--from", "nowhere"], "nowhere");
    assert!(!workdir.path("b.img").exists());
    workdir.refuses(1, &["cp", "tree", "a.img:/"], "-r copies it");
    workdir.refuses(1, &["cp", "tree/none", "a.img:/"], "no such file");
    workdir.refuses(1, &["rm", "a.img:/lost+found"], "-r removes it");
    workdir.refuses(
        1,
        &["cp", "tree/large", "tree/sparse", "a.img:/none"],
        "a.img:/none: no such directory; `uext4 mkdir -p a.img:/none` makes it",
    );
    assert_eq!(workdir.run(&["frobnicate"]).status.code(), Some(2));
    assert_eq!(workdir.run(&["ls"]).status.code(), Some(2));
    assert_eq!(
        workdir
            .run(&["mkfs", "b.img", "--size", "1X"])
            .status
            .code(),
        Some(2)
    );
    workdir.assert_clean("a.img");
}

#[test]
fn a_full_image_stays_clean() {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--size", "4M", "--inodes", "1024"]);
    let out = workdir.run(&["cp", "-a", "tree/.", "a.img:/"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    // A line for each file that did not fit; those that did are there.
    assert!(said.lines().count() > 0, "{said}");
    for line in said.lines() {
        assert!(line.contains("no space left on device"), "{line}");
        assert!(line.contains("`uext4 df a.img`"), "{line}");
    }
    assert_eq!(workdir.ok(&["cat", "a.img:/etc/passwd"]), "root:x:0:0\n");
    workdir.assert_clean("a.img");
}

/// As when `| head` has seen enough.
#[test]
fn a_closed_pipe_ends_the_command_as_sigpipe_would() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    let commands = [
        &["info", "--groups", "a.img"][..],
        &["ls", "-l", "a.img:/"],
        &["tree", "a.img:/"],
        &["stat", "a.img:/"],
        &["find", "a.img:/"],
        &["df", "a.img"],
        &["du", "a.img:/"],
        &["check", "a.img"],
        &["mkfs", "b.img", "--size", "16M"],
    ];
    for args in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(uext4());
        command.current_dir(workdir.dir()).args(args).stdout(writer);
        let out = command.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), &*said), (Some(141), ""), "{args:?}");
    }
}

#[test]
fn check_exits_with_4_for_faults() {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--from", "tree"]);
    let image = fs::OpenOptions::new()
        .write(true)
        .open(workdir.path("a.img"))
        .unwrap();
    // Free inodes of the primary superblock, whose checksum then is wrong too.
    std::os::unix::fs::FileExt::write_all_at(&image, &[0xff; 4], 1024 + 16).unwrap();
    assert_eq!(workdir.run(&["check", "a.img"]).status.code(), Some(4));
}

#[test]
fn the_same_tree_gives_the_same_bytes() {
    let workdir = Workdir::new();
    workdir.tree();
    let make = |image: &str| {
        let mut command = Command::new(uext4());
        command
            .current_dir(workdir.dir())
            .env("SOURCE_DATE_EPOCH", "1767225600");
        let uuid = "00000000-0000-4000-8000-000000000001";
        command.args(["mkfs", image, "--from", "tree", "--uuid", uuid]);
        assert!(command.output().unwrap().status.success());
        fs::read(workdir.path(image)).unwrap()
    };
    assert!(make("a.img") == make("b.img"));
}

#[test]
fn nothing_from_an_image_is_written_through_a_link() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["mkdir", "a.img:/d"]);
    workdir.ok(&["touch", "a.img:/d/file"]);
    fs::create_dir_all(workdir.path("out")).unwrap();
    fs::create_dir_all(workdir.path("outside")).unwrap();
    symlink("../outside", workdir.path("out/d")).unwrap();
    workdir.refuses(
        1,
        &["cp", "-a", "a.img:/.", "out"],
        "out/d: is not a directory",
    );
    assert_eq!(fs::read_dir(workdir.path("outside")).unwrap().count(), 0);
}

#[test]
fn an_image_in_use_is_refused() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    let fs =
        uext4::Filesystem::open(workdir.path("a.img"), &uext4::ImageOptions::read_write()).unwrap();
    let line = workdir.fails(1, &["ls", "a.img"]);
    assert!(
        line.contains("already open") && line.contains("first"),
        "{line}"
    );
    workdir.fails(8, &["check", "a.img"]);
    workdir.fails(1, &["mkfs", "a.img", "--size", "16M"]);
    fs.unmount().unwrap();
    workdir.ok(&["ls", "a.img"]);
}

#[test]
fn an_image_behind_a_loop_device_is_refused() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    let image = workdir.path("a.img");
    let setup = Command::new("losetup")
        .args(["--find", "--show"])
        .arg(&image)
        .output();
    let device = match setup {
        Ok(out) if out.status.success() => String::from_utf8(out.stdout).unwrap(),
        Ok(out) => return eprintln!("SKIPPED: {}", String::from_utf8_lossy(&out.stderr)),
        Err(e) => return eprintln!("SKIPPED: losetup: {e}"),
    };
    let out = workdir.run(&["touch", "a.img:/new"]);
    Command::new("losetup")
        .args(["-d", device.trim()])
        .status()
        .unwrap();
    let line = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{line}");
    assert!(
        line.contains("loop device") && line.contains("first"),
        "{line}"
    );
}

#[test]
fn flags_are_changed_and_listed() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "64M"]);
    workdir.ok(&["mkdir", "a.img:/d"]);
    workdir.ok(&["touch", "a.img:/d/f"]);
    workdir.ok(&["chattr", "+id", "a.img:/d/f"]);
    let line = "----i-d-------e------- a.img:/d/f\n";
    assert_eq!(workdir.ok(&["lsattr", "a.img:/d"]), line);
    workdir.refuses(1, &["touch", "a.img:/d/f"], "not permitted");
    workdir.refuses(
        1,
        &["chattr", "+A", "a.img:/d/f"],
        "`uext4 chattr -i a.img:/d/f`",
    );
    workdir.ok(&["chattr", "-R", "-i", "=A", "a.img:/d"]);
    let json = workdir.ok(&["lsattr", "-d", "--json", "a.img:/d"]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document[0]["flags"][0], "no-atime");
    assert_eq!(document[0]["project"], 0);
    workdir.refuses(
        1,
        &["chattr", "-p", "7", "a.img:/d"],
        "uext4 tune -O project",
    );
    workdir.fails(1, &["chattr", "+D", "a.img:/d/f"]);
    workdir.fails(1, &["chattr", "+q", "a.img:/d"]);
    workdir.fails(1, &["chattr", "a.img:/d"]);
    workdir.assert_clean("a.img");
}

#[test]
fn a_journal_on_another_device_is_named() {
    let workdir = Workdir::new();
    for (name, size) in [("log", 8 << 20), ("a.img", 64 << 20)] {
        fs::File::create(workdir.path(name))
            .unwrap()
            .set_len(size)
            .unwrap();
    }
    let tool = |program: &str, args: &[&str]| {
        let out = Command::new(program)
            .current_dir(workdir.dir())
            .args(args)
            .output();
        let out = out.ok().filter(|out| out.status.success())?;
        Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    let made = tool(
        "mke2fs",
        &["-q", "-F", "-b", "4096", "-O", "journal_dev", "log"],
    );
    let device = made.and_then(|_| tool("losetup", &["--show", "-f", "log"]));
    let Some(device) = device else {
        eprintln!("SKIPPED: no loop devices here");
        return;
    };
    let on = format!("device={device}");
    let made = tool("mke2fs", &["-q", "-F", "-b", "4096", "-J", &on, "a.img"]);
    tool("losetup", &["-d", &device]).unwrap();
    made.expect("an image");
    workdir.refuses(1, &["mkdir", "a.img:/d"], "--journal DEVICE");
    workdir.ok(&["mkdir", "--journal", "log", "a.img:/d"]);
    workdir.prints(&["ls", "a.img:/"], "d\n");
    fs::File::create(workdir.path("other"))
        .unwrap()
        .set_len(8 << 20)
        .unwrap();
    tool(
        "mke2fs",
        &["-q", "-F", "-b", "4096", "-O", "journal_dev", "other"],
    )
    .unwrap();
    workdir.refuses(1, &["mkdir", "--journal", "other", "a.img:/e"], "journal");
}

#[test]
fn trimming_makes_an_image_smaller() {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--size", "64M"]);
    fs::write(workdir.path("large"), vec![7; 20 << 20]).unwrap();
    workdir.ok(&["cp", "large", "a.img:/"]);
    workdir.ok(&["cp", "-r", "tree", "a.img:/"]);
    workdir.ok(&["chattr", "+j", "a.img:/large"]);
    workdir.ok(&["rm", "a.img:/large"]);
    let used = || fs::metadata(workdir.path("a.img")).unwrap().blocks() * 512;
    let before = used();
    let json = workdir.ok(&["trim", "--json", "a.img"]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(document["bytes_trimmed"].as_u64().unwrap() >= 20 << 20);
    assert!(used() + 20_000_000 <= before, "{} of {before}", used());
    workdir.ok(&["trim", "--minimum", "1M", "a.img"]);
    workdir.fails(1, &["trim", "--minimum", "1T", "a.img"]);
    workdir.assert_clean("a.img");
}

#[test]
fn every_command_has_help_with_an_example() {
    let workdir = Workdir::new();
    let commands = [
        "mkfs", "info", "ls", "tree", "stat", "cat", "find", "du", "df", "cp", "mkdir", "rm", "mv",
        "ln", "chmod", "chown", "chattr", "lsattr", "touch", "truncate", "xattr", "check", "trim",
        "dump", "label", "tune", "resize",
    ];
    for command in commands {
        let help = workdir.ok(&[command, "--help"]);
        let has = help.contains("Example: uext4") || help.contains("Examples:\n  uext4");
        assert!(has, "{command}: {help}");
    }
}

#[test]
fn bench_executes_the_program_beside_this_one_or_in_path() {
    let workdir = Workdir::new();
    let bin = workdir.path("bin");
    fs::create_dir(&bin).unwrap();
    let linked = bin.join("uext4");
    fs::hard_link(uext4(), &linked)
        .or_else(|_| fs::copy(uext4(), &linked).map(drop))
        .unwrap();
    let bench = |path: &Path, args: &[&str]| {
        let mut command = Command::new(&linked);
        let out = command.arg("bench").args(args).env("PATH", path).output();
        let out = out.unwrap();
        (
            out.status,
            String::from_utf8(out.stdout).unwrap(),
            out.stderr,
        )
    };
    let (status, printed, said) = bench(workdir.dir(), &["mdtest", "--np", "2"]);
    assert_eq!((status.code(), &*printed), (Some(1), ""));
    let said = String::from_utf8(said).unwrap();
    assert!(
        said.starts_with("uext4: ") && said.lines().count() == 1,
        "{said}"
    );
    let install = "needs uext4's source tree, in which `cargo install --path bench` installs it";
    assert!(said.contains(install), "{said}");
    let (status, help, _) = bench(workdir.dir(), &["--help"]);
    assert!(status.success() && help.contains(install), "{help}");

    let program = |dir: &Path, script: &str| {
        let path = dir.join("uext4-bench");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    };
    program(workdir.dir(), "echo path \"$@\"; exit 7");
    let (status, printed, _) = bench(workdir.dir(), &["mdtest", "--json"]);
    assert_eq!(
        (status.code(), &*printed),
        (Some(7), "path mdtest --json\n")
    );
    program(&bin, "kill -TERM $$");
    let (status, ..) = bench(workdir.dir(), &["--help"]);
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
}

/// A name in a directory that ignores case is moved to another spelling, of a directory that is not empty too; a link to the same file is not.
#[test]
fn names_are_respelled() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "-q", "--size", "16M", "-O", "casefold", "a.img"]);
    workdir.ok(&["mkdir", "a.img:/d"]);
    workdir.ok(&["chattr", "+F", "a.img:/d"]);
    workdir.ok(&["mkdir", "-p", "a.img:/d/Dir/in"]);
    workdir.ok(&["touch", "a.img:/d/File"]);
    workdir.ok(&["mv", "a.img:/d/File", "a.img:/d/FILE"]);
    workdir.ok(&["mv", "-T", "a.img:/d/Dir", "a.img:/d/DIR"]);
    assert_eq!(workdir.ok(&["ls", "a.img:/d"]), "DIR\nFILE\n");
    workdir.ok(&["ln", "a.img:/d/FILE", "a.img:/d/other"]);
    workdir.refuses(
        1,
        &["mv", "a.img:/d/file", "a.img:/d/other"],
        "is the same file",
    );
    workdir.assert_clean("a.img");
    workdir.refuses(
        1,
        &["chattr", "+F", "a.img:/d/FILE"],
        "for directories only",
    );
    workdir.refuses(
        1,
        &["chattr", "-F", "a.img:/d"],
        "while a directory is empty",
    );
}

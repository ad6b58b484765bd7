//! Operands that mean another thing than was understood, or nothing.

use crate::workdir::Workdir;
use crate::*;

fn size(workdir: &Workdir, path: &str) -> u64 {
    let stat: serde_json::Value =
        serde_json::from_str(&workdir.ok(&["stat", "--json", path])).unwrap();
    stat["size"].as_u64().unwrap()
}

#[test]
fn sizes_are_relative_as_in_truncate() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    const M: u64 = 1 << 20;
    for (size_option, after) in [
        ("5M", 5 * M),
        ("+1M", 6 * M),
        ("-512K", 5 * M + M / 2),
        ("<6M", 5 * M + M / 2),
        ("<5M", 5 * M),
        (">4M", 5 * M),
        (">5000001", 5 * M),
        ("+1", 5 * M + 1),
        ("%1M", 6 * M),
        ("%1M", 6 * M),
        ("-1", 6 * M - 1),
        ("/1M", 5 * M),
        ("-100M", 0),
        (">7", 7),
    ] {
        workdir.ok(&["truncate", "-s", size_option, "a.img:/f"]);
        assert_eq!(size(&workdir, "a.img:/f"), after, "{size_option}");
    }
    workdir.ok(&["truncate", "--size=+3", "a.img:/new"]);
    assert_eq!(size(&workdir, "a.img:/new"), 3);
    for wrong in ["/0", "%0", "+", "1X", "+-1", "--1"] {
        let out = workdir.run(&["truncate", "-s", wrong, "a.img:/f"]);
        assert_eq!(out.status.code(), Some(2), "{wrong}: {out:?}");
    }
    let most = u64::MAX.to_string();
    workdir.fails(1, &["truncate", "-s", &format!("+{most}"), "a.img:/f"]);
    assert_eq!(size(&workdir, "a.img:/f"), 7);
    workdir.assert_clean("a.img");
}

#[test]
fn words_and_options_of_other_programs_are_answered() {
    let workdir = Workdir::new();
    for (line, what) in [
        (
            "tee -a a.img:/log",
            "`uext4 cp --append - IMAGE:/PATH` appends",
        ),
        (
            "append x a.img:/log",
            "`uext4 cp --append FILE IMAGE:/PATH`",
        ),
        ("tar -xf x.tar a.img:/", "`uext4 cp -a DIR/. IMAGE:/PATH`"),
        (
            "xattr -w user.a b a.img:/f",
            "`uext4 xattr set IMAGE:/PATH NAME VALUE`",
        ),
        ("xattr -l a.img:/f", "`uext4 xattr list -d IMAGE:/PATH`"),
        (
            "xattr -p user.a a.img:/f",
            "`uext4 xattr get IMAGE:/PATH NAME`",
        ),
        (
            "xattr -d user.a a.img:/f",
            "`uext4 xattr remove IMAGE:/PATH NAME`",
        ),
        ("xattr a.img:/f", "`uext4 xattr list -d IMAGE:/PATH`"),
        ("setfattr -n user.a -v b a.img:/f", "`uext4 xattr set "),
        ("getfattr -d a.img:/f", "`uext4 xattr list -d "),
        (
            "--progress cp --parents etc/hosts a.img:/",
            "`uext4 mkdir -p ",
        ),
        (
            "install -m 755 x a.img:/bin/x",
            "`uext4 cp FILE IMAGE:/PATH` and",
        ),
        ("sha256sum a.img:/f", "`uext4 cat IMAGE:/PATH | sha256sum`"),
        ("wc -l a.img:/f", "`uext4 cat IMAGE:/PATH`"),
        ("losetup -P a.img", "`uext4 info IMAGE`"),
        ("getcap a.img:/f", "`uext4 xattr list -d IMAGE:/PATH`"),
        ("df --output=size a.img", "`uext4 df --json IMAGE`"),
        ("mkfs a.img --from d --all-root", "--owner 0:0`"),
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        workdir.refuses(2, &args, what);
    }
    let said = workdir.run(&["xattr", "lst", "a.img:/f"]).stderr;
    assert!(String::from_utf8_lossy(&said).contains("'list'"));
}

#[test]
fn appending_keeps_what_is_there() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "-q", "a.img", "16M"]);
    for name in ["one", "two"] {
        fs::write(workdir.path(name), format!("{name}\n")).unwrap();
        workdir.ok(&["cp", "--append", name, "a.img:/log"]);
    }
    assert_eq!(workdir.ok(&["cat", "a.img:/log"]), "one\ntwo\n");
    workdir.ok(&["chattr", "+a", "a.img:/log"]);
    workdir.ok(&["cp", "--append", "one", "a.img:/log"]);
    assert_eq!(workdir.ok(&["cat", "a.img:/log"]), "one\ntwo\none\n");
    for (args, why) in [
        (["one", "two"], "--append is for files in images"),
        (["a.img:/log", "a.img:/log"], "is the same file"),
    ] {
        workdir.refuses(1, &[&["cp", "--append"], &args[..]].concat(), why);
    }
    let out = workdir.run(&["cp", "--append", "-a", "one", "a.img:/log"]);
    assert_eq!(out.status.code(), Some(2));
    workdir.assert_clean("a.img");
}

#[test]
fn the_reserved_owner_is_refused() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["touch", "a.img:/f"]);
    workdir.ok(&["chown", "7:8", "a.img:/f"]);
    // What chown(2) takes for "leave it".
    for owner in ["4294967295", ":4294967295", "4294967295:0"] {
        let out = workdir.run(&["chown", owner, "a.img:/f"]);
        assert_eq!(out.status.code(), Some(2), "{owner}: {out:?}");
        let line = String::from_utf8(out.stderr).unwrap();
        assert!(line.contains("4294967294"), "{line}");
    }
    workdir.prints(&["ls", "-l", "a.img:/f"], " 7 8 ");
    workdir.ok(&["chown", "4294967294", "a.img:/f"]);
}

#[test]
fn a_pipe_is_no_image() {
    let workdir = Workdir::new();
    let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, workdir.path("pipe"), kind, mode, 0).unwrap();
    // Without a writer, opening it waits for ever.
    for (code, args) in [
        (1, &["ls", "pipe"][..]),
        (1, &["ls", "pipe:/x"]),
        (1, &["info", "pipe"]),
        (8, &["check", "pipe"]),
        (1, &["dump", "pipe", "journal"]),
        (1, &["mkfs", "pipe", "--size", "16M"]),
        (1, &["ls", "/dev/null"]),
    ] {
        workdir.refuses(code, args, "neither a file nor a block device");
    }
}

#[test]
fn what_can_be_made_can_be_opened() {
    let workdir = Workdir::new();
    for name in uext4::feature_names() {
        // Two that exclude each other.
        let more = if name == "meta_bg" {
            ",^resize_inode"
        } else {
            ""
        };
        let features = format!("{name}{more}");
        workdir.ok(&["mkfs", "a.img", "--size", "32M", "-O", &features]);
        // Files that are verified are only read.
        if name != "verity" {
            workdir.ok(&["touch", "a.img:/f"]);
        }
        workdir.ok(&["ls", "a.img"]);
        workdir.assert_clean("a.img");
        std::fs::remove_file(workdir.path("a.img")).unwrap();
    }
}

/// A list of names is one of files that were there, whatever became of them meanwhile.
#[test]
fn a_name_that_is_gone_is_not_a_pattern() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["mkdir", "a.img:/d*", "a.img:/dir", "a.img:/to"]);
    workdir.ok(&[
        "touch",
        "a.img:/d*/f",
        "a.img:/dir/f",
        "a.img:/x*",
        "a.img:/xa",
    ]);
    workdir.ok(&["rm", "-rf", "a.img:/d*", "a.img:/d*/f"]);
    workdir.ok(&["stat", "a.img:/dir/f"]);
    workdir.fails(1, &["rm", "a.img:/x*", "a.img:/x*"]);
    workdir.ok(&["stat", "a.img:/xa"]);
    workdir.ok(&["touch", "--no-glob", "a.img:/x*"]);
    workdir.fails(1, &["mv", "a.img:/x*", "a.img:/x*", "a.img:/to"]);
    workdir.ok(&["stat", "a.img:/xa"]);
    workdir.ok(&["rm", "--no-glob", "-f", "a.img:/x*"]);
    workdir.ok(&["stat", "a.img:/xa"]);
    workdir.assert_clean("a.img");
}

#[test]
fn an_image_alone_is_not_its_root_to_what_changes_files() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["touch", "a.img:/f"]);
    let before = fs::read(workdir.path("a.img")).unwrap();
    for line in [
        &["chmod", "700", "a.img"][..],
        &["touch", "a.img"],
        &["find", "a.img", "-delete"],
        &["ln", "-s", "x", "a.img"],
        &["rm", "-r", "a.img"],
    ] {
        let why = "names an image, not a file in it; a.img:/ is its root directory";
        workdir.refuses(1, line, why);
    }
    assert!(fs::read(workdir.path("a.img")).unwrap() == before);
}

#[test]
fn a_path_of_the_host_is_told_how_a_file_in_an_image_is_named() {
    let workdir = Workdir::new();
    fs::create_dir(workdir.path("dir")).unwrap();
    fs::write(workdir.path("file"), "content\n").unwrap();
    let form = "a file in an image is IMAGE:/path, such as disk.img:/etc/hosts";
    for (name, what) in [
        ("dir", "dir: is a directory of the host; "),
        ("file", "file: is a file of the host; "),
        ("gone", "gone: no such image; "),
    ] {
        for line in [
            &["chmod", "700", name][..],
            &["chown", "0", name],
            &["xattr", "set", name, "user.a", "b"],
            &["touch", name],
            &["rm", name],
        ] {
            workdir.refuses(1, line, &format!("{what}{form}"));
        }
    }
    let meant = "file/x: no such file; did you mean file:/x?";
    workdir.refuses(1, &["chmod", "700", "file/x"], meant);
}

/// As mv(1), which names what is not a directory, not the file that would be moved.
#[test]
fn a_move_names_what_is_not_a_directory() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["touch", "a.img:/f", "a.img:/g"]);
    fs::write(workdir.path("host"), "content\n").unwrap();
    for from in ["a.img:/f", "host"] {
        for to in ["a.img:/new/", "a.img:/g/", "a.img:/g/x"] {
            let line = workdir.fails(1, &["mv", from, to]);
            assert!(line.contains(&format!("uext4: {to}: ")), "{from}: {line}");
            assert!(line.contains("not a directory"), "{from}: {line}");
        }
    }
    workdir.ok(&["stat", "a.img:/f", "a.img:/g"]);
    assert!(workdir.path("host").exists());
}

#[test]
fn a_level_of_the_log_that_does_not_exist_is_refused() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    let said = |level: &str| {
        let mut command = Command::new(uext4());
        command.args(["ls", "a.img"]).current_dir(workdir.dir());
        let out = command.env("UEXT4_LOG", level).output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    let (code, line) = said("bogus");
    assert_eq!(code, Some(2), "{line}");
    let why =
        "UEXT4_LOG: no level is named 'bogus'; error, warn, info, debug and trace are, and off\n";
    assert_eq!(line, format!("uext4: {why}"));
    assert_eq!(said(""), (Some(0), String::new()));
    assert_eq!(said("off"), (Some(0), String::new()));
    assert!(said("debug").1.contains("took"));
}

/// It may be a file that has something, and others write to it too.
#[test]
fn standard_output_is_written_from_where_it_is() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    fs::write(workdir.path("f"), "content\n").unwrap();
    workdir.ok(&["cp", "f", "a.img:/f"]);
    let script =
        "echo old > out; $U cp a.img:/f - >> out; (echo first; $U cp a.img:/f -; echo last) >> out";
    let mut sh = Command::new("sh");
    sh.args(["-ec", script]).current_dir(workdir.dir());
    assert!(sh.env("U", uext4()).status().unwrap().success());
    let written = fs::read_to_string(workdir.path("out")).unwrap();
    assert_eq!(written, "old\ncontent\nfirst\ncontent\nlast\n");
}

/// As several operands do, a pattern that several files match needs a directory: one would replace the other.
#[test]
fn what_a_pattern_names_does_not_replace_each_other() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["touch", "a.img:/f1", "a.img:/f2", "a.img:/old"]);
    workdir.ok(&["mkdir", "a.img:/d1", "a.img:/d2", "a.img:/to"]);
    workdir.ok(&["touch", "a.img:/d1/same", "a.img:/d2/same"]);
    let names = workdir.ok(&["ls", "a.img:/"]);
    for line in [
        &["mv", "a.img:/f*", "a.img:/new"][..],
        &["mv", "a.img:/f*", "a.img:/old"],
        &["mv", "a.img:/f*", "new"],
        &["cp", "a.img:/f*", "a.img:/new"],
        &["ln", "-f", "a.img:/f*", "a.img:/old"],
    ] {
        workdir.fails(1, line);
        assert_eq!(workdir.ok(&["ls", "a.img:/"]), names, "{line:?}");
        assert!(!workdir.path("new").exists());
    }
    for command in ["cp", "mv"] {
        let to = ["a.img:/d*/same", "a.img:/to"];
        workdir.refuses(1, &[command, to[0], to[1]], "was made just now");
        workdir.ok(&["stat", "a.img:/d2/same"]);
        workdir.ok(&["rm", "a.img:/to/same"]);
    }
    workdir.assert_clean("a.img");
}

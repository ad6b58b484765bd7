//! Operands that mean another thing than was understood, or nothing.

use crate::workdir::Workdir;

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
    for name in ["mmp", "encrypt", "casefold"] {
        let line = workdir.fails(1, &["mkfs", "a.img", "--size", "32M", "-O", name]);
        assert!(line.contains(&format!("feature {name} ")), "{line}");
        assert!(!workdir.path("a.img").exists());
    }
}

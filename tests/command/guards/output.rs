//! Names that would control a terminal.

use crate::*;

/// An escape sequence as ECMA-48 has it for seven bits, and its one-character form.
const HOSTILE: &str = "x\u{1b}[31my\u{9b}2Jz";

fn controls(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\r'))
}

#[test]
fn names_on_standard_error_and_in_json_control_nothing() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    let (in_image, image) = (format!("a.img:/{HOSTILE}"), format!("{HOSTILE}.img"));
    workdir.ok(&["touch", &in_image]);
    for args in [
        &["ls", &image][..],
        &["cat", &format!("{in_image}/none")],
        &["check", &image],
        &["mkfs", &image, "--from", HOSTILE],
        &["mount", &image, "none"],
        &["umount", HOSTILE],
    ] {
        let out = workdir.run(args);
        assert!(!out.status.success(), "{args:?}");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!controls(&out.stderr), "{args:?}: {said:?}");
        assert!(said.contains(r"x\x1b[31my\u{9b}2Jz"), "{args:?}: {said}");
    }
    let json = workdir.run(&["ls", "--json", "a.img"]).stdout;
    assert!(!controls(&json), "{}", String::from_utf8_lossy(&json));
    let listed: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let names = listed.as_array().unwrap();
    assert!(names.iter().any(|file| file["name"] == HOSTILE), "{listed}");
    // To a program, names are what they are.
    assert!(workdir.ok(&["ls", "a.img"]).contains(HOSTILE));
}

#[test]
fn names_on_a_terminal_control_nothing() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["touch", &format!("a.img:/{HOSTILE}")]);
    for command in ["ls", "ls -l", "tree", "find", "lsattr"] {
        let line = format!("{} {command} a.img", uext4());
        let mut script = Command::new("script");
        script
            .current_dir(workdir.dir())
            // Those of names are ours.
            .env("NO_COLOR", "1")
            .args(["-qec", &line, "/dev/null"]);
        let out = script.output().unwrap().stdout;
        let said = String::from_utf8_lossy(&out);
        assert!(!controls(&out), "{command}: {said:?}");
        assert!(said.contains(r"x\x1b[31my\u{9b}2Jz"), "{command}: {said}");
    }
}

#[test]
fn the_source_of_a_mount_controls_nothing() {
    let workdir = Workdir::new();
    if !rustix::process::geteuid().is_root() || !std::path::Path::new("/dev/fuse").exists() {
        return eprintln!("skipped: mounting needs root and /dev/fuse");
    }
    let image = format!("{HOSTILE}.img");
    workdir.ok(&["mkfs", &image, "--size", "16M"]);
    fs::create_dir(workdir.path("mnt")).unwrap();
    for options in ["noatime".to_owned(), format!("fsname={HOSTILE}")] {
        workdir.ok(&["mount", &image, "mnt", "-o", &options]);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let ours = mounts
            .lines()
            .find(|line| line.contains(workdir.path("mnt").to_str().unwrap()));
        let ours = ours.unwrap().to_owned();
        workdir.ok(&["umount", "mnt"]);
        assert!(!controls(ours.as_bytes()), "{ours:?}");
        workdir.assert_clean(&image);
    }
}

//! `uext4 apply`: all commands of a script, or none.

use crate::*;
use std::io::Write;
use std::process::Stdio;

fn with_image() -> Workdir {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--from", "tree", "--spare", "8M"]);
    workdir
}

fn bytes(workdir: &Workdir) -> Vec<u8> {
    fs::read(workdir.path("a.img")).unwrap()
}

#[test]
fn all_commands_of_a_script_are_done() {
    let workdir = with_image();
    fs::write(workdir.path("from host"), "text\n").unwrap();
    let script = "# a comment\n\
        mkdir -p :/srv/app      # and another\n\n\
        cp 'from host' :/srv/app/file\n  \
        ln -s /srv/app/file ':/srv/a link'\n\
        chown 7:8 :/srv/app/file\n\
        chmod 4751 :/srv/app/file\n\
        cp :/srv/app/file :/srv/copy\n\
        chmod --reference=:/srv/app/file :/srv/copy\n\
        mv :/srv/copy :/etc/\n\
        xattr set :/srv/app/file user.a b\n\
        rm :/etc/passwd\r\n";
    fs::write(workdir.path("script"), script).unwrap();
    workdir.prints(&["apply", "a.img", "script"], "a.img: 10 commands, ");
    workdir.assert_clean("a.img");
    assert_eq!(workdir.ok(&["cat", "a.img:/srv/a link"]), "text\n");
    let stat = |path: &str| workdir.ok(&["stat", "-c", "%a %u %g", path]);
    assert_eq!(stat("a.img:/srv/app/file"), "4751 7 8\n");
    assert_eq!(stat("a.img:/etc/copy"), "4751 0 0\n");
    workdir.refuses(1, &["cat", "a.img:/etc/passwd"], "/etc/passwd");
}

#[test]
fn a_failure_leaves_the_image_as_it_was() {
    let workdir = with_image();
    let before = bytes(&workdir);
    fs::write(workdir.path("host"), "of the host").unwrap();
    workdir.ok(&["mkfs", "b.img", "4M"]);
    workdir.ok(&["cp", "host", "b.img:/f"]);
    for (script, code, wanted) in [
        (
            "mkdir :/a\nrm :/none\nmkdir :/b",
            1,
            "script:2: nothing was changed: a.img:/none: ",
        ),
        (
            "mkdir :/a\ncp none :/b",
            1,
            "script:2: nothing was changed: none: ",
        ),
        (
            "mkdir :/a\nls :/",
            2,
            "script:2: ls is not a command that changes files",
        ),
        ("mkdir :/a\nfrobnicate :/", 2, "script:2: "),
        ("mkdir :/a\nmkdir --wrong :/b", 2, "script:2: "),
        (
            "mkdir :/a\nmv host :/a",
            1,
            "script:2: nothing was changed: host: a script changes files of its image alone",
        ),
        ("cp :/etc/passwd host", 1, "host: a script changes"),
        ("mkdir b.img:/a", 1, "b.img: a script changes"),
        ("mv b.img:/f :/f", 1, "b.img: a script changes"),
        ("chmod :/a", 2, "script:1: the following required arguments"),
        ("mkdir ':/a", 2, "script:1: a quotation mark"),
        ("apply a.img script", 2, "script:1: apply is not"),
        (
            "mkdir --journal x :/a",
            2,
            "script:1: options of all commands",
        ),
    ] {
        fs::write(workdir.path("script"), script).unwrap();
        workdir.refuses(code, &["apply", "a.img", "script"], wanted);
        assert!(before == bytes(&workdir), "{script}");
        assert_eq!(fs::read(workdir.path("host")).unwrap(), b"of the host");
        assert_eq!(workdir.ok(&["cat", "b.img:/f"]), "of the host");
    }
    workdir.refuses(1, &["apply", "a.img", "none"], "none: ");
    fs::write(workdir.path("script"), "mkdir :/a\n").unwrap();
    workdir.refuses(1, &["apply", "none.img", "script"], "none.img");
}

#[test]
fn a_failure_is_json_too() {
    let workdir = with_image();
    for (script, code, commands, line, error) in [
        (
            "mkdir :/a\nrm :/none\n",
            1,
            2,
            Some(2),
            "script:2: nothing was changed: a.img:/none: ",
        ),
        (
            "mkdir :/a\n\nls :/\n",
            2,
            0,
            Some(3),
            "script:3: ls is not a command",
        ),
    ] {
        fs::write(workdir.path("script"), script).unwrap();
        let out = workdir.run(&["apply", "--json", "a.img", "script"]);
        assert_eq!(out.status.code(), Some(code));
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(
            (&json["commands"], &json["changed_bytes"]),
            (&commands.into(), &0.into())
        );
        assert_eq!(
            (&json["written"], &json["line"]),
            (&false.into(), &line.into())
        );
        let said = json["error"].as_str().unwrap();
        assert!(said.starts_with(error), "{said}");
        assert!(String::from_utf8_lossy(&out.stderr).contains(said));
    }
    fs::write(workdir.path("script"), "mkdir :/a\n").unwrap();
    let out = workdir.run(&["apply", "--json", "none.img", "script"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["line"], serde_json::Value::Null);
}

#[test]
fn a_script_is_tried() {
    let workdir = with_image();
    let before = bytes(&workdir);
    fs::write(workdir.path("script"), "mkdir :/a\nmkdir :/a/b\n").unwrap();
    workdir.prints(
        &["apply", "-n", "a.img", "script"],
        "a.img: 2 commands, nothing was written",
    );
    assert!(before == bytes(&workdir));
    fs::write(workdir.path("script"), "# nothing\n").unwrap();
    workdir.prints(
        &["apply", "a.img", "script"],
        "a.img: 0 commands, nothing was written",
    );
    assert!(before == bytes(&workdir));
    fs::write(workdir.path("script"), "mkdir :/a\nmkdir :/a\n").unwrap();
    workdir.refuses(
        1,
        &["apply", "-n", "a.img", "script"],
        "script:2: nothing was changed: a.img:/a: ",
    );
}

#[test]
fn a_script_comes_from_a_pipe() {
    let workdir = with_image();
    let mut command = Command::new(uext4());
    command
        .args(["apply", "--json", "a.img", "-"])
        .current_dir(workdir.dir());
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"mkdir :/piped\n")
        .unwrap();
    let out = child.wait_with_output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["commands"], 1);
    assert_eq!(json["written"], true);
    assert!(json["changed_bytes"].as_u64().unwrap() > 0);
    workdir.ok(&["stat", "a.img:/piped"]);
}

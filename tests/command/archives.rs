//! `uext4 mkfs --from` an archive: pipes, limits, and what is left where one fails.

use crate::*;
use std::process::Stdio;

/// A tar archive of the tree, and the tree.
fn packed(workdir: &Workdir, args: &[&str]) {
    workdir.tree();
    let mut tar = Command::new("tar");
    tar.current_dir(workdir.dir())
        .args(["-C", "tree", "--sort=name", "-cf"])
        .args(args)
        .arg(".");
    assert!(tar.status().unwrap().success());
}

fn files(workdir: &Workdir) -> Vec<String> {
    let entries = fs::read_dir(workdir.dir()).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn an_archive_is_read_from_a_file_and_a_pipe() {
    let workdir = Workdir::new();
    packed(&workdir, &["a.tar.gz", "-z"]);
    let uuid = "00000000-0000-0000-0000-000000000003";
    let run = |image: &str, from: &str| {
        let mut command = Command::new(uext4());
        command
            .current_dir(workdir.dir())
            .args(["mkfs", image, "--from", from, "--uuid", uuid]);
        command
            .env("SOURCE_DATE_EPOCH", "4000000000")
            .stdin(Stdio::from(
                fs::File::open(workdir.path("a.tar.gz")).unwrap(),
            ));
        let out = command.output().unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        fs::read(workdir.path(image)).unwrap()
    };
    let from_file = run("a.img", "a.tar.gz");
    assert!(from_file == run("b.img", "-"));
    assert!(from_file == run("c.img", "tar:a.tar.gz"));
    workdir.assert_clean("a.img");
    workdir.prints(&["cat", "a.img:/etc/passwd"], "root:x:0:0");
    assert_eq!(
        files(&workdir),
        ["a.img", "a.tar.gz", "b.img", "c.img", "tree"]
    );
}

#[test]
fn an_archive_that_fails_leaves_nothing() {
    let workdir = Workdir::new();
    packed(&workdir, &["a.tar"]);
    let whole = fs::read(workdir.path("a.tar")).unwrap();
    fs::write(workdir.path("cut.tar"), &whole[..whole.len() / 2]).unwrap();
    fs::write(workdir.path("text"), "no archive at all\n".repeat(100)).unwrap();
    fs::write(workdir.path("old.img"), "kept").unwrap();
    let before = files(&workdir);
    for image in ["new.img", "old.img"] {
        let refuses = |from: &[&str], text: &str| {
            let args = [&["mkfs", image, "--force", "--from"], from].concat();
            workdir.refuses(1, &args, text);
        };
        refuses(&["cut.tar"], "cut.tar: ");
        refuses(&["text"], "text: at byte 0: no header of an archive");
        refuses(
            &["a.tar", "--limit", "10K"],
            "beyond the limit of 10240 bytes; a larger --limit",
        );
        refuses(&["oci:tree"], "neither an OCI layout nor");
        refuses(&["oci:none"], "can't open none");
    }
    assert_eq!(files(&workdir), before);
    assert_eq!(fs::read(workdir.path("old.img")).unwrap(), b"kept");
}

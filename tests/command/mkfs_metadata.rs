//! `uext4 mkfs --exclude, --map-uid, --manifest, --contexts`: what the command takes, and what it refuses.

use crate::*;

#[test]
fn files_of_a_source_are_given_what_options_say() {
    let workdir = Workdir::new();
    workdir.tree();
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let users = format!("5:{}:1", uid.as_raw());
    let groups = format!("6:{}:1", gid.as_raw());
    fs::write(
        workdir.path("manifest"),
        "/dev/null type=char major=1 minor=3 mode=666\n/etc/passwd xattr.user.a=b\nnone uid=1\n",
    )
    .unwrap();
    fs::write(workdir.path("contexts"), "/.* u:r:t:s0\n").unwrap();
    let args = [
        "mkfs",
        "a.img",
        "--from",
        "tree",
        "--exclude",
        "file-*",
        "--exclude",
        "/etc/empty",
        "--map-uid",
        &users,
        "--map-gid",
        &groups,
        "--manifest",
        "manifest",
        "--contexts",
        "contexts",
    ];
    let out = workdir.run(&args);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{said}");
    let warning = "uext4: warning: manifest: line 3: nothing matches none\n";
    assert_eq!(said, warning);
    workdir.assert_clean("a.img");
    assert_eq!(workdir.ok(&["ls", "a.img:/etc"]), "link\npasswd\nsame\n");
    workdir.prints(&["stat", "a.img:/etc/passwd"], "5");
    workdir.prints(&["stat", "-c", "%u:%g", "a.img:/large"], "5:6");
    workdir.prints(
        &["stat", "-c", "%u:%g %F", "a.img:/dev/null"],
        "0:0 character special file",
    );
    // With the zero byte that ends a label.
    let label = "security.selinux=0x753a723a743a733000";
    workdir.prints(&["xattr", "list", "-d", "a.img:/etc/passwd"], label);
}

#[test]
fn a_source_of_a_later_time_is_cut_to_the_epoch() {
    let workdir = Workdir::new();
    workdir.tree();
    fs::write(
        workdir.path("manifest"),
        "#mtree\n./etc/passwd time=2000.5\n./large time=500.7\n",
    )
    .unwrap();
    let mut command = Command::new(uext4());
    command
        .current_dir(workdir.dir())
        .env("SOURCE_DATE_EPOCH", "1000");
    command.args(["mkfs", "a.img", "--from", "tree", "--manifest", "manifest"]);
    assert!(command.output().unwrap().status.success());
    for (file, time) in [("etc/passwd", "1000"), ("large", "500"), ("etc", "1000")] {
        let file = format!("a.img:/{file}");
        assert_eq!(
            workdir.ok(&["stat", "-c", "%Y", &file]).trim(),
            time,
            "{file}"
        );
    }
}

#[test]
fn what_options_can_not_say_is_refused() {
    let workdir = Workdir::new();
    workdir.tree();
    let uid = rustix::process::getuid().as_raw();
    fs::write(workdir.path("manifest"), "\n/x frob=1\n").unwrap();
    fs::write(workdir.path("contexts"), "/x( u:r:t:s0\n").unwrap();
    for (code, args, said) in [
        (
            1,
            &["--exclude", "["][..],
            "exclude can't be [: not a pattern",
        ),
        (2, &["--map-uid", "0:1"], "give INSIDE:OUTSIDE:COUNT"),
        (2, &["--map-gid", "subuid"], "give INSIDE:OUTSIDE:COUNT"),
        (
            1,
            &["--map-uid", &format!("0:{}:1", uid + 1)],
            &format!("user {uid} is in no range of --map-uid"),
        ),
        (
            1,
            &["--manifest", "manifest"],
            "manifest: line 2: `frob` is unknown",
        ),
        (1, &["--manifest", "none"], "can't read none"),
        (1, &["--contexts", "contexts"], "contexts: line 1: `/x(`"),
        (
            1,
            &["--platform", "linux/amd64"],
            "no source is a container image",
        ),
    ] {
        let args = [&["mkfs", "a.img", "--from", "tree"], args].concat();
        let out = workdir.run(&args);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(said), "{args:?}: {text}");
        assert!(!workdir.path("a.img").exists());
    }
    let both = [
        "mkfs",
        "a.img",
        "--from",
        "tree",
        "--owner",
        "0:0",
        "--map-uid",
        "0:0:1",
    ];
    let out = workdir.run(&both);
    assert_eq!(out.status.code(), Some(2));
}

/// What sha256sum prints of a file.
fn sha256sum(workdir: &Workdir, file: &str) -> String {
    let out = Command::new("sha256sum").arg(workdir.path(file)).output();
    let out = String::from_utf8(out.unwrap().stdout).unwrap();
    out.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_report_has_the_digest_of_the_image() {
    let workdir = Workdir::new();
    workdir.tree();
    let mut digests = Vec::new();
    for (image, more) in [
        ("a.img", &["--threads=1"][..]),
        ("b.img", &["--threads=8"]),
        ("c.qcow2", &["--format=qcow2"]),
    ] {
        let mut mkfs = vec![
            "mkfs",
            "--json",
            "-U",
            "00000000-0000-4000-8000-000000000001",
        ];
        mkfs.extend(["--from=tree", image].iter().chain(more));
        let mut run = Command::new(uext4());
        run.args(mkfs).current_dir(workdir.dir());
        let out = run.env("SOURCE_DATE_EPOCH", "1700000000").output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        digests.push(json["digest"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        digests[0],
        format!("sha256:{}", sha256sum(&workdir, "a.img"))
    );
    assert!(
        digests.iter().all(|digest| *digest == digests[0]),
        "{digests:?}"
    );
}

#[test]
fn a_quiet_mkfs_prints_the_root_hash() {
    let workdir = Workdir::new();
    let said = workdir.ok(&["mkfs", "-q", "--verity", "a.img", "8M"]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("root hash: ") && lines[0].len() == 11 + 64);
    assert_eq!(lines[1..], ["hash offset: 8388608"]);
    assert_eq!(workdir.ok(&["mkfs", "-q", "b.img", "8M"]), "");
}

#[test]
fn a_part_of_an_image_is_no_source() {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "a.img", "--from=tree"]);
    let part = ["mkfs", "b.img", "--from=a.img:/etc"];
    workdir.refuses(1, &part, "`uext4 export 'a.img:/etc' -` writes an archive");
    // A directory with such a name is one.
    fs::create_dir_all(workdir.path("a.img:/etc")).unwrap();
    workdir.ok(&part);
}

#[test]
fn digests_of_files_with_fsverity_are_listed() {
    let workdir = Workdir::new();
    workdir.tree();
    let glob = "/etc/passwd";
    let args = [
        "mkfs",
        "a.img",
        "--from",
        "tree",
        "--fsverity",
        glob,
        "--json",
    ];
    let list: serde_json::Value = serde_json::from_str(&workdir.ok(&args)).unwrap();
    let files = list["fsverity"].as_array().unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0]["path"], glob);
    assert!(files[0]["digest"].as_str().unwrap().starts_with("sha256:"));
    workdir.assert_clean("a.img");
    workdir.prints(&["lsattr", "a.img:/etc/passwd"], "V");
}

#[test]
fn an_image_is_a_source() {
    let workdir = Workdir::new();
    workdir.tree();
    workdir.ok(&["mkfs", "old.img", "--from", "tree"]);
    workdir.ok(&["mkfs", "new.img", "--from", "old.img"]);
    workdir.assert_clean("new.img");
    assert_eq!(workdir.ok(&["diff", "old.img", "new.img"]), "");
    let out = workdir.run(&["mkfs", "old.img", "--force", "--from", "old.img"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("is the image to be made"), "{said}");
}

//! `uext4 quota`, and `uext4 mkfs -O quota`.

use crate::*;

fn made(options: &[&str]) -> Workdir {
    let workdir = Workdir::new();
    workdir.tree();
    let all = [&["mkfs", "-q", "a.img", "32M", "--from", "tree"], options].concat();
    workdir.ok(&all);
    workdir
}

fn report(workdir: &Workdir, args: &[&str]) -> serde_json::Value {
    let all = [&["quota", "report", "--json"], args, &["a.img"]].concat();
    serde_json::from_str(&workdir.ok(&all)).expect("JSON")
}

#[test]
fn mkfs_counts_what_a_tree_has() {
    for options in [
        &["-O", "quota"][..],
        &["-O", "quota,project", "-b", "1024"],
        &["-O", "quota,project", "-E", "quotatype=prjquota:usrquota"],
        &["-O", "quota,^has_journal,^extent,^64bit"],
    ] {
        let workdir = made(options);
        workdir.assert_clean("a.img");
        let users = &report(&workdir, &[])[0];
        assert_eq!(users["kind"], "user");
        assert!(
            users["owners"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        );
        workdir.ok(&["cp", "tree", "a.img:/more", "-r"]);
        workdir.ok(&["chown", "-R", "1234:4321", "a.img:/more"]);
        workdir.assert_clean("a.img");
    }
}

#[test]
fn limits_are_set_and_shown() {
    let workdir = made(&["-O", "quota,project"]);
    let limits = [
        "--blocks-soft",
        "1M",
        "--blocks-hard",
        "2M",
        "--inodes-hard",
        "9",
    ];
    let owners = ["a.img:", "user:1000", "project:7", "group:root"];
    workdir.ok(&[&["quota", "set"][..], &limits, &owners].concat());
    workdir.ok(&["quota", "set", "a.img", "user:1000", "--inodes-soft", "8"]);
    workdir.ok(&[
        "quota", "grace", "a.img", "-P", "--blocks", "3d", "--inodes", "90",
    ]);
    workdir.assert_clean("a.img");
    let users = report(&workdir, &["-u"]);
    let of_users = users[0]["owners"].as_array().expect("owners");
    let user = of_users.iter().find(|of| of["id"] == 1000).expect("1000");
    assert_eq!(user["space"]["soft"], 1 << 20);
    assert_eq!(user["space"]["hard"], 2 << 20);
    assert_eq!(
        (&user["inodes"]["soft"], &user["inodes"]["hard"]),
        (&8.into(), &9.into())
    );
    let projects = &report(&workdir, &["-P"])[0];
    assert_eq!(projects["space_grace_seconds"], 3 * 86_400);
    assert_eq!(projects["inode_grace_seconds"], 90);
    let shown = workdir.ok(&["quota", "show", "-s", "a.img", "user:1000"]);
    assert!(shown.contains("1.0M") && shown.contains("2.0M"), "{shown}");
}

#[test]
fn what_can_not_be_set_is_refused() {
    let workdir = made(&["-O", "quota"]);
    let set = ["quota", "set", "a.img"];
    let refuses = |more: &[&str], why: &str| {
        workdir.refuses(1, &[&set[..], more].concat(), why);
    };
    refuses(&["user:1"], "give a limit");
    refuses(&["user:unknown", "--blocks-hard", "1M"], "give a number");
    refuses(&["user:4294967295", "--inodes-hard", "1"], "not an owner");
    refuses(&["user:1", "--inodes-hard", "9223372036854775808"], "2^63");
    refuses(&["user:1", "--blocks-hard", "9223372036854775808"], "2^63");
    workdir.ok(&[
        "quota",
        "set",
        "a.img",
        "user:4294967294",
        "--inodes-hard",
        "9223372036854775807",
    ]);
    refuses(&["project:1", "--blocks-hard", "1M"], "project,quota");
    refuses(
        &["user:1", "--blocks-hard", "1M", "--blocks-soft", "2M"],
        "above",
    );
    workdir.refuses(1, &["quota", "grace", "a.img"], "give a time");
    let without = made(&[]);
    without.refuses(1, &["quota", "report", "a.img"], "tune -O quota");
}

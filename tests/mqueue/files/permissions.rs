//! Permissions in the directory, by its mode and owner.

use crate::mount::{Both, Mount, beside_the_kernel};
use libc::{EACCES, EPERM};
use uext4_vfs::FileKind;

/// What is tried, and how.
pub type Step = (&'static str, fn(&dyn Mount) -> Result<(), i32>);

/// What a user tries; `own` is its own queue, `roots` root's, which all may read and write.
const STEPS: [Step; 22] = [
    ("create", |m| m.create("w", 0o600)),
    ("create what is there", |m| m.create("roots", 0o600)),
    ("unlink", |m| m.unlink("w")),
    ("unlink root's", |m| m.unlink("roots")),
    ("unlink nothing", |m| m.unlink("none")),
    ("mkdir", |m| m.make("n", FileKind::Directory)),
    ("mkdir where something is", |m| {
        m.make("own", FileKind::Directory)
    }),
    ("symlink", |m| m.make("n", FileKind::Symlink)),
    ("mknod", |m| m.make("n", FileKind::CharDevice)),
    ("list", |m| m.list().map(drop)),
    ("stat", |m| m.stat("own").map(drop)),
    ("stat nothing", |m| m.stat("none").map(drop)),
    ("stat the directory", |m| m.stat(".").map(drop)),
    ("rmdir", |m| m.rmdir("own")),
    ("rmdir root's", |m| m.rmdir("roots")),
    ("link", |m| m.link("own", "n")),
    ("rename", |m| m.rename("own", "n", 0)),
    ("rename onto root's", |m| m.rename("own", "roots", 0)),
    ("exchange root's", |m| m.rename("roots", "own", 2)),
    ("rename nothing", |m| m.rename("none", "n", 0)),
    ("tmpfile", |m| m.tmpfile()),
    ("read", |m| m.read("roots", 0, 9).map(drop)),
];

/// The same by the calls for queues.
pub const BY_NAME: [Step; 8] = [
    ("mq_open", |m| m.mq_open("roots", false, false)),
    ("mq_open nothing", |m| m.mq_open("none", false, false)),
    ("mq_open what is there", |m| m.mq_open("roots", true, false)),
    ("mq_open, exclusive", |m| m.mq_open("roots", true, true)),
    ("mq_open anew", |m| m.mq_open("m", true, true)),
    ("mq_unlink", |m| m.mq_unlink("m")),
    ("mq_unlink root's", |m| m.mq_unlink("roots")),
    ("mq_unlink nothing", |m| m.mq_unlink("none")),
];

fn fill(both: &Both) {
    both.same("root", |m| m.become_user(0));
    // The umask takes nothing here, and what is there from before stays.
    both.same("root's", |m| m.create("roots", 0o666)).ok();
    both.same("own", |m| m.create("own", 0o600)).ok();
    both.same("own", |m| m.chown("own", Some(4841), Some(4841)))
        .expect("may");
}

/// Lets a user try something in a directory of each mode and owner, which is reported.
pub fn in_each_mode(both: &Both, tried: impl Fn(&str)) {
    let modes = [
        0o1777, 0o777, 0o755, 0o700, 0o722, 0o733, 0o711, 0o744, 0o766, 0o1733, 0,
    ];
    for (uid, gid) in [(0, 0), (0, 4841), (4841, 0)] {
        for mode in modes
            .iter()
            .flat_map(|m| [*m, *m << 3 & 0o700 | m & 0o70 | m & 0o1000])
        {
            fill(both);
            both.same("chown", |m| m.chown(".", Some(uid), Some(gid)))
                .expect("may");
            both.same("chmod", |m| m.chmod(".", mode)).expect("may");
            both.same("a user", |m| m.become_user(4841));
            tried(&format!("{mode:o} of {uid}:{gid}"));
        }
    }
}

#[test]
fn modes_of_the_directory() {
    beside_the_kernel(|both| {
        in_each_mode(both, |mode| {
            for (what, step) in STEPS {
                both.same(&format!("{what}: {mode}"), step).ok();
            }
        });
    });
}

#[test]
fn the_directory_is_as_it_was_set() {
    beside_the_kernel(|both| {
        fill(both);
        both.same("a user", |m| m.become_user(4842));
        assert_eq!(both.same("sticky", |m| m.unlink("own")), Err(EPERM));
        assert_eq!(both.same("sticky", |m| m.mq_unlink("own")), Err(EACCES));
        both.same("root", |m| m.become_user(0));
        both.same("chown", |m| m.chown(".", Some(4842), Some(4842)))
            .expect("may");
        both.same("its owner", |m| m.become_user(4842));
        assert_eq!(both.same("by its owner", |m| m.unlink("own")), Ok(()));
        assert_eq!(both.same("chmod", |m| m.chmod(".", 0o755)), Ok(()));
        both.same("another", |m| m.become_user(4841));
        assert_eq!(both.same("create", |m| m.create("n", 0o600)), Err(EACCES));
        assert_eq!(
            both.same("mq_open", |m| m.mq_open("n", true, true)),
            Err(EACCES)
        );
        both.same("stat", |m| m.stat(".")).expect("may");
    });
}

#[test]
fn a_new_queue_belongs_to_its_maker() {
    beside_the_kernel(|both| {
        both.same("chmod", |m| m.chmod(".", 0o2777)).expect("may");
        both.same("chown", |m| m.chown(".", Some(4851), Some(4852)))
            .expect("may");
        both.same("stat", |m| m.stat(".")).expect("may");
        for user in [0, 4851, 4852, 4853] {
            both.same("as", |m| m.become_user(user));
            for mode in [0o2775, 0o2765, 0o4755] {
                both.same("create", |m| m.create("q", mode)).expect("may");
                let made = both.same("made", |m| m.stat("q")).expect("may");
                assert_eq!(made.owner, (user, user));
                both.same("unlink", |m| m.unlink("q")).expect("may");
            }
        }
    });
}

#[test]
fn modes_of_a_queue() {
    beside_the_kernel(|both| {
        both.same("create", |m| m.create("q", 0o600)).expect("may");
        both.same("chown", |m| m.chown("q", Some(4861), Some(4862)))
            .expect("may");
        for mode in [
            0o777, 0o644, 0o640, 0o620, 0o602, 0o066, 0o400, 0o200, 0o100, 0,
        ] {
            both.same("root", |m| m.become_user(0));
            both.same("chmod", |m| m.chmod("q", mode)).expect("may");
            for user in [0, 4861, 4862, 4863] {
                both.same("as", |m| m.become_user(user));
                let what = format!("{mode:o} as {user}");
                both.same(&what, |m| m.read("q", 0, 9)).ok();
                both.same(&what, |m| m.write("q", 1)).ok();
                both.same(&what, |m| m.mq_open("q", false, false)).ok();
                both.same(&what, |m| m.mq_send("q", b"x")).ok();
                both.same(&what, |m| m.truncate("q", 9)).ok();
                both.same(&what, |m| m.utimes("q", None)).ok();
                both.same("root", |m| m.become_user(0));
                both.same("receive", |m| m.stat("q")).expect("may");
                let full = both.same("full", |m| m.read("q", 0, 9));
                if full.is_ok_and(|line| !line.starts_with("QSIZE:0")) {
                    both.same("receive", |m| m.mq_receive("q")).expect("there");
                }
            }
        }
    });
}

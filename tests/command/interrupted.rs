//! Commands that end early, by a signal, a closed pipe, or a device that is full or can't be written: the image is clean, each file
//! is as it was before or as it would be after, and the exit code and one line say what happened.

use crate::*;
use rustix::process::{Pid, kill_process};
use std::collections::BTreeMap;
use std::time::Instant;

/// Moments at which each command is interrupted; `UEXT4_MOMENTS` asks for more.
const MOMENTS: u32 = 2;
/// For each so often it is tried, as it may have ended before.
const TRIES: u32 = 3;
/// Steps of this part of the whole, wrapped around, meet each part of it alike, however many there are: the golden ratio.
const STEP: f64 = 0.618_034;

/// A tree of files by path: mode and content, of what is not a directory or a file its kind.
type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// A command line, and the image that it changes.
struct Case {
    line: &'static [&'static str],
    /// Modes are compared too.
    modes: bool,
}

const CASES: [Case; 12] = [
    Case {
        line: &["cp", "-r", "tree", "a.img:/new"],
        modes: false,
    },
    Case {
        line: &["cp", "-a", "tree/.", "a.img:/"],
        modes: false,
    },
    Case {
        line: &["cp", "-a", "a.img:/filled", "out"],
        modes: false,
    },
    Case {
        line: &["rm", "-r", "a.img:/filled"],
        modes: false,
    },
    Case {
        line: &["mv", "tree", "a.img:/moved"],
        modes: false,
    },
    Case {
        line: &["mv", "a.img:/filled", "moved"],
        modes: false,
    },
    Case {
        line: &["chmod", "-R", "u=rwX,go=", "a.img:/filled"],
        modes: true,
    },
    Case {
        line: &["setfacl", "-R", "-m", "u:7:rwx", "a.img:/filled"],
        modes: true,
    },
    Case {
        line: &["cp", "-a", "a.img:/filled", "a.img:/copy"],
        modes: false,
    },
    Case {
        line: &["rm", "-v", "a.img:/filled/*/f*"],
        modes: false,
    },
    Case {
        line: &["truncate", "-s", "0", "a.img:/filled/*/f*"],
        modes: false,
    },
    Case {
        line: &["mkfs", "a.img", "--from", "tree", "--force"],
        modes: false,
    },
];

/// A directory with a tree of the host and an image that has it too.
fn prepared() -> Workdir {
    let workdir = Workdir::new();
    let tree = workdir.path("tree");
    for dir in 0..8 {
        let dir = tree.join(format!("d{dir}"));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..40_u8 {
            fs::write(
                dir.join(format!("f{file}")),
                vec![file; 2000 * usize::from(file)],
            )
            .unwrap();
        }
        fs::write(dir.join("large"), vec![7; 3 << 20]).unwrap();
    }
    workdir.ok(&["mkfs", "a.img", "--size", "128M", "--inodes", "8192"]);
    workdir.ok(&["cp", "-a", "tree", "a.img:/filled"]);
    workdir
}

/// A copy of it.
fn copy(of: &Workdir) -> Workdir {
    let copy = Workdir::new();
    let mut cp = Command::new("cp");
    let status = cp.arg("-a").arg(of.dir().join(".")).arg(copy.dir());
    assert!(status.status().unwrap().success());
    copy
}

/// What a directory of the host holds.
fn tree_of(dir: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut stack = vec![dir.to_owned()];
    while let Some(path) = stack.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(dir).unwrap().to_owned();
        let content = if found.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            stack.extend(entries.map(|entry| entry.unwrap().path()));
            b"directory".to_vec()
        } else {
            fs::read(&path).unwrap()
        };
        tree.insert(name, (found.mode(), content));
    }
    tree
}

/// All that the host and the image have, with the image at `image`.
fn state(workdir: &Workdir) -> Tree {
    let mut all = tree_of(workdir.dir());
    all.remove(Path::new("a.img"));
    let out = TempDir::new().unwrap();
    let to = out.path().join("root");
    workdir.ok(&["cp", "-a", "a.img:/.", to.to_str().unwrap()]);
    let in_image = tree_of(&to).into_iter();
    all.extend(in_image.map(|(path, file)| (Path::new("image").join(path), file)));
    all
}

/// Checks that each file is as in one of both.
fn is_before_or_after(case: &Case, before: &Tree, after: &Tree, now: &Tree) {
    let part = |tree: &Tree, path: &Path| {
        let found = tree.get(path)?;
        Some((found.1.clone(), case.modes.then_some(found.0)))
    };
    let paths = before.keys().chain(after.keys()).chain(now.keys());
    for path in paths {
        let there = part(now, path);
        let fits = there == part(before, path) || there == part(after, path);
        let bytes = there.map(|(content, mode)| (content.len(), mode));
        assert!(fits, "{:?}: {}: {bytes:?}", case.line, path.display());
    }
}

/// What a move has at neither end is lost.
fn nothing_is_lost(case: &Case, before: &Tree, now: &Tree) {
    let content = |tree: &Tree| -> Vec<Vec<u8>> {
        let files = tree.iter().filter(|(path, _)| path.ends_with("large"));
        files.map(|(_, (_, content))| content.clone()).collect()
    };
    // A file is at both ends until it is removed.
    assert!(
        content(now).len() >= content(before).len(),
        "{:?}",
        case.line
    );
}

#[test]
fn a_signal_leaves_each_file_as_before_or_after() {
    let moments =
        std::env::var("UEXT4_MOMENTS").map_or(MOMENTS, |moments| moments.parse().unwrap());
    let original = prepared();
    let before = state(&original);
    for case in CASES {
        let done = copy(&original);
        let start = Instant::now();
        done.ok(case.line);
        let whole = start.elapsed();
        let after = state(&done);
        let mut interrupted = 0;
        for attempt in 0..TRIES * moments {
            if interrupted == moments {
                break;
            }
            let workdir = copy(&original);
            let (signal, code) = match attempt % 2 {
                0 => (Signal::INT, 130),
                _ => (Signal::TERM, 143),
            };
            let mut command = uext4_in_foreground();
            command.current_dir(workdir.dir()).args(case.line);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            std::thread::sleep(whole.mul_f64((f64::from(attempt) * STEP).fract()));
            let _ = kill_process(Pid::from_child(&child), signal);
            let out = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            if out.status.code() == Some(code) {
                interrupted += 1;
                assert_eq!(said.lines().count(), 1, "{:?}: {said}", case.line);
                assert!(said.contains("interrupted; what was done before"), "{said}");
            } else if out.status.signal() != Some(signal.as_raw()) {
                // It was done before, or had not begun to catch signals.
                assert!(out.status.success() && said.is_empty(), "{out:?}");
            }
            workdir.assert_clean("a.img");
            let now = state(&workdir);
            is_before_or_after(&case, &before, &after, &now);
            if case.line[0] == "mv" {
                nothing_is_lost(&case, &before, &now);
            }
        }
        eprintln!("{:?}: interrupted at {interrupted} moments", case.line);
        assert!(interrupted > 0, "{:?}: ended before each signal", case.line);
    }
}

#[test]
fn a_closed_pipe_ends_what_prints_data() {
    let workdir = prepared();
    let image = fs::read(workdir.path("a.img")).unwrap();
    for line in [
        "cat a.img:/filled/d1/large",
        "cp a.img:/filled/d1/large -",
        "cp a.img:/filled/d1/large /dev/stdout",
    ] {
        let script = format!(
            "{} {line} | head -c 1 > /dev/null; exit ${{PIPESTATUS[0]}}",
            uext4()
        );
        let mut bash = Command::new("bash");
        let out = bash.args(["-c", &script]).current_dir(workdir.dir());
        let out = out.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), &*said), (Some(141), ""), "{line}");
    }
    assert!(fs::read(workdir.path("a.img")).unwrap() == image);
    // What was done before stays.
    for line in [
        &["rm", "-rv", "a.img:/filled"][..],
        &["ls", "--json", "a.img:/"],
        &["--version"],
        &["ls", "--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(uext4());
        command.current_dir(workdir.dir()).stdout(writer);
        let out = command.args(line).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), &*said), (Some(141), ""), "{line:?}");
    }
    workdir.assert_clean("a.img");
}

/// Messages are lost, and nothing else.
#[test]
fn messages_that_can_not_be_written_end_nothing() {
    let workdir = prepared();
    let run = |line: &[&str], stderr: Stdio| {
        let mut command = Command::new(uext4());
        let command = command.current_dir(workdir.dir()).args(line);
        command.stderr(stderr).status().unwrap().code()
    };
    for closed in [true, false] {
        let stderr = || match closed {
            true => Stdio::from(std::io::pipe().unwrap().1),
            false => File::create("/dev/full").unwrap().into(),
        };
        workdir.ok(&["mkdir", "a.img:/d"]);
        let line = &["cp", "-r", "missing", "tree/d1", "a.img:/d"];
        assert_eq!(run(line, stderr()), Some(1));
        workdir.ok(&["stat", "a.img:/d/d1/f39"]);
        let line = &["rm", "-r", "a.img:/missing", "a.img:/d"];
        assert_eq!(run(line, stderr()), Some(1));
        assert_eq!(run(&["ls", "a.img:/d"], stderr()), Some(1));
        assert_eq!(run(&["mount", "a.img", "/missing"], stderr()), Some(1));
        assert_eq!(run(&["nonsense"], stderr()), Some(2));
        workdir.assert_clean("a.img");
    }
}

#[test]
fn what_can_not_be_printed_is_a_failure() {
    let workdir = prepared();
    for line in [
        &["cat", "a.img:/filled/d1/f1"][..],
        &["ls", "a.img:/"],
        &["ls", "--json", "a.img:/"],
        &["check", "a.img"],
        &["ls", "--help"],
        &["help", "patterns"],
        &["--version"],
    ] {
        let mut command = Command::new(uext4());
        let full = File::create("/dev/full").unwrap();
        let out = command.current_dir(workdir.dir()).args(line).stdout(full);
        let out = out.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        let why = "uext4: standard output: no space left on device\n";
        assert_eq!(&*said, why, "{line:?}");
        assert_ne!(out.status.code(), Some(0), "{line:?}");
    }
}

/// A file system in memory of this size; none where this process may not mount.
struct SmallHost(TempDir);

impl SmallHost {
    fn new(size: &str) -> Option<SmallHost> {
        let host = SmallHost(TempDir::new().unwrap());
        let options = format!("size={size}");
        host.mount(&["-t", "tmpfs", "-o", &options, "none"])
            .then_some(host)
    }

    fn mount(&self, args: &[&str]) -> bool {
        let mut mount = Command::new("mount");
        let out = mount.args(args).arg(self.0.path()).output();
        let mounted = out.is_ok_and(|out| out.status.success());
        if !mounted {
            eprintln!("SKIPPED: no tmpfs can be mounted here");
        }
        mounted
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for SmallHost {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_host_is_named_and_keeps_no_part() {
    let Some(host) = SmallHost::new("2M") else {
        return;
    };
    let workdir = prepared();
    let large = host.path("large");
    let dir = host.0.path().to_str().unwrap();
    let full = format!("no space left on the host, on the file system of {dir}");
    workdir.refuses(1, &["cp", "a.img:/filled/d1/large", &large], &full);
    assert!(!Path::new(&large).exists());
    workdir.refuses(1, &["mv", "a.img:/filled/d1/large", &large], &full);
    assert!(!Path::new(&large).exists());
    workdir.ok(&["stat", "a.img:/filled/d1/large"]);
    let image = host.path("b.img");
    workdir.refuses(1, &["mkfs", &image, "--from", "tree"], &full);
    assert!(!Path::new(&image).exists());
    workdir.assert_clean("a.img");
}

#[test]
fn a_sparse_image_on_a_full_host_stays_clean() {
    let Some(host) = SmallHost::new("6M") else {
        return;
    };
    let workdir = prepared();
    let image = host.path("b.img");
    workdir.ok(&["mkfs", &image, "--size", "64M"]);
    let to = format!("{image}:/");
    let out = workdir.run(&["cp", "-r", "tree", &to]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    let dir = host.0.path().to_str().unwrap();
    let full = format!("no space left on the host, on the file system of {dir}");
    assert!(said.lines().all(|l| l.ends_with(&full)), "{said}");
    let check = workdir.run(&["check", &image]);
    let found = String::from_utf8_lossy(&check.stdout);
    assert_eq!(check.status.code(), Some(0), "{found}");
}

#[test]
fn a_full_image_keeps_no_part_of_a_file() {
    let workdir = prepared();
    workdir.ok(&["mkfs", "b.img", "--size", "3M", "--inodes", "64"]);
    let full = "no space left on device; `uext4 df b.img` shows what is used";
    workdir.refuses(1, &["cp", "tree/d1/large", "b.img:/one"], full);
    workdir.refuses(1, &["mv", "tree/d1/large", "b.img:/one"], full);
    assert!(workdir.path("tree/d1/large").exists());
    let listed = workdir.ok(&["ls", "b.img:/"]);
    assert_eq!(listed, "lost+found\n");
    let input = fs::read(workdir.path("tree/d1/large")).unwrap();
    let mut command = Command::new(uext4());
    command.args(["cp", "-", "b.img:/x"]).stdin(Stdio::piped());
    command.current_dir(workdir.dir()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(&input);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert_eq!(workdir.ok(&["ls", "b.img:/"]), "lost+found\n");
    workdir.assert_clean("b.img");
}

/// As cp(1) leaves it, but said.
#[test]
fn a_file_that_is_overwritten_in_part_is_named() {
    let workdir = prepared();
    workdir.ok(&["mkfs", "b.img", "--size", "3M", "--inodes", "64"]);
    workdir.ok(&["cp", "tree/d1/f1", "b.img:/one"]);
    let out = workdir.run(&["cp", "tree/d1/large", "b.img:/one"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("no space left on device"), "{said}");
    let part = "b.img:/one: was overwritten, and holds only a part of tree/d1/large";
    assert!(said.contains(part), "{said}");
    workdir.ok(&["cp", "tree/d1/f1", "b.img:/one"]);
    let before = workdir.ok(&["cat", "b.img:/one"]);
    let out = workdir.run(&["cp", "--append", "tree/d1/large", "b.img:/one"]);
    let said = String::from_utf8(out.stderr).unwrap();
    let part = "b.img:/one: was appended to, and has only a part of tree/d1/large";
    assert!(said.contains(part), "{said}");
    let after = workdir.run(&["cat", "b.img:/one"]).stdout;
    assert!(after.starts_with(before.as_bytes()));
    workdir.assert_clean("b.img");
}

#[test]
fn what_can_only_be_read_is_not_written() {
    let Some(host) = SmallHost::new("200M") else {
        return;
    };
    let workdir = prepared();
    let image = host.path("a.img");
    fs::copy(workdir.path("a.img"), &image).unwrap();
    if !host.mount(&["-o", "remount,ro"]) {
        return;
    }
    let before = fs::read(&image).unwrap();
    let file = format!("{image}:/filled/d1/f1");
    let (new, dir) = (format!("{image}:/new"), format!("{image}:/filled"));
    for line in [
        &["cp", "tree/d1/f1", &file][..],
        &["cp", "-r", "tree", &new],
        &["mv", "tree", &new],
        &["mv", &file, &new],
        &["rm", "-r", &dir],
        &["mkdir", &new],
        &["mkdir", "-p", &new],
        &["rmdir", &dir],
        &["ln", &file, &new],
        &["ln", "-s", "x", &new],
        &["mknod", &new, "p"],
        &["touch", &file],
        &["truncate", "-s", "0", &file],
        &["chmod", "-R", "700", &dir],
        &["chown", "7", &file],
        &["chgrp", "7", &file],
        &["chattr", "+d", &file],
        &["xattr", "set", &file, "user.k", "v"],
        &["xattr", "remove", &file, "user.k"],
        &["trim", &image],
    ] {
        workdir.refuses(1, line, "read-only");
    }
    assert!(fs::read(&image).unwrap() == before);
    // A directory of the host that is read-only.
    for line in [
        &["cp", "a.img:/filled/d1/f1", &host.path("f1")][..],
        &["mv", "a.img:/filled/d1/f1", &host.path("f1")],
        &["mkfs", &host.path("b.img"), "--size", "16M"],
        &["mkfs", &host.path("b.img"), "--from", "tree"],
    ] {
        workdir.refuses(1, line, "read-only");
    }
    workdir.ok(&["stat", "a.img:/filled/d1/f1"]);
    workdir.ok(&["cat", &file]);
    workdir.assert_clean("a.img");
}

/// The server waits for another host when the command that asked for the mount ends.
#[test]
fn a_mount_that_is_interrupted_leaves_no_server() {
    require!(can_mount());
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M", "-O", "mmp"]);
    let options = uext4::ImageOptions::read_write();
    let held = uext4::Filesystem::open(workdir.path("a.img"), &options).unwrap();
    fs::copy(workdir.path("a.img"), workdir.path("left.img")).unwrap();
    held.unmount().unwrap();
    fs::create_dir(workdir.path("m")).unwrap();
    let mut command = Command::new(uext4());
    command.current_dir(workdir.dir());
    command
        .args(["mount", "left.img", "m"])
        .stderr(Stdio::null());
    let mut mount = command.spawn().unwrap();
    let inode = fs::metadata(workdir.path("left.img")).unwrap().ino();
    let is_locked = || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.contains(&format!(":{inode} "))
    };
    let begin = Instant::now();
    let wait_until = |locked: bool| {
        while is_locked() != locked {
            assert!(begin.elapsed() < Duration::from_secs(15), "not {locked}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_until(true);
    mount.kill().unwrap();
    mount.wait().unwrap();
    wait_until(false);
}

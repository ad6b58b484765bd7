//! `uext4 cp`: what it overwrites, what it reads, and where it stops.

use crate::*;
use rustix::process::{Pid, kill_process};
use std::os::unix::fs::FileTypeExt;
use std::time::UNIX_EPOCH;

/// Runs the command with `input` on a pipe.
fn with_input(workdir: &Workdir, args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(uext4());
    command.current_dir(workdir.dir()).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

pub fn fifo(path: &Path) {
    let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

#[test]
fn an_image_is_not_replaced_by_a_file() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["touch", "a.img:/kept"]);
    fs::write(workdir.path("hosts"), "localhost").unwrap();
    for source in ["hosts", "a.img:/kept"] {
        let line = workdir.fails(1, &["cp", source, "a.img"]);
        assert!(line.contains("a.img:/ copies into it"), "{line}");
        assert!(line.contains("--force"), "{line}");
    }
    workdir.ok(&["stat", "a.img:/kept"]);
    workdir.assert_clean("a.img");
    workdir.ok(&["cp", "--force", "hosts", "a.img"]);
    assert_eq!(
        fs::read_to_string(workdir.path("a.img")).unwrap(),
        "localhost"
    );
}

#[test]
fn what_a_pipe_brings_is_copied() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "32M"]);
    let input: Vec<u8> = (0..3_000_017_u32).map(|i| (i >> 7) as u8).collect();
    let out = with_input(&workdir, &["cp", "/dev/stdin", "a.img:/p"], &input);
    assert!(out.status.success(), "{out:?}");
    let cat = workdir.run(&["cat", "a.img:/p"]);
    assert!(cat.stdout == input, "{} bytes", cat.stdout.len());
    workdir.prints(&["stat", "a.img:/p"], "Type: file");
    workdir.ok(&["cp", "/dev/null", "a.img:/empty"]);
    workdir.prints(&["stat", "a.img:/empty"], "Size: 0 ");
    // As it is, where that is asked for.
    fifo(&workdir.path("pipe"));
    workdir.ok(&["cp", "-a", "pipe", "a.img:/"]);
    workdir.prints(&["stat", "a.img:/pipe"], "Type: fifo");
    workdir.refuses(1, &["cp", "a.img:/pipe", "out"], "-a copies it as it is");
    workdir.refuses(1, &["cp", "/dev/null", "a.img:/pipe"], "remove it first");
    workdir.assert_clean("a.img");
}

#[test]
fn a_named_target_is_written_and_not_replaced() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    fs::write(workdir.path("text"), "some words").unwrap();
    workdir.ok(&["cp", "text", "a.img:/text"]);
    fifo(&workdir.path("pipe"));
    // Open on both sides, so that neither waits for the other.
    let mut pipe = fs::File::options()
        .read(true)
        .write(true)
        .open(workdir.path("pipe"))
        .unwrap();
    workdir.ok(&["cp", "a.img:/text", "pipe"]);
    let kind = fs::symlink_metadata(workdir.path("pipe"))
        .unwrap()
        .file_type();
    assert!(kind.is_fifo(), "{kind:?}");
    let mut read = [0; 10];
    pipe.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"some words");
    assert_eq!(
        workdir.ok(&["cp", "a.img:/text", "/dev/stdout"]),
        "some words"
    );
    // By the user's own link.
    symlink("behind", workdir.path("link")).unwrap();
    fs::write(workdir.path("behind"), "").unwrap();
    workdir.ok(&["cp", "a.img:/text", "link"]);
    assert_eq!(
        fs::read_to_string(workdir.path("behind")).unwrap(),
        "some words"
    );
}

#[test]
fn a_named_device_is_written() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "32M"]);
    // With holes, which are zeros on the device too.
    let sparse = fs::File::create(workdir.path("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    sparse.write_all_at(b"data", 512 << 10).unwrap();
    workdir.ok(&["cp", "-a", "sparse", "a.img:/"]);
    fs::write(workdir.path("disk"), vec![0xff; 2 << 20]).unwrap();
    let Some(device) = workdir.attach("disk", &[]) else {
        return;
    };
    let line = workdir.run(&["cp", "a.img:/sparse", device.path()]);
    assert!(line.status.success(), "{line:?}");
    let kind = fs::symlink_metadata(device.path()).unwrap().file_type();
    assert!(kind.is_block_device(), "{kind:?}");
    drop(device);
    let disk = fs::read(workdir.path("disk")).unwrap();
    assert!(disk[..1 << 20] == fs::read(workdir.path("sparse")).unwrap());
    assert!(disk[1 << 20..] == vec![0xff; 1 << 20]);
}

/// A directory entry that leads out of the directory, as only a made-up image has it.
#[test]
fn names_of_an_image_stay_in_the_copy() {
    let workdir = Workdir::new();
    let features = "^metadata_csum,^dir_index";
    workdir.ok(&["mkfs", "a.img", "--size", "16M", "-O", features]);
    workdir.ok(&["mkdir", "a.img:/d"]);
    fs::write(workdir.path("text"), "bad").unwrap();
    workdir.ok(&["cp", "text", "a.img:/evil"]);
    workdir.ok(&["cp", "text", "a.img:/d/XYZevil"]);
    let image = fs::read(workdir.path("a.img")).unwrap();
    let file = fs::File::options()
        .write(true)
        .open(workdir.path("a.img"))
        .unwrap();
    // In the directory, and in the journal.
    for at in (0..image.len() - 7).filter(|at| image[*at..].starts_with(b"XYZevil")) {
        file.write_all_at(b"../evil", at as u64).unwrap();
    }
    workdir.refuses(1, &["cp", "-a", "a.img:/d", "out"], "illegal name");
    assert!(!workdir.path("evil").exists());
}

/// What stands in the way of a tree is replaced, never written through, be it a link or a second name.
#[test]
fn a_copied_tree_is_not_written_through_what_was_there() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["mkdir", "a.img:/d"]);
    fs::write(workdir.path("text"), "new").unwrap();
    workdir.ok(&["cp", "text", "a.img:/d/link"]);
    workdir.ok(&["cp", "text", "a.img:/d/file"]);
    fs::create_dir_all(workdir.path("out/d")).unwrap();
    fs::write(workdir.path("victim"), "old").unwrap();
    symlink("../../victim", workdir.path("out/d/link")).unwrap();
    fs::write(workdir.path("out/d/file"), "a longer text").unwrap();
    workdir.ok(&["cp", "-a", "a.img:/d", "out"]);
    assert_eq!(fs::read_to_string(workdir.path("victim")).unwrap(), "old");
    for name in ["out/d/link", "out/d/file"] {
        let there = fs::symlink_metadata(workdir.path(name)).unwrap();
        assert!(there.is_file() && there.nlink() == 1, "{name}");
        assert_eq!(fs::read_to_string(workdir.path(name)).unwrap(), "new");
    }
}

/// What find(1) shows of a tree, the times of directories too, which files that are made in them change.
fn shown(workdir: &Workdir, dir: &str) -> Vec<String> {
    let mut find = Command::new("find");
    find.arg(workdir.path(dir))
        .args(["-type", "d", "-printf", "%P %m %U %n %T@\\n", "-o"])
        .args(["-printf", "%P %y %m %U %n %s %T@ %l\\n"]);
    let lines = String::from_utf8(find.output().unwrap().stdout).unwrap();
    let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_tree_that_several_threads_copy_is_as_it_was() {
    let workdir = Workdir::new();
    for dir in 0..20 {
        let name = workdir.path(&format!("tree/a{dir}/b"));
        fs::create_dir_all(&name).unwrap();
        for file in 0..20_u8 {
            fs::write(
                name.join(format!("f{file}")),
                vec![file; 500 * usize::from(file)],
            )
            .unwrap();
        }
        fs::hard_link(name.join("f1"), name.join("second")).unwrap();
        symlink("f2", name.join("link")).unwrap();
        let mode = fs::Permissions::from_mode(0o555);
        fs::set_permissions(&name, mode).unwrap();
        let old = fs::FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(dir));
        fs::File::open(&name).unwrap().set_times(old).unwrap();
    }
    workdir.ok(&["mkfs", "a.img", "--size", "64M"]);
    workdir.ok(&["cp", "-a", "--threads", "8", "tree", "a.img:/"]);
    workdir.ok(&["cp", "-a", "--threads", "8", "a.img:/tree", "out"]);
    // Over what is there too, of which a link and a file are replaced.
    fs::remove_file(workdir.path("out/a3/b/f5")).unwrap();
    symlink("../../../victim", workdir.path("out/a3/b/f5")).unwrap();
    workdir.ok(&["cp", "-aT", "--threads", "8", "a.img:/tree", "out"]);
    assert_eq!(shown(&workdir, "out"), shown(&workdir, "tree"));
    assert!(!workdir.path("victim").exists());
    workdir.assert_clean("a.img");
}

/// What a link leads to does not matter where the link itself is copied.
#[test]
fn regression_a_link_that_leads_nowhere_is_copied_as_it_is() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    symlink("loop", workdir.path("loop")).unwrap();
    symlink("/etc/passwd/x", workdir.path("no-dir")).unwrap();
    workdir.ok(&["cp", "-a", "loop", "no-dir", "a.img:/"]);
    workdir.ok(&["cp", "-a", "a.img:/no-dir", "a.img:/loop", "."]);
    assert_eq!(workdir.ok(&["readlink", "a.img:/loop"]).trim(), "loop");
}

#[test]
fn what_a_thread_can_not_copy_leaves_the_rest_to_the_others() {
    let workdir = Workdir::new();
    let tree = workdir.tree();
    fs::create_dir(tree.join("many")).unwrap();
    for file in 0..50 {
        fs::write(tree.join(format!("many/f{file}")), "text").unwrap();
    }
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["mkdir", "-p", "a.img:/tree/many/f7"]);
    workdir.refuses(
        1,
        &["cp", "-a", "--threads", "4", "tree", "a.img:/"],
        "f7: is a directory",
    );
    assert_eq!(workdir.ok(&["ls", "a.img:/tree/many"]).lines().count(), 50);
    workdir.assert_clean("a.img");
}

#[test]
fn a_fifo_without_another_end_is_waited_for_until_a_signal() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["touch", "a.img:/f"]);
    fifo(&workdir.path("ff"));
    for operands in [["ff", "a.img:/x"], ["a.img:/f", "ff"], ["ff", "out"]] {
        let mut child = uext4_in_foreground()
            .current_dir(workdir.dir())
            .arg("cp")
            .args(operands)
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(child.try_wait().unwrap(), None, "{operands:?}");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        for _ in 0..500 {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // What still waits is ended by the second one.
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{operands:?}");
        workdir.assert_clean("a.img");
    }
    // Both ends, one after the other.
    fs::write(workdir.path("big"), vec![7; 300_000]).unwrap();
    workdir.ok(&["cp", "big", "a.img:/big"]);
    let mut command = Command::new(uext4());
    command
        .current_dir(workdir.dir())
        .args(["cp", "a.img:/big", "ff"]);
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let read = fs::read(workdir.path("ff")).unwrap();
    assert!(read == [7; 300_000], "{} bytes", read.len());
    assert!(child.wait().unwrap().success());
}

#[test]
fn regression_a_fifo_on_standard_input_ends_with_its_writer() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    fifo(&workdir.path("ff"));
    let script = "(echo text > ff) & exec < ff; wait; exec timeout 10 \"$0\" cp - a.img:/f";
    let mut command = Command::new("sh");
    command.current_dir(workdir.dir()).args(["-c", script]);
    let done = command.arg(uext4()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    workdir.prints(&["cat", "a.img:/f"], "text");
}

#[test]
fn an_interrupted_copy_closes_its_image() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "64M"]);
    fs::create_dir(workdir.path("tree")).unwrap();
    fs::write(workdir.path("tree/1"), "first").unwrap();
    fifo(&workdir.path("tree/2"));
    let sources = ["tree/1", "tree/2", "tree/1"];
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = uext4_in_foreground();
        command.current_dir(workdir.dir()).arg("cp").args(sources);
        let mut child = command.arg("a.img:/").spawn().unwrap();
        let mut pipe = fs::File::options()
            .read(true)
            .write(true)
            .open(workdir.path("tree/2"))
            .unwrap();
        pipe.write_all(b"second").unwrap();
        // Once that is read, it waits for more.
        while rustix::io::ioctl_fionread(&pipe).unwrap() > 0 {
            assert_eq!(child.try_wait().unwrap(), None, "it did not read the pipe");
            std::thread::sleep(Duration::from_millis(1));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{status:?}");
        drop(pipe);
        let info = workdir.ok(&["info", "a.img"]);
        assert!(!info.contains("needs recovery"), "{info}");
        assert_eq!(workdir.ok(&["cat", "a.img:/1"]), "first");
        workdir.assert_clean("a.img");
    }
}

/// The image cannot be in itself, and what was not moved stays.
#[test]
fn an_image_is_not_copied_into_itself() {
    let workdir = Workdir::new();
    fs::create_dir(workdir.path("dir")).unwrap();
    fs::write(workdir.path("dir/file"), "file").unwrap();
    workdir.ok(&["mkfs", "dir/a.img", "--size", "64M"]);
    for args in [
        &["cp", "dir/a.img", "dir/a.img:/"][..],
        &["cp", "-a", "dir/.", "dir/a.img:/"],
        &["mv", "dir/a.img", "dir/a.img:/new"],
        &["mv", "dir", "dir/a.img:/"],
    ] {
        let out = workdir.run(args);
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("cannot be in itself"), "{args:?}: {said}");
        assert!(workdir.path("dir/a.img").is_file(), "{args:?}");
        workdir.assert_clean("dir/a.img");
    }
    assert_eq!(workdir.ok(&["cat", "dir/a.img:/file"]), "file");
}

/// As from a terminal by a program that sends it to its child and to the group.
#[test]
fn a_signal_that_arrives_twice_is_one() {
    let workdir = Workdir::new();
    workdir.ok(&["mkfs", "a.img", "--size", "64M"]);
    fifo(&workdir.path("pipe"));
    let mut command = uext4_in_foreground();
    command.current_dir(workdir.dir());
    let mut child = command.args(["cp", "pipe", "a.img:/"]).spawn().unwrap();
    let mut options = fs::File::options();
    let mut pipe = options
        .read(true)
        .write(true)
        .open(workdir.path("pipe"))
        .unwrap();
    pipe.write_all(b"data").unwrap();
    while rustix::io::ioctl_fionread(&pipe).unwrap() > 0 {
        assert_eq!(child.try_wait().unwrap(), None, "it did not read the pipe");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    workdir.assert_clean("a.img");
    let info = workdir.ok(&["info", "a.img"]);
    assert!(!info.contains("needs recovery"), "{info}");
}

//! `uext4 cp`: what it overwrites, what it reads, and where it stops.

use crate::here::Here;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs the command with `input` on a pipe.
fn with_input(here: &Here, args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
    command.current_dir(here.dir()).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn fifo(path: &Path) {
    let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

#[test]
fn an_image_is_not_replaced_by_a_file() {
    let here = Here::new();
    here.ok(&["mkfs", "a.img", "--size", "16M"]);
    here.ok(&["touch", "a.img:/kept"]);
    fs::write(here.path("hosts"), "localhost").unwrap();
    for source in ["hosts", "a.img:/kept"] {
        let line = here.fails(1, &["cp", source, "a.img"]);
        assert!(line.contains("a.img:/ copies into it"), "{line}");
        assert!(line.contains("--force"), "{line}");
    }
    here.ok(&["stat", "a.img:/kept"]);
    here.assert_clean("a.img");
    here.ok(&["cp", "--force", "hosts", "a.img"]);
    assert_eq!(fs::read_to_string(here.path("a.img")).unwrap(), "localhost");
}

#[test]
fn what_a_pipe_brings_is_copied() {
    let here = Here::new();
    here.ok(&["mkfs", "a.img", "--size", "32M"]);
    let input: Vec<u8> = (0..3_000_017_u32).map(|i| (i >> 7) as u8).collect();
    let out = with_input(&here, &["cp", "/dev/stdin", "a.img:/p"], &input);
    assert!(out.status.success(), "{out:?}");
    let cat = here.run(&["cat", "a.img:/p"]);
    assert!(cat.stdout == input, "{} bytes", cat.stdout.len());
    assert!(here.ok(&["stat", "a.img:/p"]).contains("Type: file"));
    here.ok(&["cp", "/dev/null", "a.img:/empty"]);
    assert!(here.ok(&["stat", "a.img:/empty"]).contains("Size: 0 "));
    // As it is, where that is asked for.
    fifo(&here.path("pipe"));
    here.ok(&["cp", "-a", "pipe", "a.img:/"]);
    assert!(here.ok(&["stat", "a.img:/pipe"]).contains("Type: fifo"));
    let line = here.fails(1, &["cp", "a.img:/pipe", "out"]);
    assert!(line.contains("-a copies it as it is"), "{line}");
    let line = here.fails(1, &["cp", "/dev/null", "a.img:/pipe"]);
    assert!(line.contains("remove it first"), "{line}");
    here.assert_clean("a.img");
}

#[test]
fn a_named_target_is_written_and_not_replaced() {
    let here = Here::new();
    here.ok(&["mkfs", "a.img", "--size", "16M"]);
    fs::write(here.path("text"), "some words").unwrap();
    here.ok(&["cp", "text", "a.img:/text"]);
    fifo(&here.path("pipe"));
    // Open on both sides, so that nobody waits for the other.
    let mut pipe = fs::File::options()
        .read(true)
        .write(true)
        .open(here.path("pipe"))
        .unwrap();
    here.ok(&["cp", "a.img:/text", "pipe"]);
    let kind = fs::symlink_metadata(here.path("pipe")).unwrap().file_type();
    assert!(kind.is_fifo(), "{kind:?}");
    let mut read = [0; 10];
    pipe.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"some words");
    assert_eq!(here.ok(&["cp", "a.img:/text", "/dev/stdout"]), "some words");
    // By the user's own link.
    symlink("behind", here.path("link")).unwrap();
    fs::write(here.path("behind"), "").unwrap();
    here.ok(&["cp", "a.img:/text", "link"]);
    assert_eq!(
        fs::read_to_string(here.path("behind")).unwrap(),
        "some words"
    );
}

#[test]
fn a_named_device_is_written() {
    let here = Here::new();
    here.ok(&["mkfs", "a.img", "--size", "32M"]);
    // With holes, which are zeros on the device too.
    let sparse = fs::File::create(here.path("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    sparse.write_all_at(b"data", 512 << 10).unwrap();
    here.ok(&["cp", "-a", "sparse", "a.img:/"]);
    fs::write(here.path("disk"), vec![0xff; 2 << 20]).unwrap();
    let Some(device) = here.attach("disk", &[]) else {
        return;
    };
    let line = device.run(&["cp", "a.img:/sparse", device.name()]);
    assert!(line.status.success(), "{line:?}");
    let kind = fs::symlink_metadata(device.name()).unwrap().file_type();
    assert!(kind.is_block_device(), "{kind:?}");
    drop(device);
    let disk = fs::read(here.path("disk")).unwrap();
    assert!(disk[..1 << 20] == fs::read(here.path("sparse")).unwrap());
    assert!(disk[1 << 20..] == vec![0xff; 1 << 20]);
}

/// A directory entry that leads out of the directory, as only a made-up image has it.
#[test]
fn names_of_an_image_stay_in_the_copy() {
    let here = Here::new();
    let features = "^metadata_csum,^dir_index";
    here.ok(&["mkfs", "a.img", "--size", "16M", "-O", features]);
    here.ok(&["mkdir", "a.img:/d"]);
    fs::write(here.path("text"), "bad").unwrap();
    here.ok(&["cp", "text", "a.img:/evil"]);
    here.ok(&["cp", "text", "a.img:/d/XYZevil"]);
    let image = fs::read(here.path("a.img")).unwrap();
    let file = fs::File::options()
        .write(true)
        .open(here.path("a.img"))
        .unwrap();
    // In the directory, and in the journal.
    for at in (0..image.len() - 7).filter(|at| image[*at..].starts_with(b"XYZevil")) {
        file.write_all_at(b"../evil", at as u64).unwrap();
    }
    let line = here.fails(1, &["cp", "-a", "a.img:/d", "out"]);
    assert!(line.contains("illegal name"), "{line}");
    assert!(!here.path("evil").exists());
}

/// What stands in the way of a tree is replaced, never written through, be it a link or a second name.
#[test]
fn a_copied_tree_is_not_written_through_what_was_there() {
    let here = Here::new();
    here.ok(&["mkfs", "a.img", "--size", "16M"]);
    here.ok(&["mkdir", "a.img:/d"]);
    fs::write(here.path("text"), "new").unwrap();
    here.ok(&["cp", "text", "a.img:/d/link"]);
    here.ok(&["cp", "text", "a.img:/d/file"]);
    fs::create_dir_all(here.path("out/d")).unwrap();
    fs::write(here.path("victim"), "old").unwrap();
    symlink("../../victim", here.path("out/d/link")).unwrap();
    fs::write(here.path("out/d/file"), "a longer text").unwrap();
    here.ok(&["cp", "-a", "a.img:/d", "out"]);
    assert_eq!(fs::read_to_string(here.path("victim")).unwrap(), "old");
    for name in ["out/d/link", "out/d/file"] {
        let there = fs::symlink_metadata(here.path(name)).unwrap();
        assert!(there.is_file() && there.nlink() == 1, "{name}");
        assert_eq!(fs::read_to_string(here.path(name)).unwrap(), "new");
    }
}

#[test]
fn a_fifo_without_another_end_is_waited_for_until_a_signal() {
    let here = Here::new();
    here.ok(&["mkfs", "a.img", "--size", "16M"]);
    here.ok(&["touch", "a.img:/f"]);
    fifo(&here.path("ff"));
    for operands in [["ff", "a.img:/x"], ["a.img:/f", "ff"], ["ff", "out"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
        let mut child = command
            .current_dir(here.dir())
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
        here.assert_clean("a.img");
    }
    // Both ends, one after the other.
    fs::write(here.path("big"), vec![7; 300_000]).unwrap();
    here.ok(&["cp", "big", "a.img:/big"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
    command
        .current_dir(here.dir())
        .args(["cp", "a.img:/big", "ff"]);
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let read = fs::read(here.path("ff")).unwrap();
    assert!(read == [7; 300_000], "{} bytes", read.len());
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_interrupted_copy_closes_its_image() {
    let here = Here::new();
    here.ok(&["mkfs", "a.img", "--size", "64M"]);
    fs::create_dir(here.path("tree")).unwrap();
    fs::write(here.path("tree/1"), "first").unwrap();
    fifo(&here.path("tree/2"));
    let sources = ["tree/1", "tree/2", "tree/1"];
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
        command.current_dir(here.dir()).arg("cp").args(sources);
        let mut child = command.arg("a.img:/").spawn().unwrap();
        let mut pipe = fs::File::options()
            .read(true)
            .write(true)
            .open(here.path("tree/2"))
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
        let info = here.ok(&["info", "a.img"]);
        assert!(!info.contains("needs recovery"), "{info}");
        assert_eq!(here.ok(&["cat", "a.img:/1"]), "first");
        here.assert_clean("a.img");
    }
}

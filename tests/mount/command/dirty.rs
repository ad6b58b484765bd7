//! What programs wrote and the kernel keeps: it is in the image before a mount ends, is frozen or becomes read-only.

use super::{MountedImage, end, signal};
use crate::fsx::Mapping;
use rustix::process::{Pid, Signal};
use std::io::{BufRead as _, BufReader};
use uext4_testkit::prelude::*;

/// More than the kernel sends at once.
const BYTES: usize = 24 << 20;

/// How programs write: with write(2), where the kernel keeps it, and through a mapping, where it always does.
const MOUNTS: [(&str, bool); 4] = [
    ("writeback,transport=dev", false),
    ("writeback,transport=dev,threads=1", false),
    ("transport=dev", true),
    ("transport=dev,threads=1", true),
];

fn data() -> Vec<u8> {
    (0..BYTES).map(|at| (at / 509) as u8 | 1).collect()
}

impl MountedImage {
    /// Writes a file; it stays open.
    fn write_unsynced(&self, is_mapped: bool) -> (File, Option<Mapping>) {
        let path = self.path("mnt/file");
        let mut file = File::create(&path).unwrap();
        if !is_mapped {
            file.write_all(&data()).unwrap();
            return (file, None);
        }
        file.set_len(BYTES as u64).unwrap();
        // A mapping is read as well.
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut map = Mapping::new(&file, BYTES).unwrap();
        map.bytes().copy_from_slice(&data());
        (file, Some(map))
    }

    /// An image, not mounted, has what was written.
    fn assert_written(&self, image: &str, options: &str) {
        let out = self.run(&["cat", &format!("{image}:/file")]);
        let data = data();
        let same = out.stdout.iter().zip(&data).take_while(|(a, b)| a == b);
        assert_eq!(
            (same.count(), out.stdout.len()),
            (BYTES, BYTES),
            "{options}"
        );
    }
}

#[test]
fn a_signal_that_ends_a_mount() {
    let mounted = require!(some MountedImage::new());
    for (options, is_mapped) in MOUNTS {
        let child = mounted.foreground(&["-o", options]);
        let open = mounted.write_unsynced(is_mapped);
        signal(Pid::from_child(&child), Signal::INT);
        let (code, said) = end(child);
        assert_eq!(code, Some(0), "{said}");
        drop(open);
        mounted.assert_clean();
        mounted.assert_written("a.img", options);
    }
}

#[test]
fn a_freeze() {
    let mounted = require!(some MountedImage::new());
    for (options, is_mapped) in MOUNTS {
        mounted.ok(&["mount", "a.img", "mnt", "-o", options]);
        let open = mounted.write_unsynced(is_mapped);
        mounted.ok(&["freeze", "mnt"]);
        fs::copy(mounted.path("a.img"), mounted.path("b.img")).unwrap();
        mounted.ok(&["thaw", "mnt"]);
        drop(open);
        mounted.ok(&["umount", "mnt"]);
        mounted.assert_written("b.img", options);
    }
}

/// Where the process that writes a mapping finds its file.
const MAPPED_FILE: &str = "UEXT4_TEST_MAPPED_FILE";
/// What it says when it has written.
const WRITTEN: &str = "all bytes are written";

/// Writes a file through a mapping, and again when a line arrives.
#[test]
#[ignore = "is a process that another test starts"]
fn a_writer_of_a_mapping() {
    let path = std::env::var_os(MAPPED_FILE).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut map = Mapping::new(&file, BYTES).unwrap();
    map.bytes().fill(1);
    println!("{WRITTEN}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    map.bytes().copy_from_slice(&data());
    println!("{WRITTEN}");
    // Here it ends, which waits until the kernel has written all back.
}

/// The end of the mount ends the freeze, and what came after that is written.
#[test]
fn a_signal_that_ends_a_frozen_mount() {
    let mounted = require!(some MountedImage::new());
    let child = mounted.foreground(&["-o", "transport=dev"]);
    let path = mounted.path("mnt/file");
    fs::write(&path, vec![0; BYTES]).unwrap();
    // A process of its own: if the kernel writes a page back meanwhile, a change of it waits for the end of the freeze, and so does
    // each fork of its process.
    let test = "command::dirty::a_writer_of_a_mapping";
    let mut writer = Command::new(std::env::current_exe().unwrap());
    writer.args(["--exact", test, "--ignored", "--nocapture"]);
    writer.env(MAPPED_FILE, &path);
    writer.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let (said_written, written) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let is_said = |line: &std::io::Result<String>| line.as_ref().unwrap().contains(WRITTEN);
        for _ in lines.filter(is_said) {
            let _ = said_written.send(());
        }
    });
    written.recv().unwrap();
    mounted.ok(&["freeze", "mnt"]);
    let said = mounted.fails(&["freeze", "mnt"]);
    assert!(said.contains("frozen already"), "{said}");
    writer.stdin.take().unwrap().write_all(b"\n").unwrap();
    let is_written = written.recv_timeout(Duration::from_secs(10)).is_ok();
    signal(Pid::from_child(&child), Signal::INT);
    let (code, said) = end(child);
    let ended = writer.wait().unwrap();
    reader.join().unwrap();
    assert_eq!(code, Some(0), "{said}");
    mounted.assert_clean();
    if is_written {
        assert!(ended.success(), "{ended}");
        mounted.assert_written("a.img", "frozen");
    }
}

/// A freeze that would lack what was written fails.
#[test]
fn data_without_space() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt", "-o", "transport=dev"]);
    let full = File::create(mounted.path("mnt/full")).unwrap();
    let room = rustix::fs::fstatvfs(&full).unwrap();
    let room = (room.f_bfree - 100) * room.f_bsize;
    rustix::fs::fallocate(&full, rustix::fs::FallocateFlags::empty(), 0, room).unwrap();
    let (file, map) = mounted.write_unsynced(true);
    let said = mounted.fails(&["freeze", "mnt"]);
    assert!(said.contains("space"), "{said}");
    drop((full, file, map));
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}

#[test]
fn a_change_to_read_only() {
    let mounted = require!(some MountedImage::new());
    for (options, is_mapped) in MOUNTS {
        mounted.ok(&["mount", "a.img", "mnt", "-o", options]);
        drop(mounted.write_unsynced(is_mapped));
        mounted.ok(&["mount", "-o", "remount,ro", "mnt"]);
        mounted.assert_clean();
        mounted.ok(&["umount", "mnt"]);
        mounted.assert_written("a.img", options);
    }
}

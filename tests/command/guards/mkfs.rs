//! `uext4 mkfs`: what it does with what is there already.

use crate::*;
use rustix::process::{Pid, kill_process};

/// What is in the directory that no test put there.
fn left_behind(workdir: &Workdir) -> Vec<String> {
    let names = fs::read_dir(workdir.dir()).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

/// An image with a file in it.
fn precious(workdir: &Workdir) {
    workdir.ok(&["mkfs", "a.img", "--size", "16M"]);
    workdir.ok(&["touch", "a.img:/precious"]);
}

fn assert_precious(workdir: &Workdir) {
    workdir.prints(&["ls", "a.img"], "precious");
    workdir.assert_clean("a.img");
}

#[test]
fn a_file_system_is_not_overwritten_without_force() {
    let workdir = Workdir::new();
    precious(&workdir);
    for args in [&["mkfs", "a.img", "--size", "8M"][..], &["mkfs", "a.img"]] {
        let line = workdir.fails(1, args);
        assert!(line.contains("holds an ext2, ext3 or ext4"), "{line}");
        assert!(line.contains("--force"), "{line}");
    }
    let write = |name: &str, at: u64, bytes: &[u8]| {
        let file = fs::File::create(workdir.path(name)).unwrap();
        file.set_len(16 << 20).unwrap();
        file.write_all_at(bytes, at).unwrap();
    };
    for (at, bytes, what) in [
        (0, &b"XFSB"[..], "XFS"),
        (0x10040, b"_BHRfS_M", "Btrfs"),
        (3, b"NTFS    ", "NTFS"),
        (512, b"EFI PART", "GPT"),
        (510, b"\x55\xaa", "MBR"),
        (0, b"LUKS\xba\xbe\0\x02", "LUKS"),
        (536, b"LVM2 001", "data that is not a file system"),
        (0, b"my thesis", "data that is not a file system"),
        (256 << 10, b"x", "data after zeros"),
        ((16 << 20) - 1, b"x", "data after zeros"),
    ] {
        write("other", at, bytes);
        let line = workdir.fails(1, &["mkfs", "other"]);
        assert!(line.contains(what), "{line}");
    }
    // As other programs make them.
    fs::write(workdir.path("ext2"), "").unwrap();
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.args(["-q", "-t", "ext2"]).arg(workdir.path("ext2"));
    if mke2fs
        .arg("4M")
        .status()
        .is_ok_and(|status| status.success())
    {
        workdir.fails(1, &["mkfs", "ext2"]);
    }
    write("empty", 0, b"");
    workdir.ok(&["mkfs", "empty"]);
    fs::write(workdir.path("zeros"), vec![0; 16 << 20]).unwrap();
    workdir.ok(&["mkfs", "zeros"]);
    assert_precious(&workdir);
    workdir.ok(&["mkfs", "a.img", "--size", "8M", "--force"]);
    assert!(!workdir.ok(&["ls", "a.img"]).contains("precious"));
    workdir.assert_clean("a.img");
    assert_eq!(left_behind(&workdir), Vec::<String>::new());
}

#[test]
fn a_terminal_is_asked() {
    let workdir = Workdir::new();
    precious(&workdir);
    let ask = |answer: &str| {
        let command = format!("{} mkfs a.img --size 16M", uext4());
        let mut script = Command::new("script");
        script
            .current_dir(workdir.dir())
            .args(["-qec", &command, "/dev/null"]);
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(answer.as_bytes())
            .unwrap();
        let out = child.wait_with_output().unwrap();
        let said = String::from_utf8(out.stdout).unwrap();
        assert!(said.contains("Overwrite it? [y/N]"), "{said}");
        out.status.code()
    };
    assert_eq!(ask("n\n"), Some(1));
    assert_eq!(ask("\n"), Some(1));
    assert_precious(&workdir);
    assert_eq!(ask("y\n"), Some(0));
    assert!(!workdir.ok(&["ls", "a.img"]).contains("precious"));
}

#[test]
fn a_replaced_image_keeps_its_mode_and_its_links() {
    let workdir = Workdir::new();
    precious(&workdir);
    let image = workdir.path("a.img");
    fs::set_permissions(&image, PermissionsExt::from_mode(0o640)).unwrap();
    symlink("a.img", workdir.path("link")).unwrap();
    workdir.ok(&["mkfs", "link", "--size", "8M", "--force"]);
    assert!(workdir.path("link").is_symlink());
    let there = fs::metadata(&image).unwrap();
    assert_eq!((there.mode() & 0o7777, there.len()), (0o640, 8 << 20));
    workdir.assert_clean("a.img");
    // What is allocated to a file without data stays so.
    let file = fs::File::create(workdir.path("allocated")).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 8 << 20).unwrap();
    let before = file.metadata().unwrap().ino();
    workdir.ok(&["mkfs", "allocated"]);
    assert_eq!(
        fs::metadata(workdir.path("allocated")).unwrap().ino(),
        before
    );
}

#[test]
fn a_tree_that_can_t_be_read_costs_no_image() {
    let workdir = Workdir::new();
    precious(&workdir);
    workdir.fails(1, &["mkfs", "a.img", "--force", "--from", "nowhere"]);
    workdir.fails(1, &["mkfs", "a.img", "--force", "--size", "1K"]);
    assert_precious(&workdir);
}

/// A small tmpfs, unmounted when dropped.
struct Small<'a>(&'a Path);

impl Small<'_> {
    fn mount(dir: &Path, bytes: u64) -> Option<Small<'_>> {
        fs::create_dir(dir).unwrap();
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir);
        match mount.output() {
            Ok(out) if out.status.success() => Some(Small(dir)),
            other => {
                eprintln!("skipped: needs to mount a tmpfs: {other:?}");
                None
            }
        }
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_host_is_named_and_costs_no_image() {
    let workdir = Workdir::new();
    let dir = workdir.path("small");
    let _small = require!(some Small::mount(&dir, 12 << 20));
    fs::create_dir(workdir.path("tree")).unwrap();
    fs::write(workdir.path("tree/large"), vec![7; 16 << 20]).unwrap();
    workdir.ok(&["mkfs", "small/a.img", "--size", "8M"]);
    workdir.ok(&["touch", "small/a.img:/precious"]);
    for name in ["small/a.img", "small/new.img"] {
        workdir.refuses(
            1,
            &["mkfs", name, "--force", "--from", "tree", "--compact"],
            "no space left on the host",
        );
    }
    workdir.prints(&["ls", "small/a.img"], "precious");
    workdir.assert_clean("small/a.img");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn the_host_s_largest_file_is_named() {
    let workdir = Workdir::new();
    let image = fs::File::create(workdir.path("probe")).unwrap();
    if image.set_len(17 << 40).is_ok() {
        return eprintln!("skipped: files of this host may have 17 TiB");
    }
    let line = workdir.fails(1, &["mkfs", "new.img", "--size", "17T"]);
    assert!(line.contains("needs 17.00 TiB"), "{line}");
    assert!(line.contains("files of at most 16.00 TiB"), "{line}");
    assert!(!workdir.path("new.img").exists());
}

#[test]
fn the_largest_size_is_named() {
    let workdir = Workdir::new();
    for (options, what) in [
        (
            &[][..],
            "it is at most 254T: one group holds the descriptors",
        ),
        (
            &["-O", "^64bit"],
            "it is at most 15T: block numbers have 32",
        ),
    ] {
        let args = [&["mkfs", "new.img", "100000T"], options].concat();
        let line = workdir.fails(1, &args);
        assert!(line.contains("size can't be 97.66 PiB: "), "{line}");
        assert!(line.contains(what), "{line}");
    }
    assert!(!workdir.path("new.img").exists());
}

/// Begins to make an image over another; returns once the new one is being written, or is done.
fn begin(workdir: &Workdir) -> Child {
    let mut command = uext4_in_foreground();
    command.current_dir(workdir.dir()).stderr(Stdio::null());
    command.args([
        "mkfs", "a.img", "--force", "--from", "tree", "--spare", "1M",
    ]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    while left_behind(workdir).is_empty() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(200));
    }
    child
}

#[test]
fn a_making_that_is_ended_costs_no_image() {
    let workdir = Workdir::new();
    fs::create_dir(workdir.path("tree")).unwrap();
    for name in ["tree/1", "tree/2", "tree/3"] {
        fs::write(workdir.path(name), vec![7; 48 << 20]).unwrap();
    }
    let mut ended = 0;
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let _ = fs::remove_file(workdir.path("a.img"));
        precious(&workdir);
        let mut child = begin(&workdir);
        // It may be done.
        let _ = kill_process(Pid::from_child(&child), signal);
        let status = child.wait().unwrap();
        let names = workdir.ok(&["ls", "a.img"]);
        if status.success() {
            assert!(
                names.contains('3') && !names.contains("precious"),
                "{names}"
            );
            continue;
        }
        ended += 1;
        assert!(
            names.contains("precious"),
            "{signal:?}: {status:?}: {names}"
        );
        workdir.assert_clean("a.img");
        match signal {
            Signal::INT => assert_eq!(status.code(), Some(130)),
            Signal::TERM => assert_eq!(status.code(), Some(143)),
            _ => continue,
        }
        assert_eq!(left_behind(&workdir), Vec::<String>::new());
    }
    assert!(ended > 0, "none was ended while it wrote");
}

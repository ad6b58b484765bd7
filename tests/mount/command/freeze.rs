//! `uext4 freeze` and `uext4 thaw`: a backup of a mounted image.

use super::{MountedImage, end, eventually, signal};
use rustix::process::{Pid, Signal};
use uext4_testkit::prelude::*;

/// More than a server has threads.
const WRITERS: usize = 40;

impl MountedImage {
    /// Copies the image while it is frozen: e2fsck finds nothing to do, and the files are there.
    fn check_backup(&self, file: &str, content: &str) {
        fs::copy(self.path("a.img"), self.path("b.img")).unwrap();
        let mut incompat = [0; 4];
        let copy = File::open(self.path("b.img")).unwrap();
        copy.read_exact_at(&mut incompat, 1024 + 96).unwrap();
        assert_eq!(u32::from_le_bytes(incompat) & 4, 0, "needs recovery");
        match Command::new("e2fsck")
            .arg("-fn")
            .arg(self.path("b.img"))
            .output()
        {
            Ok(out) => {
                let said = String::from_utf8_lossy(&out.stdout);
                assert_eq!(out.status.code(), Some(0), "{said}");
            }
            Err(e) => eprintln!("skipped: e2fsck: {e}"),
        }
        assert_eq!(self.ok(&["cat", &format!("b.img:/{file}")]), content);
    }

    /// Begins to change a file, in a process of its own: one that has the file open can't start programs, as their copies of it are
    /// flushed.
    fn change(&self, n: usize) -> Child {
        let change = match n % 4 {
            0 => format!("printf after > w{n}"),
            1 => format!("mv w{n} r{n}"),
            2 => format!("rm w{n}"),
            _ => format!("printf ' and after' >> w{n} && sync w{n}"),
        };
        Command::new("sh")
            .args(["-c", &change])
            .current_dir(self.path("mnt"))
            .spawn()
            .unwrap()
    }

    fn image(&self) -> Vec<u8> {
        fs::read(self.path("a.img")).unwrap()
    }
}

#[test]
fn changes_wait_reads_do_not_and_a_copy_is_clean() {
    let mounted = require!(some MountedImage::new());
    for options in [
        "transport=dev,threads=2",
        "transport=dev,writeback,lazytime",
        "transport=dev,strictatime",
    ] {
        mounted.ok(&[
            "mount",
            "a.img",
            "mnt",
            "-o",
            &format!("commit=3600,{options}"),
        ]);
        fs::write(mounted.path("mnt/kept"), options).unwrap();
        for n in 0..WRITERS {
            fs::write(mounted.path(&format!("mnt/w{n}")), "before").unwrap();
        }
        mounted.ok(&["freeze", "mnt"]);
        let said = mounted.fails(&["freeze", "mnt"]);
        assert!(said.contains("frozen already; `uext4 thaw`"), "{said}");
        let said = mounted.fails(&["mount", "-o", "remount,noatime", "mnt"]);
        assert!(
            said.contains("frozen") && said.contains("uext4 thaw"),
            "{said}"
        );
        let before = mounted.image();
        let mut writers: Vec<Child> = (0..WRITERS).map(|n| mounted.change(n)).collect();
        // Not what the kernel has kept. It has a page locked that is written until the server answers.
        for _ in 0..3 {
            for n in (0..WRITERS).filter(|n| matches!(n % 4, 1 | 2)) {
                let file = File::open(mounted.path(&format!("mnt/w{n}"))).unwrap();
                let mut data = [0; 6];
                file.read_exact_at(&mut data, 0).unwrap();
                assert_eq!(&data, b"before");
            }
            mounted.stats();
        }
        mounted.check_backup("kept", options);
        assert!(before == mounted.image(), "changed while it was frozen");
        assert_eq!(mounted.stats()["options"]["frozen"], true);
        let have_ended = writers.iter_mut().map(|w| w.try_wait().unwrap());
        assert_eq!(have_ended.flatten().next(), None);
        mounted.ok(&["thaw", "mnt"]);
        for writer in &mut writers {
            assert!(writer.wait().unwrap().success());
        }
        let said = mounted.fails(&["thaw", "mnt"]);
        assert!(said.contains("not frozen"), "{said}");
        for n in 0..WRITERS {
            let (name, content) = match n % 4 {
                0 => (format!("mnt/w{n}"), Some("after")),
                1 => (format!("mnt/r{n}"), Some("before")),
                2 => (format!("mnt/w{n}"), None),
                _ => (format!("mnt/w{n}"), Some("before and after")),
            };
            assert_eq!(
                fs::read_to_string(mounted.path(&name)).ok().as_deref(),
                content,
                "{name}"
            );
        }
        mounted.ok(&["umount", "mnt"]);
        mounted.assert_clean();
        for n in (1..WRITERS).step_by(4) {
            mounted.ok(&["rm", &format!("a.img:/r{n}")]);
        }
    }
}

#[test]
fn a_signal_ends_a_change_that_waits() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt", "-o", "transport=dev"]);
    mounted.ok(&["freeze", "a.img"]);
    let touch = Command::new("mkdir")
        .arg(mounted.path("mnt/never"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&touch);
    eventually("it waits", || {
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        let wchan = fs::read_to_string(format!("/proc/{}/wchan", pid.as_raw_nonzero())).unwrap();
        !state.contains(") R ") && wchan.contains("fuse") || wchan.contains("request_wait")
    });
    signal(pid, Signal::KILL);
    assert_eq!(end(touch).0, None);
    mounted.ok(&["thaw", "a.img"]);
    assert!(!mounted.path("mnt/never").exists());
}

#[test]
fn an_unmount_ends_a_freeze() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt", "-o", "transport=dev"]);
    fs::write(mounted.path("mnt/kept"), "kept").unwrap();
    mounted.ok(&["freeze", "mnt"]);
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
    assert_eq!(mounted.ok(&["cat", "a.img:/kept"]), "kept");
    mounted.ok(&["mount", "a.img", "mnt"]);
    fs::write(mounted.path("mnt/kept"), "changed").unwrap();
    mounted.ok(&["umount", "mnt"]);
}

#[test]
fn what_is_not_a_mounted_image_is_not_frozen() {
    let mounted = require!(some MountedImage::new());
    mounted.refuses(&["freeze", "mnt"], "nothing is mounted there");
    mounted.refuses(&["thaw", "a.img"], "nothing is mounted there");
    mounted.refuses(
        &["freeze", "/proc"],
        "not a mount of uext4 but of proc; fsfreeze(8)",
    );
    mounted.ok(&["mqueue", "mount", "mnt"]);
    mounted.refuses(&["freeze", "mnt"], "no image to freeze");
}

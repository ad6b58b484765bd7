//! Mounting as a user meets it. Needs root and /dev/fuse.

mod casefold;
mod dirty;
mod encryption;
mod freeze;
mod fs_verity;
mod killed;
mod observability;
mod parts;
mod quota;
mod remount;
mod resize;
mod second;

use uext4_testkit::built::{uext4, uext4_in_foreground};
use uext4_testkit::prelude::*;

/// An image, and a directory to mount it on; nothing is mounted there when it is dropped.
struct MountedImage {
    dir: TempDir,
}

impl MountedImage {
    /// Nothing, with a word about it, where this machine can't mount.
    fn new() -> Option<MountedImage> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("mnt")).unwrap();
        let mounted = MountedImage { dir };
        mounted.ok(&["mkfs", "a.img", "--size", "64M"]);
        Some(mounted)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(uext4());
        command.current_dir(self.dir.path()).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What is said when it succeeds.
    fn says(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success(), "{args:?}: {said}");
        said
    }

    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {err}");
        String::from_utf8(out.stdout).unwrap()
    }

    fn fails(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let err = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        err
    }

    /// A command that has to fail with this text.
    #[track_caller]
    fn refuses(&self, args: &[&str], text: &str) {
        let said = self.fails(args);
        assert!(said.contains(text), "{args:?}: {said}");
    }

    /// Mounts in the foreground, and waits until it says that it is.
    fn foreground(&self, options: &[&str]) -> Child {
        let mut command = uext4_in_foreground();
        command
            .current_dir(self.dir.path())
            .args(["mount", "-f", "a.img", "mnt"])
            .args(options);
        self.started(&mut command)
    }

    /// Starts a mount in the foreground, and waits until it says that it is mounted.
    fn started(&self, command: &mut Command) -> Child {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"is mounted\n") {
            let mut byte = [0];
            let stderr = child.stderr.as_mut().unwrap();
            let len = stderr.read(&mut byte).unwrap();
            assert_eq!(len, 1, "{}", String::from_utf8_lossy(&said));
            said.push(byte[0]);
        }
        child
    }

    fn is_mounted(&self) -> bool {
        self.flags("mnt").is_some()
    }

    /// What the list of mounts says of a mounted directory.
    fn flags(&self, name: &str) -> Option<Vec<String>> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let dir = self.path(name);
        let lines = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let mut here = lines.filter(|fields| Some(fields[1]) == dir.to_str());
        let fields = here.next_back()?;
        Some(fields[3].split(',').map(str::to_owned).collect())
    }

    fn stats(&self) -> serde_json::Value {
        serde_json::from_str(&self.ok(&["stats", "mnt", "--json"])).unwrap()
    }

    fn pid(&self, field: &str) -> rustix::process::Pid {
        let pid = self.stats()[field].as_i64().unwrap();
        rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }

    fn assert_clean(&self) {
        match Command::new("e2fsck")
            .arg("-fn")
            .arg(self.path("a.img"))
            .output()
        {
            Ok(out) => {
                let said = String::from_utf8_lossy(&out.stdout);
                assert_eq!(out.status.code(), Some(0), "{said}");
            }
            Err(e) => eprintln!("skipped: e2fsck: {e}"),
        }
    }
}

impl Drop for MountedImage {
    fn drop(&mut self) {
        for _ in 0..20 {
            if !self.is_mounted() {
                return;
            }
            let _ = self.run(&["umount", "--lazy", "mnt"]);
            let _ = Command::new("umount")
                .arg("-l")
                .arg(self.path("mnt"))
                .output();
        }
    }
}

fn signal(process: rustix::process::Pid, signal: rustix::process::Signal) {
    rustix::process::kill_process(process, signal).unwrap();
}

/// Standard error and the exit code of a child that ends.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    (child.wait().unwrap().code(), said)
}

/// Waits for what another process is about to do.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not so after half a minute: {what}");
}

#[test]
fn mounted_written_unmounted_and_clean() {
    let mounted = require!(some MountedImage::new());
    for options in [
        "transport=dev,threads=2",
        "transport=auto,writeback,noatime",
    ] {
        mounted.ok(&["mount", "a.img", "mnt", "-o", options]);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let line = mounts
            .lines()
            .find(|l| l.contains(mounted.path("mnt").to_str().unwrap()));
        let line = line.unwrap();
        assert!(
            line.starts_with(mounted.path("a.img").to_str().unwrap()),
            "{line}"
        );
        assert!(line.contains(" fuse.uext4 rw,"), "{line}");
        assert!(line.contains("allow_other"), "{line}");
        let file = mounted.path("mnt").join(options);
        fs::write(&file, options).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), options);
        mounted.ok(&["umount", "mnt"]);
        mounted.assert_clean();
        let there = mounted.ok(&["cat", &format!("a.img:/{options}")]);
        assert_eq!(there, options);
    }
}

#[test]
fn the_server_has_nothing_to_give_away() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt"]);
    let pid = mounted.pid("pid").as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = |name: &str| {
        let line = status.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(value(set), "0000000000000000", "{set}");
    }
    assert_eq!(
        (value("NoNewPrivs:"), value("Seccomp:")),
        ("1".into(), "2".into())
    );
    assert_ne!(value("Uid:"), "0");
    let root = fs::read_dir(format!("/proc/{pid}/root/")).unwrap();
    assert_eq!(root.count(), 0);
    mounted.ok(&["umount", "mnt"]);
    mounted.ok(&["mount", "--no-sandbox", "a.img", "mnt"]);
    assert_eq!(mounted.stats()["sandbox"], "off");
}

#[test]
fn an_unmount_waits_without_the_right_to_inspect_the_server() {
    let mounted = require!(some MountedImage::new());
    // As root of many containers.
    for args in [&["mount", "a.img", "mnt"][..], &["umount", "mnt"]] {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_ptrace", "--", uext4()]);
        let out = command.args(args).current_dir(mounted.dir.path()).output();
        let out = out.unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        let said = said.lines().filter(|line| !line.contains("(tmpfs)"));
        let said = said.collect::<Vec<_>>().join(" ");
        assert!(out.status.success() && said.is_empty(), "{args:?}: {said}");
    }
    mounted.assert_clean();
}

#[test]
fn a_mount_in_use() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt"]);
    let mut open = File::create(mounted.path("mnt/open")).unwrap();
    let said = mounted.fails(&["umount", "mnt"]);
    assert!(said.contains("in use") && said.contains("--lazy"), "{said}");
    mounted.refuses(&["mount", "a.img", "mnt"], "a.img: image is already open");
    mounted.ok(&["umount", "--lazy", "mnt"]);
    assert!(!mounted.is_mounted());
    open.write_all(b"late").unwrap();
    drop(open);
    eventually("the image is closed", || {
        mounted.run(&["ls", "a.img:/"]).status.success()
    });
    mounted.assert_clean();
    assert_eq!(mounted.ok(&["cat", "a.img:/open"]), "late");
}

#[test]
fn a_signal_ends_a_mount_that_is_in_use() {
    let mounted = require!(some MountedImage::new());
    let child = mounted.foreground(&["-o", "writeback"]);
    let mut open = File::create(mounted.path("mnt/open")).unwrap();
    open.write_all(b"before").unwrap();
    let monitor = rustix::process::Pid::from_child(&child);
    signal(monitor, rustix::process::Signal::INT);
    let (code, said) = end(child);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("in use") && !mounted.is_mounted(), "{said}");
    let e = open
        .write_all(b"after")
        .and_then(|()| open.sync_all())
        .unwrap_err();
    assert!(
        matches!(e.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)),
        "{e}"
    );
    mounted.assert_clean();
    assert_eq!(mounted.ok(&["cat", "a.img:/open"]), "before");
}

#[test]
fn a_server_asked_to_end_asks_the_monitor() {
    let mounted = require!(some MountedImage::new());
    let child = mounted.foreground(&[]);
    signal(mounted.pid("pid"), rustix::process::Signal::TERM);
    let (code, said) = end(child);
    assert_eq!(code, Some(0), "{said}");
    assert!(!mounted.is_mounted());
    mounted.assert_clean();
}

#[test]
fn a_server_that_dies_leaves_no_mount() {
    let mounted = require!(some MountedImage::new());
    let child = mounted.foreground(&[]);
    fs::write(mounted.path("mnt/synced"), b"kept").unwrap();
    File::open(mounted.path("mnt/synced"))
        .unwrap()
        .sync_all()
        .unwrap();
    signal(mounted.pid("pid"), rustix::process::Signal::KILL);
    let (code, said) = end(child);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the server died (signal: 9"), "{said}");
    assert!(!mounted.is_mounted());
    mounted.ok(&["mount", "a.img", "mnt"]);
    assert_eq!(fs::read(mounted.path("mnt/synced")).unwrap(), b"kept");
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}

#[test]
fn a_server_may_take_so_much_memory_and_ends_when_it_needs_more() {
    let mounted = require!(some MountedImage::new());
    for few in ["memory=1", "memory=16M"] {
        let said = mounted.fails(&["mount", "a.img", "mnt", "-o", few]);
        let (_, enough) = said.split_once("-o memory=").expect("a size");
        let (size, _) = enough.split_once(" has room").unwrap();
        mounted.ok(&["mount", "a.img", "mnt", "-o", &format!("memory={size}")]);
        mounted.ok(&["umount", "mnt"]);
    }
    // Between the least and that, too: no library reserves what the threads need.
    let said = mounted.fails(&["mount", "a.img", "mnt", "-o", "memory=1"]);
    let sizes = said.split(|c: char| !c.is_ascii_digit());
    let sizes: Vec<u64> = sizes.filter_map(|size| size.parse().ok()).collect();
    let [_, _, least, enough, _] = sizes[..] else {
        panic!("{said}");
    };
    for size in (least + 4..enough.min(least + 256)).step_by(12) {
        mounted.ok(&["mount", "a.img", "mnt", "-o", &format!("memory={size}M")]);
        mounted.ok(&["umount", "mnt"]);
    }
    // Blocks of block numbers, one for each that is written, with no room for half of them.
    mounted.ok(&["mkfs", "-t", "ext3", "--force", "a.img", "--size", "1G"]);
    let child = mounted.foreground(&["-o", "transport=dev,threads=1"]);
    let status = fs::read_to_string(format!("/proc/{}/status", mounted.pid("pid"))).unwrap();
    let size = status.lines().find(|l| l.starts_with("VmSize:")).unwrap();
    let size: u64 = size.split_whitespace().nth(1).unwrap().parse().unwrap();
    mounted.ok(&["umount", "mnt"]);
    assert_eq!(end(child).0, Some(0));
    let size = size + (24 << 10);
    let bound = format!("transport=dev,threads=1,memory={size}K");
    let child = mounted.foreground(&["-o", &bound]);
    assert_eq!(mounted.stats()["memory_bytes_max"], size << 10);
    let mut kept = File::create(mounted.path("mnt/kept")).unwrap();
    kept.write_all(b"kept").unwrap();
    kept.sync_all().unwrap();
    let sparse = File::create(mounted.path("mnt/sparse")).unwrap();
    let e = (0..50_000_u64).find_map(|at| sparse.write_all_at(&[1; 4096], at << 22).err());
    let e = e.expect("a bound that holds");
    assert!(
        matches!(e.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)),
        "{e}"
    );
    let (code, said) = end(child);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("memory allocation of") && said.contains("-o memory=SIZE"),
        "{said}"
    );
    assert!(!mounted.is_mounted());
    mounted.ok(&["mount", "a.img", "mnt"]);
    assert_eq!(fs::read(mounted.path("mnt/kept")).unwrap(), b"kept");
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}

#[test]
fn a_server_is_the_first_to_go_where_memory_runs_out() {
    let mounted = require!(some MountedImage::new());
    let score = |process: &str| -> i32 {
        let score = fs::read_to_string(format!("/proc/{process}/oom_score_adj"));
        score.unwrap().trim().parse().unwrap()
    };
    mounted.ok(&["mount", "a.img", "mnt"]);
    let server = score(&mounted.pid("pid").to_string());
    assert_eq!(server, (score("self") + 500).min(1000));
    let limits = fs::read_to_string(format!("/proc/{}/limits", mounted.pid("pid"))).unwrap();
    let limit = limits.lines().find(|l| l.starts_with("Max address space"));
    let bytes = mounted.stats()["memory_bytes_max"].to_string();
    let words: Vec<_> = limit.unwrap().split_whitespace().collect();
    assert_eq!(words[3..5], [&bytes, &bytes]);
    mounted.ok(&["umount", "mnt"]);
}

#[test]
fn a_monitor_that_dies_takes_nothing_with_it() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt"]);
    signal(mounted.pid("monitor_pid"), rustix::process::Signal::KILL);
    fs::write(mounted.path("mnt/after"), b"still here").unwrap();
    // No process is left to unmount it, so it continues.
    signal(mounted.pid("pid"), rustix::process::Signal::TERM);
    assert_eq!(fs::read(mounted.path("mnt/after")).unwrap(), b"still here");
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
    assert_eq!(mounted.ok(&["cat", "a.img:/after"]), "still here");
}

#[test]
fn a_mount_for_reading() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt", "-o", "ro"]);
    let e = fs::write(mounted.path("mnt/x"), b"").unwrap_err();
    assert_eq!(e.raw_os_error(), Some(libc::EROFS));
    mounted.ok(&["umount", "mnt"]);
}

#[test]
fn an_image_gives_no_privileges_unless_root_says_so() {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let mounted = require!(some MountedImage::new());
    for (options, is_trusted) in [("rw", false), ("defaults", false), ("suid,dev", true)] {
        mounted.ok(&["mount", "a.img", "mnt", "-o", options]);
        let shell = mounted.path("mnt/id");
        fs::copy("/usr/bin/id", &shell).unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o4755)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        // The program can be reached by its path from the mounted directory alone.
        let out = command
            .args(["./id", "-u"])
            .current_dir(mounted.path("mnt"))
            .output();
        let user = String::from_utf8(out.unwrap().stdout).unwrap();
        assert_eq!(
            user.trim(),
            if is_trusted { "0" } else { "65534" },
            "{options}"
        );
        let node = mounted.path("mnt/null");
        mknodat(
            CWD,
            &node,
            FileType::CharacterDevice,
            Mode::RWXU,
            makedev(1, 3),
        )
        .unwrap();
        assert_eq!(File::open(&node).is_ok(), is_trusted, "{options}");
        fs::remove_file(&node).unwrap();
        mounted.ok(&["umount", "mnt"]);
    }
}

#[test]
fn what_can_not_be_mounted_says_why() {
    let mounted = require!(some MountedImage::new());
    fs::write(mounted.path("text"), vec![b'x'; 1 << 20]).unwrap();
    for (args, want) in [
        (&["mount", "none.img", "mnt"][..], "none.img: no such image"),
        (&["mount", "text", "mnt"], "text: not an ext4 image"),
        (
            &["mount", "a.img", "none"],
            "none: no such file or directory",
        ),
        (&["mount", "a.img", "text"], "text: not a directory"),
        (
            &["mount", "a.img", "mnt", "-o", "foo"],
            "unknown option 'foo'",
        ),
        (&["mount", "a.img", "mnt", "-o", "noload"], "needs 'ro'"),
        (&["umount", "mnt"], "mnt: nothing is mounted there"),
        (&["umount", "/proc"], "not a mount of uext4 but of proc"),
        (&["stats", "mnt"], "mnt: not a mount of uext4"),
        (
            &["stats", "none"],
            "uext4: none: no such file or directory\n",
        ),
        (&["serve"], "not by hand"),
        (&["serve", "--monitor"], "not by hand"),
    ] {
        let said = mounted.fails(args);
        assert!(said.contains(want), "{args:?}: {said}");
    }
    let out = mounted.run(&["mount", "a.img", "mnt", "--metrics", "0.0.0.0:80"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("this machine alone"));
    assert!(!out.status.success() && !mounted.is_mounted());
}

#[test]
fn mount_8_and_fstab() {
    let mounted = require!(some MountedImage::new());
    let (image, dir) = (mounted.path("a.img"), mounted.path("mnt"));
    // With type fuse.uext4 mount(8) finds the program by itself, if it is installed.
    let fstab = format!(
        "{}#{} {} fuse noauto,noatime,nofail,x-systemd.requires=none 0 0\n",
        uext4(),
        image.display(),
        dir.display()
    );
    fs::write(mounted.path("fstab"), fstab).unwrap();
    let mut mount = Command::new("mount");
    mount.arg("-T").arg(mounted.path("fstab")).arg(&dir);
    match mount.output() {
        Ok(out) if out.status.success() => {
            assert!(mounted.is_mounted());
            fs::write(mounted.path("mnt/x"), b"x").unwrap();
            mounted.ok(&["umount", "mnt"]);
        }
        Ok(out) if Path::new("/sbin/mount.fuse").exists() => panic!("{out:?}"),
        _ => eprintln!("skipped: mount(8) needs the package fuse3"),
    }
    for name in ["mount.fuse.uext4", "umount.fuse.uext4"] {
        std::os::unix::fs::symlink(uext4(), mounted.path(name)).unwrap();
    }
    let mut helper = Command::new(mounted.path("mount.fuse.uext4"));
    helper
        .args([&image, &dir])
        .args(["-s", "-o", "rw,noauto", "-t", "fuse.uext4"]);
    assert!(helper.status().unwrap().success() && mounted.is_mounted());
    let mut helper = Command::new(mounted.path("umount.fuse.uext4"));
    assert!(helper.arg(&dir).arg("-n").status().unwrap().success());
    assert!(!mounted.is_mounted());
    mounted.assert_clean();
}

#[test]
fn a_link_to_the_directory_does_as_well() {
    let mounted = require!(some MountedImage::new());
    std::os::unix::fs::symlink("mnt", mounted.path("link")).unwrap();
    mounted.ok(&["mount", "a.img", "link"]);
    assert!(mounted.is_mounted());
    mounted.ok(&["umount", "link"]);
    assert!(!mounted.is_mounted());
    mounted.assert_clean();
}

#[test]
fn what_the_caller_has_open_stays_his() {
    let mounted = require!(some MountedImage::new());
    let (mut read, write) = std::io::pipe().unwrap();
    // A descriptor that a shell would pass on, as it does not close what it has open itself.
    rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::empty()).unwrap();
    mounted.ok(&["mount", "a.img", "mnt"]);
    drop(write);
    // Ends only if no server has the other one.
    assert_eq!(read.read(&mut [0]).unwrap(), 0);
    mounted.ok(&["umount", "mnt"]);
}

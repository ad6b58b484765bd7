//! What users of a mount see when its server is killed.

use super::{MountedImage, end, signal};
use rustix::fs::{Mode, OFlags, openat};
use rustix::process::{Pid, Signal};
use uext4_testkit::prelude::*;

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

/// Whether a thread is in one of some states, which `/proc` names by letters (proc(5)).
fn is_in_state(process: &str, thread: &str, states: &[char]) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat"));
    let stat = stat.unwrap_or_default();
    let after_name = stat.rsplit(") ").next();
    after_name.is_some_and(|state| state.starts_with(states))
}

/// A server that answers nothing, and is killed at the end.
struct Stopped(Pid);

impl Stopped {
    fn new(server: Pid) -> Stopped {
        signal(server, Signal::STOP);
        let pid = server.as_raw_nonzero().to_string();
        super::eventually("all threads are stopped", || {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            let names = threads.map(|thread| thread.unwrap().file_name());
            let mut names = names.map(|name| name.into_string().unwrap());
            names.all(|thread| is_in_state(&pid, &thread, &['T']))
        });
        Stopped(server)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Else nothing could be unmounted.
        signal(self.0, Signal::KILL);
    }
}

#[test]
fn calls_that_wait_are_aborted_and_later_ones_find_no_connection() {
    let mounted = require!(some MountedImage::new());
    killed(&mounted, "transport=dev", &[libc::ECONNABORTED]);
    // What the kernel had for a ring whose process is gone, it cancels.
    killed(
        &mounted,
        "transport=auto",
        &[libc::ECONNABORTED, libc::ECANCELED],
    );
}

/// Kills a server that is mounted with an option; calls that wait for it fail with one of `aborted`.
fn killed(mounted: &MountedImage, option: &str, aborted: &[i32]) {
    let child = mounted.foreground(&["-o", option]);
    let mut open = File::create(mounted.path("mnt/open")).unwrap();
    open.write_all(b"kept").unwrap();
    open.sync_all().unwrap();
    let dir = File::open(mounted.path("mnt")).unwrap();
    let server = mounted.pid("pid");
    let stopped = Stopped::new(server);
    let waiting = open.try_clone().unwrap();
    let (begin, begun) = mpsc::channel();
    let call = thread::spawn(move || {
        begin.send(rustix::thread::gettid()).unwrap();
        waiting.sync_all()
    });
    let tid = begun.recv().unwrap().as_raw_nonzero().to_string();
    super::eventually("the call waits", || is_in_state("self", &tid, &['S', 'D']));
    // It may have waited for something else on its way.
    thread::sleep(Duration::from_millis(50));
    drop(stopped);
    let outcome = errno(call.join().unwrap()).expect("no answer");
    assert!(aborted.contains(&outcome), "{option}: {outcome}");
    let (code, said) = end(child);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(errno(open.write_all(b"late")), Some(libc::ENOTCONN));
    assert_eq!(errno(open.sync_all()), Some(libc::ENOTCONN));
    let flags = OFlags::RDWR | OFlags::CREATE;
    let opened = openat(&dir, "new", flags, Mode::RUSR).map_err(std::io::Error::from);
    assert_eq!(errno(opened), Some(libc::ENOTCONN));
    // Its directory is not mounted any more.
    assert_eq!(
        errno(File::open(mounted.path("mnt/open"))),
        Some(libc::ENOENT)
    );
    // The next mount does not wait for files of the last.
    mounted.ok(&["mount", "a.img", "mnt"]);
    assert_eq!(fs::read(mounted.path("mnt/open")).unwrap(), b"kept");
    fs::write(mounted.path("mnt/new"), "new").unwrap();
    assert_eq!(errno(open.sync_all()), Some(libc::ENOTCONN));
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}

#[test]
fn without_a_monitor_the_directory_stays_until_it_is_unmounted() {
    let mounted = require!(some MountedImage::new());
    mounted.ok(&["mount", "a.img", "mnt"]);
    fs::write(mounted.path("mnt/synced"), "kept").unwrap();
    File::open(mounted.path("mnt/synced"))
        .unwrap()
        .sync_all()
        .unwrap();
    let (server, monitor) = (mounted.pid("pid"), mounted.pid("monitor_pid"));
    signal(monitor, Signal::KILL);
    signal(server, Signal::KILL);
    super::eventually("the connection ends", || {
        errno(fs::read_dir(mounted.path("mnt"))) == Some(libc::ENOTCONN)
    });
    assert_eq!(
        errno(File::open(mounted.path("mnt/synced"))),
        Some(libc::ENOTCONN)
    );
    let said = mounted.fails(&["mount", "a.img", "mnt"]);
    assert!(
        said.contains("server is gone") && said.contains("uext4 umount"),
        "{said}"
    );
    mounted.refuses(&["mount", "-o", "remount,ro", "mnt"], "server is gone");
    let said = mounted.run(&["umount", "mnt"]);
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("server was gone"), "{said}");
    assert!(!mounted.is_mounted());
    mounted.ok(&["mount", "a.img", "mnt"]);
    assert_eq!(fs::read(mounted.path("mnt/synced")).unwrap(), b"kept");
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}

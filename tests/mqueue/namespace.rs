//! Where message queues are: the kernel's own, or those of a mount, for programs that call the C library.

use std::fs::Permissions;
use uext4_testkit::prelude::*;

/// A mounted namespace; dropping it unmounts it.
pub struct Mounted {
    dir: PathBuf,
    // The last field, as it is removed after the rest.
    _files: TempDir,
}

/// Whether this machine can mount, and `UEXT4_MQ_SIDE` (`kernel`, `mount`) lets it; says what is missing.
pub fn can_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    let only_kernel = std::env::var("UEXT4_MQ_SIDE").is_ok_and(|side| side == "kernel");
    for (there, what) in [
        (!only_kernel, "another UEXT4_MQ_SIDE than kernel"),
        (root, "the superuser"),
        (Path::new("/dev/fuse").exists(), "/dev/fuse"),
    ] {
        if !there {
            eprintln!("skipped: queues of a mount: needs {what}");
            return false;
        }
    }
    true
}

/// The program's queues are those of the namespace that is mounted there.
pub fn preload(program: &mut Command, dir: &Path) {
    program.env("LD_PRELOAD", built::preloaded_library().expect("it builds"));
    program.env("UEXT4_MQ_DIR", dir);
}

impl Mounted {
    /// Mounts a new namespace.
    pub fn new() -> Result<Mounted> {
        let files = tempfile::tempdir_in("/dev/shm")?;
        // Other users come by here.
        std::fs::set_permissions(files.path(), Permissions::from_mode(0o755))?;
        let dir = files.path().join("mount");
        std::fs::create_dir(&dir)?;
        // A server that continues in the background must not hold our pipes.
        let log = files.path().join("log");
        let out = std::fs::File::create(&log)?;
        let mut mount = Command::new(built::command()?);
        mount.args(["mqueue", "mount"]).arg(&dir);
        let status = mount
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .status()?;
        let said = std::fs::read_to_string(&log)?;
        ensure!(status.success(), "{mount:?}: {status}: {said}");
        let mounted = Mounted { dir, _files: files };
        ensure!(
            is_mounted(&mounted.dir),
            "{mount:?} succeeded, nothing is mounted: {said}"
        );
        Ok(mounted)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Unmounts: it is unused.
    pub fn unmount(self) -> Result<()> {
        let mut umount = Command::new(built::command()?);
        let output = umount.arg("umount").arg(&self.dir).output();
        let output = output.context("uext4 umount")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{umount:?}: {said}");
        ensure!(
            !is_mounted(&self.dir),
            "{}: unmounted, and still there",
            self.dir.display()
        );
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount_what_is_left(&self.dir);
    }
}

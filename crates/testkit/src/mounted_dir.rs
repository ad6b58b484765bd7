//! A directory where a file system of an image is mounted.
//!
//! What `UEXT4_MOUNTED_AGAINST` says is mounted where uext4 would be (`kernel`, `tmpfs`, `fuse2fs`), to see that the
//! tests find nothing where there is no difference, and something where there are many.

use crate::built;
use crate::external::*;
use crate::remote_image::RemoteImage;

/// How long an unmount may be refused, and how long the image may be held after it.
const UNMOUNT_MAX: Duration = Duration::from_secs(20);

/// An image to make.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Arguments of mke2fs besides the size.
    pub args: &'static str,
    /// Bytes.
    pub bytes: u64,
}

impl Shape {
    /// The usual features.
    pub const DEFAULT: Shape = Shape {
        args: "-t ext4 -b 4096 -I 256 -J size=4",
        bytes: 128 << 20,
    };
}

/// The file system that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The kernel's ext4, on a loop device.
    Kernel,
    /// The command `uext4 mount`, with options.
    Ours(String),
    /// The same of an image that a server has, with arguments.
    Remote(Vec<String>),
    /// No image at all.
    Tmpfs,
    /// The FUSE server of e2fsprogs.
    Fuse2fs,
}

impl Driver {
    /// What is compared with the kernel: uext4 with the options of `UEXT4_MOUNTED_OPTIONS` besides these, and with
    /// the set-id bits and device files that a plain mount of the kernel's has.
    pub fn compared(options: &str) -> Driver {
        let more = std::env::var("UEXT4_MOUNTED_OPTIONS").unwrap_or_default();
        let all: Vec<_> = ["suid,dev", options, &more]
            .into_iter()
            .filter(|o| !o.is_empty())
            .collect();
        match std::env::var("UEXT4_MOUNTED_AGAINST").as_deref() {
            Ok("kernel") => Driver::Kernel,
            Ok("tmpfs") => Driver::Tmpfs,
            Ok("fuse2fs") => Driver::Fuse2fs,
            _ => Driver::Ours(all.join(",")),
        }
    }
}

/// A mounted directory. Dropping it unmounts it.
#[derive(Debug)]
pub struct MountedDir {
    driver: Driver,
    mounted: bool,
    dir: PathBuf,
    image: PathBuf,
    /// If a server has the image.
    remote: Option<RemoteImage>,
    // The last field, as it is removed after the rest.
    _files: TempDir,
}

/// Whether this machine can mount; says what is missing.
pub fn can_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    for (there, what) in [
        (root, "the superuser"),
        (Path::new("/dev/fuse").exists(), "/dev/fuse"),
        (Path::new("/dev/loop-control").exists(), "loop devices"),
    ] {
        if !there {
            eprintln!("skipped: needs {what}");
            return false;
        }
    }
    true
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command
        .output()
        .with_context(|| format!("running {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}

impl MountedDir {
    /// A new image, mounted.
    pub fn new(driver: Driver, shape: &Shape) -> Result<MountedDir> {
        let mut mount = MountedDir::unmounted(driver)?;
        let size = format!("{}K", shape.bytes / 1024);
        let mut mke2fs = Command::new("mke2fs");
        mke2fs
            .args(["-q", "-F", "-m", "0"])
            .args(shape.args.split(' '));
        // Two images are the same bytes but for the times in them.
        mke2fs.args(["-U", "6b1f2a9e-6d1f-4a58-9b0a-3b2f6f5f5a11"]);
        mke2fs.args(["-E", "hash_seed=0f8d6f6e-52f4-4b7e-a0c1-5c2d1e9b7a33"]);
        run(mke2fs.arg(&mount.image).arg(size))?;
        mount.mount()?;
        Ok(mount)
    }

    fn unmounted(driver: Driver) -> Result<MountedDir> {
        let files = tempfile::tempdir_in("/dev/shm")?;
        let mount = MountedDir {
            driver,
            mounted: false,
            dir: files.path().join("mount"),
            image: files.path().join("image"),
            remote: None,
            _files: files,
        };
        std::fs::create_dir(&mount.dir)?;
        Ok(mount)
    }

    /// An image on a server, made and mounted by uext4 with these arguments.
    pub fn remote(image: RemoteImage, arguments: &[&str]) -> Result<MountedDir> {
        run(Command::new(built::command()?).args(["mkfs", "-q", image.name()]))?;
        let driver = Driver::Remote(arguments.iter().map(|a| (*a).to_owned()).collect());
        let mut mount = MountedDir::unmounted(driver)?;
        mount.image = image.name().into();
        mount.remote = Some(image);
        mount.mount()?;
        Ok(mount)
    }

    /// An image that is there; it stays.
    pub fn of_image(driver: Driver, image: &Path) -> Result<MountedDir> {
        let mut mount = MountedDir::unmounted(driver)?;
        mount.image = image.to_owned();
        mount.mount()?;
        Ok(mount)
    }

    /// The kernel's ext4.
    pub fn kernel(shape: &Shape) -> Result<MountedDir> {
        MountedDir::new(Driver::Kernel, shape)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The image.
    pub fn image(&self) -> &Path {
        &self.image
    }

    fn mount(&mut self) -> Result<()> {
        let mut command = match &self.driver {
            Driver::Kernel => {
                let mut mount = Command::new("mount");
                // What is asked of blocks and holes must not depend on when data is written back.
                mount.args(["-o", "loop,nodelalloc"]).arg(&self.image);
                mount
            }
            Driver::Ours(options) => {
                let mut mount = Command::new(built::command()?);
                mount.arg("mount");
                if !options.is_empty() {
                    mount.args(["-o", options]);
                }
                mount.arg(&self.image);
                mount
            }
            Driver::Remote(arguments) => {
                let mut mount = Command::new(built::command()?);
                mount.arg("mount").args(arguments).arg(&self.image);
                mount
            }
            Driver::Tmpfs => {
                let mut mount = Command::new("mount");
                mount.args(["-t", "tmpfs", "-o", "size=128m", "tmpfs"]);
                mount
            }
            Driver::Fuse2fs => {
                let mut mount = Command::new("fuse2fs");
                mount.args(["-o", "allow_other"]).arg(&self.image);
                mount
            }
        };
        // A server that continues in the background must not hold our pipes.
        let log = self.dir.with_extension("log");
        let out = std::fs::File::create(&log)?;
        command.arg(&self.dir).stdin(std::process::Stdio::null());
        let status = command.stdout(out.try_clone()?).stderr(out).status();
        let status = status.with_context(|| format!("running {command:?}"))?;
        let said = std::fs::read_to_string(&log)?;
        ensure!(status.success(), "{command:?}: {status}: {said}");
        self.mounted = true;
        ensure!(
            is_mounted(&self.dir),
            "{command:?} succeeded, nothing is mounted: {said}"
        );
        Ok(())
    }

    /// Unmounts, and waits until the image is released.
    pub fn unmount(&mut self) -> Result<()> {
        let end = Instant::now() + UNMOUNT_MAX;
        loop {
            let mut command = match self.driver {
                Driver::Ours(_) | Driver::Remote(_) => {
                    let mut command = Command::new(built::command()?);
                    command.arg("umount");
                    command
                }
                _ => Command::new("umount"),
            };
            match run(command.arg(&self.dir)) {
                Ok(_) => break,
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        self.mounted = false;
        ensure!(
            !is_mounted(&self.dir),
            "{}: unmounted, and still there",
            self.dir.display()
        );
        Ok(())
    }

    /// Unmounts and mounts again.
    pub fn remount(&mut self) -> Result<()> {
        self.unmount()?;
        self.check()?;
        self.mount()
    }

    /// Mounts what is unmounted by uext4, with these options.
    pub fn mount_with(&mut self, options: &str) -> Result<()> {
        self.driver = Driver::Ours(options.to_owned());
        self.mount()
    }

    /// Takes a mount away whose server was killed.
    pub fn abandon(&mut self) -> Result<()> {
        let end = Instant::now() + UNMOUNT_MAX;
        while is_mounted(&self.dir) {
            ensure!(
                Instant::now() < end,
                "{}: still mounted",
                self.dir.display()
            );
            let _ = Command::new("umount").arg("-l").arg(&self.dir).output();
        }
        self.mounted = false;
        while is_held(&self.image)? {
            ensure!(Instant::now() < end, "{}: still held", self.image.display());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// e2fsck finds nothing to say.
    pub fn check(&self) -> Result<()> {
        if self.driver == Driver::Tmpfs {
            return Ok(());
        }
        if let Some(remote) = &self.remote {
            let file = self.dir.with_extension("export");
            remote.export(&file)?;
            run(Command::new("e2fsck").arg("-fn").arg(&file))?;
            return Ok(fs::remove_file(&file)?);
        }
        // A server may end a moment after its mount.
        let end = Instant::now() + UNMOUNT_MAX;
        while is_held(&self.image)? && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        run(Command::new("e2fsck").args(["-fn"]).arg(&self.image))?;
        Ok(())
    }

    /// Unmounts, and has the image checked.
    pub fn finish(mut self) -> Result<()> {
        self.unmount()?;
        self.check()
    }
}

/// Whether a process or a loop device has the image open.
fn is_held(image: &Path) -> Result<bool> {
    let is_image = |path: PathBuf| std::fs::read_link(path).is_ok_and(|to| to == image);
    for process in std::fs::read_dir("/proc")? {
        let Ok(open) = std::fs::read_dir(process?.path().join("fd")) else {
            continue;
        };
        if open.flatten().any(|fd| is_image(fd.path())) {
            return Ok(true);
        }
    }
    let backs = |device: std::fs::DirEntry| {
        let file = std::fs::read_to_string(device.path().join("loop/backing_file"));
        file.is_ok_and(|text| Path::new(text.trim_end()) == image)
    };
    Ok(std::fs::read_dir("/sys/block")?.flatten().any(backs))
}

/// Whether something is mounted on a directory.
pub fn is_mounted(dir: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut dirs = mounts.lines().map(|line| line.split(' ').nth(1));
    dirs.any(|at| at == dir.to_str())
}

/// Unmounts what a failed test left mounted on a directory.
pub fn unmount_what_is_left(dir: &Path) {
    if is_mounted(dir) {
        let _ = Command::new("umount").arg("-l").arg(dir).status();
    }
}

impl Drop for MountedDir {
    fn drop(&mut self) {
        if self.mounted && self.unmount().is_err() {
            unmount_what_is_left(&self.dir);
        }
    }
}

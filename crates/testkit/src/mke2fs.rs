//! Images that mke2fs makes, mounted by us and verified by e2fsck.

use crate::external::*;

/// A new file.
pub const FILE: NewNode<'_> = NewNode {
    mode: 0o644,
    kind: NewKind::Regular,
};
/// A new directory.
pub const DIR: NewNode<'_> = NewNode {
    mode: 0o755,
    kind: NewKind::Directory,
};

/// An image that mke2fs made, in a directory of its own.
pub struct TempImage {
    _dir: TempDir,
    path: PathBuf,
}

/// Makes an image; `args` of mke2fs besides the size have spaces between them.
pub fn image(size: &str, args: &str) -> TempImage {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    make(&path, size, &args.split_whitespace().collect::<Vec<_>>());
    TempImage { _dir: dir, path }
}

impl TempImage {
    /// Mounts it.
    pub fn mount(&self) -> Arc<Ext4> {
        mount(self, MountOptions::default())
    }

    /// Unmounts it, the last reference, and fails unless `e2fsck -fn` finds no fault.
    pub fn end(&self, fs: Arc<Ext4>) {
        fs.unmount().expect("unmount");
        drop(fs);
        fsck(self);
    }
}

impl std::ops::Deref for TempImage {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<std::ffi::OsStr> for TempImage {
    fn as_ref(&self) -> &std::ffi::OsStr {
        self.path.as_ref()
    }
}

impl AsRef<Path> for TempImage {
    fn as_ref(&self) -> &Path {
        self
    }
}

/// Runs a command of debugfs that changes the image.
pub fn debugfs(path: &Path, command: &str) {
    run(Command::new("debugfs")
        .args(["-w", "-R", command])
        .arg(path));
}

/// The same, over what the file has already; ext4 unless the arguments name another type.
pub fn make(path: &Path, size: &str, args: &[&str]) {
    let mut command = Command::new("mke2fs");
    command.args(["-q", "-F"]).args(args);
    if !args.contains(&"-t") {
        command.args(["-t", "ext4"]);
    }
    run(command.arg(path).arg(size));
}

/// Mounts an image.
pub fn mount(path: &Path, options: MountOptions) -> Arc<Ext4> {
    let device = FileDevice::open(path, &OpenOptions::read_write()).expect("open image");
    Ext4::mount(Arc::new(device), options).expect("mount")
}

/// Fails unless `e2fsck -fn` finds no fault.
pub fn fsck(path: &Path) {
    run(Command::new("e2fsck").arg("-fn").arg(path));
}

/// Runs a command that must succeed; returns its standard output.
pub fn run(command: &mut Command) -> String {
    let out = command.output().expect("the command starts");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success(),
        "{command:?}: {text}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    text
}

/// Runs `f` in a thread of its own; fails if it panics or takes a minute.
pub fn within<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = tx.send(f());
    });
    match rx.recv_timeout(std::time::Duration::from_secs(60)) {
        Ok(v) => v,
        Err(e) => panic!("HANG/PANIC in {what}: {e}"),
    }
}

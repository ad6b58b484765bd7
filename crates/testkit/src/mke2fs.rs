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

/// An image in `dir`, made by mke2fs.
pub fn image(dir: &Path, size: &str, args: &[&str]) -> PathBuf {
    let path = dir.join("image");
    let _ = std::fs::remove_file(&path);
    make(&path, size, args);
    path
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

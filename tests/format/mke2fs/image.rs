//! Makes an image with something of everything in it.

use std::io::{Seek, SeekFrom};
use uext4_testkit::prelude::*;

/// An image file.
pub struct Image {
    pub dir: TempDir,
    pub path: PathBuf,
}

/// True if e2fsprogs is there.
pub fn have_tools() -> bool {
    Command::new("mke2fs").arg("-V").output().is_ok()
        && Command::new("debugfs").arg("-V").output().is_ok()
}

/// Runs a tool and gives its output. e2fsck exits with 1 when it changed something.
pub fn run(tool: &str, args: &[&str]) -> String {
    let out = Command::new(tool).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() || tool == "e2fsck" && out.status.code() == Some(1),
        "{tool} {args:?}: {}\n{text}\n{errors}",
        out.status
    );
    text
}

/// Files of every kind, a large directory, and a file with a deep extent tree.
fn fill(root: &Path) {
    let big = root.join("big");
    fs::create_dir_all(&big).unwrap();
    for i in 0..1500 {
        let name = format!("a-file-with-{:x<60}-{i:05}", "");
        fs::write(big.join(name), b"").unwrap();
    }
    let small = root.join("small/er/and/smaller");
    fs::create_dir_all(&small).unwrap();
    fs::write(small.join("tiny"), b"tiny").unwrap();
    fs::write(small.join("grün"), vec![b'x'; 100_000]).unwrap();
    std::os::unix::fs::symlink("short target", small.join("fast")).unwrap();
    std::os::unix::fs::symlink("t".repeat(200), small.join("slow")).unwrap();
    let mut f = fs::File::create(root.join("holes")).unwrap();
    for i in 0..600u64 {
        f.seek(SeekFrom::Start(i * 8192)).unwrap();
        f.write_all(&[7; 100]).unwrap();
    }
}

impl Image {
    /// Makes an image of 64 MiB.
    pub fn make(mkfs: &[&str]) -> Image {
        // e2fsprogs write as if a disk were below, which takes ten times as long where one is.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        let root = dir.path().join("root");
        fill(&root);
        let path = dir.path().join("image");
        let mut args = vec!["-q", "-F", "-d", root.to_str().unwrap()];
        args.extend(mkfs);
        let path_text = path.to_str().unwrap();
        args.extend([path_text, "64M"]);
        run("mke2fs", &args);
        let image = Image { path, dir };
        image.debugfs(
            "ea_set small/er/and/smaller/tiny user.one value\n\
             ea_set small/er/and/smaller/tiny user.two a-longer-value-to-fill-up-the-inode-0123456789\n\
             ea_set small/er/and/smaller/tiny security.three a-longer-value-to-fill-up-the-inode-0123456789\n\
             ea_set small/er/and/smaller/tiny user.four another-value-which-surely-goes-to-a-block-0123456789-0123456789\n\
             ea_set holes user.x y\n\
             mknod small/fifo p\n\
             mknod small/disk b 8 1\n\
             mknod small/modern c 300 70000\n",
        );
        run("e2fsck", &["-fyD", image.path.to_str().unwrap()]);
        image
    }

    /// Runs debugfs commands that write.
    pub fn debugfs(&self, script: &str) {
        let file = self.dir.path().join("script");
        fs::write(&file, script).unwrap();
        run(
            "debugfs",
            &[
                "-w",
                "-f",
                file.to_str().unwrap(),
                self.path.to_str().unwrap(),
            ],
        );
    }

    /// All bytes.
    pub fn read(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// What dumpe2fs says.
    pub fn dumpe2fs(&self) -> String {
        run("dumpe2fs", &[self.path.to_str().unwrap()])
    }
}

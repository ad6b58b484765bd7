//! Images with each feature alone and with each pair of features that mke2fs allows, filled by debugfs, by uext4 through a mount, and by a kernel.
//!
//! `calls` is the program that fills, changes and lists, on this machine and in a guest.

use crate::external::*;
use crate::mounted_dir::{Driver, MountedDir};
use crate::program::{Printed, run};
use crate::{built, oracle};

/// The features that mke2fs 1.47 knows, with what it demands or ignores them without; each on top of no other.
const FEATURES: [(&str, &str); 31] = [
    ("64bit", "64bit"),
    ("bigalloc", "bigalloc,extent"),
    ("casefold", "casefold"),
    ("dir_index", "dir_index"),
    ("dir_nlink", "dir_nlink"),
    ("ea_inode", "ea_inode,ext_attr"),
    ("encrypt", "encrypt"),
    ("ext_attr", "ext_attr"),
    ("extent", "extent"),
    ("extra_isize", "extra_isize"),
    ("fast_commit", "fast_commit,has_journal"),
    ("filetype", "filetype"),
    ("flex_bg", "flex_bg"),
    ("has_journal", "has_journal"),
    ("huge_file", "huge_file"),
    ("inline_data", "inline_data,ext_attr"),
    ("large_dir", "large_dir"),
    ("large_file", "large_file"),
    ("meta_bg", "meta_bg"),
    ("metadata_csum", "metadata_csum"),
    ("metadata_csum_seed", "metadata_csum_seed,metadata_csum"),
    ("mmp", "mmp"),
    ("orphan_file", "orphan_file,has_journal"),
    ("project", "project"),
    ("quota", "quota"),
    ("resize_inode", "resize_inode"),
    ("sparse_super", "sparse_super"),
    ("sparse_super2", "sparse_super2"),
    ("stable_inodes", "stable_inodes"),
    ("uninit_bg", "uninit_bg"),
    ("verity", "verity,extent"),
];

/// A pair that is mounted read-only: e2fsck does not count the values that Linux counts, so that nothing is right for both.
const READ_ONLY: &str = "ea_inode+quota";

/// Three groups of small blocks.
const SIZE: &str = "24M";
/// Room for small files in clusters.
const SIZE_IN_CLUSTERS: &str = "64M";

/// One feature, or two.
#[derive(Clone, Debug)]
pub struct Features {
    /// Their names, as in `casefold+quota`.
    pub name: String,
    /// What `-O` is given.
    set: String,
}

/// Each alone, then each pair.
pub fn all() -> Vec<Features> {
    let mut all = Vec::new();
    for (name, set) in FEATURES {
        all.push(Features {
            name: name.to_owned(),
            set: format!("none,{set}"),
        });
    }
    for (i, (one, first)) in FEATURES.iter().enumerate() {
        for (two, second) in &FEATURES[i + 1..] {
            all.push(Features {
                name: format!("{one}+{two}"),
                set: format!("none,{first},{second}"),
            });
        }
    }
    all.retain(|features| features.name != READ_ONLY);
    all
}

impl Features {
    /// Whether they are what `UEXT4_PAIR` asks for: `quota+casefold` is one image, `quota` all that have it.
    pub fn are_asked_for(&self, asked: &str) -> bool {
        self.name == asked || self.name.split('+').any(|feature| feature == asked)
    }

    /// Whether a feature is among them.
    pub fn has(&self, feature: &str) -> bool {
        self.set.split(',').any(|of| of == feature)
    }

    /// What `calls fill` is to use of them.
    pub fn used(&self) -> Vec<&'static str> {
        let calls = [("casefold", "fold"), ("verity", "verity")];
        let calls = calls.into_iter().filter(|(feature, _)| self.has(feature));
        calls.map(|(_, call)| call).collect()
    }

    /// Whether the kernel of this machine has what `calls fill` uses.
    pub fn kernel_has(&self) -> bool {
        let features = Path::new("/sys/fs/ext4/features");
        let used = ["casefold", "verity"]
            .into_iter()
            .filter(|name| self.has(name));
        used.into_iter().all(|name| features.join(name).exists())
    }

    /// An empty image, made by mke2fs; false if mke2fs refuses the pair.
    pub fn make(&self, image: &Path) -> Result<bool> {
        let mut mke2fs = Command::new("mke2fs");
        // Linux before 6.3 has fs-verity with blocks of a page alone.
        match self.has("verity") {
            true => mke2fs.args(["-b", "4096"]),
            false => mke2fs.args(["-b", "1024"]),
        };
        let size = match self.has("bigalloc") {
            true => {
                mke2fs.args(["-C", "16384"]);
                SIZE_IN_CLUSTERS
            }
            false => SIZE,
        };
        mke2fs.args(["-q", "-F", "-I", "256", "-E"]);
        // A mount with mmp waits for twice the interval.
        mke2fs.arg(match self.has("mmp") {
            true => "root_owner=0:0,mmp_update_interval=1",
            false => "root_owner=0:0",
        });
        let made = mke2fs
            .args(["-O", &self.set])
            .arg(image)
            .arg(size)
            .output()?;
        Ok(made.status.success())
    }
}

/// The program.
pub struct Calls {
    dir: TempDir,
}

impl Calls {
    /// Builds it.
    pub fn build() -> Result<Calls> {
        let dir = tempfile::tempdir_in("/dev/shm")?;
        let source = "crates/testkit/src/feature_pairs/calls.rs";
        built::static_program(source, &dir.path().join("calls"))?;
        // What debugfs writes.
        std::fs::write(dir.path().join("small"), [b's'; 300])?;
        std::fs::write(dir.path().join("large"), vec![b'l'; 90_000])?;
        Ok(Calls { dir })
    }

    /// Where it is.
    pub fn program(&self) -> PathBuf {
        self.dir.path().join("calls")
    }

    fn call(&self, what: &[&str]) -> Result<Printed> {
        run(Command::new(self.program()).args(what))
    }

    /// Makes the directory `name` below a mount.
    pub fn fill(&self, mount: &Path, name: &str, features: &Features) -> Result<()> {
        let dir = mount.join(name);
        let mut words = vec!["fill", text(&dir)?];
        words.extend(features.used());
        self.call(&words).map(drop)
    }

    /// Everything below a mount, a line for each file.
    pub fn list(&self, mount: &Path) -> Result<String> {
        Ok(self.call(&["list", text(mount)?])?.out)
    }

    /// Fills a directory with debugfs, which e2fsck then corrects where debugfs keeps no count (quota).
    pub fn fill_by_debugfs(&self, image: &Path) -> Result<()> {
        let (small, large) = (self.dir.path().join("small"), self.dir.path().join("large"));
        let (small, large) = (text(&small)?, text(&large)?);
        let mut requests = "mkdir /debugfs\nmkdir /debugfs/many\n".to_owned();
        for i in 0..60 {
            requests += &format!("write {small} /debugfs/many/a_name_of_some_length_{i}\n");
        }
        for i in (0..60).step_by(7) {
            requests += &format!("rm /debugfs/many/a_name_of_some_length_{i}\n");
        }
        requests += &format!("write {large} /debugfs/large\nsymlink /debugfs/link target\n");
        requests += &format!("symlink /debugfs/long {}\n", "t".repeat(300));
        requests += "mknod /debugfs/fifo p\nea_set /debugfs/large user.a value\n";
        let file = self.dir.path().join("requests");
        std::fs::write(&file, requests)?;
        let words = ["-w", "-f", text(&file)?, text(image)?];
        oracle::run("debugfs", &words, 0)?;
        oracle::run("e2fsck", &["-fy", text(image)?], 1).map(drop)
    }

    /// uext4 mounts the image, does `work` with the directory, and lists everything.
    pub fn in_our_mount(
        &self,
        image: &Path,
        work: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<String> {
        let driver = Driver::Ours("suid,dev".to_owned());
        let mut mount = MountedDir::of_image(driver, image)?;
        work(mount.dir())?;
        let listed = self.list(mount.dir())?;
        mount.unmount()?;
        mount.check()?;
        Ok(listed)
    }

    /// Changes the directories that were filled.
    pub fn change(&self, mount: &Path, filled: &[&str]) -> Result<()> {
        for name in filled {
            self.call(&["change", text(&mount.join(name))?])
                .with_context(|| format!("changing {name}"))?;
        }
        Ok(())
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}

/// Fails with the first lines that differ.
pub fn same(theirs: &str, ours: &str) -> Result<()> {
    let (mut their_lines, mut our_lines) = (theirs.lines(), ours.lines());
    loop {
        let (theirs, ours) = (their_lines.next(), our_lines.next());
        ensure!(theirs == ours, "theirs: {theirs:?}\nours:   {ours:?}");
        if theirs.is_none() {
            return Ok(());
        }
    }
}

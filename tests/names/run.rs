//! A line, run both ways.

use crate::{Line, shown};
use std::os::unix::fs::symlink;
use uext4_testkit::prelude::*;

/// The programs.
pub const NAMES: &[&str] = &[
    "mke2fs",
    "mkfs.ext2",
    "mkfs.ext3",
    "mkfs.ext4",
    "e2fsck",
    "fsck.ext2",
    "fsck.ext3",
    "fsck.ext4",
    "resize2fs",
    "tune2fs",
    "dumpe2fs",
    "e2label",
    "chattr",
    "lsattr",
    "debugfs",
    "e2image",
    "filefrag",
];

/// Where the links are, and a tree for images.
pub struct Stage {
    dir: TempDir,
}

/// What a run left.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
    images: Vec<(String, shown::Image)>,
}

/// A tree of files as an image of a system has them.
const TREE: &str = r#"
mkdir -p tree/etc tree/usr/bin tree/var/log; echo x > tree/etc/hostname; seq 1 9000 > tree/usr/bin/tool; chmod 755 tree/usr/bin/tool
ln -s usr/bin tree/bin; ln tree/usr/bin/tool tree/usr/bin/other; truncate -s 1M tree/var/log/sparse; for i in 1 2 3 4 5 6 7 8 9; do seq 1 500 > tree/etc/$i; done
"#;

impl Stage {
    /// Makes them; `None`, with a line on standard error, where e2fsprogs are not installed.
    pub fn new() -> Option<Stage> {
        if !["mke2fs", "resize2fs", "lsattr"]
            .into_iter()
            .all(is_installed)
        {
            return None;
        }
        let stage = Stage {
            dir: tempfile::tempdir().unwrap(),
        };
        let links = stage.dir.path().join("links");
        fs::create_dir(&links).unwrap();
        for name in NAMES {
            symlink(built::uext4(), links.join(name)).unwrap();
        }
        shell(stage.dir.path(), TREE, None);
        Some(stage)
    }

    /// What differs between both ways, if anything does that may not.
    pub fn difference(&self, line: &Line) -> Option<String> {
        let dir = tempfile::tempdir_in(self.dir.path()).unwrap();
        let (theirs, ours) = (dir.path().join("theirs"), dir.path().join("ours"));
        fs::create_dir(&theirs).unwrap();
        symlink(self.dir.path().join("tree"), dir.path().join("tree")).unwrap();
        shell(&theirs, line.before, None);
        shell(dir.path(), "cp -a --sparse=always theirs ours", None);
        let links = self.dir.path().join("links");
        let theirs = ran(&theirs, line.line, None);
        let ours = ran(&ours, line.line, Some(&links));
        let mut differing = Vec::new();
        let mut compare = |what: &str, theirs: &str, ours: &str| {
            if theirs != ours && !line.differs.contains(&what) {
                differing.push(format!(
                    "  {what}\n    theirs: {theirs}\n    ours:   {ours}"
                ));
            }
        };
        compare(
            "exit code",
            &format!("{:?}", theirs.code),
            &format!("{:?}", ours.code),
        );
        compare("output", &theirs.out, &ours.out);
        if theirs.err.is_empty() != ours.err.is_empty() {
            compare("standard error", &theirs.err, &ours.err);
        }
        let names = |ran: &Ran| -> String {
            let names: Vec<&str> = ran.images.iter().map(|(name, _)| name.as_str()).collect();
            names.join(" ")
        };
        compare("files", &names(&theirs), &names(&ours));
        for ((_, theirs), (_, ours)) in theirs.images.iter().zip(&ours.images) {
            for (field, theirs, ours) in theirs.beside(ours) {
                compare(&field, &theirs, &ours);
            }
        }
        (!differing.is_empty()).then(|| {
            let said = ours.err.trim_end().replace('\n', "\n          ");
            format!(
                "$ {}\n{}\n    said: {said}",
                line.line,
                differing.join("\n")
            )
        })
    }
}

fn ran(dir: &Path, line: &str, links: Option<&Path>) -> Ran {
    let (code, out, err) = shell(dir, line, links);
    let mut names: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "img"))
        .collect();
    names.sort();
    let image = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, shown::Image::of(path))
    };
    Ran {
        code,
        out: shown::output(&out),
        err: shown::errors(&err),
        images: names.iter().map(image).collect(),
    }
}

/// Runs a line; with `links` the programs are those, and the variable `OURS` is set.
pub fn shell(dir: &Path, line: &str, links: Option<&Path>) -> (Option<i32>, String, String) {
    let mut sh = Command::new("bash");
    sh.args(["-c", line]).current_dir(dir).stdin(Stdio::null());
    sh.env("TZ", "UTC")
        .env("LC_ALL", "C")
        .env_remove("MKE2FS_CONFIG");
    if let Some(links) = links {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = [links.to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&path));
        sh.env("PATH", std::env::join_paths(dirs).unwrap())
            .env("OURS", "ours");
    }
    let out = sh.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

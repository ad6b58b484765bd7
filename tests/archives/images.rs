//! Images from other images, and from trees that a program provides.
use uext4_testkit::prelude::*;

use crate::containers::{made as bytes_of, options};
use crate::export::{diff, in_layout, made, open, rare};
use crate::generator::Generator;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use uext4::{Filesystem, ImageOptions, MkfsError, NoProgress, SourceFile, SourceKind, TreeSource};
use uext4_build::{Input, InputKind, NamedTree};

/// A tree as a source.
pub fn tree(below: &str, tree: impl TreeSource + 'static) -> Input {
    let named = NamedTree::new("source", Arc::new(tree));
    Input::at(below.as_bytes(), InputKind::Tree(named))
}

/// The image of sources, with the times that their files have.
fn image(from: Vec<Input>) -> Filesystem {
    let options = MkfsOptions {
        time: None,
        ..options(from)
    };
    let (device, report) = crate::containers::device(&options).unwrap();
    assert_eq!(report.warnings, [""; 0]);
    open(device)
}

/// All times of all files below a path.
fn times(fs: &Filesystem, path: &[u8], out: &mut Vec<String>) {
    let file = match path {
        b"" => fs.metadata("/").unwrap(),
        _ => fs.symlink_metadata(path).unwrap(),
    };
    out.push(format!(
        "{} {:?} {:?} {:?} {:?}",
        path.escape_ascii(),
        file.accessed(),
        file.modified(),
        file.changed(),
        file.created()
    ));
    if !file.is_dir() {
        return;
    }
    let mut names: Vec<_> = fs
        .read_dir([path, b"/"].concat())
        .unwrap()
        .map(|entry| entry.unwrap().into_name())
        .filter(|name| name != b"lost+found")
        .collect();
    names.sort_unstable();
    for name in names {
        times(fs, &[path, b"/", &name].concat(), out);
    }
}

fn all_times(fs: &Filesystem) -> Vec<String> {
    let mut all = Vec::new();
    times(fs, b"", &mut all);
    all
}

#[test]
fn an_image_of_an_image_is_the_same() {
    let mut tried = 0;
    for seed in 0..30 {
        let mut generator = Generator::new(seed);
        let layers: Vec<_> = (0..1 + seed % 4).map(|_| generator.layer()).collect();
        let (_dir, from) = in_layout(&layers);
        let Some(fs) = made(from) else {
            continue;
        };
        tried += 1;
        let again = image(vec![tree("", fs.clone())]);
        assert_eq!(diff(&fs, &again), [""; 0], "seed {seed}");
        assert_eq!(all_times(&fs), all_times(&again), "seed {seed}");
        let by_threads = [1, 8].map(|threads| {
            let options = MkfsOptions {
                threads,
                ..options(vec![tree("", fs.clone())])
            };
            bytes_of(&options).unwrap().0
        });
        assert!(by_threads[0] == by_threads[1], "seed {seed}");
    }
    assert!(tried > 15);
}

#[test]
fn what_is_rare_is_copied() {
    let fs = rare();
    let again = image(vec![tree("", fs.clone())]);
    assert_eq!(diff(&fs, &again), [""; 0]);
    assert_eq!(all_times(&fs), all_times(&again));
    assert!(again.metadata("/sparse").unwrap().blocks() < 100);
}

#[test]
fn data_in_inodes_is_copied() {
    let mut options = options(vec![]);
    options.features = options.features.changed("inline_data,ea_inode").unwrap();
    let fs = open(crate::containers::device(&options).unwrap().0);
    fs.create_dir("/dir").unwrap();
    for len in [0, 1, 60, 61, 150, 5000] {
        fs.write(format!("/dir/{len}"), vec![7; len]).unwrap();
    }
    assert_eq!(diff(&fs, &image(vec![tree("", fs.clone())])), [""; 0]);
}

#[test]
fn images_and_archives_are_put_on_top_of_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("a.tar");
    let mut tar = tar::Builder::new(File::create(&archive).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    header.set_mode(0o600);
    tar.append_data(&mut header, "opt/a", &b"new"[..]).unwrap();
    tar.finish().unwrap();
    let fs = image(vec![]);
    fs.write("/a", b"old").unwrap();
    fs.write("/b", b"old").unwrap();
    let both = image(vec![tree("/opt", fs.clone()), Input::from(archive.clone())]);
    assert_eq!(both.read("/opt/a").unwrap(), b"new");
    assert_eq!(both.read("/opt/b").unwrap(), b"old");
    let both = image(vec![Input::from(archive), tree("/opt", fs)]);
    assert_eq!(both.read("/opt/a").unwrap(), b"old");
}

/// An image in a file, with a directory of one file.
fn image_file(path: &Path) -> Filesystem {
    let options = uext4::MkfsOptions::new().size(16 << 20);
    uext4::mkfs(path, &options, &NoProgress).unwrap();
    let fs = Filesystem::open(path, &ImageOptions::read_write()).unwrap();
    fs.create_dir("/dir").unwrap();
    fs.write("/dir/needle", b"data").unwrap();
    fs
}

#[test]
fn what_is_only_in_the_journal_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let fs = image_file(&path("mounted"));
    fs.sync().unwrap();
    fs::copy(path("mounted"), path("old")).unwrap();
    fs.unmount().unwrap();
    let before = fs::read(path("old")).unwrap();
    let from = uext4::MkfsOptions::new().from(path("old"));
    uext4::mkfs(path("new"), &from, &NoProgress).unwrap();
    let new = Filesystem::open(path("new"), &ImageOptions::read_only()).unwrap();
    assert_eq!(new.read("/dir/needle").unwrap(), b"data");
    assert!(fs::read(path("old")).unwrap() == before);
}

#[test]
fn a_damaged_image_is_an_error_that_names_image_and_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    image_file(&path("fresh")).unmount().unwrap();
    // A copy of the tree, whose journal has none of it.
    let from = uext4::MkfsOptions::new().from(path("fresh"));
    uext4::mkfs(path("old"), &from, &NoProgress).unwrap();
    let mut bytes = fs::read(path("old")).unwrap();
    let at = bytes.windows(6).position(|w| w == b"needle").unwrap();
    bytes[at] ^= 1;
    fs::write(path("old"), bytes).unwrap();
    let from = uext4::MkfsOptions::new().from(path("old"));
    let e = uext4::mkfs(path("new"), &from, &NoProgress).unwrap_err();
    let said = e.to_string();
    let begin = format!("can't read {}: /dir: ", path("old").display());
    assert!(said.starts_with(&begin), "{said}");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn images_changed_at_random_are_read_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    image_file(&path("old")).unmount().unwrap();
    let sound = fs::read(path("old")).unwrap();
    let used: Vec<usize> = (0..sound.len()).filter(|i| sound[*i] != 0).collect();
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..100 {
        let mut bytes = sound.clone();
        for _ in 0..3 {
            bytes[used[random.usize(..used.len())]] = random.u8(..);
        }
        fs::write(path("old"), &bytes).unwrap();
        let from = uext4::MkfsOptions::new().from(path("old"));
        match uext4::mkfs(path("new"), &from, &NoProgress) {
            Ok(_) => fs::remove_file(path("new")).unwrap(),
            Err(e) => assert!(e.to_string().contains("old"), "{e}"),
        }
        assert!(!path("new").exists());
    }
}

/// Cancels after a number of units.
struct Cancel(AtomicU64);

impl uext4::Progress for Cancel {
    fn phase(&self, _name: &str, _total: u64) {}

    fn advance(&self, n: u64) {
        let _ = self
            .0
            .fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(n)));
    }

    fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed) == 0
    }
}

#[test]
fn an_image_as_source_can_be_cancelled_in_each_phase() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    image_file(&path("old")).unmount().unwrap();
    let from = uext4::MkfsOptions::new().from(path("old")).fsverity("*");
    for units in [0, 1, 2, 3, 4, 5000, 20_000] {
        let made = uext4::mkfs(path("new"), &from, &Cancel(units.into()));
        assert!(
            matches!(made, Err(MkfsError::Cancelled)),
            "{units}: {made:?}"
        );
        assert!(!path("new").exists(), "{units}");
    }
}

/// Files that say of themselves what they are.
pub struct Files(pub Vec<SourceFile>);

impl TreeSource for Files {
    fn files(&self) -> Box<dyn Iterator<Item = io::Result<SourceFile>> + '_> {
        Box::new(self.0.iter().cloned().map(Ok))
    }

    fn read(&self, id: u64, _at: u64, data: &mut [u8]) -> io::Result<usize> {
        match id {
            7 => Err(io::Error::other("lost")),
            _ => {
                data.fill(b'x');
                Ok(data.len())
            }
        }
    }
}

pub fn regular(segments: Option<Vec<std::ops::Range<u64>>>) -> SourceKind {
    SourceKind::Regular { len: 10, segments }
}

#[test]
fn trees_that_cannot_be_are_refused() {
    let file = |path: &str| SourceFile::new(path, 1, regular(None));
    let sparse = |segments| SourceFile::new("a", 1, regular(Some(segments)));
    for (file, said) in [
        (file("../a"), "/../a: not a path of names"),
        (file("a//b"), "/a//b: not a path of names"),
        (file("/a"), "//a: not a path of names"),
        (file("a\0"), "not a path of names"),
        (file(&"n".repeat(256)), "not a path of names"),
        (file(""), "the root must be a directory"),
        (sparse(vec![0..1, 5..11]), "ranges of data are not in order"),
        (sparse(vec![5..6, 0..1]), "ranges of data are not in order"),
        (
            SourceFile::new("a", 1, SourceKind::Symlink(vec![])),
            "a target of 0 bytes",
        ),
        (
            SourceFile::new("a", 7, regular(None)),
            "can't read source: /a: lost",
        ),
    ] {
        let e = bytes_of(&options(vec![tree("", Files(vec![file]))]));
        let e = e.unwrap_err().to_string();
        assert!(
            e.starts_with("can't read source: ") && e.contains(said),
            "{e}"
        );
    }
}

#[test]
fn a_tree_of_a_program_is_an_image() {
    let files = vec![
        SourceFile::new("dir/a", 1, regular(None)),
        SourceFile::new("b", 1, SourceKind::Fifo),
        SourceFile::new("sparse", 2, regular(Some(vec![2..3, 5..6]))),
    ];
    let fs = image(vec![tree("", Files(files))]);
    assert_eq!(fs.read("/dir/a").unwrap(), [b'x'; 10]);
    assert_eq!(fs.metadata("/b").unwrap().nlink(), 2);
    assert_eq!(fs.read("/sparse").unwrap().len(), 10);
}

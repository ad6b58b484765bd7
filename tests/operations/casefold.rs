//! Directories that ignore case: random operations against a map of folds, in every form that a directory has.
use crate::*;
use std::collections::BTreeMap;
use uext4_ondisk::{InodeFlags, crc32c, name_key};
use uext4_testkit::folding_names::{Draw, make_folding, pairs, verdicts};

const ROOT: Caller = Caller::root();

/// What Linux 6.1 says of the pairs: the checksum of its letters, and how many of each there are.
const KERNEL_VERDICTS: (u32, [usize; 6]) = (0x210f_b90d, [64983, 35017, 0, 0, 0, 0]);
/// The same with a strict encoding.
const KERNEL_STRICT: (u32, [usize; 6]) = (0xd9ef_d7b9, [59101, 28848, 0, 0, 3479, 8572]);

fn errno<T>(result: Result<T, uext4_vfs::Error>) -> Result<T, Errno> {
    result.map_err(|e| e.errno())
}

fn create(fs: &Ext4, dir: &InodeRef, name: &[u8], new: &NewNode<'_>) -> Result<Ino, Errno> {
    errno(FileSystem::create(fs, &ROOT, dir, name, new)).map(|node| node.ino)
}

fn lookup(fs: &Ext4, dir: &InodeRef, name: &[u8]) -> Result<Ino, Errno> {
    errno(FileSystem::lookup(fs, &ROOT, dir, name)).map(|node| node.ino)
}

fn rename(
    fs: &Ext4,
    dir: &InodeRef,
    old: &[u8],
    new: &[u8],
    flags: RenameFlags,
) -> Result<(), Errno> {
    errno(FileSystem::rename(fs, &ROOT, dir, old, dir, new, flags))
}

fn names(fs: &Ext4, dir: &InodeRef) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let listed = FileSystem::readdir(fs, &ROOT, dir, 0, &mut |entry| {
        found.push(entry.name.to_vec());
        true
    });
    listed.expect("lists");
    found.retain(|name| !matches!(&name[..], b"." | b".."));
    found.sort();
    found
}

/// What a directory should hold: names as they are stored and inodes, by folds.
#[derive(Default)]
struct Model {
    entries: BTreeMap<Vec<u8>, (Vec<u8>, Ino)>,
    /// A name of each entry that there is, and of some that are gone.
    tried: Vec<Vec<u8>>,
}

impl Model {
    fn fold(name: &[u8]) -> Vec<u8> {
        name_key(name).into_owned()
    }

    fn get(&self, name: &[u8]) -> Result<Ino, Errno> {
        let entry = self.entries.get(&Self::fold(name));
        entry.map(|entry| entry.1).ok_or(Errno::ENOENT)
    }

    fn put(&mut self, name: &[u8], ino: Ino) {
        self.entries.insert(Self::fold(name), (name.to_vec(), ino));
    }

    fn step(&mut self, fs: &Ext4, dir: &InodeRef, draw: &mut Draw) {
        let fresh = draw.name();
        let known = match self.tried.is_empty() {
            true => fresh.clone(),
            false => self.tried[draw.below(self.tried.len())].clone(),
        };
        let other = draw.other(&known);
        match draw.below(8) {
            0..3 => {
                let expected = match self.get(&fresh) {
                    Ok(_) => Err(Errno::EEXIST),
                    Err(_) => Ok(()),
                };
                let made = create(fs, dir, &fresh, &FILE);
                assert_eq!(made.map(drop), expected, "create {fresh:x?}");
                if let Ok(ino) = made {
                    self.put(&fresh, ino);
                }
                self.tried.push(fresh);
            }
            3 => {
                for name in [&known, &other, &known] {
                    assert_eq!(lookup(fs, dir, name), self.get(name), "{name:x?}");
                }
            }
            4 => {
                let removed = errno(FileSystem::unlink(fs, &ROOT, dir, &other));
                assert_eq!(removed, self.get(&other).map(drop), "unlink {other:x?}");
                self.entries.remove(&Self::fold(&other));
            }
            5 => self.rename(fs, dir, &known, &other),
            6 => self.rename(fs, dir, &other, &fresh),
            _ => {
                let node = self.get(&known).map(|ino| fs.inode_by_number(ino.0.into()));
                let Ok(Ok(node)) = node else { return };
                let expected = match self.get(&other) {
                    Ok(_) => Err(Errno::EEXIST),
                    Err(_) => Ok(()),
                };
                let linked = errno(FileSystem::link(fs, &ROOT, &node, dir, &other));
                assert_eq!(linked, expected, "link {other:x?}");
                if linked.is_ok() {
                    self.put(&other, node.ino);
                    self.tried.push(other);
                }
            }
        }
    }

    /// What rename(2) does; a name that is another spelling of the old one is the entry's from then on.
    fn rename(&mut self, fs: &Ext4, dir: &InodeRef, old: &[u8], new: &[u8]) {
        let done = rename(fs, dir, old, new, RenameFlags::empty());
        assert_eq!(done, self.get(old).map(drop), "rename {old:x?} {new:x?}");
        if done.is_err() {
            return;
        }
        self.tried.push(new.to_vec());
        let (from, to) = (Self::fold(old), Self::fold(new));
        let source = self.entries[&from].1;
        match self.entries.get_mut(&to) {
            Some(entry) if from == to && old != new => entry.0 = new.to_vec(),
            Some(entry) if entry.1 == source => {}
            // The entry that is replaced keeps its spelling.
            Some(entry) => {
                entry.1 = source;
                self.entries.remove(&from);
            }
            None => {
                self.entries.remove(&from);
                self.put(new, source);
            }
        }
    }

    fn compare(&self, fs: &Ext4, dir: &InodeRef) {
        let mut stored: Vec<_> = self.entries.values().map(|entry| entry.0.clone()).collect();
        stored.sort();
        assert_eq!(names(fs, dir), stored);
        for name in &self.tried {
            assert_eq!(lookup(fs, dir, name), self.get(name), "{name:x?}");
        }
    }
}

#[test]
fn random_operations_do_what_a_map_of_folds_does() {
    for (seed, shape, steps) in [
        (1, "-b 1024 -O casefold", 4000),
        (2, "-b 1024 -O casefold,^dir_index", 600),
        (3, "-b 4096 -O casefold,^metadata_csum,large_dir", 3000),
        (4, "-b 1024 -I 1024 -O casefold,inline_data", 60),
        (
            5,
            "-b 1024 -O casefold,^has_journal -E encoding_flags=strict",
            800,
        ),
        (6, "-b 1024 -O casefold,fast_commit", 1500),
    ] {
        let path = image("32M", shape);
        let (mut model, mut draw) = (Model::default(), Draw::new(seed));
        let fs = path.mount();
        let dir = make_folding(&fs, &fs.top(), b"d");
        for _ in 0..steps {
            model.step(&fs, &dir, &mut draw);
        }
        model.compare(&fs, &dir);
        drop(dir);
        path.end(fs);
        let fs = path.mount();
        let dir = fs.get(&fs.top(), b"d");
        model.compare(&fs, &dir);
        for _ in 0..steps / 4 {
            model.step(&fs, &dir, &mut draw);
        }
        model.compare(&fs, &dir);
        drop(dir);
        path.end(fs);
        let device = FileDevice::open(&path, &OpenOptions::read_only()).expect("open");
        oracle::check(&device).expect("uext4 check");
    }
}

/// Threads make and look up names that differ in case only: one of each wins.
#[test]
fn one_of_the_spellings_of_a_name_is_made() {
    let path = image("32M", "-b 1024 -O casefold");
    let fs = path.mount();
    let dir = make_folding(&fs, &fs.top(), b"d");
    let made: Vec<usize> = std::thread::scope(|scope| {
        let spell = |thread: u32, i: u32| match thread {
            0 => format!("straße {i}"),
            1 => format!("STRASSE {i}"),
            2 => format!("Straße {i}"),
            _ => format!("sTrAsSe {i}"),
        };
        let work = |thread| {
            let (fs, dir) = (&fs, &dir);
            move || {
                let mut made = 0;
                for i in 0..1500 {
                    let name = spell(thread, i);
                    match create(fs, dir, name.as_bytes(), &FILE) {
                        Ok(_) => made += 1,
                        Err(e) => assert_eq!(e, Errno::EEXIST),
                    }
                    assert!(lookup(fs, dir, spell(3 - thread, i).as_bytes()).is_ok());
                }
                made
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(work(thread))).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .collect()
    });
    assert_eq!(made.iter().sum::<usize>(), 1500);
    drop(dir);
    path.end(fs);
}

#[test]
fn the_flag_is_of_empty_directories_and_inherited() {
    let path = image("16M", "-b 1024 -O casefold");
    let fs = path.mount();
    let top = fs.top();
    let plain = fs.make(&top, b"plain", &DIR);
    fs.make(&plain, b"Name", &FILE);
    let set = |node: &InodeRef, flags| {
        let result = fs.volume.report(fs.files.set_flags(&ROOT, node, flags));
        result.map_err(|e| e.errno())
    };
    let (on, off) = (
        InodeFlags::EXTENTS | InodeFlags::CASEFOLD,
        InodeFlags::EXTENTS,
    );
    assert_eq!(set(&plain, on), Err(Errno::ENOTEMPTY));
    assert_eq!(set(&fs.get(&plain, b"Name"), on), Err(Errno::EOPNOTSUPP));
    assert_eq!(lookup(&fs, &plain, b"name"), Err(Errno::ENOENT));
    assert_eq!(lookup(&fs, &plain, b"NAME"), Err(Errno::ENOENT));
    fs.remove(&plain, b"Name");
    assert_eq!(set(&plain, on), Ok(()));
    // What was looked up before is not known by its old key.
    let ino = fs.make(&plain, b"nAme", &FILE).ino;
    for name in [&b"name"[..], b"NAME", b"Name", b"nAme"] {
        assert_eq!(lookup(&fs, &plain, name), Ok(ino));
    }
    assert_eq!(set(&plain, off), Err(Errno::ENOTEMPTY));
    fs.remove(&plain, b"NAME");
    assert_eq!(set(&plain, off), Ok(()));
    fs.make(&plain, b"nAme", &FILE);
    assert_eq!(lookup(&fs, &plain, b"name"), Err(Errno::ENOENT));

    let dir = make_folding(&fs, &top, b"folding");
    let below = fs.make(&dir, b"Below", &DIR);
    assert!(fs.files.flags(&below).contains(InodeFlags::CASEFOLD));
    let file = fs.make(&below, b"File", &FILE);
    assert!(!fs.files.flags(&file).contains(InodeFlags::CASEFOLD));
    assert_eq!(lookup(&fs, &fs.get(&dir, b"BELOW"), b"FILE"), Ok(file.ino));
    drop((top, plain, dir, below, file));
    path.end(fs);

    let path = image("16M", "-b 1024");
    let fs = path.mount();
    let dir = fs.make(&fs.top(), b"d", &DIR);
    let result = fs.volume.report(fs.files.set_flags(&ROOT, &dir, on));
    let errno = result.map_err(|e| e.errno());
    assert_eq!(errno, Err(Errno::EOPNOTSUPP));
}

#[test]
fn a_rename_to_another_case_changes_the_spelling_alone() {
    for shape in [
        "-b 1024 -O casefold",
        "-b 1024 -I 512 -O casefold,inline_data",
    ] {
        let path = image("16M", shape);
        let fs = path.mount();
        let dir = make_folding(&fs, &fs.top(), b"d");
        let ino = fs.make(&dir, b"readme", &FILE).ino;
        let below = fs.make(&dir, b"below", &DIR).ino;
        let rename = |old: &[u8], new: &[u8], flags| rename(&fs, &dir, old, new, flags);
        assert_eq!(rename(b"README", b"ReadMe", RenameFlags::empty()), Ok(()));
        assert_eq!(
            rename(b"below", "BELOW\u{ad}".as_bytes(), RenameFlags::empty()),
            Ok(())
        );
        let stored = [&b"BELOW\xc2\xad"[..], b"ReadMe"];
        assert_eq!(names(&fs, &dir), stored);
        assert_eq!(lookup(&fs, &dir, b"readme"), Ok(ino));
        assert_eq!(lookup(&fs, &dir, b"Below"), Ok(below));
        let exists = rename(b"readme", b"README", RenameFlags::NOREPLACE);
        assert_eq!(exists, Err(Errno::EEXIST));
        assert_eq!(rename(b"readme", b"README", RenameFlags::EXCHANGE), Ok(()));
        assert_eq!(names(&fs, &dir), stored);
        // Over another: its entry stays, with its spelling.
        fs.make(&dir, b"Other", &FILE);
        assert_eq!(rename(b"README", b"OTHER", RenameFlags::empty()), Ok(()));
        assert_eq!(names(&fs, &dir), [&b"BELOW\xc2\xad"[..], b"Other"]);
        assert_eq!(lookup(&fs, &dir, b"other"), Ok(ino));
        drop(dir);
        path.end(fs);
    }
}

#[test]
fn what_is_not_utf8_is_refused_by_a_strict_encoding_alone() {
    for (flags, expected) in [(",encoding_flags=strict", Err(Errno::EINVAL)), ("", Ok(()))] {
        let shape = format!("-b 1024 -O casefold -E encoding=utf8{flags}");
        let path = image("16M", &shape);
        let fs = path.mount();
        let top = fs.top();
        let dir = make_folding(&fs, &top, b"d");
        let file = fs.make(&dir, b"file", &FILE);
        let name = b"A\xff";
        assert_eq!(create(&fs, &dir, name, &FILE).map(drop), expected);
        let linked = errno(FileSystem::link(&*fs, &ROOT, &file, &dir, b"B\xff"));
        assert_eq!(linked, expected);
        let renamed = rename(&fs, &dir, b"file", b"C\xff", RenameFlags::empty());
        assert_eq!(renamed, expected);
        let absent = expected.and(Err(Errno::ENOENT));
        assert_eq!(lookup(&fs, &dir, b"a\xff").map(drop), absent);
        assert_eq!(lookup(&fs, &dir, name).map(drop), expected);
        fs.make(&top, name, &FILE);
        drop((top, dir, file));
        path.end(fs);
    }
}

#[test]
fn an_unknown_encoding_is_not_mounted() {
    let path = image("16M", "-b 1024 -O casefold");
    run(Command::new("debugfs")
        .args(["-w", "-R", "set_super_value encoding 2"])
        .arg(&path));
    let device = FileDevice::open(&path, &OpenOptions::read_write()).expect("open");
    let mounted = Ext4::mount(Arc::new(device), MountOptions::default());
    let Err(why) = mounted else {
        panic!("it is mounted")
    };
    let why = why.to_string();
    assert!(why.contains("encoding"), "{why}");
}

/// The verdicts of Linux 6.1 on 100,000 pairs of names, by their checksum: `tests/guest` compares all of them.
#[test]
fn a_hundred_thousand_names_get_the_verdicts_of_the_kernel() {
    let pairs = pairs(100_000);
    for (flags, recorded) in [
        ("", KERNEL_VERDICTS),
        (",encoding_flags=strict", KERNEL_STRICT),
    ] {
        let shape = format!("-b 4096 -O casefold,^has_journal -E encoding=utf8{flags}");
        let path = image("32M", &shape);
        let fs = path.mount();
        let dir = make_folding(&fs, &fs.top(), b"d");
        let verdicts = verdicts(&fs, &dir, &pairs);
        let of = |letter| verdicts.iter().filter(|v| **v == letter).count();
        let counts: [usize; 6] = [b'a', b'b', b'c', b'd', b'e', b'f'].map(of);
        assert_eq!((crc32c(0, &verdicts), counts), recorded, "{flags}");
        drop(dir);
        path.end(fs);
    }
}

//! Encrypted files at the edges: keys that are removed while files are open, directories with many names, clusters of several blocks. Needs root, loop
//! devices, and a kernel with fscrypt.

use crate::encryption::{open, remove, with_key};
use crate::*;
use std::os::unix::fs::DirEntryExt;
use uext4_ext4::KeyRing;
use uext4_testkit::encrypted;
use uext4_vfs::errno::Errno;
use uext4_vfs::io::IoFlags;

/// Names in the directory `many`, and the files that they are links of.
const NAMES: usize = 10_000;
const FILES: usize = 100;

/// Makes the directory, with names of all lengths.
const FILL_MANY: &str = r"
path = os.path.join(top, 'many')
os.mkdir(path)
dir = os.open(path, os.O_RDONLY)
policy = struct.pack('=BBBBBBBB', 2, 1, 4, 0, 0, 0, 0, 0) + identifier
fcntl.ioctl(dir, 0x800C6613, bytearray(policy), True)
os.chdir(path)
def name(i): return ('%d-' % i).ljust(1 + i * 7 % 255, 'n')
for i in range(10000):
    if i < 100: open(name(i), 'w').close()
    else: os.link(name(i % 100), name(i))
os.chdir('/')
";

/// What `name` of [`FILL_MANY`] makes.
fn name_of(i: usize) -> Vec<u8> {
    let mut name = format!("{i}-").into_bytes();
    name.resize(name.len().max(1 + i * 7 % 255), b'n');
    name
}

/// The names and inode numbers of the directory.
fn listed(fs: &Ext4, dir: &InodeRef) -> Result<BTreeMap<Vec<u8>, u64>> {
    let mut entries = BTreeMap::new();
    fs.readdir(&Caller::root(), dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            entries.insert(entry.name.to_vec(), entry.ino);
        }
        true
    })?;
    Ok(entries)
}

/// Looks up every fiftieth name.
fn look_up_some(fs: &Ext4, dir: &InodeRef, entries: &BTreeMap<Vec<u8>, u64>) -> Result<()> {
    for (name, ino) in entries.iter().step_by(NAMES / 200) {
        let node = fs.lookup(&Caller::root(), dir, name);
        let node = node.with_context(|| tree::show(name))?;
        assert_eq!(u64::from(node.ino.0), *ino, "{}", tree::show(name));
    }
    Ok(())
}

#[test]
fn ten_thousand_encrypted_names_are_found_and_removed() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let made = encrypted::filled_by(dir.path(), "64M", &["-b", "1024"], FILL_MANY)?;
    let (image, _) = require!(some made, Ok(()));
    let caller = Caller::root();
    let fs = open(&image, &with_key()?)?;
    let many = fs.lookup(&caller, &fs.root()?.clone(), b"many")?;
    let entries = listed(&fs, &many)?;
    let names: BTreeSet<Vec<u8>> = (0..NAMES).map(name_of).collect();
    assert!(entries.keys().eq(&names), "{} names", entries.len());
    for i in 0..NAMES {
        assert_eq!(entries[&name_of(i)], entries[&name_of(i % FILES)], "{i}");
    }
    look_up_some(&fs, &many, &entries)?;
    let missing = fs.lookup(&caller, &many, b"no such name");
    assert_eq!(missing.err().map(|e| e.errno()), Some(Errno::ENOENT));
    fs.unmount()?;
    drop((many, fs));

    let mount = KernelMount::new(&image, &dir.path().join("mount"), "ro")?;
    let mut theirs = BTreeMap::new();
    for entry in std::fs::read_dir(mount.dir().join("many"))? {
        let entry = entry?;
        theirs.insert(entry.file_name().as_bytes().to_vec(), entry.ino());
    }
    mount.unmount()?;
    let fs = open(&image, &KeyRing::new())?;
    let many = fs.lookup(&caller, &fs.root()?.clone(), b"many")?;
    let entries = listed(&fs, &many)?;
    assert_eq!(entries.len(), NAMES);
    assert!(entries == theirs, "names differ from the kernel's");
    look_up_some(&fs, &many, &entries)?;
    drop(many);
    remove(&fs, &fs.root()?.clone(), b"many")?;
    fs.unmount()?;
    drop(fs);
    oracle::fsck(&image)?;
    oracle::check(&FileDevice::open(&image, &OpenOptions::read_only())?)
}

#[test]
fn encrypted_files_in_clusters_are_read_with_the_key() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (image, made) = require!(some encrypted::filled_clusters(dir.path())?, Ok(()));
    assert!(made.contains(&"v1".to_owned()) && made.contains(&"v2".to_owned()));
    let mount = KernelMount::new(&image, &dir.path().join("mount"), "ro")?;
    encrypted::add_key(&mount)?;
    let theirs = tree::of_dir(mount.dir())?;
    mount.unmount()?;
    let fs = open(&image, &with_key()?)?;
    tree::same("ours / the kernel's", &tree::of_fs(&*fs)?, &theirs)?;
    fs.unmount()?;
    drop(fs);
    let fs = open(&image, &KeyRing::new())?;
    let root = fs.root()?.clone();
    let v2 = fs.lookup(&Caller::root(), &root, b"v2")?;
    let mut refused = 0;
    for name in tree::names(&*fs, &v2, usize::MAX)? {
        let node = fs.lookup(&Caller::root(), &v2, &name)?;
        let attr = fs.getattr(&node)?;
        if attr.kind == FileKind::Regular && attr.size > 0 {
            let read = fs.read_with(&node, 0, &mut [0; 100], IoFlags::empty());
            assert_eq!(read.err().map(|e| e.errno()), Some(Errno::ENOKEY));
            refused += 1;
        }
    }
    assert!(refused > 10);
    for name in made {
        remove(&fs, &root, name.as_bytes())?;
    }
    drop((v2, root));
    fs.unmount()?;
    drop(fs);
    oracle::fsck(&image)?;
    oracle::check(&FileDevice::open(&image, &OpenOptions::read_only())?)
}

#[test]
fn a_file_that_is_open_is_read_while_its_key_is_there() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (image, _) = require!(some encrypted::filled(dir.path())?, Ok(()));
    let keys = with_key()?;
    let fs = open(&image, &keys)?;
    let caller = Caller::root();
    let mut files = Vec::new();
    for name in [&b"v1"[..], b"v2"] {
        let dir = fs.lookup(&caller, &fs.root()?.clone(), name)?;
        let file = fs.lookup(&caller, &dir, b"odd")?;
        let data = tree::entry_of(&*fs, &file)?.data;
        assert_eq!(data.len(), 70_001);
        files.push((file, data));
    }
    for (file, data) in &files {
        for round in 0..3 {
            let names = keys.names();
            assert!(keys.remove(&names[round % names.len()]));
            for at in [0, 5, 4096, 69_999] {
                let read = fs.read_with(file, at, &mut [0; 5000], IoFlags::empty());
                assert_eq!(read.err().map(|e| e.errno()), Some(Errno::ENOKEY));
            }
            assert_eq!(fs.getattr(file)?.size, 70_001);
            keys.add(&encrypted::key()).context("a key")?;
            assert!(tree::entry_of(&*fs, file)?.data == *data);
        }
    }
    // Reads meet removals at any moment.
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = files
            .iter()
            .map(|(file, data)| scope.spawn(|| read_until(&fs, file, data, &ends)))
            .collect();
        for _ in 0..300 {
            assert!(keys.remove(&keys.names()[0]));
            thread::yield_now();
            keys.add(&encrypted::key()).context("a key")?;
            thread::sleep(Duration::from_micros(500));
        }
        ends.store(true, Ordering::Relaxed);
        for reader in readers {
            let [read, refused] = reader.join().map_err(|_| anyhow!("a panic"))??;
            println!("{read} reads, {refused} without the key");
            ensure!(read > 0);
        }
        Ok(())
    })
}

/// Reads a file until `ends`: how often its data was read, and how often the key was missing.
fn read_until(fs: &Ext4, file: &InodeRef, data: &[u8], ends: &AtomicBool) -> Result<[u64; 2]> {
    let [mut read, mut refused] = [0, 0];
    let mut rng = Rng::with_seed(file.ino.0.into());
    while !ends.load(Ordering::Relaxed) || read == 0 {
        let at = rng.usize(..data.len());
        let mut part = vec![0; rng.usize(1..20_000).min(data.len() - at)];
        match fs.read_with(file, at as u64, &mut part, IoFlags::empty()) {
            Ok(n) => {
                ensure!(n == part.len() && part == data[at..at + n], "wrong at {at}");
                read += 1;
            }
            Err(why) => {
                ensure!(why.errno() == Errno::ENOKEY, "{why}");
                refused += 1;
            }
        }
    }
    Ok([read, refused])
}

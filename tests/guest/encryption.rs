//! Encrypted directories that a Debian kernel has filled, among them such as ignore case: names with the key and without it, and files.
use uext4_testkit::prelude::*;

use crate::{
    is_asked_for,
    machine::{Guest, printed},
};
use uext4_ext4::KeyRing;
use uext4_ondisk::Lblk;
use uext4_testkit::{encrypted, tree};
use uext4_vfs::errno::Errno;

const COMMANDS: &str = "
mount -t ext4 /dev/vda /mnt
/calls fill /mnt /key
umount /mnt
mount -t ext4 /dev/vda /mnt
/calls list /mnt
umount /mnt
echo done: all
";
/// Directories that Debian's kernel makes; it has no HCTR2.
const MADE: [&str; 10] = [
    "folds",
    "folds-hashed",
    "folds-cbc",
    "folds-ino64",
    "cbc",
    "adiantum",
    "direct",
    "v1",
    "v1-cbc",
    "v1-direct",
];

/// What the policies of version 1 have for the key.
const DESCRIPTOR: [u8; 8] = *b"\xfeother\0\x01";

fn calls(dir: &Path) -> Result<PathBuf> {
    let program = dir.join("calls");
    built::static_program("tests/guest/encryption/calls.rs", &program)?;
    Ok(program)
}

fn mounted(image: &Path, keys: &KeyRing) -> Arc<Ext4> {
    let options = MountOptions {
        keys: keys.clone(),
        ..MountOptions::default()
    };
    uext4_testkit::mke2fs::mount(image, options)
}

/// Inode numbers by path.
type Seen = BTreeMap<Vec<u8>, u64>;

fn seen_by_guest(lines: &[String]) -> Result<Seen> {
    let seen = lines.iter().filter_map(|line| line.strip_prefix("seen: "));
    seen.map(|line| {
        let (hex, ino) = line.split_once(' ').context("a line")?;
        let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16);
        let name: std::result::Result<_, _> = (0..hex.len()).step_by(2).map(digits).collect();
        Ok((name?, ino.parse()?))
    })
    .collect()
}

fn seen_here(fs: &Ext4, path: &[u8], dir: &InodeRef, seen: &mut Seen) -> Result<()> {
    for name in tree::names(fs, dir, usize::MAX)? {
        let node = fs.get(dir, &name);
        fs.getattr(&node)?;
        let path = tree::join(path, &name);
        seen.insert(path.clone(), u64::from(node.ino.0));
        if node.is_dir() {
            seen_here(fs, &path, &node, seen)?;
        }
    }
    Ok(())
}

/// Fails unless the names and the files are those that `calls` made.
fn read(fs: &Ext4, name: &str, count: usize) -> Result<()> {
    let dir = fs.get(&fs.top(), name);
    let mut sought: BTreeMap<Vec<u8>, Vec<u8>> = (0..count)
        .map(|i| {
            let name = format!("N\u{c4}me-{i}-{}", "m".repeat(i % 200));
            (name.into_bytes(), vec![i as u8; i])
        })
        .collect();
    sought.insert(b"Large".to_vec(), vec![9; 70_001]);
    sought.insert(b"Checked".to_vec(), vec![8; 700_001]);
    sought.insert(b"Is-Supported".to_vec(), b"yes".to_vec());
    for (made, data) in &sought {
        let node = fs.get(&dir, made);
        assert!(tree::entry_of(fs, &node)?.data == *data, "{name}/{made:?}");
        let other = std::str::from_utf8(made)?.to_lowercase();
        let found = fs.lookup(&Caller::root(), &dir, other.as_bytes());
        match name.starts_with("folds") {
            true => assert_eq!(found?.ino, node.ino, "{name}/{other}"),
            false => assert_eq!(found.err().map(|e| e.errno()), Some(Errno::ENOENT)),
        }
    }
    assert_eq!(
        tree::entry_of(fs, &fs.get(&dir, b"Link"))?.data,
        b"a target"
    );
    let sub = fs.get(&dir, b"Sub");
    let file = fs.get(&sub, b"File");
    assert_eq!(tree::entry_of(fs, &file)?.data, b"in a directory");
    sought.extend([b"Link", &b"Sub"[..]].map(|name| (name.to_vec(), Vec::new())));
    let listed: BTreeSet<Vec<u8>> = tree::names(fs, &dir, usize::MAX)?.into_iter().collect();
    assert!(listed.iter().eq(sought.keys()), "{name}");
    Ok(())
}

/// Fails unless the files with fs-verity are seen without the key, and not read.
fn checked_without_key(fs: &Ext4, made: &[(&str, usize)]) -> Result<()> {
    for (name, _) in made {
        let dir = fs.get(&fs.top(), *name);
        let mut checked = 0;
        for name in tree::names(fs, &dir, usize::MAX)? {
            let node = fs.get(&dir, &name);
            if fs.getattr(&node)?.size == 700_001 {
                let read = tree::entry_of(fs, &node).expect_err("no key");
                let said = format!("{read:#}");
                assert!(said.contains("its key is not there"), "{said}");
                checked += 1;
            }
        }
        assert_eq!(checked, 1, "{name}");
    }
    Ok(())
}

/// Damages the last block of data of each file with fs-verity: it alone is refused.
fn damage_checked(image: &Path, keys: &KeyRing, made: &[(&str, usize)]) -> Result<()> {
    let fs = mounted(image, keys);
    let mut places = Vec::new();
    for (name, _) in made {
        let node = fs.get(&fs.get(&fs.top(), *name), b"Checked");
        let last = fs.mapping.map_block(&node, Lblk(700_000 / 4096))?;
        places.push(last.pblk.context("the last block")?.0 * 4096);
    }
    fs.unmount()?;
    drop(fs);
    let file = File::options().read(true).write(true).open(image)?;
    for place in places {
        let mut byte = [0];
        file.read_exact_at(&mut byte, place)?;
        file.write_all_at(&[byte[0] ^ 1], place)?;
    }
    drop(file);
    let fs = mounted(image, keys);
    for (name, _) in made {
        let node = fs.get(&fs.get(&fs.top(), *name), b"Checked");
        let mut part = vec![0; 8192];
        fs.read(&node, 0, &mut part)?;
        assert!(part == [8; 8192], "{name}");
        let read = fs.read(&node, 699_000, &mut part);
        assert_eq!(read.err().map(|e| e.errno()), Some(Errno::EIO), "{name}");
    }
    fs.unmount()?;
    Ok(())
}

fn remove(fs: &Ext4, dir: &InodeRef, name: &[u8]) -> Result<()> {
    let node = fs.get(dir, name);
    if !node.is_dir() {
        return Ok(fs.unlink(&Caller::root(), dir, name)?);
    }
    for name in tree::names(fs, &node, usize::MAX)? {
        remove(fs, &node, &name)?;
    }
    Ok(fs.rmdir(&Caller::root(), dir, name)?)
}

/// Removes all of some directories.
fn remove_all(image: &Path, keys: &KeyRing, names: &[&str]) -> Result<()> {
    let fs = mounted(image, keys);
    for name in names {
        remove(&fs, &fs.top(), name.as_bytes())?;
    }
    fs.unmount()?;
    drop(fs);
    oracle::fsck(image)?;
    oracle::check(&FileDevice::open(image, &OpenOptions::read_only())?)
}

#[test]
fn encrypted_names_are_those_of_the_kernel_in_directories_that_ignore_case_too() -> Result<()> {
    if !is_asked_for() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let (image, key) = (dir.path().join("image"), dir.path().join("key"));
    let features = ["-O", "encrypt,casefold,stable_inodes,verity", "-b", "4096"];
    uext4_testkit::mke2fs::make(&image, "64M", &features);
    std::fs::write(&key, encrypted::key())?;
    let calls = calls(dir.path())?;
    let guest = Guest {
        disks: &[&image],
        files: &[&calls, &key],
        modules: "ext4 adiantum nhpoly1305 chacha_generic essiv cts xts cbc ecb hmac sha256_generic sha512_generic",
    };
    let lines = guest.run(COMMANDS)?;
    printed(&lines, "done")?;
    let made: Vec<(&str, usize)> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("made: ")?.split_once(' '))
        .map(|(name, count)| Ok((name, count.parse()?)))
        .collect::<Result<_>>()?;
    for name in MADE {
        assert!(made.iter().any(|(made, _)| *made == name), "{name}");
    }

    let theirs = seen_by_guest(&lines)?;
    let fs = mounted(&image, &KeyRing::new());
    let mut ours = Seen::new();
    seen_here(&fs, b"", &fs.top(), &mut ours)?;
    checked_without_key(&fs, &made)?;
    let differ = theirs
        .iter()
        .filter(|seen| ours.get(seen.0) != Some(seen.1));
    let differ: Vec<_> = differ.map(|(name, _)| tree::show(name)).collect();
    assert!(
        differ.is_empty() && ours.len() == theirs.len(),
        "{differ:?}"
    );
    fs.unmount()?;
    drop(fs);

    let keys = KeyRing::new();
    keys.add_as(&encrypted::key(), Some(DESCRIPTOR))
        .context("the key's length")?;
    let fs = mounted(&image, &keys);
    for (name, count) in &made {
        read(&fs, name, *count)?;
    }
    fs.unmount()?;
    drop(fs);
    damage_checked(&image, &keys, &made)?;
    remove_all(
        &image,
        &keys,
        &["folds-hashed", "folds-cbc", "adiantum", "v1"],
    )?;
    let rest = [
        "folds",
        "folds-ino64",
        "cbc",
        "direct",
        "v1-cbc",
        "v1-direct",
    ];
    remove_all(&image, &KeyRing::new(), &rest)
}

//! Directories that ignore case, ours and the kernel's: each reads what the other wrote, and both say the same of names.
use uext4_testkit::prelude::*;

use crate::{
    is_asked_for,
    machine::{Guest, printed},
};
use uext4_testkit::folding_names::{Pair, make_folding, pairs, spellings, verdicts};
use uext4_testkit::program::run;

/// Pairs of names that get a verdict.
const PAIRS: usize = 100_000;
/// Names of a directory of one block, and of one with a tree of hashes of two levels.
const FEW: usize = 12;
const MANY: usize = 6000;

const COMMANDS: &str = "
for disk in vda vdb; do
  mkdir /$disk; mount -t ext4 /dev/$disk /$disk; cd /$disk
  mkdir verdicts linear hashed
  for dir in verdicts linear hashed; do /calls fold $dir; done
  /calls verdicts /pairs verdicts answers
  rmdir verdicts
  /calls fill /few linear; /calls fill /many hashed
  cd /; umount /$disk
done
mount -t ext4 /dev/vdc /mnt
/calls seek /few_other /mnt/linear
/calls seek /many_other /mnt/hashed
/calls seek /few_other /mnt/inline
/calls fill /more /mnt/hashed
umount /mnt
echo done: all
";

/// A file of the names that a pair has, as `calls` reads it.
fn list<'a>(dir: &Path, name: &str, names: impl Iterator<Item = &'a Vec<u8>>) -> Result<PathBuf> {
    let mut bytes = Vec::new();
    for name in names {
        bytes.push(u8::try_from(name.len())?);
        bytes.extend_from_slice(name);
    }
    let path = dir.join(name);
    std::fs::write(&path, bytes)?;
    Ok(path)
}

fn calls(dir: &Path) -> Result<PathBuf> {
    let program = dir.join("calls");
    built::static_program("tests/guest/casefold/calls.rs", &program)?;
    Ok(program)
}

fn empty(dir: &Path, name: &str, strict: bool) -> Result<PathBuf> {
    let path = dir.join(name);
    let mut command = Command::new(built::uext4());
    command.args([
        "mkfs",
        "--size",
        "256M",
        "--inode-size",
        "1024",
        "-O",
        "casefold,inline_data",
    ]);
    if strict {
        command.args(["-E", "encoding_flags=strict"]);
    }
    run(command.arg(&path))?;
    Ok(path)
}

fn mounted(path: &Path) -> Arc<Ext4> {
    uext4_testkit::mke2fs::mount(path, MountOptions::default())
}

fn end(path: &Path, fs: Arc<Ext4>) -> Result<()> {
    fs.unmount()?;
    drop(fs);
    oracle::fsck(path)?;
    oracle::check(&FileDevice::open(path, &OpenOptions::read_only())?)
}

/// Fails unless each name is found by its other spelling.
fn seek(fs: &Ext4, dir: &InodeRef, names: &[Pair]) {
    for pair in names {
        assert_eq!(fs.get(dir, &pair.sought).ino, fs.get(dir, &pair.made).ino);
    }
}

fn filled(path: &Path, few: &[Pair], many: &[Pair]) -> Result<()> {
    let fs = mounted(path);
    let top = fs.top();
    for (name, names) in [(&b"linear"[..], few), (b"hashed", many), (b"inline", few)] {
        let dir = make_folding(&fs, &top, name);
        for pair in names {
            fs.make(&dir, &pair.made, &FILE);
        }
    }
    drop(top);
    end(path, fs)
}

#[test]
fn a_hundred_thousand_names_get_the_verdicts_of_the_kernel() -> Result<()> {
    if !is_asked_for() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let dir = dir.path();
    let (pairs, few) = (pairs(PAIRS), spellings(1, FEW));
    let mut many = spellings(2, MANY * 2);
    let more = many.split_off(MANY);
    let lax = empty(dir, "lax", false)?;
    let strict = empty(dir, "strict", true)?;
    let ours = empty(dir, "ours", false)?;
    filled(&ours, &few, &many)?;
    fn made(names: &[Pair]) -> impl Iterator<Item = &Vec<u8>> {
        names.iter().map(|pair| &pair.made)
    }
    fn sought(names: &[Pair]) -> impl Iterator<Item = &Vec<u8>> {
        names.iter().map(|pair| &pair.sought)
    }
    let both = pairs.iter().flat_map(|pair| [&pair.made, &pair.sought]);
    let files = [
        calls(dir)?,
        list(dir, "pairs", both)?,
        list(dir, "few", made(&few))?,
        list(dir, "many", made(&many))?,
        list(dir, "few_other", sought(&few))?,
        list(dir, "many_other", sought(&many))?,
        list(dir, "more", made(&more))?,
    ];
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let guest = Guest {
        disks: &[&lax, &strict, &ours],
        files: &files,
        modules: "ext4",
    };
    let lines = guest.run(COMMANDS)?;
    printed(&lines, "done")?;

    for path in [&lax, &strict] {
        let fs = mounted(path);
        let top = fs.top();
        let answers = fs.get(&top, b"answers");
        let mut kernel = vec![0; PAIRS];
        let read = FileSystem::read(&*fs, &answers, 0, &mut kernel);
        ensure!(read.is_ok_and(|len| len == PAIRS), "the guest's answers");
        let verdicts = verdicts(&fs, &make_folding(&fs, &top, b"verdicts"), &pairs);
        let differ = pairs.iter().zip(kernel.iter().zip(&verdicts));
        let differ: Vec<_> = differ
            .filter(|(_, (kernel, ours))| kernel != ours)
            .collect();
        assert!(
            differ.is_empty(),
            "{}: {:x?}",
            differ.len(),
            &differ[..differ.len().min(9)]
        );
        eprintln!("verdicts: {:#x}", uext4_ondisk::crc32c(0, &kernel));
        seek(&fs, &fs.get(&top, b"linear"), &few);
        seek(&fs, &fs.get(&top, b"hashed"), &many);
        drop((top, answers));
        end(path, fs)?;
    }
    let fs = mounted(&ours);
    let hashed = fs.get(&fs.top(), b"hashed");
    seek(&fs, &hashed, &many);
    seek(&fs, &hashed, &more);
    drop(hashed);
    end(&ours, fs)?;
    let listed = run(Command::new("debugfs")
        .args(["-R", "ls -p /hashed"])
        .arg(&ours))?;
    assert_eq!(
        listed
            .out
            .lines()
            .filter(|line| line.starts_with('/'))
            .count(),
        2 * MANY + 2
    );
    Ok(())
}

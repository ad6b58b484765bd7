//! Files that the kernel has encrypted: read here with their keys, and listed and removed without them as the kernel does it. Needs root, loop devices,
//! and a kernel with fscrypt.

use crate::*;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use uext4_ext4::KeyRing;
use uext4_testkit::encrypted;
use uext4_vfs::errno::Errno;
use uext4_vfs::fiemap::{FiemapFlags, FiemapOf};

pub fn open(image: &Path, keys: &KeyRing) -> Result<Arc<Ext4>> {
    let device = FileDevice::open(image, &OpenOptions::read_write())?;
    let options = MountOptions {
        keys: keys.clone(),
        ..MountOptions::default()
    };
    Ok(Ext4::mount(Arc::new(device), options)?)
}

pub fn with_key() -> Result<KeyRing> {
    let keys = KeyRing::new();
    keys.add(&encrypted::key())
        .context("the length of the key")?;
    Ok(keys)
}

/// What is seen of an inode without its key.
type Seen = BTreeMap<Vec<u8>, (u64, u64, Vec<u8>)>;

fn seen_by_kernel(top: &Path, dir: &Path, seen: &mut Seen) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let meta = path.symlink_metadata()?;
        let target = match meta.is_symlink() {
            true => path.read_link()?.as_os_str().as_bytes().to_vec(),
            false => Vec::new(),
        };
        let name = path.strip_prefix(top)?.as_os_str().as_bytes().to_vec();
        seen.insert(name, (meta.ino(), meta.size(), target));
        if meta.is_dir() {
            seen_by_kernel(top, &path, seen)?;
        }
    }
    Ok(())
}

fn seen_here(fs: &Ext4, path: &[u8], dir: &InodeRef, seen: &mut Seen) -> Result<()> {
    let caller = Caller::root();
    for name in tree::names(fs, dir, usize::MAX)? {
        let node = fs
            .lookup(&caller, dir, &name)
            .with_context(|| format!("look-up of {}", tree::show(&name)))?;
        let attr = fs.getattr(&node)?;
        let target = match attr.kind {
            FileKind::Symlink => fs.readlink(&caller, &node)?,
            _ => Vec::new(),
        };
        let path = tree::join(path, &name);
        seen.insert(path.clone(), (u64::from(node.ino.0), attr.size, target));
        if attr.kind == FileKind::Directory {
            seen_here(fs, &path, &node, seen)?;
        }
    }
    Ok(())
}

#[test]
fn what_the_kernel_encrypts_is_read_with_the_key() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (image, made) = require!(some encrypted::filled(dir.path())?, Ok(()));
    let mount_at = dir.path().join("mount");
    let mount = KernelMount::new(&image, &mount_at, "ro")?;
    encrypted::add_key(&mount)?;
    let theirs = tree::of_dir(mount.dir())?;
    mount.unmount()?;
    let fs = open(&image, &with_key()?)?;
    let ours = tree::of_fs(&*fs)?;
    tree::same("ours / the kernel's", &ours, &theirs)?;
    assert!(made.contains(&"v1".to_owned()) && made.contains(&"v2".to_owned()));
    let caller = Caller::root();
    let dir = fs.lookup(&caller, &fs.root()?.clone(), b"v2")?;
    let odd = fs.lookup(&caller, &dir, b"odd")?;
    let extents = fs.files.fiemap(&odd, FiemapOf::Data, 0, 1 << 20)?;
    let encrypted = FiemapFlags::ENCRYPTED | FiemapFlags::ENCODED;
    assert!(
        extents
            .iter()
            .all(|extent| extent.flags.contains(encrypted))
    );
    assert_eq!(fs.files.extents_in_place(&odd)?, []);
    println!("policies: {}", made.join(" "));
    fs.unmount()?;
    drop(fs);
    oracle::fsck(&image)
}

#[test]
fn without_the_key_the_names_are_the_kernels() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (image, _) = require!(some encrypted::filled(dir.path())?, Ok(()));
    let mount_at = dir.path().join("mount");
    let mount = KernelMount::new(&image, &mount_at, "ro")?;
    let mut theirs = Seen::new();
    seen_by_kernel(mount.dir(), mount.dir(), &mut theirs)?;
    mount.unmount()?;
    let fs = open(&image, &KeyRing::new())?;
    let mut ours = Seen::new();
    seen_here(&fs, b"", &fs.root()?.clone(), &mut ours)?;
    for (name, seen) in &theirs {
        let here = ours.get(name);
        ensure!(
            here == Some(seen),
            "{}: {here:?}, the kernel {seen:?}",
            tree::show(name)
        );
    }
    assert_eq!(ours.len(), theirs.len());
    let caller = Caller::root();
    for name in ["v1", "v2"] {
        refuse_without_key(
            &fs,
            &fs.lookup(&caller, &fs.root()?.clone(), name.as_bytes())?,
        )?;
    }
    for name in tree::names(&*fs, &fs.root()?.clone(), 100)? {
        if name != b"lost+found" {
            remove(&fs, &fs.root()?.clone(), &name)?;
        }
    }
    fs.unmount()?;
    drop(fs);
    oracle::fsck(&image)?;
    oracle::check(&MemoryDevice::from_bytes(&std::fs::read(&image)?))
}

fn refuse_without_key(fs: &Ext4, dir: &InodeRef) -> Result<()> {
    let caller = Caller::root();
    let errno = |done: uext4_vfs::errno::Result<()>| done.err().map(|e| e.errno());
    let file = tree::names(fs, dir, 10_000)?.into_iter().find(|name| {
        let found = fs.lookup(&caller, dir, name);
        found.is_ok_and(|node| node.file_type == uext4_ondisk::FileType::Regular)
    });
    let name = file.context("a file")?;
    let node = fs.lookup(&caller, dir, &name)?;
    let read = fs.read_with(&node, 0, &mut [0; 10], uext4_vfs::io::IoFlags::empty());
    if fs.getattr(&node)?.size > 0 {
        assert_eq!(errno(read.map(drop)), Some(Errno::ENOKEY));
    }
    let plain = fs.lookup(&caller, dir, b"short").map(drop);
    assert_eq!(errno(plain), Some(Errno::ENOENT));
    let new = NewNode {
        mode: 0o644,
        kind: uext4_vfs::attr::NewKind::Regular,
    };
    let made = fs.create(&caller, dir, b"new", &new).map(drop);
    assert_eq!(errno(made), Some(Errno::ENOKEY));
    assert_eq!(
        errno(fs.link(&caller, &node, dir, b"new")),
        Some(Errno::ENOKEY)
    );
    let flags = uext4_vfs::attr::RenameFlags::empty();
    let renamed = fs.rename(&caller, dir, &name, dir, b"new", flags);
    assert_eq!(errno(renamed), Some(Errno::ENOKEY));
    Ok(())
}

pub fn remove(fs: &Ext4, dir: &InodeRef, name: &[u8]) -> Result<()> {
    let caller = Caller::root();
    let node = fs.lookup(&caller, dir, name)?;
    if !node.is_dir() {
        return Ok(fs.unlink(&caller, dir, name)?);
    }
    for name in tree::names(fs, &node, usize::MAX)? {
        remove(fs, &node, &name)?;
    }
    Ok(fs.rmdir(&caller, dir, name)?)
}

//! Images with inline data, used by us and by the kernel in turn. Needs root and loop devices.

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use uext4_block::{FileDevice, MemoryDevice, OpenOptions};
use uext4_ext4::Ext4;
use uext4_ondisk::InodeFlags;
use uext4_testkit::image::{Shape, mount_as};
use uext4_testkit::operation::{Op, apply, find};
use uext4_testkit::oracle::{self, KernelMount};
use uext4_testkit::tree::{self, Tree};
use uext4_vfs::attr::RenameFlags;
use uext4_vfs::errno::Errno;
use uext4_vfs::filesystem::FileSystem;
use uext4_vfs::io::Fallocate;

fn same(what: &str, left: &Tree, right: &Tree) -> Result<()> {
    match tree::difference(left, right) {
        Some(difference) => bail!("{what}: {difference}"),
        None => Ok(()),
    }
}

fn open(image: &Path, seed: u64) -> Result<Arc<Ext4>> {
    mount_as(
        Arc::new(FileDevice::open(image, &OpenOptions::read_write())?),
        seed,
    )
}

fn close(fs: Arc<Ext4>, image: &Path) -> Result<()> {
    fs.unmount()?;
    drop(fs);
    oracle::fsck(image)?;
    oracle::check(&MemoryDevice::from_bytes(&std::fs::read(image)?))
}

/// A name in a directory, or a file's: small numbers, so that operations meet.
fn path(rng: &mut Rng) -> String {
    let pad = "n".repeat(*rng.choice(&[0, 0, 3, 30, 100]).unwrap_or(&0));
    match rng.bool() {
        true => format!("f{}", rng.u8(..12)),
        false => format!("d{}/{}{pad}", rng.u8(..4), rng.u8(..10)),
    }
}

/// An operation about the limit of what an inode holds.
fn random_op(rng: &mut Rng) -> Op {
    let path_of = |rng: &mut Rng| path(rng).into_bytes();
    let path = path_of(rng);
    let data = vec![rng.u8(1..); rng.usize(1..200)];
    match rng.u8(..24) {
        0..=4 => Op::Create { path, mode: 0o644 },
        5..=8 => Op::Write {
            path,
            at: rng.u64(..400),
            data,
            direct: false,
        },
        9..=11 => Op::Append { path, data },
        12..=14 => Op::Truncate {
            path,
            size: rng.u64(..400),
        },
        15..=16 => Op::Unlink { path, keep: false },
        17..=18 => Op::Rename {
            old: path,
            new: path_of(rng),
            flags: *rng
                .choice(&[RenameFlags::empty(), RenameFlags::EXCHANGE])
                .unwrap_or(&RenameFlags::empty()),
        },
        19..=21 => Op::SetXattr {
            path,
            name: format!("user.{}", rng.char('a'..='c')).into_bytes(),
            value: vec![rng.u8(..); rng.usize(..90)],
        },
        22 => Op::RemoveXattr {
            path,
            name: format!("user.{}", rng.char('a'..='c')).into_bytes(),
        },
        _ => Op::Mkdir {
            path: format!("d{}/sub{}", rng.u8(..4), rng.u8(..4)).into_bytes(),
            mode: 0o755,
        },
    }
}

fn make_dirs(fs: &Ext4) {
    for i in 0..4 {
        let path = format!("d{i}").into_bytes();
        // May be there from the round before.
        let _ = apply(fs, &Op::Mkdir { path, mode: 0o755 });
    }
}

/// The same operations by us and by the kernel give the same tree.
fn both(shape: &Shape, seed: u64) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let image = |name: &str| dir.path().join(name);
    let (ours, theirs) = (image("ours"), image("theirs"));
    let mount_at = image("mount");
    shape.make()?.save_to(&ours)?;
    shape.make()?.save_to(&theirs)?;
    let mut rng = Rng::with_seed(seed);
    for round in 0..3 {
        let ops: Vec<Op> = (0..250).map(|_| random_op(&mut rng)).collect();
        // Each takes what the other has made the round before.
        let (a, b) = match round % 2 {
            0 => (&ours, &theirs),
            _ => (&theirs, &ours),
        };
        let fs = open(a, seed + round)?;
        make_dirs(&fs);
        for op in &ops {
            if let Err(e) = apply(&*fs, op) {
                ensure!(is_expected(e.errno()), "{op:?}: {e:?}");
            }
        }
        let ours = tree::of_fs(&*fs)?;
        close(fs, a).with_context(|| format!("round {round}"))?;
        let mount = KernelMount::new(b, &mount_at, "rw")?;
        for i in 0..4 {
            let _ = std::fs::create_dir(mount.dir().join(format!("d{i}")));
        }
        for op in &ops {
            // Whether it could be done shows in the tree.
            let _ = kernel_apply(mount.dir(), op);
        }
        let theirs = tree::of_dir(mount.dir())?;
        mount.unmount()?;
        oracle::fsck(b)?;
        let again = oracle::kernel_tree(b, &mount_at)?;
        same("the kernel / itself later", &theirs, &again)?;
        same("we / the kernel", &ours, &theirs).with_context(|| format!("round {round}"))?;
        let again = oracle::kernel_tree(a, &mount_at)?;
        same("ours / the kernel's view of it", &ours, &again)?;
        let fs = open(b, seed)?;
        same(
            "the kernel's / our view of it",
            &theirs,
            &tree::of_fs(&*fs)?,
        )?;
        close(fs, b)?;
    }
    Ok(())
}

fn is_expected(e: Errno) -> bool {
    use Errno as E;
    [
        E::EEXIST,
        E::ENOENT,
        E::EISDIR,
        E::ENOTDIR,
        E::ENOTEMPTY,
        E::EINVAL,
        E::ENODATA,
        E::EPERM,
    ]
    .contains(&e)
}

fn kernel_apply(dir: &Path, op: &Op) -> Result<()> {
    let host =
        |path: &[u8]| -> Result<std::path::PathBuf> { Ok(dir.join(std::str::from_utf8(path)?)) };
    let write =
        |path: &[u8]| -> Result<File> { Ok(File::options().write(true).open(host(path)?)?) };
    match op {
        Op::Create { path, .. } => drop(File::create_new(host(path)?)?),
        Op::Mkdir { path, .. } => std::fs::create_dir(host(path)?)?,
        Op::Write { path, at, data, .. } => {
            write(path)?.write_all_at(data, *at)?;
        }
        Op::Append { path, data } => {
            let file = write(path)?;
            let at = file.metadata()?.len();
            file.write_all_at(data, at)?;
        }
        Op::Truncate { path, size } => {
            let file = write(path)?;
            let old = file.metadata()?.len();
            // Linux 6.18 loses what is written to a file with inline data after truncate made it grow.
            match old < *size {
                true => file.write_all_at(&vec![0; (*size - old) as usize], old)?,
                false => file.set_len(*size)?,
            }
        }
        Op::Unlink { path, .. } => std::fs::remove_file(host(path)?)?,
        Op::Rename { old, new, flags } => {
            let flags = match flags.contains(RenameFlags::EXCHANGE) {
                true => rustix::fs::RenameFlags::EXCHANGE,
                false => rustix::fs::RenameFlags::empty(),
            };
            let cwd = rustix::fs::CWD;
            rustix::fs::renameat_with(cwd, host(old)?, cwd, host(new)?, flags)?;
        }
        Op::SetXattr { path, name, value } => {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(host(path)?, &**name, value, flags)?;
        }
        Op::RemoveXattr { path, name } => rustix::fs::removexattr(host(path)?, &**name)?,
        other => bail!("{other:?}"),
    }
    Ok(())
}

#[test]
fn kernel_and_we_do_the_same() {
    if !oracle::kernel_mounts() {
        return;
    }
    for (seed, shape) in (1..).zip(Shape::INLINE.iter().cycle().take(10)) {
        both(shape, seed)
            .with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

/// What is inline, in bytes of data by name.
fn inline_sizes(fs: &Ext4, names: &[&str]) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for name in names {
        let node = find(fs, name.as_bytes())?;
        if fs.flags(&node).contains(InodeFlags::INLINE_DATA) {
            found.insert((*name).to_owned(), fs.getattr(&node)?.size);
        }
    }
    Ok(found)
}

/// What fits stays in the inode; what does not, or needs blocks, goes.
#[test]
fn regular_files_and_directories_stay_inline_as_long_as_they_fit() {
    let shape = &Shape::INLINE[0];
    let device = Arc::new(shape.make().unwrap());
    let fs = mount_as(Arc::clone(&device) as Arc<_>, 0).unwrap();
    let file = |name: &str, len: usize| {
        let path = name.as_bytes().to_vec();
        let data = vec![b'x'; len];
        let mode = 0o644;
        let create = Op::Create { path, mode };
        apply(&*fs, &create).unwrap();
        let path = name.as_bytes().to_vec();
        apply(&*fs, &Op::Append { path, data }).unwrap();
    };
    for (name, len) in [
        ("most", 128),
        ("more", 129),
        ("fallocated", 5),
        ("cut", 500),
    ] {
        file(name, len);
    }
    let (path, size) = (b"cut".to_vec(), 3);
    apply(&*fs, &Op::Truncate { path, size }).unwrap();
    let fallocate = Op::Fallocate {
        path: b"fallocated".to_vec(),
        what: Fallocate::AllocateKeepSize,
        at: 0,
        len: 1,
    };
    apply(&*fs, &fallocate).unwrap();
    for (dir, entries) in [("none", 0), ("few", 5), ("many", 12)] {
        let path = dir.as_bytes().to_vec();
        apply(&*fs, &Op::Mkdir { path, mode: 0o755 }).unwrap();
        for i in 0..entries {
            file(&format!("{dir}/{i}-name"), 1);
        }
    }
    let names = [
        "most",
        "more",
        "fallocated",
        "cut",
        "none",
        "few",
        "few/0-name",
        "many",
    ];
    let want = [("few", 128), ("few/0-name", 1), ("most", 128), ("none", 60)];
    let want: BTreeMap<String, u64> = want.map(|(n, l)| (n.to_owned(), l)).into();
    assert_eq!(inline_sizes(&fs, &names).unwrap(), want);
    // A hole and data: all of it is data.
    let most = find(&*fs, b"most").unwrap();
    assert_eq!(fs.seek_hole(&most, 3).unwrap(), 128);
    assert_eq!(fs.seek_data(&most, 127).unwrap(), 127);
    assert_eq!(fs.getattr(&most).unwrap().blocks, 0);
    // Its attribute is nobody's business.
    let caller = uext4_vfs::caller::Caller::root();
    assert!(fs.listxattr(&caller, &most).unwrap().is_empty());
    let get = fs.getxattr(&caller, &most, b"system.data").unwrap_err();
    assert!(get == Errno::EOPNOTSUPP, "{get:?}");
    let set = fs.setxattr(&caller, &most, b"system.data", b"", Default::default());
    assert!(set.unwrap_err() == Errno::EOPNOTSUPP);
    drop(most);
    fs.unmount().unwrap();
    drop(fs);
    oracle::fsck_device(&device).unwrap();
    oracle::check(&*device).unwrap();
}

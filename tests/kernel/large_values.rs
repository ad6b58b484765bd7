//! Images with attributes whose values have inodes of their own, used by us and by the kernel in turn.
//! Needs root and loop devices.

use crate::*;
use uext4_testkit::beside::{Values, both, close, open, same};

#[test]
fn kernel_and_we_do_the_same() {
    require!(kernel_mounts());
    for (seed, shape) in (1..).zip(&Shape::LARGE_VALUES) {
        let values = Values {
            // The kernel journals values, and these journals are small.
            bytes_max: 16_000,
            // Linux 6.18 counts equal values wrong where blocks are equal, too: without room in the inode.
            kinds: match shape.name.contains("inodes of 128") {
                true => 255,
                false => 3,
            },
        };
        both(shape, seed, values)
            .with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

/// An image that the kernel fills: files with equal values, which share their inodes, and on inodes of 128
/// bytes the blocks that name them.
fn filled(dir: &Path, shape: &Shape) -> Result<PathBuf> {
    let image = dir.join("image");
    shape.make()?.save_to(&image)?;
    let mount = KernelMount::new(&image, &dir.join("mount"), "rw")?;
    for name in ["a", "b", "c", "d"] {
        let path = mount.dir().join(name);
        std::fs::write(&path, b"x")?;
        for (attribute, len) in [("user.one", 5000), ("user.two", 60_000)] {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&path, attribute, &vec![b'v'; len], flags)?;
        }
    }
    std::fs::hard_link(mount.dir().join("d"), mount.dir().join("link"))?;
    mount.unmount()?;
    Ok(image)
}

fn inodes_used(fs: &Ext4) -> Result<u64> {
    let stat = fs.statfs()?;
    Ok(stat.inodes - stat.inodes_free)
}

/// What the kernel shares is counted when one owner drops it, gets a block of its own, or is deleted.
#[test]
fn kernel_shares_values_and_we_count() {
    require!(kernel_mounts());
    for (seed, shape) in Shape::LARGE_VALUES.iter().enumerate() {
        let run = || -> Result<()> {
            let dir = tempfile::tempdir()?;
            let image = filled(dir.path(), shape)?;
            let fs = open(&image, seed as u64)?;
            let caller = Caller::root();
            let used = inodes_used(&fs)?;
            let all = vec![b'v'; 60_000];
            let node = |name: &str| find(&*fs, name.as_bytes());
            ensure!(fs.getxattr(&caller, &node("a")?, b"user.two")? == all);
            // Another attribute beside shared ones, another value, none.
            let set = |name: &str, attribute: &str, value: &[u8]| {
                let flags = Default::default();
                fs.setxattr(&caller, &node(name)?, attribute.as_bytes(), value, flags)
                    .map_err(anyhow::Error::from)
            };
            set("a", "user.new", &[1; 9000])?;
            set("b", "user.two", &[2; 7000])?;
            fs.removexattr(&caller, &node("c")?, b"user.one")?;
            ensure!(inodes_used(&fs)? == used + 2, "two new values");
            let path = b"d".to_vec();
            apply(&*fs, &Op::Unlink { path, keep: false })?;
            let ours = tree::of_fs(&*fs)?;
            close(fs, &image).context("changed")?;
            let kernel = oracle::kernel_tree(&image, &dir.path().join("mount"))?;
            same("ours / the kernel's", &ours, &kernel)?;
            let fs = open(&image, seed as u64)?;
            for name in ["a", "b", "c", "link"] {
                let path = name.as_bytes().to_vec();
                apply(&*fs, &Op::Unlink { path, keep: false })?;
            }
            fs.syncfs()?;
            // Four files and, in all, four values are gone.
            ensure!(inodes_used(&fs)? == used - 4 - 2, "all values are gone");
            close(fs, &image).context("emptied")
        };
        run().context(shape.name).unwrap();
    }
}

/// A swap with the boot loader's inode moves data, not attributes, and what they take.
#[test]
fn swapped_files_keep_what_their_values_take() {
    let device = Arc::new(Shape::LARGE_VALUES[0].make().unwrap());
    let fs = mount_as(Arc::clone(&device) as Arc<_>, 0).unwrap();
    let (path, data) = (b"f".to_vec(), vec![7; 9000]);
    let create = Op::Create {
        path: path.clone(),
        mode: 0o644,
    };
    apply(&*fs, &create).unwrap();
    apply(&*fs, &Op::Append { path, data }).unwrap();
    let (caller, node) = (Caller::root(), find(&*fs, b"f").unwrap());
    let value = vec![1; 20_000];
    fs.setxattr(&caller, &node, b"user.v", &value, Default::default())
        .unwrap();
    assert_eq!(fs.getattr(&node).unwrap().blocks, 24 + 40);
    fs.files.swap_boot(&caller, &node).unwrap();
    assert_eq!(fs.getattr(&node).unwrap().blocks, 40);
    assert_eq!(fs.getxattr(&caller, &node, b"user.v").unwrap(), value);
    drop(node);
    fs.end_on(&device);
}

/// Inodes that name their owner instead of counting are read, and not changed; others with a wrong hash are
/// damage.
#[test]
fn values_without_a_count_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    Shape::LARGE_VALUES[0]
        .make()
        .unwrap()
        .save_to(&image)
        .unwrap();
    let fs = open(&image, 0).unwrap();
    let path = b"f".to_vec();
    apply(&*fs, &Op::Create { path, mode: 0o644 }).unwrap();
    let (caller, node) = (Caller::root(), find(&*fs, b"f").unwrap());
    let value = vec![1; 20_000];
    let set = |node, value: &[u8]| fs.setxattr(&caller, node, b"user.v", value, Default::default());
    set(&node, &value).unwrap();
    let too_large = set(&node, &vec![1; 65_537]).unwrap_err();
    assert!(too_large == Errno::E2BIG, "{too_large:?}");
    let (owner, generation) = (node.ino.0, node.generation().0);
    drop(node);
    close(fs, &image).unwrap();
    let path = image.to_str().unwrap();
    // The value's inode is the one after its owner's.
    let debugfs = |field: &str, to: u32| {
        let command = format!("sif <{}> {field} {to}", owner + 1);
        oracle::run("debugfs", &["-w", "-R", &command, path], 0).unwrap();
    };
    debugfs("atime", 99);
    let fs = open(&image, 0).unwrap();
    let node = find(&*fs, b"f").unwrap();
    let damaged = fs.getxattr(&caller, &node, b"user.v").unwrap_err();
    assert!(damaged == Errno::EUCLEAN, "{damaged:?}");
    drop(node);
    fs.unmount().unwrap();
    drop(fs);
    debugfs("mtime", owner);
    debugfs("generation", generation);
    let fs = open(&image, 0).unwrap();
    let node = find(&*fs, b"f").unwrap();
    assert_eq!(fs.getxattr(&caller, &node, b"user.v").unwrap(), value);
    let refused = fs.removexattr(&caller, &node, b"user.v").unwrap_err();
    assert!(refused == Errno::EOPNOTSUPP, "{refused:?}");
    // It is not a file: neither by its number nor by a name.
    let handle = uext4_vfs::attr::FileHandle {
        ino: u64::from(owner + 1),
        generation,
    };
    assert!(fs.open_handle(handle).unwrap_err() == Errno::ESTALE);
    drop(node);
    fs.unmount().unwrap();
}

//! `EXT4_IOC_SWAP_BOOT`, on images that mke2fs made: verified by e2fsck, read by debugfs.

use crate::*;
use std::sync::atomic::Ordering::Relaxed;
use uext4_ondisk::XattrIndex;

const SHAPES: [&str; 6] = [
    "-b 4096",
    "-b 1024",
    "-b 1024 -I 128",
    "-b 4096 -O ^has_journal",
    "-b 4096 -O ^metadata_csum,^64bit",
    "-b 4096 -O metadata_csum_seed,orphan_file",
];

fn remounted(fs: std::sync::Arc<Ext4>, path: &Path) -> std::sync::Arc<Ext4> {
    fs.unmount().expect("unmount");
    drop(fs);
    fsck(path);
    mount(path, MountOptions::default())
}

fn create(fs: &Ext4, name: &str, data: &[u8]) -> InodeRef {
    let root = fs.top();
    let file = fs.make(&root, &name, &FILE);
    fs.put(&file, 0, data);
    file
}

fn lookup(fs: &Ext4, name: &str) -> InodeRef {
    let root = fs.top();
    fs.get(&root, &name)
}

fn content(fs: &Ext4, file: &InodeRef) -> Vec<u8> {
    let mut data = vec![0; file.size() as usize];
    let n = fs.read(file, 0, &mut data).expect("read");
    data.truncate(n);
    data
}

/// What debugfs reads from the boot loader's inode.
fn boot_loader(path: &Path) -> Vec<u8> {
    let out = tempfile::NamedTempFile::new().expect("tempfile");
    let command = format!("dump <5> {}", out.path().display());
    run(Command::new("debugfs").args(["-R", &command]).arg(path));
    std::fs::read(out.path()).expect("read")
}

/// A block of data in every second block: as many extents, in a tree of some depth.
fn fragmented(fs: &Ext4, name: &str, extents: u64) -> InodeRef {
    let file = create(fs, name, b"");
    let size = u64::from(fs.volume.geometry().block_size);
    for i in 0..extents {
        let data = format!("{name} {i}");
        fs.put(&file, i * 2 * size, data.as_bytes());
    }
    file
}

fn depth(file: &InodeRef) -> u16 {
    uext4_ondisk::ExtentNode::new(&file.state().i_block).depth()
}

fn errno(result: Result<(), Ext4Error>) -> Errno {
    result.expect_err("refused").errno()
}

#[test]
fn twice_gives_the_content_back() {
    for shape in SHAPES {
        let path = image("32M", shape);
        let fs = path.mount();
        let file = create(&fs, "grub", b"stage two");
        let before = (FileSystem::handle(&*fs, &file), fs.files.generation(&file));
        fs.files.swap_boot(&Caller::root(), &file).expect("swap");
        assert_eq!(content(&fs, &file), b"", "{shape:?}");
        assert_ne!(fs.files.generation(&file), before.1);
        assert_eq!(fs.open_handle(before.0).expect_err("stale"), Errno::ESTALE);
        // The file is one to write to, of the boot loader's blocks.
        fs.put(&file, 0, b"other");
        drop(file);
        let fs = remounted(fs, &path);
        assert_eq!(boot_loader(&path), b"stage two", "{shape:?}");

        let file = lookup(&fs, "grub");
        assert_eq!(content(&fs, &file), b"other");
        fs.files.swap_boot(&Caller::root(), &file).expect("swap");
        assert_eq!(content(&fs, &file), b"stage two", "{shape:?}");
        drop(file);
        let fs = remounted(fs, &path);
        assert_eq!(boot_loader(&path), b"other", "{shape:?}");

        // A file that is deleted takes the blocks that it has now.
        let root = fs.top();
        fs.remove(&root, b"grub");
        drop(root);
        drop(remounted(fs, &path));
        assert_eq!(boot_loader(&path), b"other", "{shape:?}");
        fsck(&path);
    }
}

/// The two generations of a swap are of one draw: neighbours with a counter, each the next of its inode with `increment`.
#[test]
fn both_generations_are_of_one_draw() {
    for variant in GenerationVariant::ALL {
        let path = image("32M", "");
        let options = MountOptions {
            generation: variant,
            ..MountOptions::default()
        };
        let fs = mount(&path, options);
        let file = create(&fs, "file", b"data");
        let boot = || {
            let boot = fs.inodes.get_inode(Ino::BOOT_LOADER);
            fs.files.generation(&boot.expect("it was made"))
        };
        fs.files.swap_boot(&Caller::root(), &file).expect("swap");
        for _ in 0..20 {
            let last = [fs.files.generation(&file).0, boot().0];
            let old = FileSystem::handle(&*fs, &file);
            fs.files.swap_boot(&Caller::root(), &file).expect("swap");
            let now = [fs.files.generation(&file).0, boot().0];
            let what = format!("{variant}: {last:x?}, {now:x?}");
            match variant {
                GenerationVariant::None => assert_eq!(now, last, "{what}"),
                GenerationVariant::Increment => assert_eq!(now, last.map(|g| g + 1), "{what}"),
                GenerationVariant::Spinlock
                | GenerationVariant::Atomic
                | GenerationVariant::Percpu
                | GenerationVariant::PercpuRange => {
                    assert_eq!(now[1], now[0].wrapping_add(1), "{what}");
                }
                GenerationVariant::PercpuStride => {
                    let step = now[1].wrapping_sub(now[0]);
                    assert!(step.is_power_of_two() && step <= 64, "{what}");
                }
                GenerationVariant::Random
                | GenerationVariant::RandomPrng
                | GenerationVariant::Beyond => {
                    assert!(now[0] != last[0] && now[1] != last[1], "{what}");
                }
            }
            let opened = fs.open_handle(old).map(drop);
            match variant {
                GenerationVariant::None => opened.expect("it is the same file"),
                _ => assert_eq!(opened.expect_err("stale"), Errno::ESTALE, "{what}"),
            }
        }
        drop(file);
        drop(remounted(fs, &path));
        fsck(&path);
    }
}

#[test]
fn trees_get_the_checksums_of_their_new_owner() {
    for shape in SHAPES {
        let path = image("64M", shape);
        let fs = path.mount();
        let deep = fragmented(&fs, "deep", 2000);
        let flat = fragmented(&fs, "flat", 400);
        assert!(depth(&deep) >= 1 && depth(&flat) >= 1);
        let (deep_data, flat_data) = (content(&fs, &deep), content(&fs, &flat));
        // What the swap changes is partly in a transaction that committed, partly in one that runs.
        fs.sync().expect("sync");
        fs.put(&deep, 0, b"deep!");
        fs.files.swap_boot(&Caller::root(), &deep).expect("swap");
        fs.files.swap_boot(&Caller::root(), &flat).expect("swap");
        drop((deep, flat));
        let fs = remounted(fs, &path);
        assert!(boot_loader(&path) == flat_data, "{shape:?}");
        let flat = lookup(&fs, "flat");
        let mut deep_data = deep_data;
        deep_data[..5].copy_from_slice(b"deep!");
        assert!(content(&fs, &flat) == deep_data, "{shape:?}");
        // Its new owner changes the tree: nodes split, and go away.
        let size = u64::from(fs.volume.geometry().block_size);
        for i in 2000..2600 {
            fs.put(&flat, i * 2 * size, b"more");
        }
        fs.files.swap_boot(&Caller::root(), &flat).expect("swap");
        assert!(content(&fs, &flat) == flat_data, "{shape:?}");
        fs.resize(&flat, size);
        drop(flat);
        let fs = remounted(fs, &path);
        path.end(fs);
    }
}

#[test]
fn it_is_durable_as_a_whole() {
    let path = image("64M", "-b 1024");
    let fs = path.mount();
    let file = fragmented(&fs, "file", 800);
    let data = content(&fs, &file);
    fs.sync().expect("sync");
    fs.files.swap_boot(&Caller::root(), &file).expect("swap");
    fs.fsync(&file, true).expect("fsync");
    drop(file);
    fs.crash();
    drop(fs);
    let fs = path.mount();
    let file = lookup(&fs, "file");
    assert_eq!(file.size(), 0);
    fs.files.swap_boot(&Caller::root(), &file).expect("swap");
    assert!(content(&fs, &file) == data);
    drop(file);
    // Not synced: whole or not at all.
    fs.crash();
    drop(fs);
    let fs = remounted(path.mount(), &path);
    let there = content(&fs, &lookup(&fs, "file"));
    let boot = boot_loader(&path);
    assert!(there == data && boot.is_empty() || there.is_empty() && boot == data);
}

/// What an earlier transaction still has to commit of a node keeps the checksum of that time.
#[test]
fn beside_commits() {
    let path = image("64M", "-b 1024");
    let fs = path.mount();
    let file = fragmented(&fs, "file", 500);
    let size = u64::from(fs.volume.geometry().block_size);
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !done.load(Relaxed) {
                fs.sync().expect("sync");
            }
        });
        for i in 0..300 {
            let at = (500 + i) * 2 * size;
            fs.put(&file, at, b"again");
            fs.files.swap_boot(&Caller::root(), &file).expect("swap");
        }
        done.store(true, Relaxed);
    });
    drop(file);
    fs.crash();
    drop(fs);
    drop(remounted(path.mount(), &path));
    fsck(&path);
}

#[test]
fn attributes_stay_and_times_go() {
    let path = image("32M", "-b 1024");
    let fs = path.mount();
    let file = create(&fs, "file", b"data");
    let (index, name) = XattrIndex::split_name(b"user.large").expect("name");
    let value = vec![7; 700];
    fs.attributes
        .set_xattr(&file, index, name, &value, XattrFlags::empty())
        .expect("setxattr");
    let old = uext4_vfs::attr::Timestamp { sec: 7, nsec: 0 };
    let change = SetAttr {
        uid: Some(5),
        mode: Some(0o600),
        mtime: Some(uext4_vfs::attr::TimeSet::At(old)),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), &file, &change)
        .expect("setattr");
    let before = fs.attributes.attr(&file);
    fs.files.swap_boot(&Caller::root(), &file).expect("swap");
    let after = fs.attributes.attr(&file);
    assert_eq!((after.uid, after.mode, after.nlink), (5, 0o600, 1));
    assert_eq!(after.crtime, before.crtime);
    assert_ne!(after.mtime, old, "that of the boot loader");
    assert_eq!(after.blocks, 2, "the attributes' block");
    let kept = fs
        .attributes
        .get_xattr(&file, index, name)
        .expect("getxattr");
    assert_eq!(kept, value);
    drop(file);
    let fs = remounted(fs, &path);
    let file = lookup(&fs, "file");
    fs.files.swap_boot(&Caller::root(), &file).expect("swap");
    assert_eq!(fs.attributes.attr(&file).mtime, old);
    assert_eq!(fs.attributes.attr(&file).blocks, before.blocks);
    drop(file);
    drop(remounted(fs, &path));
    fsck(&path);
}

#[test]
fn what_may_not_be_swapped_is_refused() {
    let path = image("16M", "");
    let fs = path.mount();
    let root = fs.top();
    let superuser = Caller::root();
    let file = create(&fs, "file", b"data");
    let dir = fs.create(&superuser, &root, b"dir", &DIR).expect("mkdir");
    let mut owner = Caller::user(7, 7);
    assert_eq!(errno(fs.files.swap_boot(&superuser, &dir)), Errno::EINVAL);
    assert_eq!(errno(fs.files.swap_boot(&owner, &file)), Errno::EPERM);
    owner.capabilities = Capabilities::SYS_ADMIN;
    assert_eq!(errno(fs.files.swap_boot(&owner, &file)), Errno::EPERM);
    owner.uid = 0;
    owner.capabilities = Capabilities::empty();
    assert_eq!(errno(fs.files.swap_boot(&owner, &file)), Errno::EPERM);
    fs.link(&superuser, &file, &root, b"second").expect("link");
    assert_eq!(errno(fs.files.swap_boot(&superuser, &file)), Errno::EINVAL);
    fs.unlink(&superuser, &root, b"second").expect("unlink");
    assert_eq!(boot_loader(&path), b"", "nothing was made");
    owner.capabilities = Capabilities::SYS_ADMIN;
    fs.files
        .swap_boot(&owner, &file)
        .expect("all that it takes");
    drop((root, file, dir));
    fs.unmount().expect("unmount");
    drop(fs);

    for (flag, why) in [
        (InodeFlags::IMMUTABLE, Errno::EPERM),
        (InodeFlags::APPEND, Errno::EPERM),
        (InodeFlags::JOURNAL_DATA, Errno::EINVAL),
    ] {
        let bits = InodeFlags::EXTENTS | flag;
        let command = format!("set_inode_field file flags {:#x}", bits.bits());
        debugfs(&path, &command);
        let fs = path.mount();
        let file = lookup(&fs, "file");
        assert_eq!(
            errno(fs.files.swap_boot(&superuser, &file)),
            why,
            "{flag:?}"
        );
        drop(file);
        fs.unmount().expect("unmount");
    }
    fsck(&path);
}

#[test]
fn a_tree_too_large_for_a_transaction_is_refused() {
    let path = image("64M", "-b 1024 -J size=1");
    let fs = path.mount();
    let file = fragmented(&fs, "file", 25_000);
    let data = content(&fs, &file);
    let generation = fs.files.generation(&file);
    let refused = errno(fs.files.swap_boot(&Caller::root(), &file));
    assert!(
        refused == Errno::ENOSPC || refused == Errno::EFBIG,
        "{refused:?}"
    );
    assert_eq!(fs.files.generation(&file), generation);
    assert!(content(&fs, &file) == data);
    drop(file);
    drop(remounted(fs, &path));
    fsck(&path);
}

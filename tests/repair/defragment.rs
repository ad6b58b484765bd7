//! Files whose blocks are put together: the image stays sound and keeps its files; a crash at any write leaves every file.

use crate::support::changes::{Crashes, problems};
use crate::support::{all_of, contents::Contents};
use crate::verifier::{have_tools, mke2fs, scratch};
use uext4::unstable::ImageConfig;
use uext4::{
    Errno, Fallocate, Filesystem, Fragments, ImageOptions, Metadata, OpenOptions, XattrFlags,
};
use uext4_testkit::prelude::*;

const FILES: usize = 5;

/// An image with files in pieces, with holes, with blocks that were never written, and with a part past their size.
fn in_pieces(options: &str, size: &str, steps: usize, dir: &Path) -> Vec<u8> {
    let path = dir.join("pieces.img");
    mke2fs(&path, size, options, None);
    let bytes = fs::read(&path).expect("image");
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(&bytes));
    // The default keeps files together that are written in turn.
    let mut options = ImageConfig::read_write();
    options.mount.balloc = BallocVariant::GroupLock;
    let image = Filesystem::open_device(Arc::clone(&device), &options.into()).expect("open");
    let unit = u64::from(image.statfs().expect("statfs").block_size);
    let name = |i: usize| format!("/file{i}");
    let new = OpenOptions::new().read(true).write(true).create(true);
    let files: Vec<_> = (0..2 * FILES)
        .map(|i| new.open(&image, name(i)).expect("create"))
        .collect();
    let mut at = [0; 2 * FILES];
    let mut rng = Rng::with_seed(steps as u64);
    for step in 0..steps {
        for (i, file) in files.iter().enumerate() {
            let blocks = rng.u64(1..4);
            let data = vec![(step * FILES + i) as u8 | 1; (blocks * unit) as usize];
            if i % 3 == 1 && step % 4 == 3 {
                let len = blocks * unit;
                // A file without extents refuses.
                let _ = file.fallocate(Fallocate::AllocateKeepSize, at[i], len);
            } else {
                file.write_all_at(&data, at[i]).expect("write");
            }
            at[i] += (blocks + u64::from(i % 2 == 0 && step % 5 == 2)) * unit;
        }
    }
    drop(files);
    for i in FILES..2 * FILES {
        image.remove_file(name(i)).expect("remove");
    }
    let set = image.set_xattr("/file0", "user.long", [b'x'; 300], XattrFlags::empty());
    set.expect("attribute");
    image.unmount().expect("unmount");
    all_of(&*device)
}

fn open(device: &Arc<dyn BlockDevice>) -> Filesystem {
    Filesystem::open_device(Arc::clone(device), &ImageOptions::read_write()).expect("open")
}

/// Puts all files together; what is left as it is because it can't be moved is counted.
fn put_together(device: &Arc<dyn BlockDevice>) -> (Vec<Fragments>, usize) {
    let image = open(device);
    let (mut moved, mut left) = (Vec::new(), 0);
    for i in 0..FILES {
        let path = format!("/file{i}");
        let before = image.metadata(&path).expect("metadata");
        match image.defragment(&path) {
            Ok(pieces) => moved.push(pieces),
            Err(e) if e.errno() == Errno::EOPNOTSUPP => left += 1,
            Err(e) => panic!("{path}: {e}"),
        }
        let after = image.metadata(&path).expect("metadata");
        let seen = |of: &Metadata| (of.len(), of.modified(), of.changed(), of.generation());
        assert_eq!(seen(&before), seen(&after), "{path}");
    }
    image.unmount().expect("unmount");
    (moved, left)
}

#[test]
fn files_are_put_together() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("together.img");
    for (options, size, steps, extents) in [
        ("-t ext4 -b 1024", "32M", 400, true),
        ("-t ext4 -b 1024 -O ^metadata_csum", "32M", 200, true),
        ("-t ext4 -b 4096 -O ^has_journal", "64M", 100, true),
        (
            "-t ext4 -b 2048 -O 64bit,^flex_bg -g 8192",
            "64M",
            100,
            true,
        ),
        ("-t ext3 -b 1024", "32M", 100, false),
    ] {
        let bytes = in_pieces(options, size, steps, dir.path());
        let before = Contents::read(&bytes);
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(&bytes));
        let (moved, left) = put_together(&device);
        assert_eq!(
            problems(&before, &all_of(&*device), &path),
            [""; 0],
            "{options}"
        );
        assert_eq!(left, if extents { 0 } else { FILES }, "{options}");
        println!("{options}: {moved:?}");
        for pieces in &moved {
            assert!(pieces.after * 4 < pieces.before, "{options}: {moved:?}");
        }
        let (again, _) = put_together(&device);
        for (first, second) in moved.iter().zip(&again) {
            assert_eq!(first.after, second.before, "{options}");
        }
    }
}

#[test]
fn a_crash_loses_no_file() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("together.img");
    let share = env_number("UEXT4_TUNE_SHARE", 12);
    let mut crashes = Crashes::new(&path, share);
    for (options, size) in [
        ("-t ext4 -b 1024", "8M"),
        ("-t ext4 -b 1024 -O ^metadata_csum,^64bit", "8M"),
        ("-t ext4 -b 2048 -O orphan_file -g 2048", "16M"),
        ("-t ext4 -b 4096", "24M"),
    ] {
        let bytes = in_pieces(options, size, 60, dir.path());
        let before = Contents::read(&bytes);
        let after = crashes.after(options, &before, &bytes, &|_| true, &|device| {
            let (moved, _) = put_together(device);
            assert!(moved.iter().all(|pieces| pieces.after < pieces.before));
        });
        assert_eq!(problems(&before, &after, &path), [""; 0]);
    }
    crashes.end();
}

/// Without room for fewer pieces, and of what has no extents, nothing changes.
#[test]
fn what_can_not_be_moved_stays() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("full.img");
    let bytes = in_pieces("-t ext4 -b 1024 -m 0", "8M", 60, dir.path());
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(&bytes));
    let image = open(&device);
    let filler = image.create_file("/filler").expect("create");
    let data = vec![1; 1 << 20];
    let mut at = 0;
    while let Ok(written) = filler.write_at(&data, at) {
        at += written as u64;
    }
    drop(filler);
    let before_blocks = image.statfs().expect("statfs").blocks_free;
    let pieces = image.defragment("/file0").expect("defragment");
    assert_eq!(pieces.before, pieces.after);
    assert_eq!(image.statfs().expect("statfs").blocks_free, before_blocks);
    assert_eq!(
        image.defragment("/").expect_err("a directory"),
        Errno::EISDIR
    );
    image.symlink("file0", "/link").expect("link");
    assert_eq!(
        image.defragment("/link").expect_err("a link"),
        Errno::EINVAL
    );
    image.unmount().expect("unmount");
    let read_only = Filesystem::open_device(Arc::clone(&device), &ImageOptions::read_only());
    let read_only = read_only.expect("open");
    assert!(read_only.defragment("/file1").is_err());
    drop(read_only);
    let after = all_of(&*device);
    assert_eq!(problems(&Contents::read(&after), &after, &path), [""; 0]);
}

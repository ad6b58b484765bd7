//! Block allocation: what each variant must survive, on images that mke2fs made, and how files lie on them.

use uext4_testkit::mke2fs::mount;
use uext4_testkit::prelude::*;

const BLOCK: u64 = 4096;

fn options(balloc: BallocVariant) -> MountOptions {
    with(|o: &mut MountOptions| o.balloc = balloc)
}

fn create(fs: &Ext4, dir: &InodeRef, name: &str) -> InodeRef {
    let made = fs
        .namei
        .create(&Caller::root(), dir, name.as_bytes(), &FILE);
    made.expect("create")
}

fn make_dir(fs: &Ext4, name: &str) -> InodeRef {
    let made = fs
        .namei
        .create(&Caller::root(), &fs.top(), name.as_bytes(), &DIR);
    made.expect("mkdir")
}

fn free(fs: &Ext4) -> u64 {
    fs.statfs().expect("statfs").blocks_free
}

/// Appends so many blocks.
fn append(fs: &Ext4, file: &InodeRef, blocks: u64) -> Result<(), Ext4Error> {
    let data = vec![0x5a; (blocks * BLOCK) as usize];
    let mut done = 0;
    while done < data.len() {
        done += fs.files.write(file, file.size(), &data[done..], true)?;
    }
    Ok(())
}

/// In how many pieces a file lies.
fn pieces(fs: &Ext4, file: &InodeRef) -> usize {
    fs.files.fragments(file).expect("its blocks").before
}

#[test]
fn threads_get_blocks_of_their_own() {
    let shapes = [
        "",
        "-O ^has_journal",
        "-b 1024 -O ^flex_bg,uninit_bg,^metadata_csum",
        "-b 1024 -O ^extents,^64bit",
    ];
    let all = BallocVariant::ALL.into_iter();
    for (variant, shape) in all.flat_map(|v| shapes.map(|s| (v, s))) {
        let path = image("64M", shape);
        let fs = mount(&path, options(variant));
        let before = free(&fs);
        let dirs = ["a", "b"].map(|name| make_dir(&fs, name));
        std::thread::scope(|s| {
            for t in 0..4 {
                let (fs, dir) = (&fs, &dirs[t % 2]);
                s.spawn(move || {
                    for i in 0..40 {
                        let file = create(fs, dir, &format!("{t}-{i}"));
                        for blocks in 1..6 {
                            append(fs, &file, blocks).expect("write");
                        }
                        if i % 3 == 0 {
                            fs.files.truncate(&file, BLOCK + 1).expect("truncate");
                            append(fs, &file, 2).expect("write");
                        }
                        if i % 7 == 0 {
                            fs.sync().expect("sync");
                        }
                        drop(file);
                        if i % 2 == 0 {
                            fs.remove(dir, &format!("{t}-{i}"));
                        }
                    }
                });
            }
        });
        for t in 0..4 {
            for i in (1..40).step_by(2) {
                fs.remove(&dirs[t % 2], &format!("{t}-{i}"));
            }
        }
        drop(dirs);
        for name in ["a", "b"] {
            fs.namei
                .rmdir(&Caller::root(), &fs.top(), name.as_bytes())
                .expect("rmdir");
        }
        fs.sync().expect("sync");
        assert_eq!(free(&fs), before, "{variant} {shape}");
        path.end(fs);
    }
}

#[test]
fn every_free_block_is_found() {
    for variant in BallocVariant::ALL {
        let path = image("32M", "-b 4096 -N 1024 -m 0");
        let fs = mount(&path, options(variant));
        let dir = make_dir(&fs, "dir");
        for round in 0..2 {
            let files: Vec<_> = (0..8)
                .map(|i| create(&fs, &dir, &format!("{round}-{i}")))
                .collect();
            let mut full = 0;
            for file in files.iter().cycle() {
                match append(&fs, file, 3) {
                    Ok(()) => full = 0,
                    Err(Ext4Error::NoSpace) => full += 1,
                    Err(why) => panic!("{why}"),
                }
                if full == files.len() {
                    break;
                }
            }
            assert_eq!(free(&fs), 0, "{variant}");
            drop(files);
            for i in 0..8 {
                fs.remove(&dir, &format!("{round}-{i}"));
            }
        }
        drop(dir);
        path.end(fs);
    }
}

/// What is reserved in memory is on no disk: an image that was not unmounted has it free.
#[test]
fn what_is_reserved_ahead_is_free_on_disk() {
    for variant in BallocVariant::ALL {
        let path = image("256M", "-b 4096");
        let fs = mount(&path, options(variant));
        let dir = make_dir(&fs, "dir");
        let before = free(&fs);
        let files = ["x", "y"].map(|name| create(&fs, &dir, name));
        for _ in 0..20 {
            for file in &files {
                append(&fs, file, 2).expect("write");
            }
        }
        // With a node of a tree for files in many pieces.
        let used = before - free(&fs);
        assert!((80..=82).contains(&used), "{variant}: {used}");
        fs.freeze().expect("freeze");
        let copy = path.parent().expect("a directory").join("copy.img");
        std::fs::copy(&*path, &copy).expect("copy");
        let device = FileDevice::open(&copy, &OpenOptions::read_write()).expect("open");
        let copied = read_superblock(&device);
        let copied = copied.expect("a superblock").raw.free_blocks_count();
        assert_eq!(copied, before - used, "{variant}");
        fs.thaw().expect("thaw");
        drop((files, dir));
        path.end(fs);
    }
}

/// A file of one writer is in one piece, and small files of a directory lie one after another.
#[test]
fn files_of_one_writer_are_contiguous() {
    for variant in BallocVariant::ALL {
        let path = image("256M", "-b 4096");
        let fs = mount(&path, options(variant));
        let dir = make_dir(&fs, "dir");
        let large = create(&fs, &dir, "large");
        for _ in 0..200 {
            append(&fs, &large, 3).expect("write");
        }
        // A thread may move to another CPU, whose chunk is elsewhere.
        assert!(pieces(&fs, &large) <= 3, "{variant}");
        let firsts: Vec<u64> = (0..60)
            .map(|i| {
                let file = create(&fs, &dir, &format!("{i}"));
                append(&fs, &file, 2).expect("write");
                let extents = fs.mapping.extents(&file).expect("extents");
                assert_eq!(extents.len(), 1);
                extents[0].pblk.0
            })
            .collect();
        let apart = firsts.windows(2).filter(|two| two[1] != two[0] + 2);
        assert!(apart.count() <= 5, "{variant}: {firsts:?}");
        drop((large, dir));
        path.end(fs);
    }
}

/// Files that are written in turn: with chunks of their own they are in few pieces.
#[test]
fn files_that_are_written_in_turn_are_in_few_pieces() {
    let mut means = Vec::new();
    for variant in BallocVariant::ALL {
        let path = image("512M", "-b 4096");
        let fs = mount(&path, options(variant));
        let dir = make_dir(&fs, "dir");
        let files: Vec<_> = (0..8).map(|i| create(&fs, &dir, &format!("{i}"))).collect();
        for _ in 0..256 {
            for file in &files {
                append(&fs, file, 1).expect("write");
            }
        }
        let all: usize = files.iter().map(|file| pieces(&fs, file)).sum();
        means.push(all / files.len());
        drop((files, dir));
        path.end(fs);
    }
    let [group_lock, trylock, percpu] = means[..] else {
        panic!("three variants");
    };
    assert!(percpu <= 12, "{means:?}");
    assert!(percpu <= group_lock && percpu <= trylock, "{means:?}");
}

/// Chunks do not keep blocks from a trim, a growth or a freeze.
#[test]
fn a_trim_discards_what_was_reserved_ahead() {
    for variant in BallocVariant::ALL {
        let path = image("256M", "-b 4096");
        let fs = mount(&path, options(variant));
        let dir = make_dir(&fs, "dir");
        let file = create(&fs, &dir, "file");
        append(&fs, &file, 3).expect("write");
        let trimmed = fs.blocks.trim(0, u64::MAX, 0).expect("trim");
        assert_eq!(trimmed / BLOCK, free(&fs), "{variant}");
        drop((file, dir));
        path.end(fs);
    }
}

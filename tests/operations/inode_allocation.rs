//! Inode allocation: what each variant must survive, on images that mke2fs made.

use std::io::{Seek, SeekFrom};
use uext4_testkit::mke2fs::{make, mount, run};
use uext4_testkit::prelude::*;

fn options(ialloc: IallocVariant) -> MountOptions {
    with(|o: &mut MountOptions| o.ialloc = ialloc)
}

/// The number that `dumpe2fs` gives behind `key` for group `group`.
fn bitmap_block(path: &Path, group: usize) -> u64 {
    let text = run(Command::new("dumpe2fs").arg(path));
    let line = text
        .lines()
        .filter(|l| l.contains("Inode bitmap at "))
        .nth(group)
        .expect("a line for the group");
    let rest = line.split("Inode bitmap at ").nth(1).expect("a number");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Changes the byte at `offset` of an image.
fn poke(path: &Path, offset: u64, change: impl Fn(u8) -> u8) {
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("open");
    let mut byte = [0];
    file.seek(SeekFrom::Start(offset)).expect("seek");
    file.read_exact(&mut byte).expect("read");
    file.seek(SeekFrom::Start(offset)).expect("seek");
    file.write_all(&[change(byte[0])]).expect("write");
}

fn create_many(fs: &Ext4, dir: &InodeRef, tag: usize, count: usize) -> Vec<u32> {
    (0..count)
        .map(|i| {
            let name = format!("file-{tag}-{i}");
            let made = fs
                .namei
                .create(&Caller::root(), dir, name.as_bytes(), &FILE);
            made.expect("create").ino.0
        })
        .collect()
}

#[test]
fn threads_get_numbers_of_their_own() {
    let shapes = [
        "-N 16384",
        "-N 16384 -O ^has_journal",
        "-b 1024 -N 16384 -O ^flex_bg,uninit_bg,^metadata_csum",
    ];
    for (variant, shape) in IallocVariant::ALL
        .into_iter()
        .flat_map(|a| shapes.map(|s| (a, s)))
    {
        let path = image("128M", shape);
        let fs = mount(&path, options(variant));
        let top = fs.top();
        let dir = |name: &str| {
            fs.namei
                .create(&Caller::root(), &top, name.as_bytes(), &DIR)
        };
        let kept: Vec<u32> = std::thread::scope(|s| {
            let workers: Vec<_> = (0..6)
                .map(|t| {
                    let dir = dir(&format!("dir-{}", t / 2)).or_else(|_| {
                        fs.namei
                            .lookup(&Caller::root(), &top, format!("dir-{}", t / 2).as_bytes())
                    });
                    let (dir, fs) = (dir.expect("directory"), &fs);
                    s.spawn(move || {
                        let first = create_many(fs, &dir, t, 300);
                        for i in (0..300).step_by(2) {
                            let name = format!("file-{t}-{i}");
                            fs.remove(&dir, &name);
                        }
                        let mut kept = create_many(fs, &dir, 10 + t, 300);
                        kept.extend(first.iter().skip(1).step_by(2));
                        kept
                    })
                })
                .collect();
            let joined = workers.into_iter().map(|w| w.join().expect("worker"));
            joined.flatten().collect()
        });
        let distinct: BTreeSet<u32> = kept.iter().copied().collect();
        assert_eq!(
            (kept.len(), distinct.len()),
            (6 * 450, 6 * 450),
            "{variant} {shape:?}"
        );
        drop(top);
        path.end(fs);
    }
}

#[test]
fn a_bitmap_that_frees_reserved_inodes_is_left_alone() {
    for variant in IallocVariant::ALL {
        // No checksum covers the damage.
        let path = image("64M", "-g 8192 -b 1024 -O ^metadata_csum,^uninit_bg");
        poke(&path, bitmap_block(&path, 0) * 1024, |b| b & !0x10);
        let fs = mount(&path, options(variant));
        let per_group = fs.volume.geometry().inodes_per_group;
        let made = create_many(&fs, &fs.top(), 0, 50);
        assert!(
            made.iter().all(|ino| *ino > per_group),
            "{variant}: {made:?}"
        );
        fs.unmount().expect("unmount");
    }
}

#[test]
fn a_bitmap_with_a_wrong_checksum_is_left_alone() {
    for variant in IallocVariant::ALL {
        let path = image("64M", "-g 8192 -b 1024");
        let fs = mount(&path, options(variant));
        create_many(&fs, &fs.top(), 0, 5);
        fs.unmount().expect("unmount");
        drop(fs);
        poke(&path, bitmap_block(&path, 0) * 1024 + 20, |b| b ^ 1);
        let fs = mount(&path, options(variant));
        let per_group = fs.volume.geometry().inodes_per_group;
        let made = create_many(&fs, &fs.top(), 1, 50);
        assert!(
            made.iter().all(|ino| *ino > per_group),
            "{variant}: {made:?}"
        );
        let unlinked = fs.namei.unlink(&Caller::root(), &fs.top(), b"file-0-0");
        assert!(unlinked.is_err(), "{variant}: freed in a damaged bitmap");
        fs.unmount().expect("unmount");
    }
}

#[test]
fn without_a_journal_a_deleted_inode_rests() {
    for variant in IallocVariant::ALL {
        let path = image("16M", "-b 4096 -O ^has_journal -N 64");
        let fs = mount(&path, options(variant));
        let top = fs.top();
        let first = create_many(&fs, &top, 0, 1)[0];
        fs.remove(&top, b"file-0-0");
        let free = fs.volume.geometry().inodes_count - 11;
        let made = create_many(&fs, &top, 1, free as usize);
        assert_eq!(
            made.iter().position(|ino| *ino == first),
            Some(free as usize - 1),
            "{variant}: taken though there were others"
        );
        drop(top);
        path.end(fs);
    }
}

#[test]
fn without_a_journal_a_group_of_deleted_inodes_is_passed_over() {
    for variant in IallocVariant::ALL {
        let path = image("64M", "-g 8192 -b 1024 -N 512 -G 2 -O ^has_journal");
        let fs = mount(&path, options(variant));
        let geometry = *fs.volume.geometry();
        let group = |ino: u32| (ino - 1) / geometry.inodes_per_group;
        let top = fs.top();
        let dir = fs.make(&top, b"dir", &DIR);
        let home = group(dir.ino.0);
        let mut deleted = Vec::new();
        let elsewhere = loop {
            let name = format!("first-{}", deleted.len());
            let made = fs.make(&dir, &name, &FILE).ino.0;
            if group(made) != home {
                break made;
            }
            deleted.push(made);
        };
        for i in 0..deleted.len() {
            fs.remove(&dir, &format!("first-{i}"));
        }
        // Reserved inodes, lost+found, the directory and the file elsewhere are in use.
        let others = geometry.inodes_count as usize - 11 - 2 - deleted.len();
        assert!(others > deleted.len(), "{others}");
        let made = create_many(&fs, &dir, 1, others);
        assert!(!made.contains(&elsewhere));
        assert!(
            made.iter().all(|ino| !deleted.contains(ino)),
            "{variant}: a deleted inode is taken before those of other groups"
        );
        let mut left = create_many(&fs, &dir, 2, deleted.len());
        left.sort_unstable();
        deleted.sort_unstable();
        assert_eq!(left, deleted, "{variant}: then they are taken");
        drop((dir, top));
        path.end(fs);
    }
}

#[test]
fn of_many_takers_of_the_last_inode_one_wins() {
    for variant in IallocVariant::ALL {
        let path = image("64M", "-N 256");
        let fs = mount(&path, options(variant));
        let top = fs.top();
        let dirs: Vec<_> = (0..48)
            .map(|i| {
                let name = format!("dir-{i}");
                fs.make(&top, &name, &DIR)
            })
            .collect();
        let mut i = 0;
        while let Ok(made) =
            fs.namei
                .create(&Caller::root(), &top, format!("f{i}").as_bytes(), &FILE)
        {
            drop(made);
            i += 1;
        }
        let last = format!("f{}", i - 1);
        for round in 0..20 {
            let last: &[u8] = if round == 0 { last.as_bytes() } else { b"last" };
            if round == 0 {
                fs.remove(&top, last);
            }
            let start = std::sync::Barrier::new(dirs.len());
            let won: Vec<usize> = std::thread::scope(|s| {
                let takers: Vec<_> = dirs
                    .iter()
                    .map(|dir| {
                        let (fs, start) = (&fs, &start);
                        s.spawn(move || {
                            start.wait();
                            match fs.namei.create(&Caller::root(), dir, b"last", &FILE) {
                                Ok(_) => true,
                                Err(Ext4Error::NoInode) => false,
                                Err(e) => panic!("{e}"),
                            }
                        })
                    })
                    .collect();
                takers
                    .into_iter()
                    .enumerate()
                    .filter_map(|(i, t)| t.join().expect("taker").then_some(i))
                    .collect()
            });
            assert_eq!(won.len(), 1, "{variant}");
            fs.remove(&dirs[won[0]], b"last");
        }
        drop((dirs, top));
        path.end(fs);
    }
}

#[test]
fn a_goal_is_honoured() {
    for variant in IallocVariant::ALL {
        // In a table that is not zeroed there are no goals.
        let path = image("64M", "-g 8192 -b 1024 -E lazy_itable_init=0");
        let fs = mount(
            &path,
            MountOptions {
                inode_goal: 5000,
                ..options(variant)
            },
        );
        let made = create_many(&fs, &fs.top(), 0, 3);
        assert_eq!(made, [5000, 5001, 5002], "{variant}");
        path.end(fs);
    }
}

#[test]
fn files_follow_their_directory_and_then_go_on() {
    for variant in IallocVariant::ALL {
        let path = image("64M", "-g 8192 -b 1024 -N 2048 -G 2");
        let fs = mount(&path, options(variant));
        let per_group = fs.volume.geometry().inodes_per_group;
        let top = fs.top();
        let dir = fs.make(&top, b"dir", &DIR);
        let group = |ino: u32| (ino - 1) / per_group;
        let made = create_many(&fs, &dir, 0, 2 * per_group as usize);
        let home = group(dir.ino.0);
        let at_home = made.iter().filter(|ino| group(**ino) == home).count();
        assert!(at_home + 12 >= per_group as usize, "{variant}: {at_home}");
        let next = made.iter().map(|ino| group(*ino)).find(|g| *g != home);
        assert_eq!(
            next.map(|g| g / 2),
            Some(home / 2),
            "{variant}: the flex group is preferred"
        );
        drop((dir, top));
        path.end(fs);
    }
}

#[test]
fn top_directories_spread_and_others_stay() {
    let path = image("256M", "-g 8192 -b 1024 -G 4 -N 16384");
    let fs = path.mount();
    let per_flex = fs.volume.geometry().inodes_per_group * 4;
    let flex = |ino: u32| (ino - 1) / per_flex;
    let top = fs.top();
    let dirs: Vec<_> = (0..8)
        .map(|i| fs.make(&top, &format!("d{i}"), &DIR))
        .collect();
    let spread: BTreeSet<u32> = dirs.iter().map(|d| flex(d.ino.0)).collect();
    assert!(spread.len() >= 4, "{spread:?}");
    for dir in &dirs {
        let child = fs.make(dir, b"child", &DIR);
        assert_eq!(flex(child.ino.0), flex(dir.ino.0));
    }
    drop((dirs, top));
    path.end(fs);
}

/// Groups fill up behind a sum that was made before.
#[test]
fn directories_fill_every_group() {
    let path = image("64M", "-g 8192 -b 1024 -G 4 -N 2048");
    let fs = path.mount();
    let free = fs.statfs().expect("statfs").inodes_free;
    let top = fs.top();
    let me = Caller::root();
    let mut made = 0;
    let refused = loop {
        match fs
            .namei
            .create(&me, &top, format!("{made}").as_bytes(), &DIR)
        {
            Ok(_) => made += 1,
            Err(why) => break why.errno(),
        }
    };
    assert_eq!((refused, made), (Errno::ENOSPC, free));
    drop(top);
    path.end(fs);
}

#[test]
fn inode_tables_that_were_never_zeroed_show_nothing() {
    let tmp = tempfile::tempdir().expect("tempdir");
    for variant in IallocVariant::ALL {
        let path = tmp.path().join("garbage");
        std::fs::write(&path, vec![0xa5; 64 << 20]).expect("write");
        make(
            &path,
            "64M",
            &["-E", "lazy_itable_init=1,nodiscard", "-N", "8192"],
        );
        let fs = mount(&path, options(variant));
        let top = fs.top();
        std::thread::scope(|s| {
            for t in 0..4 {
                let (fs, top) = (&fs, &top);
                s.spawn(move || create_many(fs, top, t, 400));
            }
        });
        drop(top);
        fs.unmount().expect("unmount");
        drop(fs);
        fsck(&path);
    }
}

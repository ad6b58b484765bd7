//! Quotas: what each owner has, counted as operations change it, and the limits of it. e2fsck compares the files with the inodes.
use crate::*;
use std::collections::BTreeMap;
use uext4_ext4::{EnforcedQuotas, QuotaLimits, QuotaSettings};
use uext4_ondisk::{QuotaEntry, QuotaKind};
use uext4_vfs::attr::{NewKind, SetAttr, XattrFlags};
use uext4_vfs::io::{Fallocate, IoFlags};

const ENFORCED: EnforcedQuotas = EnforcedQuotas {
    user: true,
    group: true,
    project: false,
};

fn user(id: u32) -> Caller {
    Caller::user(id, id)
}

fn enforcing(path: &Path) -> Arc<Ext4> {
    mount(
        path,
        MountOptions {
            quotas: ENFORCED,
            ..MountOptions::default()
        },
    )
}

fn entry(fs: &Ext4, kind: QuotaKind, id: u32) -> QuotaEntry {
    let report = fs.quota(kind).expect("quotas are kept");
    let entries = report.entries.into_iter();
    let mut found = entries.filter(|entry| entry.id == id);
    found.next().unwrap_or(QuotaEntry::new(id))
}

/// Space and inodes of a user.
fn usage(fs: &Ext4, id: u32) -> (u64, u64) {
    let entry = entry(fs, QuotaKind::User, id);
    (entry.space, entry.inodes)
}

fn limit(fs: &Ext4, id: u32, limits: QuotaLimits) {
    fs.set_quota(QuotaKind::User, &QuotaSettings::Limits(id, limits))
        .expect("sets limits");
}

/// Any user may make files at the top.
fn open_top(fs: &Ext4) {
    let change = SetAttr {
        mode: Some(0o1777),
        ..SetAttr::default()
    };
    fs.setattr(&Caller::root(), &fs.top(), &change)
        .expect("chmod");
}

fn write_as_user(fs: &Ext4, file: &InodeRef, at: u64, len: usize) -> Result<usize, Errno> {
    let written = fs.write_with(file, at, &vec![7; len], IoFlags::NO_RESERVE);
    written.map(|w| w.len).map_err(|why| why.errno())
}

fn chown(fs: &Ext4, caller: &Caller, file: &InodeRef, uid: u32) -> Result<(), Errno> {
    let change = SetAttr {
        uid: Some(uid),
        ..SetAttr::default()
    };
    let done = fs.setattr(caller, file, &change);
    done.map(drop).map_err(|why| why.errno())
}

/// Fails unless the quota files say what the inodes add up to.
fn compare(fs: &Ext4) {
    let mut sums: [BTreeMap<u32, (u64, u64)>; 3] = Default::default();
    let geometry = fs.volume.geometry();
    let first = geometry.first_ino.0;
    let own = [
        fs.volume.superblock().raw.prj_quota_inum.get(),
        fs.volume.superblock().raw.orphan_file_inum.get(),
    ];
    let numbers = std::iter::once(2).chain(first..=geometry.inodes_count);
    for ino in numbers.filter(|ino| !own.contains(ino)) {
        let Ok(inode) = fs.inode_by_number(u64::from(ino)) else {
            continue;
        };
        let disk = inode.state().clone();
        for (sums, id) in sums.iter_mut().zip([disk.uid, disk.gid, disk.projid]) {
            let sum = sums.entry(id).or_default();
            sum.0 += disk.blocks * 512;
            sum.1 += 1;
        }
    }
    for (kind, sums) in QuotaKind::ALL.into_iter().zip(sums) {
        let Some(report) = fs.quota(kind) else {
            continue;
        };
        let entries = report.entries.into_iter();
        let had = entries.map(|entry| (entry.id, (entry.space, entry.inodes)));
        let had: BTreeMap<_, _> = had.filter(|(_, has)| *has != (0, 0)).collect();
        assert_eq!(had, sums, "{kind:?}");
    }
}

/// One random operation on files named by small numbers; errors are answers.
fn step(fs: &Ext4, rng: &mut fastrand::Rng, names: &str) {
    let top = fs.top();
    let name = format!("{names}{}", rng.u8(..12)).into_bytes();
    let ids = [0, 1, 77, 1000, 70_000, 5_000_000 + rng.u32(..300)];
    let id = *rng.choice(&ids).expect("one");
    let root = Caller::root();
    let found = fs.lookup(&root, &top, &name).ok();
    match (rng.u8(..12), found) {
        (0..=1, None) => drop(fs.create(&user(id), &top, &name, &FILE)),
        (2, None) => drop(fs.create(&user(id), &top, &name, &DIR)),
        (3, None) => {
            let target = vec![b'x'; rng.usize(1..200)];
            let link = NewNode {
                mode: 0o777,
                kind: NewKind::Symlink(&target),
            };
            drop(fs.create(&user(id), &top, &name, &link));
        }
        (4, None) => drop(fs.tmpfile(&user(id), &top, 0o600)),
        (_, None) => {}
        (0..=2, Some(file)) => {
            let len = rng.usize(..200_000);
            let _ = fs.write_with(&file, rng.u64(..3_000_000), &vec![1; len], IoFlags::empty());
        }
        (3, Some(file)) => {
            let size = SetAttr {
                size: Some(rng.u64(..1_000_000)),
                ..SetAttr::default()
            };
            let _ = fs.setattr(&root, &file, &size);
        }
        (4, Some(file)) => drop(chown(fs, &root, &file, id)),
        (5, Some(file)) => {
            let change = SetAttr {
                gid: Some(id),
                ..SetAttr::default()
            };
            let _ = fs.setattr(&root, &file, &change);
        }
        (6, Some(file)) => {
            let _ = fs.files.set_flags_and_project(&root, &file, None, Some(id));
        }
        (7, Some(file)) => {
            let what = *rng
                .choice(&[
                    Fallocate::Allocate,
                    Fallocate::PunchHole,
                    Fallocate::CollapseRange,
                ])
                .expect("one");
            let _ = fs.fallocate(&file, what, rng.u64(..500) * 4096, rng.u64(1..80) * 4096);
        }
        (8, Some(file)) => {
            let value = vec![b'v'; rng.usize(..900)];
            let _ = fs.setxattr(&root, &file, b"user.x", &value, XattrFlags::empty());
        }
        (9, Some(file)) => drop(fs.removexattr(&root, &file, b"user.x")),
        (10, Some(_)) => {
            let to = format!("{names}{}", rng.u8(..12)).into_bytes();
            let flags = Default::default();
            let _ = fs.rename(&root, &top, &name, &top, &to, flags);
        }
        (_, Some(file)) => {
            let _ = match file.is_dir() {
                true => fs.rmdir(&root, &top, &name),
                false => fs.unlink(&root, &top, &name),
            };
        }
    }
}

#[test]
fn usage_is_what_the_inodes_add_up_to() {
    for (seed, args) in [
        "-O quota,project -I 256 -E quotatype=usrquota:grpquota:prjquota",
        "-b 1024 -O quota,metadata_csum -I 256",
        "-b 1024 -O quota,^has_journal,^extent,^64bit",
        "-O quota,project,orphan_file -I 256 -b 2048 -E quotatype=prjquota",
        "-O quota -b 4096",
        "-O quota,inline_data -I 256",
    ]
    .into_iter()
    .enumerate()
    {
        let image = image("64M", args);
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        for _ in 0..3 {
            let fs = image.mount();
            open_top(&fs);
            for _ in 0..250 {
                step(&fs, &mut rng, "f");
            }
            compare(&fs);
            image.end(fs);
            let device = MemoryDevice::from_bytes(&std::fs::read(&image).expect("reads"));
            oracle::check(&device).expect("a clean image");
        }
        let fs = image.mount();
        compare(&fs);
        image.end(fs);
    }
}

#[test]
fn usage_is_right_after_many_threads() {
    let image = image("64M", "-O quota,project -I 256");
    let fs = image.mount();
    open_top(&fs);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let fs = &fs;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                for _ in 0..150 {
                    step(fs, &mut rng, if thread % 2 == 0 { "a" } else { "b" });
                }
            });
        }
    });
    compare(&fs);
    image.end(fs);
}

#[test]
fn a_crash_leaves_usage_and_inodes_of_one_moment() {
    for seed in 0..6 {
        let image = image("64M", "-O quota,project -I 256 -J size=4");
        let mut rng = fastrand::Rng::with_seed(seed);
        let fs = image.mount();
        open_top(&fs);
        for i in 0..120 {
            step(&fs, &mut rng, "f");
            if i == 60 {
                fs.sync().expect("sync");
            }
        }
        fs.crash();
        drop(fs);
        let fs = image.mount();
        compare(&fs);
        image.end(fs);
    }
}

#[test]
fn space_is_refused_at_the_hard_limit() {
    let image = image("64M", "-O quota");
    let fs = enforcing(&image);
    open_top(&fs);
    let (space_hard, inodes_hard) = (40 * 1024, 3);
    limit(
        &fs,
        1000,
        QuotaLimits {
            space_hard,
            inodes_hard,
            ..QuotaLimits::default()
        },
    );
    let file = fs.make_as(&user(1000), "f");
    assert_eq!(write_as_user(&fs, &file, 0, 36 * 1024), Ok(36 * 1024));
    // As much as is left, and then nothing.
    assert_eq!(write_as_user(&fs, &file, 36 * 1024, 8192), Ok(4096));
    assert_eq!(usage(&fs, 1000), (space_hard, 1));
    let full = Err(Errno::EDQUOT);
    assert_eq!(write_as_user(&fs, &file, 40 * 1024, 1), full);
    assert_eq!(write_as_user(&fs, &file, 0, 40 * 1024), Ok(40 * 1024));
    let more = fs.fallocate_with(
        &file,
        Fallocate::Allocate,
        1 << 20,
        4096,
        IoFlags::NO_RESERVE,
    );
    assert_eq!(more.map_err(|why| why.errno()), Err(Errno::EDQUOT));
    // A directory has a block, a file none.
    let made = fs.create(&user(1000), &fs.top(), b"d", &DIR);
    assert_eq!(made.map(drop).map_err(|why| why.errno()), full.map(drop));
    let target = [b't'; 100];
    let link = NewNode {
        mode: 0o777,
        kind: NewKind::Symlink(&target),
    };
    let made = fs.create(&user(1000), &fs.top(), b"l", &link);
    assert_eq!(made.map(drop).map_err(|why| why.errno()), full.map(drop));
    let set = fs.setxattr(
        &user(1000),
        &file,
        b"user.x",
        &[1; 500],
        XattrFlags::empty(),
    );
    assert_eq!(set.map_err(|why| why.errno()), full.map(drop));
    assert_eq!(usage(&fs, 1000), (space_hard, 1));
    fs.make_as(&user(1000), "g");
    fs.make_as(&user(1000), "h");
    let made = fs.create(&user(1000), &fs.top(), b"i", &FILE);
    assert_eq!(made.map(drop).map_err(|why| why.errno()), full.map(drop));
    let made = fs.tmpfile(&user(1000), &fs.top(), 0o600);
    assert_eq!(made.map(drop).map_err(|why| why.errno()), full.map(drop));
    // The superuser may exceed it.
    let written = fs.write_with(&file, 1 << 20, &[1; 4096], IoFlags::empty());
    assert_eq!(written.map(|w| w.len).expect("exempt"), 4096);
    assert_eq!(usage(&fs, 1000), (space_hard + 4096, 3));
    fs.unlink(&user(1000), &fs.top(), b"f").expect("unlink");
    drop(file);
    assert_eq!(usage(&fs, 1000), (0, 2));
    compare(&fs);
    image.end(fs);
}

#[test]
fn a_soft_limit_holds_after_the_grace_time() {
    let image = image("64M", "-O quota");
    let fs = enforcing(&image);
    open_top(&fs);
    fs.set_quota(QuotaKind::User, &QuotaSettings::Grace(0, 100))
        .expect("grace");
    limit(
        &fs,
        7,
        QuotaLimits {
            space_soft: 8192,
            inodes_soft: 1,
            ..QuotaLimits::default()
        },
    );
    let file = fs.make_as(&user(7), "f");
    assert_eq!(write_as_user(&fs, &file, 0, 8192), Ok(8192));
    assert_eq!(entry(&fs, QuotaKind::User, 7).space_time, 0);
    // Exceeding it starts the time, which is over at once.
    assert_eq!(write_as_user(&fs, &file, 8192, 4096), Ok(4096));
    assert_ne!(entry(&fs, QuotaKind::User, 7).space_time, 0);
    let full = Err(Errno::EDQUOT);
    assert_eq!(write_as_user(&fs, &file, 1 << 20, 4096), full);
    // Inodes have time.
    fs.make_as(&user(7), "g");
    fs.make_as(&user(7), "h");
    let after = entry(&fs, QuotaKind::User, 7);
    assert!(after.inode_time > after.space_time + 50, "{after:?}");
    fs.unmount().expect("unmount");
    drop(fs);
    let fs = enforcing(&image);
    assert_eq!(entry(&fs, QuotaKind::User, 7), after);
    let (_, file) = (file, fs.lookup(&Caller::root(), &fs.top(), b"f"));
    let file = file.expect("found");
    assert_eq!(write_as_user(&fs, &file, 1 << 20, 4096), full);
    let cut = SetAttr {
        size: Some(8192),
        ..SetAttr::default()
    };
    fs.setattr(&user(7), &file, &cut).expect("truncate");
    assert_eq!(entry(&fs, QuotaKind::User, 7).space_time, 0);
    assert_eq!(write_as_user(&fs, &file, 1 << 20, 4096), Ok(4096));
    drop(file);
    image.end(fs);
}

#[test]
fn owners_are_exchanged_with_what_they_have() {
    let image = image("64M", "-O quota");
    let fs = enforcing(&image);
    open_top(&fs);
    let file = fs.make_as(&user(5), "f");
    fs.put(&file, 0, &[1; 12_288]);
    chown(&fs, &Caller::root(), &file, 6).expect("chown");
    assert_eq!((usage(&fs, 5), usage(&fs, 6)), ((0, 0), (12_288, 1)));
    // Only a caller that limits do not apply to exceeds them.
    let limits = QuotaLimits {
        space_hard: 8192,
        ..QuotaLimits::default()
    };
    limit(&fs, 8, limits);
    let mut caller = Caller::root();
    caller.capabilities -= uext4_vfs::caller::Capabilities::SYS_RESOURCE;
    assert_eq!(chown(&fs, &caller, &file, 8), Err(Errno::EDQUOT));
    assert_eq!((usage(&fs, 6), usage(&fs, 8)), ((12_288, 1), (0, 0)));
    chown(&fs, &Caller::root(), &file, 8).expect("chown");
    assert_eq!((usage(&fs, 6), usage(&fs, 8)), ((0, 0), (12_288, 1)));
    drop(file);
    compare(&fs);
    image.end(fs);
}

#[test]
fn threads_do_not_exceed_a_limit_together() {
    let image = image("64M", "-O quota");
    let fs = enforcing(&image);
    open_top(&fs);
    let limits = QuotaLimits {
        space_hard: 400 << 10,
        inodes_hard: 50,
        ..QuotaLimits::default()
    };
    limit(&fs, 9, limits);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let fs = &fs;
            scope.spawn(move || {
                for i in 0..20 {
                    let name = format!("{thread}.{i}");
                    let made = fs.create(&user(9), &fs.top(), name.as_bytes(), &FILE);
                    if let Ok(file) = made {
                        let _ = write_as_user(fs, &file, 0, 24 << 10);
                    }
                }
            });
        }
    });
    assert_eq!(usage(&fs, 9), (400 << 10, 50));
    compare(&fs);
    image.end(fs);
}

#[test]
fn without_the_option_nothing_is_refused() {
    let image = image("64M", "-O quota");
    let fs = image.mount();
    open_top(&fs);
    let limits = QuotaLimits {
        space_hard: 4096,
        inodes_hard: 1,
        ..QuotaLimits::default()
    };
    limit(&fs, 3, limits);
    for name in ["a", "b"] {
        let file = fs.make_as(&user(3), name);
        assert_eq!(write_as_user(&fs, &file, 0, 8192), Ok(8192));
    }
    assert_eq!(usage(&fs, 3), (16_384, 2));
    image.end(fs);
}

#[test]
fn a_damaged_quota_file_is_only_read() {
    let image = image("64M", "-O quota");
    let fs = image.mount();
    let block = fs.volume.geometry().block_size;
    let inode = fs.inodes.get_inode(uext4_ondisk::Ino(3)).expect("found");
    let at = fs.mapping.extents(&inode).expect("extents")[0].pblk.0 * u64::from(block);
    drop(inode);
    fs.unmount().expect("unmount");
    drop(fs);
    for (offset, byte) in [
        (0, 1),
        (4, 7),
        (20, 0),
        (28, 1),
        (1024, 200),
        (5 * 1024 + 8, 9),
    ] {
        let mut bytes = std::fs::read(&image).expect("reads");
        let sound = bytes.clone();
        bytes[at as usize + offset] = byte;
        std::fs::write(&image, &bytes).expect("writes");
        let fs = image.mount();
        assert!(fs.volume.is_read_only(), "byte {offset}");
        assert!(fs.quota(QuotaKind::User).is_none());
        drop(fs);
        std::fs::write(&image, &sound).expect("writes");
    }
    let fs = image.mount();
    assert!(!fs.volume.is_read_only());
    image.end(fs);
}

trait MakeAs {
    fn make_as(&self, caller: &Caller, name: &str) -> InodeRef;
}

impl MakeAs for Ext4 {
    fn make_as(&self, caller: &Caller, name: &str) -> InodeRef {
        self.create(caller, &self.top(), name.as_bytes(), &FILE)
            .expect("create")
    }
}

/// The hash tree of a file counts as its owner's.
#[test]
fn a_hash_tree_is_refused_at_the_limit() {
    let image = image("64M", "-O quota,verity -b 4096");
    let fs = enforcing(&image);
    open_top(&fs);
    let space_hard = 400 << 10;
    limit(
        &fs,
        11,
        QuotaLimits {
            space_hard,
            ..QuotaLimits::default()
        },
    );
    let owner = user(11);
    let file = fs.make_as(&owner, "file");
    write_as_user(&fs, &file, 0, 396 << 10).expect("write");
    let before = usage(&fs, 11);
    let verity = uext4_ondisk::FsVerity::default();
    let refused = fs.files.enable_verity(&owner, &file, &verity);
    assert!(
        matches!(refused, Err(uext4_ext4::Ext4Error::QuotaExceeded)),
        "{refused:?}"
    );
    assert_eq!(usage(&fs, 11), before);
    fs.files
        .enable_verity(&Caller::root(), &file, &verity)
        .expect("root is exempt");
    assert!(usage(&fs, 11).0 > space_hard);
    drop(file);
    compare(&fs);
    image.end(fs);
}

/// Threads rename over, exchange, link and give away what others write to, at the limits of all kinds.
#[test]
fn usage_is_right_after_many_threads_at_their_limits() {
    let args = "-O quota,project,inline_data -I 256 -b 4096 -J size=4";
    let image = image("64M", args);
    let options = MountOptions {
        quotas: EnforcedQuotas {
            user: true,
            group: true,
            project: true,
        },
        ..MountOptions::default()
    };
    let fs = mount(&image, options);
    open_top(&fs);
    for id in [1, 77, 1000] {
        let limits = QuotaLimits {
            space_hard: 900 << 10,
            inodes_hard: 9,
            space_soft: 100 << 10,
            inodes_soft: 2,
        };
        for kind in QuotaKind::ALL {
            fs.set_quota(kind, &QuotaSettings::Limits(id, limits))
                .expect("sets limits");
        }
    }
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let fs = &fs;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread + 100);
                let top = fs.top();
                let root = Caller::root();
                for _ in 0..200 {
                    step(fs, &mut rng, "s");
                    let name = |rng: &mut fastrand::Rng| format!("s{}", rng.u8(..12)).into_bytes();
                    let (from, to) = (name(&mut rng), name(&mut rng));
                    let id = *rng.choice(&[1, 77, 1000]).expect("one");
                    match (rng.u8(..6), fs.lookup(&root, &top, &from).ok()) {
                        (0..=1, _) => {
                            drop(fs.rename(&user(id), &top, &from, &top, &to, RenameFlags::empty()))
                        }
                        (2, _) => {
                            let exchange = RenameFlags::EXCHANGE;
                            drop(fs.rename(&root, &top, &from, &top, &to, exchange));
                        }
                        (3, Some(file)) => drop(fs.link(&root, &file, &top, &to)),
                        (4, Some(file)) => {
                            let len = rng.usize(..300_000);
                            let _ = write_as_user(fs, &file, rng.u64(..400_000), len);
                        }
                        (5, Some(file)) => drop(chown(fs, &user(id), &file, id)),
                        _ => {}
                    }
                }
            });
        }
    });
    compare(&fs);
    image.end(fs);
    let fs = image.mount();
    compare(&fs);
    image.end(fs);
}

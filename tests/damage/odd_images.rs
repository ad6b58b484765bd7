//! Images and calls that are odd: goals, ages, counts that lie, the boot loader's inode itself.
use uext4_testkit::mke2fs::{make, mount};
use uext4_testkit::prelude::*;

#[test]
fn swap_boot_with_itself() {
    let path = image("16M", "-b 1024");
    let fs = path.mount();
    let top = fs.top();
    let f = fs.make(&top, b"f", &FILE);
    fs.put(&f, 0, &[1; 5000]);
    fs.files.swap_boot(&Caller::root(), &f).unwrap();
    let boot = fs.inodes.get_inode(Ino(5)).unwrap();
    let fs2 = Arc::clone(&fs);
    let r = within("swap_boot(5)", move || {
        fs2.files
            .swap_boot(&Caller::root(), &boot)
            .map_err(|e| e.to_string())
    });
    eprintln!("swap with itself: {r:?}");
    fs.unmount().unwrap();
}

#[test]
fn goal_in_a_table_that_was_never_zeroed() {
    let tmp = tempfile::tempdir().unwrap();
    let mut bad = vec![];
    for variant in IallocVariant::ALL {
        for goal in [5u32, 11, 12, 500, 4000, 8192] {
            let path = tmp.path().join("garbage");
            std::fs::write(&path, vec![0xa5; 64 << 20]).unwrap();
            make(
                &path,
                "64M",
                &["-E", "lazy_itable_init=1,nodiscard", "-N", "8192"],
            );
            let fs = mount(
                &path,
                with(|o: &mut MountOptions| (o.inode_goal, o.ialloc) = (goal, variant)),
            );
            let top = fs.top();
            for i in 0..20 {
                fs.make(&top, &format!("f{i}"), &FILE);
            }
            drop(top);
            fs.unmount().unwrap();
            drop(fs);
            let o = std::process::Command::new("e2fsck")
                .arg("-fn")
                .arg(&path)
                .output()
                .unwrap();
            if !o.status.success() {
                bad.push((
                    variant.name(),
                    goal,
                    String::from_utf8_lossy(&o.stdout)
                        .chars()
                        .take(300)
                        .collect::<String>(),
                ));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn goal_past_which_all_is_full() {
    for variant in IallocVariant::ALL {
        let path = image("16M", "-b 1024 -N 128");
        let fs = mount(
            &path,
            with(|o: &mut MountOptions| (o.inode_goal, o.ialloc) = (128, variant)),
        );
        let top = fs.top();
        let mut n = 0;
        while fs
            .create(&Caller::root(), &top, format!("f{n}").as_bytes(), &FILE)
            .is_ok()
        {
            n += 1
        }
        assert_eq!(n, 128 - 11, "{variant}");
        drop(top);
        path.end(fs);
    }
}

#[test]
fn handles_after_reuse() {
    let assigning = GenerationVariant::ALL
        .into_iter()
        .filter(|variant| *variant != GenerationVariant::None);
    for variant in assigning {
        let path = image("16M", "-b 1024 -N 64");
        let o = with(|o: &mut MountOptions| o.generation = variant);
        let mut fs = mount(&path, o.clone());
        let mut seen: Vec<FileHandle> = vec![];
        for i in 0..200 {
            let top = fs.top();
            let f = if i % 3 == 0 {
                fs.tmpfile(&Caller::root(), &top, 0o600).unwrap()
            } else {
                fs.make(&top, b"f", if i % 3 == 1 { &FILE } else { &DIR })
            };
            let h = fs.handle(&f);
            if i % 3 != 0 {
                assert_eq!(fs.open_handle(h).unwrap().ino, f.ino);
            } else {
                eprintln!("tmpfile handle {:?}", fs.open_handle(h).is_ok());
            }
            for old in &seen {
                assert!(fs.open_handle(*old).is_err() || *old == h, "{variant}");
            }
            seen.push(h);
            if i % 3 == 2 {
                fs.remove_dir(&top, b"f");
                let _ = fs.open_handle(h);
            } else if i % 3 == 1 {
                fs.remove(&top, b"f");
                eprintln!(
                    "open unlinked by handle while open: {}",
                    fs.open_handle(h).is_ok()
                );
            }
            drop(f);
            drop(top);
            assert!(fs.open_handle(h).is_err());
            if i % 50 == 49 {
                path.end(fs);
                fs = mount(&path, o.clone());
            }
        }
        path.end(fs);
    }
}

#[test]
fn lazy_times_survive_enospc_and_eviction() {
    for icache in uext4_vfs::icache::IcacheVariant::ALL {
        for isz in ["128", "256", "1024"] {
            let path = image("16M", &format!("-b 4096 -N 256 -I {isz}"));
            let o = MountOptions {
                lazytime: true,
                icache,
                inodes_max: 4,
                ..MountOptions::default()
            };
            let fs = mount(&path, o.clone());
            let top = fs.top();
            for i in 0..100 {
                let f = fs.make(&top, &format!("f{i}"), &FILE);
                fs.put(&f, 0, &[1; 100]);
            }
            let big = fs.make(&top, b"big", &FILE);
            while FileSystem::append(&*fs, &big, &[0; 4096]).is_ok() {}
            drop(big);
            std::thread::scope(|s| {
                for t in 0..4 {
                    let (fs, top) = (&fs, &top);
                    s.spawn(move || {
                        for i in (t..100).step_by(4) {
                            let f = fs.get(top, &format!("f{i}"));
                            let at = TimeSet::At(uext4_vfs::attr::Timestamp {
                                sec: 5000 + i,
                                nsec: 0,
                            });
                            fs.setattr(
                                &Caller::root(),
                                &f,
                                &with(|o: &mut SetAttr| (o.mtime, o.atime) = (Some(at), Some(at))),
                            )
                            .unwrap();
                        }
                    });
                }
            });
            drop(top);
            path.end(fs);
            let fs = mount(&path, o);
            let top = fs.top();
            for i in 0..100 {
                let f = fs.get(&top, &format!("f{i}"));
                assert_eq!(fs.attributes.attr(&f).mtime.sec, 5000 + i, "{icache}");
            }
            drop(top);
            fs.unmount().unwrap();
        }
    }
}

#[test]
fn odd_ages() {
    for age in [Duration::ZERO, Duration::MAX, Duration::from_nanos(1)] {
        let path = image("16M", "-b 1024");
        let fs = mount(
            &path,
            with(|o: &mut MountOptions| (o.lazytime, o.lazytime_max_age) = (true, age)),
        );
        let top = fs.top();
        let f = fs.make(&top, b"f", &FILE);
        fs.put(&f, 0, b"x");
        std::thread::sleep(Duration::from_millis(30));
        fs.put(&f, 0, b"x");
        drop(f);
        drop(top);
        path.end(fs);
    }
    // dropped without unmount, right away, many times, with the thread busy
    for _ in 0..100 {
        let path = image("4M", "-b 1024");
        let fs = mount(
            &path,
            with(|o: &mut MountOptions| {
                (o.lazytime, o.lazytime_max_age) = (true, Duration::from_nanos(1))
            }),
        );
        let top = fs.top();
        let f = fs.make(&top, b"f", &FILE);
        fs.put(&f, 0, b"x");
        std::thread::sleep(Duration::from_millis(fastrand::u64(0..8)));
        let _ = fs.files.write(&f, 0, b"x", true);
        drop(f);
        drop(top);
        drop(fs);
        // may still be dropped by the thread
        for i in 0..200 {
            if std::process::Command::new("e2fsck")
                .arg("-fn")
                .arg(&path)
                .output()
                .unwrap()
                .status
                .success()
            {
                if i > 0 {
                    eprintln!("clean after {i}");
                }
                break;
            }
            assert!(i < 199);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_root_that_names_itself() {
    let path = image("16M", "-b 1024 -O ^metadata_csum,^uninit_bg,^dir_index");
    debugfs(&path, "ln <2> self");
    debugfs(&path, "ln <8> journal");
    debugfs(&path, "ln <7> resize");
    debugfs(&path, "ln <1> bad");
    let r = within("everything", move || {
        let fs = path.mount();
        let top = fs.top();
        let mut out = vec![];
        for n in ["self", "journal", "resize", "bad"] {
            let (f2, t2, n2) = (Arc::clone(&fs), top.clone(), n.to_string());
            out.push(format!(
                "unlink {n}: {:?}",
                within(&format!("unlink {n}"), move || f2
                    .unlink(&Caller::root(), &t2, n2.as_bytes())
                    .map_err(|e| e.to_string()))
            ));
            let (f2, t2, n2) = (Arc::clone(&fs), top.clone(), n.to_string());
            out.push(format!(
                "lookup {n}: {:?}",
                within(&format!("lookup {n}"), move || f2
                    .lookup(&Caller::root(), &t2, n2.as_bytes())
                    .map(|_| ())
                    .map_err(|e| e.to_string()))
            ));
        }
        let (f2, t2) = (Arc::clone(&fs), top.clone());
        eprintln!("{out:#?}");
        out.push(format!(
            "rmdir self: {:?}",
            within("rmdir self", move || f2
                .rmdir(&Caller::root(), &t2, b"self")
                .map_err(|e| e.to_string()))
        ));
        out
    });
    eprintln!("{r:#?}");
}

#[test]
fn a_free_count_too_high_by_one_then_unlink() {
    for (what, field) in [("free_inodes_count", 0), ("used_dirs", 1)] {
        let path = image("4M", "-b 1024 -N 64 -O ^metadata_csum,^uninit_bg");
        let fs = path.mount();
        let per = fs.volume.geometry().inodes_per_group;
        let top = fs.top();
        fs.make(&top, b"f", &FILE);
        drop(top);
        fs.unmount().unwrap();
        drop(fs);
        if field == 0 {
            debugfs(&path, &format!("set_bg 0 free_inodes_count {per}"));
        } else {
            debugfs(&path, "set_bg 0 used_dirs_count 65535");
        }
        let fs = path.mount();
        let top = fs.top();
        if field == 0 {
            // The bitmap says otherwise: nothing is freed there, and nothing made.
            let unlinked = fs.namei.unlink(&Caller::root(), &top, b"f").unwrap_err();
            assert!(matches!(unlinked, Ext4Error::Corrupt(_)), "{unlinked}");
            let made = fs
                .namei
                .create(&Caller::root(), &top, b"g", &FILE)
                .unwrap_err();
            assert!(matches!(made, Ext4Error::NoInode), "{made}");
        } else {
            fs.make(&top, b"d", &DIR);
        }
        drop(top);
        fs.unmount().unwrap();
        drop(fs);
        let d =
            uext4_block::FileDevice::open(&path, &uext4_block::OpenOptions::read_write()).unwrap();
        let r: Result<_, Ext4Error> = uext4_ext4::Ext4::mount(Arc::new(d), MountOptions::default());
        eprintln!(
            "{what}: remount: {:?}",
            r.as_ref().map(|_| ()).map_err(|e| e.to_string())
        );
        assert!(r.is_ok(), "mounted before, not after an unlink");
    }
}

#[test]
fn a_wrong_count_of_free_blocks_is_found_before_it_wraps() {
    for count in [0, 1, 3900] {
        let path = image("4M", "-b 1024 -N 64 -O ^metadata_csum,^uninit_bg");
        debugfs(&path, &format!("set_bg 0 free_blocks_count {count}"));
        let fs = path.mount();
        let top = fs.top();
        let f = fs.make(&top, b"f", &FILE);
        let written = fs.files.write(&f, 0, &[1; 10_000], true).unwrap_err();
        assert!(matches!(written, Ext4Error::NoSpace), "{count}: {written}");
        assert!(fs.create(&Caller::root(), &top, b"d", &DIR).is_err());
        drop((f, top));
        fs.sync().expect("the journal is alive");
        fs.unmount().unwrap();
        drop(fs);
        // What e2fsck finds is the count that was set, and nothing else.
        let out = std::process::Command::new("e2fsck")
            .arg("-fn")
            .arg(&path)
            .output();
        let text = String::from_utf8_lossy(&out.unwrap().stdout).into_owned();
        assert!(
            text.contains("Free blocks count wrong for group #0"),
            "{text}"
        );
        assert!(!text.contains("bitmap differences"), "{text}");
    }
}

#[test]
fn read_only_and_generation() {
    let path = image("4M", "-b 1024 -N 64 -O ^metadata_csum");
    let fs = path.mount();
    let top = fs.top();
    let f = fs.make(&top, b"f", &FILE);
    fs.files
        .set_generation(&Caller::root(), &f, uext4_ondisk::Generation(0))
        .unwrap();
    assert_eq!(fs.handle(&f).generation, 0);
    let d = fs.make(&top, b"d", &DIR);
    fs.files
        .set_generation(&Caller::root(), &d, uext4_ondisk::Generation(77))
        .unwrap();
    fs.files
        .set_generation(&Caller::root(), &top, uext4_ondisk::Generation(78))
        .unwrap();
    assert!(fs.files.swap_boot(&Caller::root(), &d).is_err());
    drop((f, d, top));
    path.end(fs);
    let before = std::fs::read(&path).unwrap();
    let fs = mount(
        &path,
        with(|o: &mut MountOptions| (o.read_only, o.lazytime) = (true, true)),
    );
    let top = fs.top();
    let f = fs.get(&top, b"f");
    let mut b = [0; 3];
    fs.read(&f, 0, &mut b).unwrap();
    assert!(
        fs.files
            .set_generation(&Caller::root(), &f, uext4_ondisk::Generation(1))
            .is_err()
    );
    assert!(fs.files.swap_boot(&Caller::root(), &f).is_err());
    fs.fsync(&f, false).unwrap();
    fs.sync().unwrap();
    drop((f, top));
    fs.unmount().unwrap();
    drop(fs);
    assert!(before == std::fs::read(&path).unwrap());
}

#[test]
fn a_file_of_no_known_type_is_seen_and_removed_but_not_read() {
    let path = image("16M", "-O ^metadata_csum");
    let fs = path.mount();
    let f = fs.make(&fs.top(), b"f", &FILE);
    fs.put(&f, 0, &[1; 5000]);
    let ino = f.ino;
    drop(f);
    fs.unmount().unwrap();
    drop(fs);
    debugfs(&path, "sif f mode 030644");
    let fs = path.mount();
    let f = fs.get(&fs.top(), b"f");
    assert_eq!(fs.getattr(&f).unwrap().size, 5000);
    let read = FileSystem::read(&*fs, &f, 0, &mut [0; 10]).unwrap_err();
    assert_eq!(read.errno(), Errno::EUCLEAN);
    let said = read.to_string();
    assert!(said.contains(&format!("inode {ino}")), "{said}");
    drop(f);
    fs.unlink(&Caller::root(), &fs.top(), b"f").unwrap();
    path.end(fs);
}

//! Operations on images that mke2fs made, verified by e2fsck.

use uext4_testkit::prelude::*;

const SHAPES: [&str; 5] = [
    "-b 4096",
    "-b 4096 -O ^has_journal",
    "-b 4096 -O orphan_file",
    "-b 4096 -O ^metadata_csum,^64bit",
    "-b 1024",
];

#[test]
fn empty_mount_leaves_a_clean_image() {
    for shape in SHAPES {
        let path = image("64M", shape);
        let fs = path.mount();
        path.end(fs);
    }
}

#[test]
fn files_and_directories() {
    let root = Caller::root();
    for shape in SHAPES {
        let path = image("64M", shape);
        let fs = path.mount();
        let top = fs.top();
        let dir = fs.make(&top, b"dir", &DIR);
        for i in 0..3000 {
            let name = format!("file-with-a-name-{i}");
            let file = fs.make(&dir, &name, &FILE);
            if i % 7 == 0 {
                fs.put(&file, 0, name.as_bytes());
            }
        }
        assert!(
            fs.namei
                .create(&root, &dir, b"file-with-a-name-1", &FILE)
                .is_err()
        );
        for i in (0..3000).step_by(3) {
            fs.remove(&dir, &format!("file-with-a-name-{i}"));
        }
        for i in 0..3000 {
            let found = fs
                .namei
                .lookup(&root, &dir, format!("file-with-a-name-{i}").as_bytes());
            assert_eq!(found.is_ok(), i % 3 != 0, "name {i}");
        }
        let sub = fs.make(&dir, b"sub", &DIR);
        fs.namei
            .rename(
                &root,
                &dir,
                b"file-with-a-name-7",
                &sub,
                b"moved",
                RenameFlags::empty(),
            )
            .expect("rename");
        fs.namei
            .rename(&root, &dir, b"sub", &top, b"sub", RenameFlags::empty())
            .expect("rename dir");
        let link = NewNode {
            mode: 0o777,
            kind: NewKind::Symlink(&[b'x'; 200]),
        };
        let link = fs.make(&top, b"link", &link);
        assert_eq!(fs.files.readlink(&link).expect("readlink"), vec![b'x'; 200]);
        let (index, name) = uext4_ondisk::XattrIndex::split_name(b"user.a").expect("name");
        for len in [10, 50, 900, 0] {
            let value = vec![7; len];
            fs.attributes
                .set_xattr(&sub, index, name, &value, XattrFlags::empty())
                .unwrap_or_else(|e| panic!("setxattr {len} {shape:?}: {e}"));
            assert_eq!(
                fs.attributes
                    .get_xattr(&sub, index, name)
                    .expect("getxattr"),
                value
            );
        }
        drop((sub, link, dir, top));
        path.end(fs);
    }
}

#[test]
fn data_survives() {
    for shape in SHAPES {
        let path = image("64M", shape);
        let mut model = vec![0u8; 3 << 20];
        let mut rng = fastrand::Rng::with_seed(7);
        let mut size = 0;
        {
            let fs = path.mount();
            let top = fs.top();
            let file = fs.make(&top, b"data", &FILE);
            for _ in 0..300 {
                if rng.u8(..) < 30 {
                    let to = rng.usize(..model.len());
                    fs.resize(&file, to as u64);
                    model[to..].fill(0);
                    size = to;
                    continue;
                }
                let at = rng.usize(..model.len() - 1);
                let len = rng.usize(1..=(model.len() - at).min(100_000));
                let byte = rng.u8(1..);
                let data = vec![byte; len];
                assert_eq!(fs.put(&file, at as u64, &data), len);
                model[at..at + len].fill(byte);
                size = size.max(at + len);
            }
            let mut have = vec![1; model.len()];
            let n = fs.files.read(&file, 0, &mut have).expect("read");
            assert_eq!(n, size);
            assert!(have[..n] == model[..n]);
            drop((file, top));
            fs.unmount().expect("unmount");
        }
        fsck(&path);
        let fs = path.mount();
        let top = fs.top();
        let file = fs.get(&top, b"data");
        let mut have = vec![1; model.len()];
        let n = fs.files.read(&file, 0, &mut have).expect("read");
        assert!(n == size && have[..n] == model[..n]);
        fs.remove(&top, b"data");
        assert_eq!(
            fs.files.read(&file, 0, &mut have).expect("read unlinked"),
            size
        );
        drop((file, top));
        path.end(fs);
    }
}

#[test]
fn a_crash_recovers_what_was_synced() {
    let path = image("64M", "");
    {
        let fs = path.mount();
        let top = fs.top();
        for i in 0..500 {
            let name = format!("f{i}");
            let file = fs.make(&top, &name, &FILE);
            fs.put(&file, 0, name.as_bytes());
        }
        fs.sync().expect("sync");
        drop(top);
        fs.crash();
    }
    let fs = path.mount();
    let top = fs.top();
    for i in 0..500 {
        let name = format!("f{i}");
        let file = fs.get(&top, &name);
        let mut data = [0; 16];
        let n = fs.files.read(&file, 0, &mut data).expect("read");
        assert_eq!(&data[..n], name.as_bytes());
    }
    drop(top);
    path.end(fs);
}

#[test]
fn deep_trees() {
    let root = Caller::root();
    let path = image("256M", "-b 1024 -N 80000");
    let fs = path.mount();
    let top = fs.top();
    let dir = fs.make(&top, b"many", &DIR);
    let name = |i: u32| format!("a-rather-long-name-so-that-leaves-fill-{i}");
    for i in 0..60_000 {
        let _file = fs.make(&dir, &name(i), &FILE);
    }
    let holes = fs.make(&top, b"holes", &FILE);
    // Every other block, from the back: as many extents as blocks, each before the others.
    for i in (0..20_000u64).rev() {
        fs.put(&holes, i * 2048, &[1; 1024]);
    }
    fs.sync().expect("sync");
    for i in (0..20_000u64).step_by(3) {
        fs.put(&holes, i * 2048 + 1024, &[2; 1024]);
    }
    fs.resize(&holes, 20_000 * 1024 + 100);
    for i in (0..60_000).step_by(2) {
        fs.remove(&dir, &name(i));
    }
    drop((holes, dir, top));
    path.end(fs);
    let fs = path.mount();
    let top = fs.top();
    let dir = fs.get(&top, b"many");
    for i in 0..60_000 {
        assert_eq!(
            fs.namei.lookup(&root, &dir, name(i).as_bytes()).is_ok(),
            i % 2 == 1
        );
    }
    let mut seen = 0;
    uext4_vfs::filesystem::FileSystem::readdir(&*fs, &root, &dir, 0, &mut |_| {
        seen += 1;
        true
    })
    .expect("readdir");
    assert_eq!(seen, 30_002);
    for i in (1..60_000).step_by(2) {
        fs.remove(&dir, &name(i));
    }
    fs.remove_dir(&top, b"many");
    fs.remove(&top, b"holes");
    drop((dir, top));
    path.end(fs);
}

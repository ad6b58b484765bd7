//! Fast commits that we wrote: e2fsck and the kernel leave of them what our own replay does, and all that was synced.

use crate::*;

/// Mounts a new image; transactions end only where they must.
fn mount_new(image: &Path, block: &str) -> Result<Arc<Ext4>> {
    let path = image.to_str().context("path")?;
    let args = ["-q", "-t", "ext4", "-b", block, "-J", "size=8", "-O"];
    oracle::run(
        "mke2fs",
        &[&args[..], &["fast_commit", path, "64M"]].concat(),
        0,
    )?;
    let device = Arc::new(FileDevice::open(image, &OpenOptions::read_write())?);
    let options = MountOptions {
        commit_interval: Duration::from_secs(1000),
        ..MountOptions::default()
    };
    Ok(Ext4::mount(device as _, options)?)
}

/// A tree that threads wrote, each file synced, and then nothing more: as after a crash.
fn make(image: &Path, block: &str, seed: u64) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let fs = mount_new(image, block)?;
    let synced = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let fs = &fs;
                scope.spawn(move || load(fs, thread, seed))
            })
            .collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        ended.flatten().collect()
    });
    let stats = fs.volume.journal().stats();
    println!(
        "{} commits, {} fast commits",
        stats.commits, stats.fast_commits
    );
    assert!(stats.fast_commits > stats.commits, "{stats:?}");
    fs.crash();
    Ok(synced)
}

/// Makes files and appends to them; now and then something that no fast commit can say.
fn load(fs: &Ext4, thread: u64, seed: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rng = fastrand::Rng::with_seed(100 * seed + thread);
    let top = fs.top();
    let name = format!("d{thread}");
    let dir = fs.make(&top, name.as_bytes(), &DIR);
    FileSystem::fsync(fs, &dir, false).expect("durable");
    let mut files = BTreeMap::new();
    for i in 0..40 {
        let file = format!("f{i}");
        let node = fs.make(&dir, file.as_bytes(), &FILE);
        let mut data = Vec::new();
        for _ in 0..rng.usize(1..5) {
            let more = vec![rng.u8(..); rng.usize(1..20_000)];
            let skipped = rng.usize(..3) * 5000;
            data.resize(data.len() + skipped, 0);
            FileSystem::write(fs, &node, data.len() as u64, &more).expect("writes");
            data.extend(more);
            FileSystem::fsync(fs, &node, rng.bool()).expect("durable");
        }
        if rng.u8(..10) == 0 {
            fs.remove(&dir, file.as_bytes());
            FileSystem::fsync(fs, &dir, false).expect("durable");
            continue;
        }
        files.insert(format!("{name}/{file}").into_bytes(), data);
    }
    files
}

/// The tree that our replay leaves of an image, which is what e2fsck's and the kernel's leave.
fn replayed(dir: &Path, image: &Path) -> Tree {
    let copies = ["ours", "e2fsck", "kernel"].map(|name| {
        std::fs::copy(image, dir.join(name)).expect("copies");
        dir.join(name)
    });
    oracle::repair(&copies[1]).expect("e2fsck");
    let kernel = KernelMount::new(&copies[2], &dir.join("mount"), "rw").expect("mounts");
    kernel.unmount().expect("unmounts");
    let [ours, others @ ..] = copies.map(|copy| match recovered_tree(&copy) {
        Ok(tree) => tree,
        Err(why) => panic!("{}: {why:#}", copy.display()),
    });
    for other in &others {
        assert_eq!(tree::difference(&ours, other), None);
    }
    ours
}

#[test]
fn crash_fast_commits_of_ours_are_replayed_by_all() {
    require!(kernel_mounts());
    for (seed, block) in ["1024", "4096"].iter().enumerate() {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("image");
        let synced = make(&image, block, seed as u64).expect("an image");
        let tree = replayed(dir.path(), &image);
        for (path, data) in &synced {
            let found = tree.get(path).map(|entry| &entry.data);
            assert!(found == Some(data), "{}", tree::show(path));
        }
    }
}

/// Appends to a file until so many fast commits are made; none: until there is no place for another. The file's data, and how many there are.
fn append(fs: &Ext4, most: Option<u64>) -> (Vec<u8>, u64) {
    let node = fs.make(&fs.top(), b"file", &FILE);
    // So that the log is in use.
    fs.sync().expect("commits");
    let before = fs.volume.journal().stats();
    let mut data = Vec::new();
    loop {
        let made = fs.volume.journal().stats();
        let count = made.fast_commits - before.fast_commits;
        if most == Some(count) || made.commits > before.commits {
            return (data, count);
        }
        FileSystem::write(fs, &node, data.len() as u64, &[1; 100]).expect("writes");
        data.extend([1; 100]);
        FileSystem::fsync(fs, &node, false).expect("durable");
    }
}

#[test]
fn crash_an_area_as_full_as_it_can_be_is_replayed_by_all() {
    require!(kernel_mounts());
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    let trial = mount_new(&dir.path().join("trial"), "1024").expect("mounts");
    let (_, most) = append(&trial, None);
    trial.crash();
    assert!(most > 10, "{most}");
    let fs = mount_new(&image, "1024").expect("mounts");
    let (data, _) = append(&fs, Some(most));
    fs.crash();
    let tree = replayed(dir.path(), &image);
    assert!(tree.get(&b"file"[..]).is_some_and(|file| file.data == data));
}

#[test]
fn crash_a_file_made_where_another_was_has_none_of_its_attributes() {
    require!(kernel_mounts());
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    let fs = mount_new(&image, "1024").expect("mounts");
    let (root, top) = (Caller::root(), fs.top());
    let names: Vec<_> = (0..100).map(|i| format!("file{i}").into_bytes()).collect();
    let mut inodes = BTreeSet::new();
    for name in &names {
        let node = fs.make(&top, name, &FILE);
        fs.setxattr(&root, &node, b"user.old", b"value", XattrFlags::empty())
            .expect("sets");
        inodes.insert(node.ino);
    }
    fs.sync().expect("commits");
    names.iter().for_each(|name| fs.remove(&top, name));
    fs.sync().expect("commits");
    let mut reused = 0;
    for name in &names {
        let node = fs.make(&top, name, &FILE);
        reused += usize::from(inodes.contains(&node.ino));
        FileSystem::fsync(&*fs, &node, false).expect("durable");
    }
    assert!(reused > 50, "{reused}");
    fs.crash();
    let tree = replayed(dir.path(), &image);
    for name in &names {
        assert!(tree.get(name).is_some_and(|file| file.xattrs.is_empty()));
    }
}

//! Fast commits that we wrote: e2fsck and the kernel leave of them what our own replay does, and all that was synced.

use crate::*;

/// A tree that threads wrote, each file synced, and then nothing more: as after a crash.
fn make(image: &Path, block: &str, seed: u64) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let path = image.to_str().context("path")?;
    let args = ["-q", "-t", "ext4", "-b", block, "-J", "size=8", "-O"];
    oracle::run(
        "mke2fs",
        &[&args[..], &["fast_commit", path, "64M"]].concat(),
        0,
    )?;
    let device = Arc::new(FileDevice::open(image, &OpenOptions::read_write())?);
    let fs = Ext4::mount(device as _, MountOptions::default())?;
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

#[test]
fn crash_fast_commits_of_ours_are_replayed_by_all() {
    require!(kernel_mounts());
    for (seed, block) in ["1024", "4096"].iter().enumerate() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let synced = make(&at("image"), block, seed as u64).expect("an image");
        let copies = ["ours", "e2fsck", "kernel"].map(|name| {
            std::fs::copy(at("image"), at(name)).expect("copies");
            at(name)
        });
        oracle::repair(&copies[1]).expect("e2fsck");
        let kernel = KernelMount::new(&copies[2], &at("mount"), "rw").expect("mounts");
        kernel.unmount().expect("unmounts");
        let trees = copies.map(|copy| match recovered_tree(&copy) {
            Ok(tree) => tree,
            Err(why) => panic!(
                "{}: {why:#}; kept in {}",
                copy.display(),
                dir.path().display()
            ),
        });
        for (path, data) in &synced {
            let found = trees[0].get(path).map(|entry| &entry.data);
            assert!(found == Some(data), "{}", tree::show(path));
        }
        for other in &trees[1..] {
            assert_eq!(tree::difference(&trees[0], other), None);
        }
    }
}

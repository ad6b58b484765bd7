//! Handles and generations, in every variant, on images that mke2fs made.

use crate::*;
use uext4_ondisk::Generation;

fn options(generation: GenerationVariant) -> MountOptions {
    with(|o: &mut MountOptions| o.generation = generation)
}

fn create(fs: &Ext4, name: &str) -> InodeRef {
    let root = fs.top();
    fs.make(&root, &name, &FILE)
}

fn unlink(fs: &Ext4, name: &str) {
    let root = fs.top();
    fs.remove(&root, &name);
}

fn handle(fs: &Ext4, node: &InodeRef) -> FileHandle {
    FileSystem::handle(fs, node)
}

fn assert_stale(fs: &Ext4, handle: FileHandle, when: &str) {
    let opened = fs.open_handle(handle);
    assert_eq!(opened.expect_err(when), Errno::ESTALE, "{when}");
}

/// Makes files until one has the number `ino`.
fn reuse(fs: &Ext4, ino: Ino, tag: &str) -> InodeRef {
    for i in 0..1000 {
        let made = create(fs, &format!("{tag}-{i}"));
        if made.ino == ino {
            return made;
        }
    }
    panic!("inode {ino} is not used again");
}

fn errno(result: Result<(), Ext4Error>) -> Errno {
    result.expect_err("refused").errno()
}

/// The variants that assign a generation.
fn assigning() -> impl Iterator<Item = GenerationVariant> {
    let all = GenerationVariant::ALL.into_iter();
    all.filter(|variant| *variant != GenerationVariant::None)
}

#[test]
fn a_handle_is_stale_after_unlink_and_reuse() {
    for variant in assigning() {
        // Few inodes, so that the number is used again however inodes are searched.
        let path = image("16M", "-b 1024 -N 64");
        let fs = mount(&path, options(variant));
        let file = create(&fs, "file");
        let (ino, first) = (file.ino, handle(&fs, &file));
        drop(file);
        let found = fs.open_handle(first).expect("alive");
        assert_eq!((found.ino, handle(&fs, &found)), (ino, first), "{variant}");
        drop(found);
        unlink(&fs, "file");
        assert_stale(&fs, first, "unlinked");
        let second = handle(&fs, &reuse(&fs, ino, "second"));
        assert_ne!(first, second);
        assert_stale(&fs, first, "used again");
        fs.open_handle(second).expect("the one that uses it");
        path.end(fs);

        let fs = mount(&path, options(variant));
        assert_stale(&fs, first, "used again, after a remount");
        let found = fs.open_handle(second).expect("alive after a remount");
        assert_eq!(handle(&fs, &found), second);
        drop(found);
        for i in 0..1000 {
            let root = fs.top();
            let name = format!("second-{i}");
            match fs.namei.unlink(&Caller::root(), &root, name.as_bytes()) {
                Err(Ext4Error::NotFound) => break,
                done => done.expect("unlink"),
            }
        }
        assert_stale(&fs, second, "unlinked after a remount");
        fs.unmount().expect("unmount");
        drop(fs);

        let fs = mount(&path, options(variant));
        assert_stale(&fs, second, "unlinked before a remount");
        let third = handle(&fs, &reuse(&fs, ino, "third"));
        assert_stale(&fs, first, "used by a third");
        assert_stale(&fs, second, "used by a third");
        fs.open_handle(third).expect("the third");
        path.end(fs);
    }
}

/// What `none` leaves out: a handle names an inode number, and opens what has it now.
#[test]
fn without_generations_a_handle_opens_what_reuses_its_inode() {
    let path = image("16M", "-b 1024 -N 64");
    let fs = mount(&path, options(GenerationVariant::None));
    let file = create(&fs, "file");
    let (ino, first) = (file.ino, handle(&fs, &file));
    assert_eq!(fs.files.generation(&file), Generation(0));
    drop(file);
    unlink(&fs, "file");
    assert_stale(&fs, first, "nothing has the number");
    let second = reuse(&fs, ino, "second");
    let found = fs.open_handle(first).expect("the file that has the number");
    assert_eq!(found.ino, second.ino);
    drop((second, found));
    path.end(fs);
    assert_eq!(on_disk(&path, ino), 0);
}

#[test]
fn increment_counts_the_uses_of_an_inode() {
    let path = image("16M", "-b 1024 -N 64");
    let mut ino = None;
    for used in 1..8 {
        let fs = mount(&path, options(GenerationVariant::Increment));
        let mut made = Vec::new();
        let file = loop {
            let name = format!("{}", made.len());
            let file = create(&fs, &name);
            made.push(name);
            if *ino.get_or_insert(file.ino) == file.ino {
                break file;
            }
        };
        assert_eq!(fs.files.generation(&file), Generation(used));
        drop(file);
        made.iter().for_each(|name| unlink(&fs, name));
        path.end(fs);
    }
}

#[test]
fn an_unlinked_file_that_is_open_keeps_its_handle() {
    let path = image("16M", "");
    let fs = path.mount();
    let file = create(&fs, "file");
    let open = handle(&fs, &file);
    unlink(&fs, "file");
    fs.open_handle(open).expect("it exists while it is open");
    drop(file);
    assert_stale(&fs, open, "the last reference went");
}

/// Reads blocks until no block of the image is left in memory that nothing refers to.
fn evict(fs: &Ext4) {
    for _ in 0..3 {
        for block in 0..fs.volume.geometry().blocks_count {
            fs.volume.cache().get(block).expect("reads");
        }
    }
}

/// Blocks of inode tables of which this mount was the first to use any have left memory when their inodes are used again.
#[test]
fn a_generation_outlives_the_eviction_of_its_block() {
    for ialloc in IallocVariant::ALL {
        let path = image("64M", "-b 1024 -N 512");
        let options = MountOptions {
            generation: GenerationVariant::Increment,
            ialloc,
            cache_bytes: 1 << 20,
            ..MountOptions::default()
        };
        let fs = mount(&path, options.clone());
        let mut former = BTreeMap::new();
        for round in 0..4 {
            let files: Vec<_> = (0..200).map(|i| create(&fs, &format!("{i}"))).collect();
            let now: BTreeMap<Ino, Generation> = files
                .iter()
                .map(|file| (file.ino, fs.files.generation(file)))
                .collect();
            drop(files);
            let again = now.iter().filter(|(ino, _)| former.contains_key(*ino));
            assert!(round == 0 || again.count() > 50, "{ialloc}, round {round}");
            for (ino, generation) in now {
                let last = former.insert(ino, generation).map_or(0, |last| last.0);
                assert_eq!(
                    generation.0,
                    last + 1,
                    "{ialloc}, round {round}, inode {ino}"
                );
            }
            for i in 0..200 {
                unlink(&fs, &format!("{i}"));
            }
            // Writes all to its place, so that the journal refers to no block.
            let read_only = |read_only| MountOptions {
                read_only,
                ..options.clone()
            };
            fs.remount(&read_only(true)).expect("becomes read-only");
            evict(&fs);
            fs.remount(&read_only(false)).expect("becomes writable");
        }
        path.end(fs);
    }
}

#[test]
fn handles_of_nothing_are_stale() {
    let path = image("16M", "");
    let fs = path.mount();
    let root = handle(&fs, &fs.top());
    fs.open_handle(root).expect("root");
    let inodes = u64::from(fs.volume.geometry().inodes_count);
    for ino in [0, 1, 3, 5, 7, 8, 10, inodes, inodes + 1, u64::MAX] {
        for generation in [0, 1] {
            assert_stale(&fs, FileHandle { ino, generation }, "not a file");
        }
    }
}

#[test]
fn a_crash_makes_no_handle_good_again() {
    let path = image("16M", "-b 1024 -N 64");
    let fs = path.mount();
    let file = create(&fs, "file");
    let (ino, first) = (file.ino, handle(&fs, &file));
    drop(file);
    fs.sync().expect("sync");
    unlink(&fs, "file");
    let second = handle(&fs, &reuse(&fs, ino, "second"));
    fs.sync().expect("sync");
    fs.crash();
    drop(fs);
    let fs = path.mount();
    assert_stale(&fs, first, "after recovery");
    fs.open_handle(second).expect("it was synced");
    path.end(fs);
}

/// What debugfs says is the generation.
fn on_disk(path: &Path, ino: Ino) -> u32 {
    let command = format!("stat <{ino}>");
    let text = run(Command::new("debugfs").args(["-R", &command]).arg(path));
    let after = text.split("Generation:").nth(1).expect("a generation");
    let word = after.split_whitespace().next().expect("a number");
    word.parse().expect("a number")
}

#[test]
fn setversion_makes_old_handles_stale() {
    let path = image("16M", "-O ^metadata_csum");
    let fs = path.mount();
    let file = create(&fs, "file");
    fs.put(&file, 0, b"content");
    let (ino, old) = (file.ino, handle(&fs, &file));
    let version = file.state().version;
    fs.files
        .set_generation(&Caller::root(), &file, Generation(0xdead_beef))
        .expect("set");
    assert_eq!(fs.files.generation(&file), Generation(0xdead_beef));
    assert_ne!(file.state().version, version);
    assert_stale(&fs, old, "another generation");
    let new = handle(&fs, &file);
    assert_eq!(new.generation, 0xdead_beef);
    drop(file);
    path.end(fs);
    assert_eq!(on_disk(&path, ino), 0xdead_beef);

    let fs = path.mount();
    assert_stale(&fs, old, "after a remount");
    let file = fs.open_handle(new).expect("after a remount");
    let mut data = [0; 7];
    fs.read(&file, 0, &mut data).expect("read");
    assert_eq!(&data, b"content");
}

#[test]
fn setversion_is_refused_as_the_kernel_does() {
    let path = image("16M", "-O ^metadata_csum");
    let (owner, other) = (Caller::user(7, 7), Caller::user(8, 8));
    let fs = path.mount();
    let root = fs.top();
    let dir = fs.make(&root, b"dir", &DIR);
    let file = create(&fs, "file");
    let to_owner = uext4_vfs::attr::SetAttr {
        uid: Some(7),
        ..Default::default()
    };
    fs.setattr(&Caller::root(), &file, &to_owner)
        .expect("chown");
    let set = |caller: &Caller, node| fs.files.set_generation(caller, node, Generation(1));
    assert_eq!(errno(set(&other, &file)), Errno::EPERM);
    set(&owner, &file).expect("the owner may");
    set(&Caller::root(), &dir).expect("directories have one too");
    drop((root, dir, file));
    path.end(fs);

    let device = FileDevice::open(&path, &OpenOptions::read_only()).expect("open image");
    let read_only = with(|o: &mut MountOptions| o.read_only = true);
    let fs = Ext4::mount(Arc::new(device), read_only).expect("mount");
    let root = fs.top();
    let file = fs.get(&root, b"file");
    let refused = fs.files.set_generation(&owner, &file, Generation(2));
    assert_eq!(errno(refused), Errno::EROFS);
    drop((root, file, fs));

    let path = image("16M", "");
    let fs = path.mount();
    let file = create(&fs, "file");
    let before = fs.files.generation(&file);
    let refused = fs
        .files
        .set_generation(&Caller::root(), &file, Generation(2));
    assert_eq!(errno(refused), Errno::ENOTTY);
    assert_eq!(fs.files.generation(&file), before);
    assert_eq!(
        errno(fs.files.set_generation(&other, &file, Generation(2))),
        Errno::EPERM
    );
}

#[test]
fn getversion_is_what_the_disk_has() {
    let path = image("16M", "");
    let fs = path.mount();
    let file = create(&fs, "file");
    let (ino, generation) = (file.ino, fs.files.generation(&file));
    drop(file);
    fs.unmount().expect("unmount");
    drop(fs);
    assert_eq!(Generation(on_disk(&path, ino)), generation);
}

//! fs-verity: files that get it have the digests of `fsverity digest`, changed bytes are found by the next read, and what cannot have it is refused.

use std::process::Command;
use uext4_ext4::FsVerityReads;
use uext4_ondisk::{FsVerity, HashAlgorithm};
use uext4_testkit::{
    mke2fs::{mount, run},
    prelude::*,
};

const BLOCK: u64 = 4096;

fn content(bytes: u64, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes as usize];
    Rng::with_seed(seed).fill(&mut data);
    data
}

fn verity(algorithm: HashAlgorithm, block_bytes: u32, salt: &[u8]) -> FsVerity {
    FsVerity {
        algorithm,
        block_bytes,
        salt: salt.to_vec(),
        ..FsVerity::default()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What `fsverity digest` prints of data.
fn digest_of(data: &[u8], verity: &FsVerity) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), data).expect("write");
    let algorithm = match verity.algorithm {
        HashAlgorithm::Sha256 => "sha256",
        HashAlgorithm::Sha512 => "sha512",
    };
    let mut command = Command::new("fsverity");
    command.args(["digest", "--compact"]);
    command.arg(format!("--hash-alg={algorithm}"));
    command.arg(format!("--block-size={}", verity.block_bytes));
    if !verity.salt.is_empty() {
        command.arg(format!("--salt={}", hex(&verity.salt)));
    }
    run(command.arg(file.path())).trim().to_owned()
}

fn read_all(fs: &Ext4, file: &InodeRef) -> uext4_vfs::Result<Vec<u8>> {
    let mut data = vec![0; file.size() as usize];
    // In pieces that are not those that are hashed.
    let mut at = 0;
    while at < data.len() {
        let end = data.len().min(at + 70_001);
        at += fs.read(file, at as u64, &mut data[at..end])?;
    }
    Ok(data)
}

#[test]
fn files_have_the_digests_that_others_compute() {
    require!(is_installed("fsverity"));
    let root = Caller::root();
    for shape in ["-b 4096", "-b 4096 -O inline_data", "-b 65536"] {
        let path = image("512M", &format!("{shape} -O verity"));
        let fs = path.mount();
        let mut made = Vec::new();
        for (i, verity) in [
            verity(HashAlgorithm::Sha256, 4096, b""),
            verity(HashAlgorithm::Sha512, 1024, b"salt"),
            verity(
                HashAlgorithm::Sha512,
                4096,
                b"32 bytes of salt, and not one mo",
            ),
        ]
        .into_iter()
        .enumerate()
        {
            for bytes in [
                0,
                1,
                50,
                BLOCK,
                BLOCK + 1,
                128 * BLOCK,
                129 * BLOCK + 5,
                3 << 20,
            ] {
                let file = fs.make(&fs.top(), &format!("{i}-{bytes}"), &FILE);
                let data = content(bytes, bytes);
                fs.put(&file, 0, &data);
                let found = fs
                    .files
                    .enable_verity(&root, &file, &verity)
                    .expect("enable");
                assert_eq!(hex(found.digest().as_bytes()), digest_of(&data, &verity));
                made.push((format!("{i}-{bytes}"), data, found));
            }
        }
        path.end(fs);
        let fs = path.mount();
        for (name, data, descriptor) in made {
            let file = find(&*fs, name.as_bytes()).expect("find");
            assert_eq!(fs.files.verity(&file).expect("verity"), Some(descriptor));
            assert!(
                read_all(&fs, &file).expect("read") == data,
                "{shape}: {name}"
            );
        }
        path.end(fs);
    }
}

#[test]
fn a_file_with_holes_or_blocks_past_its_end_gets_it() {
    let path = image("64M", "-b 4096 -O verity");
    let fs = path.mount();
    let file = fs.make(&fs.top(), b"file", &FILE);
    fs.put(&file, 5 << 20, b"end");
    let allocate = Fallocate::AllocateKeepSize;
    fs.files
        .fallocate(&file, allocate, 6 << 20, 1 << 20)
        .expect("allocate");
    let verity = FsVerity::default();
    fs.files
        .enable_verity(&Caller::root(), &file, &verity)
        .expect("enable");
    let data = read_all(&fs, &file).expect("read");
    assert_eq!((data.len(), &data[5 << 20..]), ((5 << 20) + 3, &b"end"[..]));
    path.end(fs);
}

/// Changes one byte of a file, of its data or behind it, on the device.
fn spoil(path: &Path, lblk: u64, offset: u64) {
    let name = format!("bmap file {lblk}");
    let block = run(Command::new("debugfs").args(["-R", &name]).arg(path));
    let block: u64 = block.trim().parse().expect("a block");
    let device = FileDevice::open(path, &OpenOptions::read_write()).expect("open");
    let (at, mut byte) = (block * BLOCK + offset, [0]);
    device.read_at(at, &mut byte).expect("read");
    device.write_at(at, &[!byte[0]]).expect("write");
}

#[test]
fn a_changed_byte_is_found() {
    const BLOCKS: u64 = 300;
    let data = content(BLOCKS * BLOCK, 1);
    let tree = (BLOCKS * BLOCK).next_multiple_of(64 << 10) / BLOCK;
    // A block of data, a leaf of the tree, the highest level, and of the descriptor the version and the root hash.
    for (lblk, offset, errno) in [
        (257, 100, Errno::EIO),
        (tree + 3, 100, Errno::EIO),
        (tree, 50, Errno::EIO),
        (tree + 4, 0, Errno::EUCLEAN),
        (tree + 4, 16, Errno::EIO),
    ] {
        let path = image("64M", "-b 4096 -O verity");
        let fs = path.mount();
        let file = fs.make(&fs.top(), b"file", &FILE);
        fs.put(&file, 0, &data);
        let verity = FsVerity {
            signature: vec![7; 4000],
            ..FsVerity::default()
        };
        let made = fs.files.enable_verity(&Caller::root(), &file, &verity);
        made.expect("enable");
        drop(file);
        path.end(fs);
        spoil(&path, lblk, offset);
        let fs = path.mount();
        let file = find(&*fs, b"file").expect("find");
        let why = read_all(&fs, &file).expect_err("is found");
        assert_eq!(why.errno(), errno, "{why}");
        if lblk == 257 {
            let mut part = [0; 5000];
            fs.read(&file, 250 * BLOCK, &mut part)
                .expect("other blocks are read");
            assert_eq!(part, data[250 * BLOCK as usize..][..5000]);
        }
        fs.unmount().expect("unmount");
        drop(file);
        drop(fs);
        let options = with(|o: &mut MountOptions| o.fs_verity = FsVerityReads::Ignore);
        let fs = mount(&path, options);
        let file = find(&*fs, b"file").expect("find");
        let wrong = read_all(&fs, &file).expect("read");
        let differ = wrong.iter().zip(&data).filter(|(a, b)| a != b).count();
        assert_eq!(differ, usize::from(lblk == 257));
    }
}

#[test]
fn what_cannot_have_it_is_refused() {
    let root = Caller::root();
    let path = image("64M", "-b 4096 -O verity");
    let fs = path.mount();
    let top = fs.top();
    let file = fs.make(&top, b"file", &FILE);
    fs.put(&file, 0, b"data");
    let verity = FsVerity::default();
    let errno = |file: &InodeRef, verity: &FsVerity, caller: &Caller| {
        let refused = fs.files.enable_verity(caller, file, verity);
        let refused = fs.volume.report(refused);
        refused.expect_err("refused").errno()
    };
    for wrong in [
        FsVerity {
            block_bytes: 512,
            ..verity.clone()
        },
        FsVerity {
            block_bytes: 8192,
            ..verity.clone()
        },
        FsVerity {
            block_bytes: 3000,
            ..verity.clone()
        },
        FsVerity {
            salt: vec![1; 33],
            ..verity.clone()
        },
        FsVerity {
            signature: vec![1; 16129],
            ..verity.clone()
        },
    ] {
        assert_eq!(errno(&file, &wrong, &root), Errno::EINVAL, "{wrong:?}");
    }
    assert_eq!(errno(&file, &verity, &Caller::user(7, 7)), Errno::EACCES);
    let dir = fs.make(&top, b"dir", &DIR);
    assert_eq!(errno(&dir, &verity, &root), Errno::EISDIR);
    fs.files
        .enable_verity(&root, &file, &verity)
        .expect("enable");
    assert_eq!(errno(&file, &verity, &root), Errno::EEXIST);
    let written = fs.files.write(&file, 0, b"more", true);
    assert!(
        matches!(written, Err(Ext4Error::NotPermitted)),
        "{written:?}"
    );
    assert_eq!(read_all(&fs, &file).expect("read"), b"data");
    let old = fs.make(&top, b"journaled", &FILE);
    fs.files
        .set_flags(&root, &old, InodeFlags::JOURNAL_DATA | InodeFlags::EXTENTS)
        .expect("set");
    assert_eq!(errno(&old, &verity, &root), Errno::EOPNOTSUPP);
    path.end(fs);
    let path = image("64M", "-b 4096");
    let fs = path.mount();
    let file = fs.make(&fs.top(), b"file", &FILE);
    let refused = fs
        .files
        .enable_verity(&root, &file, &verity)
        .expect_err("refused");
    assert!(refused.to_string().contains("tune -O verity"), "{refused}");
    path.end(fs);
}

#[test]
fn without_room_for_the_tree_the_file_stays_as_it_was() {
    let root = Caller::root();
    let path = image("16M", "-b 4096 -O verity -N 64 -J size=4");
    let fs = path.mount();
    let file = fs.make(&fs.top(), b"file", &FILE);
    let free = fs.statfs().expect("statfs").blocks_free;
    // A tree has a block for each 128.
    let bytes = (free - free / 200) * BLOCK;
    fs.put(&file, 0, &content(bytes, 3));
    let before = fs.statfs().expect("statfs").blocks_free;
    let refused = fs.files.enable_verity(&root, &file, &FsVerity::default());
    assert!(matches!(refused, Err(Ext4Error::NoSpace)), "{refused:?}");
    assert!(!file.flags().contains(InodeFlags::VERITY));
    fs.sync().expect("sync");
    assert_eq!(fs.statfs().expect("statfs").blocks_free, before);
    fs.put(&file, 0, b"can be written");
    path.end(fs);
}

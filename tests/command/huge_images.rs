//! Images of 64 TiB, which are sparse files in memory: checked in less than 1 GiB, and written past the first 2^32
//! blocks.

use crate::*;
use uext4::{FiemapFlags, FiemapOf, Filesystem, ImageOptions, MkfsOptions, NoProgress, mkfs};

const SIZE: u64 = 64 << 40;
/// What an image takes of the host's memory: descriptors and their backups.
const HOST_BYTES: u64 = 2 << 30;
/// Addresses of the process that checks, in KiB.
const CHECK_KIB: u64 = 1 << 20;
const FILE_BYTES: usize = 5 << 20;

/// Makes an image; `None`, with a line, where the host has no room for it.
fn make(options: MkfsOptions) -> Option<(TempDir, PathBuf)> {
    let free = |dir: &Path| rustix::fs::statvfs(dir).map_or(0, |s| s.f_bavail * s.f_frsize);
    let dir = match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) if free(dir.path()) >= HOST_BYTES => dir,
        _ => {
            eprintln!("skipped: needs 2 GiB in /dev/shm");
            return None;
        }
    };
    let image = dir.path().join("huge.img");
    mkfs(&image, &options.size(SIZE), &NoProgress).unwrap();
    assert_eq!(fs::metadata(&image).unwrap().len(), SIZE);
    Some((dir, image))
}

/// Checks an image in a process that has no more memory than it should need.
fn assert_clean(image: &Path) {
    let check = format!(
        "ulimit -v {CHECK_KIB}; exec {} check --threads 2 {}",
        uext4(),
        image.display()
    );
    let out = Command::new("sh").args(["-c", &check]).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("clean"), "{said}");
    assert!(said.contains("/17179869184 blocks"), "{said}");
}

#[test]
fn an_empty_image_is_checked_in_little_memory() {
    if let Some((_dir, image)) = make(MkfsOptions::default()) {
        assert_clean(&image);
    }
}

/// Byte `at` of file `number`.
fn contents(number: u8) -> Vec<u8> {
    let byte = |at: usize| (at >> 9) as u8 ^ number.wrapping_mul(59);
    (0..FILE_BYTES).map(byte).collect()
}

/// Writes a file in each of some directories of the root, which are spread over the groups; returns how many there are
/// once some are past 2^32 blocks.
fn write_past_32_bits(fs: &Filesystem) -> u8 {
    let mut past = 0;
    for number in 0..16 {
        fs.create_dir(format!("/{number}")).unwrap();
        let path = format!("/{number}/file");
        fs.write(&path, contents(number)).unwrap();
        let file = fs.open_file(&path).unwrap();
        file.sync_all().unwrap();
        let extents = file.fiemap(FiemapOf::Data, 0, u64::MAX).unwrap();
        let is_past = extents
            .iter()
            .any(|e| e.physical / 4096 > 1 << 32 && !e.flags.contains(FiemapFlags::UNWRITTEN));
        past += u32::from(is_past);
        if past == 3 {
            return number + 1;
        }
    }
    panic!("{past} of 16 directories are past 2^32 blocks");
}

#[test]
fn files_are_past_the_first_2_to_the_32_blocks() {
    // Each flex group has a new directory of the root, so that there are few; and few backups.
    let options = MkfsOptions::new()
        .flex_bg_size(1 << 16)
        .inode_ratio(1 << 24)
        .features("sparse_super2,^resize_inode")
        .unwrap();
    let Some((_dir, image)) = make(options) else {
        return;
    };
    let fs = Filesystem::open(&image, &ImageOptions::read_write()).unwrap();
    let files = write_past_32_bits(&fs);
    fs.unmount().unwrap();
    let fs = Filesystem::open(&image, &ImageOptions::read_only()).unwrap();
    for number in 0..files {
        let read = fs.read(format!("/{number}/file")).unwrap();
        assert!(read == contents(number), "file {number} of {files}");
    }
    fs.unmount().unwrap();
    assert_clean(&image);
    match Command::new("e2fsck").arg("-fn").arg(&image).output() {
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stdout);
            assert_eq!(out.status.code(), Some(0), "{said}");
        }
        Err(e) => eprintln!("skipped: e2fsck: {e}"),
    }
}

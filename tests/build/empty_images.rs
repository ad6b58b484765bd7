//! Empty images of all sizes and features, as e2fsck, dumpe2fs and the kernel see them.

use uext4_testkit::prelude::*;

use crate::oracle::{Mounted, dump, field, fsck, make, run};
use uext4_build::{MkfsError, mkfs};

const MIB: u64 = 1 << 20;

fn options(size: u64, block_size: u32) -> MkfsOptions {
    with(|o: &mut MkfsOptions| (o.size, o.block_size) = (Some(size), block_size))
}

#[test]
fn every_size_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    for mib in [1, 2, 4, 8, 20, 33, 127, 128, 129, 513, 1024, 10240] {
        for block_size in [1024, 2048, 4096, 16384, 65536] {
            let image = dir.path().join("image");
            make(&image, &options(mib * MIB, block_size)).unwrap();
            fsck(&image, &format!("{mib} MiB in blocks of {block_size}"));
            std::fs::remove_file(&image).unwrap();
        }
    }
}

/// The checker must find a planted fault.
#[test]
fn canary_e2fsck_finds_one_wrong_byte() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    make(&image, &options(16 * MIB, 4096)).unwrap();
    let device = FileDevice::open(&image, &OpenOptions::read_write()).unwrap();
    // Free blocks of the first group.
    device.write_at(4096 + 12, &[0x55]).unwrap();
    drop(device);
    let found = std::panic::catch_unwind(|| fsck(&image, "canary"));
    assert!(found.is_err() || run("e2fsck", &["-V"]).is_none());
}

/// Feature lists, one feature changed at a time and some together.
const FEATURES: [&str; 40] = [
    "",
    "^has_journal",
    "^resize_inode",
    "^dir_index",
    "^64bit",
    "^flex_bg",
    "^metadata_csum",
    "^metadata_csum,uninit_bg",
    "^metadata_csum_seed",
    "^sparse_super",
    "^huge_file",
    "^dir_nlink",
    "^extra_isize",
    "^orphan_file",
    "^large_file",
    "^ext_attr",
    "^sparse_super,^resize_inode,^flex_bg",
    "^flex_bg,^metadata_csum,uninit_bg",
    "^flex_bg,^metadata_csum",
    "^64bit,^metadata_csum,^flex_bg,^has_journal",
    "^extent",
    "^extent,^64bit,^flex_bg,^has_journal,^dir_index",
    "none,filetype",
    "none,extent,filetype",
    "none,extent,filetype,has_journal,metadata_csum",
    "inline_data",
    "ea_inode,large_dir",
    "fast_commit",
    "mmp",
    "stable_inodes,verity",
    "encrypt",
    "sparse_super2",
    "sparse_super2,^resize_inode,^flex_bg,^sparse_super",
    "meta_bg,^resize_inode",
    "meta_bg,^resize_inode,^64bit,^metadata_csum,uninit_bg,^flex_bg",
    "bigalloc",
    "bigalloc,^flex_bg,^resize_inode,fast_commit,mmp",
    "bigalloc,sparse_super2,^64bit,^metadata_csum,uninit_bg",
    "^filetype",
    "^filetype,^dir_index,inline_data,mmp,^metadata_csum",
];

#[test]
fn every_feature_is_clean_and_mounts() {
    let dir = tempfile::tempdir().unwrap();
    for list in FEATURES {
        for (mib, block_size, inode_size) in [(16, 1024, 128), (24, 2048, 256), (300, 4096, 512)] {
            let what = format!("{list:?} in {mib} MiB, blocks of {block_size}");
            let mut options = options(mib * MIB, block_size);
            options.features = FeatureSet::parse(list).unwrap();
            // Data has no place in inodes of 128 bytes.
            let has_data = options.features.incompat.contains(Incompat::INLINE_DATA);
            options.inode_size = if has_data {
                inode_size.max(256)
            } else {
                inode_size
            };
            let image = dir.path().join("image");
            make(&image, &options).unwrap();
            fsck(&image, &what);
            if let Some(mounted) = Mounted::new(&image, "rw") {
                write_and_read(&mounted.path(), &what);
                drop(mounted);
                fsck(&image, &format!("{what}, after a mount"));
            }
            std::fs::remove_file(&image).unwrap();
        }
    }
}

fn write_and_read(at: &Path, what: &str) {
    for i in 0..200 {
        std::fs::write(at.join(format!("file {i}")), vec![i as u8; 3000]).unwrap();
    }
    std::fs::create_dir_all(at.join("a/b/c")).unwrap();
    assert_eq!(
        std::fs::read(at.join("file 7")).unwrap(),
        [7; 3000],
        "{what}"
    );
}

#[test]
fn superblock_is_like_mke2fs() {
    let dir = tempfile::tempdir().unwrap();
    let fields = [
        "Filesystem features",
        "Filesystem flags",
        "Default mount options",
        "Inode count",
        "Block count",
        "Reserved block count",
        "Overhead clusters",
        "Free blocks",
        "Free inodes",
        "First block",
        "Reserved GDT blocks",
        "Inodes per group",
        "Flex block group size",
        "Required extra isize",
        "Journal backup",
        "Total journal blocks",
        "Orphan file inode",
        "Default directory hash",
        "Maximum mount count",
    ];
    for (mib, block_size) in [
        (8, 1024),
        (200, 2048),
        (100, 4096),
        (3000, 4096),
        (20480, 4096),
    ] {
        let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
        make(&ours, &options(mib * MIB, block_size)).unwrap();
        let file = std::fs::File::create(&theirs).unwrap();
        file.set_len(mib * MIB).unwrap();
        let bs = block_size.to_string();
        let features = "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,\
            flex_bg,metadata_csum,metadata_csum_seed,sparse_super,large_file,huge_file,dir_nlink,\
            extra_isize,orphan_file";
        let args = [
            "-q", "-t", "ext4", "-b", &bs, "-i", "16384", "-I", "256", "-O", features,
        ];
        let args = [&args[..], &[theirs.to_str().unwrap()]].concat();
        if run("mke2fs", &args).is_none() {
            return;
        }
        let (Some(ours), Some(theirs)) = (dump(&ours), dump(&theirs)) else {
            return;
        };
        for name in fields {
            let got = field(&ours, name);
            assert_eq!(
                got,
                field(&theirs, name),
                "{name} of {mib} MiB by {block_size}"
            );
        }
    }
}

/// Lines of dumpe2fs that differ between images, and the checksums that follow.
const OWN: [&str; 12] = [
    "Filesystem UUID",
    "Filesystem created",
    "Last write time",
    "Last checked",
    "Directory Hash Seed",
    "Checksum",
    "Checksum seed",
    "Last mount time",
    "Mount count",
    "mmp_update_date",
    "mmp_update_time",
    "Lifetime writes",
];

/// Every feature in turn: all that dumpe2fs prints equals what mke2fs makes.
#[test]
fn every_feature_is_like_mke2fs() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let mut wrong = Vec::new();
    // Not every kernel mounts the last one, and projects need room in the inode.
    for list in FEATURES.iter().chain(&["project", "casefold"]) {
        // Several groups of clusters.
        let large = list.contains("bigalloc").then_some((600, 1024, 256));
        let sizes = [(40, 1024, 256), (300, 4096, 512)];
        for (mib, block_size, inode_size) in sizes.into_iter().chain(large) {
            let mut options = options(mib * MIB, block_size);
            options.features = FeatureSet::parse(list).unwrap();
            options.inode_size = inode_size;
            make(&ours, &options).unwrap();
            fsck(&ours, list);
            let (bs, is) = (block_size.to_string(), inode_size.to_string());
            let Some(ours) = dump(&ours) else {
                return;
            };
            let all = field(&ours, "Filesystem features").unwrap_or_default();
            let all = format!("none,{}", all.replace(' ', ","));
            let size = format!("{mib}M");
            let _ = std::fs::remove_file(&theirs);
            let args = [
                "-q", "-t", "ext4", "-b", &bs, "-i", "16384", "-I", &is, "-O", &all,
            ];
            let args = [&args[..], &[theirs.to_str().unwrap(), &size]].concat();
            let Some(made) = run("mke2fs", &args) else {
                return;
            };
            if !made.status.success() {
                // It wants no reserved descriptors where every group has a backup.
                assert_eq!(*list, "^sparse_super", "{made:?}");
                continue;
            }
            let Some(theirs) = dump(&theirs) else {
                return;
            };
            let lines = |dump: &str| -> Vec<String> {
                let own = |l: &&str| !OWN.iter().any(|o| l.trim().starts_with(o));
                let place = |l: &&str| {
                    // Where it lies is our choice.
                    !l.starts_with("MMP block number") && !l.trim().starts_with("mmp_")
                };
                let all = dump.lines().filter(own).filter(place);
                all.map(str::to_owned).collect()
            };
            let (ours, theirs) = (lines(&ours), lines(&theirs));
            let differ = ours.iter().zip(&theirs).filter(|(a, b)| a != b);
            let count = (ours.len() != theirs.len()).then(|| "another number of lines".to_owned());
            let differ: Vec<String> = differ
                .map(|(a, b)| format!("{a} | {b}"))
                .chain(count)
                .collect();
            if !differ.is_empty() {
                wrong.push(format!("{list:?} by {block_size}: {differ:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn label_uuid_time_and_journal_size_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let mut options = options(200 * MIB, 4096);
    options.label = "a label".to_owned();
    options.uuid = Some("01234567-89ab-cdef-0123-456789abcdef".parse().unwrap());
    options.time = Some(86400);
    options.journal_size = Some(12 * MIB);
    options.reserved_percent = Some(1.0);
    options.inodes = Some(1000);
    make(&image, &options).unwrap();
    let Some(dump) = dump(&image) else {
        return;
    };
    let is = |name, value| assert_eq!(field(&dump, name), Some(value));
    is("Filesystem volume name", "a label");
    is("Filesystem UUID", "01234567-89ab-cdef-0123-456789abcdef");
    assert!(
        field(&dump, "Filesystem created")
            .unwrap()
            .ends_with("1970")
    );
    is("Total journal blocks", "3072");
    is("Reserved block count", "512");
    is("Inode count", "1024");
}

#[test]
fn old_bytes_do_not_shine_through() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let device = MemoryDevice::new(64 * MIB);
    let old = vec![0xa5; MIB as usize];
    for i in 0..64 {
        device.write_at(i * MIB, &old).unwrap();
    }
    let mut options = MkfsOptions::default();
    for list in ["", "^metadata_csum"] {
        options.features = FeatureSet::parse(list).unwrap();
        let report = mkfs(&device, &options, &NoProgress).unwrap();
        assert_eq!((report.directories, report.image_bytes), (2, 64 * MIB));
        device.save_to(&image).unwrap();
        fsck(&image, "a device that was not empty");
    }
}

#[test]
fn what_can_not_be_is_an_error() {
    let try_with = |change: &dyn Fn(&mut MkfsOptions)| {
        let mut options = options(16 * MIB, 4096);
        change(&mut options);
        mkfs(&MemoryDevice::new(16 * MIB), &options, &NoProgress).unwrap_err()
    };
    let error = try_with(&|o| o.size = Some(64 * MIB));
    assert!(matches!(error, MkfsError::DeviceTooSmall { .. }));
    let error = try_with(&|o| o.size = Some(32 << 10));
    assert!(matches!(error, MkfsError::NoSpace { .. }), "{error}");
    let error = try_with(&|o| o.inodes = Some(1 << 22));
    assert!(matches!(
        error,
        MkfsError::Option { .. } | MkfsError::NoSpace { .. }
    ));
    let error = try_with(&|o| o.journal_size = Some(12 * MIB));
    assert_eq!(
        error.to_string(),
        "journal size can't be 12582912: half of the image at most"
    );
    let error = try_with(&|o| o.features.set("journal_dev", true).unwrap());
    assert_eq!(error.to_string(), "feature journal_dev is not supported");
    let error = try_with(&|o| o.cluster_size = Some(16384));
    assert!(error.to_string().contains("bigalloc"), "{error}");
}

//! Images of many shapes, made by mke2fs: no fault where e2fsck finds none.

use crate::support::*;
use uext4_testkit::require;

/// Options of mke2fs.
const SHAPES: &[&str] = &[
    "-t ext4",
    "-t ext4 -b 4096",
    "-t ext4 -b 1024",
    "-t ext4 -b 2048",
    "-t ext4 -b 1024 -O ^has_journal",
    "-t ext4 -O ^metadata_csum",
    "-t ext4 -O ^metadata_csum,uninit_bg",
    "-t ext4 -O ^metadata_csum,^uninit_bg,^flex_bg",
    "-t ext4 -O ^64bit",
    "-t ext4 -O ^flex_bg -b 1024",
    "-t ext4 -I 128",
    "-t ext4 -I 512",
    "-t ext4 -I 1024 -b 4096",
    "-t ext2 -b 4096",
    "-t ext2 -b 1024 -r 0",
    "-t ext3 -b 1024 -I 128",
    "-t ext4 -O meta_bg,^resize_inode -b 1024",
    "-t ext4 -O sparse_super2",
    "-t ext4 -O inline_data",
    "-t ext4 -O ea_inode,large_dir",
    "-t ext4 -O orphan_file,fast_commit",
    "-t ext4 -O bigalloc -b 1024",
    "-t ext4 -O ^extents,^64bit",
    "-t ext4 -O ^dir_index",
    "-t ext4 -O ^filetype",
    "-t ext4 -O casefold,encrypt,verity,stable_inodes",
    "-t ext4 -O mmp",
    "-t ext4 -O metadata_csum_seed",
    "-t ext4 -O ^resize_inode",
    "-t ext4 -E resize=4G -b 1024",
    "-t ext4 -O ^sparse_super,^resize_inode -b 1024",
    "-t ext4 -G 4 -b 1024 -g 1024",
    "-t ext4 -E lazy_itable_init=1 -b 1024",
    "-t ext4 -E packed_meta_blocks=1",
];

#[test]
fn shapes() {
    require!(have_tools());
    let dir = scratch();
    let tree = source_tree(dir.path(), 1500);
    for options in SHAPES {
        let path = dir.path().join("image");
        let _ = std::fs::remove_file(&path);
        mke2fs(&path, "64M", options, Some(&tree));
        // debugfs waits for other hosts before it writes.
        if !options.contains("mmp") {
            add_xattrs(&path);
        }
        let (fine, text) = e2fsck(&path);
        assert!(fine, "{options}: {text}");
        let report = assert_clean(&path, options);
        assert!(
            report.inodes_used > 1500 && report.symlinks == 5,
            "{options}: {report:?}"
        );
    }
}

#[test]
fn threads_do_not_change_the_report() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("image");
    let tree = source_tree(dir.path(), 1500);
    mke2fs(&path, "64M", "-t ext4 -b 1024 -g 1024", Some(&tree));
    // Damage in many groups: every 16th block of 1 KiB from the first inode tables on.
    let mut bytes = std::fs::read(&path).expect("image");
    for at in (300 * 1024..3 << 20).step_by(16 * 1024) {
        bytes[at] ^= 1;
    }
    let one = check_bytes(&bytes, 1).expect("check");
    assert!(one.faults_total > 3);
    for threads in [2, 7] {
        let many = check_bytes(&bytes, threads).expect("check");
        assert_eq!(one.faults, many.faults);
        assert_eq!(one.faults_total, many.faults_total);
    }
}

#[test]
fn what_is_no_ext4_is_an_error() {
    assert!(check_bytes(&[0; 100], 1).is_err());
    assert!(check_bytes(&[0; 1 << 20], 1).is_err());
    assert!(check_bytes(&[0xff; 1 << 20], 1).is_err());
}

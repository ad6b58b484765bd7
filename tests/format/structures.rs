//! Every structure of images that mke2fs and debugfs made, read and checked with this crate; every
//! inode, group descriptor and attribute block encoded again and compared byte for byte.
//!
//! Needs mke2fs, debugfs, e2fsck and dumpe2fs; no kernel, no root. Skips, saying so, without them.

use crate::mke2fs::image::{Image, have_tools, run};
use crate::mke2fs::walk;
use uext4_ondisk::*;

fn check(name: &str, mkfs: &str) {
    if !have_tools() {
        eprintln!("skipped: e2fsprogs is not installed");
        return;
    }
    let image = Image::make(&mkfs.split(' ').collect::<Vec<_>>());
    let seen = walk::walk_image(&image);
    eprintln!("{name}: {seen:?}");
    assert!(seen.inodes > 1200, "{name}: {seen:?}");
}

#[test]
fn default_4k() {
    check("4k", "-t ext4 -b 4096 -O metadata_csum,64bit");
}

#[test]
fn blocks_of_1k() {
    check("1k", "-t ext4 -b 1024 -O metadata_csum,64bit -N 4096");
}

#[test]
fn blocks_of_2k_without_64bit() {
    check("2k", "-t ext4 -b 2048 -O metadata_csum,^64bit");
}

#[test]
fn blocks_of_64k() {
    check(
        "64k",
        "-t ext4 -F -b 65536 -O metadata_csum,^has_journal -N 4096",
    );
}

#[test]
fn uninit_bg() {
    check(
        "uninit_bg",
        "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,64bit -N 4096",
    );
    check(
        "uninit_bg 32",
        "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,^64bit -N 4096",
    );
}

#[test]
fn ext2_and_ext3() {
    check("ext2", "-t ext2 -b 1024 -N 4096");
    check("ext3", "-t ext3 -b 4096 -I 128");
}

#[test]
fn new_features() {
    check(
        "new",
        "-t ext4 -b 4096 -O orphan_file,metadata_csum_seed,large_dir,ea_inode,stable_inodes,project,quota,mmp,casefold",
    );
}

#[test]
fn inline_data() {
    check("inline_data", "-t ext4 -b 1024 -O inline_data -N 4096");
}

#[test]
fn orphan_file_of_1k_blocks() {
    check(
        "orphan_file",
        "-t ext4 -b 1024 -O orphan_file,metadata_csum -N 4096",
    );
}

#[test]
fn meta_bg_and_sparse_super2() {
    check(
        "meta_bg",
        "-t ext4 -b 1024 -O meta_bg,^resize_inode -N 4096",
    );
    check(
        "sparse_super2",
        "-t ext4 -b 1024 -O sparse_super2,^resize_inode -N 4096",
    );
    check(
        "no sparse_super",
        "-t ext4 -b 1024 -O ^sparse_super,^resize_inode -N 4096",
    );
}

#[test]
fn bigalloc() {
    check("bigalloc", "-t ext4 -b 4096 -O bigalloc -C 16384");
    check("bigalloc 1k", "-t ext4 -b 1024 -O bigalloc -C 4096 -N 4096");
}

#[test]
fn inode_sizes() {
    for size in ["128", "512", "1024"] {
        check(
            size,
            &format!("-t ext4 -b 4096 -I {size} -O metadata_csum -N 4096"),
        );
    }
}

/// debugfs hashes names with the library that e2fsck uses.
#[test]
fn name_hashes() {
    if !have_tools() {
        eprintln!("skipped: e2fsprogs is not installed");
        return;
    }
    let mut rng = fastrand::Rng::with_seed(11);
    let uuid = uuid::Uuid::from_u128(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    let seed: [u32; 4] = std::array::from_fn(|i| {
        u32::from_le_bytes(uuid.as_bytes()[i * 4..i * 4 + 4].try_into().unwrap())
    });
    let mut script = String::new();
    let mut want = Vec::new();
    for len in 1..=255usize {
        let high = len % 3 == 0;
        let name: String = (0..len)
            .map(|_| {
                if high && rng.bool() {
                    'ü'
                } else {
                    rng.alphanumeric()
                }
            })
            .scan(0, |bytes, c| {
                *bytes += c.len_utf8();
                (*bytes <= len).then_some(c)
            })
            .collect();
        for version in 0..=5u8 {
            script += &format!("dx_hash -h {version} -s {uuid} {name}\n");
            want.push(dx_hash(
                HashVersion::from_disk(version).unwrap(),
                &seed,
                name.as_bytes(),
            ));
        }
        script += &format!("dx_hash -h half_md4 {name}\n");
        want.push(dx_hash(HashVersion::HalfMd4, &[0; 4], name.as_bytes()));
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("script");
    std::fs::write(&file, script).unwrap();
    let out = run("debugfs", &["-f", file.to_str().unwrap()]);
    let got: Vec<NameHash> = out
        .lines()
        .filter_map(|l| l.rsplit_once(" is 0x"))
        .map(|(_, l)| {
            let (major, minor) = l.trim_end_matches(')').split_once(" (minor 0x").unwrap();
            let hex = |s| u32::from_str_radix(s, 16).unwrap();
            NameHash {
                major: hex(major),
                minor: hex(minor),
            }
        })
        .collect();
    assert_eq!(got.len(), want.len());
    assert_eq!(got, want);
}

/// debugfs writes journals of every version; ours must be the same bytes.
#[test]
fn journals() {
    if !have_tools() {
        eprintln!("skipped: e2fsprogs is not installed");
        return;
    }
    for (features, open) in [
        ("^metadata_csum,^64bit", "jo"),
        ("^metadata_csum,64bit", "jo"),
        ("^metadata_csum,^64bit", "jo -c -v 2"),
        ("^metadata_csum,64bit", "jo -c -v 2"),
        ("metadata_csum,64bit", "jo -c -v 3"),
        ("metadata_csum,^64bit", "jo -c -v 3"),
    ] {
        let image = Image::make(&["-t", "ext4", "-b", "1024", "-N", "4096", "-O", features]);
        let data = image.dir.path().join("data");
        let mut blocks = vec![0x11u8; 4 * 1024];
        // The second block has to be escaped.
        blocks[1024..1028].copy_from_slice(&JOURNAL_MAGIC.to_be_bytes());
        std::fs::write(&data, blocks).unwrap();
        let script = format!(
            "{open}\njw -b 30000-30003 {}\njw -r 31000-31020\njc\n",
            data.display()
        );
        image.debugfs(&script);
        let seen = walk::walk_journal(&image.read());
        eprintln!("{features} {open}: {seen:?}");
        assert!(
            seen.descriptors >= 1 && seen.revokes >= 1 && seen.commits >= 2,
            "{seen:?}"
        );
        assert_eq!(
            (seen.tags, seen.escaped, seen.revoked),
            (4, 1, 21),
            "{features} {open}"
        );
    }
}

//! Random damage: never a panic, never a hang, and never more faults kept than asked for.
//!
//! `UEXT4_FUZZ` sets the number of images for each shape.

use crate::support::*;
use uext4_testkit::damage::{DamagedImage, mutate, targets_of};
use uext4_testkit::require;

#[rustfmt::skip]
const SHAPES: &[(&str, &str)] = &[
    ("-t ext4 -b 1024 -N 512", "8M"),
    ("-t ext4 -b 4096 -N 512 -O ^metadata_csum,^has_journal", "8M"),
    ("-t ext2 -b 1024 -N 512", "8M"),
    ("-t ext4 -b 1024 -N 512 -O ^metadata_csum,inline_data,ea_inode,^has_journal", "8M"),
];

fn images() -> u64 {
    std::env::var("UEXT4_FUZZ")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(60)
}

fn bases() -> Vec<Vec<u8>> {
    let dir = scratch();
    let tree = source_tree(dir.path(), 120);
    std::fs::remove_file(tree.join("a/sparse")).expect("remove");
    let path = dir.path().join("image");
    SHAPES
        .iter()
        .map(|(options, size)| {
            let _ = std::fs::remove_file(&path);
            mke2fs(&path, size, options, Some(&tree));
            add_xattrs(&path);
            std::fs::read(&path).expect("image")
        })
        .collect()
}

#[test]
fn random_bytes() {
    require!(have_tools());
    for (n, base) in bases().iter().enumerate() {
        for i in 0..images() {
            let mut rng = fastrand::Rng::with_seed(n as u64 * 1_000_000 + i);
            let mut bytes = base.clone();
            // Most of the metadata is in the first megabyte.
            let end = if rng.bool() { 1 << 20 } else { bytes.len() };
            for _ in 0..rng.usize(1..400) {
                let at = rng.usize(2048..end);
                bytes[at] = if rng.bool() {
                    rng.u8(..)
                } else {
                    bytes[at].wrapping_add(1)
                };
            }
            if let Ok(report) = check_bytes(&bytes, 2) {
                assert!(report.faults.len() <= 200);
                assert!(report.faults.len() as u64 <= report.faults_total);
                for fault in &report.faults {
                    assert!(!fault.to_string().contains('\n'));
                }
            }
        }
    }
}

#[test]
fn many_fields_with_good_checksums() {
    require!(have_tools());
    for (n, base) in bases().into_iter().enumerate() {
        let base = DamagedImage::new(base);
        let targets = targets_of(&base);
        for i in 0..images() {
            let mut rng = fastrand::Rng::with_seed(n as u64 * 1_000_000 + i);
            let mut image = base.clone();
            for _ in 0..rng.usize(2..12) {
                // A field that made the image unreadable for the mutator ends it.
                let step = std::panic::AssertUnwindSafe(|| mutate(&mut rng, &mut image, &targets));
                if std::panic::catch_unwind(step).is_err() {
                    break;
                }
            }
            let _ = check_bytes(&image.bytes, 2);
        }
    }
}

#[test]
fn every_byte_of_the_superblock() {
    require!(have_tools());
    let base = bases().remove(1);
    for at in 1024..2048 {
        for value in [0, 0xff, base[at] ^ 1, base[at] ^ 0x80] {
            let mut bytes = base.clone();
            bytes[at] = value;
            let _ = check_bytes(&bytes, 1);
        }
    }
}

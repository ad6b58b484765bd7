//! Quota files with changed words: what a mount refuses to write is found by a check, and repaired; limits that the file still leads to stay.
//!
//! `UEXT4_QUOTA_IMAGES` is how many images.

use crate::support::{plan, repaired};
use uext4_ext4::{QuotaLimits, QuotaSettings};
use uext4_ondisk::{Ino, QuotaKind};
use uext4_testkit::prelude::*;

const BLOCK: usize = 4096;

fn limits(id: u32) -> QuotaLimits {
    QuotaLimits {
        inodes_soft: u64::from(id) + 7,
        ..QuotaLimits::default()
    }
}

/// Owners by their number: in several leaves, below several nodes.
fn owner(i: u32) -> u32 {
    i * 37
}

/// An image with limits of forty users and groups, and the blocks of its quota files.
fn base() -> (Vec<u8>, Vec<u64>) {
    let path = image("16M", "-b 4096 -N 512 -O quota -J size=4 -I 256");
    let fs = path.mount();
    for kind in [QuotaKind::User, QuotaKind::Group] {
        for id in (0..40).map(owner) {
            fs.set_quota(kind, &QuotaSettings::Limits(id, limits(id)))
                .expect("sets limits");
        }
    }
    let mut blocks = Vec::new();
    for ino in [3, 4] {
        let inode = fs.inodes.get_inode(Ino(ino)).expect("a quota file");
        for run in fs.mapping.extents(&inode).expect("extents") {
            blocks.extend((0..u64::from(run.len)).map(|i| run.pblk.0 + i));
        }
    }
    path.end(fs);
    (std::fs::read(&path).expect("read"), blocks)
}

fn is_writable(bytes: &[u8]) -> bool {
    let device = Arc::new(MemoryDevice::from_bytes(bytes));
    let fs = Ext4::mount(device as Arc<_>, MountOptions::default()).expect("mount");
    let writable = !fs.volume.is_read_only();
    fs.unmount().expect("unmount");
    writable
}

/// Users whose limit is there.
fn kept(bytes: &[u8]) -> usize {
    let device = Arc::new(MemoryDevice::from_bytes(bytes));
    let fs = Ext4::mount(device as Arc<_>, MountOptions::default()).expect("mount");
    let report = fs.quota(QuotaKind::User).expect("quotas");
    let kept = report.entries.iter();
    let kept = kept.filter(|entry| entry.inodes_soft == limits(entry.id).inodes_soft);
    kept.count()
}

#[test]
fn what_a_mount_does_not_write_is_repaired() {
    let (sound, blocks) = base();
    assert!(is_writable(&sound));
    let mut rng = fastrand::Rng::with_seed(11);
    let mut refused = 0;
    for i in 0..env_number("UEXT4_QUOTA_IMAGES", 150) {
        let mut bytes = sound.clone();
        let at = blocks[rng.usize(..blocks.len())] as usize * BLOCK;
        let words = at..at + BLOCK;
        let used: Vec<usize> = words
            .step_by(4)
            .filter(|at| bytes[*at..at + 4] != [0; 4] || rng.u8(..8) == 0)
            .collect();
        let Some(word) = used.get(rng.usize(..used.len().max(1))) else {
            continue;
        };
        let values = [0, 1, 2, 3, 5, 7, 256, 1 << 31, u32::MAX, rng.u32(..40)];
        let value = *rng.choice(&values).expect("one");
        bytes[*word..word + 4].copy_from_slice(&value.to_le_bytes());
        let what = format!("{i}: byte {word:#x} is {value}");
        let plan = plan(&bytes).expect("a plan");
        let noticed = !plan.before.is_clean() || plan.before.notes_total > 0;
        let writable = is_writable(&bytes);
        assert!(noticed || writable, "{what}: not found");
        refused += u32::from(!writable);
        let bytes = repaired(&bytes, &plan);
        assert!(is_writable(&bytes), "{what}: not repaired");
        oracle::check(&MemoryDevice::from_bytes(&bytes)).expect("a sound image");
    }
    assert!(refused > 10, "{refused} were refused");
}

/// A reference that leads nowhere does not take the limits behind others with it.
#[test]
fn limits_behind_other_references_stay() {
    let (sound, blocks) = base();
    assert_eq!(kept(&sound), 40);
    let mut bytes = sound;
    // Block 4 of the file is the node of owners below 256: that of owner 37.
    let reference = blocks[1] as usize * BLOCK + 37 * 4;
    assert_ne!(bytes[reference..reference + 4], [0; 4]);
    bytes[reference..reference + 4].copy_from_slice(&5000u32.to_le_bytes());
    let plan = plan(&bytes).expect("a plan");
    assert!(!plan.before.is_clean());
    let bytes = repaired(&bytes, &plan);
    assert_eq!(kept(&bytes), 39);
}

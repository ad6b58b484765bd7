use super::*;
use crate::fixture::*;
use uext4_block::BlockOp;
use uext4_check::{CheckOptions, NoProgress};
use uext4_ondisk::STATE_CLEAN;
use uext4_vfs::filesystem::FileSystem;
use uext4_vfs::{Caller, Errno};

const BLOCK: u64 = 1024;
const BYTES: u64 = 8 << 20;

fn bytes_of(device: &Arc<TestDevice>) -> Vec<u8> {
    let mut bytes = vec![0; BYTES as usize];
    device.read_at(0, &mut bytes).expect("read");
    bytes
}

fn copy_of(device: &Arc<TestDevice>) -> Arc<TestDevice> {
    let copy = TestDevice::new(BYTES);
    copy.write_at(0, &bytes_of(device)).expect("write");
    copy
}

/// An image with a file of 600 blocks, and the same without it, with files of which one is long.
fn old_and_new(features: &str) -> (Arc<TestDevice>, Arc<TestDevice>) {
    let old = image(BYTES, features);
    let fs = mount(&old);
    allocate(&fs, &file(&fs, "old"), 0..600);
    fs.unmount().expect("unmount");
    let new = copy_of(&old);
    let fs = mount(&new);
    for number in 0..60 {
        file(&fs, &format!("new-{number}"));
    }
    let long = file(&fs, "long");
    allocate(&fs, &long, 0..1);
    fs.write(&long, 0, &[7; 1500 << 10]).expect("write");
    let dir = fs.namei.root().expect("root").clone();
    let removed = fs.namei.unlink(&Caller::root(), &dir, b"old");
    removed.expect("unlink");
    drop((long, dir));
    fs.unmount().expect("unmount");
    (old, new)
}

/// The blocks in which two images differ.
fn changed(old: &[u8], new: &[u8]) -> Vec<u64> {
    let pairs = old.chunks(BLOCK as usize).zip(new.chunks(BLOCK as usize));
    let differ = (0..).zip(pairs).filter(|(_, (a, b))| a != b);
    differ.map(|(block, _)| block).collect()
}

fn replace(device: &Arc<TestDevice>, new: &Arc<TestDevice>, blocks: &[u64]) -> Result<u64> {
    let device = Arc::clone(device) as Arc<dyn BlockDevice>;
    Ext4::replace_blocks(&device, None, blocks, &**new, None)
}

#[test]
fn nothing_is_written_without_the_hold() {
    let (old, new) = old_and_new("mmp");
    let sb = read_superblock(&*old).expect("a superblock");
    let device = Arc::clone(&old) as Arc<dyn BlockDevice>;
    let hold = MmpHold::acquire(&device, &sb, Exclusion::Hold).expect("it is free");
    let before = bytes_of(&old);
    let blocks = changed(&before, &bytes_of(&new));
    let block = sb.raw.mmp_block.get();
    // Before anything, and before the superblock is written. A look drops what the host keeps, and reads.
    for before_it in [0, 2] {
        old.fail_within(BlockOp::Read, block * BLOCK..(block + 1) * BLOCK, before_it);
        let replaced = Ext4::replace_blocks(&device, None, &blocks, &*new, hold.as_ref());
        replaced.expect_err("no hold");
        assert!(old.work(), "{before_it}");
        let superblock = &bytes_of(&old)[1024..2048];
        assert!(superblock == &before[1024..2048], "{before_it}");
    }
}

/// A copy of free blocks ends with the hold.
#[test]
fn no_block_is_copied_once_the_hold_is_lost() {
    for features in ["mmp", "mmp,^has_journal,^orphan_file"] {
        let (old, new) = old_and_new(features);
        let sb = read_superblock(&*old).expect("a superblock");
        let device = Arc::clone(&old) as Arc<dyn BlockDevice>;
        let hold = MmpHold::acquire(&device, &sb, Exclusion::Hold).expect("it is free");
        let hold = hold.expect("mmp");
        let before = bytes_of(&old);
        let free: Vec<u64> = (4000..8000).collect();
        hold.lose();
        let copied = copy(&*old, &*new, &free, BLOCK, Some(&hold));
        assert!(matches!(copied, Err(Ext4Error::HoldLost)), "{copied:?}");
        assert!(bytes_of(&old) == before, "{features}");
    }
}

/// The blocks of the log.
fn log_of(device: &Arc<TestDevice>) -> Range<u64> {
    let fs = mount(device);
    let journal = fs.inodes.get_inode(Ino(8)).expect("the journal");
    let first = fs.mapping.extents(&journal).expect("extents")[0];
    drop(journal);
    fs.unmount().expect("unmount");
    first.pblk.0..first.pblk.0 + u64::from(first.len)
}

/// What is the image's own, and not the log's: the superblock without its times and counts.
fn content(bytes: &[u8], log: &Range<u64>) -> Vec<Vec<u8>> {
    let blocks = (0..).zip(bytes.chunks(BLOCK as usize));
    let blocks = blocks.filter(|(block, _)| *block != 1 && !log.contains(block));
    blocks.map(|(_, bytes)| bytes.to_vec()).collect()
}

#[test]
fn the_blocks_that_differ_are_replaced() {
    for features in ["", "^has_journal,^orphan_file"] {
        let (old, new) = old_and_new(features);
        let log = match features {
            "" => log_of(&old),
            _ => 0..0,
        };
        let after = bytes_of(&new);
        let blocks = changed(&bytes_of(&old), &after);
        old.take_calls(BlockOp::Allocate);
        let replaced = replace(&old, &new, &blocks).expect("replaced");
        let allocated = old.take_calls(BlockOp::Allocate);
        for run in blocks.chunk_by(|a, b| a + 1 == *b) {
            let first = run[0] * BLOCK;
            let wanted = (first, first + run.len() as u64 * BLOCK);
            assert!(allocated.contains(&wanted), "{wanted:?} of {allocated:?}");
        }
        let own = blocks.iter().filter(|block| !log.contains(block)).count() as u64;
        assert_eq!(replaced, own * BLOCK, "{features}");
        let bytes = bytes_of(&old);
        assert!(content(&bytes, &log) == content(&after, &log), "{features}");
        let sb = read_superblock(&*old).expect("a superblock");
        assert!(!sb.incompat.contains(Incompat::RECOVER));
        assert_ne!(sb.raw.state.get() & STATE_CLEAN, 0);
        assert_eq!(names(&old), names(&new));
    }
}

#[test]
fn a_journal_that_is_too_small_changes_nothing() {
    let (old, new) = old_and_new("");
    let before = bytes_of(&old);
    let all: Vec<u64> = (0..BYTES / BLOCK).collect();
    let refused = replace(&old, &new, &all).expect_err("too many");
    let is_too_large = |why: &JournalError| matches!(why, JournalError::TooLarge { .. });
    let says_so = matches!(&refused, Ext4Error::Journal(why) if is_too_large(why));
    assert!(says_so, "{refused:?}");
    let log = log_of(&old);
    assert!(content(&bytes_of(&old), &log) == content(&before, &log));
}

/// The names of a clean image.
fn names(device: &Arc<TestDevice>) -> Vec<Vec<u8>> {
    let fs = mount(device);
    let root = fs.namei.root().expect("root").clone();
    let mut names = Vec::new();
    let listed = fs.readdir(&Caller::root(), &root, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    });
    listed.expect("readdir");
    drop(root);
    fs.unmount().expect("unmount");
    let report = uext4_check::check(&**device, &CheckOptions::default(), &NoProgress);
    let report = report.expect("a report");
    assert!(report.is_clean(), "{:?}", report.faults);
    names.sort();
    names
}

/// Calls fail in turn: an error, and the image is as it was or as it was to be.
#[test]
fn a_device_call_that_fails_leaves_all_or_nothing() {
    for features in ["", "^has_journal,^orphan_file"] {
        let (first, new) = old_and_new(features);
        let blocks = changed(&bytes_of(&first), &bytes_of(&new));
        let (before, after) = (names(&copy_of(&first)), names(&copy_of(&new)));
        let has_log = features.is_empty();
        for op in [
            BlockOp::Read,
            BlockOp::Write,
            BlockOp::Flush,
            BlockOp::Allocate,
        ] {
            let mut failed = 0;
            loop {
                let device = copy_of(&first);
                device.fail_after(op, failed);
                let done = replace(&device, &new, &blocks);
                if !device.work() {
                    done.expect("no call failed");
                    assert_eq!(names(&device), after, "{op:?} {failed}");
                    break;
                }
                assert_eq!(done.expect_err("an error").errno(), Errno::EIO);
                if has_log {
                    let now = names(&device);
                    assert!(now == before || now == after, "{op:?} {failed}");
                }
                failed += 1 + failed / 8;
            }
            assert!(failed > 0, "{op:?} {features}");
        }
        for failed in 0..3 {
            new.fail_after(BlockOp::Read, failed);
            let refused = replace(&copy_of(&first), &new, &blocks);
            assert_eq!(refused.expect_err("no source").errno(), Errno::EIO);
            new.work();
        }
    }
}

#[test]
fn only_an_image_that_needs_it_is_recovered() {
    let device = image(BYTES, "");
    let recover = |device: &Arc<TestDevice>| {
        Ext4::recover(&(Arc::clone(device) as Arc<dyn BlockDevice>), None, None)
    };
    let clean = bytes_of(&device);
    recover(&device).expect("nothing to do");
    assert!(bytes_of(&device) == clean, "a clean image was written");
    let fs = mount(&device);
    file(&fs, "f");
    fs.sync().expect("sync");
    fs.crash();
    drop(fs);
    for op in [BlockOp::Read, BlockOp::Write, BlockOp::Flush] {
        for before in 0.. {
            let again = copy_of(&device);
            again.fail_after(op, before);
            let done = recover(&again);
            if !again.work() {
                done.expect("no call failed");
                assert!(before > 2, "{op:?}: only {before}");
                break;
            }
            let why = done.expect_err("a call failed");
            assert_eq!(why.errno(), Errno::EIO, "{op:?} {before}");
        }
    }
    recover(&device).expect("recovered");
    let sb = read_superblock(&*device).expect("a superblock");
    assert!(!sb.incompat.contains(Incompat::RECOVER));
}

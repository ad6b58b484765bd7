use super::*;
use crate::fixture::*;
use crate::fs::Ext4;
use crate::superblock::with_superblock;
use uext4_block::BlockOp;
use uext4_ondisk::{RawJournalSuper, RawSuperblock};
use uext4_vfs::{Caller, Errno};
use zerocopy::{FromBytes, IntoBytes};

const BLOCK: u64 = 1024;
/// Of the device of the journal.
const BLOCKS: u64 = 2048;
const UUID: [u8; 16] = [0xab; 16];
/// The block of the journal's superblock.
const START: u64 = 2;

fn change_super(device: &TestDevice, change: impl FnOnce(&mut RawSuperblock)) {
    device.change(SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, |bytes| {
        with_superblock(bytes, 0, change);
    });
}

fn change_log(device: &TestDevice, change: impl FnOnce(&mut RawJournalSuper)) {
    device.change(START * BLOCK, BLOCK as usize, |bytes| {
        let raw = RawJournalSuper::mut_from_bytes(bytes).expect("a superblock");
        change(raw);
    });
}

/// A file system, and the device that its journal is on.
fn pair() -> (Arc<TestDevice>, Arc<TestDevice>) {
    let plain = "^has_journal,^orphan_file,^metadata_csum,^metadata_csum_seed";
    let device = image(8 << 20, plain);
    let journal = image(BLOCKS * BLOCK, plain);
    let mut own = [0; 16];
    change_super(&device, |raw| {
        let compat = raw.compat() | Compat::HAS_JOURNAL;
        raw.set_features(compat, raw.incompat(), raw.ro_compat());
        raw.journal_uuid = UUID;
        raw.journal_dev.set(1);
        own = raw.uuid;
    });
    change_super(&journal, |raw| {
        raw.set_features(raw.compat(), Incompat::JOURNAL_DEV, raw.ro_compat());
        raw.uuid = UUID;
    });
    let mut log = RawJournalSuper::new_empty(BLOCK as u32, BLOCKS as u32);
    log.first.set(START as u32 + 1);
    log.users[0] = own;
    journal
        .write_at(START * BLOCK, log.as_bytes())
        .expect("write");
    (device, journal)
}

fn mount_with(
    device: &Arc<TestDevice>,
    journal: Option<&Arc<TestDevice>>,
    change: impl FnOnce(&mut MountOptions),
) -> Result<Arc<Ext4>> {
    let mut options = MountOptions::default();
    change(&mut options);
    let journal = journal.map(|journal| Arc::clone(journal) as Arc<dyn BlockDevice>);
    Ext4::mount_with_journal(Arc::clone(device) as Arc<_>, journal, options)
}

/// Why the journal is refused.
fn refused(device: &Arc<TestDevice>, journal: &Arc<TestDevice>) -> Ext4Error {
    let mounted = mount_with(device, Some(journal), |_| {}).map(drop);
    mounted.expect_err("a journal that cannot be")
}

#[test]
fn what_a_crash_left_in_the_log_is_recovered() {
    let (device, journal) = pair();
    let fs = mount_with(&device, Some(&journal), |_| {}).expect("mount");
    file(&fs, "f");
    fs.volume.journal().sync().expect("sync");
    fs.crash();
    drop(fs);
    for (read_only, noload) in [(false, false), (true, false), (false, true)] {
        let without = mount_with(&device, None, |options| {
            (options.read_only, options.noload) = (read_only, noload);
        });
        let why = without.map(drop).expect_err("a log that is needed");
        assert!(matches!(why, Ext4Error::Unsupported(_)), "{why}");
    }
    let old = mount_with(&device, None, |options| {
        (options.read_only, options.noload) = (true, true);
    });
    drop(old.expect("as it was"));
    let fs = mount_with(&device, Some(&journal), |_| {}).expect("mount");
    let root = fs.namei.root().expect("root").clone();
    let found = fs.namei.lookup(&Caller::root(), &root, b"f");
    found.expect("the file");
    drop(root);
    fs.unmount().expect("unmount");
    let clean = mount_with(&device, None, |options| options.read_only = true);
    drop(clean.expect("no log is needed"));
}

#[test]
fn anothers_journal_is_refused() {
    let (device, journal) = pair();
    change_super(&journal, |raw| raw.uuid[15] = 1);
    let why = refused(&device, &journal).to_string();
    let wanted = "abababab-abab-abab-abab-abababababab";
    assert!(why.contains(wanted), "{why}");
    assert!(
        why.contains("abababab-abab-abab-abab-ababababab01"),
        "{why}"
    );
    let (device, journal) = pair();
    change_log(&journal, |raw| raw.users[0] = [1; 16]);
    let why = refused(&device, &journal);
    assert!(matches!(why, Ext4Error::Invalid(_)), "{why}");
    let (device, journal) = pair();
    change_log(&journal, |raw| {
        raw.nr_users.set(2);
        raw.users[1] = [1; 16];
    });
    let why = refused(&device, &journal);
    assert!(matches!(why, Ext4Error::Unsupported(_)), "{why}");
}

#[test]
fn a_log_over_its_superblock_or_past_the_device_is_refused() {
    let (device, journal) = pair();
    change_log(&journal, |raw| raw.first.set(START as u32));
    let is_first = |why: &Corrupt| why.kind == CorruptKind::JournalFirst;
    let why = refused(&device, &journal);
    assert!(
        matches!(&why, Ext4Error::Corrupt(why) if is_first(why)),
        "{why}"
    );
    let (device, journal) = pair();
    change_super(&journal, |raw| raw.set_blocks_count(BLOCKS + 100));
    change_log(&journal, |raw| raw.maxlen.set(BLOCKS as u32 + 100));
    let why = refused(&device, &journal);
    assert_eq!(why.errno(), Errno::EUCLEAN, "{why}");
}

#[test]
fn a_device_that_cannot_be_read_is_reported() {
    for block in [1, START] {
        let (device, journal) = pair();
        let at = block * BLOCK;
        journal.fail_once(BlockOp::Read, at..at + BLOCK, Errno::EIO);
        assert_eq!(refused(&device, &journal).errno(), Errno::EIO, "{block}");
    }
    let (device, journal) = pair();
    change_super(&journal, |raw| {
        raw.set_features(raw.compat(), Incompat::empty(), raw.ro_compat());
    });
    let why = refused(&device, &journal);
    assert!(matches!(why, Ext4Error::Format(_)), "{why}");
    let (device, journal) = pair();
    change_log(&journal, |raw| raw.magic.set(0));
    assert_eq!(refused(&device, &journal).errno(), Errno::EUCLEAN);
}

use super::*;
use crate::fixture::*;
use crate::fs::Ext4;
use crate::options::MountOptions;
use uext4_block::BlockOp;

/// The sequence of e2fsck.
const CHECKED: u32 = 0xe24d_4d50;
/// Longer than a host goes without changing its number, here.
const SOON: Duration = Duration::from_secs(20);

fn protected() -> Arc<TestDevice> {
    image(8 << 20, "mmp")
}

fn block_of(device: &Arc<TestDevice>) -> MmpBlock {
    let sb = crate::read_superblock(&**device).expect("a superblock");
    MmpBlock::of(&(Arc::clone(device) as Arc<dyn BlockDevice>), &sb).expect("a block")
}

fn found(device: &Arc<TestDevice>) -> Mmp {
    block_of(device).read().expect("the block")
}

fn holder(device: &Arc<TestDevice>) -> Option<MmpHolder> {
    let device = Arc::clone(device) as Arc<dyn BlockDevice>;
    MmpHold::holder(&device).expect("the block")
}

fn change(device: &Arc<TestDevice>, change: impl FnOnce(&mut Mmp)) {
    let mut mmp = found(device);
    change(&mut mmp);
    block_of(device).write(&mmp).expect("write");
}

fn elsewhere(mmp: &mut Mmp) {
    mmp.seq = 77;
    mmp.nodename = field("elsewhere");
}

/// The error of a mount that must fail.
fn refused(device: &Arc<TestDevice>) -> Ext4Error {
    try_mount(device, |_| {})
        .map(drop)
        .expect_err("a mount of what is held")
}

fn wait_until_stopped(fs: &Ext4) {
    let begin = Instant::now();
    while !(fs.volume.journal().is_aborted() && fs.volume.is_read_only()) {
        assert!(begin.elapsed() < SOON, "the mount has not stopped");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn one_mount_at_a_time_writes() {
    let device = protected();
    assert_eq!(found(&device).seq, MMP_SEQ_CLEAN);
    let fs = mount(&device);
    let first = found(&device);
    assert!((1..=MMP_SEQ_MAX).contains(&first.seq), "{:#x}", first.seq);
    assert_eq!(text(&first.nodename), host_name());
    let why = refused(&device);
    assert_eq!(why.errno(), Errno::EBUSY);
    let message = why.to_string();
    assert!(message.contains(&host_name()), "{message}");
    assert_ne!(found(&device).seq, first.seq);
    // A reader is let in.
    let reader = try_mount(&device, |options| {
        options.read_only = true;
        options.noload = true;
    });
    reader.expect("a reader").unmount().expect("unmount");
    // Recovery by one that only reads would write under the other.
    let why = try_mount(&device, |options| options.read_only = true);
    assert_eq!(why.expect_err("it recovers").errno(), Errno::EBUSY);
    fs.unmount().expect("unmount");
    assert_eq!(found(&device).seq, MMP_SEQ_CLEAN);
    mount(&device).unmount().expect("unmount");
}

#[test]
fn what_a_crash_left_is_taken_over_after_the_wait() {
    let device = protected();
    mount(&device).crash();
    let left = found(&device);
    assert!(left.seq <= MMP_SEQ_MAX);
    let there = holder(&device).expect("it was left behind");
    assert_eq!(there.host, host_name());
    assert_eq!((there.device.as_str(), there.time), ("uext4", left.time));
    assert_eq!(there.wait, Some(SECOND * 22));
    let begin = Instant::now();
    let fs = mount(&device);
    assert!(begin.elapsed() >= SECOND * 22);
    assert_ne!(found(&device).seq, left.seq);
    // Dropped, it frees it as well.
    drop(fs);
    assert_eq!(found(&device).seq, MMP_SEQ_CLEAN);
    mount(&device).crash();
    let reader = try_mount(&device, |options| options.read_only = true);
    let reader = reader.expect("a reader that recovers it");
    assert_eq!(found(&device).seq, MMP_SEQ_CLEAN);
    reader.unmount().expect("unmount");
    assert_eq!(holder(&device), None);
}

#[test]
fn of_two_hosts_one_takes_over() {
    let device = protected();
    mount(&device).crash();
    let take = || try_mount(&device, |_| {});
    let (a, b) = std::thread::scope(|scope| {
        let other = scope.spawn(take);
        (take(), other.join().expect("no panic"))
    });
    let one = match (a, b) {
        (Ok(one), Err(why)) | (Err(why), Ok(one)) => {
            assert_eq!(why.errno(), Errno::EBUSY);
            one
        }
        both => panic!("{both:?}"),
    };
    std::thread::sleep(SECOND * 12);
    one.sync().expect("it has the file system");
    one.unmount().expect("unmount");
}

#[test]
fn what_e2fsck_has_is_refused_at_once() {
    let device = protected();
    change(&device, |mmp| {
        mmp.seq = CHECKED;
        mmp.nodename = field("a\nhost");
    });
    let why = refused(&device);
    assert_eq!(why.errno(), Errno::EBUSY);
    let message = why.to_string();
    assert!(
        message.contains("host a\\nhost,") && message.contains("clear_mmp"),
        "{message}"
    );
    assert_eq!(found(&device).seq, CHECKED);
}

#[test]
fn a_mount_that_another_host_took_over_stops() {
    let device = protected();
    let fs = mount(&device);
    change(&device, elsewhere);
    wait_until_stopped(&fs);
    let why = fs.sync().expect_err("a sync");
    assert_eq!(why.errno(), Errno::EIO);
    assert!(fs.volume.is_read_only());
    let _ = fs.unmount();
    drop(fs);
    // It is the other's.
    assert_eq!(found(&device).seq, 77);
}

#[test]
fn a_mount_that_was_taken_over_at_its_end_says_so() {
    let device = protected();
    let fs = mount(&device);
    change(&device, elsewhere);
    // Before or after the thread found it.
    let why = fs.unmount().expect_err("an unmount");
    assert!(matches!(why.errno(), Errno::EBUSY | Errno::EIO), "{why}");
    assert_eq!(found(&device).seq, 77);
}

#[test]
fn a_device_that_fails_ends_the_mount() {
    for op in [BlockOp::Read, BlockOp::Write] {
        let device = protected();
        let block = block_of(&device);
        let fs = mount(&device);
        let within = block.offset..block.offset + block.bytes as u64;
        device.fail_once(op, within, Errno::EIO);
        wait_until_stopped(&fs);
        let _ = fs.unmount();
    }
}

#[test]
fn damage_is_named_by_its_block() {
    let device = protected();
    let block = block_of(&device);
    device.change(block.offset, 8, |bytes| bytes[0] ^= 1);
    let Ext4Error::Corrupt(why) = refused(&device) else {
        panic!("not damage");
    };
    assert_eq!(
        (why.kind, why.pblk),
        (CorruptKind::MmpMagic, Some(block.no))
    );
    let mut sb = crate::read_superblock(&*device).expect("a superblock");
    let device = device as Arc<dyn BlockDevice>;
    for outside in [0, sb.geometry.blocks_count, u64::MAX] {
        sb.raw.mmp_block.set(outside);
        assert!(MmpBlock::of(&device, &sb).is_err(), "{outside}");
    }
}

#[test]
fn nobody_waits_for_longer_than_hosts_do() {
    for (interval, wanted) in [(5, 11), (59, 119), (60, 120), (61, 121), (300, 360)] {
        assert_eq!(seconds_to_wait(interval), wanted, "{interval}");
    }
    let device = protected();
    change(&device, |mmp| {
        mmp.seq = 7;
        mmp.check_interval = u16::MAX;
    });
    let there = holder(&device).expect("it was left behind");
    assert_eq!(there.wait, Some(SECOND * 720));
    // What another host took long for does not stay.
    change(&device, |mmp| mmp.seq = MMP_SEQ_CLEAN);
    mount(&device).crash();
    assert_eq!(found(&device).check_interval, INTERVAL_MIN);
}

#[test]
fn a_slow_device_makes_others_wait_for_longer() {
    for (took, wanted) in [(5, 5), (9, 9), (300, 300), (301, 300), (1 << 20, 300)] {
        assert_eq!(seconds_of(SECOND * took + SECOND / 2), wanted, "{took}");
    }
    assert_eq!(seconds_of(Duration::MAX), INTERVAL_MAX);
}

#[test]
fn a_lost_hold_is_an_error() {
    let device = protected();
    let sb = crate::read_superblock(&*device).expect("a superblock");
    let above = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let acquire = || {
        MmpHold::acquire(&above, &sb, Exclusion::Hold)
            .expect("it is free")
            .expect("mmp")
    };
    let hold = acquire();
    hold.check().expect("held");
    change(&device, elsewhere);
    // Before the thread finds it, and after.
    assert_eq!(hold.check().expect_err("lost").errno(), Errno::EBUSY);
    let begin = Instant::now();
    while hold.shared.state.lock().ours.is_some() {
        assert!(begin.elapsed() < SOON, "the thread has not found it");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(matches!(hold.check(), Err(Ext4Error::HoldLost)));
    assert!(matches!(hold.release(), Err(Ext4Error::HoldLost)));
    assert_eq!(found(&device).seq, 77);
}

#[test]
fn an_acquisition_that_fails_after_it_wrote_frees_the_file_system() {
    let device = protected();
    let sb = crate::read_superblock(&*device).expect("a superblock");
    // The last block is read by nothing else.
    device.fail_once(BlockOp::Read, (8 << 20) - 1..8 << 20, Errno::EIO);
    let above = Arc::clone(&device) as Arc<dyn BlockDevice>;
    MmpHold::acquire(&above, &sb, Exclusion::Hold)
        .map(drop)
        .expect_err("the device failed");
    assert_eq!(found(&device).seq, MMP_SEQ_CLEAN);
    assert!(device.work());
    // The write of the second number, after that of the first.
    let block = block_of(&device);
    let within = block.offset..block.offset + block.bytes as u64;
    device.fail_within(BlockOp::Write, within, 1);
    MmpHold::acquire(&above, &sb, Exclusion::Hold)
        .map(drop)
        .expect_err("the device failed");
    assert!(device.work());
    assert_eq!(found(&device).seq, MMP_SEQ_CLEAN);
}

#[test]
fn what_is_overwritten_stays_taken_without_a_thread() {
    let device = protected();
    let sb = crate::read_superblock(&*device).expect("a superblock");
    let above = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let acquire = || MmpHold::acquire(&above, &sb, Exclusion::Hold).expect("it is free");
    let mut hold = acquire().expect("mmp");
    hold.stop_renewing();
    let taken = found(&device).seq;
    std::thread::sleep(SECOND * 7);
    assert_eq!(found(&device).seq, taken);
    drop(hold);
    assert_eq!(found(&device).seq, MMP_SEQ_CLEAN);
    let mut hold = acquire().expect("mmp");
    hold.stop_renewing();
    hold.abandon();
    assert_ne!(found(&device).seq, MMP_SEQ_CLEAN);
}

#[test]
fn what_a_server_has_is_not_taken_over_unasked() {
    let plain = image(8 << 20, "");
    plain.is_remote.store(true, Ordering::Relaxed);
    let why = refused(&plain);
    assert!(matches!(why, Ext4Error::Unprotected), "{why}");
    let alone = |options: &mut MountOptions| options.exclusion = Exclusion::Alone;
    mount_as(&plain, alone).unmount().expect("unmount");
    try_mount(&plain, |options| options.read_only = true).expect("a reader");
    let device = protected();
    device.is_remote.store(true, Ordering::Relaxed);
    mount(&device).crash();
    let why = refused(&device);
    assert_eq!(why.errno(), Errno::EBUSY);
    let host = host_name();
    assert!(
        matches!(&why, Ext4Error::LeftBehind { host: left } if *left == host),
        "{why}"
    );
    mount_as(&device, alone).unmount().expect("unmount");
    mount(&device).unmount().expect("unmount");
}

#[test]
fn names_fit_their_fields() {
    assert_eq!(field::<4>("ab"), *b"ab\0\0");
    assert_eq!(field::<4>("abcdef"), *b"abc\0");
    assert_eq!(text(b"ab\0cd"), "ab");
    assert_eq!(text(b"abcd"), "abcd");
}

//! Once the device failed to make something durable, no call returns Ok that guarantees durability.

use super::{SIZE, device};
use uext4_testkit::prelude::*;

/// Everything that the calls below work on, made durable before the device fails.
struct Mounted {
    fs: Arc<Ext4>,
    plan: FaultPlan,
    root: InodeRef,
    file: InodeRef,
    dirsync: InodeRef,
}

fn mounted() -> Mounted {
    let me = Caller::root();
    let plan = FaultPlan::new();
    let faulty = FaultDevice::new(device(), plan.clone());
    let fs = Ext4::mount(Arc::new(faulty), MountOptions::default()).expect("mount");
    let root = fs.top();
    let file = fs.make(&root, b"file", &FILE);
    fs.put(&file, 0, &[1; 8192]);
    let dirsync = fs.make(&root, b"dir", &DIR);
    let flags = fs.files.flags(&dirsync) | InodeFlags::DIRSYNC;
    fs.files.set_flags(&me, &dirsync, flags).expect("chattr +D");
    fs.make(&dirsync, b"name", &FILE);
    fs.sync().expect("sync");
    Mounted {
        fs,
        plan,
        root,
        file,
        dirsync,
    }
}

/// The calls that guarantee durability, by name; true for those that returned Ok.
fn guarantees(m: &Mounted) -> Vec<(&'static str, bool)> {
    let me = Caller::root();
    let Mounted { fs, file, .. } = m;
    let aligned = vec![2u8; 3 * 4096];
    let skip = aligned.as_ptr().align_offset(4096);
    let block = &aligned[skip..skip + 4096];
    let rename = |from: &[u8], to: &[u8]| {
        fs.namei
            .rename(&me, &m.dirsync, from, &m.dirsync, to, RenameFlags::empty())
    };
    let mut calls = vec![
        ("fsync", fs.files.fsync(file, false).is_ok()),
        ("fdatasync", fs.files.fsync(file, true).is_ok()),
        (
            "fsync of a directory",
            fs.files.fsync(&m.root, false).is_ok(),
        ),
        ("syncfs", fs.sync().is_ok()),
    ];
    for flags in [IoFlags::DSYNC, IoFlags::SYNC] {
        calls.push((
            "O_SYNC",
            fs.files.write_with(file, 0, b"x", flags, true).is_ok(),
        ));
        let direct = flags | IoFlags::DIRECT;
        let written = fs.files.write_with(file, 0, block, direct, true);
        calls.push(("O_SYNC, direct", written.is_ok()));
    }
    calls.push(("dirsync, rename", rename(b"name", b"other").is_ok()));
    calls.push((
        "dirsync, create",
        fs.namei.create(&me, &m.dirsync, b"new", &FILE).is_ok(),
    ));
    calls.push(("unmount", fs.unmount().is_ok()));
    calls
}

/// The calls that lose data when a flush fails under them.
type Lose = fn(&Mounted) -> bool;

#[test]
fn after_a_failed_flush_nothing_is_guaranteed() {
    let ways: [(&str, Lose); 3] = [
        ("fsync of an overwrite", |m| {
            m.fs.put(&m.file, 0, &[3; 4096]);
            m.fs.files.fsync(&m.file, true).is_ok()
        }),
        ("syncfs with nothing to commit", |m| m.fs.sync().is_ok()),
        ("commit", |m| {
            m.fs.make(&m.root, b"a", &FILE);
            m.fs.files.fsync(&m.root, false).is_ok()
        }),
    ];
    for (way, lose) in ways {
        let m = mounted();
        m.plan.add(FaultRule::new(FaultCall::Flush).nth(1));
        assert!(!lose(&m), "{way}: Ok although the flush failed");
        let kept = guarantees(&m);
        let kept = kept.iter().filter(|(_, ok)| *ok).collect::<Vec<_>>();
        assert!(kept.is_empty(), "{way}: Ok after a failed flush: {kept:?}");
    }
}

/// A commit block, or the log's superblock, that cannot be written ends all guarantees as well.
#[test]
fn after_a_failed_write_of_the_log_nothing_is_guaranteed() {
    for k in 1.. {
        let m = mounted();
        m.fs.make(&m.root, b"a", &FILE);
        let rule = FaultRule::new(FaultCall::Write).within(0..SIZE).nth(k);
        m.plan.add(rule);
        let synced = m.fs.sync();
        if m.plan.failed() == 0 {
            assert!(k > 2 && synced.is_ok(), "{k}: {synced:?}");
            return;
        }
        assert!(synced.is_err(), "write {k} failed");
        let kept = guarantees(&m);
        let kept = kept.iter().filter(|(_, ok)| *ok).collect::<Vec<_>>();
        assert!(kept.is_empty(), "Ok after write {k} failed: {kept:?}");
    }
}

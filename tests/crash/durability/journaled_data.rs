//! A file that leaves data journaling has nothing in the log any more, whatever other threads do.

use super::{create_until_it_fails, device, mount};
use uext4_testkit::prelude::*;

const LEN: usize = 64 << 10;

/// What the file is changed to after it left data journaling.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// It is overwritten in place.
    Overwritten,
    /// It is removed, and its blocks go to another file.
    Reused,
}

#[test]
fn recovery_does_not_bring_back_what_was_journaled() {
    for round in 0..12 {
        let then = [Then::Overwritten, Then::Reused][round % 2];
        leave_data_journaling(then, round);
    }
}

fn leave_data_journaling(then: Then, round: usize) {
    let me = Caller::root();
    let device = device();
    let fs = mount(&device);
    let crashed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (fs, crashed) = (&fs, &crashed);
            scope.spawn(move || {
                create_until_it_fails(fs, thread);
                assert!(
                    crashed.load(Ordering::SeqCst),
                    "creating failed before the crash"
                );
            });
        }
        let root = fs.top();
        let file = fs.make(&root, b"file", &FILE);
        fs.files
            .set_flags(&me, &file, fs.files.flags(&file) | InodeFlags::JOURNAL_DATA)
            .expect("chattr +j");
        fs.put(&file, 0, &[b'o'; LEN]);
        fs.files
            .set_flags(&me, &file, fs.files.flags(&file) - InodeFlags::JOURNAL_DATA)
            .expect("chattr -j");
        let file = match then {
            Then::Overwritten => file,
            Then::Reused => {
                drop(file);
                fs.remove(&root, b"file");
                fs.sync().expect("sync");
                fs.make(&root, b"file", &FILE)
            }
        };
        fs.files
            .write_with(&file, 0, &[b'n'; LEN], IoFlags::DSYNC, true)
            .expect("write");
        fs.files.fsync(&file, false).expect("fsync");
        crashed.store(true, Ordering::SeqCst);
        fs.crash();
    });
    drop(fs);
    let fs = mount(&device);
    let root = fs.top();
    let file = fs.get(&root, b"file");
    let mut data = vec![0; LEN];
    let n = fs.files.read(&file, 0, &mut data).expect("read");
    assert_eq!(n, LEN);
    let old = data.iter().filter(|b| **b != b'n').count();
    assert_eq!(old, 0, "round {round}, {then:?}: bytes from the journal");
}

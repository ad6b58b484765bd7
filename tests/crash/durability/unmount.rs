//! Unmounting beside operations leaves a clean image that holds what was made durable.

use super::{SIZE, create_until_it_fails, device, mount};
use uext4_testkit::prelude::*;

fn bytes(device: &MemoryDevice) -> Vec<u8> {
    let mut bytes = vec![0; SIZE as usize];
    device.read_at(0, &mut bytes).expect("read");
    bytes
}

#[test]
fn nothing_is_written_once_it_is_unmounted() {
    for _ in 0..6 {
        let device = device();
        let fs = mount(&device);
        let synced = AtomicU64::new(0);
        let root = fs.top();
        let appended = fs.make(&root, b"appended", &FILE);
        let in_place = fs.make(&root, b"in place", &FILE);
        fs.put(&in_place, 0, &[0; 1 << 20]);
        let image = std::thread::scope(|scope| {
            for thread in 0..2 {
                let fs = &fs;
                scope.spawn(move || create_until_it_fails(fs, thread));
            }
            scope.spawn(|| {
                for i in 0..u64::MAX {
                    let written = fs
                        .files
                        .write(&appended, i * 100, &[b'a'; 100], true)
                        .is_ok();
                    if !written || fs.files.fsync(&appended, false).is_err() {
                        break;
                    }
                    synced.store((i + 1) * 100, Ordering::SeqCst);
                }
            });
            scope.spawn(|| while fs.files.write(&in_place, 0, &[b'b'; 1 << 20], true).is_ok() {});
            std::thread::sleep(std::time::Duration::from_millis(60));
            fs.unmount().expect("unmount");
            bytes(&device)
        });
        assert!(image == bytes(&device), "written after the unmount");
        drop((appended, in_place, root, fs));
        assert!(image == bytes(&device), "written after the last reference");

        let sb = uext4_ext4::read_superblock(&*device).expect("superblock");
        assert!(!sb.incompat.contains(Incompat::RECOVER), "left clean");
        oracle::check(&*device).expect("clean");
        let fs = mount(&device);
        let root = fs.top();
        let file = fs.get(&root, b"appended");
        assert!(file.size() >= synced.load(Ordering::SeqCst), "fsynced data");
        fs.unmount().expect("unmount");
    }
}

//! What was made durable stays so: across crashes, failed devices and an unmount beside operations.
mod failed_flush;
mod full_host;
mod journaled_data;
mod unmount;
mod unreadable;

use uext4_testkit::prelude::*;

const SIZE: u64 = 48 << 20;

/// An empty file system in memory, with a small journal.
fn device() -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(SIZE));
    let options = MkfsOptions {
        size: Some(SIZE),
        journal_size: Some(4 << 20),
        inodes: Some(64 << 10),
        ..MkfsOptions::default()
    };
    uext4_build::mkfs(&*device, &options, &uext4_build::NoProgress).expect("mkfs");
    device
}

fn mount(device: &Arc<MemoryDevice>) -> Arc<Ext4> {
    let device = Arc::clone(device) as Arc<dyn BlockDevice>;
    Ext4::mount(device, MountOptions::default()).expect("mount")
}

/// Creates files in the root directory until that fails; returns how many it made.
fn create_until_it_fails(fs: &Ext4, thread: usize) -> usize {
    let root = fs.top();
    let create = |i: &usize| {
        let name = format!("{thread}-{i}");
        fs.namei
            .create(&Caller::root(), &root, name.as_bytes(), &FILE)
            .is_ok()
    };
    (0..).take_while(create).count()
}

use super::*;
use crate::fixture::*;
use crate::fs::Ext4;
use crate::group::bitmap;
use uext4_vfs::attr::XattrFlags;
use uext4_vfs::filesystem::FileSystem;

fn unlink(fs: &Ext4, name: &str) -> Result<()> {
    let root = fs.namei.root()?.clone();
    fs.namei.unlink(&Caller::root(), &root, name.as_bytes())
}

fn exists(fs: &Ext4, name: &str) -> bool {
    let root = fs.namei.root().expect("root").clone();
    let found = fs.namei.lookup(&Caller::root(), &root, name.as_bytes());
    found.is_ok()
}

/// Marks the first block of a file free.
fn damage(fs: &Ext4, node: &Inode) {
    let first = fs.mapping.extents(node).expect("extents")[0];
    let geometry = fs.volume.geometry();
    let (no, index) = geometry.group_of_block(first.pblk).expect("a group");
    let group = fs.volume.group(no).expect("a group");
    let bits = fs.blocks.block_bits(group).expect("bits");
    bitmap::assign_run(&bits.on_disk, index.0, 1, false);
}

#[track_caller]
fn assert_continues(fs: &Ext4) {
    fs.volume.journal().sync().expect("the journal continues");
}

#[test]
fn a_small_file_with_damage_keeps_its_name() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    allocate(&fs, &node, 0..3);
    damage(&fs, &node);
    drop(node);
    let done = unlink(&fs, "f");
    assert!(matches!(done, Err(Ext4Error::Corrupt(_))), "{done:?}");
    assert!(exists(&fs, "f"));
    assert_continues(&fs);
    fs.crash();
}

#[test]
fn a_small_file_whose_attributes_cannot_be_read_keeps_its_name() {
    let (fs, device) = small_fs();
    let node = file(&fs, "f");
    allocate(&fs, &node, 0..3);
    let flags = XattrFlags::empty();
    fs.setxattr(&Caller::root(), &node, b"user.large", &[7; 500], flags)
        .expect("an attribute");
    let place = node.state().file_acl;
    assert_ne!(place, Pblk(0));
    drop(node);
    fs.unmount().expect("unmount");
    let fs = mount(&device);
    device.fail_reads_of(&fs, place);
    let done = unlink(&fs, "f");
    assert!(matches!(done, Err(Ext4Error::Device(_))), "{done:?}");
    assert!(exists(&fs, "f"));
    assert_continues(&fs);
    device.work();
    unlink(&fs, "f").expect("unlink");
}

#[test]
fn a_large_file_with_damage_stays_an_orphan() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    allocate_apart(&fs, &node, 0, 10);
    unlink(&fs, "f").expect("unlink");
    damage(&fs, &node);
    let done = fs.deletion.delete_inode(node.inode());
    assert!(matches!(done, Err(Ext4Error::Corrupt(_))), "{done:?}");
    assert_continues(&fs);
    fs.crash();
}

/// A directory of so many blocks.
fn directory(fs: &Ext4, name: &str, blocks: u64) -> InodeRef {
    let root = fs.namei.root().expect("root").clone();
    let dir = make(fs, &root, name, &DIR);
    for i in 0.. {
        if dir.size() >= blocks << 10 {
            break;
        }
        make(fs, &dir, &format!("{i:0>200}"), &FILE);
    }
    assert_eq!(dir.size(), blocks << 10);
    dir
}

#[test]
fn what_takes_nine_blocks_is_deleted_in_one_handle() {
    let device = image_as(8 << 20, "^dir_index", |options| {
        options.inodes = Some(1024);
    });
    let fs = mount(&device);
    for (blocks, small) in [(1, true), (8, true), (9, true), (10, false)] {
        let dir = directory(&fs, &format!("{blocks}"), blocks);
        assert_eq!(dir.state().blocks, 2 * blocks);
        let plan = fs.deletion.prepare_delete(&dir).expect("a plan");
        assert_eq!(plan.small, small, "{blocks}");
    }
    let data = file(&fs, "data");
    allocate(&fs, &data, 0..100);
    assert!(fs.deletion.prepare_delete(&data).expect("a plan").small);
}

/// Leaves an inode on record as an orphan, and mounts the image again.
fn after_crash_with_orphan(links: u32) -> (Arc<Ext4>, u64) {
    let (fs, device) = small_fs();
    let free_before = fs.blocks.free_blocks_total();
    let node = file(&fs, "f");
    allocate(&fs, &node, 0..20);
    fs.volume
        .with_handle(8, |handle| {
            fs.orphans.add_orphan(handle, node.inode())?;
            fs.table.update_inode(&node, handle, |disk| {
                disk.links = links;
                disk.size = 5 << 10;
            })
        })
        .expect("an orphan");
    fs.volume.journal().sync().expect("sync");
    fs.crash();
    drop(node);
    drop(fs);
    (mount(&device), free_before)
}

#[test]
fn a_truncate_that_a_crash_interrupted_is_finished() {
    let (fs, free_before) = after_crash_with_orphan(1);
    assert_eq!(fs.blocks.free_blocks_total(), free_before - 5);
    assert!(!fs.orphans.any_left());
    let root = fs.namei.root().expect("root").clone();
    let node = fs
        .namei
        .lookup(&Caller::root(), &root, b"f")
        .expect("there");
    let extents = fs.mapping.extents(&node).expect("extents");
    assert_eq!(extents.iter().map(|e| e.len).sum::<u16>(), 5);
}

#[test]
fn an_inode_without_links_is_deleted_after_a_crash() {
    let (fs, free_before) = after_crash_with_orphan(0);
    assert_eq!(fs.blocks.free_blocks_total(), free_before);
    assert!(!fs.orphans.any_left());
    fs.crash();
}

#[test]
fn a_truncate_with_damage_is_left_to_the_next_mount() {
    let (fs, _device) = small_fs();
    let node = file(&fs, "f");
    allocate(&fs, &node, 0..3);
    fs.volume
        .with_handle(2, |handle| {
            fs.table.update_inode(&node, handle, |disk| disk.size = 0)
        })
        .expect("a change");
    damage(&fs, &node);
    let done = fs.deletion.finish_truncate(&node);
    assert!(matches!(done, Err(Ext4Error::Corrupt(_))), "{done:?}");
    assert_continues(&fs);
    fs.crash();
}

#[test]
fn an_inode_whose_number_cannot_be_released_is_not_deleted() {
    let (fs, _device) = small_fs();
    drop(file(&fs, "f"));
    let group = fs.volume.group(GroupNo(0)).expect("a group");
    let bitmap = &fs.numbers.inode_bits(group).expect("bits").buffer;
    let done = losing_the_journal_at(&fs, bitmap, || unlink(&fs, "f"));
    assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
}

#[test]
fn an_orphan_whose_values_cannot_be_read_stays_on_record() {
    let device = image_as(8 << 20, "ea_inode", |options| options.inodes = Some(1024));
    let fs = mount(&device);
    let node = file(&fs, "f");
    // Four inodes are in a block of their table.
    let others = ["a", "b", "c", "d"].map(|name| file(&fs, name));
    let flags = XattrFlags::empty();
    fs.setxattr(&Caller::root(), &node, b"user.large", &[7; 5000], flags)
        .expect("an attribute");
    let is_used = |ino: &u32| fs.numbers.is_ino_used(Ino(*ino)).expect("read");
    let value = Ino((others[3].ino.0 + 1..).find(is_used).expect("one"));
    let place = fs.table.inode_place(value, false).expect("a place");
    assert_ne!(place.buffer.block(), node.itable.block());
    unlink(&fs, "f").expect("unlink");
    fs.sync().expect("sync");
    fs.crash();
    drop((node, others));
    device.fail_reads_of(&fs, Pblk(place.buffer.block()));
    drop(fs);
    let fs = mount(&device);
    assert!(fs.orphans.any_left());
    fs.unmount().expect("unmount");
    device.work();
    let fs = mount(&device);
    assert!(!fs.orphans.any_left());
    assert!(!fs.numbers.is_ino_used(value).expect("read"));
}

#[test]
fn a_large_file_whose_attributes_cannot_be_read_stays_an_orphan() {
    let (fs, device) = small_fs();
    let node = file(&fs, "f");
    allocate_apart(&fs, &node, 0, 10);
    let flags = XattrFlags::empty();
    fs.setxattr(&Caller::root(), &node, b"user.large", &[7; 500], flags)
        .expect("an attribute");
    let place = node.state().file_acl;
    drop(node);
    fs.unmount().expect("unmount");
    let fs = mount(&device);
    let root = fs.namei.root().expect("root").clone();
    let node = fs
        .namei
        .lookup(&Caller::root(), &root, b"f")
        .expect("there");
    unlink(&fs, "f").expect("unlink");
    device.fail_reads_of(&fs, place);
    let done = fs.deletion.delete_inode(node.inode());
    assert!(matches!(done, Err(Ext4Error::Device(_))), "{done:?}");
    assert_continues(&fs);
    assert!(fs.orphans.any_left());
    fs.crash();
}

#[test]
fn a_large_file_is_unlinked_only_with_its_record() {
    let device = image(8 << 20, "^orphan_file");
    let fs = mount(&device);
    let node = file(&fs, "f");
    allocate_apart(&fs, &node, 0, 10);
    drop(node);
    let done = losing_the_journal_at(&fs, &fs.volume.super_buffer, || unlink(&fs, "f"));
    assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
}

#[test]
fn an_inode_whose_number_is_marked_free_is_not_deleted() {
    for small in [true, false] {
        let (fs, _device) = small_fs();
        let node = file(&fs, "f");
        let group = fs.volume.group(GroupNo(0)).expect("a group");
        let bits = fs.numbers.inode_bits(group).expect("bits");
        let mark_free = || assert!(bitmap::clear(&bits.words, node.ino.0 - 1));
        let done = if small {
            mark_free();
            unlink(&fs, "f")
        } else {
            allocate_apart(&fs, &node, 0, 10);
            unlink(&fs, "f").expect("unlink");
            mark_free();
            fs.deletion.delete_inode(node.inode())
        };
        assert!(matches!(done, Err(Ext4Error::Corrupt(_))), "{done:?}");
        assert_continues(&fs);
        fs.crash();
    }
}

#[test]
fn an_orphan_is_deleted_with_its_record() {
    let device = image(8 << 20, "^orphan_file");
    let fs = mount(&device);
    let node = file(&fs, "f");
    allocate_apart(&fs, &node, 0, 10);
    unlink(&fs, "f").expect("unlink");
    let done = losing_the_journal_at(&fs, &fs.volume.super_buffer, || {
        fs.deletion.delete_inode(node.inode())
    });
    assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
}

#[test]
fn an_unlink_without_write_access_to_a_block_of_the_inode_fails() {
    for (small, attributes) in [(true, false), (true, true), (false, false)] {
        let (fs, _device) = small_fs();
        let node = file(&fs, "f");
        let mut block = Arc::clone(&node.itable);
        if attributes {
            let flags = XattrFlags::empty();
            fs.setxattr(&Caller::root(), &node, b"user.large", &[7; 500], flags)
                .expect("an attribute");
            let place = node.state().file_acl;
            block = fs.volume.cache().peek(place.0).expect("in memory");
        }
        if !small {
            allocate_apart(&fs, &node, 0, 10);
        }
        drop(node);
        let done = losing_the_journal_at(&fs, &block, || unlink(&fs, "f"));
        assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
    }
}

#[test]
fn an_inode_on_record_that_is_not_in_use_is_forgotten() {
    let device = image(8 << 20, "^metadata_csum,^metadata_csum_seed,orphan_file");
    let fs = mount(&device);
    let node = file(&fs, "f");
    allocate(&fs, &node, 0..3);
    unlink(&fs, "f").expect("unlink");
    let place = fs.table.inode_place(node.ino, false).expect("a place");
    let offset = place.buffer.block() * 1024 + place.offset as u64;
    let size = usize::from(fs.volume.params.inode_size);
    let ino = node.ino;
    fs.volume.journal().flush_log().expect("in place");
    fs.crash();
    drop((node, place, fs));
    device.change(offset, size, |raw| raw.fill(0));
    let on_record = |fs: &Ext4| fs.orphans.orphans_on_record().expect("a list");
    let fs = mount_as(&device, |options| {
        (options.read_only, options.noload) = (true, true);
    });
    assert!(on_record(&fs).contains(&ino), "never on record");
    drop(fs);
    mount(&device).unmount().expect("unmount");
    let fs = mount_as(&device, |options| options.read_only = true);
    assert!(on_record(&fs).is_empty());
}

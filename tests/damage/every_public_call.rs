//! `errors=` is honoured whatever call meets the damage: each public call on damaged structures makes a mount with
//! `errors=remount-ro` read-only, and the superblock says what was found.

use std::sync::Arc;
use uext4::unstable::ondisk::{self, Lblk};
use uext4::unstable::{FileSystem, SetAttr, read_superblock};
use uext4::*;
use uext4_testkit::with;

const BLOCK: u64 = 1024;
const SIZE: u64 = 24 << 20;

/// A call, and what it is called on.
type Call = (&'static str, fn(&Filesystem) -> Result<()>);

fn options() -> ImageOptions {
    ImageOptions::read_write().errors(ErrorsBehaviour::RemountRo)
}

/// Entries of an ACL that does not fit the inode beside what is there.
fn acl(users: u32) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    let mut entry = |tag: u16, id: u32| {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(7u16.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    };
    entry(1, u32::MAX);
    (0..users).for_each(|user| entry(2, 1000 + user));
    for tag in [4, 0x10, 0x20] {
        entry(tag, u32::MAX);
    }
    bytes
}

/// An image with damage in a directory, in a node of extents, and in blocks of attributes.
fn damaged() -> Vec<u8> {
    let device = Arc::new(MemoryDevice::new(SIZE));
    let mkfs = MkfsOptions::new()
        .size(SIZE)
        .block_size(BLOCK as u32)
        .inodes(512);
    mkfs_on(&*device, &mkfs, &NoProgress).expect("mkfs");
    let fs = Filesystem::open_device(device.clone(), &options()).expect("open");
    let none = XattrFlags::empty();
    fs.create_dir("/dir").expect("mkdir");
    fs.create_dir("/whole").expect("mkdir");
    fs.write("/dir/file", b"x").expect("write");
    fs.write("/plain", b"x").expect("write");
    let fragments = OpenOptions::new()
        .write(true)
        .create(true)
        .open(&fs, "/fragments")
        .expect("create");
    for i in 0..40 {
        fragments
            .write_all_at(&[1; BLOCK as usize], i * 3 * BLOCK)
            .expect("write");
    }
    fragments
        .fallocate(Fallocate::AllocateKeepSize, 200 * BLOCK, 10 * BLOCK)
        .expect("fallocate");
    fs.write("/attributed", b"x").expect("write");
    fs.set_xattr("/attributed", "user.large", vec![1; 500], none)
        .expect("setxattr");
    fs.set_xattr("/attributed", "system.posix_acl_access", acl(30), none)
        .expect("an ACL");
    fs.create_dir("/inherited").expect("mkdir");
    fs.set_xattr("/inherited", "system.posix_acl_default", acl(60), none)
        .expect("an ACL");
    fs.set_xattr("/inherited", "system.posix_acl_access", acl(30), none)
        .expect("an ACL");
    fs.sync().expect("sync");
    let ext4 = fs.engine();
    let dir = fs.open_dir("/dir").expect("open");
    let mut blocks = vec![
        ext4.mapping
            .map_block(dir.node(), Lblk(0))
            .expect("maps")
            .pblk
            .expect("a block"),
    ];
    let journal = ext4.inodes.get_inode(Ino::JOURNAL).expect("the journal");
    let journal = ext4.mapping.extents(&journal).expect("its extents");
    drop((dir, fragments));
    fs.unmount().expect("unmount");
    let in_journal = |at: u64| {
        let within = |e: &ondisk::Extent| at.wrapping_sub(e.pblk.0) < u64::from(e.len);
        journal.iter().any(within)
    };
    let others = nodes_and_attributes(&device);
    blocks.extend(others.into_iter().filter(|pblk| !in_journal(pblk.0)));
    assert_eq!(blocks.len(), 4, "{blocks:?}");
    let mut bytes = vec![0; SIZE as usize];
    device.read_at(0, &mut bytes).expect("read");
    for block in blocks {
        let at = (block.0 * BLOCK) as usize;
        bytes[at + 64..at + 80].fill(0xee);
    }
    bytes
}

/// Blocks that hold a leaf of extents or attributes, by their magic numbers.
fn nodes_and_attributes(device: &MemoryDevice) -> Vec<Pblk> {
    let mut block = [0; BLOCK as usize];
    let mut is_one = |pblk: &Pblk| {
        device.read_at(pblk.0 * BLOCK, &mut block).expect("read");
        block[..2] == [0x0a, 0xf3] && block[6] == 0 || block[..4] == [0, 0, 2, 0xea]
    };
    (0..SIZE / BLOCK)
        .map(Pblk)
        .filter(|pblk| is_one(pblk))
        .collect()
}

fn as_user(fs: &Filesystem) -> Filesystem {
    fs.with_caller(Caller::user(1234, 1234))
}

fn file(fs: &Filesystem) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(fs, "/fragments")
}

fn calls() -> Vec<Call> {
    const NONE: XattrFlags = XattrFlags::empty();
    let mut calls: Vec<Call> = vec![
        ("read_dir", |fs| {
            fs.read_dir("/dir")?.try_for_each(|entry| entry.map(drop))
        }),
        ("Dir::read_dir", |fs| {
            fs.open_dir("/dir")?
                .read_dir()?
                .try_for_each(|e| e.map(drop))
        }),
        ("read", |fs| fs.read("/dir/file").map(drop)),
        ("write", |fs| fs.write("/dir/file", b"y")),
        ("copy", |fs| fs.copy("/plain", "/dir/copy").map(drop)),
        ("truncate", |fs| fs.truncate("/dir/file", 0)),
        ("create_dir", |fs| fs.create_dir("/dir/new")),
        ("create_dir_all", |fs| fs.create_dir_all("/dir/a/b")),
        ("mknod", |fs| fs.mknod("/dir/new", 0o600, NewKind::Regular)),
        ("symlink", |fs| fs.symlink("target", "/dir/new")),
        ("hard_link", |fs| fs.hard_link("/plain", "/dir/new")),
        ("read_link", |fs| fs.read_link("/dir/link").map(drop)),
        ("remove_file", |fs| fs.remove_file("/dir/file")),
        ("remove_dir", |fs| fs.remove_dir("/dir")),
        ("remove_dir_all", |fs| fs.remove_dir_all("/dir")),
        ("rename from", |fs| fs.rename("/dir/file", "/new")),
        ("rename to", |fs| fs.rename("/plain", "/dir/new")),
        ("rename over", |fs| fs.rename("/whole", "/dir")),
        ("rename of a directory", |fs| {
            fs.rename("/dir", "/whole/dir")
        }),
        ("exchange", |fs| {
            fs.rename_with("/plain", "/dir/file", RenameFlags::EXCHANGE)
        }),
        ("metadata", |fs| fs.metadata("/dir/file").map(drop)),
        ("symlink_metadata", |fs| {
            fs.symlink_metadata("/dir/file").map(drop)
        }),
        ("exists", |fs| fs.exists("/dir/file").map(drop)),
        ("set_permissions", |fs| {
            fs.set_permissions("/attributed", 0o600)
        }),
        ("set_attr", |fs| {
            let change = with(|o: &mut SetAttr| o.uid = Some(7));
            fs.set_attr("/attributed", &change).map(drop)
        }),
        ("chown", |fs| fs.chown("/attributed", Some(5), None)),
        ("set_times", |fs| {
            as_user(fs).set_times("/attributed", Some(TimeSet::Now), Some(TimeSet::Now))
        }),
        ("access", |fs| {
            as_user(fs).access("/attributed", Access::READ)
        }),
        ("get_xattr", |fs| {
            fs.get_xattr("/attributed", "user.large").map(drop)
        }),
        ("get_xattr of an ACL", |fs| {
            fs.get_xattr("/attributed", "system.posix_acl_access")
                .map(drop)
        }),
        ("set_xattr", |fs| {
            fs.set_xattr("/attributed", "user.new", b"1", NONE)
        }),
        ("set_xattr of an ACL", |fs| {
            fs.set_xattr("/attributed", "system.posix_acl_access", acl(2), NONE)
        }),
        ("list_xattrs", |fs| fs.list_xattrs("/attributed").map(drop)),
        ("remove_xattr", |fs| {
            fs.remove_xattr("/attributed", "user.large")
        }),
        ("remove_xattr of an ACL", |fs| {
            fs.remove_xattr("/attributed", "system.posix_acl_access")
        }),
        ("write, capabilities", |fs| {
            OpenOptions::new()
                .write(true)
                .open(fs, "/attributed")?
                .write_all_at(b"z", 0)
        }),
        ("read_dir, by ACL", |fs| {
            let dir = fs.open_dir("/inherited")?.node().clone();
            fs.engine()
                .readdir(&Caller::user(1234, 1234), &dir, 0, &mut |_| true)
        }),
        ("create, inheriting", |fs| fs.write("/inherited/new", b"1")),
        ("create_dir, inheriting", |fs| {
            fs.create_dir("/inherited/new")
        }),
        ("open_file", |fs| {
            as_user(fs).open_file("/attributed").map(drop)
        }),
        ("deletion", |fs| {
            fs.remove_file("/fragments")?;
            // It is deleted with its last name, whose removal succeeded.
            Err(Errno::EUCLEAN.into())
        }),
        ("Dir::open_file", |fs| {
            fs.open_dir("/dir")?
                .open_file("file", &OpenOptions::new().read(true))
                .map(drop)
        }),
        ("Dir::create_new", |fs| {
            fs.open_dir("/dir")?.create_new("new", 0o600).map(drop)
        }),
        ("Dir::mkdir", |fs| {
            fs.open_dir("/dir")?.mkdir("new", 0o700).map(drop)
        }),
        ("Dir::unlink", |fs| fs.open_dir("/dir")?.unlink("file")),
        ("Dir::rmdir", |fs| fs.open_dir("/dir")?.rmdir("file")),
        ("Dir::metadata", |fs| {
            fs.open_dir("/dir")?.metadata("file").map(drop)
        }),
        ("File::read_at", |fs| {
            file(fs)?.read_at(&mut [0; 100], 0).map(drop)
        }),
        ("File::write_at", |fs| file(fs)?.write_at(b"y", 0).map(drop)),
        ("File::write_all_at", |fs| {
            file(fs)?.write_all_at(&[1; 5000], 7)
        }),
        ("File::set_len", |fs| file(fs)?.set_len(50)),
        ("File::fiemap", |fs| {
            file(fs)?.fiemap(FiemapOf::Data, 0, u64::MAX).map(drop)
        }),
        ("File::seek_data", |fs| file(fs)?.seek_data(0).map(drop)),
        ("File::seek_hole", |fs| file(fs)?.seek_hole(0).map(drop)),
        ("File::swap_boot", |fs| file(fs)?.swap_boot()),
        ("File::set_flags", |fs| {
            let file = file(fs)?;
            file.set_flags(file.flags() | InodeFlags::JOURNAL_DATA)
        }),
        ("set_flags", |fs| {
            fs.set_flags("/dir/file", InodeFlags::NODUMP)
        }),
        ("set_project", |fs| fs.set_project("/dir/file", 3)),
        ("flags", |fs| fs.flags("/dir/file").map(drop)),
        ("project", |fs| fs.project("/dir/file").map(drop)),
        ("handle", |fs| fs.handle("/dir/file").map(drop)),
    ];
    use Fallocate::*;
    for (name, call) in [
        (
            "Allocate",
            (|fs| file(fs)?.fallocate(Allocate, 0, 9 * BLOCK)) as fn(&Filesystem) -> _,
        ),
        ("AllocateKeepSize", |fs| {
            file(fs)?.fallocate(AllocateKeepSize, 0, 9 * BLOCK)
        }),
        ("PunchHole", |fs| {
            file(fs)?.fallocate(PunchHole, 0, 9 * BLOCK)
        }),
        ("ZeroRange", |fs| {
            file(fs)?.fallocate(ZeroRange, 0, 9 * BLOCK)
        }),
        ("CollapseRange", |fs| {
            file(fs)?.fallocate(CollapseRange, 0, 9 * BLOCK)
        }),
        ("InsertRange", |fs| {
            file(fs)?.fallocate(InsertRange, 0, 9 * BLOCK)
        }),
    ] {
        calls.push((name, call));
    }
    calls
}

#[test]
fn each_call_makes_the_mount_read_only() {
    let bytes = damaged();
    let mut wrong = Vec::new();
    for (name, call) in calls() {
        let device = Arc::new(MemoryDevice::new(SIZE));
        device.write_at(0, &bytes).expect("write");
        let fs = Filesystem::open_device(device.clone(), &options()).expect("open");
        let ended = call(&fs).map_err(|e| e.errno());
        let read_only = fs.engine().volume.is_read_only();
        let unmounted = fs.unmount();
        let sb = read_superblock(&*device).expect("superblock");
        let recorded = sb.raw.error_count.get() > 0;
        if ended != Err(Errno::EUCLEAN) || !read_only || !recorded || unmounted.is_err() {
            wrong.push(format!(
                "{name}: {ended:?}, read-only {read_only}, recorded {recorded}, {unmounted:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_call_reports_damage_where_there_is_none() {
    let device = Arc::new(MemoryDevice::new(SIZE));
    mkfs_on(&*device, &MkfsOptions::new(), &NoProgress).expect("mkfs");
    let fs = Filesystem::open_device(device, &options()).expect("open");
    for (name, call) in calls() {
        let ended = call(&fs).map_err(|e| e.errno());
        let is_made_up = name == "deletion" && ended == Err(Errno::ENOENT);
        assert!(is_made_up || ended != Err(Errno::EUCLEAN), "{name}");
        assert!(!fs.engine().volume.is_read_only(), "{name}");
    }
    assert!(fs.engine().inodes.get_inode(Ino::ROOT).is_ok());
}

//! Images with inline data, used by us and by the kernel in turn. Needs root and loop devices.

use crate::*;
use uext4_testkit::beside::{Values, both};

#[test]
fn kernel_and_we_do_the_same() {
    require!(kernel_mounts());
    let values = Values {
        bytes_max: 90,
        kinds: 255,
    };
    for (seed, shape) in (1..).zip(&Shape::INLINE) {
        both(shape, seed, values)
            .with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

/// What is inline, in bytes of data by name.
fn inline_sizes(fs: &Ext4, names: &[&str]) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for name in names {
        let node = find(fs, name.as_bytes())?;
        if fs.files.flags(&node).contains(InodeFlags::INLINE_DATA) {
            found.insert((*name).to_owned(), fs.getattr(&node)?.size);
        }
    }
    Ok(found)
}

/// What fits stays in the inode; what does not, or needs blocks, goes.
#[test]
fn regular_files_and_directories_stay_inline_as_long_as_they_fit() {
    let shape = &Shape::INLINE[0];
    let device = Arc::new(shape.make().unwrap());
    let fs = mount_as(Arc::clone(&device) as Arc<_>, 0).unwrap();
    let file = |name: &str, len: usize| {
        let path = name.as_bytes().to_vec();
        let data = vec![b'x'; len];
        let mode = 0o644;
        let create = Op::Create { path, mode };
        apply(&*fs, &create).unwrap();
        let path = name.as_bytes().to_vec();
        apply(&*fs, &Op::Append { path, data }).unwrap();
    };
    for (name, len) in [
        ("most", 128),
        ("more", 129),
        ("fallocated", 5),
        ("cut", 500),
        ("huge", 5),
    ] {
        file(name, len);
    }
    let (path, size) = (b"cut".to_vec(), 3);
    apply(&*fs, &Op::Truncate { path, size }).unwrap();
    // No block map reaches that far.
    let (path, size) = (b"huge".to_vec(), 5 << 40);
    apply(&*fs, &Op::Truncate { path, size }).unwrap();
    let fallocate = Op::Fallocate {
        path: b"fallocated".to_vec(),
        what: Fallocate::AllocateKeepSize,
        at: 0,
        len: 1,
    };
    apply(&*fs, &fallocate).unwrap();
    for (dir, entries) in [("none", 0), ("few", 5), ("many", 12)] {
        let path = dir.as_bytes().to_vec();
        apply(&*fs, &Op::Mkdir { path, mode: 0o755 }).unwrap();
        for i in 0..entries {
            file(&format!("{dir}/{i}-name"), 1);
        }
    }
    let names = [
        "most",
        "more",
        "fallocated",
        "cut",
        "huge",
        "none",
        "few",
        "few/0-name",
        "many",
    ];
    let want = [("few", 128), ("few/0-name", 1), ("most", 128), ("none", 60)];
    let want: BTreeMap<String, u64> = want.map(|(n, l)| (n.to_owned(), l)).into();
    assert_eq!(inline_sizes(&fs, &names).unwrap(), want);
    // A hole and data: all of it is data.
    let most = find(&*fs, b"most").unwrap();
    assert_eq!(fs.seek_hole(&most, 3).unwrap(), 128);
    assert_eq!(fs.seek_data(&most, 127).unwrap(), 127);
    // As Linux counts it: a program might take a file without blocks for a hole.
    assert_eq!(fs.getattr(&most).unwrap().blocks, 1);
    // Its attribute is not visible.
    let caller = uext4_vfs::caller::Caller::root();
    assert!(fs.listxattr(&caller, &most).unwrap().is_empty());
    let get = fs.getxattr(&caller, &most, b"system.data").unwrap_err();
    assert!(get == Errno::EOPNOTSUPP, "{get:?}");
    let set = fs.setxattr(&caller, &most, b"system.data", b"", Default::default());
    assert!(set.unwrap_err() == Errno::EOPNOTSUPP);
    drop(most);
    fs.end_on(&device);
}

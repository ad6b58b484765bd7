//! Whole paths are walked at once where their names are known: a change of a name, a mode or an ACL on the way is visible to the next walk.
use crate::*;
use uext4_ondisk::FileType;
use uext4_vfs::walk::{WalkFlags, resolve};

const ROOT: Caller = Caller::root();
const USER: Caller = Caller::user(1000, 1000);

/// What a user finds at a path, three times the same: searched for, noted, known.
fn find(fs: &Ext4, path: &str) -> Result<Ino, Errno> {
    let walk = |flags| {
        let found = resolve(fs, &USER, None, path.as_bytes(), flags);
        found.map(|node| node.ino).map_err(|e| e.errno())
    };
    let [first, second, third] = [(); 3].map(|()| walk(WalkFlags::FOLLOW_LAST));
    assert_eq!((first, second), (second, third), "{path}");
    third
}

fn chmod(fs: &Ext4, dir: &InodeRef, mode: u16) {
    let change = SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    FileSystem::setattr(fs, &ROOT, dir, &change).expect("chmod");
}

#[test]
fn what_changes_on_the_way_of_a_path_is_visible() {
    let path = image("16M", "-b 1024 -N 64");
    let fs = mount(&path, MountOptions::default());
    let top = fs.top();
    let a = fs.make(&top, b"a", &DIR);
    let b = fs.make(&a, b"b", &DIR);
    let c = fs.make(&b, b"c", &DIR);
    let file = fs.make(&c, b"f", &FILE).ino;
    let find = |path| find(&fs, path);
    let rename = |old: &str, new: &str| {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        let done = FileSystem::rename(&*fs, &ROOT, &a, old, &a, new, RenameFlags::empty());
        done.expect("renames");
    };

    assert_eq!(find("/a/b/c/f"), Ok(file));
    assert_eq!(find("//a/./b//c/../c/f"), Ok(file));
    assert_eq!(find("/a/b/c"), Ok(c.ino));
    assert_eq!(find("/a/b/c//"), Ok(c.ino));
    assert_eq!(find("/a/b/c/f/"), Err(Errno::ENOTDIR));
    assert_eq!(find("/a/b/c/f/g"), Err(Errno::ENOTDIR));
    assert_eq!(find("/a/b/c/g"), Err(Errno::ENOENT));
    assert_eq!(find("/a/b/g/f"), Err(Errno::ENOENT));

    chmod(&fs, &b, 0o700);
    assert_eq!(find("/a/b/c/f"), Err(Errno::EACCES));
    chmod(&fs, &b, 0o711);
    assert_eq!(find("/a/b/c/f"), Ok(file));
    let (name, no_flags) = (b"system.posix_acl_access", XattrFlags::empty());
    FileSystem::setxattr(&*fs, &ROOT, &b, name, &acl_against(USER.uid), no_flags).expect("sets");
    chmod(&fs, &b, 0o771);
    assert_eq!(find("/a/b/c/f"), Err(Errno::EACCES));
    FileSystem::removexattr(&*fs, &ROOT, &b, name).expect("removes");
    assert_eq!(find("/a/b/c/f"), Ok(file));

    rename("b", "moved");
    assert_eq!(find("/a/b/c/f"), Err(Errno::ENOENT));
    assert_eq!(find("/a/moved/c/f"), Ok(file));
    let link = NewNode {
        mode: 0o777,
        kind: NewKind::Symlink(b"moved"),
    };
    drop(fs.make(&a, b"b", &link));
    assert_eq!(find("/a/b/c/f"), Ok(file));
    let itself = resolve(&*fs, &USER, None, b"/a/b", WalkFlags::empty()).expect("the link");
    assert_eq!(itself.file_type, FileType::Symlink);
    drop(itself);
    assert_eq!(find("/a/b"), Ok(b.ino));
    fs.remove(&a, b"b");
    drop(fs.make(&a, b"b", &FILE));
    assert_eq!(find("/a/b/c/f"), Err(Errno::ENOTDIR));
    path.end(fs);
}

/// A directory whose number another had, which anyone could search.
#[test]
fn a_number_that_comes_again_is_not_for_anyone() {
    let path = image("16M", "-b 1024 -N 16");
    let fs = mount(&path, MountOptions::default());
    let top = fs.top();
    let mut had = Vec::new();
    for round in 0..16 {
        let mode = if round % 2 == 0 { 0o755 } else { 0o700 };
        let new = NewNode { mode, ..DIR };
        let dir = fs.make(&top, b"d", &new);
        let file = fs.make(&dir, b"f", &FILE).ino;
        let found = find(&fs, "/d/f");
        match round % 2 {
            0 => assert_eq!(found, Ok(file)),
            _ => assert_eq!(found, Err(Errno::EACCES)),
        }
        had.push(dir.ino);
        fs.remove(&dir, b"f");
        drop(dir);
        fs.remove_dir(&top, b"d");
    }
    had.sort_unstable();
    had.dedup();
    assert!(had.len() < 16, "no number came again: {had:?}");
    path.end(fs);
}

//! Path resolution: from a byte string to a node, as path_resolution(7) specifies.
//!
//! # Invariants
//! A walk follows at most [`SYMLINKS_MAX`] symbolic links. The file system answers `.` and `..`
//! itself, and `..` of the root is the root, so no walk leaves the file system. Search permission is
//! checked by [`FileSystem::lookup`].
//!
//! # Locking
//! None is held between steps: the tree may change during a walk.

use crate::attr::FileKind;
use crate::caller::Caller;
use crate::errno::{Errno, Result};
use crate::filesystem::{FileSystem, NAME_BYTES_MAX, PATH_BYTES_MAX};
use bitflags::bitflags;
use std::borrow::Cow;

/// The most symbolic links that one walk follows.
pub const SYMLINKS_MAX: u32 = 40;

bitflags! {
    /// How symbolic links are treated. Those before the last component are followed in any case.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WalkFlags: u32 {
        /// Follow the last component too. If slashes trail, [`resolve`] always does.
        const FOLLOW_LAST = 1;
        /// Follow none: fail with `ELOOP` instead.
        const NO_SYMLINKS = 2;
    }
}

/// A directory, and a name in it that may or may not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent<'p, N> {
    /// The directory.
    pub dir: N,
    /// The last component; `.` and `..` as they stand, and `.` for the root itself.
    pub name: Cow<'p, [u8]>,
    /// Slashes trail: only a directory may have that name.
    pub must_be_dir: bool,
}

/// The node that `path` names, from `start`, or the root for `None`, if it is relative.
///
/// # Errors
/// `ENOENT`: a component does not exist, or the path or a link's target is empty. `ENOTDIR`: a
/// component before the last, or before a trailing slash, is not a directory. `ELOOP`: too many symbolic
/// links, or one where none may be followed. `ENAMETOOLONG`: a component above 255 bytes, or a path
/// above 4095. `EINVAL`: a NUL byte. `EACCES`: no search permission. Otherwise the file system's error.
pub fn resolve<F: FileSystem>(
    fs: &F,
    caller: &Caller,
    start: Option<&F::Node>,
    path: &[u8],
    flags: WalkFlags,
) -> Result<F::Node> {
    let mut walk = Walk::new(fs, caller, start, path, flags)?;
    while let Some(step) = walk.next_step(true)? {
        let follow = !step.is_last || step.must_be_dir || flags.contains(WalkFlags::FOLLOW_LAST);
        let node = fs.lookup(caller, &walk.at, &step.name)?;
        let kind = fs.kind(&node)?;
        if kind == FileKind::Symlink && follow {
            walk.follow(&node)?;
            continue;
        }
        if kind != FileKind::Directory && (!step.is_last || step.must_be_dir) {
            return Err(Errno::ENOTDIR.into());
        }
        walk.at = Cow::Owned(node);
    }
    Ok(walk.at.into_owned())
}

/// The directory in which the last component of `path` is or would be, and that component. With
/// `FOLLOW_LAST`, if that is a symbolic link, the same for its target, as open(2) does with
/// `O_CREAT`.
///
/// # Errors
/// As [`resolve`], but that the last component need not exist.
pub fn resolve_parent<'p, F: FileSystem>(
    fs: &F,
    caller: &Caller,
    start: Option<&F::Node>,
    path: &'p [u8],
    flags: WalkFlags,
) -> Result<Parent<'p, F::Node>> {
    let mut walk = Walk::new(fs, caller, start, path, flags)?;
    while let Some(step) = walk.next_step(false)? {
        if step.is_last {
            if flags.contains(WalkFlags::FOLLOW_LAST)
                && let Some(link) = walk.last_link(&step.name)?
            {
                walk.follow(&link)?;
                continue;
            }
            return Ok(Parent {
                dir: walk.directory()?,
                name: step.name,
                must_be_dir: step.must_be_dir,
            });
        }
        let node = fs.lookup(caller, &walk.at, &step.name)?;
        match fs.kind(&node)? {
            FileKind::Symlink => walk.follow(&node)?,
            FileKind::Directory => walk.at = Cow::Owned(node),
            _ => return Err(Errno::ENOTDIR.into()),
        }
    }
    Ok(Parent {
        dir: walk.at.into_owned(),
        name: Cow::Borrowed(b"."),
        must_be_dir: true,
    })
}

/// A component of a path as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Component<'p> {
    /// The name.
    pub name: &'p [u8],
    /// Where it ends in the path.
    pub end: usize,
    /// At most slashes follow.
    pub is_last: bool,
}

/// The first component of `path` that begins at byte `from` or after slashes there; none if nothing else follows.
#[inline]
pub fn component(path: &[u8], from: usize) -> Option<Component<'_>> {
    let rest = path.get(from..)?;
    let start = from + rest.iter().position(|&byte| byte != b'/')?;
    let rest = path.get(start..)?;
    let length = rest.iter().position(|&byte| byte == b'/');
    let (name, after) = rest.split_at(length.unwrap_or(rest.len()));
    Some(Component {
        name,
        end: start + name.len(),
        is_last: after.iter().all(|&byte| byte == b'/'),
    })
}

/// A walk in progress.
struct Walk<'a, 'p, F: FileSystem> {
    fs: &'a F,
    caller: &'a Caller,
    flags: WalkFlags,
    /// What the next component is looked up in: the start or the root, which others hold, or a node that was found.
    at: Cow<'a, F::Node>,
    /// The rest of the path, after links already read.
    rest: Cow<'p, [u8]>,
    links: u32,
    /// The file system may look up several components at once, as far as it is known.
    skips: bool,
}

/// One component of a path.
struct Step<'p> {
    name: Cow<'p, [u8]>,
    is_last: bool,
    /// Slashes trail, after the last.
    must_be_dir: bool,
}

impl<'a, 'p, F: FileSystem> Walk<'a, 'p, F> {
    fn new(
        fs: &'a F,
        caller: &'a Caller,
        start: Option<&'a F::Node>,
        path: &'p [u8],
        flags: WalkFlags,
    ) -> Result<Walk<'a, 'p, F>> {
        check_path(path)?;
        let at = match start {
            Some(start) if path[0] != b'/' => start,
            _ => fs.root()?,
        };
        Ok(Walk {
            fs,
            caller,
            flags,
            at: Cow::Borrowed(at),
            rest: Cow::Borrowed(path),
            links: 0,
            skips: true,
        })
    }

    /// Takes off the rest what the file system looks up at once, the last component only `with_last`.
    fn skip_known(&mut self, with_last: bool) -> Result<()> {
        if !self.skips || component(&self.rest, 0).is_none() {
            return Ok(());
        }
        let (fs, caller) = (self.fs, self.caller);
        let known = fs.lookup_known(caller, &self.at, &self.rest, with_last)?;
        self.skips = known.is_some();
        if let Some((node, taken)) = known {
            self.at = Cow::Owned(node);
            self.skip(taken);
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        match &mut self.rest {
            Cow::Borrowed(rest) => *rest = &rest[bytes..],
            Cow::Owned(rest) => drop(rest.drain(..bytes)),
        }
    }

    /// Takes the next component off the rest, after those that the file system looks up at once.
    fn next_step(&mut self, with_last: bool) -> Result<Option<Step<'p>>> {
        self.skip_known(with_last)?;
        let Some(next) = component(&self.rest, 0) else {
            return Ok(None);
        };
        if next.name.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        let (start, end) = (next.end - next.name.len(), next.end);
        let is_last = next.is_last;
        let must_be_dir = is_last && end < self.rest.len();
        let name = match &self.rest {
            Cow::Borrowed(rest) => Cow::Borrowed(&rest[start..end]),
            Cow::Owned(rest) => Cow::Owned(rest[start..end].to_vec()),
        };
        self.skip(end);
        Ok(Some(Step {
            name,
            is_last,
            must_be_dir,
        }))
    }

    /// Continues with the target of a link, then with the rest.
    fn follow(&mut self, link: &F::Node) -> Result<()> {
        self.links += 1;
        if self.links > SYMLINKS_MAX || self.flags.contains(WalkFlags::NO_SYMLINKS) {
            return Err(Errno::ELOOP.into());
        }
        let mut target = self.fs.readlink(self.caller, link)?;
        check_path(&target)?;
        if target[0] == b'/' {
            self.at = Cow::Borrowed(self.fs.root()?);
        }
        target.extend_from_slice(&self.rest);
        self.rest = Cow::Owned(target);
        self.skips = true;
        Ok(())
    }

    /// The last component, if it exists and is a symbolic link.
    fn last_link(&self, name: &[u8]) -> Result<Option<F::Node>> {
        match self.fs.lookup(self.caller, &self.at, name) {
            Ok(node) => {
                let is_link = self.fs.kind(&node)? == FileKind::Symlink;
                Ok(is_link.then_some(node))
            }
            Err(e) if e == Errno::ENOENT => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Where the walk is, which must be a directory: the start may be anything.
    fn directory(self) -> Result<F::Node> {
        if self.fs.kind(&self.at)? == FileKind::Directory {
            Ok(self.at.into_owned())
        } else {
            Err(Errno::ENOTDIR.into())
        }
    }
}

/// What is wrong with a path, or a link's target, before any of it is resolved.
fn check_path(path: &[u8]) -> Result<()> {
    if path.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG.into());
    }
    if path.contains(&0) {
        return Err(Errno::EINVAL.into());
    }
    Ok(())
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::attr::{NewKind, NewNode};
    use crate::memory_fs::MemoryFs;

    const FOLLOW: WalkFlags = WalkFlags::FOLLOW_LAST;
    const NONE: WalkFlags = WalkFlags::empty();
    const ROOT: Caller = Caller::root();

    fn add(fs: &MemoryFs, dir: u64, name: &str, kind: NewKind<'_>) -> u64 {
        let new = NewNode { mode: 0o755, kind };
        fs.create(&ROOT, &dir, name.as_bytes(), &new)
            .expect("is free")
    }

    /// `/a/b/f`, and links: `/l` to `a/b`, `/a/abs` to `/a/b/f`, `/loop` to itself, `/dangling`.
    fn tree() -> (MemoryFs, u64, u64, u64) {
        let fs = MemoryFs::new();
        let root = *fs.root().expect("has one");
        let a = add(&fs, root, "a", NewKind::Directory);
        let b = add(&fs, a, "b", NewKind::Directory);
        let f = add(&fs, b, "f", NewKind::Regular);
        add(&fs, root, "l", NewKind::Symlink(b"a/b"));
        add(&fs, a, "abs", NewKind::Symlink(b"/a/b/f"));
        add(&fs, root, "loop", NewKind::Symlink(b"loop"));
        add(&fs, root, "dangling", NewKind::Symlink(b"a/new"));
        add(&fs, root, "slashed", NewKind::Symlink(b"a/b/f/"));
        (fs, a, b, f)
    }

    fn walk(fs: &MemoryFs, start: u64, path: &str, flags: WalkFlags) -> Result<u64, Errno> {
        resolve(fs, &ROOT, Some(&start), path.as_bytes(), flags).map_err(|e| e.errno())
    }

    fn parent(fs: &MemoryFs, path: &str, flags: WalkFlags) -> Result<(u64, String, bool), Errno> {
        let start = *fs.root().expect("has one");
        resolve_parent(fs, &ROOT, Some(&start), path.as_bytes(), flags)
            .map(|p| {
                let name = String::from_utf8(p.name.into_owned()).expect("ascii");
                (p.dir, name, p.must_be_dir)
            })
            .map_err(|e| e.errno())
    }

    #[test]
    fn plain_paths() {
        let (fs, a, b, f) = tree();
        let root = *fs.root().expect("has one");
        for (start, path, want) in [
            (root, "/", root),
            (b, "/", root),
            (root, "a/b/f", f),
            (b, "//a///b/f", f),
            (a, "b", b),
            (a, "./b/.", b),
            (b, "..", a),
            (b, "../../../../..", root),
            (b, "../b/../b/f", f),
            (root, "a/b/", b),
        ] {
            assert_eq!(walk(&fs, start, path, NONE), Ok(want), "{path}");
        }
    }

    #[test]
    fn what_is_not_there_or_no_directory() {
        let (fs, _, _, f) = tree();
        for (path, want) in [
            ("", Errno::ENOENT),
            ("x", Errno::ENOENT),
            ("a/x/f", Errno::ENOENT),
            ("a/b/f/", Errno::ENOTDIR),
            ("a/b/f/g", Errno::ENOTDIR),
            ("a/b/f/..", Errno::ENOTDIR),
            ("a/b/f/.", Errno::ENOTDIR),
            ("a\0b", Errno::EINVAL),
        ] {
            assert_eq!(walk(&fs, 1, path, FOLLOW), Err(want), "{path}");
        }
        assert_eq!(walk(&fs, f, "x", FOLLOW), Err(Errno::ENOTDIR));
    }

    #[test]
    fn symbolic_links() {
        let (fs, _, b, f) = tree();
        assert_eq!(walk(&fs, 1, "l", FOLLOW), Ok(b));
        assert_ne!(walk(&fs, 1, "l", NONE), Ok(b));
        assert_eq!(walk(&fs, 1, "l/f", NONE), Ok(f));
        assert_eq!(walk(&fs, 1, "l/", NONE), Ok(b), "a trailing slash follows");
        assert_eq!(walk(&fs, b, "../abs", FOLLOW), Ok(f));
        assert_eq!(walk(&fs, 1, "loop", FOLLOW), Err(Errno::ELOOP));
        assert_eq!(walk(&fs, 1, "loop/x", NONE), Err(Errno::ELOOP));
        assert_eq!(walk(&fs, 1, "dangling", FOLLOW), Err(Errno::ENOENT));
        assert_eq!(walk(&fs, 1, "slashed", FOLLOW), Err(Errno::ENOTDIR));
        let none = WalkFlags::NO_SYMLINKS;
        assert_eq!(walk(&fs, 1, "l/f", none), Err(Errno::ELOOP));
        assert_eq!(walk(&fs, 1, "l", none | FOLLOW), Err(Errno::ELOOP));
        assert!(walk(&fs, 1, "l", none).is_ok(), "the link itself");
    }

    #[test]
    fn forty_links_are_followed_and_no_more() {
        let (fs, _, _, f) = tree();
        let mut target = String::from("a/b/f");
        for i in 1..=41 {
            let name = format!("link{i}");
            add(&fs, 1, &name, NewKind::Symlink(target.as_bytes()));
            target = name;
        }
        assert_eq!(walk(&fs, 1, "link40", FOLLOW), Ok(f));
        assert_eq!(walk(&fs, 1, "link41", FOLLOW), Err(Errno::ELOOP));
    }

    #[test]
    fn long_names_and_paths() {
        let (fs, ..) = tree();
        let name = "n".repeat(255);
        assert_eq!(walk(&fs, 1, &name, NONE), Err(Errno::ENOENT));
        let long = Err(Errno::ENAMETOOLONG);
        assert_eq!(walk(&fs, 1, &format!("{name}n"), NONE), long);
        assert_eq!(walk(&fs, 1, &format!("a/{name}n/b"), NONE), long);
        assert_eq!(walk(&fs, 1, &"./".repeat(2047), NONE), Ok(1));
        assert_eq!(walk(&fs, 1, &"./".repeat(2048), NONE), long);
        assert_eq!(
            parent(&fs, &format!("{name}n"), NONE),
            Err(Errno::ENAMETOOLONG)
        );
    }

    #[test]
    fn parents() {
        let (fs, a, b, _) = tree();
        for (path, dir, name, must_be_dir) in [
            ("x", 1, "x", false),
            ("a", 1, "a", false),
            ("/a/b/x//", b, "x", true),
            ("l/x", b, "x", false),
            ("l", 1, "l", false),
            ("/", 1, ".", true),
            ("a/.", a, ".", false),
            ("a/..", a, "..", false),
        ] {
            let want = Ok((dir, name.to_owned(), must_be_dir));
            assert_eq!(parent(&fs, path, NONE), want, "{path}");
        }
        assert_eq!(parent(&fs, "", NONE), Err(Errno::ENOENT));
        assert_eq!(parent(&fs, "x/y", NONE), Err(Errno::ENOENT));
        assert_eq!(parent(&fs, "a/b/f/y", NONE), Err(Errno::ENOTDIR));
    }

    #[test]
    fn parents_of_link_targets() {
        let (fs, a, b, _) = tree();
        let at = |dir, name: &str| Ok((dir, name.to_owned(), false));
        assert_eq!(parent(&fs, "dangling", FOLLOW), at(a, "new"));
        assert_eq!(parent(&fs, "a/abs", FOLLOW), at(b, "f"));
        assert_eq!(parent(&fs, "x", FOLLOW), at(1, "x"));
        assert_eq!(parent(&fs, "loop", FOLLOW), Err(Errno::ELOOP));
    }

    #[test]
    fn search_permission_is_needed_on_the_way() {
        let (fs, a, ..) = tree();
        fs.set_mode(a, 0o600);
        let user = Caller::user(1000, 1000);
        let denied = resolve(&fs, &user, Some(&1), b"a/b", NONE);
        assert_eq!(denied.unwrap_err(), Errno::EACCES);
        assert!(resolve(&fs, &user, Some(&1), b"a", NONE).is_ok());
    }
}

//! Operations by path, shaped like those of `std::fs`.
//!
//! All take the errors of a path besides their own: `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG` and
//! `EACCES`; and those that change something `EROFS`, `ENOSPC` and `EIO`.

use crate::dir::Dir;
use crate::filesystem::Filesystem;
use crate::image_path::ImagePath;
use crate::metadata::Metadata;
use crate::open_options::{CREATE, OpenOptions, READ};
use crate::operation;
use crate::read_dir::ReadDir;
use std::collections::HashSet;
use std::iter;
use uext4_ext4::{Fragments, InodeRef};
use uext4_ondisk::{FsVerity, FsVerityDescriptor, InodeFlags};
use uext4_vfs::{
    Access, Caller, Errno, Error, FileKind, FileSystem, NewKind, NewNode, Parent, RenameFlags,
    Result, SetAttr, TimeSet, WalkFlags, XattrFlags, permission::is_owner_or_capable,
};

/// Bytes that [`Filesystem::copy`] and [`Filesystem::read`] move at once.
const CHUNK_BYTES: usize = 1 << 20;

const FOLLOW: WalkFlags = WalkFlags::FOLLOW_LAST;
const NO_FOLLOW: WalkFlags = WalkFlags::empty();

/// Data.
impl Filesystem {
    /// The whole content of a file.
    ///
    /// # Errors
    /// `EISDIR`, `EACCES`, `EUCLEAN`.
    pub fn read(&self, path: impl ImagePath) -> Result<Vec<u8>> {
        let path = path.as_bytes();
        operation::run("read", None, path, || {
            let file = READ.open_path(&self.session, path)?;
            let mut data = Vec::new();
            loop {
                let at = data.len();
                // The size is not to be trusted with memory: it may be a hole of terabytes.
                let size = file.attr()?.size.saturating_sub(at as u64);
                let step = size.clamp(1, CHUNK_BYTES as u64) as usize;
                data.resize(at + step, 0);
                let n = file.open().read_at(at as u64, &mut data[at..])?;
                data.truncate(at + n);
                if n == 0 {
                    return Ok(data);
                }
            }
        })
    }

    /// Makes the file with this content, replacing what it held.
    ///
    /// # Errors
    /// `EISDIR`, `EACCES`.
    pub fn write(&self, path: impl ImagePath, data: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_bytes();
        operation::run("write", None, path, || {
            let file = CREATE.open_path(&self.session, path)?;
            file.write_all_inner(data.as_ref(), 0)
        })
    }

    /// Copies content and permission bits of a file and gives the number of bytes; holes stay holes
    /// where whole chunks are zero.
    ///
    /// # Errors
    /// `EISDIR`, `EACCES`. `EINVAL`: both paths are of one file.
    pub fn copy(&self, from: impl ImagePath, to: impl ImagePath) -> Result<u64> {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        operation::run("copy", None, from, || self.copy_file(from, to))
    }

    /// Moves the data of a file to blocks that lie together, if that gives it fewer pieces, and says how many it had and has. Size, times and
    /// handles stay; others wait that read or write the file meanwhile.
    ///
    /// # Crash
    /// The file has all of its data, at the old place or the new one.
    ///
    /// # Errors
    /// `EINVAL`, `EISDIR`: not a regular file; a symbolic link is not followed. `EOPNOTSUPP`: it has no extents, or its data is in its inode or
    /// journaled. `EFBIG`, `ENOSPC`: a file in too many pieces for one transaction. `EPERM`: not the owner. `EROFS`.
    ///
    /// # Examples
    /// ```no_run
    /// # let fs = uext4::Filesystem::open("disk.img", &uext4::ImageOptions::read_write())?;
    /// let moved = fs.defragment("/var/log/journal")?;
    /// println!("{} pieces, before {}", moved.after, moved.before);
    /// # Ok::<(), uext4::Error>(())
    /// ```
    pub fn defragment(&self, path: impl ImagePath) -> Result<Fragments> {
        let path = path.as_bytes();
        operation::run("defragment", None, path, || {
            let inode = self.session.resolve(path, NO_FOLLOW)?;
            let (fs, attr) = (self.session.mount.fs(), self.vfs().getattr(&inode)?);
            if !is_owner_or_capable(&attr, self.caller()) {
                return Err(Errno::EPERM.into());
            }
            let found = fs.volume.report(fs.files.fragments(&inode))?;
            if found.before <= found.after {
                return Ok(found);
            }
            let root = fs.volume.report(fs.namei.root())?;
            let spare = fs.namei.tmpfile(&Caller::root(), root, 0o600);
            let spare = fs.volume.report(spare)?;
            fs.volume.report(fs.files.defragment(&inode, &spare))
        })
    }

    fn copy_file(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let source = READ.open_path(&self.session, from)?;
        let attr = source.attr()?;
        if attr.kind == FileKind::Directory {
            return Err(Errno::EISDIR.into());
        }
        match self.session.resolve(to, FOLLOW) {
            Ok(there) if u64::from(there.ino.0) == attr.ino => return Err(Errno::EINVAL.into()),
            _ => {}
        }
        let target = CREATE.mode(attr.mode);
        let target = target.open_path(&self.session, to)?;
        let mut buf = vec![0; CHUNK_BYTES];
        let mut at = 0;
        loop {
            let n = source.open().read_at(at, &mut buf)?;
            if n == 0 {
                break;
            }
            if buf[..n].iter().any(|b| *b != 0) {
                target.write_all_inner(&buf[..n], at)?;
            }
            at += n as u64;
        }
        target.set_len_inner(at)?;
        Ok(at)
    }

    /// Cuts or grows a file to `len` bytes (truncate(2)).
    ///
    /// # Errors
    /// `EISDIR`, `EFBIG`, `EPERM`, `EACCES`.
    pub fn truncate(&self, path: impl ImagePath, len: u64) -> Result<()> {
        let path = path.as_bytes();
        operation::run("truncate", None, path, || {
            let file = OpenOptions::new().write(true);
            file.open_path(&self.session, path)?.set_len_inner(len)
        })
    }
}

/// Names.
impl Filesystem {
    /// Makes a directory of mode 0755.
    ///
    /// # Errors
    /// `EEXIST`, `EMLINK`.
    pub fn create_dir(&self, path: impl ImagePath) -> Result<()> {
        self.make("create_dir", path, 0o755, NewKind::Directory)
    }

    /// Makes a directory of mode 0755 and those above it, as far as there are none.
    ///
    /// # Errors
    /// `ENOTDIR`: a component is something else.
    pub fn create_dir_all(&self, path: impl ImagePath) -> Result<()> {
        let path = path.as_bytes();
        operation::run("create_dir_all", None, path, || self.make_dirs(path))
    }

    fn make_dirs(&self, path: &[u8]) -> Result<()> {
        let mut so_far = Vec::new();
        for part in path.split(|b| *b == b'/') {
            if part.is_empty() || part == b"." {
                continue;
            }
            so_far.push(b'/');
            so_far.extend(part);
            let parent = self.session.resolve_parent(&so_far, NO_FOLLOW)?;
            match self.make_in(&parent, 0o755, NewKind::Directory) {
                Ok(()) => {}
                Err(e) if e == Errno::EEXIST => {
                    let node = self.session.resolve(&so_far, FOLLOW)?;
                    if self.vfs().getattr(&node)?.kind != FileKind::Directory {
                        return Err(Errno::ENOTDIR.into());
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Makes a device, a pipe or anything else (mknod(2)).
    ///
    /// # Errors
    /// `EEXIST`. `EPERM`: a device, without the capability `MKNOD`.
    pub fn mknod(&self, path: impl ImagePath, mode: u16, kind: NewKind<'_>) -> Result<()> {
        self.make("mknod", path, mode, kind)
    }

    /// Makes `link`, a symbolic link that holds `target`.
    ///
    /// # Errors
    /// `EEXIST`. `ENAMETOOLONG`: a target above 4095 bytes.
    pub fn symlink(&self, target: impl ImagePath, link: impl ImagePath) -> Result<()> {
        let target = NewKind::Symlink(target.as_bytes());
        self.make("symlink", link, 0o777, target)
    }

    /// Gives the file at `original` the name `link` too; a symbolic link is not followed.
    ///
    /// # Errors
    /// `EEXIST`. `EPERM`: a directory. `EMLINK`.
    pub fn hard_link(&self, original: impl ImagePath, link: impl ImagePath) -> Result<()> {
        self.on("hard_link", original, NO_FOLLOW, |caller, node| {
            let parent = self.session.resolve_parent(link.as_bytes(), NO_FOLLOW)?;
            self.vfs().link(caller, node, &parent.dir, &parent.name)
        })
    }

    /// What a symbolic link holds.
    ///
    /// # Errors
    /// `EINVAL`: not a symbolic link.
    pub fn read_link(&self, path: impl ImagePath) -> Result<Vec<u8>> {
        self.on("read_link", path, NO_FOLLOW, |caller, node| {
            self.vfs().readlink(caller, node)
        })
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// `EISDIR`, `EPERM`.
    pub fn remove_file(&self, path: impl ImagePath) -> Result<()> {
        self.on_name("remove_file", path, |caller, parent| {
            if parent.must_be_dir {
                return Err(Errno::ENOTDIR.into());
            }
            self.vfs().unlink(caller, &parent.dir, &parent.name)
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOTEMPTY`, `ENOTDIR`, `EPERM`.
    pub fn remove_dir(&self, path: impl ImagePath) -> Result<()> {
        self.on_name("remove_dir", path, |caller, parent| {
            self.vfs().rmdir(caller, &parent.dir, &parent.name)
        })
    }

    /// Removes a directory and all in it; of a symbolic link, the link.
    ///
    /// # Errors
    /// `ENOTEMPTY`: another thread made files there meanwhile. `EPERM`.
    pub fn remove_dir_all(&self, path: impl ImagePath) -> Result<()> {
        self.on_name("remove_dir_all", path, |caller, parent| {
            let (dir, name) = (&parent.dir, &*parent.name);
            let node = self.vfs().lookup(caller, dir, name)?;
            let is_dir = self.vfs().getattr(&node)?.kind == FileKind::Directory;
            if parent.must_be_dir && !is_dir {
                return Err(Errno::ENOTDIR.into());
            }
            if !is_dir {
                return self.vfs().unlink(caller, dir, name);
            }
            self.empty_dir(node)?;
            self.vfs().rmdir(caller, dir, name)
        })
    }

    /// Removes all that is in a directory; on a stack of its own, as trees may be deep.
    fn empty_dir(&self, top: InodeRef) -> Result<()> {
        let (vfs, caller) = (self.vfs(), &self.session.caller);
        let dirs = self.remove_files(&top)?;
        // In a damaged image a directory may be below itself.
        let mut seen = HashSet::from([top.ino]);
        let mut stack = vec![(top, dirs)];
        while let Some((dir, pending)) = stack.last_mut() {
            if let Some(name) = pending.last() {
                let child = vfs.lookup(caller, dir, name)?;
                if !seen.insert(child.ino) {
                    let what = format!("directory {} has two names", child.ino);
                    return Err(Error::new(Errno::EUCLEAN).context(what));
                }
                let dirs = self.remove_files(&child)?;
                stack.push((child, dirs));
                continue;
            }
            stack.pop();
            if let Some((dir, pending)) = stack.last_mut()
                && let Some(name) = pending.pop()
            {
                vfs.rmdir(caller, dir, &name)?;
            }
        }
        Ok(())
    }

    /// Removes what is not a directory, and gives the names of the directories.
    fn remove_files(&self, dir: &InodeRef) -> Result<Vec<Vec<u8>>> {
        let (vfs, caller) = (self.vfs(), &self.session.caller);
        let mut entries = ReadDir::new(self.session.clone(), dir.clone())?;
        let entries: Vec<_> = iter::from_fn(|| entries.next_inner()).collect::<Result<_>>()?;
        let mut dirs = Vec::new();
        for entry in entries {
            let kind = match entry.kind() {
                Some(kind) => kind,
                None => vfs.getattr(&vfs.lookup(caller, dir, entry.name())?)?.kind,
            };
            if kind == FileKind::Directory {
                dirs.push(entry.into_name());
            } else {
                vfs.unlink(caller, dir, entry.name())?;
            }
        }
        Ok(dirs)
    }

    /// Moves a name, replacing what has the new one.
    ///
    /// # Errors
    /// `ENOTEMPTY`, `EISDIR`, `ENOTDIR`, `EINVAL`: a directory into itself. `EPERM`.
    pub fn rename(&self, from: impl ImagePath, to: impl ImagePath) -> Result<()> {
        self.rename_with(from, to, RenameFlags::empty())
    }

    /// Moves a name as `flags` say: exchange, do not replace, leave a whiteout.
    ///
    /// # Errors
    /// As [`Filesystem::rename`]; `EEXIST`: `NOREPLACE` and the new name exists.
    pub fn rename_with(
        &self,
        from: impl ImagePath,
        to: impl ImagePath,
        flags: RenameFlags,
    ) -> Result<()> {
        self.on_name("rename", from, |caller, old| {
            let new = self.session.resolve_parent(to.as_bytes(), NO_FOLLOW)?;
            if old.must_be_dir || new.must_be_dir {
                let node = self.vfs().lookup(caller, &old.dir, &old.name)?;
                if self.vfs().getattr(&node)?.kind != FileKind::Directory {
                    return Err(Errno::ENOTDIR.into());
                }
            }
            self.vfs()
                .rename(caller, &old.dir, &old.name, &new.dir, &new.name, flags)
        })
    }

    /// The entries of a directory, without `.` and `..`.
    ///
    /// # Errors
    /// `ENOTDIR`, `EACCES`.
    pub fn read_dir(&self, path: impl ImagePath) -> Result<ReadDir> {
        let path = path.as_bytes();
        operation::run("read_dir", None, path, || {
            let node = self.session.resolve(path, FOLLOW)?;
            Dir::of(self.session.clone(), node)?.entries()
        })
    }

    fn make(
        &self,
        operation: &'static str,
        path: impl ImagePath,
        mode: u16,
        kind: NewKind<'_>,
    ) -> Result<()> {
        self.on_name(operation, path, |_, parent| {
            self.make_in(parent, mode, kind)
        })
    }

    fn make_in(&self, parent: &Parent<'_, InodeRef>, mode: u16, kind: NewKind<'_>) -> Result<()> {
        if &*parent.name == b"." || &*parent.name == b".." {
            return Err(Errno::EEXIST.into());
        }
        if parent.must_be_dir && kind != NewKind::Directory {
            return Err(Errno::ENOENT.into());
        }
        let new = NewNode { mode, kind };
        self.vfs()
            .create(&self.session.caller, &parent.dir, &parent.name, &new)
            .map(drop)
    }
}

/// Attributes.
impl Filesystem {
    /// The attributes; a last symbolic link is followed.
    ///
    /// # Errors
    /// Those of a path.
    pub fn metadata(&self, path: impl ImagePath) -> Result<Metadata> {
        self.on("metadata", path, FOLLOW, |_, node| self.vfs().getattr(node))
            .map(Metadata::new)
    }

    /// The attributes, of a symbolic link its own.
    ///
    /// # Errors
    /// Those of a path.
    pub fn symlink_metadata(&self, path: impl ImagePath) -> Result<Metadata> {
        self.on("symlink_metadata", path, NO_FOLLOW, |_, node| {
            self.vfs().getattr(node)
        })
        .map(Metadata::new)
    }

    /// Whether the path leads to something.
    ///
    /// # Errors
    /// Those of a path, but for `ENOENT` and `ENOTDIR`.
    pub fn exists(&self, path: impl ImagePath) -> Result<bool> {
        let path = path.as_bytes();
        operation::run("exists", None, path, || {
            match self.session.resolve(path, FOLLOW) {
                Ok(_) => Ok(true),
                Err(e) if e == Errno::ENOENT || e == Errno::ENOTDIR => Ok(false),
                Err(e) => Err(e),
            }
        })
    }

    /// Sets the 12 permission bits.
    ///
    /// # Errors
    /// `EPERM`: not the owner.
    pub fn set_permissions(&self, path: impl ImagePath, mode: u16) -> Result<()> {
        let change = SetAttr {
            mode: Some(mode & 0o7777),
            ..SetAttr::default()
        };
        self.change("set_permissions", path, FOLLOW, &change)
    }

    /// Sets owner and group, where given; of a symbolic link its own.
    ///
    /// # Errors
    /// `EPERM`: not allowed to give files away.
    pub fn chown(&self, path: impl ImagePath, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let change = SetAttr {
            uid,
            gid,
            ..SetAttr::default()
        };
        self.change("chown", path, NO_FOLLOW, &change)
    }

    /// Sets the times of last access and last change, where given; a last symbolic link is followed.
    ///
    /// # Errors
    /// `EPERM`: not the owner.
    pub fn set_times(
        &self,
        path: impl ImagePath,
        atime: Option<TimeSet>,
        mtime: Option<TimeSet>,
    ) -> Result<()> {
        let change = SetAttr {
            atime,
            mtime,
            ..SetAttr::default()
        };
        self.change("set_times", path, FOLLOW, &change)
    }

    /// Checks that the caller has every permission in `want` (access(2)).
    ///
    /// # Errors
    /// `EACCES`: not in all of them. `EROFS`: [`Access::WRITE`], and the mount is read-only.
    pub fn access(&self, path: impl ImagePath, want: Access) -> Result<()> {
        self.on("access", path, FOLLOW, |caller, node| {
            self.vfs().access(caller, node, want)
        })
    }

    /// The value of an extended attribute, `name` with its namespace; of a symbolic link its own, as
    /// for all of these.
    ///
    /// # Errors
    /// `ENODATA`: no such attribute. `EOPNOTSUPP`: no such namespace.
    pub fn get_xattr(&self, path: impl ImagePath, name: impl ImagePath) -> Result<Vec<u8>> {
        self.on("get_xattr", path, NO_FOLLOW, |caller, node| {
            self.vfs().getxattr(caller, node, name.as_bytes())
        })
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA`: as the flags say. `ENOSPC`, `E2BIG`: too large. `EOPNOTSUPP`, `EPERM`.
    pub fn set_xattr(
        &self,
        path: impl ImagePath,
        name: impl ImagePath,
        value: impl AsRef<[u8]>,
        flags: XattrFlags,
    ) -> Result<()> {
        let (name, value) = (name.as_bytes(), value.as_ref());
        self.on("set_xattr", path, NO_FOLLOW, |caller, node| {
            self.vfs().setxattr(caller, node, name, value, flags)
        })
    }

    /// The names of all extended attributes that the caller may see.
    ///
    /// # Errors
    /// `EUCLEAN`: damage.
    pub fn list_xattrs(&self, path: impl ImagePath) -> Result<Vec<Vec<u8>>> {
        self.on("list_xattrs", path, NO_FOLLOW, |caller, node| {
            self.vfs().listxattr(caller, node)
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`: no such attribute.
    pub fn remove_xattr(&self, path: impl ImagePath, name: impl ImagePath) -> Result<()> {
        self.on("remove_xattr", path, NO_FOLLOW, |caller, node| {
            self.vfs().removexattr(caller, node, name.as_bytes())
        })
    }

    /// The flags that chattr(1) sets, as `FS_IOC_GETFLAGS` gives them; a symbolic link is not followed, here and below.
    ///
    /// # Errors
    /// Those of a path.
    pub fn flags(&self, path: impl ImagePath) -> Result<InodeFlags> {
        let files = &self.session.mount.files;
        self.on("flags", path, NO_FOLLOW, |_, node| Ok(files.flags(node)))
    }

    /// Sets them; those that cannot be set stay.
    ///
    /// # Errors
    /// As [`File::set_flags`](crate::File::set_flags).
    pub fn set_flags(&self, path: impl ImagePath, flags: InodeFlags) -> Result<()> {
        let fs = &self.session.mount;
        self.on("set_flags", path, NO_FOLLOW, |caller, node| {
            fs.volume.report(fs.files.set_flags(caller, node, flags))
        })
    }

    /// Gives a file fs-verity: it cannot be written from then on, and each read is compared with hashes of its data. A symbolic link is not followed.
    ///
    /// # Crash
    /// The file has it or not.
    ///
    /// # Errors
    /// `EACCES`: the caller may not write the file. `EEXIST`: it has fs-verity. `EPERM`: immutable or append-only. `EOPNOTSUPP`: the image does not have
    /// the feature `verity`, or the file has no extents or journals its data. `EINVAL`: a value of `verity` out of range. `EISDIR`, `ENOSPC`, `EROFS`.
    ///
    /// # Examples
    /// ```no_run
    /// # let fs = uext4::Filesystem::open("disk.img", &uext4::ImageOptions::read_write())?;
    /// let made = fs.enable_fs_verity("/usr/bin/app", &uext4::FsVerity::default())?;
    /// println!("{:x?}", made.digest().as_bytes());
    /// # Ok::<(), uext4::Error>(())
    /// ```
    pub fn enable_fs_verity(
        &self,
        path: impl ImagePath,
        verity: &FsVerity,
    ) -> Result<FsVerityDescriptor> {
        let fs = &self.session.mount;
        self.on("enable_fs_verity", path, NO_FOLLOW, |caller, node| {
            fs.volume
                .report(fs.files.enable_verity(caller, node, verity))
        })
    }

    /// What fs-verity keeps of a file, with the digest by which others know it; `None` if the file does not have it.
    ///
    /// # Errors
    /// Those of a path. `EUCLEAN`: the file is marked as one with fs-verity, and its descriptor is missing or damaged.
    pub fn fs_verity(&self, path: impl ImagePath) -> Result<Option<FsVerityDescriptor>> {
        let fs = &self.session.mount;
        self.on("fs_verity", path, NO_FOLLOW, |_, node| {
            fs.volume.report(fs.files.verity(node))
        })
    }

    /// The project, 0 where the image has none.
    ///
    /// # Errors
    /// Those of a path.
    pub fn project(&self, path: impl ImagePath) -> Result<u32> {
        let files = &self.session.mount.files;
        self.on(
            "project",
            path,
            NO_FOLLOW,
            |_, node| Ok(files.project(node)),
        )
    }

    /// Sets the project.
    ///
    /// # Errors
    /// As [`File::set_project`](crate::File::set_project).
    pub fn set_project(&self, path: impl ImagePath, project: u32) -> Result<()> {
        let (fs, project) = (&self.session.mount, Some(project));
        self.on("set_project", path, NO_FOLLOW, |caller, node| {
            fs.volume
                .report(fs.files.set_flags_and_project(caller, node, None, project))
        })
    }

    pub(crate) fn change(
        &self,
        operation: &'static str,
        path: impl ImagePath,
        flags: WalkFlags,
        change: &SetAttr,
    ) -> Result<()> {
        self.on(operation, path, flags, |caller, node| {
            self.vfs().setattr(caller, node, change).map(drop)
        })
    }

    /// Runs an operation on the inode that a path leads to.
    #[inline]
    pub(crate) fn on<T>(
        &self,
        operation: &'static str,
        path: impl ImagePath,
        flags: WalkFlags,
        work: impl FnOnce(&Caller, &InodeRef) -> Result<T>,
    ) -> Result<T> {
        let (session, path) = (&self.session, path.as_bytes());
        operation::run(operation, None, path, || {
            work(&session.caller, &session.resolve(path, flags)?)
        })
    }

    /// Runs an operation on the last name of a path.
    #[inline]
    fn on_name<T>(
        &self,
        operation: &'static str,
        path: impl ImagePath,
        work: impl FnOnce(&Caller, &Parent<'_, InodeRef>) -> Result<T>,
    ) -> Result<T> {
        let (session, path) = (&self.session, path.as_bytes());
        operation::run(operation, None, path, || {
            work(&session.caller, &session.resolve_parent(path, NO_FOLLOW)?)
        })
    }
}

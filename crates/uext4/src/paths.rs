//! Operations by path, shaped like those of `std::fs`.
//!
//! All take the errors of a path besides their own: `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG` and
//! `EACCES`; and those that change something `EROFS`, `ENOSPC` and `EIO`.

use crate::dir::Dir;
use crate::filesystem::Filesystem;
use crate::image_path::ImagePath;
use crate::metadata::Metadata;
use crate::open_options::OpenOptions;
use crate::read_dir::ReadDir;
use std::collections::HashSet;
use uext4_ext4::InodeRef;
use uext4_ondisk::InodeFlags;
use uext4_vfs::{
    Access, Errno, Error, FileKind, FileSystem, NewKind, NewNode, Parent, RenameFlags, Result,
    SetAttr, TimeSet, WalkFlags, XattrFlags,
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
        let file = self.open_file(path)?;
        let mut data = Vec::new();
        loop {
            let at = data.len();
            // The size is not to be trusted with memory: it may be a hole of terabytes.
            let size = file.metadata()?.len().saturating_sub(at as u64);
            let step = size.clamp(1, CHUNK_BYTES as u64) as usize;
            data.resize(at + step, 0);
            let n = file.read_at(&mut data[at..], at as u64)?;
            data.truncate(at + n);
            if n == 0 {
                return Ok(data);
            }
        }
    }

    /// Makes the file with this content, replacing what it held.
    ///
    /// # Errors
    /// `EISDIR`, `EACCES`.
    pub fn write(&self, path: impl ImagePath, data: impl AsRef<[u8]>) -> Result<()> {
        self.create_file(path)?.write_all_at(data.as_ref(), 0)
    }

    /// Copies content and permission bits of a file and gives the number of bytes; holes stay holes
    /// where whole chunks are zero.
    ///
    /// # Errors
    /// `EISDIR`, `EACCES`. `EINVAL`: both paths are of one file.
    pub fn copy(&self, from: impl ImagePath, to: impl ImagePath) -> Result<u64> {
        let source = self.open_file(from)?;
        let attr = source.metadata()?;
        if attr.is_dir() {
            return Err(Errno::EISDIR.into());
        }
        match self.metadata(to.as_bytes()) {
            Ok(there) if there.ino() == attr.ino() => return Err(Errno::EINVAL.into()),
            _ => {}
        }
        let target = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(attr.permissions())
            .open(self, to)?;
        let mut buf = vec![0; CHUNK_BYTES];
        let mut at = 0;
        loop {
            let n = source.read_at(&mut buf, at)?;
            if n == 0 {
                break;
            }
            if buf[..n].iter().any(|b| *b != 0) {
                target.write_all_at(&buf[..n], at)?;
            }
            at += n as u64;
        }
        target.set_len(at)?;
        Ok(at)
    }

    /// Cuts or grows a file to `len` bytes (truncate(2)).
    ///
    /// # Errors
    /// `EISDIR`, `EFBIG`, `EPERM`, `EACCES`.
    pub fn truncate(&self, path: impl ImagePath, len: u64) -> Result<()> {
        OpenOptions::new()
            .write(true)
            .open(self, path)?
            .set_len(len)
    }
}

/// Names.
impl Filesystem {
    /// Makes a directory of mode 0755.
    ///
    /// # Errors
    /// `EEXIST`, `EMLINK`.
    pub fn create_dir(&self, path: impl ImagePath) -> Result<()> {
        self.make(path.as_bytes(), 0o755, NewKind::Directory)
    }

    /// Makes a directory of mode 0755 and those above it, as far as there are none.
    ///
    /// # Errors
    /// `ENOTDIR`: a component is something else.
    pub fn create_dir_all(&self, path: impl ImagePath) -> Result<()> {
        let mut so_far = Vec::new();
        for part in path.as_bytes().split(|b| *b == b'/') {
            if part.is_empty() || part == b"." {
                continue;
            }
            so_far.push(b'/');
            so_far.extend(part);
            match self.create_dir(&so_far) {
                Ok(()) => {}
                Err(e) if e == Errno::EEXIST => {
                    if !self.metadata(&so_far)?.is_dir() {
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
        self.make(path.as_bytes(), mode, kind)
    }

    /// Makes `link`, a symbolic link that holds `target`.
    ///
    /// # Errors
    /// `EEXIST`. `ENAMETOOLONG`: a target above 4095 bytes.
    pub fn symlink(&self, target: impl ImagePath, link: impl ImagePath) -> Result<()> {
        let target = target.as_bytes();
        self.make(link.as_bytes(), 0o777, NewKind::Symlink(target))
    }

    /// Gives the file at `original` the name `link` too; a symbolic link is not followed.
    ///
    /// # Errors
    /// `EEXIST`. `EPERM`: a directory. `EMLINK`.
    pub fn hard_link(&self, original: impl ImagePath, link: impl ImagePath) -> Result<()> {
        let node = self.session.resolve(original.as_bytes(), NO_FOLLOW)?;
        let parent = self.parent(link.as_bytes())?;
        self.vfs()
            .link(&self.session.caller, &node, &parent.dir, &parent.name)
    }

    /// What a symbolic link holds.
    ///
    /// # Errors
    /// `EINVAL`: not a symbolic link.
    pub fn read_link(&self, path: impl ImagePath) -> Result<Vec<u8>> {
        let node = self.session.resolve(path.as_bytes(), NO_FOLLOW)?;
        self.vfs().readlink(&self.session.caller, &node)
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// `EISDIR`, `EPERM`.
    pub fn remove_file(&self, path: impl ImagePath) -> Result<()> {
        let parent = self.parent(path.as_bytes())?;
        if parent.must_be_dir {
            return Err(Errno::ENOTDIR.into());
        }
        self.vfs()
            .unlink(&self.session.caller, &parent.dir, &parent.name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOTEMPTY`, `ENOTDIR`, `EPERM`.
    pub fn remove_dir(&self, path: impl ImagePath) -> Result<()> {
        let parent = self.parent(path.as_bytes())?;
        self.vfs()
            .rmdir(&self.session.caller, &parent.dir, &parent.name)
    }

    /// Removes a directory and all in it; of a symbolic link, the link.
    ///
    /// # Errors
    /// `ENOTEMPTY`: another thread made files there meanwhile. `EPERM`.
    pub fn remove_dir_all(&self, path: impl ImagePath) -> Result<()> {
        let parent = self.parent(path.as_bytes())?;
        let node = self
            .vfs()
            .lookup(&self.session.caller, &parent.dir, &parent.name)?;
        let is_dir = self.vfs().getattr(&node)?.kind == FileKind::Directory;
        if parent.must_be_dir && !is_dir {
            return Err(Errno::ENOTDIR.into());
        }
        if !is_dir {
            return self
                .vfs()
                .unlink(&self.session.caller, &parent.dir, &parent.name);
        }
        self.empty_dir(node)?;
        self.vfs()
            .rmdir(&self.session.caller, &parent.dir, &parent.name)
    }

    /// Removes all that is in a directory; on a stack of its own, as trees may be deep.
    fn empty_dir(&self, node: InodeRef) -> Result<()> {
        let top = Dir::new(self.session.clone(), node);
        let dirs = remove_files(&top)?;
        // In a damaged image a directory may be below itself.
        let mut seen = HashSet::from([top.inode().ino]);
        let mut stack = vec![(top, dirs)];
        while let Some((dir, pending)) = stack.last_mut() {
            if let Some(name) = pending.last() {
                let child = dir.open_dir(name)?;
                if !seen.insert(child.inode().ino) {
                    let what = format!("directory {} has two names", child.inode().ino);
                    return Err(Error::new(Errno::EUCLEAN).context(what));
                }
                let dirs = remove_files(&child)?;
                stack.push((child, dirs));
                continue;
            }
            stack.pop();
            if let Some((dir, pending)) = stack.last_mut()
                && let Some(name) = pending.pop()
            {
                dir.rmdir(name)?;
            }
        }
        Ok(())
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
        let old = self.parent(from.as_bytes())?;
        let new = self.parent(to.as_bytes())?;
        if old.must_be_dir || new.must_be_dir {
            let node = self
                .vfs()
                .lookup(&self.session.caller, &old.dir, &old.name)?;
            if self.vfs().getattr(&node)?.kind != FileKind::Directory {
                return Err(Errno::ENOTDIR.into());
            }
        }
        self.vfs().rename(
            &self.session.caller,
            &old.dir,
            &old.name,
            &new.dir,
            &new.name,
            flags,
        )
    }

    /// The entries of a directory, without `.` and `..`.
    ///
    /// # Errors
    /// `ENOTDIR`, `EACCES`.
    pub fn read_dir(&self, path: impl ImagePath) -> Result<ReadDir> {
        self.open_dir(path)?.read_dir()
    }

    fn parent<'p>(&self, path: &'p [u8]) -> Result<Parent<'p, InodeRef>> {
        self.session.resolve_parent(path, NO_FOLLOW)
    }

    fn make(&self, path: &[u8], mode: u16, kind: NewKind<'_>) -> Result<()> {
        let parent = self.parent(path)?;
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

/// Removes what is not a directory, and gives the names of the directories.
fn remove_files(dir: &Dir) -> Result<Vec<Vec<u8>>> {
    let entries: Vec<_> = dir.read_dir()?.collect::<Result<_>>()?;
    let mut dirs = Vec::new();
    for entry in entries {
        let kind = match entry.kind() {
            Some(kind) => kind,
            None => dir.metadata(entry.name())?.file_kind(),
        };
        if kind == FileKind::Directory {
            dirs.push(entry.name().to_vec());
        } else {
            dir.unlink(entry.name())?;
        }
    }
    Ok(dirs)
}

/// Attributes.
impl Filesystem {
    /// The attributes; a last symbolic link is followed.
    ///
    /// # Errors
    /// Those of a path.
    pub fn metadata(&self, path: impl ImagePath) -> Result<Metadata> {
        let node = self.session.resolve(path.as_bytes(), FOLLOW)?;
        Ok(Metadata::new(self.vfs().getattr(&node)?))
    }

    /// The attributes, of a symbolic link its own.
    ///
    /// # Errors
    /// Those of a path.
    pub fn symlink_metadata(&self, path: impl ImagePath) -> Result<Metadata> {
        let node = self.session.resolve(path.as_bytes(), NO_FOLLOW)?;
        Ok(Metadata::new(self.vfs().getattr(&node)?))
    }

    /// Whether the path leads to something.
    ///
    /// # Errors
    /// Those of a path, but for `ENOENT` and `ENOTDIR`.
    pub fn exists(&self, path: impl ImagePath) -> Result<bool> {
        match self.session.resolve(path.as_bytes(), FOLLOW) {
            Ok(_) => Ok(true),
            Err(e) if e == Errno::ENOENT || e == Errno::ENOTDIR => Ok(false),
            Err(e) => Err(e),
        }
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
        self.change(path.as_bytes(), FOLLOW, &change)
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
        self.change(path.as_bytes(), NO_FOLLOW, &change)
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
        self.change(path.as_bytes(), FOLLOW, &change)
    }

    /// Checks that the caller may access the file in all the ways of `want` (access(2)).
    ///
    /// # Errors
    /// `EACCES`: not in all of them. `EROFS`: [`Access::WRITE`], and the mount is read-only.
    pub fn access(&self, path: impl ImagePath, want: Access) -> Result<()> {
        let node = self.session.resolve(path.as_bytes(), FOLLOW)?;
        self.vfs().access(&self.session.caller, &node, want)
    }

    /// The value of an extended attribute, `name` with its namespace; of a symbolic link its own, as
    /// for all of these.
    ///
    /// # Errors
    /// `ENODATA`: no such attribute. `EOPNOTSUPP`: no such namespace.
    pub fn get_xattr(&self, path: impl ImagePath, name: impl ImagePath) -> Result<Vec<u8>> {
        let node = self.session.resolve(path.as_bytes(), NO_FOLLOW)?;
        self.vfs()
            .getxattr(&self.session.caller, &node, name.as_bytes())
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
        let node = self.session.resolve(path.as_bytes(), NO_FOLLOW)?;
        self.vfs().setxattr(
            &self.session.caller,
            &node,
            name.as_bytes(),
            value.as_ref(),
            flags,
        )
    }

    /// The names of all extended attributes that the caller may see.
    ///
    /// # Errors
    /// `EUCLEAN`: damage.
    pub fn list_xattrs(&self, path: impl ImagePath) -> Result<Vec<Vec<u8>>> {
        let node = self.session.resolve(path.as_bytes(), NO_FOLLOW)?;
        self.vfs().listxattr(&self.session.caller, &node)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`: no such attribute.
    pub fn remove_xattr(&self, path: impl ImagePath, name: impl ImagePath) -> Result<()> {
        let node = self.session.resolve(path.as_bytes(), NO_FOLLOW)?;
        self.vfs()
            .removexattr(&self.session.caller, &node, name.as_bytes())
    }

    /// The flags that chattr(1) sets, as `FS_IOC_GETFLAGS` gives them; a symbolic link is not followed, here and below.
    ///
    /// # Errors
    /// Those of a path.
    pub fn flags(&self, path: impl ImagePath) -> Result<InodeFlags> {
        let node = self.session.resolve(path.as_bytes(), NO_FOLLOW)?;
        Ok(self.session.mount.files.flags(&node))
    }

    /// Sets them; those that cannot be set stay.
    ///
    /// # Errors
    /// As [`File::set_flags`](crate::File::set_flags).
    pub fn set_flags(&self, path: impl ImagePath, flags: InodeFlags) -> Result<()> {
        let node = self.session.resolve(path.as_bytes(), NO_FOLLOW)?;
        let fs = &self.session.mount;
        fs.volume
            .report(fs.files.set_flags(&self.session.caller, &node, flags))
    }

    /// The project, 0 where the image has none.
    ///
    /// # Errors
    /// Those of a path.
    pub fn project(&self, path: impl ImagePath) -> Result<u32> {
        let node = self.session.resolve(path.as_bytes(), NO_FOLLOW)?;
        Ok(self.session.mount.files.project(&node))
    }

    /// Sets the project.
    ///
    /// # Errors
    /// As [`File::set_project`](crate::File::set_project).
    pub fn set_project(&self, path: impl ImagePath, project: u32) -> Result<()> {
        let node = self.session.resolve(path.as_bytes(), NO_FOLLOW)?;
        let fs = &self.session.mount;
        fs.volume.report(fs.files.set_flags_and_project(
            &self.session.caller,
            &node,
            None,
            Some(project),
        ))
    }

    pub(crate) fn change(&self, path: &[u8], flags: WalkFlags, change: &SetAttr) -> Result<()> {
        let node = self.session.resolve(path, flags)?;
        self.vfs()
            .setattr(&self.session.caller, &node, change)
            .map(drop)
    }
}

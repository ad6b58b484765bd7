//! Flags of a file as chattr(1) sets them, and its project: what the ioctls `FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS`,
//! `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR` do.
//!
//! # Locking
//! The inode's `ilock`, alone; the flags are changed in one handle.

use crate::clock::now;
use crate::file::FileIo;
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use crate::quota::OwnerIds;
use uext4_ondisk::EXTRA_ISIZE_KNOWN;
use uext4_vfs::errno::Error;

/// What only a privileged caller may change.
pub(crate) const FIXING: InodeFlags = InodeFlags::IMMUTABLE.union(InodeFlags::APPEND);

/// Flags of files whose data cannot be changed.
pub(crate) const FIXED_DATA: InodeFlags = InodeFlags::IMMUTABLE.union(InodeFlags::VERITY);

/// What means something for directories only.
pub(crate) const OF_DIRECTORIES: InodeFlags = InodeFlags::DIRSYNC
    .union(InodeFlags::TOPDIR)
    .union(InodeFlags::CASEFOLD)
    .union(InodeFlags::PROJINHERIT);

/// What would change how data is kept, which is not done here.
const NOT_CHANGED: InodeFlags = InodeFlags::EXTENTS;

/// Ways to keep data that cannot be mapped from the device, so that they exclude [`InodeFlags::DAX`]. The flag itself is
/// kept for other systems, and changes nothing here.
const NOT_DIRECT: InodeFlags = InodeFlags::JOURNAL_DATA
    .union(InodeFlags::INLINE_DATA)
    .union(InodeFlags::ENCRYPT)
    .union(InodeFlags::VERITY);

/// Whether a file may go from one of these flags to the other.
fn are_compatible(file_type: FileType, before: InodeFlags, after: InodeFlags) -> bool {
    let inline_directory =
        file_type == FileType::Directory && before.contains(InodeFlags::INLINE_DATA);
    let excluded = |dax: InodeFlags, other: InodeFlags| {
        dax.contains(InodeFlags::DAX) && other.intersects(NOT_DIRECT)
    };
    inline_directory || !(excluded(after, before) || excluded(before, after))
}

impl FileIo {
    /// The flags of a file, as users see them (`FS_IOC_GETFLAGS`).
    pub fn flags(&self, inode: &InodeRef) -> InodeFlags {
        inode.flags() & InodeFlags::USER_VISIBLE
    }

    /// The project of a file (`FS_IOC_FSGETXATTR`); 0 without the feature `project`.
    pub fn project(&self, inode: &InodeRef) -> u32 {
        match self.has_projects() {
            true => inode.state().projid,
            false => 0,
        }
    }

    /// Sets the flags of a regular file or a directory (`FS_IOC_SETFLAGS`); those that users cannot set
    /// stay as they are.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Journal
    /// A handle of one credit.
    ///
    /// # Errors
    /// `EPERM`: not the owner; without the capability `LINUX_IMMUTABLE`, and immutable or append-only
    /// would change, or without `SYS_RESOURCE` data journaling; an immutable file, and anything else would change. `EOPNOTSUPP`: a flag that
    /// cannot be set, or only on a directory, or that would change how data is kept (extents), or direct access beside journaled data or data in the inode. `ENOTTY`: not a regular file or directory. `EROFS`.
    /// Of the flag to ignore case, `ENOTEMPTY`: a directory with entries; `EOPNOTSUPP`: a file, no feature `casefold`, or an encrypted
    /// directory; `ENOTDIR`: a damaged file that has it.
    pub fn set_flags(&self, caller: &Caller, inode: &InodeRef, flags: InodeFlags) -> Result<()> {
        self.set_flags_and_project(caller, inode, Some(flags), None)
    }

    /// As [`FileIo::set_flags`]; sets the flags and the project if they are given (`FS_IOC_FSSETXATTR`).
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Journal
    /// A handle of one credit.
    ///
    /// # Errors
    /// As [`FileIo::set_flags`]. `EINVAL`: all ones are not a project. `EOPNOTSUPP`: a project, but the file system does not
    /// have the feature. `EOVERFLOW`: the inode has no room for one.
    pub fn set_flags_and_project(
        &self,
        caller: &Caller,
        inode: &InodeRef,
        flags: Option<InodeFlags>,
        project: Option<u32>,
    ) -> Result<()> {
        let _change = self.volume.freeze.begin_change();
        let quotas = self.volume.quotas();
        let _limits = quotas.and_then(|q| q.begin(caller.has(Capabilities::SYS_RESOURCE)));
        self.volume.check_writable()?;
        let of_kind = match inode.file_type {
            FileType::Directory => InodeFlags::USER_VISIBLE,
            FileType::Regular => InodeFlags::USER_VISIBLE - OF_DIRECTORIES,
            _ => return Err(Error::new(Errno::ENOTTY).into()),
        };
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        if !permission::is_owner_or_capable(&self.attributes.attr(inode), caller) {
            return Err(Ext4Error::NotPermitted);
        }
        let before = inode.flags();
        let flags = flags.unwrap_or(before & InodeFlags::USER_VISIBLE);
        let project_before = self.project(inode);
        let project = project.unwrap_or(project_before);
        if (before ^ flags).intersects(FIXING) && !caller.has(Capabilities::LINUX_IMMUTABLE) {
            return Err(Ext4Error::NotPermitted);
        }
        if project == u32::MAX {
            return Err(Ext4Error::Invalid("all ones are not a project"));
        }
        if !of_kind.contains(flags) {
            return Err(Error::new(Errno::EOPNOTSUPP).into());
        }
        let settable = InodeFlags::USER_MODIFIABLE;
        let wanted = before & !settable | flags & settable;
        let changed = before ^ wanted;
        let stays_immutable = (before & wanted).contains(InodeFlags::IMMUTABLE);
        // As in the kernel, without projects there is none to protect.
        let moves = project != project_before;
        if stays_immutable && (!changed.is_empty() || moves && self.has_projects()) {
            return Err(Ext4Error::NotPermitted);
        }
        if changed.intersects(NOT_CHANGED) {
            let why = "a flag that would change how data is kept";
            return Err(Error::new(Errno::EOPNOTSUPP).context(why).into());
        }
        let is_journaling = changed.contains(InodeFlags::JOURNAL_DATA);
        if is_journaling && !caller.has(Capabilities::SYS_RESOURCE) {
            return Err(Ext4Error::NotPermitted);
        }
        if changed.contains(InodeFlags::CASEFOLD) {
            self.may_change_casefold(inode)?;
        }
        if !are_compatible(inode.file_type, before, wanted) {
            let why = "direct access to data that is in the journal or the inode";
            return Err(Error::new(Errno::EOPNOTSUPP).context(why).into());
        }
        if is_journaling && inode.file_type == FileType::Regular {
            self.settle_data(inode)?;
        }
        if moves {
            self.prepare_project(inode, project)?;
        }
        self.store_flags(inode, wanted, moves.then_some(project))
    }

    /// Stores flags, and the project if it changes.
    fn store_flags(&self, inode: &InodeRef, flags: InodeFlags, project: Option<u32>) -> Result<()> {
        let time = now();
        self.volume.with_handle(1, |handle| {
            self.table.update_inode(inode, handle, |disk| {
                disk.flags = flags;
                disk.projid = project.unwrap_or(disk.projid);
                disk.ctime = time;
                disk.version = disk.version.wrapping_add(1);
            })
        })?;
        // It may ignore case from now on.
        self.volume.names.forget_passage(inode);
        Ok(())
    }

    /// Refuses to change whether an inode ignores case, unless it is an empty directory.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock`.
    fn may_change_casefold(&self, inode: &InodeRef) -> Result<()> {
        let not_here = |why| Err(Error::new(Errno::EOPNOTSUPP).context(why).into());
        if !self.volume.sb.incompat.contains(Incompat::CASEFOLD) {
            return not_here("no directory ignores case, as the feature `casefold` is off");
        }
        if !inode.is_dir() {
            return Err(Ext4Error::NotDirectory);
        }
        if inode.flags().contains(InodeFlags::ENCRYPT) {
            return not_here("an encrypted directory that ignores case");
        }
        match self.directories.dir_is_empty(inode)? {
            true => Ok(()),
            false => Err(Ext4Error::NotEmpty),
        }
    }

    /// Whether files have projects.
    pub(crate) fn has_projects(&self) -> bool {
        self.volume.sb.ro_compat.contains(RoCompat::PROJECT)
    }

    /// Checks that an inode can get a project, whose limits allow what it has.
    fn prepare_project(&self, inode: &InodeRef, project: u32) -> Result<()> {
        if !self.has_projects() {
            let why = "files have no projects, as the feature `project` is off";
            return Err(Error::new(Errno::EOPNOTSUPP).context(why).into());
        }
        if inode.state().extra_isize < EXTRA_ISIZE_KNOWN {
            return Err(Error::new(Errno::EOVERFLOW)
                .context("the inode is too small")
                .into());
        }
        let to = {
            let disk = inode.state();
            OwnerIds::new(disk.uid, disk.gid, project)
        };
        self.owners.prepare_transfer(inode, to)
    }

    /// Whether a name in `dir` would bring a file of another project below a directory that hands its own down.
    pub(crate) fn crosses_project(&self, dir: &Inode, node: &Inode) -> bool {
        dir.flags().contains(InodeFlags::PROJINHERIT) && {
            // One at a time: they are of one rank.
            let of_dir = dir.state().projid;
            node.state().projid != of_dir
        }
    }

    /// The project of a file made in `dir`.
    pub(crate) fn inherited_project(&self, dir: &Inode) -> u32 {
        match self.has_projects() && dir.flags().contains(InodeFlags::PROJINHERIT) {
            true => dir.state().projid,
            false => 0,
        }
    }
}

//! A mount, used on behalf of one caller.

use crate::mount::Mount;
use std::ops::Deref;
use std::sync::Arc;
use uext4_ext4::{Ext4, InodeRef};
use uext4_sync::PerCpu;
use uext4_vfs::{Caller, FileSystem, Parent, Result, WalkFlags, resolve, resolve_parent};

/// A mount, used on behalf of one caller.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub mount: Arc<SharedMount>,
    pub caller: Caller,
}

/// A mount, with what open files have of it: those that different CPUs open share no count.
#[derive(Debug)]
pub(crate) struct SharedMount {
    /// That of the mount.
    fs: Arc<Ext4>,
    mount: Mount,
    of_files: PerCpu<Mount>,
}

impl SharedMount {
    /// The mount, for a file that is opened now.
    pub fn of_file(&self) -> Mount {
        self.of_files.get().clone()
    }
}

impl Deref for SharedMount {
    type Target = Mount;

    #[inline(always)]
    fn deref(&self) -> &Mount {
        &self.mount
    }
}

impl Session {
    pub fn new(mount: Mount, caller: Caller) -> Session {
        let of_files = PerCpu::new(|_| mount.counted_apart());
        Session {
            mount: Arc::new(SharedMount {
                fs: Arc::clone(mount.fs()),
                mount,
                of_files,
            }),
            caller,
        }
    }

    /// The mount through the trait of all file systems, so that errors are those of every front end.
    #[inline(always)]
    pub fn vfs(&self) -> &impl FileSystem<Node = InodeRef> {
        &*self.mount.fs
    }

    /// The inode that a path leads to.
    pub fn resolve(&self, path: &[u8], flags: WalkFlags) -> Result<InodeRef> {
        resolve(self.vfs(), &self.caller, None, path, flags)
    }

    /// The directory of a path's last name, and that name.
    pub fn resolve_parent<'p>(
        &self,
        path: &'p [u8],
        flags: WalkFlags,
    ) -> Result<Parent<'p, InodeRef>> {
        resolve_parent(self.vfs(), &self.caller, None, path, flags)
    }
}

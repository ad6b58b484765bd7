//! Names in encrypted directories: those that callers give become those that entries have, before anything is locked.

use crate::attributes::encryption::{StoredName, not_written};
use crate::directory::check_name;
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::namei::{Namei, check_directory};
use crate::prelude::*;
use std::borrow::Cow;
use uext4_ondisk::name_key;

impl Namei {
    /// The name by which a caller's name is stored in `dir`.
    ///
    /// # Locks
    /// The directory's `ilock`, shared, for a long name that is shown without the key, and for any if the directory ignores case.
    ///
    /// # Errors
    /// [`Ext4Error::NotFound`]: the key is missing, and no entry is shown like this without it. [`Ext4Error::NameTooLong`].
    #[inline]
    pub(super) fn stored_name<'n>(&self, dir: &InodeRef, name: &'n [u8]) -> Result<Cow<'n, [u8]>> {
        match self.attributes.stored_name(dir, name)? {
            StoredName::Whole(name) => Ok(name),
            StoredName::Start(shown) => {
                self.listed_name(dir, shown.hash, |stored| shown.is_of(stored))
            }
            StoredName::Folded(names, hash) => {
                let fold = name_key(name);
                self.listed_name(dir, hash, |stored| {
                    let shown = names.name(dir, hash, stored);
                    shown.is_ok_and(|shown| name_key(&shown) == fold)
                })
            }
        }
    }

    /// The stored name of the first entry of this hash that `is_it`.
    fn listed_name(
        &self,
        dir: &InodeRef,
        hash: NameHash,
        is_it: impl Fn(&[u8]) -> bool,
    ) -> Result<Cow<'static, [u8]>> {
        let _locked = ilock(&dir.ilock, LockMode::Shared);
        let found = self
            .directories
            .find_listed(dir, hash, |entry| is_it(&entry.name))?;
        let found = found.map(|entry| Cow::Owned(entry.name));
        found.ok_or(Ext4Error::NotFound)
    }

    /// What precedes every change of an entry: the checks that need no lock. The name as it is stored.
    pub(super) fn check_entry_change<'n>(
        &self,
        caller: &Caller,
        dir: &InodeRef,
        name: &'n [u8],
    ) -> Result<Cow<'n, [u8]>> {
        self.volume.check_writable()?;
        check_directory(dir)?;
        self.attributes.may_search(caller, dir)?;
        check_name(name)?;
        let name = self.stored_name(dir, name)?;
        self.volume.check_sought(dir, &name)?;
        Ok(name)
    }

    /// The names of a rename as they are stored.
    ///
    /// # Errors
    /// `ENOKEY`, that of either directory is missing; as [`Namei::stored_name`].
    pub(super) fn stored_to_rename<'n>(
        &self,
        old: (&InodeRef, &'n [u8]),
        new: (&InodeRef, &'n [u8]),
    ) -> Result<[Cow<'n, [u8]>; 2]> {
        self.attributes.check_names_key(old.0)?;
        self.attributes.check_names_key(new.0)?;
        Ok([
            self.stored_name(old.0, old.1)?,
            self.stored_name(new.0, new.1)?,
        ])
    }

    /// Refuses to make a file in an encrypted directory.
    ///
    /// # Errors
    /// `ENOKEY`, `EOPNOTSUPP`.
    pub(super) fn check_creation(&self, dir: &Inode) -> Result<()> {
        if !dir.is_encrypted() || dir.file_type != FileType::Directory {
            return Ok(());
        }
        self.attributes.check_names_key(dir)?;
        Err(not_written(dir, "making a file in it"))
    }
}

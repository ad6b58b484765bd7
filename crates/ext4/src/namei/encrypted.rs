//! Names in encrypted directories: those that callers give become those that entries have, before anything is locked.

use crate::attributes::encryption::{StoredName, not_written};
use crate::directory::{Directory, check_name};
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::namei::{Namei, check_directory};
use crate::prelude::*;
use std::borrow::Cow;
use uext4_ondisk::NoKeyName;

impl Namei {
    /// The name by which a caller's name is stored in `dir`.
    ///
    /// # Locks
    /// The directory's `ilock`, shared, for a long name that is shown without the key.
    ///
    /// # Errors
    /// [`Ext4Error::NotFound`]: the key is missing, and no entry is shown like this without it. [`Ext4Error::NameTooLong`].
    #[inline]
    pub(super) fn stored_name<'n>(&self, dir: &InodeRef, name: &'n [u8]) -> Result<Cow<'n, [u8]>> {
        match self.attributes.stored_name(dir, name)? {
            StoredName::Whole(name) => Ok(name),
            StoredName::Start(shown) => {
                let _locked = ilock(&dir.ilock, LockMode::Shared);
                let found = self.directories.name_shown_as(dir, &shown)?;
                found.map(Cow::Owned).ok_or(Ext4Error::NotFound)
            }
        }
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

impl Directory {
    /// The name of the entry that is shown like this without the key.
    ///
    /// # Locks
    /// The caller holds the directory's `ilock`, shared at least.
    fn name_shown_as(&self, dir: &Inode, shown: &NoKeyName) -> Result<Option<Vec<u8>>> {
        let mut cookie = Directory::cookie_before(shown.hash);
        loop {
            let listed = self.dir_list(dir, cookie)?;
            let Some(last) = listed.last() else {
                return Ok(None);
            };
            cookie = last.cookie;
            let is_past = shown.hash != NameHash::default() && last.hash != shown.hash;
            let found = listed.into_iter().find(|entry| shown.is_of(&entry.name));
            if found.is_some() || is_past {
                return Ok(found.map(|entry| entry.name));
            }
        }
    }
}

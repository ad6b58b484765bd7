//! The owners and permissions that a mount shows, where they are not those of the image.

use uext4_vfs::{Attr, Caller, Errno, SetAttr};

/// The owners and permissions that a mount shows. What is stored stays as it is; the kernel checks permission by what is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The owner of every file, and of new ones in the image too.
    pub uid: Option<u32>,
    /// The group of every file, and of new ones in the image too.
    pub gid: Option<u32>,
    /// The permission bits that no file has.
    pub umask: u16,
    /// Every caller has the rights of the superuser, and new files belong to it. The kernel checks no permission.
    pub fakeroot: bool,
}

impl Ownership {
    /// The attributes as the mount shows them.
    #[inline]
    pub fn shown(&self, attr: &Attr) -> Attr {
        Attr {
            uid: self.uid.unwrap_or(attr.uid),
            gid: self.gid.unwrap_or(attr.gid),
            mode: attr.mode & !self.umask,
            ..*attr
        }
    }

    /// What is stored for a change of what is shown.
    ///
    /// # Errors
    /// `EPERM`: an owner or group is fixed, and the change asks for another one.
    pub fn stored(&self, change: SetAttr) -> Result<SetAttr, Errno> {
        let id = |asked: Option<u32>, fixed: Option<u32>| match (asked, fixed) {
            (Some(asked), Some(fixed)) if asked != fixed => Err(Errno::EPERM),
            (asked, fixed) => Ok(asked.filter(|_| fixed.is_none())),
        };
        Ok(SetAttr {
            uid: id(change.uid, self.uid)?,
            gid: id(change.gid, self.gid)?,
            ..change
        })
    }

    /// The caller as the file system has it.
    #[inline]
    pub fn caller(&self, caller: Caller) -> Caller {
        let Ownership {
            uid, gid, fakeroot, ..
        } = *self;
        let caller = match fakeroot {
            true => Caller::root(),
            false => caller,
        };
        Caller {
            uid: uid.unwrap_or(caller.uid),
            gid: gid.unwrap_or(caller.gid),
            ..caller
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fixed_is_neither_stored_nor_changed() {
        let ownership = Ownership {
            uid: Some(7),
            ..Ownership::default()
        };
        let change = |uid| SetAttr {
            uid: Some(uid),
            gid: Some(9),
            ..SetAttr::default()
        };
        let stored = ownership.stored(change(7)).unwrap();
        assert_eq!((stored.uid, stored.gid), (None, Some(9)));
        assert_eq!(ownership.stored(change(8)).unwrap_err(), Errno::EPERM);
        assert_eq!(Ownership::default().stored(change(8)).unwrap().uid, Some(8));
    }
}

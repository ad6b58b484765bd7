//! Names in encrypted directories, and the targets of encrypted symbolic links: between what callers see and what is stored.

use crate::attributes::Attributes;
use crate::attributes::encryption::{damaged, no_key, not_written};
use crate::directory::NAME_MAX;
use crate::encryption::{BLOCK, InodeCipher};
use crate::inode::Inode;
use crate::prelude::*;
use std::borrow::Cow;
use uext4_ondisk::{NoKeyName, NoKeyRest, hashed_name, symlink_ciphertext};

/// The name of an entry, as far as it follows from the name that the caller gave.
pub(crate) enum StoredName<'n> {
    /// All of it.
    Whole(Cow<'n, [u8]>),
    /// Where it begins, and the hash of the rest.
    Start(NoKeyName),
    /// How names are shown, and the hash of those with its fold; zeros if that is not known.
    Folded(ShownNames, NameHash),
}

/// How the names of one directory are shown.
pub(crate) enum ShownNames {
    /// As they are stored.
    Stored,
    /// Decrypted.
    Decrypted(Arc<InodeCipher>),
    /// Encoded, as there is no cipher: the key is missing, or the mode is not supported.
    Encoded,
}

/// Whether a directory stores a name as it is.
fn is_stored_plain(dir: &Inode, name: &[u8]) -> bool {
    !dir.is_encrypted() || matches!(name, b"." | b"..")
}

impl Attributes {
    /// The name by which a caller's name is stored in `dir`.
    ///
    /// # Errors
    /// [`Ext4Error::NotFound`]: names are shown encoded, and none like this. [`Ext4Error::NameTooLong`]; as [`Attributes::shown_cipher`].
    pub(crate) fn stored_name<'n>(&self, dir: &Inode, name: &'n [u8]) -> Result<StoredName<'n>> {
        if is_stored_plain(dir, name) {
            return Ok(StoredName::Whole(Cow::Borrowed(name)));
        }
        let Some((context, cipher)) = self.shown_cipher(dir)? else {
            let shown = NoKeyName::decode(name).ok_or(Ext4Error::NotFound)?;
            return Ok(match shown.rest {
                NoKeyRest::None => StoredName::Whole(Cow::Owned(shown.ciphertext)),
                NoKeyRest::Digest(_) => StoredName::Start(shown),
            });
        };
        if name.len() > NAME_MAX {
            return Err(Ext4Error::NameTooLong);
        }
        if self.volume.has_keyed_hashes(dir) {
            let hash = self
                .volume
                .options
                .keys
                .hash_name(&context, &hashed_name(name));
            return Ok(StoredName::Folded(ShownNames::Decrypted(cipher), hash));
        }
        let padded = name.len().max(BLOCK);
        let padded = padded
            .next_multiple_of(context.policy.name_padding)
            .min(NAME_MAX);
        let mut stored = vec![0; padded];
        stored[..name.len()].copy_from_slice(name);
        cipher.encrypt_name(&mut stored);
        Ok(StoredName::Whole(Cow::Owned(stored)))
    }

    /// Refuses to add or to change names in an encrypted directory whose key is missing.
    ///
    /// # Errors
    /// `ENOKEY`; as [`Attributes::names_cipher`].
    pub(crate) fn check_names_key(&self, dir: &Inode) -> Result<()> {
        if self.volume.has_keyed_hashes(dir) && self.names_cipher(dir)?.is_some() {
            let what = "changing names in a directory that is encrypted and ignores case";
            return Err(not_written(dir, what));
        }
        match !dir.is_encrypted() || self.names_cipher(dir)?.is_some() {
            true => Ok(()),
            false => Err(no_key(dir)),
        }
    }

    /// How the names of `dir` are shown.
    ///
    /// # Errors
    /// As [`Attributes::shown_cipher`].
    pub(crate) fn shown_names(&self, dir: &Inode) -> Result<ShownNames> {
        if !dir.is_encrypted() {
            return Ok(ShownNames::Stored);
        }
        Ok(match self.shown_cipher(dir)? {
            Some((_, cipher)) => ShownNames::Decrypted(cipher),
            None => ShownNames::Encoded,
        })
    }

    /// The target of an encrypted symbolic link, of what the link has stored.
    ///
    /// # Errors
    /// Damage; as [`Attributes::shown_cipher`].
    pub(crate) fn shown_target(&self, link: &Inode, stored: &[u8]) -> Result<Vec<u8>> {
        let names = self.shown_names(link)?;
        let ciphertext = symlink_ciphertext(stored);
        let shown = ciphertext.and_then(|c| names.shown(NameHash::default(), c));
        let shown = shown.filter(|target| !target.is_empty());
        let shown = shown.map(Cow::into_owned);
        shown.ok_or_else(|| damaged(link, "the target of the encrypted link is too short"))
    }
}

impl ShownNames {
    /// The name of an entry of `dir` that is stored so, and listed by this hash.
    ///
    /// # Errors
    /// Damage: a name that is too short to be one that is encrypted.
    pub(crate) fn name<'n>(
        &self,
        dir: &Inode,
        hash: NameHash,
        stored: &'n [u8],
    ) -> Result<Cow<'n, [u8]>> {
        if is_stored_plain(dir, stored) {
            return Ok(Cow::Borrowed(stored));
        }
        self.shown(hash, stored)
            .ok_or_else(|| damaged(dir, "a name is too short for an encrypted directory"))
    }

    fn shown<'n>(&self, hash: NameHash, stored: &'n [u8]) -> Option<Cow<'n, [u8]>> {
        match self {
            ShownNames::Stored => Some(Cow::Borrowed(stored)),
            ShownNames::Encoded if stored.is_empty() => None,
            ShownNames::Encoded => Some(Cow::Owned(NoKeyName::new(hash, stored).encode())),
            ShownNames::Decrypted(_) if stored.len() < BLOCK => None,
            ShownNames::Decrypted(cipher) => {
                let mut name = stored.to_vec();
                cipher.decrypt_name(&mut name);
                let len = name.iter().position(|byte| *byte == 0);
                name.truncate(len.unwrap_or(name.len()));
                Some(Cow::Owned(name))
            }
        }
    }
}

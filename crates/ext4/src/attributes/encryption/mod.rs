//! Encrypted inodes: their contexts, their ciphers, and their names.
//!
//! # Data model
//! Names are encrypted and decrypted where a caller gives or gets them, so that everything below has ciphertext: entries, the hash tree, the cache
//! of names. Contents are decrypted in `FileIo::read_mapped`, by whole data units.
//!
//! # Invariants
//! Nothing encrypts contents: an encrypted file is not written, and nothing is created in an encrypted directory.
//!
//! | module | holds |
//! | --- | --- |
//! | `names` | names in encrypted directories, targets of links |
//!
//! Source: Linux documentation, filesystems/fscrypt.

mod names;

pub(crate) use names::StoredName;

use crate::attributes::Attributes;
use crate::encryption::{Encrypted, InodeCipher, NoCipher};
use crate::inode::Inode;
use crate::prelude::*;
use uext4_ondisk::{CONTEXT_NAME, EncryptionContext};
use uext4_vfs::errno::Error;

/// The fewest bytes of a data unit, as a logarithm.
const LOG2_DATA_UNIT_MIN: u8 = 9;

/// What is read of an encrypted file: the cipher, and the bytes that are decrypted at a time.
pub(crate) struct ContentsCipher {
    pub cipher: Arc<InodeCipher>,
    pub unit: u64,
}

/// The key of an encrypted inode is missing.
pub(crate) fn no_key(inode: &Inode) -> Ext4Error {
    let what = format!(
        "inode {} is encrypted, and its key is not there: --encryption-key FILE gives it, `uext4 key add` to a mount",
        inode.ino
    );
    Error::new(Errno::ENOKEY).context(what).into()
}

/// What an encrypted inode has is not as it must be.
pub(crate) fn damaged(inode: &Inode, what: &str) -> Ext4Error {
    let what = format!("inode {}: {what}", inode.ino);
    Error::new(Errno::EUCLEAN).context(what).into()
}

/// An encrypted inode is not changed in this way.
pub(crate) fn not_written(inode: &Inode, what: &str) -> Ext4Error {
    unsupported(inode, format_args!("{what} is not supported"))
}

fn unsupported(inode: &Inode, what: std::fmt::Arguments<'_>) -> Ext4Error {
    let what = format!("inode {} is encrypted: {what}", inode.ino);
    Error::new(Errno::EOPNOTSUPP).context(what).into()
}

impl Inode {
    /// Whether it is encrypted.
    #[inline]
    pub(crate) fn is_encrypted(&self) -> bool {
        self.flags().contains(InodeFlags::ENCRYPT)
    }
}

impl Attributes {
    /// The context of an encrypted inode.
    ///
    /// # Errors
    /// `EUCLEAN`: it has none, or one that is not understood. The device's.
    pub(crate) fn encryption_context(&self, inode: &Inode) -> Result<EncryptionContext> {
        let value = match self.get_xattr(inode, XattrIndex::ENCRYPTION, CONTEXT_NAME) {
            Err(Ext4Error::NoAttribute) => {
                let what = "it is encrypted and has no encryption context";
                return Err(damaged(inode, what));
            }
            value => value?,
        };
        EncryptionContext::decode(&value)
            .map_err(|unknown| damaged(inode, &format!("its encryption context has {unknown}")))
    }

    /// The cipher of an encrypted inode; none without its key.
    ///
    /// # Errors
    /// As [`Attributes::encryption_context`]; `EOPNOTSUPP`: a mode that is not supported.
    fn cipher(&self, inode: &Inode, what: Encrypted) -> Result<Option<Arc<InodeCipher>>> {
        let context = self.encryption_context(inode)?;
        self.cipher_of(inode, &context, what)
    }

    fn cipher_of(
        &self,
        inode: &Inode,
        context: &EncryptionContext,
        what: Encrypted,
    ) -> Result<Option<Arc<InodeCipher>>> {
        let keys = &self.volume.options.keys;
        keys.cipher(inode.ino, context, what, &self.volume.sb.raw.uuid)
            .map_err(|why| match why {
                NoCipher::Mode(mode) => unsupported(inode, format_args!("{mode} is not supported")),
                NoCipher::ShortKey(mode) => {
                    unsupported(inode, format_args!("its key is too short for {mode}"))
                }
            })
    }

    /// The cipher of the names in an encrypted directory, or of the target of an encrypted link; none without its key.
    ///
    /// # Errors
    /// As [`Attributes::cipher`].
    pub(crate) fn names_cipher(&self, inode: &Inode) -> Result<Option<Arc<InodeCipher>>> {
        self.cipher(inode, Encrypted::Names)
    }

    /// The cipher of an encrypted file.
    ///
    /// # Errors
    /// `ENOKEY`; as [`Attributes::cipher`].
    pub(crate) fn contents_cipher(&self, inode: &Inode) -> Result<ContentsCipher> {
        let context = self.encryption_context(inode)?;
        let block = self.volume.block_size();
        let unit = match context.policy.log2_data_unit {
            None => block,
            Some(log2) => {
                let bytes = 1_u64.checked_shl(log2.into());
                let bytes = bytes.filter(|bytes| log2 >= LOG2_DATA_UNIT_MIN && *bytes <= block);
                bytes.ok_or_else(|| {
                    unsupported(
                        inode,
                        format_args!("data units of 2^{log2} bytes are not supported"),
                    )
                })?
            }
        };
        let cipher = self.cipher_of(inode, &context, Encrypted::Contents)?;
        let cipher = cipher.ok_or_else(|| no_key(inode))?;
        Ok(ContentsCipher { cipher, unit })
    }

    /// Refuses to open an encrypted file whose key is missing, or to open it to write.
    ///
    /// # Errors
    /// As [`Attributes::contents_cipher`]; `EOPNOTSUPP` to write.
    pub(crate) fn check_encrypted_open(&self, inode: &Inode, writes: bool) -> Result<()> {
        if !inode.is_encrypted() || inode.file_type != FileType::Regular {
            return Ok(());
        }
        self.contents_cipher(inode)?;
        match writes {
            true => Err(not_written(inode, "writing")),
            false => Ok(()),
        }
    }

    /// Whether an encrypted directory does not take an inode, as that has another policy or none.
    ///
    /// # Errors
    /// As [`Attributes::encryption_context`].
    pub(crate) fn crosses_policy(&self, dir: &Inode, inode: &Inode) -> Result<bool> {
        let has_policy = matches!(
            inode.file_type,
            FileType::Regular | FileType::Directory | FileType::Symlink
        );
        if !dir.is_encrypted() || !has_policy {
            return Ok(false);
        }
        if !inode.is_encrypted() {
            return Ok(true);
        }
        let (of_dir, own) = (
            self.encryption_context(dir)?,
            self.encryption_context(inode)?,
        );
        Ok(of_dir.policy != own.policy)
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;
    use crate::fixture::*;
    use uext4_vfs::attr::XattrFlags;

    /// A context of version 2 with the name of a key.
    fn context(contents: u8, flags: u8, log2_data_unit: u8, key: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2, contents, 4, flags, log2_data_unit, 0, 0, 0];
        bytes.extend(key);
        bytes.extend([7; 16]);
        bytes
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let device = image(8 << 20, "encrypt");
        let fs = mount(&device);
        let root = fs.namei.root().expect("root").clone();
        let file = make(&fs, &root, "f", &FILE);
        fs.files.write(&file, 0, &[5; 6000], true).expect("write");
        let encrypt = |handle: &Handle<'_>| {
            fs.table
                .update_inode(&file, handle, |disk| disk.flags |= InodeFlags::ENCRYPT)
        };
        fs.volume.with_handle(2, encrypt).expect("the flag");
        let read = || {
            let done = fs.files.read(&file, 0, &mut [0; 100]);
            done.map_err(|e| e.errno())
        };
        assert_eq!(read(), Err(Errno::EUCLEAN), "no context");
        let names = fs.volume.options.keys.add(&[3; 64]).expect("a key");
        let key = names[1].as_bytes();
        let short = &context(1, 0, 0, key)[..39];
        for (value, wanted) in [
            (context(1, 0, 0, &[0; 16]), Err(Errno::ENOKEY)),
            (context(1, 0, 0, key), Ok(100)),
            (context(1, 0, 9, key), Ok(100)),
            (context(1, 0, 8, key), Err(Errno::EOPNOTSUPP)),
            (context(1, 0, 13, key), Err(Errno::EOPNOTSUPP)),
            (context(1, 0, 64, key), Err(Errno::EOPNOTSUPP)),
            (context(1, 0, 255, key), Err(Errno::EOPNOTSUPP)),
            (context(9, 0, 0, key), Err(Errno::EOPNOTSUPP)),
            (context(4, 0, 0, key), Err(Errno::EOPNOTSUPP)),
            (context(1, 4, 0, key), Err(Errno::EOPNOTSUPP)),
            (context(1, 0x18, 0, key), Err(Errno::EUCLEAN)),
            (short.to_vec(), Err(Errno::EUCLEAN)),
        ] {
            fs.attributes
                .set_xattr(
                    &file,
                    XattrIndex::ENCRYPTION,
                    CONTEXT_NAME,
                    &value,
                    XattrFlags::empty(),
                )
                .expect("a context");
            assert_eq!(read(), wanted, "{value:?}");
        }
        let written = fs.files.write(&file, 0, &[1], true);
        assert_eq!(written.map_err(|e| e.errno()), Err(Errno::EOPNOTSUPP));
        let cut = fs.files.truncate(&file, 0);
        assert_eq!(cut.map_err(|e| e.errno()), Err(Errno::EOPNOTSUPP));
    }
}

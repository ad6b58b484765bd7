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
        EncryptionContext::decode(&self.context_value(inode)?)
            .map_err(|unknown| damaged(inode, &format!("its encryption context has {unknown}")))
    }

    fn context_value(&self, inode: &Inode) -> Result<Vec<u8>> {
        match self.get_xattr(inode, XattrIndex::ENCRYPTION, CONTEXT_NAME) {
            Err(Ext4Error::NoAttribute) => {
                let what = "it is encrypted and has no encryption context";
                Err(damaged(inode, what))
            }
            value => value,
        }
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
        self.try_cipher_of(inode, context, what)
            .map_err(|why| match why {
                NoCipher::Mode(mode) => unsupported(inode, format_args!("{mode} is not supported")),
                NoCipher::ShortKey(mode) => {
                    unsupported(inode, format_args!("its key is too short for {mode}"))
                }
            })
    }

    fn try_cipher_of(
        &self,
        inode: &Inode,
        context: &EncryptionContext,
        what: Encrypted,
    ) -> std::result::Result<Option<Arc<InodeCipher>>, NoCipher> {
        let keys = &self.volume.options.keys;
        keys.cipher(inode.ino, context, what, &self.volume.sb.raw.uuid)
    }

    /// The cipher of the names in an encrypted directory, or of the target of an encrypted link; none without its key.
    ///
    /// # Errors
    /// As [`Attributes::cipher`].
    pub(crate) fn names_cipher(&self, inode: &Inode) -> Result<Option<Arc<InodeCipher>>> {
        self.cipher(inode, Encrypted::Names)
    }

    /// The context of an encrypted directory or link, and the cipher of its names; none if they are shown encoded: without the key, if the mode is not
    /// supported, or if the context is unknown.
    ///
    /// # Errors
    /// `EUCLEAN`: there is no context. The device's.
    pub(super) fn shown_cipher(
        &self,
        inode: &Inode,
    ) -> Result<Option<(EncryptionContext, Arc<InodeCipher>)>> {
        let value = self.context_value(inode)?;
        Ok(EncryptionContext::decode(&value).ok().and_then(|context| {
            let cipher = self.try_cipher_of(inode, &context, Encrypted::Names);
            Some((context, cipher.ok()??))
        }))
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
    use crate::fs::Ext4;
    use crate::inode::reference::InodeRef;
    use uext4_vfs::attr::{DirEntry, NewKind, NewNode, XattrFlags};
    use uext4_vfs::filesystem::FileSystem;

    /// A context of version 2 with the name of a key.
    fn context(contents: u8, flags: u8, log2_data_unit: u8, key: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2, contents, 4, flags, log2_data_unit, 0, 0, 0];
        bytes.extend(key);
        bytes.extend([7; 16]);
        bytes
    }

    fn set_context(fs: &Ext4, inode: &InodeRef, value: &[u8]) {
        let (index, flags) = (XattrIndex::ENCRYPTION, XattrFlags::empty());
        let set = fs
            .attributes
            .set_xattr(inode, index, CONTEXT_NAME, value, flags);
        set.expect("a context");
    }

    fn encrypt(fs: &Ext4, inode: &InodeRef) {
        let encrypt = |handle: &Handle<'_>| {
            fs.table
                .update_inode(inode, handle, |disk| disk.flags |= InodeFlags::ENCRYPT)
        };
        fs.volume.with_handle(2, encrypt).expect("the flag");
    }

    fn names(fs: &Ext4, dir: &InodeRef) -> uext4_vfs::errno::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        fs.readdir(&Caller::root(), dir, 0, &mut |entry: &DirEntry<'_>| {
            names.push(entry.name.to_vec());
            true
        })?;
        names.retain(|name| !matches!(&name[..], b"." | b".."));
        Ok(names)
    }

    /// A directory with a file, a directory and a link, whose context is then `value`.
    fn filled(fs: &Ext4, name: &str, value: Option<&[u8]>) -> InodeRef {
        let root = fs.namei.root().expect("root").clone();
        let dir = make(fs, &root, name, &DIR);
        make(fs, &dir, "a file's ciphertext", &FILE);
        make(fs, &dir, "ciphertext of a directory", &DIR);
        let target = NewKind::Symlink(b"\x10\x00sixteen bytes ct");
        let link = NewNode {
            mode: 0o777,
            kind: target,
        };
        let link = make(fs, &dir, "ciphertext of a link", &link);
        for inode in [&link, &dir] {
            if let Some(value) = value {
                set_context(fs, inode, value);
            }
            encrypt(fs, inode);
        }
        dir
    }

    #[test]
    fn names_whose_cipher_is_not_supported_are_encoded_and_removed() {
        let device = image(8 << 20, "encrypt");
        let fs = mount(&device);
        let caller = Caller::root();
        let root = fs.namei.root().expect("root").clone();
        let ring = fs.volume.options.keys.add(&[3; 16]).expect("a key");
        let key = ring[1].as_bytes();
        let of_names = |mode: u8| {
            let mut value = context(1, 0, 0, key);
            value[2] = mode;
            value
        };
        let errno = |e: uext4_vfs::errno::Error| e.errno();
        let mut short = vec![1, 1, 4, 0];
        short.extend(ring[0].as_bytes());
        short.extend([7; 16]);
        let (unsupported, damage) = (Errno::EOPNOTSUPP, Errno::EUCLEAN);
        for (at, (value, refusal)) in [
            (of_names(7), unsupported),
            (context(9, 4, 0, key), unsupported),
            (of_names(8), unsupported),
            (of_names(0), unsupported),
            (short, unsupported),
            (context(1, 0x18, 0, key), damage),
            (context(1, 0, 0, key)[..39].to_vec(), damage),
            (vec![3; 40], damage),
            (vec![], damage),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("dir{at}");
            let dir = filled(&fs, &name, Some(&value));
            let shown = names(&fs, &dir).unwrap_or_else(|e| panic!("{value:?}: {e:?}"));
            assert_eq!(shown.len(), 3);
            let made = fs.create(&caller, &dir, b"new", &FILE);
            assert_eq!(made.map(drop).map_err(errno), Err(refusal), "{value:?}");
            let flags = uext4_vfs::attr::RenameFlags::empty();
            let renamed = fs.rename(&caller, &dir, &shown[0], &dir, b"new", flags);
            assert_eq!(renamed.map_err(errno), Err(refusal), "{value:?}");
            for name in &shown {
                let node = fs.lookup(&caller, &dir, name).expect("look-up");
                let attr = fs.getattr(&node).expect("stat");
                if node.file_type == FileType::Symlink {
                    let target = fs.readlink(&caller, &node).expect("a target");
                    assert_eq!(attr.size, target.len() as u64);
                }
                match node.is_dir() {
                    true => fs.rmdir(&caller, &dir, name).expect("rmdir"),
                    false => fs.unlink(&caller, &dir, name).expect("unlink"),
                }
            }
            let removed = fs.rmdir(&caller, &root, name.as_bytes());
            removed.expect("the directory");
        }
    }

    #[test]
    fn inodes_without_a_context_are_seen_and_removed() {
        let device = image(8 << 20, "encrypt");
        let fs = mount(&device);
        let caller = Caller::root();
        let root = fs.namei.root().expect("root").clone();
        let dir = filled(&fs, "dir", None);
        let why = names(&fs, &dir).expect_err("no context");
        assert_eq!(why.errno(), Errno::EUCLEAN);
        assert!(why.to_string().contains(&dir.ino.to_string()), "{why}");
        fs.getattr(&dir).expect("stat of a directory");
        let link = NewNode {
            mode: 0o777,
            kind: NewKind::Symlink(b"\x10\x00sixteen bytes ct"),
        };
        let link = make(&fs, &root, "link", &link);
        encrypt(&fs, &link);
        fs.getattr(&link).expect("stat of a link");
        let read = fs.readlink(&caller, &link);
        assert_eq!(read.map_err(|e| e.errno()), Err(Errno::EUCLEAN));
        fs.unlink(&caller, &root, b"link").expect("unlink");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let device = image(8 << 20, "encrypt");
        let fs = mount(&device);
        let root = fs.namei.root().expect("root").clone();
        let file = make(&fs, &root, "f", &FILE);
        fs.files.write(&file, 0, &[5; 6000], true).expect("write");
        encrypt(&fs, &file);
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
            (context(7, 0, 0, key), Err(Errno::EOPNOTSUPP)),
            (context(9, 0, 0, key), Ok(100)),
            (context(9, 4, 0, key), Ok(100)),
            (context(10, 0, 0, key), Err(Errno::EOPNOTSUPP)),
            (context(4, 0, 0, key), Err(Errno::EOPNOTSUPP)),
            (context(1, 4, 0, key), Err(Errno::EOPNOTSUPP)),
            (context(1, 0x18, 0, key), Err(Errno::EUCLEAN)),
            (short.to_vec(), Err(Errno::EUCLEAN)),
        ] {
            set_context(&fs, &file, &value);
            assert_eq!(read(), wanted, "{value:?}");
        }
        let written = fs.files.write(&file, 0, &[1], true);
        assert_eq!(written.map_err(|e| e.errno()), Err(Errno::EOPNOTSUPP));
        let cut = fs.files.truncate(&file, 0);
        assert_eq!(cut.map_err(|e| e.errno()), Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn a_check_finds_contexts_that_are_missing_or_cut_off() {
        for (value, wanted) in [
            (Some(context(1, 0, 0, &[0; 16])), None),
            (Some(vec![3; 40]), None),
            (
                Some(context(1, 0, 0, &[0; 16])[..39].to_vec()),
                Some("a length of 39 bytes"),
            ),
            (Some(vec![]), Some("a length of 0 bytes")),
            (None, Some("no encryption context")),
        ] {
            let device = image(8 << 20, "encrypt");
            let fs = mount(&device);
            let file = file(&fs, "f");
            if let Some(value) = &value {
                set_context(&fs, &file, value);
            }
            encrypt(&fs, &file);
            let ino = file.ino.to_string();
            drop(file);
            fs.unmount().expect("unmount");
            let options = uext4_check::CheckOptions::default();
            let report = uext4_check::check(&*device, &options, &uext4_check::NoProgress);
            let report = report.expect("a report");
            let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
            match wanted {
                None => assert_eq!(faults, [""; 0], "{value:?}"),
                Some(wanted) => assert!(
                    faults
                        .iter()
                        .any(|f| f.contains(wanted) && f.contains(&ino)),
                    "{value:?}: {faults:?}"
                ),
            }
        }
    }
}

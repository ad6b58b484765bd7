//! fscrypt: what an encrypted inode has on disk.
//!
//! # Data model
//! An encrypted inode has a *context*: the policy, which names the master key, and a nonce of its own. A name in an encrypted directory is
//! stored as ciphertext, and so is the target of a link, with its length before it ([`symlink_ciphertext`]). Without the key, a name is
//! shown as a [`NoKeyName`].
//!
//! | module | holds |
//! | --- | --- |
//! | `context` | the context of an inode, its policy |
//! | `entry_hash` | hashes in entries, where names are without case, too |
//! | `nokey_name` | names as they are shown without the key |
//!
//! Source: Linux documentation, filesystems/fscrypt.

mod context;
mod entry_hash;
mod nokey_name;

pub use context::{
    CipherMode, EncryptionContext, EncryptionPolicy, IvKind, KeyDescriptor, KeyName, NONCE_BYTES,
    UnknownContext,
};
pub use entry_hash::entry_hash;
pub use nokey_name::{NoKeyName, NoKeyRest};

/// Name of the attribute, of index [`XattrIndex::ENCRYPTION`](crate::XattrIndex::ENCRYPTION), that holds an inode's context.
pub const CONTEXT_NAME: &[u8] = b"c";

/// The ciphertext in what is stored of an encrypted symbolic link; none if its length is not the ciphertext's.
pub fn symlink_ciphertext(stored: &[u8]) -> Option<&[u8]> {
    let (len, rest) = stored.split_first_chunk()?;
    rest.get(..usize::from(u16::from_le_bytes(*len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_its_length_before_it() {
        assert_eq!(symlink_ciphertext(b"\x02\0abc"), Some(&b"ab"[..]));
        assert_eq!(symlink_ciphertext(b"\x04\0abc"), None);
        assert_eq!(symlink_ciphertext(b"\x04"), None);
    }
}

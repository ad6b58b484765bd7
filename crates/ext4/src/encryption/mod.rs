//! Encrypted inodes (fscrypt): read with their key, listed and removed without it.
//!
//! # Data model
//! A [`KeyRing`] holds master keys, which the caller gives and which are never stored. From the master key that an inode's context names follow the
//! inode's ciphers ([`FileCiphers`]). Names are encrypted and decrypted where a caller gives or gets them (`names`), so that everything below has
//! ciphertext: entries, the hash tree, the cache of names. Contents are decrypted in `FileIo::read_mapped`, by whole data units.
//!
//! # Invariants
//! Nothing encrypts contents: an encrypted file is not written, and nothing is created in an encrypted directory.
//!
//! # Locking
//! The ring's keys: a leaf.
//!
//! | module | holds |
//! | --- | --- |
//! | `key_ring` | master keys, the ciphers that follow from them |
//! | `derivation` | keys from a master key |
//! | `ciphers` | the ciphers of an inode, their vectors |
//! | `block_modes` | AES as XTS, CBC, and CBC with stealing |
//! | `inodes` | the context of an inode, its ciphers |
//! | `names` | names in encrypted directories, targets of links |
//!
//! Source: Linux documentation, filesystems/fscrypt.

mod block_modes;
mod ciphers;
mod derivation;
mod inodes;
mod key_ring;
mod names;

pub(crate) use inodes::not_written;
pub use key_ring::{KeyRing, MASTER_KEY_BYTES};
pub(crate) use names::StoredName;

//! Keys of encrypted inodes (fscrypt), and the ciphers that follow from them.
//!
//! # Data model
//! A [`KeyRing`] holds master keys, which the caller gives and which are never stored. From the master key that an inode's context names follow the
//! inode's ciphers ([`InodeCipher`]). `attributes::encryption` finds contexts, and uses the ciphers.
//!
//! # Locking
//! The ring's keys: a leaf.
//!
//! | module | holds |
//! | --- | --- |
//! | `key_ring` | master keys, the ciphers that follow from them |
//! | `derivation` | keys from a master key |
//! | `ciphers` | the ciphers of an inode, their vectors |
//! | `adiantum` | Adiantum |
//! | `block_modes` | AES as XTS, CBC, and CBC with stealing |
//!
//! Source: Linux documentation, filesystems/fscrypt.

mod adiantum;
mod block_modes;
mod ciphers;
mod derivation;
mod key_ring;

pub(crate) use block_modes::BLOCK;
pub(crate) use ciphers::{Encrypted, InodeCipher, NoCipher};
pub use key_ring::{KeyRing, MASTER_KEY_BYTES};

//! Keys of encrypted files that a mount has: given when it is mounted, added and removed through the mounted directory.

use crate::ask::{self, AskError};
use crate::mountinfo::{self, MountEntry};
use crate::question::{ADD_KEY, REMOVE_KEY};
use crate::stats;
use crate::write_back::write_back;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use uext4::unstable::ondisk::KeyName;
use uext4::unstable::{KeyRing, RawKey, key_from_hex};
use zeroize::Zeroizing;

/// The keys of a mount stay as they are.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The directory can't be found or opened, or the kernel refuses.
    #[error("{0}")]
    Host(#[from] io::Error),
    /// There is no mount.
    #[error("nothing is mounted there")]
    NotMounted,
    /// It is another's.
    #[error("not a mount of uext4 but of {0}")]
    NotOurs(String),
    /// The server does not answer.
    #[error("its server does not answer; uext4 umount --lazy takes the mount away")]
    Hung,
    /// The server refuses.
    #[error("{0}")]
    Refused(String),
}

/// Adds a key to the mount at `dir`.
///
/// # Locks
/// Waits for what the kernel writes back.
///
/// # Errors
/// It is not a uext4 mount of an image.
pub fn add(dir: &Path, key: &RawKey) -> Result<(), KeyError> {
    let mut question = Zeroizing::new(ADD_KEY.to_owned());
    question.reserve(2 * key.as_bytes().len() + "0123456789abcdef:".len());
    if let Some(descriptor) = key.descriptor() {
        question.push_str(&format!("{}:", KeyName::Descriptor(descriptor)));
    }
    for byte in key.as_bytes() {
        question.extend(
            [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
        );
    }
    change(dir, &question)
}

/// Removes the key with this name, a descriptor or an identifier, from the mount at `dir`.
///
/// # Locks
/// As [`add`].
///
/// # Errors
/// It is not a uext4 mount, or has no such key.
pub fn remove(dir: &Path, name: &str) -> Result<(), KeyError> {
    change(dir, &format!("{REMOVE_KEY}{name}"))
}

fn change(dir: &Path, question: &str) -> Result<(), KeyError> {
    let dir = ours(dir)?;
    // Nothing ends the wait for a server that hangs.
    stats::read_from_afar(&dir).map_err(|_| KeyError::Hung)?;
    ask::ask(&dir, question).map_err(refusal)?;
    // What the kernel had of names and data before is dropped when this returns.
    write_back(&dir, || {}).map_err(refusal)
}

/// How a key of a mount is named.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeyNames {
    /// By policies of version 2.
    pub identifier: String,
    /// By those of version 1.
    pub descriptors: Vec<String>,
}

impl KeyNames {
    /// Those of all keys of a ring.
    pub(crate) fn of(keys: &KeyRing) -> Vec<KeyNames> {
        let keys = keys.descriptors().into_iter();
        keys.map(|(identifier, descriptors)| KeyNames {
            identifier: identifier.to_string(),
            descriptors: descriptors.iter().map(ToString::to_string).collect(),
        })
        .collect()
    }
}

/// The names of the keys of the mount at `dir`.
///
/// # Errors
/// It is not a uext4 mount of an image, or does not answer.
pub fn names(dir: &Path) -> Result<Vec<KeyNames>, KeyError> {
    let dir = ours(dir)?;
    let found = stats::read_from_afar(&dir).map_err(|_| KeyError::Hung)?;
    let names = found
        .as_ref()
        .and_then(|all| all.pointer("/options/encryption_keys"));
    let names = names.and_then(|names| Vec::deserialize(names).ok());
    names.ok_or_else(|| KeyError::Refused("its server has no keys".to_owned()))
}

fn ours(dir: &Path) -> Result<PathBuf, KeyError> {
    let dir = mountinfo::absolute(dir)?;
    let entry = MountEntry::at(&dir)?.ok_or(KeyError::NotMounted)?;
    match entry.is_ours() {
        true => Ok(dir),
        false => Err(KeyError::NotOurs(entry.kind)),
    }
}

fn refusal(e: AskError) -> KeyError {
    match e {
        AskError::Host(e) => KeyError::Host(e),
        AskError::Unknown => {
            KeyError::Refused("message queues are not encrypted, and have no keys".to_owned())
        }
        e => KeyError::Refused(e.to_string()),
    }
}

/// The name of a key that has these digits.
pub(crate) fn key_name(digits: &str) -> Option<KeyName> {
    let bytes = key_from_hex(digits)?;
    let bytes = bytes.as_slice();
    match bytes.len() {
        8 => Some(KeyName::Descriptor(bytes.try_into().ok()?)),
        16 => Some(KeyName::Identifier(bytes.try_into().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_digits_of_a_descriptor_or_an_identifier() {
        let name = |digits: &str| key_name(digits).map(|name| name.to_string());
        for digits in ["0123456789abcdef", "00112233445566778899aabbccddeeff"] {
            assert_eq!(name(digits).as_deref(), Some(digits));
        }
        for digits in ["", "01", "0123456789abcde", "0123456789abcdeg"] {
            assert_eq!(name(digits), None);
        }
    }
}

//! Keys of encrypted files that a mount has: given when it is mounted, added and removed through the mounted directory.

use crate::ask::{self, AskError};
use crate::mountinfo::{self, MountEntry};
use crate::question::{ADD_KEY, REMOVE_KEY};
use crate::stats;
use crate::write_back::write_back;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use uext4::unstable::ondisk::{KeyDescriptor, KeyName};
use uext4::unstable::{KeyRing, MASTER_KEY_BYTES};
use zeroize::Zeroizing;

/// The bytes of a key, which are overwritten when it is dropped, and which no message shows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawKey {
    bytes: Zeroizing<Vec<u8>>,
    descriptor: Option<KeyDescriptor>,
}

impl RawKey {
    /// All that a file has; none if no key is that long.
    ///
    /// # Errors
    /// Those of the file.
    pub fn read(file: impl Read) -> io::Result<Option<RawKey>> {
        // Room for one byte more, so that the bytes are nowhere else.
        let mut bytes = Zeroizing::new(vec![0; MASTER_KEY_BYTES.end() + 1]);
        let mut file = file;
        let mut len = 0;
        while let Some(room) = bytes.get_mut(len..).filter(|room| !room.is_empty()) {
            match file.read(room) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        bytes.truncate(len);
        Ok(MASTER_KEY_BYTES.contains(&len).then_some(RawKey {
            bytes,
            descriptor: None,
        }))
    }

    /// The same with another descriptor than the one that follows from the bytes, or with that if it is none.
    #[must_use]
    pub fn named(self, descriptor: Option<KeyDescriptor>) -> RawKey {
        RawKey { descriptor, ..self }
    }

    /// The descriptor, if it does not follow from the bytes.
    pub fn descriptor(&self) -> Option<KeyDescriptor> {
        self.descriptor
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for RawKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawKey")
    }
}

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
    if let Some(descriptor) = key.descriptor {
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

/// The bytes that have these hexadecimal digits.
pub(crate) fn from_hex(digits: &str) -> Option<Zeroizing<Vec<u8>>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
    for pair in pairs {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        bytes.push((high? * 16 + low?) as u8);
    }
    rest.is_empty().then_some(bytes)
}

/// A key, or whatever else follows, behind the descriptor that it begins with, if it does: 16 digits and a colon.
pub fn split_descriptor(text: &[u8]) -> (Option<KeyDescriptor>, &[u8]) {
    let descriptor = text.split_first_chunk::<16>().and_then(|(digits, rest)| {
        let rest = rest.strip_prefix(b":")?;
        let bytes = from_hex(std::str::from_utf8(digits).ok()?)?;
        Some((bytes.as_slice().try_into().ok()?, rest))
    });
    match descriptor {
        Some((descriptor, rest)) => (Some(descriptor), rest),
        None => (None, text),
    }
}

/// The name of a key that has these digits.
pub(crate) fn key_name(digits: &str) -> Option<KeyName> {
    let bytes = from_hex(digits)?;
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
    fn a_key_has_16_to_64_bytes() {
        for (len, is_key) in [
            (0, false),
            (15, false),
            (16, true),
            (64, true),
            (65, false),
            (999, false),
        ] {
            let read = RawKey::read(&*vec![7; len]).expect("reads");
            assert_eq!(read.is_some(), is_key, "{len}");
        }
        let key = RawKey::read(&[7; 32][..]).expect("reads");
        let named = key.clone().map(|key| key.named(Some([1; 8])));
        assert_eq!(format!("{named:?}"), "Some(RawKey)");
        assert_eq!(format!("{key:?}"), "Some(RawKey)");
    }

    #[test]
    fn a_descriptor_is_before_a_colon() {
        let given = |text: &str| {
            let (descriptor, rest) = split_descriptor(text.as_bytes());
            (descriptor, String::from_utf8(rest.to_vec()).expect("text"))
        };
        let descriptor = Some([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        let (file, full) = ("key:1".to_owned(), "0123456789abcdef:key:1");
        assert_eq!(given(full), (descriptor, file.clone()));
        assert_eq!(given(&full.to_uppercase()).0, descriptor);
        assert_eq!(given(&file), (None, file.clone()));
        for whole in [
            "",
            "0123456789abcdef",
            "0123456789abcdeg:key",
            "./0123456789abcdef:key",
        ] {
            assert_eq!(given(whole), (None, whole.to_owned()));
        }
    }

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

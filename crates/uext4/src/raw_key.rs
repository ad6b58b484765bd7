//! Keys of encrypted files as programs are given them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read};
use uext4_ext4::MASTER_KEY_BYTES;
use uext4_ondisk::KeyDescriptor;
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

/// The bytes that have these hexadecimal digits.
pub fn key_from_hex(digits: &str) -> Option<Zeroizing<Vec<u8>>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
    for pair in pairs {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        bytes.push((high? * 16 + low?) as u8);
    }
    rest.is_empty().then_some(bytes)
}

/// A key, or whatever else follows, behind the descriptor that it begins with, if it does: 16 digits and a colon.
pub fn split_key_descriptor(text: &[u8]) -> (Option<KeyDescriptor>, &[u8]) {
    let descriptor = text.split_first_chunk::<16>().and_then(|(digits, rest)| {
        let rest = rest.strip_prefix(b":")?;
        let bytes = key_from_hex(std::str::from_utf8(digits).ok()?)?;
        Some((bytes.as_slice().try_into().ok()?, rest))
    });
    match descriptor {
        Some((descriptor, rest)) => (Some(descriptor), rest),
        None => (None, text),
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
            let (descriptor, rest) = split_key_descriptor(text.as_bytes());
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
}

//! Names of an encrypted directory as they are shown without its key: base64url, without padding, of the name's hash and its ciphertext, whose
//! end is replaced with its SHA-256 if it is long.

use crate::hash::NameHash;
use sha2::{Digest, Sha256};

/// The most bytes of ciphertext that are in a name.
const CIPHERTEXT_MAX: usize = 149;
/// Bytes of the hash before them.
const HASH_BYTES: usize = 8;
const DIGEST_BYTES: usize = 32;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What a name shows of the end of its ciphertext.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoKeyRest {
    /// Nothing is left out.
    None,
    /// The SHA-256 of what is left out.
    Digest([u8; DIGEST_BYTES]),
}

/// A name as it is shown without the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoKeyName {
    /// Where the tree of hashes has the entry; zeros if the directory is not read in the order of hashes.
    pub hash: NameHash,
    /// The ciphertext, or its start.
    pub ciphertext: Vec<u8>,
    /// The end.
    pub rest: NoKeyRest,
}

impl NoKeyName {
    /// The name of an entry.
    pub fn new(hash: NameHash, ciphertext: &[u8]) -> NoKeyName {
        let (start, rest) = match ciphertext.split_at_checked(CIPHERTEXT_MAX) {
            Some((start, rest)) if !rest.is_empty() => {
                (start, NoKeyRest::Digest(Sha256::digest(rest).into()))
            }
            _ => (ciphertext, NoKeyRest::None),
        };
        NoKeyName {
            hash,
            ciphertext: start.to_vec(),
            rest,
        }
    }

    /// As it is shown.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HASH_BYTES + CIPHERTEXT_MAX + DIGEST_BYTES);
        bytes.extend(self.hash.major.to_le_bytes());
        bytes.extend(self.hash.minor.to_le_bytes());
        bytes.extend(&self.ciphertext);
        if let NoKeyRest::Digest(digest) = &self.rest {
            bytes.extend(digest);
        }
        base64url(&bytes)
    }

    /// The name that is shown like that, if one is.
    pub fn decode(shown: &[u8]) -> Option<NoKeyName> {
        let bytes = from_base64url(shown)?;
        let (major, rest) = bytes.split_first_chunk()?;
        let (minor, rest) = rest.split_first_chunk()?;
        let hash = NameHash {
            major: u32::from_le_bytes(*major),
            minor: u32::from_le_bytes(*minor),
        };
        let (ciphertext, rest) = match rest.split_at_checked(CIPHERTEXT_MAX) {
            Some((start, digest)) if !digest.is_empty() => {
                (start, NoKeyRest::Digest(digest.try_into().ok()?))
            }
            _ => (rest, NoKeyRest::None),
        };
        (!ciphertext.is_empty()).then(|| NoKeyName {
            hash,
            ciphertext: ciphertext.to_vec(),
            rest,
        })
    }

    /// Whether an entry with this name on disk is shown so.
    pub fn is_of(&self, ciphertext: &[u8]) -> bool {
        match &self.rest {
            NoKeyRest::None => self.ciphertext == ciphertext,
            NoKeyRest::Digest(digest) => ciphertext
                .strip_prefix(&*self.ciphertext)
                .is_some_and(|rest| !rest.is_empty() && Sha256::digest(rest).as_slice() == digest),
        }
    }
}

fn base64url(bytes: &[u8]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0, |g, i| {
            g << 8 | u32::from(chunk.get(i).copied().unwrap_or(0))
        });
        let used = chunk.len() + 1;
        let of = |i: usize| DIGITS.get((group >> (18 - 6 * i)) as usize & 63).copied();
        digits.extend((0..used).filter_map(of));
    }
    digits
}

/// The bytes that have these digits; none if they have others.
fn from_base64url(digits: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(digits.len());
    for chunk in digits.chunks(4) {
        let mut group = 0;
        for digit in chunk {
            let value = DIGITS.iter().position(|d| d == digit)?;
            group = group << 6 | value as u32;
        }
        let group = group << (6 * (4 - chunk.len()));
        let of = |i: usize| (group >> (16 - 8 * i)) as u8;
        bytes.extend((0..chunk.len() - 1).map(of));
    }
    (base64url(&bytes) == digits).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: RFC 4648, chapter 10, without padding.
    #[test]
    fn digits_are_those_of_the_rfc() {
        for (bytes, digits) in [
            (&b"f"[..], &b"Zg"[..]),
            (b"fo", b"Zm8"),
            (b"foo", b"Zm9v"),
            (b"foob", b"Zm9vYg"),
            (b"foobar", b"Zm9vYmFy"),
            (b"\xfb\xff", b"-_8"),
        ] {
            assert_eq!(base64url(bytes), digits);
            assert_eq!(from_base64url(digits).as_deref(), Some(bytes));
        }
        for wrong in [&b"Z"[..], b"Zm9v=", b"Zh", b"Z+8"] {
            assert_eq!(from_base64url(wrong), None);
        }
    }

    #[test]
    fn a_name_of_any_length_is_found_by_what_is_shown() {
        for len in [16, 149, 150, 181, 255] {
            let ciphertext: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let name = NoKeyName::new(NameHash { major: 2, minor: 3 }, &ciphertext);
            let shown = name.encode();
            assert!(shown.len() <= 255, "{len}");
            let decoded = NoKeyName::decode(&shown).expect("a name");
            assert_eq!(decoded, name);
            assert!(decoded.is_of(&ciphertext));
            let mut other = ciphertext.clone();
            *other.last_mut().expect("not empty") ^= 1;
            assert!(!decoded.is_of(&other), "{len}");
            assert!(!decoded.is_of(&ciphertext[..len as usize - 1]), "{len}");
        }
        assert_eq!(NoKeyName::decode(b"plain.txt"), None);
        assert_eq!(NoKeyName::decode(b"AAAAAAAAAAA"), None);
    }
}

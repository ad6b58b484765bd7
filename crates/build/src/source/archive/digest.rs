//! What names a blob: `sha256:` or `sha512:` and hexadecimal digits, as the image specification of the OCI has it.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256, Sha512};

/// A digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Digest {
    algorithm: &'static str,
    digits: String,
}

impl Digest {
    /// Reads one.
    ///
    /// # Errors
    /// Text that is none, or of another algorithm.
    pub fn parse(text: &str) -> io::Result<Digest> {
        let wrong = || {
            io::Error::other(format!(
                "`{text}` is not a digest: sha256: or sha512: and its digits"
            ))
        };
        let (algorithm, digits) = text.split_once(':').ok_or_else(wrong)?;
        let (algorithm, len) = match algorithm {
            "sha256" => ("sha256", 64),
            "sha512" => ("sha512", 128),
            _ => return Err(wrong()),
        };
        let is_digit = |letter: u8| matches!(letter, b'0'..=b'9' | b'a'..=b'f');
        match digits.len() == len && digits.bytes().all(is_digit) {
            true => Ok(Digest {
                algorithm,
                digits: digits.to_owned(),
            }),
            false => Err(wrong()),
        }
    }

    /// Where the blob is in a layout.
    pub fn path(&self) -> String {
        format!("blobs/{}/{}", self.algorithm, self.digits)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.digits)
    }
}

enum Hash {
    Sha256(Sha256),
    Sha512(Sha512),
}

/// A stream whose digest is known beforehand, or none.
pub(crate) struct Digested<R> {
    input: R,
    expected: Option<(Digest, Hash)>,
}

impl<R: Read> Digested<R> {
    /// Of a stream.
    pub fn new(input: R, expected: Option<&Digest>) -> Self {
        let expected = expected.map(|digest| {
            let hash = match digest.algorithm {
                "sha256" => Hash::Sha256(Sha256::new()),
                _ => Hash::Sha512(Sha512::new()),
            };
            (digest.clone(), hash)
        });
        Digested { input, expected }
    }

    /// Reads what is left and compares.
    ///
    /// # Errors
    /// Another digest than the one that was expected.
    pub fn finish(mut self) -> io::Result<()> {
        if self.expected.is_some() {
            io::copy(&mut self, &mut io::sink())?;
        }
        let Some((digest, hash)) = self.expected else {
            return Ok(());
        };
        let bytes = match hash {
            Hash::Sha256(hash) => hash.finalize().to_vec(),
            Hash::Sha512(hash) => hash.finalize().to_vec(),
        };
        let found: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match found == digest.digits {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "the digest is {}:{found}, not {digest}",
                digest.algorithm
            ))),
        }
    }
}

impl<R: Read> Read for Digested<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(bytes)?;
        match &mut self.expected {
            Some((_, Hash::Sha256(hash))) => hash.update(&bytes[..n]),
            Some((_, Hash::Sha512(hash))) => hash.update(&bytes[..n]),
            None => {}
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_its_digest_or_fails() {
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = Digest::parse(text).unwrap();
        assert_eq!(digest.to_string(), text);
        Digested::new(&b"abc"[..], Some(&digest)).finish().unwrap();
        Digested::new(&b"abd"[..], Some(&digest))
            .finish()
            .unwrap_err();
        Digested::new(&b"abd"[..], None).finish().unwrap();
        for wrong in [
            "",
            "sha256:",
            "md5:00",
            "sha256:../../../etc/passwd",
            &text.to_uppercase(),
        ] {
            Digest::parse(wrong).unwrap_err();
        }
    }
}

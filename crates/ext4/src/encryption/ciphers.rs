//! The cipher of an inode: how its contents, or its names, are decrypted.

use crate::encryption::adiantum::{self, Adiantum};
use crate::encryption::block_modes::{BLOCK, cbc_decrypt, cts_decrypt, cts_encrypt, xts_decrypt};
use crate::encryption::derivation::MasterKey;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes128Dec, Aes256, Aes256Dec, Aes256Enc};
use hctr2_rs::Hctr2_256;
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use uext4_ondisk::{CipherMode, EncryptionContext, Ino, IvKind};
use zeroize::Zeroizing;

/// What of an inode is encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Encrypted {
    /// The contents of a file.
    Contents,
    /// The names in a directory, the target of a symbolic link.
    Names,
}

/// Why an inode has no cipher although its master key is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoCipher {
    /// The mode is not one for this, or not known.
    Mode(CipherMode),
    /// The master key is too short.
    ShortKey(CipherMode),
}

enum Keyed {
    Xts(Box<(Aes256Dec, Aes256Enc)>),
    CbcEssiv(Box<(Aes128Dec, Aes256Enc)>),
    Cts256(Box<Aes256>),
    Cts128(Box<Aes128>),
    Hctr2(Box<Hctr2_256>),
    Adiantum(Box<Adiantum>),
}

/// Bytes of a vector of HCTR2 and of Adiantum.
const LONG_VECTOR: usize = adiantum::VECTOR;

/// What a vector is made of, beside the data unit's number.
#[derive(Clone, Copy)]
enum Vector {
    /// Nothing.
    Unit,
    /// The upper half.
    Ino(u32),
    /// What is added to the number.
    Added(u32),
    /// The context's nonce, behind the number.
    Nonce([u8; 16]),
}

/// The cipher of an inode; see the module.
pub(crate) struct InodeCipher {
    keyed: Keyed,
    vector: Vector,
}

impl InodeCipher {
    /// The cipher of an inode with this number and context.
    ///
    /// # Errors
    /// Why it has none.
    pub(super) fn new(
        master: &MasterKey,
        context: &EncryptionContext,
        ino: Ino,
        what: Encrypted,
        uuid: &[u8; 16],
    ) -> Result<InodeCipher, NoCipher> {
        let policy = &context.policy;
        let mode = match what {
            Encrypted::Contents => policy.contents,
            Encrypted::Names => policy.names,
        };
        let bytes = match (mode, what) {
            (CipherMode::AES_256_XTS, Encrypted::Contents) => 64,
            (CipherMode::AES_128_CBC, Encrypted::Contents) => 16,
            (CipherMode::AES_256_CTS | CipherMode::AES_256_HCTR2, Encrypted::Names) => 32,
            (CipherMode::AES_128_CTS, Encrypted::Names) => 16,
            (CipherMode::ADIANTUM, _) => 32,
            _ => return Err(NoCipher::Mode(mode)),
        };
        let vector = match policy.iv {
            IvKind::PerFileKey => Vector::Unit,
            IvKind::InoLblk64 => Vector::Ino(ino.0),
            IvKind::InoLblk32 => Vector::Added(hash_ino(master, ino)),
            IvKind::DirectKey if mode == CipherMode::ADIANTUM => Vector::Nonce(context.nonce),
            // A nonce does not fit the vectors of the other modes.
            IvKind::DirectKey => return Err(NoCipher::Mode(mode)),
        };
        let short = NoCipher::ShortKey(mode);
        let key = master.inode_key(context, mode, bytes, uuid).ok_or(short)?;
        Ok(InodeCipher {
            keyed: Keyed::new(mode, &key).ok_or(short)?,
            vector,
        })
    }

    fn iv(&self, unit: u64) -> [u8; BLOCK] {
        let number = match self.vector {
            Vector::Unit | Vector::Nonce(_) => unit,
            Vector::Ino(ino) => unit & u64::from(u32::MAX) | u64::from(ino) << 32,
            Vector::Added(hash) => u64::from(hash.wrapping_add(unit as u32)),
        };
        u128::from(number).to_le_bytes()
    }

    fn long_iv(&self, unit: u64) -> [u8; LONG_VECTOR] {
        let mut iv = [0; LONG_VECTOR];
        iv[..BLOCK].copy_from_slice(&self.iv(unit));
        if let Vector::Nonce(nonce) = self.vector {
            iv[8..24].copy_from_slice(&nonce);
        }
        iv
    }

    /// Decrypts a data unit of a file.
    pub(crate) fn decrypt_unit(&self, number: u64, unit: &mut [u8]) {
        let iv = self.iv(number);
        match &self.keyed {
            Keyed::Xts(keys) => xts_decrypt(&keys.0, &keys.1, iv, unit),
            Keyed::CbcEssiv(keys) => {
                let mut iv = iv.into();
                keys.1.encrypt_block(&mut iv);
                cbc_decrypt(&keys.0, iv.into(), unit.as_chunks_mut().0);
            }
            Keyed::Adiantum(cipher) => cipher.decrypt(&self.long_iv(number), unit),
            Keyed::Cts256(_) | Keyed::Cts128(_) | Keyed::Hctr2(_) => {
                unreachable!("the cipher of names")
            }
        }
    }

    /// Encrypts a name of at least a block, padded.
    pub(crate) fn encrypt_name(&self, name: &mut [u8]) {
        let iv = self.iv(0);
        match &self.keyed {
            Keyed::Cts256(cipher) => cts_encrypt(&**cipher, iv, name),
            Keyed::Cts128(cipher) => cts_encrypt(&**cipher, iv, name),
            Keyed::Hctr2(cipher) => {
                hctr2(&self.long_iv(0), name, |from, iv, to| {
                    cipher.encrypt(from, iv, to)
                });
            }
            Keyed::Adiantum(cipher) => cipher.encrypt(&self.long_iv(0), name),
            Keyed::Xts(_) | Keyed::CbcEssiv(_) => unreachable!("the cipher of contents"),
        }
    }

    /// Decrypts a name of at least a block, with its padding.
    pub(crate) fn decrypt_name(&self, name: &mut [u8]) {
        let iv = self.iv(0);
        match &self.keyed {
            Keyed::Cts256(cipher) => cts_decrypt(&**cipher, iv, name),
            Keyed::Cts128(cipher) => cts_decrypt(&**cipher, iv, name),
            Keyed::Hctr2(cipher) => {
                hctr2(&self.long_iv(0), name, |from, iv, to| {
                    cipher.decrypt(from, iv, to)
                });
            }
            Keyed::Adiantum(cipher) => cipher.decrypt(&self.long_iv(0), name),
            Keyed::Xts(_) | Keyed::CbcEssiv(_) => unreachable!("the cipher of contents"),
        }
    }
}

impl Keyed {
    /// None if the key is not of the mode's length.
    fn new(mode: CipherMode, key: &[u8]) -> Option<Keyed> {
        Some(match mode {
            CipherMode::AES_256_XTS => {
                let (data, tweak) = key.split_at_checked(32)?;
                let data = Aes256Dec::new_from_slice(data).ok()?;
                let tweak = Aes256Enc::new_from_slice(tweak).ok()?;
                Keyed::Xts(Box::new((data, tweak)))
            }
            CipherMode::AES_128_CBC => {
                let data = Aes128Dec::new_from_slice(key).ok()?;
                let vectors = Aes256Enc::new(&Sha256::digest(key));
                Keyed::CbcEssiv(Box::new((data, vectors)))
            }
            CipherMode::AES_256_CTS => Keyed::Cts256(Box::new(Aes256::new_from_slice(key).ok()?)),
            CipherMode::AES_256_HCTR2 if key.len() == 32 => {
                Keyed::Hctr2(Box::new(Hctr2_256::new(key)))
            }
            CipherMode::ADIANTUM => Keyed::Adiantum(Box::new(Adiantum::new(key)?)),
            CipherMode::AES_128_CTS => Keyed::Cts128(Box::new(Aes128::new_from_slice(key).ok()?)),
            _ => return None,
        })
    }
}

/// Applies HCTR2 to a name in place; `work` is given the name, the vector, and where the outcome goes.
fn hctr2(
    iv: &[u8; LONG_VECTOR],
    name: &mut [u8],
    work: impl FnOnce(&[u8], &[u8], &mut [u8]) -> Result<(), hctr2_rs::Error>,
) {
    let from = Zeroizing::new(name.to_vec());
    let done = work(&from, iv, name);
    debug_assert!(done.is_ok(), "a name has a block at least");
}

fn hash_ino(master: &MasterKey, ino: Ino) -> u32 {
    let mut hasher = SipHasher24::new_with_key(&master.inode_hash_key());
    hasher.write(&u64::from(ino.0).to_le_bytes());
    hasher.finish() as u32
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.map(byte).collect()
    }

    /// Source: github.com/google/hctr2, test_vectors/ours/HCTR2/HCTR2_AES256.json: key, vector, clear text, what is encrypted.
    #[test]
    fn hctr2_gives_the_published_values() {
        for [key, vector, clear, encrypted] in [
            [
                "9eebb2493c1cf5f46a99c2c4dfb1f4dd752057ea2c4fcdb2a53d7b491eabfd0f",
                "df63d4abd249f3d8338137607dfa7308d8496d80e82f6254eb0ea9395b457f8a",
                "67c9f23084418e43fbf3b33e79367fe8",
                "2738784716d971352e7edd7e433cb840",
            ],
            [
                "362b5797f85dcd995f1a5a441d920f27cc16d72b856399d3ba96a1dbd26068da",
                "ef5869b12c5e9a4724c1b169e112938f433d6d00db5ed8d9129afed9ff2daac4",
                "5ea8681985981223260accdb0a04b9df4db3487bb0e3c819435a4606942df2",
                "dbfdc803d0ecc1febd6437b88243624e7e54a3e224a727e8a4d5b36cb226b4",
            ],
        ] {
            let cipher = Hctr2_256::new(&bytes(key));
            let (clear, encrypted) = (bytes(clear), bytes(encrypted));
            let mut out = vec![0; clear.len()];
            cipher.encrypt(&clear, &bytes(vector), &mut out).unwrap();
            assert_eq!(out, encrypted);
            cipher
                .decrypt(&encrypted, &bytes(vector), &mut out)
                .unwrap();
            assert_eq!(out, clear);
        }
    }

    /// The vector of a name is all zeros.
    #[test]
    fn names_by_hctr2_are_decrypted_again() {
        let keyed = Keyed::new(CipherMode::AES_256_HCTR2, &[7; 32]).unwrap();
        let cipher = InodeCipher {
            keyed,
            vector: Vector::Unit,
        };
        let mut name = *b"a name of some le";
        cipher.encrypt_name(&mut name);
        let mut expected = [0; 17];
        let reference = Hctr2_256::new(&[7; 32]);
        reference
            .encrypt(b"a name of some le", &[0; 32], &mut expected)
            .unwrap();
        assert_eq!(name, expected);
        cipher.decrypt_name(&mut name);
        assert_eq!(&name, b"a name of some le");
    }
}

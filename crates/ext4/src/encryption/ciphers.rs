//! The cipher of an inode: how its contents, or its names, are decrypted.

use crate::encryption::block_modes::{BLOCK, cbc_decrypt, cts_decrypt, cts_encrypt, xts_decrypt};
use crate::encryption::derivation::MasterKey;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes128Dec, Aes256, Aes256Dec, Aes256Enc};
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use uext4_ondisk::{CipherMode, EncryptionContext, Ino, IvKind};

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
}

/// What a vector is made of, beside the data unit's number.
#[derive(Clone, Copy)]
enum Vector {
    /// Nothing.
    Unit,
    /// The upper half.
    Ino(u32),
    /// What is added to the number.
    Added(u32),
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
            (CipherMode::AES_256_CTS, Encrypted::Names) => 32,
            (CipherMode::AES_128_CTS, Encrypted::Names) => 16,
            _ => return Err(NoCipher::Mode(mode)),
        };
        let vector = match policy.iv {
            IvKind::PerFileKey => Vector::Unit,
            IvKind::InoLblk64 => Vector::Ino(ino.0),
            IvKind::InoLblk32 => Vector::Added(hash_ino(master, ino)),
            // A nonce does not fit the vectors of these modes.
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
            Vector::Unit => unit,
            Vector::Ino(ino) => unit & u64::from(u32::MAX) | u64::from(ino) << 32,
            Vector::Added(hash) => u64::from(hash.wrapping_add(unit as u32)),
        };
        u128::from(number).to_le_bytes()
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
            Keyed::Cts256(_) | Keyed::Cts128(_) => unreachable!("the cipher of names"),
        }
    }

    /// Encrypts a name of at least a block, padded.
    pub(crate) fn encrypt_name(&self, name: &mut [u8]) {
        let iv = self.iv(0);
        match &self.keyed {
            Keyed::Cts256(cipher) => cts_encrypt(&**cipher, iv, name),
            Keyed::Cts128(cipher) => cts_encrypt(&**cipher, iv, name),
            Keyed::Xts(_) | Keyed::CbcEssiv(_) => unreachable!("the cipher of contents"),
        }
    }

    /// Decrypts a name of at least a block, with its padding.
    pub(crate) fn decrypt_name(&self, name: &mut [u8]) {
        let iv = self.iv(0);
        match &self.keyed {
            Keyed::Cts256(cipher) => cts_decrypt(&**cipher, iv, name),
            Keyed::Cts128(cipher) => cts_decrypt(&**cipher, iv, name),
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
            CipherMode::AES_128_CTS => Keyed::Cts128(Box::new(Aes128::new_from_slice(key).ok()?)),
            _ => return None,
        })
    }
}

fn hash_ino(master: &MasterKey, ino: Ino) -> u32 {
    let mut hasher = SipHasher24::new_with_key(&master.inode_hash_key());
    hasher.write(&u64::from(ino.0).to_le_bytes());
    hasher.finish() as u32
}

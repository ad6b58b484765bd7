//! Keys that follow from a master key.

use crate::encryption::block_modes::BLOCK;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use hkdf::Hkdf;
use sha2::{Digest, Sha512};
use uext4_ondisk::{CipherMode, EncryptionContext, IvKind, KeyDescriptor, KeyName};
use zeroize::Zeroizing;

/// What a key of version 2 is derived for.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Purpose {
    Identifier = 1,
    PerFile = 2,
    Direct = 3,
    InoLblk64 = 4,
    DirHash = 5,
    InoLblk32 = 6,
    InodeHash = 7,
}

/// Bytes before the number of the purpose.
const INFO_START: &[u8] = b"fscrypt\0";

/// The bytes of a master key.
pub(super) struct MasterKey(Zeroizing<Vec<u8>>);

impl MasterKey {
    pub(super) fn new(raw: &[u8]) -> MasterKey {
        MasterKey(Zeroizing::new(raw.to_vec()))
    }

    /// The name by which policies of version 1 find it, unless another is chosen for it.
    pub(super) fn descriptor(&self) -> KeyDescriptor {
        let twice = Sha512::digest(Sha512::digest(&*self.0));
        let mut descriptor = [0; 8];
        descriptor.copy_from_slice(&twice[..8]);
        descriptor
    }

    /// The name by which policies of version 2 find it.
    pub(super) fn identifier(&self) -> KeyName {
        let mut identifier = [0; 16];
        self.expand(Purpose::Identifier, &[], &mut identifier);
        KeyName::Identifier(identifier)
    }

    fn expand(&self, purpose: Purpose, info: &[u8], key: &mut [u8]) {
        let hkdf = Hkdf::<Sha512>::new(None, &self.0);
        let done = hkdf.expand_multi_info(&[INFO_START, &[purpose as u8], info], key);
        debug_assert!(done.is_ok(), "a key is no longer than 255 hashes");
    }

    /// The key of `bytes` bytes of an inode with this context, in a mode; none if the master key is too short for it.
    pub(super) fn inode_key(
        &self,
        context: &EncryptionContext,
        mode: CipherMode,
        bytes: usize,
        uuid: &[u8; 16],
    ) -> Option<Zeroizing<Vec<u8>>> {
        let mut key = Zeroizing::new(vec![0; bytes]);
        let (mode, nonce) = ([mode.0], &context.nonce);
        match (context.policy.key, context.policy.iv) {
            (KeyName::Descriptor(_), iv) => {
                key.copy_from_slice(self.0.get(..bytes)?);
                if iv != IvKind::DirectKey {
                    encrypt_ecb(nonce, &mut key);
                }
            }
            (KeyName::Identifier(_), IvKind::PerFileKey) => {
                self.expand(Purpose::PerFile, nonce, &mut key);
            }
            (KeyName::Identifier(_), IvKind::DirectKey) => {
                self.expand(Purpose::Direct, &mode, &mut key);
            }
            (KeyName::Identifier(_), IvKind::InoLblk64) => {
                self.expand(Purpose::InoLblk64, &[&mode[..], uuid].concat(), &mut key);
            }
            (KeyName::Identifier(_), IvKind::InoLblk32) => {
                self.expand(Purpose::InoLblk32, &[&mode[..], uuid].concat(), &mut key);
            }
        }
        Some(key)
    }

    /// The key by which the names in a directory with this context are hashed, if it ignores case.
    pub(super) fn dir_hash_key(&self, context: &EncryptionContext) -> Zeroizing<[u8; 16]> {
        let mut key = Zeroizing::new([0; 16]);
        self.expand(Purpose::DirHash, &context.nonce, &mut *key);
        key
    }

    /// The key by which inode numbers are hashed.
    pub(super) fn inode_hash_key(&self) -> Zeroizing<[u8; 16]> {
        let mut key = Zeroizing::new([0; 16]);
        self.expand(Purpose::InodeHash, &[], &mut *key);
        key
    }
}

fn encrypt_ecb(nonce: &[u8; 16], data: &mut [u8]) {
    let cipher = aes::Aes128::new(nonce.into());
    let (blocks, _) = data.as_chunks_mut::<BLOCK>();
    cipher.encrypt_blocks(aes::Block::cast_slice_from_core_mut(blocks));
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The names that Linux 6.18 has of this key, which `tests/kernel/encryption.rs` compares with it.
    #[test]
    fn a_key_has_the_names_that_the_kernel_gives_it() {
        let raw: Vec<u8> = (0..64).map(|i| (i * 5 + 3) as u8).collect();
        let master = MasterKey::new(&raw);
        let names = [
            KeyName::Descriptor(master.descriptor()),
            master.identifier(),
        ];
        let names = names.map(|name| name.to_string());
        assert_eq!(
            names,
            ["6c33af2d78f4fc3c", "d63209390f7570f12ed712554119f849"].map(str::to_owned)
        );
    }

    /// Source: NIST SP 800-38A, F.1.1: the nonce is the key of that example.
    #[test]
    fn a_key_of_version_1_is_the_master_key_encrypted() {
        let nonce = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
        let mut key = 0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a_u128.to_be_bytes();
        encrypt_ecb(&nonce, &mut key);
        assert_eq!(hex(&key), "3ad77bb40d7a3660a89ecaf32466ef97");
    }
}

//! The context of an encrypted inode.

use std::fmt;

/// Bytes of the nonce that each inode has.
pub const NONCE_BYTES: usize = 16;

/// Versions of a context.
const V1: u8 = 1;
const V2: u8 = 2;
/// Bytes of a context of each version.
const V1_BYTES: usize = 28;
const V2_BYTES: usize = 40;
/// Flags of a policy.
const FLAG_DIRECT_KEY: u8 = 0x04;
const FLAG_IV_INO_LBLK_64: u8 = 0x08;
const FLAG_IV_INO_LBLK_32: u8 = 0x10;
const PADDING_MASK: u8 = 0x03;

/// A cipher in a mode of operation, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CipherMode(pub u8);

impl CipherMode {
    /// AES-256-XTS, of contents.
    pub const AES_256_XTS: CipherMode = CipherMode(1);
    /// AES-256-CBC with ciphertext stealing, of names.
    pub const AES_256_CTS: CipherMode = CipherMode(4);
    /// AES-128-CBC with ESSIV, of contents.
    pub const AES_128_CBC: CipherMode = CipherMode(5);
    /// AES-128-CBC with ciphertext stealing, of names.
    pub const AES_128_CTS: CipherMode = CipherMode(6);
    /// Adiantum.
    pub const ADIANTUM: CipherMode = CipherMode(9);
    /// AES-256-HCTR2, of names.
    pub const AES_256_HCTR2: CipherMode = CipherMode(10);
}

impl fmt::Display for CipherMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            1 => "AES-256-XTS",
            4 => "AES-256-CTS-CBC",
            5 => "AES-128-CBC-ESSIV",
            6 => "AES-128-CTS-CBC",
            7 => "SM4-XTS",
            8 => "SM4-CTS-CBC",
            9 => "Adiantum",
            10 => "AES-256-HCTR2",
            number => return write!(f, "mode {number}"),
        })
    }
}

/// How a version 1 policy names a master key.
pub type KeyDescriptor = [u8; 8];

/// How a policy names its master key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyName {
    /// Of version 1: any eight bytes, by habit the first of the key hashed twice.
    Descriptor(KeyDescriptor),
    /// Of version 2: derived from the key.
    Identifier([u8; 16]),
}

impl KeyName {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            KeyName::Descriptor(bytes) => bytes,
            KeyName::Identifier(bytes) => bytes,
        }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What an inode's key and its initialization vectors are made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IvKind {
    /// A key of each inode's own; the vector is the data unit's number.
    PerFileKey,
    /// One key for all inodes; the vector has the nonce.
    DirectKey,
    /// One key for all inodes of a file system; the vector has the inode's number.
    InoLblk64,
    /// The same, with the hash of the inode's number added to the data unit's.
    InoLblk32,
}

/// How an inode is encrypted, and by which key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EncryptionPolicy {
    /// Of contents.
    pub contents: CipherMode,
    /// Of names and of targets of symbolic links.
    pub names: CipherMode,
    /// What keys and vectors are made of.
    pub iv: IvKind,
    /// Names are padded with zeros to a multiple of that many bytes.
    pub name_padding: usize,
    /// Logarithm of the bytes of a data unit; none for the file system's blocks.
    pub log2_data_unit: Option<u8>,
    /// The master key.
    pub key: KeyName,
}

/// The context of an encrypted inode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EncryptionContext {
    /// How it is encrypted.
    pub policy: EncryptionPolicy,
    /// Of this inode alone.
    pub nonce: [u8; NONCE_BYTES],
}

/// Why a context is not understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnknownContext {
    /// Its version.
    Version(u8),
    /// Its length, of a known version.
    Length(usize),
    /// Its flags: unknown, or two kinds of vectors.
    Flags(u8),
}

impl fmt::Display for UnknownContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownContext::Version(version) => write!(f, "version {version}"),
            UnknownContext::Length(bytes) => write!(f, "a length of {bytes} bytes"),
            UnknownContext::Flags(flags) => write!(f, "flags {flags:#x}"),
        }
    }
}

impl EncryptionContext {
    /// Decodes the value of the attribute.
    ///
    /// # Errors
    /// What of it is unknown.
    pub fn decode(bytes: &[u8]) -> Result<EncryptionContext, UnknownContext> {
        let length = UnknownContext::Length(bytes.len());
        let ([version, contents, names, flags], rest) = bytes.split_first_chunk().ok_or(length)?;
        let (key, nonce, unit) = match (*version, bytes.len()) {
            (V1, V1_BYTES) => {
                let (key, nonce) = rest.split_first_chunk().ok_or(length)?;
                (KeyName::Descriptor(*key), nonce, 0)
            }
            (V2, V2_BYTES) => {
                let ([unit, _reserved @ ..], rest) = rest.split_first_chunk::<4>().ok_or(length)?;
                let (key, nonce) = rest.split_first_chunk().ok_or(length)?;
                (KeyName::Identifier(*key), nonce, *unit)
            }
            (V1 | V2, _) => return Err(length),
            _ => return Err(UnknownContext::Version(*version)),
        };
        let iv = match *flags & !PADDING_MASK {
            0 => IvKind::PerFileKey,
            FLAG_DIRECT_KEY => IvKind::DirectKey,
            FLAG_IV_INO_LBLK_64 if *version == V2 => IvKind::InoLblk64,
            FLAG_IV_INO_LBLK_32 if *version == V2 => IvKind::InoLblk32,
            _ => return Err(UnknownContext::Flags(*flags)),
        };
        Ok(EncryptionContext {
            policy: EncryptionPolicy {
                contents: CipherMode(*contents),
                names: CipherMode(*names),
                iv,
                name_padding: 4 << (*flags & PADDING_MASK),
                log2_data_unit: (unit != 0).then_some(unit),
                key,
            },
            nonce: *nonce.first_chunk().ok_or(length)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(version: u8, flags: u8, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len as u8).collect();
        bytes[..4].copy_from_slice(&[version, 1, 4, flags]);
        bytes
    }

    #[test]
    fn both_versions_are_decoded() {
        let v1 = EncryptionContext::decode(&context(1, 2, 28)).expect("version 1");
        assert_eq!(v1.policy.key.as_bytes(), (4..12).collect::<Vec<u8>>());
        assert_eq!(v1.nonce.to_vec(), (12..28).collect::<Vec<u8>>());
        assert_eq!(v1.policy.name_padding, 16);
        assert_eq!(v1.policy.log2_data_unit, None);
        let v2 = EncryptionContext::decode(&context(2, 3 | 8, 40)).expect("version 2");
        assert_eq!(
            v2.policy.key.to_string(),
            "08090a0b0c0d0e0f1011121314151617"
        );
        assert_eq!(v2.nonce.to_vec(), (24..40).collect::<Vec<u8>>());
        assert_eq!(v2.policy.name_padding, 32);
        assert_eq!(v2.policy.iv, IvKind::InoLblk64);
        assert_eq!(v2.policy.log2_data_unit, Some(4));
    }

    #[test]
    fn what_is_unknown_is_told() {
        let decode = |bytes: &[u8]| EncryptionContext::decode(bytes).expect_err("is unknown");
        assert_eq!(decode(&[]), UnknownContext::Length(0));
        assert_eq!(decode(&context(2, 0, 28)), UnknownContext::Length(28));
        assert_eq!(decode(&context(3, 0, 40)), UnknownContext::Version(3));
        assert_eq!(decode(&context(2, 0x18, 40)), UnknownContext::Flags(0x18));
        assert_eq!(decode(&context(1, 8, 28)), UnknownContext::Flags(8));
    }
}

//! Extended attributes: in the inode after its fields, or in a block of their own.
//!
//! Source: Linux documentation, filesystems/ext4, "Extended Attributes".
//!
//! # Data model
//! [`XattrArea`] is a view of validated bytes; finding a name allocates nothing. A change is made in an
//! [`XattrList`](crate::XattrList), which encodes to either place.

use crate::bytes::{le16, le32, put_le32, round4};
use crate::checksum::{CsumSeed, crc32c};
use crate::corrupt::{Corrupt, CorruptKind, Result};
use crate::inode::{GOOD_OLD_INODE_SIZE, extra_isize};
use crate::types::{Ino, Pblk};

/// Magic of both places.
pub const XATTR_MAGIC: u32 = 0xea02_0000;
/// Largest value, wherever it is.
pub const XATTR_VALUE_MAX: u32 = 1 << 24;

pub(crate) const BLOCK_HEADER: usize = 32;
pub(crate) const ENTRY_HEADER: usize = 16;
pub(crate) const REFCOUNT_AT: usize = 4;
pub(crate) const HASH_AT: usize = 12;
const CHECKSUM_AT: usize = 16;

/// Number that stands for the front of a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct XattrIndex(pub u8);

impl XattrIndex {
    /// `user.`
    pub const USER: XattrIndex = XattrIndex(1);
    /// `system.posix_acl_access`, all of the name
    pub const POSIX_ACL_ACCESS: XattrIndex = XattrIndex(2);
    /// `system.posix_acl_default`, all of the name
    pub const POSIX_ACL_DEFAULT: XattrIndex = XattrIndex(3);
    /// `trusted.`
    pub const TRUSTED: XattrIndex = XattrIndex(4);
    /// `lustre.`
    pub const LUSTRE: XattrIndex = XattrIndex(5);
    /// `security.`
    pub const SECURITY: XattrIndex = XattrIndex(6);
    /// `system.`
    pub const SYSTEM: XattrIndex = XattrIndex(7);
    /// `system.richacl`, all of the name
    pub const RICHACL: XattrIndex = XattrIndex(8);
    /// Encryption context; not visible.
    pub const ENCRYPTION: XattrIndex = XattrIndex(9);
    /// `gnu.`
    pub const HURD: XattrIndex = XattrIndex(10);

    /// Prefixes, whole names before the prefixes that they start with.
    const PREFIXES: [(&'static str, XattrIndex); 9] = [
        ("user.", Self::USER),
        ("system.posix_acl_access", Self::POSIX_ACL_ACCESS),
        ("system.posix_acl_default", Self::POSIX_ACL_DEFAULT),
        ("system.richacl", Self::RICHACL),
        ("trusted.", Self::TRUSTED),
        ("lustre.", Self::LUSTRE),
        ("security.", Self::SECURITY),
        ("system.", Self::SYSTEM),
        ("gnu.", Self::HURD),
    ];

    /// The front of the name; empty for an unknown number and for [`XattrIndex::ENCRYPTION`].
    pub fn prefix(self) -> &'static str {
        Self::PREFIXES
            .iter()
            .find(|(_, i)| *i == self)
            .map_or("", |(p, _)| p)
    }

    /// Splits a full name into its number and the rest; `None` if the front is unknown.
    pub fn split_name(full: &[u8]) -> Option<(XattrIndex, &[u8])> {
        Self::PREFIXES.iter().find_map(|(p, i)| {
            let rest = full.strip_prefix(p.as_bytes())?;
            (p.ends_with('.') != rest.is_empty()).then_some((*i, rest))
        })
    }
}

/// Name of the attribute with the rest of inline data, under [`XattrIndex::SYSTEM`].
pub const XATTR_NAME_DATA: &[u8] = b"data";

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrValue<'a> {
    /// Next to the entry.
    Inline(&'a [u8]),
    /// In an inode of its own (`ea_inode`).
    Inode {
        /// The inode.
        ino: Ino,
        /// Bytes of the value.
        size: u32,
    },
}

/// An attribute, read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XattrEntry<'a> {
    /// Front of the name.
    pub index: XattrIndex,
    /// Rest of the name.
    pub name: &'a [u8],
    /// Where the value is.
    pub value: XattrValue<'a>,
    /// Hash of name and value; 0 is "not computed".
    pub hash: u32,
}

/// Attributes in one of the two places, validated.
#[derive(Clone, Copy, Debug)]
pub struct XattrArea<'a> {
    /// Value offsets count from here.
    base: &'a [u8],
    entries_at: usize,
}

impl<'a> XattrArea<'a> {
    /// The attributes of a block.
    ///
    /// # Errors
    /// The `Xattr*` kind of the first check that fails.
    pub fn in_block(block: &'a [u8]) -> Result<Self> {
        if block.len() < BLOCK_HEADER + 4 {
            return Err(CorruptKind::XattrShort.into());
        }
        if le32(block, 0) != Some(XATTR_MAGIC) {
            return Err(CorruptKind::XattrHeaderMagic.into());
        }
        if le32(block, 8) != Some(1) {
            return Err(CorruptKind::XattrBlocks.into());
        }
        XattrArea {
            base: block,
            entries_at: BLOCK_HEADER,
        }
        .validated()
    }

    /// The attributes in an inode's bytes; `None` if there are none, or there is no room for any.
    ///
    /// # Errors
    /// [`CorruptKind::InodeExtraSize`], or the `Xattr*` kind of the first check that fails.
    pub fn in_inode(raw: &'a [u8]) -> Result<Option<Self>> {
        let at = GOOD_OLD_INODE_SIZE + usize::from(extra_isize(raw)?);
        if le32(raw, at) != Some(XATTR_MAGIC) || le16(raw, 0x80) == Some(0) {
            return Ok(None);
        }
        let base = raw.get(at + 4..).unwrap_or(&[]);
        XattrArea {
            base,
            entries_at: 0,
        }
        .validated()
        .map(Some)
    }

    /// Walks the entries, then the values: those must lie behind the last entry.
    fn validated(self) -> Result<Self> {
        let mut at = self.entries_at;
        while let Some(next) = self.next_entry(at)? {
            at = next;
        }
        let names_end = at + 4;
        at = self.entries_at;
        while let Some(next) = self.next_entry(at)? {
            self.check_value(at, names_end)?;
            at = next;
        }
        Ok(self)
    }

    /// Where the entry after the one at `at` starts; `None` if `at` is the end.
    fn next_entry(&self, at: usize) -> Result<Option<usize>> {
        let bad = || Corrupt::new(CorruptKind::XattrEntryEnd).detail(format_args!("offset {at}"));
        if le32(self.base, at).ok_or_else(bad)? == 0 {
            return Ok(None);
        }
        let name_len = usize::from(*self.base.get(at).ok_or_else(bad)?);
        let next = at + round4(ENTRY_HEADER + name_len);
        // There must be room for the end marker behind every entry.
        if next + 4 > self.base.len() {
            return Err(bad());
        }
        Ok(Some(next))
    }

    fn check_value(&self, at: usize, names_end: usize) -> Result<()> {
        let fail = |kind| Err(Corrupt::new(kind).detail(format_args!("offset {at}")));
        let word = |o| le32(self.base, at + o).unwrap_or(0);
        let (inum, size) = (word(4), word(8));
        if size > XATTR_VALUE_MAX {
            return fail(CorruptKind::XattrValueSize);
        }
        if inum != 0 {
            return if inum < Ino::GOOD_OLD_FIRST.0 {
                fail(CorruptKind::XattrValueInode)
            } else {
                Ok(())
            };
        }
        if size == 0 {
            return Ok(());
        }
        let start = usize::from(le16(self.base, at + 2).unwrap_or(0));
        if start + size as usize > self.base.len() {
            return fail(CorruptKind::XattrValueEnd);
        }
        if start < names_end {
            return fail(CorruptKind::XattrValueOverlap);
        }
        Ok(())
    }

    fn entry(&self, at: usize) -> Option<XattrEntry<'a>> {
        let head = self.base.get(at..)?.first_chunk::<ENTRY_HEADER>()?;
        let [name_len, index, ..] = *head;
        let (start, inum) = (usize::from(le16(head, 2)?), le32(head, 4)?);
        let size = le32(head, 8)?;
        let value = match (inum, size) {
            (0, 0) => XattrValue::Inline(&[]),
            (0, _) => XattrValue::Inline(self.base.get(start..)?.get(..size as usize)?),
            _ => XattrValue::Inode {
                ino: Ino(inum),
                size,
            },
        };
        Some(XattrEntry {
            index: XattrIndex(index),
            name: self
                .base
                .get(at + ENTRY_HEADER..)?
                .get(..usize::from(name_len))?,
            value,
            hash: le32(head, 12)?,
        })
    }

    /// The attributes, in the order they are stored.
    pub fn entries(&self) -> impl Iterator<Item = XattrEntry<'a>> + use<'a> {
        let area = *self;
        let mut at = area.entries_at;
        std::iter::from_fn(move || {
            let next = area.next_entry(at).ok()??;
            let e = area.entry(at);
            at = next;
            e
        })
    }

    /// Finds an attribute.
    pub fn find(&self, index: XattrIndex, name: &[u8]) -> Option<XattrEntry<'a>> {
        self.entries().find(|e| e.index == index && e.name == name)
    }

    /// Checks the hashes of entries with inline values, as e2fsck does; 0 counts as right.
    ///
    /// # Errors
    /// [`CorruptKind::XattrEntryHash`].
    pub fn verify_hashes(&self) -> Result<()> {
        for e in self.entries() {
            let XattrValue::Inline(value) = e.value else {
                continue;
            };
            let signed = || entry_hash(name_hash_signed(e.name), value);
            if e.hash != 0 && e.hash != xattr_entry_hash(e.name, value) && e.hash != signed() {
                let name = String::from_utf8_lossy(e.name).into_owned();
                return Err(Corrupt::new(CorruptKind::XattrEntryHash).detail(name));
            }
        }
        Ok(())
    }
}

fn name_hash(name: impl Iterator<Item = u32>) -> u32 {
    name.fold(0, |h: u32, b| h.rotate_left(5) ^ b)
}

/// Hash of kernels that took names as signed characters.
fn name_hash_signed(name: &[u8]) -> u32 {
    name_hash(name.iter().map(|b| i32::from(*b as i8) as u32))
}

fn entry_hash(name: u32, value: &[u8]) -> u32 {
    let (words, rest) = value.as_chunks::<4>();
    let step = |h: u32, w: [u8; 4]| h.rotate_left(16) ^ u32::from_le_bytes(w);
    let hash = words.iter().fold(name, |h, w| step(h, *w));
    if rest.is_empty() {
        return hash;
    }
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    step(hash, last)
}

/// Hash of an entry with its value next to it.
pub fn xattr_entry_hash(name: &[u8], value: &[u8]) -> u32 {
    entry_hash(name_hash(name.iter().map(|b| u32::from(*b))), value)
}

/// Hash of an entry with its value in an inode; `value_hash` is [`xattr_inode_hash`].
pub fn xattr_inode_entry_hash(name: &[u8], value_hash: u32) -> u32 {
    xattr_entry_hash(name, &value_hash.to_le_bytes())
}

/// Hash of a value that is in an inode of its own.
pub fn xattr_inode_hash(seed: CsumSeed, value: &[u8]) -> u32 {
    crc32c(seed.0, value)
}

/// Inodes that share a block.
pub fn xattr_refcount(block: &[u8]) -> Option<u32> {
    le32(block, REFCOUNT_AT)
}

/// Stores the number of inodes that share a block.
pub fn xattr_refcount_set(block: &mut [u8], n: u32) {
    // A block has at least 1024 bytes.
    let _ = put_le32(block, REFCOUNT_AT, n);
}

fn block_checksum(block: &[u8], seed: CsumSeed, at: Pblk) -> Option<u32> {
    let crc = crc32c(seed.0, &at.0.to_le_bytes());
    let crc = crc32c(crc, block.get(..CHECKSUM_AT)?);
    Some(crc32c(crc32c(crc, &[0; 4]), block.get(CHECKSUM_AT + 4..)?))
}

/// Stores the checksum of the block at `at`. The last step before writing.
pub fn xattr_block_checksum_set(block: &mut [u8], seed: CsumSeed, at: Pblk) {
    if let Some(sum) = block_checksum(block, seed, at) {
        // The computation read the field, so it is there.
        let _ = put_le32(block, CHECKSUM_AT, sum);
    }
}

/// Checks the checksum of the block at `at`.
///
/// # Errors
/// [`CorruptKind::XattrChecksum`].
pub fn xattr_block_checksum_verify(block: &[u8], seed: CsumSeed, at: Pblk) -> Result<()> {
    if le32(block, CHECKSUM_AT).is_some_and(|s| Some(s) == block_checksum(block, seed, at)) {
        Ok(())
    } else {
        Err(Corrupt::new(CorruptKind::XattrChecksum).pblk(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_and_join() {
        for (full, index, rest) in [
            ("user.a.b", XattrIndex::USER, "a.b"),
            ("system.posix_acl_access", XattrIndex::POSIX_ACL_ACCESS, ""),
            (
                "system.posix_acl_accessx",
                XattrIndex::SYSTEM,
                "posix_acl_accessx",
            ),
            ("system.data", XattrIndex::SYSTEM, "data"),
            ("trusted.x", XattrIndex::TRUSTED, "x"),
        ] {
            let got = XattrIndex::split_name(full.as_bytes()).unwrap();
            assert_eq!(got, (index, rest.as_bytes()));
            assert_eq!(format!("{}{rest}", index.prefix()), full);
        }
        assert_eq!(XattrIndex::split_name(b"user."), None);
        assert_eq!(XattrIndex::split_name(b"nonsense.x"), None);
    }
}

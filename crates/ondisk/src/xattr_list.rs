//! Extended attributes to be stored, encoded to an inode or to a block.

use crate::bytes::{put_le16, put_le32, round4};
use crate::inode::{GOOD_OLD_INODE_SIZE, extra_isize};
use crate::types::Ino;
use crate::xattr::*;

/// The attributes do not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("extended attributes do not fit")]
pub struct XattrNoSpace;

/// A value to be stored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum XattrOwnedValue {
    /// Next to the entry.
    Inline(Vec<u8>),
    /// In an inode of its own.
    Inode {
        /// The inode.
        ino: Ino,
        /// Bytes of the value.
        size: u32,
        /// [`xattr_inode_entry_hash`].
        entry_hash: u32,
    },
}

/// An attribute to be stored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Xattr {
    /// Front of the name.
    pub index: XattrIndex,
    /// Rest of the name.
    pub name: Vec<u8>,
    /// The value.
    pub value: XattrOwnedValue,
}

impl Xattr {
    fn key(&self) -> (XattrIndex, usize, &[u8]) {
        (self.index, self.name.len(), &self.name)
    }

    fn entry_size(&self) -> usize {
        round4(ENTRY_HEADER + self.name.len())
    }

    fn value_size(&self) -> usize {
        match &self.value {
            XattrOwnedValue::Inline(v) => round4(v.len()),
            XattrOwnedValue::Inode { .. } => 0,
        }
    }
}

/// Attributes to be stored, in the order of blocks: by index, length of name, name.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct XattrList {
    list: Vec<Xattr>,
}

impl XattrList {
    /// A copy of what an area holds.
    pub fn from_area(area: &XattrArea<'_>) -> Self {
        let mut out = XattrList::default();
        for e in area.entries() {
            let value = match e.value {
                XattrValue::Inline(v) => XattrOwnedValue::Inline(v.to_vec()),
                XattrValue::Inode { ino, size } => XattrOwnedValue::Inode {
                    ino,
                    size,
                    entry_hash: e.hash,
                },
            };
            out.set(e.index, e.name, value);
        }
        out
    }

    /// The attributes.
    pub fn iter(&self) -> impl Iterator<Item = &Xattr> {
        self.list.iter()
    }

    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True without attributes.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn position(&self, index: XattrIndex, name: &[u8]) -> std::result::Result<usize, usize> {
        self.list
            .binary_search_by(|x| x.key().cmp(&(index, name.len(), name)))
    }

    /// Finds an attribute.
    pub fn get(&self, index: XattrIndex, name: &[u8]) -> Option<&Xattr> {
        self.position(index, name)
            .ok()
            .and_then(|i| self.list.get(i))
    }

    /// Adds an attribute or replaces its value; returns what was there.
    pub fn set(
        &mut self,
        index: XattrIndex,
        name: &[u8],
        value: XattrOwnedValue,
    ) -> Option<XattrOwnedValue> {
        match self.position(index, name) {
            Ok(i) => self
                .list
                .get_mut(i)
                .map(|x| std::mem::replace(&mut x.value, value)),
            Err(i) => {
                self.list.insert(
                    i,
                    Xattr {
                        index,
                        name: name.to_vec(),
                        value,
                    },
                );
                None
            }
        }
    }

    /// Removes an attribute and returns it.
    pub fn remove(&mut self, index: XattrIndex, name: &[u8]) -> Option<Xattr> {
        self.position(index, name).ok().map(|i| self.list.remove(i))
    }

    /// Bytes of entries, end marker and values.
    pub fn encoded_size(&self) -> usize {
        self.list
            .iter()
            .map(|x| x.entry_size() + x.value_size())
            .sum::<usize>()
            + 4
    }

    /// Room for [`XattrList::encoded_size`] in a block.
    pub const fn block_room(block_len: usize) -> usize {
        block_len.saturating_sub(BLOCK_HEADER)
    }

    /// Room for [`XattrList::encoded_size`] in an inode.
    pub const fn inode_room(inode_size: u16, extra_isize: u16) -> usize {
        (inode_size as usize).saturating_sub(GOOD_OLD_INODE_SIZE + extra_isize as usize + 4)
    }

    /// Makes a block with reference count 1. The checksum is added later.
    ///
    /// # Errors
    /// [`XattrNoSpace`]; the block is unchanged.
    pub fn encode_block(&self, block: &mut [u8]) -> std::result::Result<(), XattrNoSpace> {
        if self.encoded_size() > Self::block_room(block.len()) {
            return Err(XattrNoSpace);
        }
        block.fill(0);
        let put = |b: &mut [u8], at, v| put_le32(b, at, v).ok_or(XattrNoSpace);
        put(block, 0, XATTR_MAGIC)?;
        put(block, REFCOUNT_AT, 1)?;
        put(block, 8, 1)?;
        let hash = self.encode(block, BLOCK_HEADER, true).ok_or(XattrNoSpace)?;
        put(block, HASH_AT, hash)
    }

    /// Writes the attributes into an inode's bytes, after its fields. An empty list clears the area.
    ///
    /// # Errors
    /// [`XattrNoSpace`], also for an inode without extra fields; the inode is unchanged.
    pub fn encode_in_inode(&self, raw: &mut [u8]) -> std::result::Result<(), XattrNoSpace> {
        let extra = extra_isize(raw).map_err(|_| XattrNoSpace)?;
        let room = Self::inode_room(raw.len().min(32768) as u16, extra);
        if extra == 0 || (room < self.encoded_size() && !self.is_empty()) {
            return if self.is_empty() {
                Ok(())
            } else {
                Err(XattrNoSpace)
            };
        }
        let area = raw
            .get_mut(GOOD_OLD_INODE_SIZE + usize::from(extra)..)
            .unwrap_or(&mut []);
        area.fill(0);
        if self.is_empty() {
            return Ok(());
        }
        put_le32(area, 0, XATTR_MAGIC).ok_or(XattrNoSpace)?;
        let base = area.get_mut(4..).ok_or(XattrNoSpace)?;
        self.encode(base, 0, false).ok_or(XattrNoSpace).map(|_| ())
    }

    /// Writes entries from `at` on and values from the end down, into zeros. Returns the block hash.
    fn encode(&self, base: &mut [u8], mut at: usize, with_hashes: bool) -> Option<u32> {
        let mut end = base.len() & !3;
        let mut block_hash = Some(0u32);
        for x in &self.list {
            let (start, inum, size, hash) = match &x.value {
                XattrOwnedValue::Inline(v) => {
                    end = end.checked_sub(round4(v.len()))?;
                    base.get_mut(end..)?.get_mut(..v.len())?.copy_from_slice(v);
                    let hash = if with_hashes {
                        xattr_entry_hash(&x.name, v)
                    } else {
                        0
                    };
                    (if v.is_empty() { 0 } else { end }, 0, v.len() as u32, hash)
                }
                XattrOwnedValue::Inode {
                    ino,
                    size,
                    entry_hash,
                } => (0, ino.0, *size, *entry_hash),
            };
            *base.get_mut(at)? = x.name.len() as u8;
            *base.get_mut(at + 1)? = x.index.0;
            put_le16(base, at + 2, start as u16)?;
            put_le32(base, at + 4, inum)?;
            put_le32(base, at + 8, size)?;
            put_le32(base, at + 12, hash)?;
            base.get_mut(at + ENTRY_HEADER..)?
                .get_mut(..x.name.len())?
                .copy_from_slice(&x.name);
            // One entry without a hash keeps the whole block from being shared.
            block_hash = block_hash
                .filter(|_| hash != 0)
                .map(|h| h.rotate_left(16) ^ hash);
            at += x.entry_size();
        }
        Some(block_hash.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::CsumSeed;
    use crate::corrupt::CorruptKind;
    use crate::types::Pblk;

    fn inline(v: &[u8]) -> XattrOwnedValue {
        XattrOwnedValue::Inline(v.to_vec())
    }

    fn sample() -> XattrList {
        let mut l = XattrList::default();
        l.set(XattrIndex::USER, b"long-name", inline(b"some value"));
        l.set(XattrIndex::USER, b"a", inline(b""));
        l.set(XattrIndex::SECURITY, b"selinux", inline(b"unconfined\0"));
        let inode = XattrOwnedValue::Inode {
            ino: Ino(20),
            size: 70000,
            entry_hash: 99,
        };
        l.set(XattrIndex::USER, b"big", inode);
        l
    }

    #[test]
    fn block_round_trip() {
        let mut b = vec![0; 1024];
        sample().encode_block(&mut b).unwrap();
        let area = XattrArea::in_block(&b).unwrap();
        assert_eq!(XattrList::from_area(&area), sample());
        area.verify_hashes().unwrap();
        let names: Vec<&[u8]> = area.entries().map(|e| e.name).collect();
        assert_eq!(names, [&b"a"[..], b"big", b"long-name", b"selinux"]);
        assert_eq!(
            area.find(XattrIndex::USER, b"long-name").unwrap().value,
            XattrValue::Inline(b"some value")
        );
        assert_eq!(xattr_refcount(&b), Some(1));
    }

    #[test]
    fn inode_round_trip() {
        let mut raw = vec![0; 256];
        raw[0x80] = 32;
        assert!(XattrArea::in_inode(&raw).unwrap().is_none());
        let mut l = sample();
        assert_eq!(l.encode_in_inode(&mut raw), Err(XattrNoSpace));
        l.remove(XattrIndex::USER, b"long-name").unwrap();
        l.encode_in_inode(&mut raw).unwrap();
        assert_eq!(
            XattrList::from_area(&XattrArea::in_inode(&raw).unwrap().unwrap()),
            l
        );
        XattrList::default().encode_in_inode(&mut raw).unwrap();
        assert!(XattrArea::in_inode(&raw).unwrap().is_none());
        assert!(XattrArea::in_inode(&[0; 128]).unwrap().is_none());
    }

    #[test]
    fn each_corruption_has_its_kind() {
        let kind = |at: usize, v: &[u8]| {
            let mut b = vec![0; 1024];
            sample().encode_block(&mut b).unwrap();
            b[at..at + v.len()].copy_from_slice(v);
            XattrArea::in_block(&b)
                .and_then(|a| a.verify_hashes())
                .unwrap_err()
                .kind
        };
        // Entries: `a` at 32, `big` at 52, `long-name` at 72, `selinux` at 100.
        for (at, v, want) in [
            (0, &[1][..], CorruptKind::XattrHeaderMagic),
            (8, &[2], CorruptKind::XattrBlocks),
            (56, &[3], CorruptKind::XattrValueInode),
            (83, &[2], CorruptKind::XattrValueSize),
            (74, &[0xff, 0xff], CorruptKind::XattrValueEnd),
            (74, &[100, 0], CorruptKind::XattrValueOverlap),
            (84, &[1], CorruptKind::XattrEntryHash),
            (1023, &[0], CorruptKind::XattrEntryHash),
        ] {
            if at != 1023 {
                assert_eq!(kind(at, v), want, "at {at}");
            }
        }
        let mut b = vec![0; 64];
        b[..4].copy_from_slice(&XATTR_MAGIC.to_le_bytes());
        b[8] = 1;
        b[32] = 30;
        assert_eq!(
            XattrArea::in_block(&b).unwrap_err().kind,
            CorruptKind::XattrEntryEnd
        );
        assert_eq!(
            XattrArea::in_block(&b[..32]).unwrap_err().kind,
            CorruptKind::XattrShort
        );
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = fastrand::Rng::with_seed(4);
        for _ in 0..20000 {
            let mut b = vec![0; 256];
            sample().encode_block(&mut b).unwrap();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(32..140);
                b[at] = rng.u8(..);
            }
            if let Ok(a) = XattrArea::in_block(&b) {
                a.entries().for_each(|_| ());
            }
        }
    }

    #[test]
    fn checksum_sees_one_byte() {
        let mut b = vec![0; 1024];
        sample().encode_block(&mut b).unwrap();
        xattr_block_checksum_set(&mut b, CsumSeed(6), Pblk(9));
        for at in 0..1024 {
            b[at] ^= 1;
            let e = xattr_block_checksum_verify(&b, CsumSeed(6), Pblk(9)).unwrap_err();
            assert_eq!(
                (e.kind, e.pblk),
                (CorruptKind::XattrChecksum, Some(Pblk(9)))
            );
            b[at] ^= 1;
        }
        xattr_block_checksum_verify(&b, CsumSeed(6), Pblk(9)).unwrap();
    }
}

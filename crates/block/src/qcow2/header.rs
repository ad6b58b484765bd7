//! The header of a qcow2 image ("QCOW2 Image Format", docs/interop/qcow2 of QEMU).

use crate::device::BlockDevice;
use crate::error::{BlockError, Result as DeviceResult};
use std::ops::Range;
use std::path::Path;

/// The first bytes of every qcow2 image.
pub(crate) const MAGIC: [u8; 4] = *b"QFI\xfb";
/// Bytes that hold the header, its extensions and the name of the backing file.
const HEAD_BYTES: usize = 64 << 10;
/// Bytes of the header of version 2, and least bytes of that of version 3.
const V2_BYTES: usize = 72;
const V3_BYTES: usize = 104;
/// Where the place and the size of the refcount table are.
pub(super) const REFCOUNT_TABLE_AT: u64 = 48;
/// Where the features are that a writer clears that does not know them.
pub(super) const AUTOCLEAR_AT: u64 = 88;
/// Most bytes of the two tables that are read as a whole, as QEMU has them.
const L1_BYTES_MAX: u64 = 32 << 20;
const REFCOUNT_TABLE_BYTES_MAX: u64 = 8 << 20;
/// Most bytes of the name of a backing file.
const NAME_BYTES_MAX: usize = 1023;
/// The type of the extension that names the format of the backing file.
const BACKING_FORMAT: u32 = 0xe279_2aca;

/// Incompatible features, by bit: why an image with them is refused.
const REFUSED: [&str; 5] = [
    "was not closed cleanly (dirty); `qemu-img check -r all` repairs it",
    "is marked corrupt; `qemu-img check -r all` repairs what it can",
    "keeps its data in another file; `qemu-img convert -O qcow2` makes an image of it",
    "is not compressed by zlib; `qemu-img convert -O qcow2` makes an image that is not",
    "has extended L2 entries; `qemu-img convert -O qcow2` makes an image without",
];

/// The file that a qcow2 image shows where it holds nothing itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backing {
    /// Its name, as the image has it.
    pub name: String,
    /// Whether it is a qcow2 image itself; else it is raw.
    pub is_qcow2: bool,
}

/// What the header says, checked.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub version: u32,
    pub cluster_bits: u32,
    /// Bytes of the device.
    pub size: u64,
    pub l1_offset: u64,
    pub l1_entries: usize,
    pub refcount_offset: u64,
    pub refcount_entries: usize,
    /// A refcount has `1 << refcount_order` bits.
    pub refcount_order: u32,
    pub autoclear: u64,
    pub backing: Option<Backing>,
}

/// The first bytes, as many as there are.
pub(crate) fn read_head(file: &dyn BlockDevice, len: usize) -> DeviceResult<Vec<u8>> {
    let mut head = vec![0; file.len().min(len as u64) as usize];
    file.read_at(0, &mut head)?;
    Ok(head)
}

impl Header {
    /// Reads the header of the image in a file; `path` is for messages.
    pub fn read(path: &Path, file: &dyn BlockDevice) -> DeviceResult<Header> {
        let head = read_head(file, HEAD_BYTES)?;
        Header::parse(&head).map_err(|why| BlockError::Image {
            path: path.to_owned(),
            why,
        })
    }

    /// Reads the header from the first [`HEAD_BYTES`] of an image, or from all of a shorter one.
    ///
    /// # Errors
    /// Why the image is refused: the end of a sentence whose subject is the image.
    fn parse(head: &[u8]) -> Result<Header, String> {
        if head.get(..4) != Some(&MAGIC) {
            return Err("is not a qcow2 image".to_owned());
        }
        let head_of = |len: usize| match head.len() < len {
            true => Err("is truncated: its header is not complete".to_owned()),
            false => Ok(()),
        };
        head_of(V2_BYTES)?;
        let version = be32(head, 4);
        let (refcount_order, autoclear, header_bytes) = match version {
            2 => (4, 0, V2_BYTES),
            3 => {
                head_of(V3_BYTES)?;
                refuse_features(be64(head, 72))?;
                let header_bytes = be32(head, 100) as usize;
                (be32(head, 96), be64(head, 88), header_bytes)
            }
            _ => {
                return Err(format!(
                    "is of version {version} of qcow2, which is unknown"
                ));
            }
        };
        let cluster_bits = be32(head, 20);
        if !(9..=21).contains(&cluster_bits) {
            return Err(format!(
                "has clusters of 2^{cluster_bits} bytes, not of 512 to 2M"
            ));
        }
        if refcount_order > 6 {
            return Err(format!(
                "has refcounts of 2^{refcount_order} bits, not of 1 to 64"
            ));
        }
        refuse_contents(head)?;
        let header = Header {
            version,
            cluster_bits,
            size: be64(head, 24),
            l1_offset: be64(head, 40),
            l1_entries: be32(head, 36) as usize,
            refcount_offset: be64(head, 48),
            refcount_entries: (be32(head, 56) as usize) << (cluster_bits - 3),
            refcount_order,
            autoclear,
            backing: backing(head, cluster_bits, header_bytes)?,
        };
        header.check_tables()?;
        Ok(header)
    }

    /// Refuses tables that are too large, too small or out of place.
    fn check_tables(&self) -> Result<(), String> {
        let (l1, refcounts) = (self.l1_range(), self.refcount_range());
        let bytes = |range: &Range<u64>| range.end - range.start;
        if bytes(&l1) > L1_BYTES_MAX || bytes(&refcounts) > REFCOUNT_TABLE_BYTES_MAX {
            return Err(format!(
                "has an L1 table of {} bytes and a refcount table of {}, more than 32M and 8M",
                bytes(&l1),
                bytes(&refcounts)
            ));
        }
        let covered = (self.l1_entries as u128) << (2 * self.cluster_bits - 3);
        if covered < u128::from(self.size) {
            return Err(format!(
                "has an L1 table of {} entries, too few for its {} bytes",
                self.l1_entries, self.size
            ));
        }
        if refcounts.is_empty() {
            return Err("has no refcount table".to_owned());
        }
        let mask = self.cluster_bytes() - 1;
        for (table, range) in [("L1 table", l1), ("refcount table", refcounts)] {
            if range.start & mask != 0 || (range.start == 0 && !range.is_empty()) {
                let at = range.start;
                return Err(format!(
                    "has its {table} at byte {at}, where no cluster begins"
                ));
            }
        }
        Ok(())
    }

    /// Bytes of a cluster.
    pub fn cluster_bytes(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Where the L1 table is.
    pub fn l1_range(&self) -> Range<u64> {
        range(self.l1_offset, self.l1_entries)
    }

    /// Where the refcount table is.
    pub fn refcount_range(&self) -> Range<u64> {
        range(self.refcount_offset, self.refcount_entries)
    }

    /// The header of a new image of version 3, one cluster of 64 KiB or less.
    pub fn encode(&self) -> Vec<u8> {
        let mut head = vec![0; V3_BYTES + 8];
        let clusters = self.refcount_entries >> (self.cluster_bits - 3);
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(4, &self.version.to_be_bytes());
        put(20, &self.cluster_bits.to_be_bytes());
        put(24, &self.size.to_be_bytes());
        put(36, &(self.l1_entries as u32).to_be_bytes());
        put(40, &self.l1_offset.to_be_bytes());
        put(48, &self.refcount_offset.to_be_bytes());
        put(56, &(clusters as u32).to_be_bytes());
        put(96, &self.refcount_order.to_be_bytes());
        put(100, &(V3_BYTES as u32).to_be_bytes());
        head
    }
}

/// The bytes of a table of 8-byte entries.
fn range(offset: u64, entries: usize) -> Range<u64> {
    offset..offset.saturating_add(8 * entries as u64)
}

fn refuse_features(incompatible: u64) -> Result<(), String> {
    let bit = incompatible.trailing_zeros() as usize;
    match REFUSED.get(bit) {
        _ if incompatible == 0 => Ok(()),
        Some(why) => Err((*why).to_owned()),
        None => Err(format!(
            "has the incompatible feature {bit}, which is unknown"
        )),
    }
}

fn refuse_contents(head: &[u8]) -> Result<(), String> {
    if be32(head, 32) != 0 {
        return Err("is encrypted; `qemu-img convert` makes an image that is not".to_owned());
    }
    match be32(head, 60) {
        0 => Ok(()),
        count => Err(format!(
            "holds {count} internal snapshots; `qemu-img snapshot -d` deletes one, `qemu-img convert` leaves them out"
        )),
    }
}

/// The backing file that the header names.
fn backing(head: &[u8], cluster_bits: u32, header: usize) -> Result<Option<Backing>, String> {
    let (at, len) = (be64(head, 8), be32(head, 16) as usize);
    if at == 0 || len == 0 {
        return Ok(None);
    }
    let head = &head[..head.len().min(1 << cluster_bits)];
    let name = usize::try_from(at).ok().filter(|_| len <= NAME_BYTES_MAX);
    let name = name.and_then(|at| head.get(at..)?.get(..len));
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let Some(name) = name else {
        return Err(format!(
            "has no readable name of a backing file at byte {at}, {len} bytes long"
        ));
    };
    let format = extension(head, header, BACKING_FORMAT);
    let is_qcow2 = match format {
        Some(b"qcow2") => true,
        Some(b"raw") => false,
        Some(other) => {
            let other = other.escape_ascii();
            return Err(format!(
                "has a backing file of format {other}, neither raw nor qcow2"
            ));
        }
        None => {
            return Err(format!(
                "does not say which format its backing file has; `qemu-img rebase -u -b {name} -F raw|qcow2` sets it"
            ));
        }
    };
    let name = name.to_owned();
    Ok(Some(Backing { name, is_qcow2 }))
}

/// The data of the first extension of a type.
fn extension(head: &[u8], mut at: usize, wanted: u32) -> Option<&[u8]> {
    loop {
        let entry = head.get(at..)?.get(..8)?;
        let (kind, len) = (be32(entry, 0), be32(entry, 4) as usize);
        let data = head.get(at + 8..)?.get(..len);
        match kind {
            0 => return None,
            kind if kind == wanted => return data,
            _ => {
                at = at
                    .checked_add(8)?
                    .checked_add(len.checked_next_multiple_of(8)?)?
            }
        }
    }
}

/// The bytes at `at`, which the caller has checked to be there; zeros where they are not.
fn bytes<const N: usize>(head: &[u8], at: usize) -> [u8; N] {
    let found = head.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().unwrap_or([0; N])
}

fn be32(head: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes(head, at))
}

fn be64(head: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes(head, at))
}

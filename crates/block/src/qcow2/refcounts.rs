//! Which clusters of the file are in use.
//!
//! # Data model
//! The refcount table leads to blocks of counts, which are read when they are first used. A new block lies in the first
//! cluster that it counts, and a larger table behind a new block, so that growing needs no other block.

use super::entries::{damaged, read_table};
use super::header::{Header, REFCOUNT_TABLE_AT};
use crate::device::BlockDevice;
use crate::error::{BlockError, BlockOp, EINVAL, ENOSPC, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

/// A block of counts.
#[derive(Debug)]
struct Block {
    offset: u64,
    bytes: Vec<u8>,
    dirty: bool,
}

/// The counts of all clusters, as they are to be on the device.
#[derive(Debug)]
pub(super) struct Refcounts {
    cluster_bits: u32,
    /// A count has `1 << order` bits.
    order: u32,
    offset: u64,
    table: Vec<u64>,
    /// Entries of the table that changed; all if it `moved`.
    changed: BTreeSet<usize>,
    moved: bool,
    blocks: BTreeMap<usize, Block>,
    /// No cluster before it is free.
    first_free: u64,
    /// Clusters that lose a use once what was written is durable.
    pub freed: Vec<u64>,
}

impl Refcounts {
    /// Those of an image.
    pub fn load(file: &dyn BlockDevice, header: &Header) -> Result<Refcounts> {
        let table = read_table(
            file,
            "refcount table",
            header.refcount_offset,
            header.refcount_entries,
        )?;
        let mut sorted: Vec<u64> = table.iter().copied().filter(|entry| *entry != 0).collect();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|two| two[0] == two[1]) {
            return Err(damaged(format!(
                "two entries of its refcount table name byte {}",
                twice[0]
            )));
        }
        Ok(Refcounts {
            cluster_bits: header.cluster_bits,
            order: header.refcount_order,
            offset: header.refcount_offset,
            table,
            changed: BTreeSet::new(),
            moved: false,
            blocks: BTreeMap::new(),
            first_free: 0,
            freed: Vec::new(),
        })
    }

    pub fn is_dirty(&self) -> bool {
        !self.changed.is_empty() || self.blocks.values().any(|block| block.dirty)
    }

    /// Counts of a block, as a power of two.
    fn block_bits(&self) -> u32 {
        self.cluster_bits + 3 - self.order
    }

    fn place(&self, cluster: u64) -> (usize, usize) {
        let mask = (1 << self.block_bits()) - 1;
        (
            (cluster >> self.block_bits()) as usize,
            (cluster & mask) as usize,
        )
    }

    /// The block with this number, if there is one.
    fn block(&mut self, file: &dyn BlockDevice, number: usize) -> Result<Option<&mut Block>> {
        let offset = match self.table.get(number) {
            None | Some(0) => return Ok(None),
            Some(&offset) => offset,
        };
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.blocks.entry(number) {
            let len = 1usize << self.cluster_bits;
            if offset & (len as u64 - 1) != 0 || offset.saturating_add(len as u64) > file.len() {
                let what =
                    format!("refcount block {number} is at byte {offset}, outside its clusters");
                return Err(damaged(what));
            }
            let mut bytes = vec![0; len];
            file.read_at(offset, &mut bytes)?;
            let dirty = false;
            vacant.insert(Block {
                offset,
                bytes,
                dirty,
            });
        }
        Ok(self.blocks.get_mut(&number))
    }

    fn count(&mut self, file: &dyn BlockDevice, cluster: u64) -> Result<u64> {
        let (number, index) = self.place(cluster);
        let order = self.order;
        let block = self.block(file, number)?;
        Ok(block.map_or(0, |block| get(&block.bytes, order, index)))
    }

    fn set(&mut self, file: &dyn BlockDevice, cluster: u64, count: u64) -> Result<()> {
        let (number, index) = self.place(cluster);
        let order = self.order;
        let Some(block) = self.block(file, number)? else {
            return Err(damaged(format!("cluster {cluster} has no refcount")));
        };
        put(&mut block.bytes, order, index, count);
        block.dirty = true;
        Ok(())
    }

    /// Takes up to `count` free clusters that follow each other: the first, and how many.
    ///
    /// # Errors
    /// The device's; `ENOSPC`: a block device has no free cluster.
    pub fn allocate(&mut self, file: &dyn BlockDevice, count: u64) -> Result<(u64, u64)> {
        let mut first = self.first_free;
        loop {
            let (number, _) = self.place(first);
            if self.block(file, number)?.is_none() {
                self.add_block(file, number)?;
            }
            if self.count(file, first)? == 0 {
                break;
            }
            first += 1;
        }
        let (number, _) = self.place(first);
        let mut taken = 0;
        while taken < count
            && self.place(first + taken).0 == number
            && self.count(file, first + taken)? == 0
        {
            self.set(file, first + taken, 1)?;
            taken += 1;
        }
        self.first_free = first + taken;
        if let Err(e) = grow(file, (first + taken) << self.cluster_bits) {
            for cluster in first..first + taken {
                self.release(file, cluster)?;
            }
            return Err(e);
        }
        Ok((first, taken))
    }

    /// Refuses an image of which a cluster in use counts as free: it would be taken for something else.
    pub fn check_used(&mut self, file: &dyn BlockDevice, clusters: Range<u64>) -> Result<()> {
        for cluster in clusters {
            if self.count(file, cluster)? == 0 {
                return Err(unused(cluster));
            }
        }
        Ok(())
    }

    /// Ends the use of what was freed; the caller knows that no table on the device names it, and no call uses it.
    pub fn release_freed(&mut self, file: &dyn BlockDevice) -> Result<()> {
        for cluster in std::mem::take(&mut self.freed) {
            self.release(file, cluster)?;
        }
        Ok(())
    }

    /// Ends one use of a cluster.
    pub fn release(&mut self, file: &dyn BlockDevice, cluster: u64) -> Result<()> {
        match self.count(file, cluster)? {
            0 => Err(unused(cluster)),
            count => {
                self.set(file, cluster, count - 1)?;
                if count == 1 {
                    self.first_free = self.first_free.min(cluster);
                }
                Ok(())
            }
        }
    }

    /// Adds the block with this number, of which no cluster is in use.
    fn add_block(&mut self, file: &dyn BlockDevice, number: usize) -> Result<()> {
        let first = (number as u64) << self.block_bits();
        let len = 1usize << self.cluster_bits;
        let entries = len / 8;
        let mut used = 1;
        if number >= self.table.len() {
            let larger = (self.table.len() * 2)
                .max(number + 1)
                .next_multiple_of(entries);
            let clusters = (larger / entries) as u64;
            used += clusters;
            // QEMU reads no larger table either.
            if used > 1 << self.block_bits() || larger * 8 > 8 << 20 {
                return Err(full());
            }
            let old = self.offset >> self.cluster_bits;
            self.freed
                .extend(old..old + (self.table.len() / entries) as u64);
            self.offset = (first + 1) << self.cluster_bits;
            self.table.resize(larger, 0);
            self.moved = true;
        }
        grow(file, (first + used) << self.cluster_bits)?;
        let mut bytes = vec![0; len];
        for index in 0..used as usize {
            put(&mut bytes, self.order, index, 1);
        }
        let (offset, dirty) = (first << self.cluster_bits, true);
        self.blocks.insert(
            number,
            Block {
                offset,
                bytes,
                dirty,
            },
        );
        self.table[number] = offset;
        self.changed.insert(number);
        Ok(())
    }

    /// Writes what changed: the counts before the tables that lead to them.
    pub fn write(&mut self, file: &dyn BlockDevice) -> Result<()> {
        if !self.is_dirty() {
            return Ok(());
        }
        for block in self.blocks.values_mut().filter(|block| block.dirty) {
            file.write_at(block.offset, &block.bytes)?;
            block.dirty = false;
        }
        file.flush()?;
        if self.moved {
            let bytes: Vec<u8> = self
                .table
                .iter()
                .flat_map(|entry| entry.to_be_bytes())
                .collect();
            file.write_at(self.offset, &bytes)?;
            file.flush()?;
            let clusters = (bytes.len() >> self.cluster_bits) as u32;
            let mut place = self.offset.to_be_bytes().to_vec();
            place.extend(clusters.to_be_bytes());
            file.write_at(REFCOUNT_TABLE_AT, &place)?;
        } else {
            for &number in &self.changed {
                file.write_at(
                    self.offset + 8 * number as u64,
                    &self.table[number].to_be_bytes(),
                )?;
            }
        }
        (self.moved, self.changed) = (false, BTreeSet::new());
        file.flush()
    }
}

/// Makes the file at least so long.
pub(super) fn grow(file: &dyn BlockDevice, len: u64) -> Result<()> {
    match len > file.len() {
        true => file.set_len(len).map_err(|e| match e.raw_os_error() {
            // A block device.
            Some(EINVAL) => full(),
            _ => e,
        }),
        false => Ok(()),
    }
}

fn unused(cluster: u64) -> BlockError {
    damaged(format!(
        "cluster {cluster} of the file is used and has the refcount 0"
    ))
}

fn full() -> BlockError {
    BlockError::io(
        BlockOp::Allocate,
        0,
        0,
        io::Error::from_raw_os_error(ENOSPC),
    )
}

/// A count of `1 << order` bits: less than a byte from its low bits up, else big-endian.
fn get(bytes: &[u8], order: u32, index: usize) -> u64 {
    let width = 1usize << order;
    if width < 8 {
        let bit = index * width;
        let byte = bytes.get(bit / 8).copied().unwrap_or(0);
        return u64::from(byte >> (bit % 8)) & ((1 << width) - 1);
    }
    let len = width / 8;
    let count = bytes.get(index * len..).and_then(|rest| rest.get(..len));
    count
        .unwrap_or(&[])
        .iter()
        .fold(0, |count, byte| count << 8 | u64::from(*byte))
}

fn put(bytes: &mut [u8], order: u32, index: usize, count: u64) {
    let width = 1usize << order;
    if width < 8 {
        let bit = index * width;
        let mask = ((1u8 << width) - 1) << (bit % 8);
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte = *byte & !mask | (count as u8) << (bit % 8) & mask;
        }
        return;
    }
    let len = width / 8;
    if let Some(place) = bytes
        .get_mut(index * len..)
        .and_then(|rest| rest.get_mut(..len))
    {
        place.copy_from_slice(&count.to_be_bytes()[8 - len..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_every_width() {
        for order in 0..=6 {
            let mut bytes = vec![0; 64];
            let last = 64 * 8 / (1 << order) - 1;
            for index in [0, 1, last] {
                put(&mut bytes, order, index, 1);
                assert_eq!(get(&bytes, order, index), 1, "order {order}");
            }
            put(&mut bytes, order, 1, 0);
            assert_eq!((get(&bytes, order, 0), get(&bytes, order, 1)), (1, 0));
        }
        let mut bytes = vec![0; 64];
        put(&mut bytes, 4, 1, 0x102);
        assert_eq!(bytes[..4], [0, 0, 1, 2]);
    }
}

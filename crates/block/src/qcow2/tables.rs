//! Where the clusters of the device are in the file.
//!
//! # Data model
//! The L1 table leads to L2 tables, which are read when they are first used. Changes stay in memory until they are written
//! together, so the tables in the file are always those of one moment: a crash can leave clusters counted that nothing
//! uses, and never the reverse.

use super::entries::{damaged, read_table};
use super::header::Header;
use super::refcounts::Refcounts;
use crate::device::BlockDevice;
use crate::error::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// An entry of the L1 or L2 table whose cluster nothing else uses.
const COPIED: u64 = 1 << 63;
/// An L2 entry of a compressed cluster.
const COMPRESSED: u64 = 1 << 62;
/// An L2 entry of a cluster that reads as zeros, from version 3 on.
const ZERO: u64 = 1;
/// The place in an L1 or L2 entry.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Bytes of clean L2 tables that are kept.
const CACHE_BYTES_MAX: usize = 32 << 20;

/// Where a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// At this byte of the file; written there only if it is `ours` alone.
    Data { at: u64, ours: bool },
    /// Compressed, in these bytes of the file or fewer.
    Compressed { at: u64, len: u64 },
    /// It reads as zeros.
    Zero,
    /// It reads as the backing file.
    Backing,
}

/// An L2 table in memory.
#[derive(Debug)]
struct L2 {
    entries: Vec<u64>,
    dirty: bool,
}

/// The tables of an image.
#[derive(Debug)]
pub(super) struct Tables {
    version: u32,
    pub cluster_bits: u32,
    has_backing: bool,
    l1_offset: u64,
    l1: Vec<u64>,
    /// Entries of the L1 table that changed.
    l1_changed: BTreeSet<usize>,
    l2: BTreeMap<usize, L2>,
    /// Of an image that is written.
    pub refcounts: Option<Refcounts>,
}

impl Tables {
    /// Those of an image.
    pub fn load(file: &dyn BlockDevice, header: &Header) -> Result<Tables> {
        let refcounts = match file.is_read_only() {
            true => None,
            false => {
                let mut refcounts = Refcounts::load(file, header)?;
                for bytes in [0..1, header.l1_range(), header.refcount_range()] {
                    let end = bytes.end.div_ceil(header.cluster_bytes());
                    refcounts.check_used(file, bytes.start >> header.cluster_bits..end)?;
                }
                Some(refcounts)
            }
        };
        Ok(Tables {
            version: header.version,
            cluster_bits: header.cluster_bits,
            has_backing: header.backing.is_some(),
            l1_offset: header.l1_offset,
            l1: read_table(file, "L1 table", header.l1_offset, header.l1_entries)?,
            l1_changed: BTreeSet::new(),
            l2: BTreeMap::new(),
            refcounts,
        })
    }

    fn l2_bits(&self) -> u32 {
        self.cluster_bits - 3
    }

    /// The number of the L2 table of a cluster, and the cluster's entry in it.
    fn place(&self, cluster: u64) -> (usize, usize) {
        let mask = (1 << self.l2_bits()) - 1;
        (
            (cluster >> self.l2_bits()) as usize,
            (cluster & mask) as usize,
        )
    }

    /// The mapping of the cluster at `offset`; `None` if its L2 table must be loaded first.
    pub fn find(&self, file_len: u64, cluster: u64) -> Result<Option<Mapping>> {
        let (number, index) = self.place(cluster);
        if self.l1.get(number).is_none_or(|entry| entry & OFFSET == 0) {
            return Ok(Some(self.unmapped()));
        }
        let Some(l2) = self.l2.get(&number) else {
            return Ok(None);
        };
        let entry = l2.entries.get(index).copied().unwrap_or(0);
        self.mapping(file_len, cluster, entry).map(Some)
    }

    fn unmapped(&self) -> Mapping {
        match self.has_backing {
            true => Mapping::Backing,
            false => Mapping::Zero,
        }
    }

    fn mapping(&self, file_len: u64, cluster: u64, entry: u64) -> Result<Mapping> {
        let refuse = |at: u64| {
            let guest = cluster << self.cluster_bits;
            damaged(format!(
                "the cluster of byte {guest} is at byte {at}, outside its clusters"
            ))
        };
        if entry & COMPRESSED != 0 {
            // The place, then the number of further sectors that the data reaches into.
            let place_bits = 62 - (self.cluster_bits - 8);
            let at = entry & ((1 << place_bits) - 1);
            let sectors = (entry & (COMPRESSED - 1)) >> place_bits;
            if at >= file_len {
                return Err(refuse(at));
            }
            let len = ((sectors + 1) * 512 - (at & 511)).min(file_len - at);
            return Ok(Mapping::Compressed { at, len });
        }
        if self.version > 2 && entry & ZERO != 0 {
            return Ok(Mapping::Zero);
        }
        match entry & OFFSET {
            0 => Ok(self.unmapped()),
            at if at & ((1 << self.cluster_bits) - 1) != 0 || at >= file_len => Err(refuse(at)),
            at => Ok(Mapping::Data {
                at,
                ours: entry & COPIED != 0,
            }),
        }
    }

    /// Reads the L2 table of a cluster, if it has one that is not in memory.
    pub fn load_l2(&mut self, file: &dyn BlockDevice, cluster: u64) -> Result<()> {
        let (number, _) = self.place(cluster);
        let Some(&entry) = self.l1.get(number) else {
            return Ok(());
        };
        let (at, len) = (entry & OFFSET, 1 << self.cluster_bits);
        if at == 0 || self.l2.contains_key(&number) {
            return Ok(());
        }
        if at & (len - 1) != 0 {
            let why = format!("L2 table {number} is at byte {at}, where no cluster begins");
            return Err(damaged(why));
        }
        if (self.l2.len() + 1) << self.cluster_bits > CACHE_BYTES_MAX {
            self.l2.retain(|_, l2| l2.dirty);
        }
        let entries = read_table(file, "L2 table", at, 1 << self.l2_bits())?;
        if let Some(mut refcounts) = self.refcounts.take() {
            let used = entries.iter().map(|entry| self.clusters_of(*entry));
            let table = at >> self.cluster_bits..(at >> self.cluster_bits) + 1;
            let checked = used
                .chain([table])
                .try_for_each(|used| refcounts.check_used(file, used));
            self.refcounts = Some(refcounts);
            checked?;
        }
        let dirty = false;
        self.l2.insert(number, L2 { entries, dirty });
        Ok(())
    }

    /// The first byte after the clusters that the L2 table of this cluster maps.
    pub fn end_of_l2(&self, cluster: u64) -> u64 {
        ((cluster >> self.l2_bits()) + 1) << (self.l2_bits() + self.cluster_bits)
    }

    /// The L2 tables that hold something, of these clusters: for each, its clusters.
    pub fn used(&self, clusters: Range<u64>) -> Vec<Range<u64>> {
        let mut used = Vec::new();
        let mut first = clusters.start;
        while first < clusters.end {
            let (number, _) = self.place(first);
            let end = ((number as u64 + 1) << self.l2_bits()).min(clusters.end);
            if self.l1.get(number).is_some_and(|entry| entry & OFFSET != 0) {
                used.push(first..end);
            }
            first = end;
        }
        used
    }

    /// Takes clusters of the file that follow each other for data, at most `count`: where, and how many.
    pub fn allocate(&mut self, file: &dyn BlockDevice, count: u64) -> Result<(u64, u64)> {
        let (first, count) = self.refcounts()?.allocate(file, count)?;
        Ok((first << self.cluster_bits, count))
    }

    fn refcounts(&mut self) -> Result<&mut Refcounts> {
        let none = || damaged("it is read-only".to_owned());
        self.refcounts.as_mut().ok_or_else(none)
    }

    /// Maps a cluster to its place in the file, or to zeros. What it had is freed with the next write of the tables.
    pub fn map(&mut self, file: &dyn BlockDevice, cluster: u64, at: Option<u64>) -> Result<()> {
        let (number, index) = self.place(cluster);
        self.load_l2(file, cluster)?;
        if !self.l2.contains_key(&number) {
            let (first, _) = self.refcounts()?.allocate(file, 1)?;
            let entry = self.l1.get_mut(number);
            let entry = entry.ok_or_else(|| damaged(format!("L1 table has no entry {number}")))?;
            *entry = first << self.cluster_bits | COPIED;
            self.l1_changed.insert(number);
            let entries = vec![0; 1 << self.l2_bits()];
            self.l2.insert(
                number,
                L2 {
                    entries,
                    dirty: true,
                },
            );
        }
        if self.l1.get(number).is_some_and(|entry| entry & COPIED == 0) {
            let why = format!("L2 table {number} is shared; `qemu-img check -r all` repairs it");
            return Err(damaged(why));
        }
        let new = match at {
            Some(at) => at | COPIED,
            None if self.has_backing => ZERO,
            None => 0,
        };
        let Some(l2) = self.l2.get_mut(&number) else {
            return Ok(());
        };
        let Some(entry) = l2.entries.get_mut(index) else {
            return Ok(());
        };
        let old = std::mem::replace(entry, new);
        l2.dirty = true;
        let freed = self.clusters_of(old);
        self.refcounts()?.freed.extend(freed);
        Ok(())
    }

    /// The clusters of the file that an L2 entry uses.
    fn clusters_of(&self, entry: u64) -> Range<u64> {
        let bits = self.cluster_bits;
        if entry & COMPRESSED != 0 {
            let Ok(Mapping::Compressed { at, len }) = self.mapping(u64::MAX, 0, entry) else {
                return 0..0;
            };
            return at >> bits..((at + len - 1) >> bits) + 1;
        }
        match entry & OFFSET {
            0 => 0..0,
            at => at >> bits..(at >> bits) + 1,
        }
    }

    /// Whether clusters were freed since [`Tables::release_freed`].
    pub fn has_freed(&self) -> bool {
        self.refcounts
            .as_ref()
            .is_some_and(|refcounts| !refcounts.freed.is_empty())
    }

    /// As [`Refcounts::release_freed`].
    pub fn release_freed(&mut self, file: &dyn BlockDevice) -> Result<()> {
        self.refcounts()?.release_freed(file)
    }

    /// Writes what changed, in the order that a crash needs.
    pub fn write(&mut self, file: &dyn BlockDevice) -> Result<()> {
        let has_dirty = self.l2.values().any(|l2| l2.dirty) || !self.l1_changed.is_empty();
        let Some(refcounts) = &mut self.refcounts else {
            return Ok(());
        };
        if !has_dirty && !refcounts.is_dirty() {
            return Ok(());
        }
        // The data of new clusters.
        file.flush()?;
        refcounts.write(file)?;
        for (number, l2) in self.l2.iter_mut().filter(|(_, l2)| l2.dirty) {
            let bytes: Vec<u8> = l2
                .entries
                .iter()
                .flat_map(|entry| entry.to_be_bytes())
                .collect();
            file.write_at(self.l1[*number] & OFFSET, &bytes)?;
            l2.dirty = false;
        }
        if !self.l1_changed.is_empty() {
            file.flush()?;
        }
        for number in std::mem::take(&mut self.l1_changed) {
            let at = self.l1_offset + 8 * number as u64;
            file.write_at(at, &self.l1[number].to_be_bytes())?;
        }
        Ok(())
    }
}

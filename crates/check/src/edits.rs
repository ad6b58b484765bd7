//! Changes that are only in memory: what a repair would write.

use crate::prelude::*;
use std::fmt;
use uext4_block::{BlockError, BlockOp};

/// Bytes of a unit: the smallest block that ext4 has.
pub const EDIT_UNIT: usize = 1024;

/// Bytes of a read when changes are compared with a device: the memory for more is mapped for each anew.
const READ_BYTES_MAX: usize = 1 << 16;

/// New bytes of a device, in units of [`EDIT_UNIT`] bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Edits {
    units: BTreeMap<u64, Box<[u8; EDIT_UNIT]>>,
    /// Runs of units of blocks that nothing used before: from the first to before an end; apart from each other.
    fresh: BTreeMap<u64, u64>,
    /// Lengths of runs of bytes that are zeros where no unit says otherwise, by offset; disjoint. Nothing used them before.
    zeros: BTreeMap<u64, u64>,
}

impl fmt::Debug for Edits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Edits({} units)", self.len())
    }
}

impl Edits {
    /// True if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// How many units change.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// The units that change, by their place in the device counted in units.
    pub fn units(&self) -> impl Iterator<Item = (u64, &[u8; EDIT_UNIT])> {
        self.units.iter().map(|(at, bytes)| (*at, &**bytes))
    }

    /// The edits divided into those of blocks that nothing used before, so that a crash after them has changed nothing, and others.
    pub fn split_fresh(&self) -> (Edits, Edits) {
        let (mut fresh, mut others) = (Edits::default(), Edits::default());
        for (at, bytes) in &self.units {
            let part = match self.is_fresh(*at) {
                true => &mut fresh,
                false => &mut others,
            };
            part.units.insert(*at, bytes.clone());
        }
        (fresh, others)
    }

    /// Runs of bytes that become zeros before anything else is written, by offset and length: nothing uses them.
    pub fn zeros(&self) -> impl Iterator<Item = (u64, u64)> {
        self.zeros.iter().map(|(offset, bytes)| (*offset, *bytes))
    }

    /// The same, with units of zeros in place of runs of them, where a device holds something else.
    ///
    /// # Errors
    /// The device's.
    pub fn with_units_of_zeros(&self, device: &dyn BlockDevice) -> uext4_block::Result<Edits> {
        let mut all = Edits {
            units: self.units.clone(),
            ..Edits::default()
        };
        let mut have = vec![0; READ_BYTES_MAX];
        for (offset, bytes) in self.zeros() {
            for done in (0..bytes).step_by(READ_BYTES_MAX) {
                let len = (bytes - done).min(READ_BYTES_MAX as u64) as usize;
                let part = have.get_mut(..len).unwrap_or(&mut []);
                device.read_at(offset + done, part)?;
                let units = (offset + done) / EDIT_UNIT as u64..;
                for (at, unit) in units.zip(part.chunks(EDIT_UNIT)) {
                    if unit.iter().any(|byte| *byte != 0) {
                        all.units
                            .entry(at)
                            .or_insert_with(|| Box::new([0; EDIT_UNIT]));
                    }
                }
            }
        }
        Ok(all)
    }

    /// Makes bytes zeros that nothing used before, and that are not to be zeros already.
    pub(crate) fn zero(&mut self, offset: u64, bytes: u64) {
        self.zeros.insert(offset, bytes);
    }

    /// Takes the units of a range out, counted in units.
    pub fn take(&mut self, units: std::ops::Range<u64>) -> Edits {
        let mut rest = self.units.split_off(&units.start);
        let mut after = rest.split_off(&units.end);
        self.units.append(&mut after);
        Edits {
            units: rest,
            ..Edits::default()
        }
    }

    /// What was free in a later round may have been in use before the first.
    pub(crate) fn forget_fresh(&mut self) {
        self.fresh.clear();
    }

    /// Notes that nothing used a range of bytes before.
    pub(crate) fn mark_fresh(&mut self, offset: u64, bytes: u64) {
        let unit = EDIT_UNIT as u64;
        self.add_fresh(offset / unit, offset.saturating_add(bytes) / unit);
    }

    fn add_fresh(&mut self, mut first: u64, mut end: u64) {
        while let Some((at, to)) = self.fresh.range(..=end).next_back()
            && *to >= first
        {
            (first, end) = (first.min(*at), end.max(*to));
            let at = *at;
            self.fresh.remove(&at);
        }
        self.fresh.insert(first, end);
    }

    fn is_fresh(&self, at: u64) -> bool {
        let run = self.fresh.range(..=at).next_back();
        run.is_some_and(|(_, end)| at < *end)
    }

    /// Runs of bytes that change, each with its offset in bytes, in order; none is longer than `bytes_max`.
    pub fn runs(&self, bytes_max: usize) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let mut units = self.units().peekable();
        std::iter::from_fn(move || {
            let (first, bytes) = units.next()?;
            let mut run = bytes.to_vec();
            let mut end = first + 1;
            while run.len() + EDIT_UNIT <= bytes_max
                && let Some((_, bytes)) = units.next_if(|(at, _)| *at == end)
            {
                run.extend_from_slice(bytes);
                end += 1;
            }
            Some((first.saturating_mul(EDIT_UNIT as u64), run))
        })
    }

    /// Changes whole units from byte `offset` on.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let first = offset / EDIT_UNIT as u64;
        for (i, unit) in bytes.as_chunks::<EDIT_UNIT>().0.iter().enumerate() {
            let at = first.saturating_add(i as u64);
            self.units.insert(at, Box::new(*unit));
        }
    }

    /// Puts what changes into bytes that were read from `offset` on.
    pub(crate) fn apply(&self, offset: u64, buf: &mut [u8]) {
        let unit_bytes = EDIT_UNIT as u64;
        let end = offset.saturating_add(buf.len() as u64);
        let before_end = self.zeros.range(..end).rev();
        for (start, len) in
            before_end.take_while(|(start, len)| start.saturating_add(**len) > offset)
        {
            let from = start.saturating_sub(offset).min(buf.len() as u64) as usize;
            let to = start.saturating_add(*len).saturating_sub(offset);
            let to = to.min(buf.len() as u64) as usize;
            if let Some(zeros) = buf.get_mut(from..to) {
                zeros.fill(0);
            }
        }
        let units = offset / unit_bytes..end.div_ceil(unit_bytes);
        for (at, unit) in self.units.range(units) {
            let start = at.saturating_mul(unit_bytes);
            let skipped = offset.saturating_sub(start) as usize;
            let to = start.saturating_sub(offset) as usize;
            let from = unit.get(skipped..).unwrap_or(&[]);
            for (to, from) in buf.get_mut(to..).unwrap_or(&mut []).iter_mut().zip(from) {
                *to = *from;
            }
        }
    }

    /// Takes over later changes.
    pub(crate) fn absorb(&mut self, later: Edits) {
        self.units.extend(later.units);
        for (first, end) in later.fresh {
            self.add_fresh(first, end);
        }
        self.zeros.extend(later.zeros);
    }

    /// Drops units that the device holds already, but for those that `before` changes, which is written first.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn drop_unchanged(
        &mut self,
        device: &dyn BlockDevice,
        before: &Edits,
    ) -> Result<()> {
        let mut same = Vec::new();
        for (offset, new) in self.runs(READ_BYTES_MAX) {
            let mut have = vec![0; new.len()];
            device.read_at(offset, &mut have)?;
            let units = have.chunks(EDIT_UNIT).zip(new.chunks(EDIT_UNIT));
            let equal = (offset / EDIT_UNIT as u64..).zip(units);
            let equal = equal.filter(|(_, (have, new))| have == new);
            same.extend(equal.map(|(at, _)| at));
        }
        same.retain(|at| !before.units.contains_key(at));
        for at in same {
            self.units.remove(&at);
        }
        Ok(())
    }
}

/// A device as it would be with the changes. It is only read.
#[derive(Debug)]
pub struct EditedDevice<'d> {
    pub(crate) device: &'d dyn BlockDevice,
    pub(crate) edits: &'d Edits,
    /// Bytes that it seems to have: zeros behind those of the device.
    len: u64,
}

impl<'d> EditedDevice<'d> {
    /// The device with the changes over it.
    pub fn new(device: &'d dyn BlockDevice, edits: &'d Edits) -> EditedDevice<'d> {
        EditedDevice {
            device,
            edits,
            len: device.len(),
        }
    }

    /// The same, with at least so many bytes: zeros behind those of the device.
    pub fn with_len(mut self, len: u64) -> EditedDevice<'d> {
        self.len = self.len.max(len);
        self
    }
}

fn refuse(op: BlockOp, offset: u64, len: u64) -> uext4_block::Result<()> {
    Err(BlockError::ReadOnly { op, offset, len })
}

impl BlockDevice for EditedDevice<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> uext4_block::Result<()> {
        let there = self.device.len().saturating_sub(offset);
        let there = there.min(buf.len() as u64) as usize;
        if self.len > self.device.len()
            && let Some((there, behind)) = buf.split_at_mut_checked(there)
        {
            behind.fill(0);
            if !there.is_empty() {
                self.device.read_at(offset, there)?;
            }
        } else {
            self.device.read_at(offset, buf)?;
        }
        self.edits.apply(offset, buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        refuse(BlockOp::Write, offset, buf.len() as u64)
    }

    fn flush(&self) -> uext4_block::Result<()> {
        refuse(BlockOp::Flush, 0, 0)
    }

    fn discard(&self, offset: u64, len: u64) -> uext4_block::Result<()> {
        refuse(BlockOp::Discard, offset, len)
    }

    fn set_len(&self, len: u64) -> uext4_block::Result<()> {
        refuse(BlockOp::SetLen, 0, len)
    }

    fn identity(&self) -> Option<uext4_block::DeviceId> {
        self.device.identity()
    }

    fn zero(&self, offset: u64, len: u64) -> uext4_block::Result<()> {
        refuse(BlockOp::Zero, offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_runs_are_merged() {
        let mut edits = Edits::default();
        for (first, end) in [(10, 20), (30, 40), (20, 22), (5, 8), (8, 9), (0, 50)] {
            edits.add_fresh(first, end);
            assert!(edits.is_fresh(first) && edits.is_fresh(end - 1), "{first}");
        }
        assert!(!edits.is_fresh(50));
        assert_eq!(edits.fresh.len(), 1);
    }

    #[test]
    fn edits_cover_what_is_read() {
        let mut edits = Edits::default();
        edits.write(2048, &[7; 2048]);
        let mut buf = [1; 3072];
        edits.apply(1024, &mut buf);
        assert_eq!((buf[1023], buf[1024], buf[3071]), (1, 7, 7));
        let mut part = [1; 100];
        edits.apply(2000, &mut part);
        assert_eq!((part[47], part[48]), (1, 7));
        edits.apply(4000, &mut part);
        assert_eq!((part[0], part[95], part[96]), (7, 7, 7));
        let mut tail = [1; 200];
        edits.apply(4000, &mut tail);
        assert_eq!((tail[95], tail[96]), (7, 1));
        assert_eq!(edits.runs(1 << 20).count(), 1);
        assert_eq!(edits.runs(1024).count(), 2);
    }
}

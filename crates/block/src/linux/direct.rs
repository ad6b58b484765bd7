//! Direct I/O of any alignment.
//!
//! # Data model
//! The host takes direct I/O in whole sectors from aligned memory. What keeps to that goes straight through.
//! What only lies in other memory is copied through an aligned buffer. What doesn't begin or end at a sector
//! is read around, changed and written back: slow, and only for the few small writes of a superblock.
//!
//! # Invariants
//! A write of whole sectors never runs beside the reading and writing back of an unaligned one, which would
//! write old bytes over new ones.
//!
//! # Locking
//! Class `device_edges`, a lock per CPU: a change of whole sectors takes its CPU's lock shared, so that no
//! line goes from CPU to CPU; an unaligned write has all of them alone. They are held over I/O.

use super::align::Alignment;
use super::bounce::{BOUNCE_BYTES, Bounce, Gather, Scatter};
use super::host::{HostFile, short};
use super::pool::Pool;
use crate::device::{total_len, total_len_mut};
use crate::error::{BlockError, BlockOp, Result};
use rustix::io::retry_on_intr;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{PerCpu, RwLock, RwLockReadGuard, RwLockWriteGuard, class};

/// What a call lacks for direct I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Nothing.
    Aligned,
    /// Only its memory isn't aligned, or not in whole sectors.
    Memory,
    /// It doesn't begin and end at a sector.
    Edges,
}

/// The content of the image. It is on the host, so a guard gives no data but proves access: shared to change whole
/// sectors, all of them to change a part of one, which is read and written back.
#[derive(Debug)]
pub(crate) struct Sectors(());

/// How a file open for direct I/O is used.
#[derive(Debug)]
pub(crate) struct Direct {
    align: Alignment,
    edges: PerCpu<RwLock<Sectors>>,
    bounces: Pool<Bounce>,
}

/// What a call does direct I/O with: the whole of a cut range, and where the caller's part lies in it.
struct Cover {
    start: u64,
    len: usize,
    /// Bytes before the caller's.
    head: usize,
    /// The caller's bytes.
    part: usize,
}

impl Direct {
    /// For a file that needs `align`.
    pub fn new(align: Alignment) -> Direct {
        Direct {
            align,
            edges: PerCpu::new(|_| RwLock::new(&class::DEVICE_EDGES, Sectors(()))),
            bounces: Pool::new(),
        }
    }

    /// The unit that everything about a call should be multiples of.
    pub fn unit(&self) -> u32 {
        self.align.offset.max(self.align.memory)
    }

    /// Keeps unaligned writes out.
    pub fn share(&self) -> RwLockReadGuard<'_, Sectors> {
        self.edges.get().read()
    }

    /// Keeps every change out.
    pub fn exclude(&self) -> Vec<RwLockWriteGuard<'_, Sectors>> {
        self.edges.iter().map(RwLock::write).collect()
    }

    /// Checks a bounce buffer out.
    pub fn bounce(&self) -> Bounce {
        self.bounces.take().unwrap_or_default()
    }

    /// Puts one back.
    pub fn put_bounce(&self, bounce: Bounce) {
        self.bounces.put(bounce);
    }

    /// The first `len` bytes of a bounce buffer, aligned for this file.
    pub fn aligned<'a>(&self, bounce: &'a mut Bounce, len: usize) -> &'a mut [u8] {
        bounce.bytes(len, self.align.memory as usize)
    }

    /// What a call at `offset` with these buffers lacks.
    pub fn fit<'a>(&self, offset: u64, bufs: impl Iterator<Item = &'a [u8]>) -> Fit {
        let unit = u64::from(self.align.offset);
        let mut all = Fit::Aligned;
        let mut total = 0;
        for buf in bufs {
            let len = buf.len() as u64;
            total += len;
            let is_placed = buf.as_ptr().addr() % self.align.memory as usize == 0;
            if !(is_placed && len.is_multiple_of(unit)) {
                all = Fit::Memory;
            }
        }
        match (offset | total).is_multiple_of(unit) {
            true => all,
            false => Fit::Edges,
        }
    }

    /// Reads at most `IOV_MAX` buffers.
    pub fn read_run(
        &self,
        host: &HostFile,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<()> {
        if self.fit(offset, bufs.iter().map(|buf| &**buf)) == Fit::Aligned {
            return host.read_run(offset, bufs);
        }
        let len = total_len_mut(bufs);
        let mut bounce = self.bounce();
        let mut target = Scatter::new(bufs);
        let result = self.covers(offset, len).try_for_each(|cover| {
            let bytes = self.aligned(&mut bounce, cover.len);
            let got = host.read_some(cover.start, bytes)?;
            // The last sector of a file may be cut.
            if got < cover.head + cover.part {
                let at = cover.start + cover.head as u64;
                return Err(short(
                    BlockOp::Read,
                    at,
                    cover.part,
                    got.saturating_sub(cover.head),
                ));
            }
            target.put(&bytes[cover.head..cover.head + cover.part]);
            Ok(())
        });
        self.put_bounce(bounce);
        result
    }

    /// Writes at most `IOV_MAX` buffers to a file of `file_len` bytes, which changes only under
    /// [`Direct::exclude`].
    pub fn write_run(
        &self,
        host: &HostFile,
        offset: u64,
        bufs: &[IoSlice<'_>],
        file_len: &AtomicU64,
    ) -> Result<()> {
        match self.fit(offset, bufs.iter().map(|buf| &**buf)) {
            Fit::Aligned => {
                let _shared = self.share();
                host.write_run(offset, bufs)
            }
            Fit::Memory => {
                let _shared = self.share();
                self.write_covers(host, offset, bufs)
            }
            Fit::Edges => {
                let _alone = self.exclude();
                let result = self.write_covers(host, offset, bufs);
                let end = offset + total_len(bufs);
                self.cut_tail(host, end, file_len.load(Ordering::Acquire))
                    .map_err(|e| BlockError::io(BlockOp::Write, offset, total_len(bufs), e))?;
                result
            }
        }
    }

    /// Writes durably with one call; false where that is not available.
    pub fn write_durably(&self, host: &HostFile, offset: u64, buf: &[u8]) -> Result<bool> {
        match self.fit(offset, [buf].into_iter()) {
            Fit::Aligned => {
                let _shared = self.share();
                host.write_durably(offset, buf)
            }
            Fit::Memory if buf.len() <= BOUNCE_BYTES => {
                let mut bounce = self.bounce();
                let bytes = self.aligned(&mut bounce, buf.len());
                bytes.copy_from_slice(buf);
                let result = {
                    let _shared = self.share();
                    host.write_durably(offset, bytes)
                };
                self.put_bounce(bounce);
                result
            }
            _ => Ok(false),
        }
    }

    /// Cuts a file that ends within a sector, after a write up to `end` may have made that whole.
    fn cut_tail(&self, host: &HostFile, end: u64, file_len: u64) -> rustix::io::Result<()> {
        let tail = file_len % self.sector();
        if tail == 0 || end <= file_len - tail {
            return Ok(());
        }
        retry_on_intr(|| rustix::fs::ftruncate(&host.fd, file_len))
    }

    /// Writes whole sectors through a bounce buffer, with what lies around the caller's bytes as it was.
    ///
    /// # Locks
    /// The edges: shared where there is nothing around, else alone.
    fn write_covers(&self, host: &HostFile, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let mut bounce = self.bounce();
        let mut source = Gather::new(bufs);
        let sector = self.sector() as usize;
        let mut covers = self.covers(offset, total_len(bufs));
        let result = covers.try_for_each(|cover| {
            let bytes = self.aligned(&mut bounce, cover.len);
            let end = cover.head + cover.part;
            if cover.head > 0 {
                read_sector(host, cover.start, &mut bytes[..sector])?;
            }
            let last = cover.len.saturating_sub(sector);
            if end < cover.len && !(cover.head > 0 && last == 0) {
                read_sector(host, cover.start + last as u64, &mut bytes[last..])?;
            }
            source.fill(&mut bytes[cover.head..end]);
            host.write_all(cover.start, bytes)
        });
        self.put_bounce(bounce);
        result
    }

    fn sector(&self) -> u64 {
        u64::from(self.align.offset)
    }

    /// Cuts a range into pieces that fit a bounce buffer, and widens each to whole sectors.
    fn covers(&self, offset: u64, len: u64) -> impl Iterator<Item = Cover> + use<> {
        let sector = self.sector();
        let (mut at, end) = (offset, offset + len);
        std::iter::from_fn(move || {
            let start = at / sector * sector;
            let stop = end.min(start + BOUNCE_BYTES as u64);
            let cover = Cover {
                start,
                len: (stop.next_multiple_of(sector) - start) as usize,
                head: (at - start) as usize,
                part: (stop - at) as usize,
            };
            at = stop;
            (cover.part > 0).then_some(cover)
        })
    }
}

/// Reads a sector; what is past the end of the file is zeros.
fn read_sector(host: &HostFile, offset: u64, sector: &mut [u8]) -> Result<()> {
    let got = host.read_some(offset, sector)?;
    sector[got..].fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{BlockDevice, BlockError, FileDevice, MemoryDevice, OpenOptions};
    use std::io::{IoSlice, IoSliceMut};
    use tempfile::TempDir;

    fn device(len: u64) -> Option<(TempDir, FileDevice)> {
        let dir = tempfile::tempdir().unwrap();
        match FileDevice::open(
            dir.path().join("image"),
            &OpenOptions::create(len).direct(true),
        ) {
            Ok(device) => Some((dir, device)),
            Err(error @ BlockError::NoDirect { .. }) => {
                eprintln!("SKIPPED: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Threads that each own every eighth byte, and threads that own sectors among them.
    #[test]
    fn neighbours_in_a_sector_lose_nothing() {
        let Some((_dir, device)) = device(64 << 10) else {
            return;
        };
        let sector = device.logical_block_size() as usize;
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let device = &device;
                scope.spawn(move || {
                    for round in 1..40u8 {
                        for i in (0..64).filter(|i| i % 4 == thread) {
                            device.write_at(i as u64 * 7, &[round; 7]).unwrap();
                        }
                        let mut found = [0; 64 * 7];
                        device.read_at(0, &mut found).unwrap();
                        for (i, part) in
                            found.chunks(7).enumerate().filter(|(i, _)| i % 4 == thread)
                        {
                            assert_eq!(part, [round; 7], "piece {i}");
                        }
                    }
                });
            }
        });
        let mut found = vec![0; sector];
        device.read_at(0, &mut found).unwrap();
        assert!(found[..64 * 7].iter().all(|&byte| byte == 39));
        assert!(found[64 * 7..].iter().all(|&byte| byte == 0));
    }

    /// Each byte is that of one of the writes: never one from before both.
    #[test]
    fn whole_sectors_beside_parts_of_them() {
        let Some((_dir, device)) = device(64 << 10) else {
            return;
        };
        let sector = device.logical_block_size() as usize;
        for round in 1..100u8 {
            std::thread::scope(|scope| {
                scope.spawn(|| device.write_at(0, &vec![round; sector * 2]).unwrap());
                scope.spawn(|| device.write_at(sector as u64 - 3, &[200; 6]).unwrap());
                scope.spawn(|| {
                    device
                        .write_batch(&[(4096, &vec![round; sector]), (8192, &vec![round; sector])])
                        .unwrap()
                });
                scope.spawn(|| device.write_at(4099, &[200; 6]).unwrap());
            });
            let mut found = vec![0; 16384];
            device.read_at(0, &mut found).unwrap();
            let parts = [sector - 3..sector + 3, 4099..4105];
            for (at, &byte) in found.iter().enumerate() {
                let is_written =
                    at < sector * 2 || [4096, 8192].iter().any(|&s| (s..s + sector).contains(&at));
                let is_part = parts.iter().any(|part| part.contains(&at));
                let fits = match (is_written, is_part) {
                    (false, _) => byte == 0,
                    (true, false) => byte == round,
                    (true, true) => byte == round || byte == 200,
                };
                assert!(fits, "byte {at} is {byte} in round {round}");
            }
        }
    }

    #[test]
    fn a_file_keeps_its_odd_length() {
        let Some((dir, device)) = device(10_001) else {
            return;
        };
        device.write_at(9_990, &[5; 11]).unwrap();
        device.write_at(0, &[4; 10_001]).unwrap();
        let bytes = std::fs::read(dir.path().join("image")).unwrap();
        assert_eq!(bytes, [4; 10_001]);
    }

    /// Buffers of a vectored call that are whole sectors only together, more than are bounced at once.
    #[test]
    fn odd_buffers_of_whole_sectors() {
        let Some((_dir, device)) = device(4 << 20) else {
            return;
        };
        let bytes: Vec<u8> = (0..3 << 20).map(|i: u32| (i * 7 % 251) as u8).collect();
        let (first, second) = bytes.split_at(1_500_001);
        device
            .write_vectored_at(4096, &[IoSlice::new(first), IoSlice::new(second)])
            .unwrap();
        let mut found = vec![0; 3 << 20];
        let (first, second) = found.split_at_mut(77);
        device
            .read_vectored_at(4096, &mut [IoSliceMut::new(first), IoSliceMut::new(second)])
            .unwrap();
        assert!(found == bytes);
        let copy = MemoryDevice::copy_of(&device).unwrap().snapshot();
        assert!(copy[4096..][..3 << 20] == bytes);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        // A file system without direct I/O.
        let path = "/proc/self/status";
        let mut options = OpenOptions::read_only().direct(true);
        options.exclusive = false;
        let error = FileDevice::open(path, &options).unwrap_err();
        assert!(
            error.to_string().contains("open it without direct"),
            "{error}"
        );
        assert_eq!(error.raw_os_error(), Some(22));
    }
}

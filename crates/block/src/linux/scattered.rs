//! Batches on an image in a file: all requests in flight together, or one after the other.
//!
//! # Data model
//! A batch is done in groups, most often a single one. A group is as many runs as a bounce buffer has room
//! for those whose memory isn't aligned; the others need none. What doesn't fit direct I/O at all, or not
//! the bounce buffer, goes alone after the group.
//!
//! # Locking
//! A group that writes directly has the device's edges shared (class `device_edges`) while it is in flight.

use super::bounce::{BOUNCE_BYTES, Gather, Scatter};
use super::direct::{Direct, Fit};
use super::file::FileDevice;
use super::uring::{Request, Rings};
use crate::batch::{Ranged, Run, first_run, runs};
use crate::error::{BlockError, BlockOp, Result};
use rustix::io::Errno;
use std::io::{self, IoSlice, IoSliceMut};

/// How a run is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As a request of its group, with its own memory.
    InPlace,
    /// As a request of its group, through the bounce buffer.
    Bounced,
    /// By itself.
    Alone,
}

/// Runs that are in flight together.
#[derive(Debug, Default)]
struct Group {
    runs: Vec<(Run, Way)>,
    /// Ranges of the batch that they take.
    ranges: usize,
    /// Bytes of those that are bounced.
    bounced: usize,
}

/// The next group of a batch.
fn next_group<T: Ranged>(direct: Option<&Direct>, batch: &[T]) -> Group {
    let mut group = Group::default();
    for run in runs(batch) {
        let parts = &batch[group.ranges..group.ranges + run.ranges];
        let fit = direct.map_or(Fit::Aligned, |direct| {
            direct.fit(run.offset, parts.iter().map(T::memory))
        });
        let way = match fit {
            Fit::Aligned => Way::InPlace,
            Fit::Memory if run.bytes <= BOUNCE_BYTES as u64 => Way::Bounced,
            _ => Way::Alone,
        };
        if way == Way::Bounced {
            let together = group.bounced + run.bytes as usize;
            if together > BOUNCE_BYTES {
                break;
            }
            group.bounced = together;
        }
        group.ranges += run.ranges;
        group.runs.push((run, way));
    }
    group
}

impl FileDevice {
    /// Does a batch of reads whose ranges are checked.
    pub(crate) fn read_scattered(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let rings = match runs(reads).nth(1) {
            Some(_) => self.rings(),
            None => None,
        };
        let mut rest = reads;
        let Some(rings) = rings else {
            while let Some(run) = first_run(rest) {
                let (now, after) = rest.split_at_mut(run.ranges);
                self.read_run(run.offset, &mut room(now))?;
                rest = after;
            }
            return Ok(());
        };
        while !rest.is_empty() {
            let group = next_group(self.direct.as_ref(), rest);
            let (now, after) = rest.split_at_mut(group.ranges);
            match &self.direct {
                None => self.read_group(rings, &group, now, &mut [])?,
                Some(direct) => {
                    let mut bounce = direct.bounce();
                    let space = direct.aligned(&mut bounce, group.bounced);
                    let result = self.read_group(rings, &group, now, space);
                    direct.put_bounce(bounce);
                    result?;
                }
            }
            rest = after;
        }
        Ok(())
    }

    fn read_group(
        &self,
        rings: &Rings,
        group: &Group,
        reads: &mut [(u64, &mut [u8])],
        space: &mut [u8],
    ) -> Result<()> {
        let mut requests = Vec::with_capacity(group.runs.len());
        let mut bufs = Vec::with_capacity(reads.len());
        let mut later = Vec::new();
        let (mut rest, mut unused) = (reads, &mut *space);
        for &(run, way) in &group.runs {
            let (now, after) = std::mem::take(&mut rest).split_at_mut(run.ranges);
            rest = after;
            match way {
                Way::InPlace => {
                    requests.push(Request::new(run.offset, run.ranges));
                    bufs.extend(now.iter_mut().map(|(_, buf)| IoSliceMut::new(buf)));
                    continue;
                }
                Way::Bounced => {
                    let (part, more) = std::mem::take(&mut unused).split_at_mut(run.bytes as usize);
                    unused = more;
                    requests.push(Request::new(run.offset, 1));
                    bufs.push(IoSliceMut::new(part));
                }
                Way::Alone => {}
            }
            later.push((run, way, now));
        }
        rings.read(&self.host.fd, &mut requests, &mut bufs);
        let mut answered = &mut bufs[..];
        for request in &requests {
            let (now, after) = answered.split_at_mut(request.bufs);
            let done = bytes_done(request, BlockOp::Read, now.iter().map(|buf| buf.len()))?;
            self.host.finish_read(request.offset, now, done)?;
            answered = after;
        }
        let mut bounced = &*space;
        for (run, way, now) in later {
            let mut target = room(now);
            if way == Way::Alone {
                self.read_run(run.offset, &mut target)?;
                continue;
            }
            let (part, more) = bounced.split_at(run.bytes as usize);
            Scatter::new(&mut target).put(part);
            bounced = more;
        }
        Ok(())
    }

    /// Does a batch of writes whose ranges are checked.
    pub(crate) fn write_scattered(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let rings = match runs(writes).nth(1) {
            Some(_) => self.rings(),
            None => None,
        };
        let mut rest = writes;
        let Some(rings) = rings else {
            while let Some(run) = first_run(rest) {
                let (now, after) = rest.split_at(run.ranges);
                self.write_run(run.offset, &source(now))?;
                rest = after;
            }
            return Ok(());
        };
        while !rest.is_empty() {
            let group = next_group(self.direct.as_ref(), rest);
            let (now, after) = rest.split_at(group.ranges);
            match &self.direct {
                None => self.write_group(rings, &group, now, &mut [])?,
                Some(direct) => {
                    let mut bounce = direct.bounce();
                    let space = direct.aligned(&mut bounce, group.bounced);
                    let result = {
                        let _shared = direct.share();
                        self.write_group(rings, &group, now, space)
                    };
                    direct.put_bounce(bounce);
                    result?;
                    self.write_alone(&group, now)?;
                }
            }
            rest = after;
        }
        Ok(())
    }

    /// Writes the runs of a group that are in flight together.
    fn write_group(
        &self,
        rings: &Rings,
        group: &Group,
        writes: &[(u64, &[u8])],
        space: &mut [u8],
    ) -> Result<()> {
        let mut requests = Vec::with_capacity(group.runs.len());
        let mut bufs = Vec::with_capacity(writes.len());
        let (mut rest, mut unused) = (writes, space);
        for &(run, way) in &group.runs {
            let (now, after) = rest.split_at(run.ranges);
            rest = after;
            match way {
                Way::InPlace => {
                    requests.push(Request::new(run.offset, run.ranges));
                    bufs.extend(now.iter().map(|(_, buf)| IoSlice::new(buf)));
                }
                Way::Bounced => {
                    let (part, more) = std::mem::take(&mut unused).split_at_mut(run.bytes as usize);
                    unused = more;
                    Gather::new(&source(now)).fill(part);
                    requests.push(Request::new(run.offset, 1));
                    bufs.push(IoSlice::new(part));
                }
                Way::Alone => {}
            }
        }
        rings.write(&self.host.fd, &mut requests, &bufs);
        let mut answered = &bufs[..];
        for request in &requests {
            let (now, after) = answered.split_at(request.bufs);
            let done = bytes_done(request, BlockOp::Write, now.iter().map(|buf| buf.len()))?;
            self.host.finish_write(request.offset, now, done)?;
            answered = after;
        }
        Ok(())
    }

    fn write_alone(&self, group: &Group, writes: &[(u64, &[u8])]) -> Result<()> {
        let mut rest = writes;
        for &(run, way) in &group.runs {
            let (now, after) = rest.split_at(run.ranges);
            rest = after;
            if way == Way::Alone {
                self.write_run(run.offset, &source(now))?;
            }
        }
        Ok(())
    }
}

fn room<'a>(reads: &'a mut [(u64, &mut [u8])]) -> Vec<IoSliceMut<'a>> {
    let bufs = reads.iter_mut().map(|(_, buf)| IoSliceMut::new(buf));
    bufs.collect()
}

fn source<'a>(writes: &[(u64, &'a [u8])]) -> Vec<IoSlice<'a>> {
    writes.iter().map(|(_, buf)| IoSlice::new(buf)).collect()
}

/// How much of a request the kernel did; what was put off counts as nothing done.
fn bytes_done(request: &Request, op: BlockOp, lens: impl Iterator<Item = usize>) -> Result<usize> {
    if let Ok(done) = usize::try_from(request.result) {
        return Ok(done);
    }
    let errno = -request.result;
    let put_off = [Errno::INTR, Errno::AGAIN];
    if put_off.iter().any(|other| other.raw_os_error() == errno) {
        return Ok(0);
    }
    let len = lens.map(|len| len as u64).sum();
    let error = io::Error::from_raw_os_error(errno);
    Err(BlockError::io(op, request.offset, len, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockDevice, IoEngine, OpenOptions};
    use tempfile::TempDir;

    fn with_engine(direct: bool, engine: IoEngine, len: u64) -> Option<(TempDir, FileDevice)> {
        let dir = tempfile::tempdir().unwrap();
        let mut options = OpenOptions::create(len);
        (options.direct, options.engine) = (direct, Some(engine));
        match FileDevice::open(dir.path().join("image"), &options) {
            Ok(device) => Some((dir, device)),
            Err(error @ (BlockError::NoDirect { .. } | BlockError::NoUring { .. })) => {
                eprintln!("SKIPPED: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn every_kind(len: u64) -> Vec<(TempDir, FileDevice)> {
        let engines = [IoEngine::Plain, IoEngine::Uring];
        engines
            .into_iter()
            .flat_map(|engine| [false, true].map(|direct| with_engine(direct, engine, len)))
            .flatten()
            .collect()
    }

    #[test]
    fn batches_are_what_single_calls_are() {
        for (_dir, device) in every_kind(8 << 20) {
            let blocks: Vec<Vec<u8>> = (0..700usize)
                .map(|i| vec![i as u8; [4096, 512, 700][i % 3]])
                .collect();
            // Some follow each other, most don't; more than a ring or a bounce buffer takes at once.
            let place = |i: usize| ((i * 37 % 700) * 8192 + i % 7 * 512) as u64;
            let writes: Vec<(u64, &[u8])> = (0..)
                .map(place)
                .zip(blocks.iter().map(|b| &b[..]))
                .collect();
            device.write_batch(&writes).unwrap();
            let mut back: Vec<Vec<u8>> = blocks.iter().map(|b| vec![0xEE; b.len()]).collect();
            let mut reads: Vec<(u64, &mut [u8])> = (0..)
                .map(place)
                .zip(back.iter_mut().map(|b| &mut b[..]))
                .collect();
            device.read_batch(&mut reads).unwrap();
            assert!(back == blocks, "{}", device.engine());
            for (at, block) in &writes {
                let mut one = vec![0; block.len()];
                device.read_at(*at, &mut one).unwrap();
                assert!(one == *block);
            }
        }
    }

    #[test]
    fn a_batch_that_is_out_of_range_does_nothing() {
        for (_dir, device) in every_kind(8192) {
            let error = device
                .write_batch(&[(0, &[7; 512]), (8191, &[7; 2])])
                .unwrap_err();
            assert!(matches!(error, BlockError::OutOfRange { .. }), "{error}");
            let mut first = [1; 512];
            device.read_at(0, &mut first).unwrap();
            assert_eq!(first, [0; 512]);
        }
    }

    /// The file is shorter than the device believes.
    #[test]
    fn a_short_read_in_a_batch_is_an_error() {
        for (dir, device) in every_kind(16384) {
            let file = std::fs::File::options()
                .write(true)
                .open(dir.path().join("image"));
            file.unwrap().set_len(8192).unwrap();
            let (mut first, mut second) = ([1; 4096], [1; 4096]);
            let mut reads: [(u64, &mut [u8]); 2] = [(0, &mut first), (12288, &mut second)];
            let error = device.read_batch(&mut reads).unwrap_err();
            assert_eq!(
                error.to_string(),
                "short read at offset 12288: 0 of 4096 bytes"
            );
        }
    }

    #[test]
    fn threads_batch_at_the_same_time() {
        for (_dir, device) in every_kind(8 << 20) {
            std::thread::scope(|scope| {
                for thread in 0..6u64 {
                    let device = &device;
                    scope.spawn(move || {
                        let at = |i: u64| (i * 6 + thread) * 8192 + thread * 100;
                        for round in 0..10 {
                            let block = [round * 10 + thread as u8; 1000];
                            let writes: Vec<(u64, &[u8])> =
                                (0..100).map(|i| (at(i), &block[..])).collect();
                            device.write_batch(&writes).unwrap();
                            let mut back = vec![[0; 1000]; 100];
                            let mut reads: Vec<(u64, &mut [u8])> = (0..)
                                .map(at)
                                .zip(back.iter_mut().map(|b| &mut b[..]))
                                .collect();
                            device.read_batch(&mut reads).unwrap();
                            assert!(back.iter().all(|found| *found == block));
                        }
                    });
                }
            });
        }
    }
}

//! Blocks that are reserved before they are wanted (`percpu`): chunks of CPUs, for files that begin, and of files that grow.
//!
//! # Data model
//! What is counted here are clusters, which are blocks without `bigalloc`. A chunk is a run of blocks that are busy in memory and free on disk. A CPU has a few, each for the groups of some numbers: small
//! files of one directory get blocks one after another. A file gets one of its own when the block after its last is taken, so
//! files that are written in turn are not interleaved; the chunk is as large as the file is then, within bounds.
//! A file has the place of its number in a table; another file of the same place replaces the chunk.
//!
//! # Invariants
//! - Blocks of a chunk count as free. They are counted when they are taken from it.
//! - No chunk is made where free blocks are few. A search that finds nothing releases all chunks and is repeated.
//! - What nothing took blocks from for a while is released after a commit.
//!
//! # Locking
//! None: a chunk is one atomic word, from which a thread takes blocks by a compare-exchange. Its owner is a hint.

use crate::block_allocator::clusters::ClusterRun;
use crate::block_allocator::search::{claim_found, find_run};
use crate::block_allocator::{BlockAllocator, Goal};
use crate::clock::now_s;
use crate::group::{BlockBits, bitmap};
use crate::prelude::*;
use std::sync::atomic::Ordering::AcqRel;
use uext4_ondisk::Cluster;

/// Chunks of a CPU.
const CPU_CHUNKS: usize = 8;
/// The most blocks of a CPU's chunk: a cache line of the bitmap, so that CPUs publish in lines of their own.
const CPU_CHUNK_MAX: u32 = 512;
/// A file's chunk is as large as so many of a CPU at most.
const FILE_CHUNK_FACTOR: u32 = 4;
/// The fewest blocks of a file's chunk.
const FILE_CHUNK_MIN: u32 = 8;
/// Blocks from which on a file has blocks reserved behind it before another file takes these.
const GROWING_BLOCKS: u32 = 16;
/// Places for files, and for each CPU.
const FILES_MIN: usize = if FEW_SCHEDULES { 2 } else { 1024 };
const FILES_PER_CPU: usize = if FEW_SCHEDULES { 1 } else { 32 };
const FEW_SCHEDULES: bool = cfg!(all(shuttle, not(virtual_cpus)));
/// No chunk is made where less than one block of so many is free.
const ROOM_SHARE: u64 = 16;
/// How long a chunk may stay unused, at least.
const AGE_MAX_S: u32 = 5;

/// A chunk.
#[derive(Debug, Default)]
struct Chunk {
    /// The first cluster, and in the low 16 bits how many there are.
    run: AtomicU64,
    /// Of a file's chunk the inode number, of a CPU's the group.
    owner: AtomicU32,
    /// Whether blocks were taken since the last check of its age.
    is_used: AtomicBool,
}

fn pack(run: ClusterRun) -> u64 {
    run.first.0 << 16 | u64::from(run.len.min(0xffff))
}

fn unpack(packed: u64) -> ClusterRun {
    ClusterRun {
        first: Cluster(packed >> 16),
        len: (packed & 0xffff) as u32,
    }
}

impl Chunk {
    /// Takes up to `want` blocks from its start, if it has `least`, and begins at `at` if that is given.
    #[inline]
    fn take(&self, at: Option<Cluster>, want: u32, least: u32) -> Option<ClusterRun> {
        let mut seen = self.run.load(Relaxed);
        loop {
            let has = unpack(seen);
            if has.len < least.max(1) || at.is_some_and(|at| at != has.first) {
                return None;
            }
            let len = want.min(has.len);
            let left = ClusterRun {
                first: Cluster(has.first.0 + u64::from(len)),
                len: has.len - len,
            };
            match self.run.compare_exchange(seen, pack(left), AcqRel, Relaxed) {
                Ok(_) => {
                    if !self.is_used.load(Relaxed) {
                        self.is_used.store(true, Relaxed);
                    }
                    let first = has.first;
                    return Some(ClusterRun { first, len });
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Replaces its blocks; returns those that it had, or that it had none from where on.
    fn replace(&self, owner: u32, run: ClusterRun) -> ClusterRun {
        self.owner.store(owner, Relaxed);
        self.is_used.store(true, Relaxed);
        unpack(self.run.swap(pack(run), AcqRel))
    }

    /// Empties it.
    fn take_all(&self) -> ClusterRun {
        let seen = unpack(self.run.load(Relaxed));
        match seen.len {
            0 => seen,
            _ => unpack(self.run.swap(0, AcqRel)),
        }
    }
}

/// All chunks; see the module.
#[derive(Debug)]
pub(super) struct Ahead {
    cpus: PerCpu<[Chunk; CPU_CHUNKS]>,
    files: OnceLock<Box<[CachePadded<Chunk>]>>,
    /// Blocks of a CPU's chunk at most.
    cpu_chunk: u32,
    /// When ages were last checked, in seconds since 1970.
    aged_s: AtomicU32,
}

impl Ahead {
    /// For a file system of so many clusters.
    pub fn new(clusters: u64) -> Ahead {
        let share = u32::try_from(clusters / 1024).unwrap_or(u32::MAX);
        Ahead {
            cpus: PerCpu::new(|_| Default::default()),
            files: OnceLock::new(),
            cpu_chunk: share.clamp(FILE_CHUNK_MIN, CPU_CHUNK_MAX),
            aged_s: AtomicU32::new(0),
        }
    }

    /// This CPU's chunk for a group.
    fn of_cpu(&self, no: GroupNo) -> Option<&Chunk> {
        self.cpus.get().get(no.0 as usize % CPU_CHUNKS)
    }

    /// The chunk of a file, or of another that has the same place; None if no file had any.
    fn of_file(&self, ino: Ino) -> Option<&Chunk> {
        let files = self.files.get()?;
        // Files of one CPU have numbers that follow each other, and those of several CPUs begin at multiples of a line.
        let hash = u64::from(ino.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let chunk = files.get(hash as usize % files.len())?;
        Some(chunk)
    }

    fn files_or_make(&self) -> &[CachePadded<Chunk>] {
        self.files.get_or_init(|| {
            let count = FILES_MIN.max(self.cpus.iter().count() * FILES_PER_CPU);
            (0..count).map(|_| CachePadded::default()).collect()
        })
    }

    fn iter(&self) -> impl Iterator<Item = &Chunk> {
        let files = self.files.get().map_or(&[][..], |files| files);
        let cpus = self.cpus.iter().flatten();
        cpus.chain(files.iter().map(|chunk| &**chunk))
    }
}

impl BlockAllocator {
    /// Reserves blocks from what this CPU or the file has ahead, and more than `want` to have them ahead; None if that is not to
    /// be done, or there is nothing of that kind.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn reserve_ahead(&self, goal: &Goal, want: u32) -> Result<Option<ClusterRun>> {
        let geometry = self.volume.geometry();
        // A chunk may lie anywhere.
        if goal.groups < geometry.groups_count {
            return Ok(None);
        }
        let (no, at) = self.bit_of(goal.pblk).unwrap_or_default();
        let found = match at == 0 && goal.lblk.0 == 0 {
            true => self.reserve_first(no, want)?,
            false => self.reserve_next(goal, no, at, want)?,
        };
        if let Some(run) = found {
            self.free_blocks.add(-(run.len as isize));
        }
        Ok(found)
    }

    /// For what begins in a group: from this CPU's chunk.
    fn reserve_first(&self, no: GroupNo, want: u32) -> Result<Option<ClusterRun>> {
        let size = self.ahead.cpu_chunk;
        let Some(chunk) = self.ahead.of_cpu(no).filter(|_| want <= size / 2) else {
            return Ok(None);
        };
        let is_own = chunk.owner.load(Relaxed) == no.0;
        if is_own && let Some(run) = chunk.take(None, want, want) {
            return Ok(Some(run));
        }
        if !self.has_room_ahead() {
            return Ok(None);
        }
        // The next begins with what is left of the last, unless blocks before it were freed.
        self.release_chunk(chunk);
        let Some(run) = self.claim_chunk((no, None), want, size)? else {
            return Ok(None);
        };
        Ok(Some(self.split_chunk(chunk, no.0, run, want)))
    }

    /// For what continues: the block at the goal and those after it, from the chunk of the file or of a CPU, or if nothing has it; or
    /// else a chunk for the file elsewhere.
    fn reserve_next(
        &self,
        goal: &Goal,
        no: GroupNo,
        at: u32,
        want: u32,
    ) -> Result<Option<ClusterRun>> {
        let next = |chunk: &Chunk| chunk.take(Some(self.cluster_of(goal.pblk)), want, 1);
        if let Some(run) = self.ahead.of_file(goal.ino).and_then(next) {
            return Ok(Some(run));
        }
        if let Some(run) = self.ahead.cpus.get().iter().find_map(next) {
            return Ok(Some(run));
        }
        let ahead = self.blocks_ahead(goal, want);
        let grows = goal.lblk.0 >= GROWING_BLOCKS;
        let here = if grows { ahead.max(want) } else { want };
        if let Some((_, bits)) = self.group_with(no, want)? {
            let end = self.clusters_in_group(no);
            let len = here.min(end.saturating_sub(at));
            let claimed = bitmap::claim_run(&bits.busy, at, len);
            if claimed >= want {
                let run = self.clusters_from(no, at, claimed);
                return Ok(Some(self.split_for_file(goal.ino, run, want)));
            }
            bitmap::assign_run(&bits.busy, at, claimed, false);
        }
        if let Some(run) = self.ahead.cpus.iter().flatten().find_map(next) {
            return Ok(Some(run));
        }
        if ahead <= want {
            return Ok(None);
        }
        let found = self.claim_chunk((no, Some(at)), want, ahead)?;
        Ok(found.map(|run| self.split_for_file(goal.ino, run, want)))
    }

    /// How many blocks a file gets at once, `want` of them now; 0 for none but those.
    fn blocks_ahead(&self, goal: &Goal, want: u32) -> u32 {
        let max = self.ahead.cpu_chunk * FILE_CHUNK_FACTOR;
        let size = (goal.lblk.0 >> self.cluster_bits)
            .saturating_add(want)
            .min(max);
        let ahead = size.next_power_of_two().clamp(FILE_CHUNK_MIN, max);
        match goal.ino.0 != 0 && ahead > want && self.has_room_ahead() {
            true => ahead,
            false => 0,
        }
    }

    /// Whether so much is free that chunks may be made.
    fn has_room_ahead(&self) -> bool {
        let share = self.volume.geometry().clusters_count() / ROOM_SHARE;
        let share = isize::try_from(share).unwrap_or(isize::MAX);
        let least = self.reserved_clusters().saturating_add(share);
        self.free_blocks.is_above(least)
    }

    /// Claims up to `size` blocks and at least `want`, in the first group that has them: from a place in a group on, if one is given,
    /// and in the others from where the first may be free. It ends where a cache line of the bitmap does.
    fn claim_chunk(
        &self,
        (start, from): (GroupNo, Option<u32>),
        want: u32,
        size: u32,
    ) -> Result<Option<ClusterRun>> {
        let geometry = self.volume.geometry();
        let groups = geometry.groups_count;
        for i in 0..groups {
            let no = (u64::from(start.0) + u64::from(i)) % u64::from(groups);
            let no = GroupNo(no as u32);
            let Some((group, bits)) = self.group_with(no, want)? else {
                continue;
            };
            let end = self.clusters_in_group(no);
            let hint = group.chunk_hint.load(Relaxed);
            let from = from.filter(|_| i == 0);
            if from.is_none() && hint >= end {
                continue;
            }
            let found = claim_in_line(bits, from.unwrap_or(hint), end, want, size);
            if from.is_none() {
                let next = found.map_or(end, |(first, len)| first + len);
                // Unless blocks were freed meanwhile, which may lie before.
                let _ = group
                    .chunk_hint
                    .compare_exchange(hint, next, Relaxed, Relaxed);
            }
            if let Some((first, len)) = found {
                return Ok(Some(self.clusters_from(no, first, len)));
            }
        }
        Ok(None)
    }

    fn split_for_file(&self, ino: Ino, run: ClusterRun, want: u32) -> ClusterRun {
        if run.len > want {
            self.ahead.files_or_make();
        }
        match self.ahead.of_file(ino).filter(|_| run.len > want) {
            Some(chunk) => self.split_chunk(chunk, ino.0, run, want),
            None => run,
        }
    }

    /// Takes `want` blocks of a run, and puts the rest in place of what a chunk has.
    fn split_chunk(&self, chunk: &Chunk, owner: u32, run: ClusterRun, want: u32) -> ClusterRun {
        let (taken, rest) = (want.min(run.len), run.len.saturating_sub(want));
        let rest = ClusterRun {
            first: Cluster(run.first.0 + u64::from(taken)),
            len: rest,
        };
        self.clear_busy(chunk.replace(owner, rest));
        ClusterRun {
            first: run.first,
            len: taken,
        }
    }

    fn release_chunk(&self, chunk: &Chunk) -> ClusterRun {
        let left = chunk.take_all();
        self.clear_busy(left);
        left
    }

    /// Releases all chunks; returns whether there were any.
    ///
    /// # Locks
    /// None.
    pub(crate) fn release_ahead(&self) -> bool {
        let mut any = false;
        for chunk in self.ahead.iter() {
            any |= self.release_chunk(chunk).len > 0;
        }
        any
    }

    /// Releases what a file has that loses blocks.
    #[inline]
    pub(crate) fn forget_file(&self, ino: Ino) {
        if let Some(chunk) = self.ahead.of_file(ino)
            && chunk.owner.load(Relaxed) == ino.0
        {
            self.release_chunk(chunk);
        }
    }

    /// Releases chunks that were not used since the last call that did this, some seconds ago.
    pub(super) fn age_ahead(&self) {
        self.age_ahead_at(now_s());
    }

    /// The same at a time in seconds since 1970.
    pub(super) fn age_ahead_at(&self, now: u32) {
        let last = self.ahead.aged_s.load(Relaxed);
        if now.wrapping_sub(last) < AGE_MAX_S {
            return;
        }
        self.ahead.aged_s.store(now, Relaxed);
        for chunk in self.ahead.iter() {
            if unpack(chunk.run.load(Relaxed)).len > 0 && !chunk.is_used.swap(false, Relaxed) {
                self.release_chunk(chunk);
            }
        }
    }
}

/// Claims a run of at least `want` clear bits, and of `size` at most, that ends where a cache line does.
fn claim_in_line(
    bits: &BlockBits,
    from: u32,
    end: u32,
    want: u32,
    size: u32,
) -> Option<(u32, u32)> {
    claim_found(bits, want, || {
        let (first, len) = find_run(bits, from, end, size, want)?;
        let line_end = (first + want + 1).next_multiple_of(CPU_CHUNK_MAX);
        let len = match size <= CPU_CHUNK_MAX {
            true => len.min(line_end - first),
            false => len,
        };
        Some((first, len))
    })
}

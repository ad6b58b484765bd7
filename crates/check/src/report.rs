//! Input and results of a check.

use crate::fault::{Fault, Faults};

/// How to check.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// Threads to use; 0 means as many as the machine runs at once.
    pub threads: usize,
    /// The most faults to keep; all are counted.
    pub faults_max: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions {
            threads: 0,
            faults_max: 10_000,
        }
    }
}

impl CheckOptions {
    /// The number of threads that will run.
    pub(crate) fn threads(&self) -> usize {
        if self.threads > 0 {
            return self.threads.min(256);
        }
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}

/// Receives the progress of a check. Calls come from several threads.
pub trait Progress: Sync {
    /// A phase of `total` units begins.
    fn phase(&self, name: &str, total: u64);
    /// `n` more units of the phase are done.
    fn advance(&self, n: u64);
}

/// Discards the progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn phase(&self, _name: &str, _total: u64) {}
    fn advance(&self, _n: u64) {}
}

/// What a check found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// The faults, in the order of the passes, at most `faults_max` of them.
    pub faults: Vec<Fault>,
    /// How many faults there are.
    pub faults_total: u64,
    /// What is odd but no damage, at most `faults_max` of it. Says nothing about the verdict.
    pub notes: Vec<Fault>,
    /// How many notes there are.
    pub notes_total: u64,
    /// The check ended before all passes, since a fault made the rest impossible.
    pub incomplete: bool,
    /// The journal holds transactions; what was checked is the image as replay would leave it.
    pub needs_recovery: bool,
    /// Blocks that replay would write.
    pub replay_blocks: u64,
    /// The file system remembers errors (`s_state`, `s_error_count`).
    pub errors_recorded: bool,
    /// Inodes on the orphan list and in the orphan file.
    pub orphans: u64,
    /// Inodes in use, reserved ones included.
    pub inodes_used: u64,
    /// Inodes of the file system.
    pub inodes_total: u64,
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, pipes and sockets.
    pub specials: u64,
    /// Regular files and directories whose blocks do not follow one another, as e2fsck counts them.
    pub fragmented: u64,
    /// Blocks in use, with `bigalloc` those of the clusters in use.
    pub blocks_used: u64,
    /// Blocks of the file system.
    pub blocks_total: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// The first block of the first group.
    pub first_block: u64,
}

impl CheckReport {
    /// Fills in what was found.
    pub(crate) fn take(&mut self, faults: Faults) {
        let (faults, notes) = faults.into_parts();
        (self.faults_total, self.faults) = faults;
        (self.notes_total, self.notes) = notes;
    }

    /// True without any fault.
    pub fn is_clean(&self) -> bool {
        self.faults_total == 0
    }
}

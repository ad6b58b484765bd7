//! Whether what recovery leaves of a state is allowed.

use super::base::Base;
use super::others::Others;
use super::record::Recording;
use super::recovery::{Recovered, Replay, Replayed, recover, replay, save};
use super::states::{Budget, Walk, choices};
use super::tally::{Seen, Tally};
use crate::device::ForkDevice;
use crate::external::*;
use crate::tree::{self, Tree};
use crate::verdict::Guarantee;

/// How deep crashes within recoveries go.
const DEPTH_MAX: u32 = 2;

/// Of crashes within a recovery, one in so many is looked into for crashes within its own recovery.
const DEEPER_ONE_IN: u64 = 24;

/// How a recording is examined.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// At each point of the recording.
    pub budget: Budget,
    /// At each point of a recovery.
    pub recovery: Budget,
    /// Of how many recoveries one is interrupted.
    pub interrupt_one_in: u64,
    /// How many parts of what the log holds are tried as what a crash within its replay leaves.
    pub partial_replays: usize,
}

impl Effort {
    /// Of a sequence of one operation.
    pub const ONE: Effort = Effort {
        interrupt_one_in: 1,
        ..Effort::SHORT
    };
    /// Of a sequence of a few operations.
    pub const SHORT: Effort = Effort {
        budget: Budget::SHORT,
        recovery: Budget::RECOVERY,
        interrupt_one_in: 8,
        partial_replays: 3,
    };
    /// Where e2fsck is asked about every state.
    pub const WITHOUT_JOURNAL: Effort = Effort {
        budget: Budget::SPARSE,
        recovery: Budget::SPARSE,
        interrupt_one_in: 1,
        partial_replays: 0,
    };
    /// Of a long workload.
    pub const LONG: Effort = Effort {
        budget: Budget::LONG,
        recovery: Budget::RECOVERY,
        interrupt_one_in: 48,
        partial_replays: 2,
    };
}

impl Effort {
    /// Of a long workload.
    pub fn of_long(base: &Base) -> Effort {
        match base.config.has_journal {
            true => Effort::LONG,
            false => Effort::WITHOUT_JOURNAL,
        }
    }
}

/// A state that is not as it must be.
#[derive(Debug)]
pub struct Failure {
    /// Its number among those of its recording.
    pub state: u64,
    /// What is wrong.
    pub why: String,
}

/// One recording under examination.
pub struct Judge<'a> {
    base: &'a Base,
    recording: &'a Recording,
    effort: Effort,
    seen: &'a Seen,
    others: &'a Others,
    /// What was recovered, by the hash of what the journal's recovery leaves.
    recovered: HashMap<u64, Arc<Recovered>>,
    /// That hash, by the hash of the state.
    keys: HashMap<u64, u64>,
    /// What was allowed, by that hash and the number of guarantees.
    allowed: HashSet<(u64, usize)>,
    /// What it came to.
    pub tally: Tally,
    number: u64,
    only: Option<u64>,
}

impl<'a> Judge<'a> {
    /// Of `recording`; `only`: nothing but the state of this number.
    pub fn new(
        base: &'a Base,
        recording: &'a Recording,
        effort: Effort,
        (seen, others): (&'a Seen, &'a Others),
        only: Option<u64>,
    ) -> Judge<'a> {
        Judge {
            base,
            recording,
            effort,
            seen,
            others,
            recovered: HashMap::new(),
            keys: HashMap::new(),
            allowed: HashSet::new(),
            tally: Tally::default(),
            number: 0,
            only,
        }
    }

    /// Examines every state that the effort allows.
    pub fn examine(&mut self, seed: u64) -> Result<(), Failure> {
        let recording = self.recording;
        let device = ForkDevice::new(recording.image.clone());
        let mut walk = Walk::new(&recording.log, device);
        let start = recording.start();
        for point in recording.log.crash_points() {
            // What is before the start was explored once, with the shortest sequences.
            if point.at_op < start {
                continue;
            }
            let guarantees = recording.guarantees_before(&point);
            let seed = seed ^ point.at_op as u64;
            for choice in choices(&recording.log, &point, &self.effort.budget, seed) {
                self.number += 1;
                if self.only.is_some_and(|only| only != self.number) {
                    continue;
                }
                let state = walk.state(&point, &choice);
                if self.only.is_some() {
                    println!("{point:?}, and of what may be lost {choice:?} is there");
                }
                if let (Some(path), Some(_)) = (std::env::var_os("UEXT4_EXPLORE_SAVE"), self.only) {
                    // If that fails, the finding is reported nevertheless.
                    let _ = save(&state.freeze(), path.as_ref());
                }
                self.state(state, &guarantees).map_err(|why| Failure {
                    state: self.number,
                    why: format!("{why:#}"),
                })?;
            }
        }
        Ok(())
    }

    /// Whether a state is new.
    fn is_new(&mut self, state: &ForkDevice) -> bool {
        let new = self.seen.insert(state.hash());
        match new {
            true => self.tally.states += 1,
            false => self.tally.repeated += 1,
        }
        new || self.only.is_some()
    }

    fn state(&mut self, state: ForkDevice, guarantees: &[Vec<Guarantee>]) -> Result<()> {
        // What a state was allowed to be before may be forbidden by what was guaranteed since.
        if !self.is_new(&state)
            && let Some(key) = self.keys.get(&state.hash())
        {
            return self.judge_as(*key, guarantees);
        }
        if !self.base.config.has_journal {
            return self.without_journal(&state, guarantees);
        }
        let (key, replay) = self.replayed(&state)?;
        self.keys.insert(state.hash(), key);
        let recovered = match self.recovered.get(&key) {
            Some(recovered) => Arc::clone(recovered),
            None => self.recover(&state, key)?,
        };
        check_copies(&recovered, &replay)?;
        self.partial_replays(&state, key, &replay, &recovered)?;
        self.judge_as(key, guarantees)?;
        let ask = match self.only {
            Some(_) => self.others.all(),
            None if self.base.has_old_fast_commits(&state)? => None,
            None => self.others.wants(&state),
        };
        if let Some(ask) = ask {
            let is_allowed = |tree: &Tree| self.judge(tree, guarantees);
            let asked = self.others.ask(&state, &recovered, ask, &is_allowed)?;
            self.tally.add(&asked);
        }
        Ok(())
    }

    /// Judges what was recovered under a key, unless that was done with the same guarantees.
    fn judge_as(&mut self, key: u64, guarantees: &[Vec<Guarantee>]) -> Result<()> {
        let count = guarantees.iter().map(Vec::len).sum();
        match self.recovered.get(&key) {
            Some(recovered) if self.allowed.insert((key, count)) => {
                self.judge(&recovered.tree, guarantees)
            }
            _ => Ok(()),
        }
    }

    /// The key of the state that recovery continues from, and what it wrote before.
    fn replayed(&mut self, state: &ForkDevice) -> Result<(u64, Vec<Replayed>)> {
        let device = Arc::new(state.fork());
        Ok(match replay(self.base, &device)? {
            Some(Replay { key, writes }) => (key, writes),
            None => (state.hash(), Vec::new()),
        })
    }

    /// A state that was not recovered before: once in full, with crashes on the way.
    fn recover(&mut self, state: &ForkDevice, key: u64) -> Result<Arc<Recovered>> {
        let recovered = Arc::new(recover(self.base, state)?);
        self.tally.recoveries += 1;
        self.recovered.insert(key, Arc::clone(&recovered));
        if self.others.is_new_shape(&recovered) {
            self.tally.add(&self.others.fsck_recovered(&recovered)?);
        }
        if state.hash().is_multiple_of(self.effort.interrupt_one_in) {
            self.crash_within(state, &recovered, 0)?;
        }
        Ok(recovered)
    }

    /// Crashes within a recovery: the next one must leave the same tree.
    fn crash_within(&mut self, state: &ForkDevice, first: &Recovered, depth: u32) -> Result<()> {
        let mut walk = Walk::new(&first.log, state.fork());
        for point in first.log.crash_points() {
            let seed = state.hash() ^ point.at_op as u64;
            for choice in choices(&first.log, &point, &self.effort.recovery, seed) {
                let again = walk.state(&point, &choice);
                if !self.is_new(&again) {
                    continue;
                }
                self.tally.in_recovery += 1;
                self.recovers_alike(&again, first, depth).map_err(|why| {
                    anyhow!("{why:#}, after a crash within recovery, {point:?}, {choice:?}")
                })?;
            }
        }
        Ok(())
    }

    fn recovers_alike(&mut self, again: &ForkDevice, first: &Recovered, depth: u32) -> Result<()> {
        let (key, _) = self.replayed(again)?;
        if self.recovered.contains_key(&key) && !again.hash().is_multiple_of(DEEPER_ONE_IN) {
            return same_tree(&self.recovered[&key], first);
        }
        let second = Arc::new(recover(self.base, again)?);
        self.tally.recoveries += 1;
        same_tree(&second, first)?;
        self.recovered.insert(key, Arc::clone(&second));
        if depth + 1 < DEPTH_MAX && again.hash().is_multiple_of(DEEPER_ONE_IN) {
            self.crash_within(again, &second, depth + 1)?;
        }
        Ok(())
    }

    /// Crashes while the log is replayed: what is in place in part is overwritten by the next replay.
    fn partial_replays(
        &mut self,
        state: &ForkDevice,
        key: u64,
        writes: &[Replayed],
        recovered: &Recovered,
    ) -> Result<()> {
        let mut rng = Rng::with_seed(state.hash());
        let tries = match writes.len() {
            0 => 0,
            _ => self.effort.partial_replays,
        };
        for _ in 0..tries {
            let partial = state.fork();
            let percent = *rng.choice(&[20, 60, 95]).unwrap_or(&50);
            for (block, bytes) in writes {
                if rng.u8(..100) >= percent {
                    continue;
                }
                let (from, to) = match rng.u8(..8) {
                    0 => (0, bytes.len() / 2),
                    1 => (bytes.len() / 2, bytes.len()),
                    _ => (0, bytes.len()),
                };
                let at = block * bytes.len() as u64 + from as u64;
                partial.write_at(at, &bytes[from..to])?;
            }
            if !self.is_new(&partial) {
                continue;
            }
            self.tally.in_recovery += 1;
            match replay(self.base, &Arc::new(partial.fork()))? {
                Some(again) if again.key == key => {}
                Some(_) => {
                    bail!("a crash within the log's replay left what the next one does not repair")
                }
                // Nothing but the superblock was to be replayed, and it is torn, or there in whole.
                None => same_tree(&recover(self.base, &partial)?, recovered)?,
            }
        }
        Ok(())
    }

    fn judge(&self, tree: &Tree, guarantees: &[Vec<Guarantee>]) -> Result<()> {
        let synced_only = !self.base.config.has_journal;
        for (history, guarantees) in self.recording.histories.iter().zip(guarantees) {
            match synced_only {
                true => history.judge_synced(tree, guarantees),
                false => history.judge(tree, guarantees),
            }
            .map_err(|why| anyhow!(why))?;
        }
        Ok(())
    }

    /// Without a journal e2fsck repairs everything, and what was synced and left alone since is there.
    fn without_journal(&mut self, state: &ForkDevice, guarantees: &[Vec<Guarantee>]) -> Result<()> {
        // It does not repair a torn superblock without a backup, of which so small an image has none.
        if uext4_ext4::read_superblock(state).is_err() {
            return Ok(());
        }
        let (repaired, _) = self.others.repair(state)?;
        self.tally.fsck += 1;
        let recovered = recover(self.base, &repaired)?;
        self.tally.recoveries += 1;
        let key = state.hash();
        self.keys.insert(key, key);
        self.recovered.insert(key, Arc::new(recovered));
        self.judge_as(key, guarantees)
    }
}

/// No copy in the log is of a block that holds data which is never journalled.
fn check_copies(recovered: &Recovered, writes: &[Replayed]) -> Result<()> {
    let wrong = writes
        .iter()
        .find(|(block, _)| recovered.plain_data.contains(block));
    match wrong {
        Some((block, _)) => bail!("the log has a copy of block {block}, which holds a file's data"),
        None => Ok(()),
    }
}

fn same_tree(second: &Recovered, first: &Recovered) -> Result<()> {
    match tree::difference(&first.tree, &second.tree) {
        Some(difference) => bail!("first recovery / second: {difference}"),
        None => Ok(()),
    }
}

//! What recovery may leave of a worker's operations.
//!
//! Handles are durable in order, so names, attributes and sizes must be as some step left them, and
//! that step is at or after the one that a guarantee names. A byte of a file's data is as that step left it, or as an
//! overwrite in place left it before or after: overwriting is not ordered with anything until a sync. Bytes
//! that only what moves or frees blocks could bring back are stale.

use crate::external::*;
use crate::model::{Id, Model};
use crate::operation::Op;
use crate::tree::{Entry, Tree, brief, show};

/// The largest block.
const BLOCK_BYTES_MAX: usize = 4096;

/// A guarantee that the file system made.
#[derive(Clone, Copy, Debug)]
pub enum Guarantee {
    /// All that was done up to this step.
    Everything(usize),
    /// A file as it was at a step, and what of its inode was changed by the earlier step.
    File {
        /// The model's number.
        id: Id,
        /// When the inode, or with data only the size, changed last.
        changed: usize,
        /// When the guarantee was made.
        at: usize,
    },
}

/// What a call that has returned guarantees of what the model says is there.
pub fn guarantee_of(model: &Model, op: &Op) -> Option<Guarantee> {
    let at = model.step;
    match op {
        Op::Syncfs => Some(Guarantee::Everything(at)),
        Op::Fsync { path, data_only } => {
            let id = model.find(path).ok()?;
            let node = model.node(id)?;
            let changed = if *data_only {
                node.resized
            } else {
                node.changed
            };
            Some(Guarantee::File { id, changed, at })
        }
        _ => None,
    }
}

/// What a worker did: the model after each step.
#[derive(Debug)]
pub struct History {
    /// The worker.
    pub name: String,
    /// The model at the start and after each change.
    pub states: Vec<Model>,
    /// The change that led to each state after the first, for messages.
    pub changes: Vec<Op>,
}

impl History {
    /// Whether `found` is allowed after `guarantees`; the reason if not.
    pub fn judge(&self, found: &Tree, guarantees: &[Guarantee]) -> Result<(), String> {
        let (mut first, mut floor_all) = (0, 0);
        let mut floors: HashMap<Id, usize> = HashMap::new();
        for guarantee in guarantees {
            match *guarantee {
                Guarantee::Everything(step) => {
                    first = first.max(step);
                    floor_all = floor_all.max(step);
                }
                Guarantee::File { id, changed, at } => {
                    first = first.max(changed);
                    let floor = floors.entry(id).or_default();
                    *floor = (*floor).max(at);
                }
            }
        }
        let found = own_part(&self.name, found);
        let base = self.states.first().map_or(0, |state| state.step);
        let mut reasons = Vec::new();
        for (index, state) in self.states.iter().enumerate().rev() {
            if state.step < first {
                break;
            }
            let floor = |id: Id| {
                let guaranteed = floors.get(&id).copied().unwrap_or(0).max(floor_all);
                guaranteed.max(state.step).saturating_sub(base)
            };
            match self.fits(index, &found, &floor) {
                Ok(()) => return Ok(()),
                Err((depth, why)) => reasons.push((depth, state.step, why)),
            }
        }
        // Those that fit in most of what they have.
        reasons.sort_by_key(|(depth, ..)| std::cmp::Reverse(*depth));
        let closest: Vec<String> = reasons
            .iter()
            .take(2)
            .map(|(_, step, why)| format!("of step {step}, {why}"))
            .collect();
        Err(format!(
            "{}: no step from {first} on left this; closest: {closest:?}{}",
            self.name,
            self.story(&found)
        ))
    }

    /// With `UEXT4_CRASH_VERBOSE` set, what was done and what was found.
    fn story(&self, found: &Tree) -> String {
        if std::env::var_os("UEXT4_CRASH_VERBOSE").is_none() {
            return String::new();
        }
        let base = self.states.first().map_or(0, |state| state.step);
        let mut lines = String::new();
        for (change, step) in self.changes.iter().zip(base + 1..) {
            lines += &format!("\n  {step}: {change:?}");
        }
        for (path, entry) in found {
            lines += &format!("\n  found {}: {}", show(path), brief(entry));
        }
        lines
    }

    fn fits(
        &self,
        index: usize,
        found: &Tree,
        floor: &dyn Fn(Id) -> usize,
    ) -> Result<(), (usize, String)> {
        let state = &self.states[index];
        let want = own_part(&self.name, &state.tree());
        let mut good = 0;
        for (path, entry) in &want {
            let Some(have) = found.get(path) else {
                return Err((good, format!("{} is missing", show(path))));
            };
            if !entry.same_attributes(have) {
                return Err((
                    good,
                    format!("{}: {} / found {}", show(path), brief(entry), brief(have)),
                ));
            }
            self.data_fits(index, entry, have, floor(entry.ino))
                .map_err(|(at, why)| (good + at, format!("{}: {why}", show(path))))?;
            good += 1 << 32;
        }
        match found.keys().find(|path| !want.contains_key(*path)) {
            Some(path) => Err((good, format!("{} is there", show(path)))),
            None => Ok(()),
        }
    }

    fn data_fits(
        &self,
        index: usize,
        entry: &Entry,
        have: &Entry,
        floor: usize,
    ) -> Result<(), (usize, String)> {
        let size = have.data.len();
        let next = self
            .states
            .get(index + 1)
            .and_then(|next| next.data(entry.ino));
        // A write in several pieces, or one that ended early, leaves a size on the way.
        let on_the_way = next.is_some_and(|next| (entry.data.len()..=next.len()).contains(&size));
        if size != entry.data.len() && !on_the_way {
            return Err((0, format!("size {size} instead of {}", entry.data.len())));
        }
        let floor = floor.min(self.states.len() - 1);
        let is_known = self.states[floor..]
            .iter()
            .any(|state| state.data(entry.ino).is_some());
        if !is_known {
            // Fsynced at a step after which it was removed: the data of its last days.
            return Ok(());
        }
        let wrong = (0..size).find(|&at| {
            let byte = have.data[at];
            let expected = index >= floor && entry.data.get(at) == Some(&byte);
            !expected && !self.may_hold(index, floor, entry.ino, at, byte)
        });
        match wrong {
            Some(at) => {
                let byte = have.data[at];
                let why = format!(
                    "byte {at} of {size} is {byte:#x}, which no step since {floor} explains"
                );
                Err((at + 1, why))
            }
            None => Ok(()),
        }
    }

    /// Whether a byte can hold what it held in another state, if everything else is as state `index` left it.
    fn may_hold(&self, index: usize, floor: usize, id: Id, at: usize, byte: u8) -> bool {
        let holds =
            |state: usize| self.version(state, id).and_then(|data| data.get(at)) == Some(&byte);
        let mut state = index;
        while state > floor && self.is_in_place(state, id, at) {
            state -= 1;
            if holds(state) {
                return true;
            }
        }
        state = index;
        while state + 1 < self.states.len() {
            if byte == 0 && self.zeroes_tail(state + 1, id, at) {
                return true;
            }
            if !self.leaves_place(state + 1, id, at) {
                return false;
            }
            state += 1;
            if state >= floor && holds(state) {
                return true;
            }
        }
        false
    }

    fn version(&self, state: usize, id: Id) -> Option<&Arc<Vec<u8>>> {
        self.states.get(state)?.data(id)
    }

    /// What changed the data of a file on the way to a state; `None` if nothing did.
    fn change_of(&self, state: usize, id: Id) -> Option<&Op> {
        let (before, after) = (self.version(state - 1, id), self.version(state, id));
        match (before, after) {
            (Some(before), Some(after)) if Arc::ptr_eq(before, after) => None,
            (None, None) => None,
            _ => self.changes.get(state - 1),
        }
    }

    /// Whether the change to `state` can be lost for this byte although it is there for all else: a write
    /// within the size, or what left the byte alone.
    fn is_in_place(&self, state: usize, id: Id, at: usize) -> bool {
        let old_len = self.version(state - 1, id).map_or(0, |data| data.len());
        match self.change_of(state, id) {
            None => self.version(state, id).is_some(),
            Some(Op::Write { .. } | Op::Append { .. }) => at < old_len,
            Some(op) => self.leaves_alone(state, id, at, op),
        }
    }

    /// Whether this byte keeps its place on the device in the change to `state`, so that what is written there
    /// later can be there although nothing else of it is: unless its block is freed, or moves.
    fn leaves_place(&self, state: usize, id: Id, at: usize) -> bool {
        let len = |state| self.version(state, id).map_or(0, |data| data.len());
        match self.change_of(state, id) {
            None => self.version(state, id).is_some(),
            Some(Op::Truncate { .. }) => {
                let kept = len(state - 1).min(len(state));
                at < kept.next_multiple_of(BLOCK_BYTES_MAX)
            }
            Some(Op::Fallocate { what, at: from, .. }) if moves_data(*what) => (at as u64) < *from,
            Some(_) => self.version(state, id).is_some(),
        }
    }

    /// Whether an operation has nothing to do with a byte.
    fn leaves_alone(&self, state: usize, id: Id, at: usize, op: &Op) -> bool {
        let is_before = match op {
            Op::Fallocate { what, at: from, .. } if moves_data(*what) => (at as u64) < *from,
            _ => true,
        };
        let byte = |state| self.version(state, id).and_then(|data| data.get(at));
        is_before && byte(state).is_some() && byte(state) == byte(state - 1)
    }

    /// Whether the change to `state` truncates the file within the block that has this byte: the rest of that
    /// block is zeroed in place first.
    fn zeroes_tail(&self, state: usize, id: Id, at: usize) -> bool {
        let len = self.version(state, id).map_or(0, |data| data.len());
        let cut = matches!(self.change_of(state, id), Some(Op::Truncate { .. }));
        cut && (len..len.next_multiple_of(BLOCK_BYTES_MAX)).contains(&at)
    }

    /// As [`History::judge`], where nothing but what was synced is sure to be there, and that only if nothing
    /// changed it since, nor the directories that it is in.
    pub fn judge_synced(&self, found: &Tree, guarantees: &[Guarantee]) -> Result<(), String> {
        let (Some(last), Some(base)) = (self.states.last(), self.states.first()) else {
            return Ok(());
        };
        for guarantee in guarantees {
            let (at, changed, only) = match *guarantee {
                Guarantee::Everything(at) => (at, at, None),
                Guarantee::File { id, changed, at } => (at, changed, Some(id)),
            };
            let synced = &self.states[at.saturating_sub(base.step)];
            for (path, entry) in own_part(&self.name, &synced.tree()) {
                let is_chosen = only.is_none_or(|id| id == entry.ino);
                if !is_chosen || !is_untouched(synced, last, &path, changed) {
                    continue;
                }
                let same = found
                    .get(&path)
                    .is_some_and(|have| entry.same_attributes(have) && entry.data == have.data);
                if !same {
                    let have = found.get(&path).map(brief);
                    let (path, want) = (show(&path), brief(&entry));
                    return Err(format!(
                        "{path} was synced at step {at} as {want}, found {have:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Whether what follows the range moves.
fn moves_data(what: Fallocate) -> bool {
    matches!(what, Fallocate::CollapseRange | Fallocate::InsertRange)
}

/// Whether what is at `path`, and each directory above it, changed no later than `changed` and not since.
fn is_untouched(synced: &Model, last: &Model, path: &[u8], changed: usize) -> bool {
    let ends = (0..path.len())
        .filter(|at| path[*at] == b'/')
        .chain([path.len()]);
    ends.map(|end| &path[..end]).all(|above| {
        let ids = (synced.find(above), last.find(above));
        let (Ok(before), Ok(after)) = ids else {
            return false;
        };
        let same_data = match (synced.data(before), last.data(after)) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (None, None) => true,
            _ => false,
        };
        let since = last.node(after).map_or(usize::MAX, |node| node.changed);
        before == after && same_data && since <= changed
    })
}

/// What of `tree` belongs to the worker `name`.
pub fn own_part(name: &str, tree: &Tree) -> Tree {
    let own = name.as_bytes();
    let shared = format!("shared/{name}-").into_bytes();
    let prefix = format!("{name}/").into_bytes();
    let mine = tree
        .iter()
        .filter(|(path, _)| *path == own || path.starts_with(&prefix) || path.starts_with(&shared));
    mine.map(|(path, entry)| (path.clone(), entry.clone()))
        .collect()
}

//! What recovery may leave of a worker's operations.
//!
//! Handles are durable in order, so names, attributes and sizes must be as some step left them, and
//! that step is no earlier than a promise says. Data of that step is there, or a later step's, by
//! byte: overwriting is not ordered with anything until a sync.

use crate::model::{Id, Model};
use crate::operation::Op;
use crate::tree::{Entry, Tree, brief, show};
use crate::workload::{Promise, own_part};
use std::collections::HashMap;
use std::sync::Arc;

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
    /// Whether `found` is allowed after `promises`; the reason if not.
    pub fn judge(&self, found: &Tree, promises: &[Promise]) -> Result<(), String> {
        let (mut first, mut floor_all) = (0, 0);
        let mut floors: HashMap<Id, usize> = HashMap::new();
        for promise in promises {
            match *promise {
                Promise::Everything(step) => {
                    first = first.max(step);
                    floor_all = floor_all.max(step);
                }
                Promise::File { id, changed, at } => {
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
                let promised = floors.get(&id).copied().unwrap_or(0).max(floor_all);
                promised.max(state.step).saturating_sub(base)
            };
            match self.fits(index, &found, &floor) {
                Ok(()) => return Ok(()),
                Err((depth, why)) => reasons.push((depth, state.step, why)),
            }
        }
        // Those that fit in most of what they have.
        reasons.sort_by_key(|(depth, ..)| std::cmp::Reverse(*depth));
        reasons.truncate(4);
        Err(format!(
            "{}: no step from {first} on left this; closest (entries that fit, step, what does not): {reasons:?}{}",
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
                .map_err(|why| (good, format!("{}: {why}", show(path))))?;
            good += 1;
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
    ) -> Result<(), String> {
        let size = have.data.len();
        let next = self
            .states
            .get(index + 1)
            .and_then(|next| next.data(entry.ino));
        // A write in several pieces, or one that ended early, leaves a size on the way.
        let on_the_way = next.is_some_and(|next| (entry.data.len()..=next.len()).contains(&size));
        if size != entry.data.len() && !on_the_way {
            return Err(format!("size {size} instead of {}", entry.data.len()));
        }
        let mut versions: Vec<&Arc<Vec<u8>>> = Vec::new();
        for state in self.states.iter().skip(floor.min(self.states.len() - 1)) {
            if let Some(data) = state.data(entry.ino)
                && versions.last().is_none_or(|last| !Arc::ptr_eq(last, data))
            {
                versions.push(data);
            }
        }
        if versions.is_empty() {
            // Fsynced at a step after which it was removed: the data of its last days.
            return Ok(());
        }
        let wrong = have.data.iter().enumerate().position(|(at, byte)| {
            !versions
                .iter()
                .any(|data| data.get(at).copied().unwrap_or(0) == *byte)
        });
        match wrong {
            Some(at) => Err(format!(
                "byte {at} of {size} is {:#x}, in no version since step {floor}",
                have.data[at]
            )),
            None => Ok(()),
        }
    }
}

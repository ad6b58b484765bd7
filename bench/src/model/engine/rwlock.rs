//! A lock that is shared or exclusive, phase-fair, and can be demoted.
//!
//! # Model
//! A writer waits for everybody inside. Readers that come while a writer waits stay outside. When a writer
//! demotes or lets go, all readers that wait come in, and the next writer waits for those. Who waits
//! sleeps, and is inside from the moment it is let in: it only runs later.

use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub struct RwLock {
    /// Who shares it.
    inside: usize,
    is_alone: bool,
    writers: VecDeque<usize>,
    readers: Vec<usize>,
}

impl RwLock {
    /// Shares it; false if the worker has to wait.
    pub fn share(&mut self, worker: usize) -> bool {
        if self.is_alone || !self.writers.is_empty() {
            self.readers.push(worker);
            return false;
        }
        self.inside += 1;
        true
    }

    /// Takes it alone; false if the worker has to wait.
    pub fn exclude(&mut self, worker: usize) -> bool {
        if self.is_alone || self.inside > 0 || !self.writers.is_empty() {
            self.writers.push_back(worker);
            return false;
        }
        self.is_alone = true;
        true
    }

    /// Who has it alone shares it; gives who comes in.
    pub fn demote(&mut self) -> Vec<usize> {
        self.is_alone = false;
        let woken = std::mem::take(&mut self.readers);
        self.inside += 1 + woken.len();
        woken
    }

    /// Lets go; gives who comes in.
    pub fn release(&mut self) -> Vec<usize> {
        let mut woken = Vec::new();
        if self.is_alone {
            self.is_alone = false;
            woken = std::mem::take(&mut self.readers);
            self.inside = woken.len();
        } else {
            self.inside = self.inside.saturating_sub(1);
        }
        if self.inside == 0
            && let Some(writer) = self.writers.pop_front()
        {
            self.is_alone = true;
            woken.push(writer);
        }
        woken
    }
}

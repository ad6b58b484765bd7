//! A device that serves so many requests at a time.

use super::Ticks;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The device: when each of its servers is free.
#[derive(Clone, Debug)]
pub struct Device {
    free_at: BinaryHeap<Reverse<Ticks>>,
}

impl Device {
    /// An idle device with at least one server.
    pub fn new(servers: usize) -> Device {
        Device {
            free_at: std::iter::repeat_n(Reverse(0), servers.max(1)).collect(),
        }
    }

    /// When a request that comes now and is served for `service` ends.
    pub fn admit(&mut self, now: Ticks, service: Ticks) -> Ticks {
        let free = self.free_at.pop().map_or(now, |Reverse(free)| free);
        let end = now.max(free).saturating_add(service);
        self.free_at.push(Reverse(end));
        end
    }
}

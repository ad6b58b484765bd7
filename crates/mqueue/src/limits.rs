//! How many queues and messages there may be, and how large (`/proc/sys/fs/mqueue`).

use uext4_vfs::{Caller, Capabilities, Errno, Result};

/// The number of priorities: 0 to 32767 (`MQ_PRIO_MAX`).
pub const PRIORITIES: u32 = 32_768;

/// The most messages of a queue, for a caller that may exceed the limits of the namespace.
const HARD_MESSAGES_MAX: i64 = 65_536;
/// The longest message in bytes, for a caller that may exceed the limits of the namespace.
const HARD_MESSAGE_BYTES_MAX: i64 = 16_777_216;
/// What Linux counts for each message beside its bytes.
const MESSAGE_OVERHEAD_BYTES: u64 = 48;
/// What Linux counts for each priority in use.
const PRIORITY_OVERHEAD_BYTES: u64 = 48;

/// The limits of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages of a queue that says nothing (`msg_default`).
    pub msg_default: u32,
    /// The most messages of a queue (`msg_max`).
    pub msg_max: u32,
    /// Length of a message of a queue that says nothing (`msgsize_default`).
    pub msgsize_default: u32,
    /// The longest message in bytes (`msgsize_max`).
    pub msgsize_max: u32,
    /// The most queues (`queues_max`).
    pub queues_max: u32,
    /// The most bytes of all queues of a user (`RLIMIT_MSGQUEUE`).
    pub user_bytes_max: u64,
}

impl Default for Limits {
    /// Linux's.
    fn default() -> Limits {
        Limits {
            msg_default: 10,
            msg_max: 10,
            msgsize_default: 8192,
            msgsize_max: 8192,
            queues_max: 256,
            user_bytes_max: 819_200,
        }
    }
}

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSize {
    /// The most messages; above 0.
    pub maxmsg: u32,
    /// The longest message in bytes; above 0.
    pub msgsize: u32,
}

impl QueueSize {
    /// What the owner of such a queue is charged, as getrlimit(2) has it.
    pub fn charged_bytes(self) -> u64 {
        let messages = u64::from(self.maxmsg);
        let priorities = messages.min(u64::from(PRIORITIES));
        messages * (MESSAGE_OVERHEAD_BYTES + u64::from(self.msgsize))
            + priorities * PRIORITY_OVERHEAD_BYTES
    }
}

/// The limits as `/proc/sys/fs/mqueue` names them, and the least and greatest value that each can be given there.
const NAMED: [(&str, u32, u32); 5] = [
    ("msg_default", 1, HARD_MESSAGES_MAX as u32),
    ("msg_max", 1, HARD_MESSAGES_MAX as u32),
    ("msgsize_default", 128, HARD_MESSAGE_BYTES_MAX as u32),
    ("msgsize_max", 128, HARD_MESSAGE_BYTES_MAX as u32),
    ("queues_max", 0, i32::MAX as u32),
];

impl Limits {
    /// The limit of that name in `/proc/sys/fs/mqueue`.
    pub fn get(&self, name: &str) -> Option<u32> {
        let values = [
            self.msg_default,
            self.msg_max,
            self.msgsize_default,
            self.msgsize_max,
            self.queues_max,
        ];
        let at = NAMED.iter().position(|(named, ..)| *named == name)?;
        Some(values[at])
    }

    /// Sets the limit of that name.
    ///
    /// # Errors
    /// `ENOENT`: no such limit. `EINVAL`: it can't have that value.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), Errno> {
        let known = NAMED.iter().find(|(named, ..)| *named == name);
        let (_, least, most) = known.ok_or(Errno::ENOENT)?;
        if !(*least..=*most).contains(&value) {
            return Err(Errno::EINVAL);
        }
        match name {
            "msg_default" => self.msg_default = value,
            "msg_max" => self.msg_max = value,
            "msgsize_default" => self.msgsize_default = value,
            "msgsize_max" => self.msgsize_max = value,
            _ => self.queues_max = value,
        }
        Ok(())
    }

    /// The size of a new queue: `maxmsg` and `msgsize` as asked for, or the default.
    ///
    /// # Errors
    /// `EINVAL`: not above 0, or beyond what the caller may have.
    pub fn queue_size(&self, caller: &Caller, asked: Option<(i64, i64)>) -> Result<QueueSize> {
        let Some((maxmsg, msgsize)) = asked else {
            return Ok(QueueSize {
                maxmsg: self.msg_default.min(self.msg_max),
                msgsize: self.msgsize_default.min(self.msgsize_max),
            });
        };
        let (most, longest) = if caller.has(Capabilities::SYS_RESOURCE) {
            (HARD_MESSAGES_MAX, HARD_MESSAGE_BYTES_MAX)
        } else {
            (i64::from(self.msg_max), i64::from(self.msgsize_max))
        };
        let within = |value: i64, max: i64| match u32::try_from(value) {
            Ok(small) if value > 0 && value <= max => Ok(small),
            _ => Err(Errno::EINVAL),
        };
        Ok(QueueSize {
            maxmsg: within(maxmsg, most)?,
            msgsize: within(msgsize, longest)?,
        })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_default_queue_costs_82880_bytes() {
        let size = Limits::default()
            .queue_size(&Caller::user(1, 1), None)
            .expect("fits");
        assert_eq!(size.charged_bytes(), 82_880);
    }
}

//! What the queues of a mounted namespace are asked for with ioctls: numbers and structures, in the byte order of the
//! machine, for the server of the mount and its clients.
//!
//! # Data model
//! A queue descriptor is a descriptor of the queue's file, opened by open(2), so whether it may send or receive
//! is the file's access mode, and whether it waits its `O_NONBLOCK`, which every call passes on. Waiting calls
//! are one ioctl each, which a signal ends with `EINTR`.
//!
//! - To open a queue that exists: open(2) without `O_CREAT`.
//! - To make one with a size: [`PREPARE`] on the mounted directory, then open(2) with `O_CREAT | O_EXCL` by the same
//!   thread. The file's size, owner and permission are as of any file that is made; without `PREPARE` it has
//!   the namespace's default size.
//! - A structure is followed by data; both lie in one piece of memory, whose length is in the ioctl's number
//!   ([`number`]). What does not fit is split into pieces: [`STAGE`] before [`SEND`], [`FETCH`] after [`RECEIVE_WITH`].
//!
//! An ioctl on anything else than a queue of such a mount fails with `ENOTTY`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The type of all these ioctls.
pub const TYPE: u32 = 0xf5;
/// The most bytes of structure and data that an ioctl's number has room for.
pub const BYTES_MAX: usize = (1 << 14) - 1;

/// Which way memory goes, as an ioctl's number has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the caller.
    In = 1,
    /// To the caller.
    Out = 2,
    /// Both.
    InOut = 3,
}

/// The number of an ioctl on so many bytes, at most [`BYTES_MAX`].
pub const fn number((command, way): (u32, Way), bytes: usize) -> u32 {
    (way as u32) << 30 | (bytes as u32) << 16 | TYPE << 8 | command
}

/// The command in an ioctl's number; `None` where it is of another type.
pub const fn command_of(number: u32) -> Option<u32> {
    match number >> 8 & 0xff == TYPE {
        true => Some(number & 0xff),
        false => None,
    }
}

/// Receives without a deadline into memory that is all the message's, so that it lies where the caller wants it. The
/// result is as [`received`] reads it. Where the queue's longest message is longer than the memory, `EMSGSIZE`.
pub const RECEIVE: (u32, Way) = (1, Way::Out);
/// The same, without waiting.
pub const RECEIVE_NOWAIT: (u32, Way) = (2, Way::Out);
/// Receives as [`Receive`] says, which [`Received`] and the message take the place of.
pub const RECEIVE_WITH: (u32, Way) = (3, Way::InOut);
/// Sends what follows [`Send`].
pub const SEND: (u32, Way) = (4, Way::In);
/// Keeps a piece of a long message, which follows [`Piece`]; `token` is returned, 0 starts a new message.
pub const STAGE: (u32, Way) = (5, Way::InOut);
/// Gives the piece that [`Piece`] asks for, in its place.
pub const FETCH: (u32, Way) = (6, Way::InOut);
/// Gives [`Attributes`].
pub const GETATTR: (u32, Way) = (7, Way::Out);
/// The same, and notes that attributes were set.
pub const SETATTR: (u32, Way) = (8, Way::Out);
/// Registers as [`Notify`] says, and gives the registration's `id` in it.
pub const NOTIFY: (u32, Way) = (9, Way::InOut);
/// Waits until the registration whose number (a `u64`) is given is delivered, which gives 1, or gone, which gives 0.
pub const AWAIT: (u32, Way) = (10, Way::In);
/// On the directory: the queue that this thread makes next under the name that follows [`Prepare`] has that size.
pub const PREPARE: (u32, Way) = (11, Way::In);

/// A name that no queue can have, as it is too long. To be looked up in a directory, which needs no more than the right
/// to: in a mount of queues that fails with `ENOTUNIQ`.
pub const PROBE: [u8; 300] = [b'?'; 300];

/// The result of [`RECEIVE`] for a message of that length, at most [`BYTES_MAX`], and priority.
pub const fn result_of(len: usize, priority: u32) -> i32 {
    (priority << 14 | len as u32).cast_signed()
}

/// Length and priority in the result of [`RECEIVE`].
pub const fn received(result: u32) -> (usize, u32) {
    (result as usize & BYTES_MAX, result >> 14)
}

/// In [`Prepare`], as `maxmsg`: withdraws the size that was set for that name.
pub const FORGET: i64 = i64::MIN;

/// Sets by [`Until`] how long the next [`RECEIVE_UNTIL`] of this thread waits. `EPERM`: the server does not know the thread,
/// as it is in another namespace of processes; [`RECEIVE_WITH`] does then.
pub const UNTIL: (u32, Way) = (12, Way::In);
/// As [`RECEIVE`], with the deadline that was set before; uses it up. `EINVAL`: none is set.
pub const RECEIVE_UNTIL: (u32, Way) = (13, Way::Out);

/// In `flags`: do not wait.
pub const NOWAIT: u32 = 1;
/// In `flags`: there is a deadline.
pub const DEADLINE: u32 = 2;
/// In [`Send`]: the message is what was staged under the token (a `u64`) that follows.
pub const STAGED: u32 = 4;

/// In [`Notify`]: by a signal (`SIGEV_SIGNAL`).
pub const BY_SIGNAL: u32 = 0;
/// In [`Notify`]: not at all (`SIGEV_NONE`).
pub const BY_NOTHING: u32 = 1;
/// In [`Notify`]: by [`AWAIT`] (`SIGEV_THREAD`).
pub const BY_AWAIT: u32 = 2;
/// In [`Notify`]: the process's registration is taken back.
pub const TAKE_BACK: u32 = 3;

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub struct $name { $($(#[$field_doc])* pub $field: $type),* }
        )*
    };
}

structures! {
    /// How a message is sent.
    Send {
        /// The deadline by `CLOCK_REALTIME`, with [`DEADLINE`].
        deadline_sec: i64,
        /// Its nanoseconds.
        deadline_nsec: i64,
        /// [`NOWAIT`], [`DEADLINE`], [`STAGED`].
        flags: u32,
        /// The message's priority.
        priority: u32,
        /// The sender's process id, for the notification; 0 if it is the thread's.
        process: u32,
        /// 0.
        reserved: u32,
    }
    /// How a message is received.
    Receive {
        /// The deadline by `CLOCK_REALTIME`, with [`DEADLINE`].
        deadline_sec: i64,
        /// Its nanoseconds.
        deadline_nsec: i64,
        /// The length of the caller's buffer, which may be more than there is room for here.
        capacity: u64,
        /// [`NOWAIT`], [`DEADLINE`].
        flags: u32,
        /// 0.
        reserved: u32,
    }
    /// What was received.
    Received {
        /// What [`FETCH`] gets the message by; 0 where it follows.
        token: u64,
        /// The message's length.
        len: u32,
        /// The message's priority.
        priority: u32,
    }
    /// A piece of a long message.
    Piece {
        /// Which message.
        token: u64,
        /// Where in the message.
        offset: u32,
        /// How much.
        len: u32,
    }
    /// The attributes of a queue, without flags: those are the descriptor's.
    Attributes {
        /// The most messages.
        maxmsg: i64,
        /// The longest message in bytes.
        msgsize: i64,
        /// How many messages there are.
        curmsgs: i64,
    }
    /// A registration.
    Notify {
        /// `sigev_value`.
        value: u64,
        /// In the reply: the number of the registration.
        id: u64,
        /// The caller's process id.
        process: u32,
        /// [`BY_SIGNAL`], [`BY_NOTHING`], [`BY_AWAIT`], [`TAKE_BACK`].
        kind: u32,
        /// The signal's number.
        signo: i32,
        /// 0.
        reserved: u32,
    }
    /// A deadline by `CLOCK_REALTIME`.
    Until {
        /// Its seconds.
        sec: i64,
        /// Its nanoseconds.
        nsec: i64,
    }
    /// The size of a queue that will be made.
    Prepare {
        /// The most messages.
        maxmsg: i64,
        /// The longest message in bytes.
        msgsize: i64,
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_form_of_ioctls() {
        let send = number(SEND, size_of::<Send>() + 10);
        assert_eq!(send, 0x402a_f504);
        assert_eq!(command_of(send), Some(4));
        assert_eq!(command_of(0x8008_6601), None);
        assert_eq!(number(RECEIVE_WITH, BYTES_MAX) >> 16, 0xffff);
    }

    #[test]
    fn length_and_priority_fit_into_a_result() {
        for (len, priority) in [(0, 0), (BYTES_MAX, 0), (0, 32_767), (BYTES_MAX, 32_767)] {
            let result = result_of(len, priority);
            assert!(result >= 0);
            assert_eq!(received(result.cast_unsigned()), (len, priority));
        }
    }

    #[test]
    fn structures_have_no_gaps() {
        assert_eq!((size_of::<Send>(), size_of::<Receive>()), (32, 32));
        assert_eq!((size_of::<Received>(), size_of::<Piece>()), (16, 16));
        assert_eq!((size_of::<Attributes>(), size_of::<Notify>()), (24, 32));
        assert_eq!(size_of::<Prepare>(), 16);
    }
}

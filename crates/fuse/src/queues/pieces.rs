//! Long messages, which go between callers and the server in pieces.
//!
//! # Invariants
//! A message belongs to the description that it is sent or received by, and goes with it. So a description has a bounded
//! number of them, each no longer than its queue allows.
//!
//! # Locking
//! One lock, of class `open_files`, held while a piece is copied.

use std::collections::BTreeMap;
use uext4::Errno;
use uext4_sync::{Mutex, class};

/// The most messages of a description that may be under way when another sets out: as many threads of a program can use
/// it at once.
const OF_A_DESCRIPTION_MAX: usize = 4096;

/// Messages by description and number.
type Messages = BTreeMap<(u64, u64), Vec<u8>>;

struct State {
    messages: Messages,
    last: u64,
}

/// Long messages under way.
pub struct Pieces {
    state: Mutex<State>,
}

impl Default for Pieces {
    fn default() -> Pieces {
        let state = State {
            messages: Messages::new(),
            last: 0,
        };
        Pieces {
            state: Mutex::new(&class::OPEN_FILES, state),
        }
    }
}

impl Pieces {
    /// Keeps a message for `fh`, and gives its number, which is not 0.
    pub fn keep(&self, fh: u64, message: Vec<u8>) -> u64 {
        let mut state = self.state.lock();
        state.last += 1;
        let token = state.last;
        state.messages.insert((fh, token), message);
        token
    }

    /// Checks that another message of `fh` may set out; one that has is never given up.
    ///
    /// # Errors
    /// `ENOMEM`: there are too many.
    pub fn check_room(&self, fh: u64) -> Result<(), Errno> {
        let state = self.state.lock();
        let of = state.messages.range((fh, 0)..=(fh, u64::MAX));
        match of.count() < OF_A_DESCRIPTION_MAX {
            true => Ok(()),
            false => Err(Errno::ENOMEM),
        }
    }

    /// Adds a piece, which follows those that are there.
    ///
    /// # Errors
    /// `EINVAL`: there is no such message, or the piece does not follow. `EMSGSIZE`: it gets longer than `max`.
    pub fn add(
        &self,
        (fh, token): (u64, u64),
        at: usize,
        piece: &[u8],
        max: usize,
    ) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let message = state.messages.get_mut(&(fh, token)).ok_or(Errno::EINVAL)?;
        if message.len() != at {
            return Err(Errno::EINVAL);
        }
        if at + piece.len() > max {
            return Err(Errno::EMSGSIZE);
        }
        message.extend_from_slice(piece);
        Ok(())
    }

    /// Takes a message.
    ///
    /// # Errors
    /// `EINVAL`: there is no such message.
    pub fn take(&self, fh: u64, token: u64) -> Result<Vec<u8>, Errno> {
        let taken = self.state.lock().messages.remove(&(fh, token));
        taken.ok_or(Errno::EINVAL)
    }

    /// Copies what of a message begins at `from` to `out`, as far as there is room, and gives its length; with its end
    /// the message goes.
    ///
    /// # Errors
    /// `EINVAL`: there is no such message, or it ends before.
    pub fn copy(
        &self,
        (fh, token): (u64, u64),
        from: usize,
        out: &mut [u8],
    ) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        let message = state.messages.get(&(fh, token)).ok_or(Errno::EINVAL)?;
        let rest = message.get(from..).ok_or(Errno::EINVAL)?;
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        let gone = match len == rest.len() {
            true => state.messages.remove(&(fh, token)),
            false => None,
        };
        drop(state);
        drop(gone);
        Ok(len)
    }

    /// The description is closed.
    pub fn close(&self, fh: u64) {
        let mut state = self.state.lock();
        let of = state.messages.range((fh, 0)..=(fh, u64::MAX));
        let keys: Vec<_> = of.map(|(key, _)| *key).collect();
        for key in keys {
            state.messages.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_a_message() {
        let pieces = Pieces::default();
        let token = pieces.keep(1, b"ab".to_vec());
        assert_eq!(pieces.add((1, token), 2, b"cd", 5), Ok(()));
        assert_eq!(pieces.add((1, token), 2, b"cd", 5), Err(Errno::EINVAL));
        assert_eq!(pieces.add((1, token), 4, b"ef", 5), Err(Errno::EMSGSIZE));
        assert_eq!(pieces.add((2, token), 4, b"e", 5), Err(Errno::EINVAL));
        let mut out = [0; 3];
        assert_eq!(pieces.copy((1, token), 0, &mut out), Ok(3));
        assert_eq!(pieces.copy((1, token), 3, &mut out), Ok(1));
        assert_eq!((&out, pieces.take(1, token)), (b"dbc", Err(Errno::EINVAL)));
    }

    #[test]
    fn a_description_has_a_bounded_number() {
        let pieces = Pieces::default();
        let keep = |_| {
            assert_eq!(pieces.check_room(5), Ok(()));
            pieces.keep(5, vec![7])
        };
        let tokens: Vec<_> = (0..OF_A_DESCRIPTION_MAX).map(keep).collect();
        assert_eq!(pieces.check_room(5), Err(Errno::ENOMEM));
        assert_eq!(pieces.check_room(6), Ok(()));
        let other = pieces.keep(6, vec![1]);
        assert_eq!(pieces.take(5, tokens[0]), Ok(vec![7]));
        assert_eq!(pieces.check_room(5), Ok(()));
        pieces.close(5);
        assert_eq!(pieces.state.lock().messages.len(), 1);
        assert_eq!(pieces.take(6, other), Ok(vec![1]));
    }
}

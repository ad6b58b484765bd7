//! Messages that are longer than a request and travel in pieces.
//!
//! # Invariants
//! A message belongs to the description that sends or receives it, and is dropped with it. A description has a bounded
//! number of messages, each no longer than its queue allows.
//!
//! # Locking
//! One lock, of class `open_files`, held while a piece is copied.

use std::collections::BTreeMap;
use uext4::Errno;
use uext4_sync::{Mutex, class};

/// The most messages of one description. This is also the most threads of a program that can use it at once.
const PER_DESCRIPTION_MAX: usize = 4096;

/// Messages by file handle and token.
type Messages = BTreeMap<(u64, u64), Vec<u8>>;

struct Table {
    messages: Messages,
    last_token: u64,
}

/// The long messages of all descriptions.
pub struct LongMessages {
    table: Mutex<Table>,
}

impl Default for LongMessages {
    fn default() -> LongMessages {
        let table = Table {
            messages: Messages::new(),
            last_token: 0,
        };
        LongMessages {
            table: Mutex::new(&class::OPEN_FILES, table),
        }
    }
}

impl LongMessages {
    /// Keeps a message for `fh` and returns its token, which is not 0.
    pub fn keep(&self, fh: u64, message: Vec<u8>) -> u64 {
        let mut table = self.table.lock();
        table.last_token += 1;
        let token = table.last_token;
        table.messages.insert((fh, token), message);
        token
    }

    /// Checks that `fh` may have another message.
    ///
    /// # Errors
    /// `ENOMEM`: it has too many.
    pub fn check_room(&self, fh: u64) -> Result<(), Errno> {
        let table = self.table.lock();
        let of = table.messages.range((fh, 0)..=(fh, u64::MAX));
        match of.count() < PER_DESCRIPTION_MAX {
            true => Ok(()),
            false => Err(Errno::ENOMEM),
        }
    }

    /// Appends a piece that begins at offset `at`.
    ///
    /// # Errors
    /// `EINVAL`: no such message, or it does not end at `at`. `EMSGSIZE`: the message would be longer than `max`.
    pub fn add(
        &self,
        (fh, token): (u64, u64),
        at: usize,
        piece: &[u8],
        max: usize,
    ) -> Result<(), Errno> {
        let mut table = self.table.lock();
        let message = table.messages.get_mut(&(fh, token)).ok_or(Errno::EINVAL)?;
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
    /// `EINVAL`: no such message.
    pub fn take(&self, fh: u64, token: u64) -> Result<Vec<u8>, Errno> {
        let taken = self.table.lock().messages.remove(&(fh, token));
        taken.ok_or(Errno::EINVAL)
    }

    /// Copies the bytes of a message from offset `from` on to `out`, until `out` is full, and returns their number. Drops
    /// the message once its end is copied.
    ///
    /// # Errors
    /// `EINVAL`: no such message, or it ends before `from`.
    pub fn copy(
        &self,
        (fh, token): (u64, u64),
        from: usize,
        out: &mut [u8],
    ) -> Result<usize, Errno> {
        let mut table = self.table.lock();
        let message = table.messages.get(&(fh, token)).ok_or(Errno::EINVAL)?;
        let rest = message.get(from..).ok_or(Errno::EINVAL)?;
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        let gone = match len == rest.len() {
            true => table.messages.remove(&(fh, token)),
            false => None,
        };
        drop(table);
        drop(gone);
        Ok(len)
    }

    /// Drops the messages of a description that is closed.
    pub fn close(&self, fh: u64) {
        let mut table = self.table.lock();
        let of = table.messages.range((fh, 0)..=(fh, u64::MAX));
        let keys: Vec<_> = of.map(|(key, _)| *key).collect();
        for key in keys {
            table.messages.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_a_message() {
        let pieces = LongMessages::default();
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
        let pieces = LongMessages::default();
        let keep = |_| {
            assert_eq!(pieces.check_room(5), Ok(()));
            pieces.keep(5, vec![7])
        };
        let tokens: Vec<_> = (0..PER_DESCRIPTION_MAX).map(keep).collect();
        assert_eq!(pieces.check_room(5), Err(Errno::ENOMEM));
        assert_eq!(pieces.check_room(6), Ok(()));
        let other = pieces.keep(6, vec![1]);
        assert_eq!(pieces.take(5, tokens[0]), Ok(vec![7]));
        assert_eq!(pieces.check_room(5), Ok(()));
        pieces.close(5);
        assert_eq!(pieces.table.lock().messages.len(), 1);
        assert_eq!(pieces.take(6, other), Ok(vec![1]));
    }
}

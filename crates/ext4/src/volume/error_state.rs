//! What `errors=` asks for when damage is found: it is recorded in the superblock, and the mount continues,
//! reads only, or gives up.
//!
//! # Invariants
//! Damage may be found anywhere, also under locks and in a handle. There it is only remembered; where an
//! operation ends with it ([`Volume::report`]) nothing is held, and it is recorded.
//!
//! # Locking
//! Recording starts a handle.

use crate::prelude::*;
use crate::superblock::{superblock_place, unix_now, with_superblock};
use crate::volume::Volume;
use arc_swap::ArcSwapOption;
use uext4_ondisk::ErrorRecord;
use uext4_vfs::errno::Error;

/// The code that ext4 has for damage in a superblock's record of errors, and for a wrong checksum.
const CODE_CORRUPTED: u8 = 5;
const CODE_CHECKSUM: u8 = 4;

/// Damage that was found.
#[derive(Debug)]
pub(crate) struct ErrorState {
    /// How often.
    seen: AtomicU64,
    /// How often the superblock says.
    recorded: AtomicU64,
    /// The latest.
    last: ArcSwapOption<ErrorRecord>,
}

impl ErrorState {
    pub fn new() -> ErrorState {
        ErrorState {
            seen: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            last: ArcSwapOption::empty(),
        }
    }
}

fn record_of(why: &Corrupt) -> ErrorRecord {
    let text = why.kind.text();
    let mut func = [0; 32];
    // The last byte stays zero, for readers that take it for the end.
    for (to, from) in func.iter_mut().take(31).zip(text.bytes()) {
        *to = from;
    }
    ErrorRecord {
        time: unix_now(),
        ino: why.ino.unwrap_or(Ino::NONE),
        block: why.pblk.unwrap_or(Pblk(0)).0,
        func,
        line: 0,
        errcode: match text.contains("checksum") {
            true => CODE_CHECKSUM,
            false => CODE_CORRUPTED,
        },
    }
}

impl Volume {
    /// Remembers and logs damage that was seen.
    pub(crate) fn note_error(&self, why: &Corrupt) {
        tracing::error!("{why}");
        self.errors.last.store(Some(Arc::new(record_of(why))));
        self.errors.seen.fetch_add(1, Ordering::SeqCst);
    }

    /// The boundary at which an error of the file system becomes an errno, as each public operation does at its end:
    /// damage is recorded in the superblock, and what `errors=` asks for is done.
    ///
    /// # Locks
    /// May start a handle.
    ///
    /// # Errors
    /// What `ended` says.
    #[inline]
    pub fn report<T>(&self, ended: Result<T>) -> uext4_vfs::errno::Result<T> {
        match ended {
            Ok(given) => Ok(given),
            Err(why) => Err(self.report_error(why)),
        }
    }

    #[cold]
    fn report_error(&self, why: Ext4Error) -> Error {
        let why = self.noted(why);
        self.record_errors();
        why
    }

    /// As [`Volume::report`], in the middle of an operation, whatever locks are held: damage is remembered and recorded
    /// at its end.
    pub(crate) fn noted(&self, why: Ext4Error) -> Error {
        if let Ext4Error::Corrupt(corrupt) = &why {
            self.note_error(corrupt);
        }
        why.into_error()
    }

    /// Writes into the superblock what was noted, unless that would wait for a thaw.
    ///
    /// # Locks
    /// May start a handle.
    pub(crate) fn record_errors(&self) {
        let seen = self.errors.seen.load(Ordering::SeqCst);
        // Without a write: every operation that fails comes here, each name that is not there.
        if self.errors.recorded.load(Ordering::SeqCst) >= seen || self.is_read_only() {
            return;
        }
        // A freeze that begins, and a thaw, record it themselves.
        if let Some(_change) = self.freeze.try_change() {
            self.record_errors_now();
        }
    }

    /// As [`Volume::record_errors`]; the caller keeps the gate of changes from being closed.
    pub(crate) fn record_errors_now(&self) {
        let seen = self.errors.seen.load(Ordering::SeqCst);
        if self.errors.recorded.load(Ordering::SeqCst) >= seen || self.is_read_only() {
            return;
        }
        let before = self.errors.recorded.fetch_max(seen, Ordering::SeqCst);
        if before >= seen {
            return;
        }
        let Some(record) = self.errors.last.load_full() else {
            return;
        };
        if let Err(why) = self.write_record(&record, seen - before) {
            tracing::error!("the superblock does not say that there is damage: {why}");
        }
        match self.settings.errors() {
            ErrorsBehaviour::Continue => {}
            ErrorsBehaviour::RemountRo => {
                self.set_read_only();
                // What was done before is kept.
                if let Err(why) = self.journal().sync() {
                    tracing::error!("what was done before is not durable: {why}");
                }
                tracing::error!("mounted read-only from now on");
            }
            ErrorsBehaviour::Panic => {
                let _ = self.journal().sync();
                let why = "errors=panic: the file system is damaged";
                self.journal().abort(JournalError::Aborted(why.into()));
            }
        }
    }

    fn write_record(&self, record: &ErrorRecord, times: u64) -> Result<()> {
        let (_, at) = superblock_place(self.geometry().block_size);
        self.with_handle(1, |handle| {
            let mut content = handle.modify(&self.super_buffer)?;
            with_superblock(content.data_mut(), at, |raw| {
                // Counts above a thousand add nothing.
                for _ in 0..times.min(1000) {
                    raw.record_error(record);
                }
            });
            Ok(())
        })
    }
}

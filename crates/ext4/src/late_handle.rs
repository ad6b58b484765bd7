//! A journal handle that starts when it is first needed, so that what comes before may search and wait
//! without holding a transaction open.

use crate::error::Result;
use std::cell::OnceCell;
use uext4_jbd2::{Handle, Journal};

/// A handle to be, with the credits it will have.
#[derive(Debug)]
pub(crate) struct LateHandle<'j> {
    journal: &'j Journal,
    credits: u32,
    handle: OnceCell<Handle<'j>>,
}

impl<'j> LateHandle<'j> {
    /// No handle yet.
    pub fn new(journal: &'j Journal, credits: u32) -> LateHandle<'j> {
        LateHandle {
            journal,
            credits,
            handle: OnceCell::new(),
        }
    }

    /// The handle, started now unless it was.
    ///
    /// # Locks
    /// As `Journal::start` the first time.
    ///
    /// # Errors
    /// As `Journal::start`.
    #[inline]
    pub fn get(&self) -> Result<&Handle<'j>> {
        if let Some(handle) = self.handle.get() {
            return Ok(handle);
        }
        let started = self.journal.start(self.credits)?;
        Ok(self.handle.get_or_init(|| started))
    }

    /// The handle, if it was started.
    pub fn into_handle(self) -> Option<Handle<'j>> {
        self.handle.into_inner()
    }
}

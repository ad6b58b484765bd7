//! What one test of a program may use at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A resource of the machine or of the process, which `T` holds or names.
#[derive(Debug)]
pub struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    /// A resource that no test uses yet.
    pub const fn new(resource: T) -> Exclusive<T> {
        Exclusive(Mutex::new(resource))
    }

    /// Waits for the resource, and uses it until the guard is dropped. A test that failed with it does not fail others.
    pub fn take(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

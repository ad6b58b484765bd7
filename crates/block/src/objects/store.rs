//! What a store of objects does for an image.

use std::fmt::{self, Debug};
use std::ops::Range;
use std::time::{Duration, Instant};

/// A store of objects, as an image sees it: names are relative to the image.
///
/// # Contract
/// An object that a call has made is seen by every call that begins later, [`list`] included. A call that failed may have had its effect, or
/// have it later. Calls block.
///
/// [`list`]: ObjectStore::list
pub trait ObjectStore: Send + Sync + Debug {
    /// Bytes of an object: a range, which is cut where the object ends, or all.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]: it does not exist; [`StoreError::Failed`]: the store can't be reached; [`StoreError::Refused`].
    fn get(&self, name: &str, range: Option<Range<u64>>) -> StoreResult<Vec<u8>>;

    /// Makes an object, or replaces it.
    ///
    /// # Errors
    /// [`StoreError::Failed`], [`StoreError::Refused`].
    fn put(&self, name: &str, bytes: &[u8]) -> StoreResult<()>;

    /// Makes an object that does not exist, and says whether it did not. One that failed may have made it.
    ///
    /// # Errors
    /// [`StoreError::Failed`], [`StoreError::Refused`].
    fn create(&self, name: &str, bytes: &[u8]) -> StoreResult<Created>;

    /// The objects whose names begin with `prefix`, in the order of their names.
    ///
    /// # Errors
    /// [`StoreError::Failed`], [`StoreError::Refused`].
    fn list(&self, prefix: &str) -> StoreResult<Vec<Listed>>;

    /// Removes objects; those that do not exist too.
    ///
    /// # Errors
    /// [`StoreError::Failed`], [`StoreError::Refused`].
    fn delete(&self, names: &[String]) -> StoreResult<()>;

    /// Calls of one operation that may be under way at once. One in a simulation, whose order a seed decides.
    fn in_flight(&self) -> usize {
        32
    }

    /// Waits before a call is made again. A store that is simulated has its own clock.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// How often a call is made.
const TRIES: u32 = 8;
/// The first pause between two; each is twice the one before.
const PAUSE: Duration = Duration::from_millis(50);

/// After this time a call that fails is not made again: a store that does not answer takes most of it for one.
const GIVE_UP: Duration = Duration::from_secs(25);

/// Makes a call, again while it fails, for six seconds and what the calls take, but no longer than two that are not answered.
///
/// # Errors
/// [`StoreError::NotFound`] and [`StoreError::Refused`] at once; the last [`StoreError::Failed`].
pub fn again<T>(
    store: &dyn ObjectStore,
    mut call: impl FnMut() -> StoreResult<T>,
) -> StoreResult<T> {
    let begun = Instant::now();
    for tried in 0..TRIES - 1 {
        match call() {
            Err(StoreError::Failed(_)) if begun.elapsed() < GIVE_UP => {
                store.pause(PAUSE * 2u32.pow(tried))
            }
            done => return done,
        }
    }
    call()
}

/// An object, as a list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// Whether an object was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was.
    Yes,
    /// One of its name exists.
    Exists,
}

/// Why a call of a store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The object does not exist.
    NotFound,
    /// What the store or the network said, which may differ the next time.
    Failed(String),
    /// The same, which will not.
    Refused(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::NotFound => f.write_str("the object does not exist"),
            StoreError::Failed(why) | StoreError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<StoreError> for std::io::Error {
    fn from(e: StoreError) -> std::io::Error {
        match e {
            StoreError::NotFound => std::io::Error::new(std::io::ErrorKind::NotFound, e),
            StoreError::Failed(_) | StoreError::Refused(_) => std::io::Error::other(e),
        }
    }
}

/// The result of a call.
pub type StoreResult<T> = Result<T, StoreError>;

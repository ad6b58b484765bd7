//! The text of a thread's last failure, and the border that no panic crosses.

use rust_uext4::{BlockError, CheckError, Errno, Error, MkfsError};
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// A failed call.
pub struct Failure {
    errno: Errno,
    text: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(errno: i32, text: impl Into<String>) -> Failure {
        Failure {
            errno: Errno(errno),
            text: text.into(),
        }
    }

    /// An argument that can't be.
    pub fn argument(text: impl Into<String>) -> Failure {
        Failure::new(libc::EINVAL, text)
    }

    /// An error that is made of others.
    pub fn of(error: &(dyn std::error::Error + 'static)) -> Failure {
        Failure {
            errno: errno_of(error),
            text: error.to_string(),
        }
    }
}

/// The number of the first error among the causes of `error` that has one; `EINVAL` otherwise: what the caller asks for can't be.
fn errno_of(error: &(dyn std::error::Error + 'static)) -> Errno {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .into_iter()
        .find_map(own_errno)
        .unwrap_or(Errno::EINVAL)
}

fn own_errno(error: &(dyn std::error::Error + 'static)) -> Option<Errno> {
    if let Some(error) = error.downcast_ref::<Error>() {
        return Some(error.errno());
    }
    if let Some(error) = error.downcast_ref::<std::io::Error>() {
        return error.raw_os_error().map(Errno);
    }
    match error.downcast_ref::<BlockError>()? {
        BlockError::Busy { .. } => Some(Errno::EBUSY),
        BlockError::ReadOnly { .. } => Some(Errno::EROFS),
        BlockError::Image { .. } | BlockError::NotADevice { .. } => Some(Errno::EINVAL),
        error => std::error::Error::source(error)
            .is_none()
            .then_some(Errno::EIO),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            errno: error.errno(),
            text: error.to_string(),
        }
    }
}

impl From<MkfsError> for Failure {
    fn from(error: MkfsError) -> Failure {
        match &error {
            MkfsError::NoSpace { .. } | MkfsError::NoInodes { .. } => {
                Failure::new(libc::ENOSPC, error.to_string())
            }
            _ => Failure::of(&error),
        }
    }
}

impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Failure {
        Failure::of(&error)
    }
}

/// What `call` returns, or the negative errno of its failure, whose text [`uext4_message`] returns.
pub fn border(call: impl FnOnce() -> Result<i64>) -> i64 {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(libc::EIO, "a defect of the library ended the call"),
    };
    let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
    // A thread that ends has no message.
    let _ = MESSAGE.try_with(|message| message.replace(text));
    -i64::from(failure.errno.0)
}

/// As [`border`], of calls that return 0.
pub fn done(call: impl FnOnce() -> Result<()>) -> c_int {
    // Error numbers are small.
    border(|| call().map(|()| 0)) as c_int
}

/// The version of the library: "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn uext4_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The text of the last call of this thread that failed, "" before the first. The string is valid until the thread's next call that
/// fails.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_message() -> *const c_char {
    MESSAGE
        .try_with(|message| message.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

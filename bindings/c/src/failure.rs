//! The text of a thread's last failure, and the border that no panic crosses.

use rust_uext4::{Errno, Error, MkfsError};
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// A failed call.
pub struct Failure {
    errno: Errno,
    text: String,
}

impl Failure {
    /// An argument that can't be.
    pub fn argument(text: &str) -> Failure {
        Failure {
            errno: Errno::EINVAL,
            text: text.to_owned(),
        }
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
        let errno = match &error {
            MkfsError::NoSpace { .. } | MkfsError::NoInodes { .. } => Errno::ENOSPC,
            other => of_host(other).unwrap_or(Errno::EINVAL),
        };
        Failure {
            errno,
            text: error.to_string(),
        }
    }
}

/// The error number of the host's failure that caused `error`.
fn of_host(error: &(dyn std::error::Error + 'static)) -> Option<Errno> {
    std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref::<std::io::Error>()?.raw_os_error())
        .map(Errno)
}

/// What `call` returns, or the negative errno of its failure, whose text stays for [`uext4_message`].
pub fn border(call: impl FnOnce() -> Result<i64, Failure>) -> i64 {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(_) => Failure {
            errno: Errno::EIO,
            text: "a defect of the library ended the call".to_owned(),
        },
    };
    let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
    // A thread that ends has no message.
    let _ = MESSAGE.try_with(|message| message.replace(text));
    -i64::from(failure.errno.0)
}

/// As [`border`], of calls that return 0.
pub fn done(call: impl FnOnce() -> Result<(), Failure>) -> i32 {
    // Error numbers are small.
    border(|| call().map(|()| 0)) as i32
}

/// The text of the last call of this thread that failed, "" before the first. It is valid until the thread's next call fails.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_message() -> *const c_char {
    MESSAGE
        .try_with(|message| message.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// The version of the library: "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn uext4_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

//! Error numbers, and the error that every operation of a file system gives.
//!
//! # Invariants
//! An [`Error`] made from an [`Errno`] alone does not allocate: `ENOENT` is a normal answer on the
//! hot path. Context is boxed, so that `Result<T>` stays small.

use std::borrow::Cow;
use std::fmt;

/// An error number of Linux, positive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

/// What the operations of this crate and of every file system give.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! errnos {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text]
            pub const $name: Errno = Errno($value);)*

            /// The symbol: `ENOENT`; `EUNKNOWN` when this crate has none for the number.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($value => stringify!($name),)*
                    _ => "EUNKNOWN",
                }
            }

            /// The meaning, as strerror(3) words it, in lower case.
            pub const fn text(self) -> &'static str {
                match self.0 {
                    $($value => $text,)*
                    _ => "unknown error",
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or directory";
    ESRCH = 3, "no such process";
    EINTR = 4, "interrupted system call";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such device or address";
    E2BIG = 7, "argument list too long";
    EBADF = 9, "bad file descriptor";
    EAGAIN = 11, "resource temporarily unavailable";
    ENOMEM = 12, "cannot allocate memory";
    EACCES = 13, "permission denied";
    EFAULT = 14, "bad address";
    EBUSY = 16, "device or resource busy";
    EEXIST = 17, "file exists";
    EXDEV = 18, "invalid cross-device link";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    ENFILE = 23, "too many open files in system";
    EMFILE = 24, "too many open files";
    ENOTTY = 25, "inappropriate ioctl for device";
    ETXTBSY = 26, "text file busy";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left on device";
    ESPIPE = 29, "illegal seek";
    EROFS = 30, "read-only file system";
    EMLINK = 31, "too many links";
    EPIPE = 32, "broken pipe";
    ERANGE = 34, "numerical result out of range";
    EDEADLK = 35, "resource deadlock avoided";
    ENAMETOOLONG = 36, "file name too long";
    ENOSYS = 38, "function not implemented";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many levels of symbolic links";
    ENODATA = 61, "no data available";
    EBADMSG = 74, "bad message";
    EOVERFLOW = 75, "value too large for defined data type";
    EILSEQ = 84, "invalid or incomplete multibyte or wide character";
    EMSGSIZE = 90, "message too long";
    EOPNOTSUPP = 95, "operation not supported";
    ETIMEDOUT = 110, "connection timed out";
    ESTALE = 116, "stale file handle";
    EUCLEAN = 117, "structure needs cleaning";
    EDQUOT = 122, "disk quota exceeded";
    ENOKEY = 126, "required key not available";
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// An error number, with the operation and the cause if they help the user.
///
/// Displays as one line, `<what>: <why>`, without the program's name.
pub struct Error {
    errno: Errno,
    context: Option<Box<Context>>,
}

type Source = Box<dyn std::error::Error + Send + Sync>;

struct Context {
    what: Option<Cow<'static, str>>,
    source: Option<Source>,
}

impl Error {
    /// The bare number; allocates nothing.
    pub const fn new(errno: Errno) -> Error {
        Error {
            errno,
            context: None,
        }
    }

    /// The number with the error of a lower layer, which gives the reason.
    pub fn from_source(errno: Errno, source: impl Into<Source>) -> Error {
        Error {
            errno,
            context: Some(Box::new(Context {
                what: None,
                source: Some(source.into()),
            })),
        }
    }

    /// Says what was being done; put before what earlier calls said.
    pub fn context(mut self, what: impl Into<Cow<'static, str>>) -> Error {
        let what = what.into();
        let context = self.context.get_or_insert_with(|| {
            Box::new(Context {
                what: None,
                source: None,
            })
        });
        context.what = Some(match context.what.take() {
            Some(inner) => Cow::Owned(format!("{what}: {inner}")),
            None => what,
        });
        self
    }

    /// The error number, which is all that a front end may pass on.
    #[inline(always)]
    pub const fn errno(&self) -> Errno {
        self.errno
    }
}

impl From<Errno> for Error {
    #[inline(always)]
    fn from(errno: Errno) -> Error {
        Error::new(errno)
    }
}

impl PartialEq<Errno> for Error {
    fn eq(&self, other: &Errno) -> bool {
        self.errno == *other
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(context) = &self.context else {
            return self.errno.fmt(f);
        };
        if let Some(what) = &context.what {
            write!(f, "{what}: ")?;
        }
        match &context.source {
            Some(source) => source.fmt(f),
            None => self.errno.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.errno.name())
    }
}

impl std::error::Error for Error {
    /// What lies under the reason that [`fmt::Display`] shows.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.context.as_ref()?.source.as_ref()?.source()
    }
}

/// Keeps the operation and the cause, if there are any; else it is the error of that number.
impl From<Error> for std::io::Error {
    fn from(e: Error) -> std::io::Error {
        let plain = std::io::Error::from_raw_os_error(e.errno.0);
        match e.context {
            None => plain,
            Some(_) => std::io::Error::new(plain.kind(), e),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_bare_error_is_its_text() {
        let e = Error::from(Errno::ENOENT);
        assert_eq!(e.to_string(), "no such file or directory");
        assert_eq!(format!("{e:?}"), "ENOENT: no such file or directory");
        assert_eq!(e, Errno::ENOENT);
        assert_eq!(Errno(9999).name(), "EUNKNOWN");
        assert!(size_of::<Error>() <= 16);
    }

    #[test]
    fn an_error_of_io_keeps_the_number_or_the_context() {
        use std::io;
        let plain = io::Error::from(Error::from(Errno::ENOENT));
        assert_eq!(plain.raw_os_error(), Some(2));
        let told = io::Error::from(Error::new(Errno::ENOENT).context("open /f"));
        assert_eq!(told.kind(), io::ErrorKind::NotFound);
        assert_eq!(told.to_string(), "open /f: no such file or directory");
    }

    #[test]
    fn context_reads_outside_in() {
        let e = Error::new(Errno::EIO)
            .context("read block 7")
            .context(format!("inode {}", 12));
        assert_eq!(e.to_string(), "inode 12: read block 7: input/output error");
        assert_eq!(e.errno(), Errno::EIO);
    }

    #[test]
    fn a_source_gives_the_reason_and_keeps_the_chain() {
        let low = Error::from_source(Errno::EIO, std::io::Error::other("checksum is wrong"));
        let e = Error::from_source(Errno::EUCLEAN, low).context("open image");
        assert_eq!(e.to_string(), "open image: checksum is wrong");
        assert_eq!(e.errno(), Errno::EUCLEAN);
    }
}

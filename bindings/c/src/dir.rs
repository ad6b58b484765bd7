//! Open directories.

use crate::argument::{bytes, give, there};
use crate::attributes::kind_bits;
use crate::failure::{Failure, Result, border, done};
use crate::fs::{image, uext4_fs};
use rust_uext4::{DirEntry, ReadDir};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// An open directory.
pub struct uext4_dir(Mutex<ReadDir>);

/// An entry of a directory.
#[repr(C)]
pub struct uext4_dirent {
    pub ino: u64,
    /// S_IFMT of the file, 0 if the directory does not record it.
    pub kind: u32,
    /// Bytes of the name.
    pub name_length: u32,
    /// The name, with a 0 at its end.
    pub name: [c_char; 256],
}

/// Opens a directory to be read. Returns 0 or a negative errno, and `*dir` is NULL then: -ENOENT, -ENOTDIR.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_dir_open(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    dir: Option<&mut MaybeUninit<Option<Box<uext4_dir>>>>,
) -> c_int {
    done(|| {
        give(dir, || {
            // SAFETY: a string, as the header asks.
            let path = unsafe { bytes(path) }?;
            Ok(uext4_dir(Mutex::new(image(fs)?.read_dir(path)?)))
        })
    })
}

fn entry(of: &DirEntry) -> Result<uext4_dirent> {
    let mut name = [0; 256];
    let bytes = of.name();
    if bytes.len() >= name.len() {
        return Err(Failure::new(
            libc::EUCLEAN,
            "a name has more than 255 bytes",
        ));
    }
    for (to, byte) in name.iter_mut().zip(bytes) {
        *to = byte.cast_signed() as c_char;
    }
    Ok(uext4_dirent {
        ino: of.ino(),
        kind: of.kind().map_or(0, kind_bits),
        name_length: bytes.len() as u32,
        name,
    })
}

/// The next entry, without "." and "..". A name that is there from the open to the end is returned once; one that is made or removed
/// meanwhile may be missing. Threads that share the handle share the position. Returns 1, 0 at the end, or a negative errno: -EUCLEAN:
/// damage.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_dir_read(
    dir: Option<&uext4_dir>,
    to: Option<&mut MaybeUninit<uext4_dirent>>,
) -> c_int {
    // It is 1 at most, and error numbers are small.
    border(|| {
        let (dir, to) = (there(dir)?, there(to)?);
        let next = dir.0.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(next) = next else { return Ok(0) };
        to.write(entry(&next?)?);
        Ok(1)
    }) as c_int
}

/// Closes a directory. No other thread may use the handle any more. Returns 0 or -EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_dir_close(dir: Option<Box<uext4_dir>>) -> c_int {
    done(|| there(dir).map(drop))
}

//! Lists of options, each `name=value`.

use crate::argument::bytes;
use crate::failure::{Failure, Result};
use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;

/// An option.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    pub name: &'a str,
    value: &'a [u8],
}

/// The options of a list.
///
/// # Safety
/// `list` is null, or pointers to strings, of which the last is null; they stay as they are for `'a`.
pub unsafe fn settings<'a>(list: *const *const c_char) -> Result<Vec<Setting<'a>>> {
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: the null pointer that ends the list has not been read yet.
        let string = unsafe { next.read() };
        if string.is_null() {
            break;
        }
        // SAFETY: the caller's string.
        found.push(Setting::new(unsafe { bytes(string) }?)?);
        next = next.wrapping_add(1);
    }
    Ok(found)
}

impl<'a> Setting<'a> {
    fn new(text: &'a [u8]) -> Result<Setting<'a>> {
        let equals = text.iter().position(|byte| *byte == b'=');
        let (name, value) = match equals.and_then(|at| text.split_at_checked(at)) {
            Some((name, value)) => (name, value.get(1..).unwrap_or_default()),
            None => (text, &[][..]),
        };
        match str::from_utf8(name) {
            Ok(name) => Ok(Setting { name, value }),
            Err(_) => Err(Failure::argument("the name of an option is not UTF-8")),
        }
    }

    pub fn text(&self) -> Result<&'a str> {
        str::from_utf8(self.value).map_err(|_| self.wrong())
    }

    pub fn path(&self) -> &'a Path {
        Path::new(OsStr::from_bytes(self.value))
    }

    pub fn number<T: FromStr>(&self) -> Result<T> {
        self.text()?.parse().map_err(|_| self.wrong())
    }

    /// Two numbers, `1000:1000`.
    pub fn pair(&self) -> Result<(u32, u32)> {
        let halves = self.text()?.split_once(':');
        let numbers = halves.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        numbers.ok_or_else(|| self.wrong())
    }

    pub fn wrong(&self) -> Failure {
        let value = String::from_utf8_lossy(self.value);
        Failure::argument(format!("option {}: {value:?} can't be", self.name))
    }

    pub fn unknown(&self) -> Failure {
        Failure::argument(format!("there is no option {:?}", self.name))
    }
}

//! Errors as one line: what, why, and what to do about it.

use std::error::Error as _;
use std::fmt::Display;
use std::io;
use std::path::Path;
use uext4::ondisk::FormatError;
use uext4::{BlockError, CheckError, Errno, Error, Ext4Error, MkfsError};

/// The chain of an error as one line; what an outer message already ends with is not repeated.
pub fn one_line(e: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in e.chain() {
        let text = cause.to_string();
        if line.ends_with(&text) || line.contains(&format!(": {text}")) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&text);
    }
    line.replace('\n', " ")
}

/// Whether the reader of our output went away, which is no failure of ours.
pub fn is_closed_pipe(e: &anyhow::Error) -> bool {
    let kind = e.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

/// An error about a file of an image.
pub fn in_image(name: impl Display, e: Error) -> anyhow::Error {
    let hint = match e.errno() {
        Errno::EROFS => "; the image is mounted read-only",
        Errno::ENOSPC => "; the image is full",
        Errno::EUCLEAN => "; `uext4 check` tells what is damaged",
        _ => "",
    };
    anyhow::anyhow!("{name}: {e}{hint}")
}

/// An error about a file of the host.
pub fn on_host(path: &Path, e: impl Into<io::Error>) -> anyhow::Error {
    let e = e.into();
    let text = match e.raw_os_error() {
        Some(code) if Errno(code).name() != "EUNKNOWN" => Errno(code).text().to_owned(),
        _ => e.to_string(),
    };
    anyhow::anyhow!("{}: {text}", path.display())
}

/// An image that can't be opened.
pub fn opening(image: &Path, e: &Error) -> anyhow::Error {
    let name = image.display();
    if let Some(why) = find_source::<FormatError>(e) {
        return format(image, why);
    }
    match e.errno() {
        Errno::ENOENT => missing(image),
        Errno::EBUSY => anyhow::anyhow!("{}", busy(image, &e.to_string())),
        Errno::EACCES => anyhow::anyhow!("{name}: permission denied; it must be readable to you"),
        Errno::EISDIR | Errno(15) => not_an_image(image),
        Errno::EUCLEAN => anyhow::anyhow!("{name}: {e}; `uext4 check {name}` tells what is damaged"),
        Errno::EIO => anyhow::anyhow!("{name}: {e}; is the image complete?"),
        _ => anyhow::anyhow!("{name}: {e}"),
    }
}

/// A check that could not run.
pub fn checking(image: &Path, e: CheckError) -> anyhow::Error {
    match e {
        CheckError::Device(e) => device(image, e),
        CheckError::Format(e) => format(image, &e),
        e => anyhow::anyhow!("{}: {e}", image.display()),
    }
}

/// An image that can't be made.
pub fn making(image: &Path, e: MkfsError) -> anyhow::Error {
    let name = image.display();
    match e {
        MkfsError::NoSize => {
            anyhow::anyhow!("{name}: size is missing; give --size 1G, or --from DIR to take it from")
        }
        MkfsError::Device(BlockError::Open { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            anyhow::anyhow!("{name}: its directory does not exist; make that first")
        }
        MkfsError::Device(e) => device(image, e),
        e => anyhow::anyhow!("{name}: {e}"),
    }
}

/// A device that can't be opened or read.
pub fn device(image: &Path, e: BlockError) -> anyhow::Error {
    let errno = Errno(e.raw_os_error().unwrap_or(Errno::EIO.0));
    opening(image, &Error::from_source(errno, e))
}

fn format(image: &Path, e: &FormatError) -> anyhow::Error {
    match e {
        FormatError::BadMagic(_) | FormatError::Short(_) => not_an_image(image),
        e => anyhow::anyhow!("{}: {e}", image.display()),
    }
}

fn missing(image: &Path) -> anyhow::Error {
    let name = image.display();
    anyhow::anyhow!("{name}: no such image; `uext4 mkfs {name} --size 1G` makes one")
}

fn not_an_image(image: &Path) -> anyhow::Error {
    let name = image.display();
    anyhow::anyhow!("{name}: not an ext4 image; `uext4 mkfs {name} --size 1G` makes one")
}

fn busy(image: &Path, why: &str) -> String {
    let name = image.display().to_string();
    let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(why);
    let what_to_do = if why.contains("loop") {
        "unmount it and detach the loop device (losetup -d) first"
    } else {
        "wait for the other program or unmount it first"
    };
    format!("{name}: {why}; {what_to_do}")
}

/// The error of a type somewhere under `e`.
fn find_source<T: std::error::Error + 'static>(e: &Error) -> Option<&T> {
    let mut next = e.source();
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref::<T>() {
            return Some(found);
        }
        if let Some(Ext4Error::Format(found)) = cause.downcast_ref::<Ext4Error>()
            && let Some(found) = (found as &dyn std::error::Error).downcast_ref::<T>()
        {
            return Some(found);
        }
        next = cause.source();
    }
    None
}

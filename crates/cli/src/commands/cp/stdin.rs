//! Standard input, where what writes to it may read the image that is written.

use crate::diagnostics::{self, Busy};
use crate::endpoint::Target;
use crate::images::Images;
use crate::interrupt;
use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

/// How long a wait lasts until it is asked whether a signal was caught.
const INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Opens the image that standard input is copied to. In `uext4 cat a.img:/x | uext4 cp - a.img:/y` both use the image: then the
/// input is put aside until its end, by when the other is done.
///
/// # Errors
/// The image can't be opened, or the input not read.
pub fn open_target(images: &mut Images, image: &Path) -> Result<Arc<dyn Target>> {
    let stdin = rustix::stdio::stdin();
    let kind = rustix::fs::fstat(stdin).map(|found| FileType::from_raw_mode(found.st_mode));
    if kind == Ok(FileType::Fifo) {
        // The other opens the image before it writes.
        wait()?;
    }
    match images.target(image) {
        Err(e) if e.is::<Busy>() && kind == Ok(FileType::Fifo) => {
            put_aside()?;
            images.target(image)
        }
        opened => opened,
    }
}

/// Waits until there is something to read, or the end.
fn wait() -> Result<()> {
    let stdin = io::stdin();
    loop {
        interrupt::check()?;
        let mut fd = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fd, Some(&INTERVAL)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Makes a nameless file of standard input, to its end, which then is standard input.
fn put_aside() -> Result<()> {
    let dir = std::env::temp_dir();
    let fail = |e: io::Error| diagnostics::on_host(&dir.join("standard input"), e);
    let (flags, mode) = (
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    );
    let file = rustix::fs::openat(CWD, &dir, flags, mode);
    let mut file = file.map(File::from).map_err(|e| fail(e.into()))?;
    let mut stdin = io::stdin().lock();
    let mut buf = vec![0; 1 << 16];
    loop {
        wait()?;
        let n = stdin.read(&mut buf)?;
        if n == 0 {
            break;
        }
        file.write_all(&buf[..n]).map_err(fail)?;
    }
    file.rewind().map_err(fail)?;
    Ok(rustix::stdio::dup2_stdin(file)?)
}

//! Standard input, where what writes to it may read the image that is written.

use crate::diagnostics::{self, Busy};
use crate::endpoint::Target;
use crate::images::Images;
use crate::interrupt;
use crate::system::files;
use anyhow::Result;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

/// Opens the image that standard input is copied to. In `uext4 cat a.img:/x | uext4 cp - a.img:/y` both use the image: then the
/// input is put aside until its end, by when the other is done.
///
/// # Errors
/// The image can't be opened, or the input not read.
pub fn open_target(images: &mut Images, image: &Path) -> Result<Arc<dyn Target>> {
    let is_pipe = files::stdin_is_pipe();
    if is_pipe {
        // The other opens the image before it writes.
        wait()?;
    }
    match images.target(image) {
        Err(e) if e.is::<Busy>() && is_pipe => {
            put_aside()?;
            images.target(image)
        }
        opened => opened,
    }
}

/// Waits until there is something to read, or the end.
fn wait() -> Result<()> {
    loop {
        interrupt::check()?;
        match files::wait_readable(&io::stdin()) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Makes a nameless file of standard input, to its end, which then is standard input.
fn put_aside() -> Result<()> {
    let dir = std::env::temp_dir();
    let fail = |e: io::Error| diagnostics::on_host(&dir.join("standard input"), e);
    let mut file = tempfile::tempfile_in(&dir).map_err(fail)?;
    // As that of a pipe, which the copy gets.
    files::set_mode_of_open(&file, 0o600).map_err(fail)?;
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
    Ok(files::replace_stdin(file)?)
}

//! The files of the host.

use super::{Endpoint, Found, Overwrite, Sink, Source, Target};
use crate::system::creation::Creation;
use crate::system::files;
use crate::system::paths;
use crate::{diagnostics, interrupt};
use anyhow::{Result, bail};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use uext4::unstable::SetAttr;
use uext4::{FileKind, NewKind};

/// The files of the host.
pub struct Host;

/// A file of the host with data at offsets, open.
struct Open {
    path: PathBuf,
    file: File,
    kind: FileKind,
}

/// A pipe or a device that is read or written from one byte to the next, open.
struct Stream(Open);

/// Standard output, which is written from where it is; a name on every system.
pub const STDOUT: &str = "/dev/stdout";

/// Standard input, which is read as it was opened; a name on every system.
pub const STDIN: &str = "/dev/stdin";

/// How long until a FIFO without a reader is tried again.
const PAUSE: Duration = Duration::from_millis(20);

impl Open {
    fn new(path: &Path, file: File) -> Result<Open> {
        let kind = files::kind_of_open(&file).map_err(|e| diagnostics::on_host(path, e))?;
        Ok(Open {
            path: path.to_owned(),
            kind,
            file,
        })
    }

    fn fail(&self, e: impl Into<io::Error>) -> anyhow::Error {
        diagnostics::on_host(&self.path, e)
    }

    fn is_stream(&self) -> bool {
        !matches!(self.kind, FileKind::Regular | FileKind::BlockDevice)
    }

    /// Reads with `read` until `data` is full or nothing is left.
    fn fill(
        &self,
        data: &mut [u8],
        read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> Result<usize> {
        let mut done = 0;
        while done < data.len() {
            match read(&mut data[done..], done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => interrupt::check()?,
                Err(e) => return Err(self.fail(e)),
            }
        }
        Ok(done)
    }
}

impl Source for Open {
    fn read_at(&self, data: &mut [u8], offset: u64) -> Result<usize> {
        self.fill(data, |data, done| {
            files::read_at(&self.file, data, offset + done)
        })
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        // What does not know of holes has none.
        Ok(files::next_data(&self.file, offset).unwrap_or(Some(offset)))
    }
}

impl Sink for Open {
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        files::write_all_at(&self.file, data, offset).map_err(|e| self.fail(e))
    }

    fn can_have_holes(&self) -> bool {
        self.kind == FileKind::Regular
    }

    fn finish(&self, len: u64) -> Result<()> {
        let ended = match self.kind {
            FileKind::Regular => self.file.set_len(len),
            // Only so is it known that all of it could be written.
            _ => self.file.sync_data(),
        };
        ended.map_err(|e| self.fail(e))
    }
}

impl Source for Stream {
    fn read_at(&self, data: &mut [u8], _: u64) -> Result<usize> {
        let Stream(open) = self;
        open.fill(data, |data, _| match files::wait_readable(&open.file)? {
            false => Err(ErrorKind::Interrupted.into()),
            true => (&open.file).read(data).map_err(again),
        })
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        Ok(Some(offset))
    }
}

impl Sink for Stream {
    fn write_at(&self, data: &[u8], _: u64) -> Result<()> {
        let Stream(open) = self;
        let mut left = data;
        while !left.is_empty() {
            let written = match files::wait_writable(&open.file) {
                Ok(false) => Err(ErrorKind::Interrupted.into()),
                Ok(true) => (&open.file).write(left).map_err(again),
                Err(e) => Err(e),
            };
            match written {
                Ok(0) => return Err(open.fail(ErrorKind::WriteZero)),
                Ok(n) => left = &left[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => interrupt::check()?,
                Err(e) => return Err(open.fail(e)),
            }
        }
        Ok(())
    }

    fn can_have_holes(&self) -> bool {
        false
    }

    fn finish(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// What would have waited is tried again.
fn again(e: io::Error) -> io::Error {
    match e.kind() {
        ErrorKind::WouldBlock => ErrorKind::Interrupted.into(),
        _ => e,
    }
}

/// Opens a file to read.
fn open_to_read(path: &Path) -> io::Result<File> {
    if path == Path::new(STDIN) {
        return files::stdin();
    }
    let mut options = File::options();
    options.read(true);
    if is_fifo(path) {
        // What writes to it is waited for by reading.
        files::nonblocking(&mut options);
    }
    options.open(path)
}

/// An open file as a source; messages call it `path`.
pub fn source(path: &Path, file: File) -> Result<Box<dyn Source>> {
    let open = Open::new(path, file)?;
    Ok(match open.is_stream() {
        true => Box::new(Stream(open)),
        false => Box::new(open),
    })
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| files::kind(&m) == FileKind::Fifo)
}

impl Endpoint for Host {
    fn id(&self) -> usize {
        0
    }

    fn display(&self, path: &Path) -> String {
        path.display().to_string()
    }

    fn find(&self, path: &Path, follow: bool) -> Result<Option<Found>> {
        match files::find(path, follow) {
            Ok((attr, dev)) => Ok(Some(Found { attr, dev })),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(diagnostics::on_host(path, e)),
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<Vec<u8>>> {
        let fail = |e| diagnostics::on_host(path, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(fail)? {
            names.push(paths::into_bytes(entry.map_err(fail)?.file_name()));
        }
        names.sort();
        Ok(names)
    }

    fn read_link(&self, path: &Path) -> Result<Vec<u8>> {
        let target = fs::read_link(path).map_err(|e| diagnostics::on_host(path, e))?;
        Ok(paths::into_bytes(target.into_os_string()))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Source>> {
        open_to_read(path)
            .map_err(|e| diagnostics::on_host(path, e))
            .and_then(|file| source(path, file))
    }

    fn xattrs(&self, path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        files::xattrs(path).map_err(|e| diagnostics::on_host(path, e))
    }
}

impl Target for Host {
    fn create(&self, path: &Path, mode: u16, over: Overwrite) -> Result<Box<dyn Sink>> {
        if path == Path::new(STDOUT) {
            let file = files::stdout().map_err(|e| diagnostics::on_host(path, e))?;
            return Ok(Box::new(Stream(Open::new(path, file)?)));
        }
        let there = match over {
            Overwrite::Named => fs::metadata(path).ok().map(|m| files::kind(&m)),
            Overwrite::Existing => Some(FileKind::Regular),
            Overwrite::New => None,
            Overwrite::Append => bail!(
                "{}: --append is for files in images; `uext4 cat IMAGE:/PATH >> FILE` appends to a file of the host",
                path.display()
            ),
        };
        let how = match (over, there) {
            (Overwrite::Named, Some(FileKind::BlockDevice)) => Creation::Device,
            (Overwrite::Named, Some(FileKind::Fifo)) => Creation::Fifo,
            (Overwrite::Named, Some(kind)) if kind != FileKind::Regular => Creation::Special,
            (Overwrite::Named, _) => Creation::Any,
            (Overwrite::Existing, _) => Creation::Existing,
            (Overwrite::New | Overwrite::Append, _) => Creation::New,
        };
        let file = loop {
            match files::create(path, mode, how) {
                Err(e) if how == Creation::Fifo && files::has_no_reader(&e) => {
                    interrupt::check()?;
                    std::thread::sleep(PAUSE);
                }
                opened => break opened.map_err(|e| diagnostics::creating_on_host(path, e))?,
            }
        };
        let open = Open::new(path, file)?;
        Ok(match open.is_stream() {
            true => Box::new(Stream(open)),
            false => Box::new(open),
        })
    }

    fn make(&self, path: &Path, mode: u16, kind: NewKind<'_>) -> Result<()> {
        files::make(path, mode, kind).map_err(|e| diagnostics::creating_on_host(path, e))
    }

    fn link(&self, original: &Path, link: &Path) -> Result<()> {
        fs::hard_link(original, link).map_err(|e| diagnostics::on_host(link, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|e| diagnostics::on_host(path, e))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path).map_err(|e| diagnostics::on_host(path, e))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn set_attr(&self, path: &Path, kind: FileKind, change: &SetAttr) -> Result<()> {
        files::set_attr(path, kind, change).map_err(|e| diagnostics::on_host(path, e))
    }

    fn set_xattr(&self, path: &Path, name: &[u8], value: &[u8]) -> Result<bool> {
        files::set_xattr(path, name, value).map_err(|e| diagnostics::on_host(path, e))
    }
}

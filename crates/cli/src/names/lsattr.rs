//! lsattr: lists the flags of files of the host, and of images as IMAGE:/path.

use super::{Program, exit};
use crate::chattr_flags;
use crate::commands::lsattr::{self, Shown};
use crate::location::Location;
use crate::system::inode_flags::HostFile;
use crate::{failures, show};
use anyhow::Result;
use std::ffi::OsString;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use uext4::unstable::ondisk::InodeFlags;
use uext4::unstable::to_stderr;

const USAGE: &str = "Usage: lsattr [-RVadlpv] [files...]";

/// What `-l` calls flags, in the order of the letters.
const LONG: [(InodeFlags, &str); 21] = [
    (InodeFlags::SECRM, "Secure_Deletion"),
    (InodeFlags::UNRM, "Undelete"),
    (InodeFlags::SYNC, "Synchronous_Updates"),
    (InodeFlags::DIRSYNC, "Synchronous_Directory_Updates"),
    (InodeFlags::IMMUTABLE, "Immutable"),
    (InodeFlags::APPEND, "Append_Only"),
    (InodeFlags::NODUMP, "No_Dump"),
    (InodeFlags::NOATIME, "No_Atime"),
    (InodeFlags::COMPR, "Compression_Requested"),
    (InodeFlags::ENCRYPT, "Encrypted"),
    (InodeFlags::JOURNAL_DATA, "Journaled_Data"),
    (InodeFlags::INDEX, "Indexed_directory"),
    (InodeFlags::NOTAIL, "No_Tailmerging"),
    (InodeFlags::TOPDIR, "Top_of_Directory_Hierarchies"),
    (InodeFlags::EXTENTS, "Extents"),
    (InodeFlags::DAX, "DAX"),
    (InodeFlags::CASEFOLD, "Casefold"),
    (InodeFlags::INLINE_DATA, "Inline_Data"),
    (InodeFlags::PROJINHERIT, "Project_Hierarchy"),
    (InodeFlags::VERITY, "Verity"),
    (InodeFlags::NOCOMPR, "Dont_Compress"),
];

/// A listing of files of the host.
struct List<W> {
    shown: Shown,
    long: bool,
    out: W,
}

pub fn run(program: &Program) -> Result<u8> {
    let words = program.read("RVadlvp", USAGE, 1)?;
    if words.has('V') {
        to_stderr(format_args!("{}", program.version()));
    }
    let shown = Shown {
        directory: words.has('d'),
        all: words.has('a'),
        recursive: words.has('R'),
        project: words.has('p'),
        generation: words.has('v'),
    };
    let mut files = words.operands.clone();
    if files.is_empty() {
        files.push(".".into());
    }
    let mut list = List {
        shown,
        long: words.has('l'),
        out: BufWriter::new(std::io::stdout().lock()),
    };
    let (mut failed, mut in_images) = (false, Vec::new());
    for file in files {
        match Location::parse(file.clone()) {
            Location::Host(path) => failed |= !list.operand(&path)?,
            Location::Image(_) => in_images.push(file),
        }
    }
    let is_long = list.long;
    list.out.flush()?;
    drop(list);
    if !in_images.is_empty() {
        if is_long {
            return Err(exit(
                1,
                "lsattr: -l is for files of the host; leave it out for IMAGE:/path",
            ));
        }
        lsattr::run(lsattr::Args::of(shown, in_images))?;
        failed |= failures::any();
    }
    Ok(u8::from(failed))
}

/// The names in a directory, in order.
///
/// # Errors
/// It can't be read.
pub fn names(dir: &Path) -> std::io::Result<Vec<OsString>> {
    let names: std::io::Result<Vec<OsString>> = fs::read_dir(dir)?
        .map(|entry| Ok(entry?.file_name()))
        .collect();
    let mut names = names?;
    names.sort();
    Ok(names)
}

impl<W: Write> List<W> {
    /// Lists a file, or the files in a directory; false if it can't.
    fn operand(&mut self, path: &Path) -> Result<bool> {
        let there = match fs::symlink_metadata(path) {
            Ok(there) => there,
            Err(e) => {
                let why = super::image::host_error_text(&e);
                to_stderr(format_args!(
                    "lsattr: {why} while trying to stat {}",
                    path.display()
                ));
                return Ok(false);
            }
        };
        match there.is_dir() && !self.shown.directory {
            true => self.directory(path),
            false => self.file(path, &there),
        }
    }

    /// Lists the files in a directory, and with -R each directory in it after its own line.
    fn directory(&mut self, start: &Path) -> Result<bool> {
        let Some(names) = self.names(start) else {
            return Ok(false);
        };
        // Files to list, last ones first; `None` ends a directory.
        let mut stack: Vec<Option<_>> = names
            .into_iter()
            .rev()
            .map(|name| Some(start.join(name)))
            .collect();
        while let Some(next) = stack.pop() {
            let Some(path) = next else {
                self.out.write_all(b"\n")?;
                continue;
            };
            let Ok(there) = fs::symlink_metadata(&path) else {
                continue;
            };
            self.file(&path, &there)?;
            let is_itself =
                path.ends_with("..") || path.as_os_str().as_encoded_bytes().ends_with(b"/.");
            if self.shown.recursive && there.is_dir() && !is_itself {
                self.out.write_all(b"\n")?;
                self.out
                    .write_all(&show::name(path.as_os_str().as_encoded_bytes()))?;
                self.out.write_all(b":\n")?;
                let names = self.names(&path).unwrap_or_default();
                stack.push(None);
                stack.extend(names.into_iter().rev().map(|name| Some(path.join(name))));
            }
        }
        Ok(true)
    }

    fn names(&self, dir: &Path) -> Option<Vec<OsString>> {
        match names(dir) {
            Ok(mut names) if self.shown.all => {
                names.extend([OsString::from("."), OsString::from("..")]);
                names.sort();
                Some(names)
            }
            Ok(mut names) => {
                names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
                Some(names)
            }
            Err(e) => {
                let why = super::image::host_error_text(&e);
                to_stderr(format_args!(
                    "lsattr: {why} while reading {}",
                    dir.display()
                ));
                None
            }
        }
    }

    fn file(&mut self, path: &Path, there: &fs::Metadata) -> Result<bool> {
        let file = HostFile::open(path, there.is_dir(), there.is_file());
        let read = file.and_then(|file| {
            let project = self.shown.project.then(|| file.project()).transpose()?;
            let generation = self
                .shown
                .generation
                .then(|| file.generation())
                .transpose()?;
            Ok((file.flags()?, project, generation))
        });
        let (flags, project, generation) = match read {
            Ok(read) => read,
            Err(e) => {
                let why = super::image::errno_text(e);
                to_stderr(format_args!(
                    "lsattr: {why} While reading flags on {}",
                    path.display()
                ));
                return Ok(false);
            }
        };
        if let Some(project) = project {
            write!(self.out, "{project:5} ")?;
        }
        if let Some(generation) = generation {
            write!(self.out, "{generation:<10} ")?;
        }
        let name = path.as_os_str().as_encoded_bytes();
        match self.long {
            true => {
                self.out.write_all(&show::name(name))?;
                let width = 28_usize.saturating_sub(name.len());
                writeln!(self.out, "{:width$} {}", "", long(flags))?;
            }
            false => {
                write!(self.out, "{} ", chattr_flags::column(flags))?;
                self.out.write_all(&show::name(name))?;
                self.out.write_all(b"\n")?;
            }
        }
        Ok(true)
    }
}

fn long(flags: InodeFlags) -> String {
    let set = LONG.iter().filter(|(flag, _)| flags.contains(*flag));
    let names: Vec<&str> = set.map(|(_, name)| *name).collect();
    match names.is_empty() {
        true => "---".to_owned(),
        false => names.join(", "),
    }
}

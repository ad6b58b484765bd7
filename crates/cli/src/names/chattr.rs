//! chattr: changes the flags of files of the host, and of images as IMAGE:/path.

use super::image::errno_text;
use super::{Program, exit, lsattr, reported};
use crate::chattr_flags::{self, Change};
use crate::commands::chattr;
use crate::failures;
use crate::location::Location;
use crate::system::inode_flags::HostFile;
use anyhow::Result;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use uext4::Errno;
use uext4::unstable::ondisk::InodeFlags;
use uext4::unstable::to_stderr;

const USAGE: &str =
    "Usage: chattr [-RVf] [-+=aAcCdDeijPsStTuFx] [-p project] [-v version] files...";

/// What is asked for.
#[derive(Default)]
struct Job {
    /// The flags as they are written, for images.
    words: Vec<OsString>,
    add: InodeFlags,
    remove: InodeFlags,
    set: Option<InodeFlags>,
    changes_flags: bool,
    recursive: bool,
    verbose: bool,
    quiet: bool,
    project: Option<u32>,
    generation: Option<u32>,
}

pub fn run(program: &Program) -> Result<u8> {
    let (job, files) = Job::read(&program.words)?;
    if !program.words.is_empty() {
        job.check()?;
    }
    if files.is_empty() {
        return Err(exit(1, USAGE));
    }
    if job.verbose {
        to_stderr(format_args!("{}", program.version()));
    }
    let mut failed = false;
    let mut in_images = Vec::new();
    for file in files {
        match Location::parse(file.clone()) {
            Location::Host(path) => failed |= !job.change_all(&path)?,
            Location::Image(_) => in_images.push(file),
        }
    }
    if !in_images.is_empty() {
        let words = job.words.iter().cloned().chain(in_images).collect();
        let args = chattr::Args::of(
            words,
            job.project,
            job.generation,
            job.recursive,
            job.verbose,
        );
        chattr::run(args)?;
        failed |= failures::any();
    }
    match failed {
        true => Err(reported(1)),
        false => Ok(0),
    }
}

impl Job {
    /// Reads the arguments, up to the files.
    fn read(words: &[OsString]) -> Result<(Job, Vec<OsString>)> {
        let mut job = Job::default();
        let mut rest = words.iter();
        let usage = || exit(1, USAGE);
        while let Some(word) = rest.as_slice().first() {
            let text = word.to_str().unwrap_or_default();
            if !text.starts_with(['-', '+', '=']) {
                break;
            }
            rest.next();
            if text == "--" {
                break;
            }
            let mut number = || {
                let value = rest.next().and_then(|value| value.to_str());
                value
                    .and_then(|value| value.parse::<u32>().ok())
                    .ok_or_else(usage)
            };
            match text {
                "-p" => job.project = Some(number()?),
                "-v" => job.generation = Some(number()?),
                _ => job.flags(text).ok_or_else(usage)?,
            }
        }
        Ok((job, rest.cloned().collect()))
    }

    /// Reads a word of flags, or of options; `None` if it is wrong.
    fn flags(&mut self, text: &str) -> Option<()> {
        let mut flags = String::new();
        for letter in text.chars().skip(1) {
            match letter {
                'R' if text.starts_with('-') => self.recursive = true,
                'V' if text.starts_with('-') => self.verbose = true,
                'f' if text.starts_with('-') => self.quiet = true,
                letter => flags.push(letter),
            }
        }
        if flags.is_empty() && text.starts_with('-') && text.len() > 1 {
            return Some(());
        }
        let word = format!("{}{flags}", text.get(..1)?);
        self.changes_flags = true;
        match Change::parse(&word)?.ok()? {
            Change::Add(more) => self.add |= more,
            Change::Remove(less) => self.remove |= less,
            Change::Set(all) => self.set = Some(self.set.unwrap_or_default() | all),
        }
        self.words.push(word.into());
        Some(())
    }

    fn check(&self) -> Result<()> {
        let changes_both = !self.add.is_empty() || !self.remove.is_empty();
        if self.set.is_some() && changes_both {
            return Err(exit(1, "= is incompatible with - and +"));
        }
        if self.add.intersects(self.remove) {
            return Err(exit(1, "Can't both set and unset same flag."));
        }
        if !self.changes_flags && self.project.is_none() && self.generation.is_none() {
            return Err(exit(1, "Must use '-v', =, - or +"));
        }
        Ok(())
    }

    /// Changes a file, and all below it if that is asked for; false after a failure.
    fn change_all(&self, start: &Path) -> Result<bool> {
        let (mut stack, mut done) = (vec![start.to_owned()], true);
        while let Some(path) = stack.pop() {
            let there = match fs::symlink_metadata(&path) {
                Ok(there) => there,
                Err(e) => {
                    let why = super::image::host_error_text(&e);
                    self.warn("trying to stat", &path, &why);
                    done = false;
                    continue;
                }
            };
            done &= self.change(&path, &there)?;
            if self.recursive && there.is_dir() {
                let below = lsattr::names(&path).unwrap_or_default();
                stack.extend(below.iter().rev().map(|name| path.join(name)));
            }
        }
        Ok(done)
    }

    fn warn(&self, doing: &str, path: &Path, why: &str) {
        if !self.quiet {
            to_stderr(format_args!(
                "chattr: {why} while {doing} {}",
                path.display()
            ));
        }
    }

    fn change(&self, path: &Path, there: &fs::Metadata) -> Result<bool> {
        let opened = HostFile::open(path, there.is_dir(), there.is_file());
        let failed = |doing: &str, e: Errno| {
            self.warn(doing, path, &errno_text(e));
            Ok(false)
        };
        let file = match opened {
            Ok(file) => file,
            Err(e) => return failed("reading flags on", e),
        };
        if self.changes_flags {
            let flags = match (self.set, file.flags()) {
                (Some(all), _) => all,
                (None, Ok(flags)) => (flags - self.remove) | self.add,
                (None, Err(e)) => return failed("reading flags on", e),
            };
            let flags = match file.is_dir() {
                true => flags,
                false => flags - InodeFlags::DIRSYNC,
            };
            if self.verbose {
                let (name, column) = (path.display(), chattr_flags::column(flags));
                writeln!(std::io::stdout(), "Flags of {name} set as {column}")?;
            }
            if let Err(e) = file.set_flags(flags) {
                return failed("setting flags on", e);
            }
        }
        if let Some(generation) = self.generation {
            if self.verbose {
                let name = path.display();
                writeln!(std::io::stdout(), "Version of {name} set as {generation}")?;
            }
            if let Err(e) = file.set_generation(generation) {
                return failed("setting version on", e);
            }
        }
        if let Some(project) = self.project {
            if self.verbose {
                let name = path.display();
                writeln!(std::io::stdout(), "Project of {name} set as {project}")?;
            }
            if let Err(e) = file.set_project(project) {
                return failed("setting project on", e);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(Job, Vec<OsString>)> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Job::read(&words)
    }

    #[test]
    fn options_and_flags_share_words() {
        let (job, files) = read("-RVi +a -p 7 -v 3 x -d").unwrap();
        assert!(job.recursive && job.verbose && !job.quiet);
        assert_eq!(
            (job.add, job.remove),
            (InodeFlags::APPEND, InodeFlags::IMMUTABLE)
        );
        assert_eq!((job.project, job.generation), (Some(7), Some(3)));
        assert_eq!(files, ["x", "-d"]);
        let (job, _) = read("= x").unwrap();
        assert_eq!(job.set, Some(InodeFlags::empty()));
        assert!(job.check().is_ok());
    }

    #[test]
    fn wrong_words_are_refused() {
        assert!(read("+q x").is_err() && read("-p x").is_err() && read("+i=d x").is_err());
        for line in ["+i -i x", "=d +i x", "x", "-R x"] {
            assert!(read(line).unwrap().0.check().is_err(), "{line}");
        }
    }
}

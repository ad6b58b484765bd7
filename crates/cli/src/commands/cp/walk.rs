//! The walk through what an operand names.

use super::data::Copier;
use super::file::{FileCopier, FileCopy};
use super::options::{Exists, Follow};
use super::work::{Directory, Task, Work};
use crate::ask::ask;
use crate::endpoint::{Found, STDOUT};
use crate::system::paths;
use crate::{diagnostics, interrupt, quoted, show};
use anyhow::{Result, bail};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use uext4::unstable::Attr;
use uext4::{FileKind, NewKind};

/// Which paths the user wrote.
#[derive(Clone, Copy)]
pub struct Named {
    /// The source.
    pub source: bool,
    /// The target.
    pub target: bool,
}

const FOUND: Named = Named {
    source: false,
    target: false,
};

/// Identifies a file: endpoint, device and inode.
type Key = (usize, u64, u64);

/// What the operands of a copy had.
#[derive(Default)]
pub struct Seen {
    /// Where files with several names were copied to.
    links: HashMap<Key, PathBuf>,
    /// What the operands were copied to.
    made: HashMap<PathBuf, Key>,
    /// The directories that were copied: in a damaged image one may be below itself.
    directories: HashSet<Key>,
}

/// Finds what is to be copied. Directories and what is named are copied by its own thread, files in directories by any.
pub struct Walk<'w> {
    /// What all threads share.
    pub work: &'w Work<'w>,
    /// What copies a file.
    pub files: FileCopier<'w>,
    /// What all operands share.
    pub seen: &'w mut Seen,
    /// The directories above what is copied.
    pub above: Vec<Key>,
    /// The device of the operand.
    pub device: u64,
    /// What copies the data.
    pub copier: Copier<'w>,
    /// What the other threads take files from, if there are some.
    pub queue: Option<SyncSender<Task>>,
}

impl Walk<'_> {
    /// Copies what is at `path`, `within` a directory that is copied if it is not an operand.
    ///
    /// # Errors
    /// It is not copied, or a thread had an error that ends the command.
    pub fn copy(
        &mut self,
        path: &Path,
        to: &Path,
        named: Named,
        within: Option<&Arc<Directory>>,
    ) -> Result<()> {
        interrupt::check()?;
        self.work.check()?;
        let follow = match self.files.options.follow {
            Follow::Never => false,
            Follow::Named => named.source,
            Follow::Always => true,
        };
        let Some(source) = self.files.from.find(path, follow)? else {
            return Err(self.files.from.missing(path));
        };
        if !self.files.from.is_image()
            && self.files.to.image_file() == Some((source.dev, source.attr.ino))
        {
            let name = self.files.from.display(path);
            bail!("{name}: holds the image that is copied to, and cannot be in itself");
        }
        if self.files.options.one_file_system && source.dev != self.device {
            return Ok(());
        }
        let there = self.there(path, to, named)?;
        if let Some(there) = there
            && self.is_same(&source, there)
        {
            let (name, other) = (self.files.from.display(path), self.files.to.display(to));
            bail!("{name}: is the same file as {other}");
        }
        if source.attr.kind == FileKind::Directory {
            return self.directory(path, &source, to, there, within);
        }
        if there.is_some_and(|t| t.attr.kind == FileKind::Directory) {
            let (name, other) = (self.files.from.display(path), self.files.to.display(to));
            bail!("{other}: is a directory, {name} is not");
        }
        if named.source && !self.is_first(path, &source, to)? {
            return Ok(());
        }
        if let Some(there) = there
            && !self.may_overwrite(&source, to, there)?
        {
            return Ok(());
        }
        self.not_an_image(to, named)?;
        self.any_but_directory(path, &source, to, there, named, within)
    }

    /// Whether no other operand was copied to `to`; the same file again is left out.
    fn is_first(&mut self, path: &Path, source: &Found, to: &Path) -> Result<bool> {
        let key = (self.files.from.id(), source.dev, source.attr.ino);
        let name = self.files.from.display(path);
        match self.seen.made.insert(to.to_owned(), key) {
            None => Ok(true),
            Some(before) if before == key => {
                show::warn(format_args!("warning: {name}: is named more than once"));
                Ok(false)
            }
            Some(_) => {
                let other = self.files.to.display(to);
                bail!("{name}: {other} was made just now of another file, and stays")
            }
        }
    }

    /// What the copy would overwrite.
    fn there(&self, path: &Path, to: &Path, named: Named) -> Result<Option<Found>> {
        let there = self.files.to.find(to, named.target)?;
        if there.is_none()
            && named.target
            && !self.files.options.remove_destination
            && self.files.to.find(to, false)?.is_some()
        {
            let name = self.files.to.display(to);
            let held = self.files.to.read_link(to)?;
            let held = String::from_utf8_lossy(&held);
            let from = self.files.from.display(path);
            bail!(
                "{name}: is a link to {held}, which does not exist, so {from} is not written there; remove the link first"
            );
        }
        Ok(there)
    }

    fn is_same(&self, source: &Found, there: Found) -> bool {
        self.files.from.id() == self.files.to.id()
            && (there.dev, there.attr.ino) == (source.dev, source.attr.ino)
    }

    /// Whether what exists may be overwritten; asks if that is to be asked.
    fn may_overwrite(&mut self, source: &Found, to: &Path, there: Found) -> Result<bool> {
        let age = |attr: &Attr| (attr.mtime.sec, attr.mtime.nsec);
        if self.files.options.update && age(&there.attr) >= age(&source.attr) {
            return Ok(self.left_out());
        }
        match self.files.options.exists {
            Exists::Overwrite | Exists::Append => Ok(true),
            Exists::Skip => Ok(self.left_out()),
            Exists::Ask => {
                let name = quoted::always(self.files.to.display(to));
                Ok(ask(&format!("overwrite {name}"))? || self.left_out())
            }
        }
    }

    /// Notes that something is not copied, without a failure.
    fn left_out(&self) -> bool {
        self.work.leave_out();
        false
    }

    fn not_an_image(&self, to: &Path, named: Named) -> Result<()> {
        let is_host = named.target && !self.files.to.is_image();
        if is_host && !self.files.options.force && diagnostics::has_magic(to) {
            let name = self.files.to.display(to);
            bail!("{name}: is an ext4 image; {name}:/ copies into it, --force replaces it");
        }
        Ok(())
    }

    fn any_but_directory(
        &mut self,
        path: &Path,
        source: &Found,
        to: &Path,
        there: Option<Found>,
        named: Named,
        within: Option<&Arc<Directory>>,
    ) -> Result<()> {
        let FileCopier {
            options,
            from,
            to: target,
            ..
        } = self.files;
        let attr = source.attr;
        let key = (from.id(), source.dev, attr.ino);
        let shares = options.preserve.links && attr.nlink > 1;
        let makes_links = options.hard_link || options.symbolic_link;
        // On the host two names may be one file: of an untrusted image, one that another thread has made must not be replaced by a link
        // until it has its mode. What is made there by several threads is new to all of them.
        let is_own_file = |there: Found| {
            let both = [attr.kind, there.attr.kind] == [FileKind::Regular; 2];
            target.is_image() && both && there.attr.nlink == 1 && !options.remove_destination
        };
        let is_any_threads = !shares && !makes_links && there.is_none_or(is_own_file);
        if there.is_some() && !is_any_threads {
            self.work.wait();
        }
        let first = self.seen.links.get(&key).filter(|_| shares);
        if first.is_some() || makes_links {
            self.any_link(path, to, there, first)?;
            self.work.note(path.to_owned(), attr.kind);
            return self.work.print(path, to, attr.kind);
        }
        let there = match there {
            Some(_) if options.remove_destination => {
                target.remove(to)?;
                None
            }
            there => there,
        };
        let file = FileCopy {
            over: self.files.make_way(&attr, to, there, named.target)?,
            path: path.to_owned(),
            attr,
            to: to.to_owned(),
        };
        match within {
            Some(within) if is_any_threads => {
                let task = (file, Arc::clone(within));
                self.work.add(task, self.queue.as_ref(), &mut self.copier);
                return Ok(());
            }
            _ => self.files.copy(&file, &mut self.copier)?,
        }
        if shares {
            self.seen.links.insert(key, file.to);
        }
        self.work.note(file.path, attr.kind);
        self.work.print(path, to, attr.kind)
    }

    /// Makes a link instead of a copy, to `first` if that is a copy already.
    fn any_link(
        &self,
        path: &Path,
        to: &Path,
        there: Option<Found>,
        first: Option<&PathBuf>,
    ) -> Result<()> {
        let FileCopier {
            options,
            to: target,
            ..
        } = self.files;
        if there.is_some() {
            if !options.force && !options.remove_destination && first.is_none() {
                bail!("{}: exists; -f replaces it", target.display(to));
            }
            target.remove(to)?;
        }
        match first {
            Some(first) => target.link(first, to),
            None => self.link(path, to),
        }
    }

    /// Makes a link as the options ask for it.
    fn link(&self, path: &Path, to: &Path) -> Result<()> {
        let (name, other) = (self.files.from.display(path), self.files.to.display(to));
        if self.files.from.id() != self.files.to.id() {
            bail!("{name}: a link can't lead there from {other}; copy it without -l and -s");
        }
        if self.files.options.hard_link {
            return match self.files.options.follow {
                Follow::Always => self.files.to.link(&self.files.from.resolve(path)?, to),
                _ => self.files.to.link(path, to),
            };
        }
        if !path.has_root() && to.parent().is_some_and(|above| above != Path::new("")) {
            bail!("{other}: a relative link to {name} would lead elsewhere; name it from the root");
        }
        let target = paths::bytes(path);
        self.files.to.make(to, 0o777, NewKind::Symlink(&target))
    }

    fn directory(
        &mut self,
        path: &Path,
        source: &Found,
        to: &Path,
        there: Option<Found>,
        within: Option<&Arc<Directory>>,
    ) -> Result<()> {
        let name = || self.files.from.display(path);
        if to == Path::new(STDOUT) {
            let hint = quoted::quoted(name());
            bail!(
                "{}: is a directory, which can't be written to standard output; `uext4 cp -a {hint} DIR` copies it, and \
                 `uext4 mount` shows it to tar",
                name()
            );
        }
        if !self.files.options.recursive {
            bail!("{}: is a directory; -r copies it with all in it", name());
        }
        if self.files.from.id() == self.files.to.id() && to.starts_with(path) {
            bail!("{}: can't be copied into itself", name());
        }
        let key = (self.files.from.id(), source.dev, source.attr.ino);
        let is_new = self.seen.directories.insert(key);
        if self.files.from.is_image() && !is_new && self.files.options.follow == Follow::Never {
            bail!("{}: damaged: the directory has two names", name());
        }
        if self.above.contains(&key) {
            bail!(
                "{}: a link to a directory above it, which has no end",
                name()
            );
        }
        match there {
            Some(t) if t.attr.kind == FileKind::Directory => {}
            Some(_) => {
                let other = self.files.to.display(to);
                bail!("{other}: is not a directory, {} is", name());
            }
            None => {
                self.files
                    .to
                    .make(to, source.attr.mode | 0o700, NewKind::Directory)?;
                self.work.print(path, to, FileKind::Directory)?;
            }
        }
        self.work.note(path.to_owned(), FileKind::Directory);
        let directory = Arc::new(Directory {
            within: within.cloned(),
            path: path.to_owned(),
            attr: source.attr,
            to: to.to_owned(),
            is_new: there.is_none(),
        });
        self.above.push(key);
        let copied = self.content(&directory);
        self.above.pop();
        copied?;
        self.work.leave(directory);
        Ok(())
    }

    fn content(&mut self, directory: &Arc<Directory>) -> Result<()> {
        let Directory { path, to, .. } = &**directory;
        for name in self.files.from.list(path)? {
            let name = paths::path(&name);
            let copied = self.copy(&path.join(&name), &to.join(&name), FOUND, Some(directory));
            copied.or_else(|e| self.work.report(e))?;
        }
        Ok(())
    }
}

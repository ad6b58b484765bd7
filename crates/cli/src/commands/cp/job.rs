//! The copying itself.

use super::data::Copier;
use super::options::{Exists, Follow, Options, Report, Sparse};
use crate::ask::ask;
use crate::bar::Bar;
use crate::endpoint::{Endpoint, Found, Overwrite, STDOUT, Target};
use crate::{diagnostics, failures, interrupt, mode, quoted, show};
use anyhow::{Result, bail};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::unstable::{Attr, SetAttr};
use uext4::{FileKind, NewKind, TimeSet};

/// Attributes that hold access control lists, which are a part of the mode.
const ACL_PREFIX: &[u8] = b"system.posix_acl_";
/// The attribute with the context of SELinux.
const CONTEXT: &[u8] = b"security.selinux";

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

/// A copy under way.
pub struct Job<'a> {
    /// What is asked for of the files to come.
    pub options: Options,
    to: &'a dyn Target,
    /// Where files with several names were copied to.
    links: HashMap<Key, PathBuf>,
    /// What the operands were copied to.
    made: HashMap<PathBuf, Key>,
    /// The directories that were copied: in a damaged image one may be below itself.
    directories: HashSet<Key>,
    /// The directories above the file that is copied.
    above: Vec<Key>,
    /// The device of the operand.
    device: u64,
    copier: Copier<'a>,
    /// Something below the operand was not copied.
    failed: bool,
    /// What was copied of the operand, directories before what is in them.
    copied: Vec<(PathBuf, FileKind)>,
}

impl<'a> Job<'a> {
    /// A copy to `to`.
    pub fn new(options: Options, to: &'a dyn Target, bar: &'a Bar) -> Job<'a> {
        Job {
            options,
            to,
            links: HashMap::new(),
            made: HashMap::new(),
            directories: HashSet::new(),
            above: Vec::new(),
            device: 0,
            copier: Copier::new(bar),
            failed: false,
            copied: Vec::new(),
        }
    }

    /// Copies what is at `path`, which an operand names.
    ///
    /// # Errors
    /// It is not copied. Failures below a directory are reported.
    pub fn operand(
        &mut self,
        from: &dyn Endpoint,
        path: &Path,
        to: &Path,
        named: Named,
    ) -> Result<()> {
        self.failed = false;
        self.copied.clear();
        let found = from.find(path, false)?;
        self.device = found.map_or(0, |found| found.dev);
        self.copy(from, path, to, named)
    }

    /// What of the last operand was copied, directories before what is in them; `None` if not all was.
    pub fn all_copied(&self) -> Option<&[(PathBuf, FileKind)]> {
        (!self.failed).then_some(&self.copied)
    }

    fn copy(&mut self, from: &dyn Endpoint, path: &Path, to: &Path, named: Named) -> Result<()> {
        interrupt::check()?;
        let follow = match self.options.follow {
            Follow::Never => false,
            Follow::Named => named.source,
            Follow::Always => true,
        };
        let Some(source) = from.find(path, follow)? else {
            return Err(from.missing(path));
        };
        if !from.is_image() && self.to.image_file() == Some((source.dev, source.attr.ino)) {
            let name = from.display(path);
            bail!("{name}: holds the image that is copied to, and cannot be in itself");
        }
        if self.options.one_file_system && source.dev != self.device {
            return Ok(());
        }
        let there = self.there(from, path, to, named)?;
        if let Some(there) = there
            && self.is_same(from, &source, there)
        {
            let (name, other) = (from.display(path), self.to.display(to));
            bail!("{name}: is the same file as {other}");
        }
        if source.attr.kind == FileKind::Directory {
            return self.directory(from, path, &source, to, there);
        }
        if there.is_some_and(|t| t.attr.kind == FileKind::Directory) {
            let (name, other) = (from.display(path), self.to.display(to));
            bail!("{other}: is a directory, {name} is not");
        }
        if named.source && !self.is_first(from, path, &source, to)? {
            return Ok(());
        }
        if let Some(there) = there
            && !self.may_overwrite(&source, to, there)?
        {
            return Ok(());
        }
        self.not_an_image(to, named)?;
        self.any_but_directory(from, path, &source, to, there, named)
    }

    /// Whether no other operand was copied to `to`; the same file again is left out.
    fn is_first(
        &mut self,
        from: &dyn Endpoint,
        path: &Path,
        source: &Found,
        to: &Path,
    ) -> Result<bool> {
        let key = (from.id(), source.dev, source.attr.ino);
        let name = from.display(path);
        match self.made.insert(to.to_owned(), key) {
            None => Ok(true),
            Some(before) if before == key => {
                show::warn(format_args!("warning: {name}: is named more than once"));
                Ok(false)
            }
            Some(_) => {
                let other = self.to.display(to);
                bail!("{name}: {other} was made just now of another file, and stays")
            }
        }
    }

    /// What the copy would overwrite.
    fn there(
        &self,
        from: &dyn Endpoint,
        path: &Path,
        to: &Path,
        named: Named,
    ) -> Result<Option<Found>> {
        let there = self.to.find(to, named.target)?;
        if there.is_none()
            && named.target
            && !self.options.remove_destination
            && self.to.find(to, false)?.is_some()
        {
            let name = self.to.display(to);
            let held = self.to.read_link(to)?;
            let held = String::from_utf8_lossy(&held);
            let from = from.display(path);
            bail!(
                "{name}: is a link to {held}, which does not exist, so {from} is not written there; remove the link first"
            );
        }
        Ok(there)
    }

    fn is_same(&self, from: &dyn Endpoint, source: &Found, there: Found) -> bool {
        from.id() == self.to.id() && (there.dev, there.attr.ino) == (source.dev, source.attr.ino)
    }

    /// Whether what exists may be overwritten; asks if that is to be asked.
    fn may_overwrite(&mut self, source: &Found, to: &Path, there: Found) -> Result<bool> {
        let age = |attr: &Attr| (attr.mtime.sec, attr.mtime.nsec);
        if self.options.update && age(&there.attr) >= age(&source.attr) {
            return Ok(self.leave_out());
        }
        match self.options.exists {
            Exists::Overwrite | Exists::Append => Ok(true),
            Exists::Skip => Ok(self.leave_out()),
            Exists::Ask => {
                let name = quoted::always(self.to.display(to));
                Ok(ask(&format!("overwrite {name}"))? || self.leave_out())
            }
        }
    }

    /// Notes that something is not copied, without a failure.
    fn leave_out(&mut self) -> bool {
        self.failed = true;
        false
    }

    fn not_an_image(&self, to: &Path, named: Named) -> Result<()> {
        let is_host = named.target && !self.to.is_image();
        if is_host && !self.options.force && diagnostics::has_magic(to) {
            let name = self.to.display(to);
            bail!("{name}: is an ext4 image; {name}:/ copies into it, --force replaces it");
        }
        Ok(())
    }

    fn any_but_directory(
        &mut self,
        from: &dyn Endpoint,
        path: &Path,
        source: &Found,
        to: &Path,
        there: Option<Found>,
        named: Named,
    ) -> Result<()> {
        let options = self.options;
        let attr = &source.attr;
        let key = (from.id(), source.dev, attr.ino);
        let shares = options.preserve.links && attr.nlink > 1;
        let first = self.links.get(&key).filter(|_| shares);
        if first.is_some() || options.hard_link || options.symbolic_link {
            if there.is_some() {
                if !options.force && !options.remove_destination && first.is_none() {
                    bail!("{}: exists; -f replaces it", self.to.display(to));
                }
                self.to.remove(to)?;
            }
            if let Some(first) = first {
                self.to.link(first, to)?;
            } else {
                self.link(from, path, to)?;
            }
        } else {
            let there = match there {
                Some(_) if options.remove_destination => {
                    self.to.remove(to)?;
                    None
                }
                there => there,
            };
            let over = self.make_way(attr, to, there, named.target)?;
            self.file(from, path, attr, to, over)?;
            self.keep(from, path, attr, to)?;
            if shares {
                self.links.insert(key, to.to_owned());
            }
        }
        self.note(path, attr.kind);
        self.report(from, path, to, attr.kind)
    }

    /// Makes a link instead of a copy.
    fn link(&self, from: &dyn Endpoint, path: &Path, to: &Path) -> Result<()> {
        let (name, other) = (from.display(path), self.to.display(to));
        if from.id() != self.to.id() {
            bail!("{name}: a link can't lead there from {other}; copy it without -l and -s");
        }
        if self.options.hard_link {
            return match self.options.follow {
                Follow::Always => self.to.link(&from.resolve(path)?, to),
                _ => self.to.link(path, to),
            };
        }
        if !path.is_absolute() && to.parent().is_some_and(|above| above != Path::new("")) {
            bail!("{other}: a relative link to {name} would lead elsewhere; name it from the root");
        }
        let target = path.as_os_str().as_bytes();
        self.to.make(to, 0o777, NewKind::Symlink(target))
    }

    /// Notes that something was copied, where that is to be removed.
    fn note(&mut self, path: &Path, kind: FileKind) {
        if self.options.moves {
            self.copied.push((path.to_owned(), kind));
        }
    }

    fn report(&self, from: &dyn Endpoint, path: &Path, to: &Path, kind: FileKind) -> Result<()> {
        if self.options.report == Report::Nothing {
            return Ok(());
        }
        let (name, other) = (
            quoted::always(from.display(path)),
            quoted::always(self.to.display(to)),
        );
        let line = match self.options.report {
            Report::Nothing => return Ok(()),
            Report::Copies => format!("{name} -> {other}"),
            Report::Moves if kind == FileKind::Directory => format!("created directory {other}"),
            Report::Moves => format!("copied {name} -> {other}"),
        };
        Ok(writeln!(std::io::stdout(), "{line}")?)
    }

    fn directory(
        &mut self,
        from: &dyn Endpoint,
        path: &Path,
        source: &Found,
        to: &Path,
        there: Option<Found>,
    ) -> Result<()> {
        let name = || from.display(path);
        if to == Path::new(STDOUT) {
            let hint = quoted::quoted(name());
            bail!(
                "{}: is a directory, which can't be written to standard output; `uext4 cp -a {hint} DIR` copies it, and \
                 `uext4 mount` shows it to tar",
                name()
            );
        }
        if !self.options.recursive {
            bail!("{}: is a directory; -r copies it with all in it", name());
        }
        if from.id() == self.to.id() && to.starts_with(path) {
            bail!("{}: can't be copied into itself", name());
        }
        let key = (from.id(), source.dev, source.attr.ino);
        let is_new = self.directories.insert(key);
        if from.is_image() && !is_new && self.options.follow == Follow::Never {
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
                let other = self.to.display(to);
                bail!("{other}: is not a directory, {} is", name());
            }
            None => {
                self.to
                    .make(to, source.attr.mode | 0o700, NewKind::Directory)?;
                self.report(from, path, to, FileKind::Directory)?;
            }
        }
        self.note(path, FileKind::Directory);
        self.above.push(key);
        let copied = self.content(from, path, to);
        self.above.pop();
        copied?;
        let mode = source.attr.mode & 0o777;
        if !self.options.preserve.mode && there.is_none() && mode & 0o700 != 0o700 {
            let change = SetAttr {
                mode: Some(mode & !mode::umask()),
                ..SetAttr::default()
            };
            self.to.set_attr(to, FileKind::Directory, &change)?;
        }
        self.keep(from, path, &source.attr, to)
    }

    fn content(&mut self, from: &dyn Endpoint, path: &Path, to: &Path) -> Result<()> {
        for name in from.list(path)? {
            let name = OsStr::from_bytes(&name);
            if let Err(e) = self.copy(from, &path.join(name), &to.join(name), FOUND) {
                self.failed = true;
                failures::report(e)?;
            }
        }
        Ok(())
    }

    /// Removes what is in the way of a file; says how its copy is opened, if that has data.
    fn make_way(
        &self,
        source: &Attr,
        to: &Path,
        there: Option<Found>,
        named: bool,
    ) -> Result<Overwrite> {
        let kind = there.map(|there| there.attr.kind);
        if self.options.exists == Exists::Append && matches!(kind, None | Some(FileKind::Regular)) {
            return Ok(Overwrite::Append);
        }
        match kind {
            None if named => Ok(Overwrite::Named),
            None => Ok(Overwrite::New),
            Some(kind) if self.has_data(source.kind) && named => {
                if self.to.is_image() && kind != FileKind::Regular {
                    let (name, kind) = (self.to.display(to), show::kind(kind));
                    bail!("{name}: is a {kind}, which has no data in an image; remove it first");
                }
                Ok(Overwrite::Named)
            }
            Some(FileKind::Regular) if self.has_data(source.kind) => Ok(Overwrite::Existing),
            Some(_) => self.to.remove(to).map(|()| Overwrite::New),
        }
    }

    /// Whether the data of such a source is copied, not the source as it is.
    fn has_data(&self, kind: FileKind) -> bool {
        match kind {
            FileKind::Regular => true,
            FileKind::Directory | FileKind::Symlink => false,
            _ => !self.options.recursive,
        }
    }

    /// Copies what is not a directory.
    fn file(
        &mut self,
        from: &dyn Endpoint,
        path: &Path,
        attr: &Attr,
        to: &Path,
        over: Overwrite,
    ) -> Result<()> {
        if self.has_data(attr.kind) {
            return self.content_of_file(from, path, attr, to, over);
        }
        let target;
        let kind = match attr.kind {
            FileKind::Symlink => {
                target = from.read_link(path)?;
                NewKind::Symlink(&target)
            }
            FileKind::Fifo => NewKind::Fifo,
            FileKind::Socket => NewKind::Socket,
            FileKind::CharDevice | FileKind::BlockDevice => NewKind::Device {
                kind: attr.kind,
                major: attr.rdev_major,
                minor: attr.rdev_minor,
            },
            FileKind::Regular | FileKind::Directory => {
                bail!("{}: changed while it was copied", from.display(path))
            }
        };
        self.to.make(to, self.new_mode(attr), kind)
    }

    /// The bits of a new file, from which the umask is taken.
    fn new_mode(&self, attr: &Attr) -> u16 {
        match self.options.plain_mode {
            true => 0o666,
            false => attr.mode & 0o777,
        }
    }

    fn content_of_file(
        &mut self,
        from: &dyn Endpoint,
        path: &Path,
        attr: &Attr,
        to: &Path,
        over: Overwrite,
    ) -> Result<()> {
        if from.is_image() && attr.kind != FileKind::Regular {
            let (name, kind) = (from.display(path), show::kind(attr.kind));
            bail!("{name}: is a {kind}, which has no data in an image; -a copies it as it is");
        }
        // A pipe without a writer is waited for before anything is cut.
        let source = from.open(path)?;
        let mode = self.new_mode(attr);
        let mut is_new = over == Overwrite::New || self.to.find(to, true)?.is_none();
        let sink = match self.to.create(to, mode, over) {
            // Not a device, which may be in use.
            Err(_) if self.options.force && self.is_file(to)? => {
                self.to.remove(to)?;
                is_new = true;
                self.to.create(to, mode, Overwrite::New)?
            }
            sink => sink?,
        };
        let has_holes = attr.blocks * 512 < attr.size;
        let makes_holes = match self.options.sparse {
            Sparse::Auto => has_holes,
            Sparse::Always => attr.kind == FileKind::Regular,
            Sparse::Never => false,
        };
        let copied = match makes_holes && sink.can_have_holes() {
            true => self.copier.sparse_data(&*source, &*sink, attr.size),
            false => self.copier.data(&*source, &*sink),
        };
        let is_file = sink.can_have_holes();
        drop(sink);
        match copied.is_err() {
            true if is_new => {
                // A part of a file is worse than none. That it stays is not worse than why.
                let _ = self.to.remove(to);
            }
            true if over == Overwrite::Append => show::warn(format_args!(
                "{}: was appended to, and has only a part of {}",
                self.to.display(to),
                from.display(path)
            )),
            true if is_file => show::warn(format_args!(
                "{}: was overwritten, and holds only a part of {}",
                self.to.display(to),
                from.display(path)
            )),
            _ => {}
        }
        copied
    }

    fn is_file(&self, path: &Path) -> Result<bool> {
        let found = self.to.find(path, false)?;
        Ok(found.is_some_and(|found| found.attr.kind == FileKind::Regular))
    }

    /// Gives a copy what is kept: owner and mode first, as they take attributes away; times last.
    fn keep(&self, from: &dyn Endpoint, path: &Path, attr: &Attr, to: &Path) -> Result<()> {
        let keeps = self.options.preserve;
        if keeps.mode || keeps.ownership {
            let owner = SetAttr {
                mode: keeps.mode.then_some(attr.mode),
                uid: keeps.ownership.then_some(attr.uid),
                gid: keeps.ownership.then_some(attr.gid),
                ..SetAttr::default()
            };
            self.to.set_attr(to, attr.kind, &owner)?;
        }
        if keeps.mode || keeps.xattr || keeps.context {
            self.keep_xattrs(from, path, attr.kind, to)?;
        }
        if !keeps.timestamps {
            return Ok(());
        }
        let times = SetAttr {
            atime: Some(TimeSet::At(attr.atime)),
            mtime: Some(TimeSet::At(attr.mtime)),
            ..SetAttr::default()
        };
        self.to.set_attr(to, attr.kind, &times)
    }

    fn keep_xattrs(
        &self,
        from: &dyn Endpoint,
        path: &Path,
        kind: FileKind,
        to: &Path,
    ) -> Result<()> {
        let keeps = self.options.preserve;
        let behind = match self.options.follow {
            Follow::Never => path.to_owned(),
            _ if kind == FileKind::Symlink => path.to_owned(),
            _ => from.resolve(path)?,
        };
        for (name, value) in from.xattrs(&behind)? {
            let wanted = match &*name {
                name if name.starts_with(ACL_PREFIX) => keeps.mode,
                CONTEXT => keeps.context,
                _ => keeps.xattr,
            };
            if wanted && !self.to.set_xattr(to, &name, &value)? {
                let (file, name) = (self.to.display(to), String::from_utf8_lossy(&name));
                show::warn(format_args!("warning: {file}: can't keep attribute {name}"));
            }
        }
        Ok(())
    }
}

//! A copy of one file.

use super::data::Copier;
use super::options::{Exists, Follow, Options, Sparse};
use crate::bar::Bar;
use crate::endpoint::{Endpoint, Found, Overwrite, Target};
use crate::show;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use uext4::unstable::{Attr, SetAttr};
use uext4::{FileKind, NewKind, TimeSet};

/// Attributes that hold access control lists, which are a part of the mode.
const ACL_PREFIX: &[u8] = b"system.posix_acl_";
/// The attribute with the context of SELinux.
const CONTEXT: &[u8] = b"security.selinux";

/// A file that is not a directory, and what it is copied to.
pub struct FileCopy {
    /// Its path.
    pub path: PathBuf,
    /// Its attributes.
    pub attr: Attr,
    /// The path of the copy.
    pub to: PathBuf,
    /// How the copy is opened, if it has data.
    pub over: Overwrite,
}

/// Copies files from one endpoint to another. The threads of a copy share it.
#[derive(Clone, Copy)]
pub struct FileCopier<'a> {
    /// What is asked for.
    pub options: Options,
    /// What has the files.
    pub from: &'a dyn Endpoint,
    /// What gets the copies.
    pub to: &'a dyn Target,
    /// What learns how many bytes were copied.
    pub bar: &'a Bar,
}

impl FileCopier<'_> {
    /// Copies a file, and gives the copy what is kept.
    ///
    /// # Errors
    /// It is not copied: what was made of it is removed, what was overwritten is reported.
    pub fn copy(&self, file: &FileCopy, copier: &mut Copier<'_>) -> Result<()> {
        match self.has_data(file.attr.kind) {
            true => self.data(file, copier)?,
            false => self.make(file)?,
        }
        self.keep(&file.path, &file.attr, &file.to)
    }

    /// Removes what is in the way of a file; says how its copy is opened, if that has data.
    ///
    /// # Errors
    /// It can't be removed, or must not be.
    pub fn make_way(
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

    /// Makes what has no data.
    fn make(&self, file: &FileCopy) -> Result<()> {
        let attr = &file.attr;
        let target;
        let kind = match attr.kind {
            FileKind::Symlink => {
                target = self.from.read_link(&file.path)?;
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
                bail!(
                    "{}: changed while it was copied",
                    self.from.display(&file.path)
                )
            }
        };
        self.to.make(&file.to, self.new_mode(attr), kind)
    }

    /// The bits of a new file, from which the umask is taken.
    fn new_mode(&self, attr: &Attr) -> u16 {
        match self.options.plain_mode {
            true => 0o666,
            false => attr.mode & 0o777,
        }
    }

    /// Makes or overwrites a file with data, and copies the data.
    fn data(&self, file: &FileCopy, copier: &mut Copier<'_>) -> Result<()> {
        let FileCopy {
            path,
            attr,
            to,
            over,
        } = file;
        if self.from.is_image() && attr.kind != FileKind::Regular {
            let (name, kind) = (self.from.display(path), show::kind(attr.kind));
            bail!("{name}: is a {kind}, which has no data in an image; -a copies it as it is");
        }
        // A pipe without a writer is waited for before anything is cut.
        let source = self.from.open(path)?;
        let mode = self.new_mode(attr);
        let mut is_new = *over == Overwrite::New || self.to.find(to, true)?.is_none();
        let sink = match self.to.create(to, mode, *over) {
            // Not a device, which may be in use.
            Err(_) if self.options.force && *over != Overwrite::New && self.is_file(to)? => {
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
            true => copier.sparse_data(&*source, &*sink, attr.size),
            false => copier.data(&*source, &*sink),
        };
        let is_file = sink.can_have_holes();
        drop(sink);
        match copied.is_err() {
            true if is_new => {
                // A part of a file is worse than none. That it stays is not worse than why.
                let _ = self.to.remove(to);
            }
            true if *over == Overwrite::Append => show::warn(format_args!(
                "{}: was appended to, and has only a part of {}",
                self.to.display(to),
                self.from.display(path)
            )),
            true if is_file => show::warn(format_args!(
                "{}: was overwritten, and holds only a part of {}",
                self.to.display(to),
                self.from.display(path)
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
    ///
    /// # Errors
    /// The endpoint refuses.
    pub fn keep(&self, path: &Path, attr: &Attr, to: &Path) -> Result<()> {
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
            self.keep_xattrs(path, attr.kind, to)?;
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

    fn keep_xattrs(&self, path: &Path, kind: FileKind, to: &Path) -> Result<()> {
        let keeps = self.options.preserve;
        let behind = match self.options.follow {
            Follow::Never => path.to_owned(),
            _ if kind == FileKind::Symlink => path.to_owned(),
            _ => self.from.resolve(path)?,
        };
        for (name, value) in self.from.xattrs(&behind)? {
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

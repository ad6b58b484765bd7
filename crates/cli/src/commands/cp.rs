//! `uext4 cp`.

use crate::bar::Bar;
use crate::endpoint::{Endpoint, Found, Host, Overwrite, Sink, Source, Target};
use crate::images::Images;
use crate::location::{InImage, Location};
use crate::{diagnostics, expand, failures, interrupt, show};
use anyhow::{Result, bail};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use uext4::unstable::{Attr, SetAttr};
use uext4::{FileKind, NewKind, Progress, TimeSet};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;
/// The unit in which zeros become holes.
const HOLE_BYTES: usize = 4096;

/// Copy files between the host and images, or within them.
///
/// Files in an image belong to root unless -a keeps the owner. Of pipes and devices the data is copied
/// unless -r or -a is given. A pipe or device that is named as the target is written to. Ctrl-C ends the
/// copy after the piece of data under way, with the image closed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: uext4 cp -a rootfs/. disk.img:/\n         uext4 cp disk.img:/etc/passwd ."
)]
pub struct Args {
    /// Directories and all in them too
    #[arg(short, visible_short_alias = 'R')]
    recursive: bool,
    /// All as it is: -r, and modes, owners, times, attributes, links, devices and holes kept
    #[arg(short)]
    archive: bool,
    /// Replace an image by a file
    #[arg(short, long)]
    force: bool,
    /// Files to copy, then what to copy to: paths, or IMAGE:/path
    #[arg(required = true, num_args = 2..)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let mut paths = args.paths.clone();
    let Some(last) = paths.pop() else {
        return Ok(());
    };
    interrupt::catch()?;
    let mut images = Images::default();
    let copied = copy_all(&args, &mut images, paths, last);
    // What was copied is durable also where the rest was not.
    let closed = images.close();
    copied.and(closed)
}

/// The umask of the process.
fn umask() -> u16 {
    // It can only be read by setting it; no other thread makes files yet.
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    (mask.as_raw_mode() & 0o777) as u16
}

/// A file on its endpoint.
struct Place {
    endpoint: Rc<dyn Endpoint>,
    path: PathBuf,
}

/// The files that an operand names.
fn sources(images: &mut Images, text: OsString) -> Result<Vec<Place>> {
    let at = match Location::parse(text) {
        Location::Host(path) => {
            let endpoint = Rc::new(Host);
            return Ok(vec![Place { endpoint, path }]);
        }
        Location::Image(at) => at,
    };
    let endpoint = images.source(&at.image)?;
    let place = |at: InImage| Place {
        endpoint: Rc::clone(&endpoint),
        path: at.path,
    };
    let found = expand::expand(&*endpoint, &at)?;
    Ok(found.into_iter().map(place).collect())
}

fn copy_all(args: &Args, images: &mut Images, paths: Vec<OsString>, last: OsString) -> Result<()> {
    // What is written is opened first, so that a source in the same image shares its mount.
    let (target, to): (Rc<dyn Target>, PathBuf) = match Location::parse(last) {
        Location::Host(path) => (Rc::new(Host), path),
        Location::Image(at) => (images.target(&at.image)?, at.path),
    };
    let mut from = Vec::new();
    for path in paths {
        match sources(images, path) {
            Ok(places) => from.extend(places),
            Err(e) => failures::report(e)?,
        }
    }
    let there = target.find(&to, true)?;
    let into = there.is_some_and(|f| f.attr.kind == FileKind::Directory);
    if !into && (from.len() > 1 || to.as_os_str().as_bytes().ends_with(b"/")) {
        bail!("{}: not a directory; make it first", target.display(&to));
    }
    let bar = Bar::new();
    bar.phase("copy", 0);
    let mut job = Job {
        archive: args.archive,
        recursive: args.recursive || args.archive,
        force: args.force,
        // On the host the kernel applies it.
        umask: if args.archive || !target.is_image() {
            0
        } else {
            umask()
        },
        to: &*target,
        links: HashMap::new(),
        directories: HashSet::new(),
        buf: vec![0; CHUNK_BYTES],
        bar: &bar,
    };
    for source in from {
        let path = match own_name(&source.path) {
            Some(name) if into => to.join(name),
            _ => to.clone(),
        };
        // Only the destination as the user wrote it may be a link to be followed: anything else may
        // come from an image, which could so lead out of the destination.
        let named = Named {
            source: true,
            target: path == to,
        };
        let copied = job.copy(&*source.endpoint, &source.path, &path, named);
        copied.or_else(failures::report)?;
    }
    Ok(())
}

/// The name that a copy gets in a directory; none for `/`, `.` and what ends in `/.`, of which the content
/// is copied.
fn own_name(path: &Path) -> Option<&OsStr> {
    if path.as_os_str().as_bytes().ends_with(b"/.") {
        return None;
    }
    path.file_name()
}

/// Which paths the user wrote.
#[derive(Clone, Copy)]
struct Named {
    source: bool,
    target: bool,
}

const FOUND: Named = Named {
    source: false,
    target: false,
};

/// A copy under way.
struct Job<'a> {
    archive: bool,
    recursive: bool,
    force: bool,
    /// What modes of new files leave out.
    umask: u16,
    to: &'a dyn Target,
    /// Where files with several names were copied to, by endpoint, device and inode.
    links: HashMap<(usize, u64, u64), PathBuf>,
    /// The directories that were copied: in a damaged image one may be below itself.
    directories: HashSet<(usize, u64)>,
    buf: Vec<u8>,
    bar: &'a Bar,
}

impl Job<'_> {
    /// Copies what is at `path`.
    fn copy(&mut self, from: &dyn Endpoint, path: &Path, to: &Path, named: Named) -> Result<()> {
        interrupt::check()?;
        // Links that the user names are followed unless links are copied as links.
        let follow = named.source && !self.recursive;
        let Some(source) = from.find(path, follow)? else {
            bail!("{}: no such file or directory", from.display(path));
        };
        let there = self.to.find(to, named.target)?;
        if let Some(there) = there
            && from.id() == self.to.id()
            && (there.dev, there.attr.ino) == (source.dev, source.attr.ino)
        {
            bail!(
                "{}: is the same file as {}",
                from.display(path),
                self.to.display(to)
            );
        }
        if source.attr.kind == FileKind::Directory {
            return self.directory(from, path, &source, to, there);
        }
        if there.is_some_and(|t| t.attr.kind == FileKind::Directory) {
            bail!(
                "{}: is a directory, {} is not",
                self.to.display(to),
                from.display(path)
            );
        }
        if named.target && !self.force && !self.to.is_image() && diagnostics::has_magic(to) {
            let name = self.to.display(to);
            bail!("{name}: is an ext4 image; {name}:/ copies into it, --force replaces it");
        }
        let key = (from.id(), source.dev, source.attr.ino);
        let shares = self.archive && source.attr.nlink > 1;
        if shares && let Some(first) = self.links.get(&key) {
            if there.is_some() {
                self.to.remove(to)?;
            }
            return self.to.link(first, to);
        }
        let over = self.make_way(&source.attr, to, there, named.target)?;
        self.file(from, path, &source.attr, to, over)?;
        self.keep(from, path, &source.attr, to)?;
        if shares {
            self.links.insert(key, to.to_owned());
        }
        Ok(())
    }

    fn directory(
        &mut self,
        from: &dyn Endpoint,
        path: &Path,
        source: &Found,
        to: &Path,
        there: Option<Found>,
    ) -> Result<()> {
        if !self.recursive {
            bail!(
                "{}: is a directory; -r copies it with all in it",
                from.display(path)
            );
        }
        if from.id() == self.to.id() && to.starts_with(path) {
            bail!("{}: can't be copied into itself", from.display(path));
        }
        if from.is_image() && !self.directories.insert((from.id(), source.attr.ino)) {
            bail!(
                "{}: damaged: the directory has two names",
                from.display(path)
            );
        }
        match there {
            Some(t) if t.attr.kind == FileKind::Directory => {}
            Some(_) => bail!(
                "{}: is not a directory, {} is",
                self.to.display(to),
                from.display(path)
            ),
            None => self.to.make(
                to,
                (source.attr.mode & !self.umask) | 0o700,
                NewKind::Directory,
            )?,
        }
        for name in from.list(path)? {
            let name = OsStr::from_bytes(&name);
            let copied = self.copy(from, &path.join(name), &to.join(name), FOUND);
            copied.or_else(failures::report)?;
        }
        let mode = source.attr.mode;
        let mode = mode & !self.umask;
        if !self.archive && there.is_none() && mode & 0o700 != 0o700 {
            let change = SetAttr {
                mode: Some(mode & 0o777),
                ..SetAttr::default()
            };
            self.to.set_attr(to, FileKind::Directory, &change)?;
        }
        self.keep(from, path, &source.attr, to)
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
            _ => !self.recursive,
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
            if from.is_image() && attr.kind != FileKind::Regular {
                let (name, kind) = (from.display(path), show::kind(attr.kind));
                bail!("{name}: is a {kind}, which has no data in an image; -a copies it as it is");
            }
            // A pipe without a writer is waited for before anything is cut.
            let source = from.open(path)?;
            let sink = self.to.create(to, attr.mode & 0o777 & !self.umask, over)?;
            return match attr.blocks * 512 < attr.size && sink.can_have_holes() {
                true => self.sparse_data(&*source, &*sink, attr.size),
                false => self.data(&*source, &*sink),
            };
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
        self.to.make(to, attr.mode & !self.umask, kind)
    }

    /// Copies data.
    fn data(&mut self, source: &dyn Source, sink: &dyn Sink) -> Result<()> {
        let mut at = 0;
        loop {
            interrupt::check()?;
            let n = source.read_at(&mut self.buf, at)?;
            if n == 0 {
                return sink.finish(at);
            }
            sink.write_at(&self.buf[..n], at)?;
            at += n as u64;
            self.bar.advance(n as u64);
        }
    }

    /// Copies the data of a file that has holes; blocks of zeros in it become holes too.
    fn sparse_data(&mut self, source: &dyn Source, sink: &dyn Sink, size: u64) -> Result<()> {
        let mut at = 0;
        while let Some(data_at) = source.next_data(at)? {
            interrupt::check()?;
            let n = source.read_at(&mut self.buf, data_at)?;
            if n == 0 {
                break;
            }
            write_sparse(sink, &self.buf[..n], data_at)?;
            self.bar.advance(data_at - at + n as u64);
            at = data_at + n as u64;
        }
        let end = size.max(at);
        self.bar.advance(end - at);
        sink.finish(end)
    }

    /// Gives a copy what `-a` keeps: owner and mode first, as they take attributes away; times last.
    fn keep(&self, from: &dyn Endpoint, path: &Path, attr: &Attr, to: &Path) -> Result<()> {
        if !self.archive {
            return Ok(());
        }
        let owner = SetAttr {
            mode: Some(attr.mode),
            uid: Some(attr.uid),
            gid: Some(attr.gid),
            ..SetAttr::default()
        };
        self.to.set_attr(to, attr.kind, &owner)?;
        for (name, value) in from.xattrs(path)? {
            if !self.to.set_xattr(to, &name, &value)? {
                let (file, name) = (self.to.display(to), String::from_utf8_lossy(&name));
                show::warn(format_args!("warning: {file}: can't keep attribute {name}"));
            }
        }
        let times = SetAttr {
            atime: Some(TimeSet::At(attr.atime)),
            mtime: Some(TimeSet::At(attr.mtime)),
            ..SetAttr::default()
        };
        self.to.set_attr(to, attr.kind, &times)
    }
}

/// Writes `data` but for the blocks of zeros in it.
fn write_sparse(sink: &dyn Sink, data: &[u8], at: u64) -> Result<()> {
    let is_hole = |block: &[u8]| block.iter().all(|b| *b == 0);
    let mut start = 0;
    while start < data.len() {
        let block_end = |from: usize| (from + HOLE_BYTES).min(data.len());
        let hole = is_hole(&data[start..block_end(start)]);
        let mut end = block_end(start);
        while end < data.len() && is_hole(&data[end..block_end(end)]) == hole {
            end = block_end(end);
        }
        if !hole {
            sink.write_at(&data[start..end], at + start as u64)?;
        }
        start = end;
    }
    Ok(())
}

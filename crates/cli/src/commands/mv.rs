//! `uext4 mv`.

use super::cp::{Job, Named, Operands, Options, Report};
use crate::ask::ask;
use crate::bar::Bar;
use crate::commands::destination::Destination;
use crate::diagnostics::Usage;
use crate::endpoint::{Endpoint, Found, Host, Image, Target};
use crate::images::Images;
use crate::location::{InImage, Location};
use crate::system::paths;
use crate::{diagnostics, expand, failures, interrupt, quoted};
use anyhow::{Result, bail};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::{Errno, FileKind, Progress};

/// Move or rename files, within an image or between it and the host
///
/// Between an image and the host, files are copied with all that they have and then removed; what could not be
/// copied stays.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 mv disk.img:/etc/hosts disk.img:/etc/hosts.old
  uext4 mv 'disk.img:/var/log/*' disk.img:/old
  uext4 mv disk.img:/home/ann/report .")]
pub struct Args {
    /// Overwrite without a question, which is so without it too
    #[arg(short, long, overrides_with_all = ["interactive", "no_clobber"])]
    force: bool,
    /// Ask before a file is overwritten
    #[arg(short, long, overrides_with_all = ["force", "no_clobber"])]
    interactive: bool,
    /// Leave files alone that exist
    #[arg(short, long, overrides_with_all = ["force", "interactive"])]
    no_clobber: bool,
    /// Overwrite only files that are older
    #[arg(short, long)]
    update: bool,
    /// Name each file that is moved
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    destination: Destination,
    /// Files to move, then what they become or the directory they are moved to: IMAGE:/path, or paths of the host
    #[arg(required = true, value_name = "FROM> <TO")]
    paths: Vec<OsString>,
}

pub fn run(mut args: Args) -> Result<()> {
    interrupt::catch()?;
    let paths = std::mem::take(&mut args.paths);
    let operands = Operands::new(
        "mv",
        paths,
        args.destination.target_directory.clone(),
        args.destination.no_target_directory,
    )?;
    let mut images = Images::default();
    let moved = move_all(&args, &operands, &mut images);
    let closed = images.close();
    moved.and(closed)
}

/// An endpoint, as it is moved from and to.
#[derive(Clone)]
enum HostOrImage {
    Host(Arc<Host>),
    Image(Arc<Image>),
}

impl HostOrImage {
    fn target(&self) -> &dyn Target {
        match self {
            HostOrImage::Host(host) => &**host,
            HostOrImage::Image(image) => &**image,
        }
    }
}

fn move_all(args: &Args, operands: &Operands, images: &mut Images) -> Result<()> {
    let (from, to) = operands.locations();
    let all_on_host = from.iter().all(|at| matches!(at, Location::Host(_)));
    if all_on_host && matches!(to, Location::Host(_)) {
        bail!(Usage(
            "mv: none of these is in an image; give IMAGE:/path, or use the host's mv".to_owned()
        ));
    }
    let several = from.len() > 1;
    let (endpoint, path) = open(images, to)?;
    let there = endpoint.target().find(&path, true)?;
    let is_dir = there.is_some_and(|f| f.attr.kind == FileKind::Directory);
    let into = is_dir && !args.destination.no_target_directory;
    // All are found before the first is moved: a name that is gone by then would be taken as a pattern.
    let mut found = Vec::new();
    for at in from {
        match sources(images, at) {
            Ok((endpoint, paths)) => {
                found.extend(paths.into_iter().map(|path| (endpoint.clone(), path)));
            }
            Err(e) => failures::report(e)?,
        }
    }
    let needs_dir = several || found.len() > 1 || args.destination.target_directory.is_some();
    if needs_dir && !into {
        let name = endpoint.target().display(&path);
        bail!("{name}: not a directory; several files can only be moved to one, which mkdir makes");
    }
    let bar = Bar::new();
    bar.phase("copy", 0);
    let mut mover = Mover {
        args,
        bar: &bar,
        to: endpoint,
        made: HashSet::new(),
    };
    for (endpoint, source) in found {
        let target = match source.file_name() {
            Some(name) if into => path.join(name),
            _ => path.clone(),
        };
        mover
            .one(&endpoint, &source, &target)
            .or_else(failures::report)?;
    }
    Ok(())
}

fn open(images: &mut Images, at: Location) -> Result<(HostOrImage, PathBuf)> {
    Ok(match at {
        Location::Host(path) => {
            crate::images::check_outside(&path)?;
            (HostOrImage::Host(Arc::new(Host)), path)
        }
        Location::Image(InImage { image, path }) => {
            (HostOrImage::Image(images.get(&image, true)?), path)
        }
    })
}

/// The files that an operand names.
fn sources(images: &mut Images, at: Location) -> Result<(HostOrImage, Vec<PathBuf>)> {
    let named = match &at {
        Location::Image(at) => Some(at.clone()),
        Location::Host(_) => None,
    };
    let (endpoint, path) = open(images, at)?;
    let paths = match (&endpoint, named) {
        (HostOrImage::Image(image), Some(at)) => expand::expand(&**image, &at)?
            .into_iter()
            .map(|at| at.path)
            .collect(),
        _ => vec![path],
    };
    Ok((endpoint, paths))
}

/// The moving of files to one endpoint.
struct Mover<'a> {
    args: &'a Args,
    bar: &'a Bar,
    to: HostOrImage,
    /// The new names that were given.
    made: HashSet<PathBuf>,
}

impl Mover<'_> {
    /// Whether a name of the same file is the same entry, spelled otherwise, of a directory that ignores case.
    fn is_respelled(&self, path: &Path, to: &Path) -> Result<bool> {
        let (Some(dir), Some(name)) = (to.parent(), to.file_name()) else {
            return Ok(false);
        };
        if path.parent() != Some(dir) || path == to {
            return Ok(false);
        }
        let names = self.to.target().list(dir)?;
        Ok(!names.iter().any(|there| *there == *paths::bytes(name)))
    }

    fn one(&mut self, from: &HostOrImage, path: &Path, to: &Path) -> Result<()> {
        interrupt::check()?;
        let (source, target) = (from.target(), self.to.target());
        let name = source.display(path);
        if path.file_name().is_none() || paths::bytes(&path).ends_with(b"/.") {
            bail!("{name}: can't be moved; name a file, or what is in it");
        }
        let found = source.get(path, false)?;
        let there = target.find(to, false)?;
        let kind = there.map(|there| there.attr.kind);
        let is_new = kind.is_none() && found.attr.kind != FileKind::Directory;
        if is_new && paths::bytes(to).ends_with(b"/") {
            bail!("{}: not a directory", target.display(to));
        }
        if self.made.contains(to) {
            let other = target.display(to);
            bail!("{name}: {other} was made just now of another file, and stays");
        }
        let is_same = |there: &Found| {
            source.id() == target.id() && (there.dev, there.attr.ino) == (found.dev, found.attr.ino)
        };
        let respelled = match &there {
            Some(there) if is_same(there) => self.is_respelled(path, to)?,
            _ => false,
        };
        if let Some(there) = there.filter(|_| !respelled) {
            if is_same(&there) {
                bail!("{name}: is the same file as {}", target.display(to));
            }
            if !self.may_replace(&found.attr, &there.attr, to)? {
                return Ok(());
            }
            let (is_dir, was_dir) = (
                found.attr.kind == FileKind::Directory,
                there.attr.kind == FileKind::Directory,
            );
            let other = target.display(to);
            match (is_dir, was_dir) {
                (true, false) => bail!("{other}: is not a directory, {name} is"),
                (false, true) => bail!("{other}: is a directory, {name} is not"),
                (true, true) if !target.list(to)?.is_empty() => {
                    bail!("{other}: is a directory that is not empty, and stays")
                }
                _ => {}
            }
        }
        let moved = match (from, &self.to) {
            (HostOrImage::Image(image), HostOrImage::Image(other)) if image.id() == other.id() => {
                self.rename(image, path, to)
            }
            (HostOrImage::Host(_), HostOrImage::Host(_)) => match std::fs::rename(path, to) {
                Err(e) if e.kind() == ErrorKind::CrossesDevices => {
                    self.across(from, path, to, kind)
                }
                Err(e) => Err(diagnostics::on_host(path, e)),
                Ok(()) => self.renamed(target, path, to),
            },
            _ => self.across(from, path, to, kind),
        };
        self.made.insert(to.to_owned());
        moved
    }

    fn may_replace(
        &self,
        source: &uext4::unstable::Attr,
        there: &uext4::unstable::Attr,
        to: &Path,
    ) -> Result<bool> {
        let age = |attr: &uext4::unstable::Attr| (attr.mtime.sec, attr.mtime.nsec);
        if self.args.no_clobber || (self.args.update && age(there) >= age(source)) {
            return Ok(false);
        }
        let name = quoted::always(self.to.target().display(to));
        Ok(!self.args.interactive || ask(&format!("overwrite {name}"))?)
    }

    /// Moves within an image.
    fn rename(&self, image: &Image, path: &Path, to: &Path) -> Result<()> {
        let fs = image.fs();
        let at = |path: &Path| InImage {
            image: image.image().to_owned(),
            path: path.to_owned(),
        };
        fs.rename(paths::bytes(path), paths::bytes(to))
            .map_err(|e| match e.errno() {
                Errno::EINVAL => anyhow::anyhow!("{}: can't be moved into itself", at(path)),
                Errno::ENOENT => diagnostics::creating(fs, &at(to), e),
                _ => diagnostics::changing(fs, &at(path), e),
            })?;
        self.renamed(image, path, to)
    }

    fn renamed(&self, endpoint: &dyn Endpoint, path: &Path, to: &Path) -> Result<()> {
        if self.args.verbose {
            let (name, other) = (
                quoted::always(endpoint.display(path)),
                quoted::always(endpoint.display(to)),
            );
            writeln!(std::io::stdout(), "renamed {name} -> {other}")?;
        }
        Ok(())
    }

    /// Moves to another endpoint: a copy, then what was copied is removed.
    fn across(
        &self,
        from: &HostOrImage,
        path: &Path,
        to: &Path,
        there: Option<FileKind>,
    ) -> Result<()> {
        let (source, target) = (from.target(), self.to.target());
        if !target.is_image() && diagnostics::has_magic(to) && !self.args.force {
            let name = target.display(to);
            bail!("{name}: is an ext4 image; {name}:/ moves into it, --force replaces it");
        }
        match there {
            Some(FileKind::Directory) => target.remove_dir(to)?,
            Some(_) => target.remove(to)?,
            None => {}
        }
        let options = Options {
            report: match self.args.verbose {
                true => Report::Moves,
                false => Report::Nothing,
            },
            ..Options::to_move()
        };
        let mut job = Job::new(options, target, self.bar);
        let named = Named {
            source: true,
            target: false,
        };
        job.operand(source, path, to, named)?;
        // Durable before the only other copy is removed.
        target.flush()?;
        let Some(copied) = job.all_copied() else {
            let name = source.display(path);
            bail!("{name}: stays, as not all of it could be copied");
        };
        for (path, kind) in copied.iter().rev() {
            interrupt::check()?;
            match kind {
                FileKind::Directory => source.remove_dir(path)?,
                _ => source.remove(path)?,
            }
            if self.args.verbose {
                let what = match kind {
                    FileKind::Directory => "removed directory",
                    _ => "removed",
                };
                let name = quoted::always(source.display(path));
                writeln!(std::io::stdout(), "{what} {name}")?;
            }
        }
        Ok(())
    }
}

//! `uext4 ln`.

use crate::ask::ask;
use crate::commands::destination::Destination;
use crate::endpoint::{Endpoint, Image};
use crate::images::Images;
use crate::location::{InImage, Location};
use crate::system::paths;
use crate::{diagnostics, expand, failures, images, interrupt, quoted};
use anyhow::{Result, bail};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::{Errno, FileKind};

/// Give files another name, or make symbolic links.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 ln -s ../usr/bin disk.img:/bin
  uext4 ln -sf disk.img:/usr/lib/os-release disk.img:/etc/os-release
  uext4 ln disk.img:/bin/busybox disk.img:/bin/sh")]
pub struct Args {
    /// Make symbolic links, which hold TARGET unchanged; of IMAGE:/path the path
    #[arg(short, long)]
    symbolic: bool,
    /// Replace what has the name of the link
    #[arg(short, long, overrides_with = "interactive")]
    force: bool,
    /// Ask before something is replaced
    #[arg(short, long, overrides_with = "force")]
    interactive: bool,
    /// LINK may be a symbolic link to a directory: then it is what is replaced
    #[arg(short, long)]
    no_dereference: bool,
    #[command(flatten)]
    destination: Destination,
    /// With -s, lead from the directory of the link to TARGET
    #[arg(short, long, requires = "symbolic")]
    relative: bool,
    /// Of a symbolic link, link what it leads to
    #[arg(short = 'L', long, overrides_with = "physical")]
    logical: bool,
    /// Of a symbolic link, link the link itself, which is so without it too
    #[arg(short = 'P', long, overrides_with = "logical")]
    physical: bool,
    /// Name each link that is made
    #[arg(short, long)]
    verbose: bool,
    /// The files, each IMAGE:/path or a path in the image of LINK, then the new name or a directory
    #[arg(required = true, value_name = "TARGET> <LINK")]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let mut targets = args.paths.clone();
    let last = match &args.destination.target_directory {
        Some(dir) => Some(dir.clone()),
        None => targets.pop(),
    };
    let Some(last) = last.filter(|_| !targets.is_empty()) else {
        bail!(diagnostics::Usage(
            "ln: name the file, then its new name: TARGET IMAGE:/LINK".to_owned()
        ));
    };
    let link = match Location::parse(last) {
        Location::Image(link) => link,
        Location::Host(path) => return Err(diagnostics::no_file_named(&path)),
    };
    interrupt::catch()?;
    let mut images = Images::default();
    let image = images.get(&link.image, true)?;
    let made = make_all(&args, &image, targets, &link);
    let closed = images.close();
    made.and(closed)
}

fn make_all(args: &Args, image: &Arc<Image>, targets: Vec<OsString>, link: &InImage) -> Result<()> {
    let follow = !args.no_dereference;
    let there = image.find(&link.path, follow)?;
    let is_dir = there.is_some_and(|found| found.attr.kind == FileKind::Directory);
    let into = is_dir && !args.destination.no_target_directory;
    let several = targets.len() > 1;
    // All are found before the first link replaces something.
    let mut found = Vec::new();
    for target in targets {
        match paths_of(args, image, link, target) {
            Ok(paths) => found.extend(paths),
            Err(e) => failures::report(e)?,
        }
    }
    let needs_dir = several || found.len() > 1 || args.destination.target_directory.is_some();
    if needs_dir && !into {
        bail!("{link}: is not a directory; several links can only be made in one");
    }
    for target in found {
        interrupt::check()?;
        let path = match target.file_name() {
            Some(name) if into => link.path.join(name),
            _ => link.path.clone(),
        };
        make(args, image, &target, &link.beside(&path)).or_else(failures::report)?;
    }
    Ok(())
}

/// The paths that links to TARGET hold or name.
fn paths_of(
    args: &Args,
    image: &Arc<Image>,
    link: &InImage,
    target: OsString,
) -> Result<Vec<PathBuf>> {
    let of_link = |at: &InImage| images::is_same(&at.image, &link.image);
    match Location::parse(target.clone()) {
        Location::Image(at) if of_link(&at) => {
            let found = expand::expand(&**image, &at)?;
            Ok(found.into_iter().map(|at| at.path).collect())
        }
        Location::Image(at) if !args.symbolic => bail!(
            "{at}: is not in {}; only a symbolic link could lead there",
            link.image.display()
        ),
        Location::Host(path)
            if !args.symbolic && path.exists() && image.find(&path, false)?.is_none() =>
        {
            let (name, to) = (quoted::path(&path), quoted::quoted(link.to_string()));
            bail!(
                "{}: is a file of the host, to which no link leads; `uext4 cp {name} {to}` copies it",
                path.display()
            )
        }
        _ => Ok(vec![PathBuf::from(target)]),
    }
}

fn make(args: &Args, image: &Arc<Image>, target: &Path, link: &InImage) -> Result<()> {
    let fs = image.fs();
    let there = image.find(&link.path, false)?;
    if let Some(there) = there {
        let name = quoted::always(link.to_string());
        let replaces = args.force || (args.interactive && ask(&format!("replace {name}"))?);
        if !replaces && args.interactive {
            return Ok(());
        }
        if !replaces {
            bail!("{link}: exists; -f replaces it");
        }
        if there.attr.kind == FileKind::Directory {
            bail!("{link}: is a directory, which a link does not replace");
        }
        if !args.symbolic {
            let same = image.get(target, args.logical)?;
            let is_itself = target.file_name() == link.path.file_name()
                && image.real(above(target))? == image.real(above(&link.path))?;
            if is_itself && same.attr.ino == there.attr.ino {
                bail!("{link}: is the file itself; give the link another name");
            }
        }
        fs.remove_file(paths::bytes(&link.path))
            .map_err(|e| diagnostics::changing(fs, link, e))?;
    }
    let fail = |e| diagnostics::creating(fs, link, e);
    let (held, arrow) = if args.symbolic {
        let held = match args.relative {
            true => relative(image, target, &link.path)?,
            false => target.to_owned(),
        };
        fs.symlink(paths::bytes(&held), paths::bytes(&link.path))
            .map_err(fail)?;
        (paths::shown(&held).to_string(), "->")
    } else {
        let original = match args.logical {
            true => image.resolve(target)?,
            false => target.to_owned(),
        };
        let of = link.beside(&original);
        match image.get(&original, false)?.attr.kind {
            FileKind::Directory => {
                bail!("{of}: is a directory, which has only one name; -s makes a symbolic link")
            }
            _ => fs
                .hard_link(paths::bytes(&original), paths::bytes(&link.path))
                .map_err(|e| match e.errno() {
                    // Of the file that gets another name.
                    Errno::EPERM => diagnostics::changing(fs, &of, e),
                    _ => fail(e),
                })?,
        }
        (of.to_string(), "=>")
    };
    if args.verbose {
        let (name, held) = (quoted::always(link.to_string()), quoted::always(held));
        writeln!(std::io::stdout(), "{name} {arrow} {held}")?;
    }
    Ok(())
}

fn above(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// The path from the directory of `link` to `target`.
fn relative(image: &Image, target: &Path, link: &Path) -> Result<PathBuf> {
    let (from, to) = (image.real(above(link))?, image.real(target)?);
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let mut path: PathBuf = from.components().skip(shared).map(|_| "..").collect();
    path.extend(to.components().skip(shared));
    match path.as_os_str().is_empty() {
        true => Ok(PathBuf::from(".")),
        false => Ok(path),
    }
}

//! Which files are copied, and where each one goes.

use super::options::Options;
use super::stdin;
use super::total::Counting;
use super::walk::Named;
use crate::bar::Bar;
use crate::diagnostics::Usage;
use crate::endpoint::{Endpoint, Host, STDIN, STDOUT, Target};
use crate::images::Images;
use crate::location::{InImage, Location};
use crate::quoted::quoted;
use crate::system::paths;
use crate::{diagnostics, expand, failures};
use anyhow::{Result, anyhow, bail};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::{FileKind, Progress};

/// The operands as they were given.
pub struct Operands {
    sources: Vec<OsString>,
    target: OsString,
    /// Whether the target is a directory that is copied into; unknown if it may be one.
    into: Option<bool>,
}

/// A file on its endpoint.
pub struct Place {
    /// What has it.
    pub endpoint: Arc<dyn Endpoint>,
    /// Its path there.
    pub path: PathBuf,
    /// It was named as `-`: what is read has no mode.
    pub is_stdin: bool,
}

/// What goes where.
pub struct Plan {
    /// The files to copy.
    pub sources: Vec<Place>,
    /// What they are copied to.
    pub target: Arc<dyn Target>,
    to: PathBuf,
    /// They get their own names in the directory `to`.
    into: bool,
}

impl Operands {
    /// The last path is the target, unless a directory is named.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn new(
        command: &str,
        mut paths: Vec<OsString>,
        directory: Option<OsString>,
        is_name: bool,
    ) -> Result<Operands> {
        let into = match (&directory, is_name) {
            (Some(_), _) => Some(true),
            (None, true) => Some(false),
            (None, false) => None,
        };
        let Some(target) = directory.or_else(|| paths.pop()) else {
            bail!(Usage(format!("{command}: names no files")));
        };
        if paths.is_empty() {
            let target = target.to_string_lossy().into_owned();
            bail!(Usage(format!(
                "{command}: only {target} is named; name the files, then what they become"
            )));
        }
        if is_name && paths.len() > 1 {
            bail!(Usage(format!(
                "{command}: with -T, name one file and what it becomes"
            )));
        }
        Ok(Operands {
            sources: paths,
            target,
            into,
        })
    }

    /// The files, and what they become.
    pub fn locations(&self) -> (Vec<Location>, Location) {
        let from = self.sources.iter().cloned().map(Location::parse);
        (from.collect(), Location::parse(self.target.clone()))
    }
}

/// Opens what is named. Sources that are not there are reported.
///
/// # Errors
/// The target can't be one.
pub fn plan(operands: Operands, images: &mut Images) -> Result<Plan> {
    let reads_stdin = operands
        .sources
        .iter()
        .any(|path| path == "-" || path == STDIN);
    // What is written is opened first, so that a source in the same image shares its mount.
    let (target, to): (Arc<dyn Target>, PathBuf) = match Location::parse(operands.target) {
        Location::Image(at) if reads_stdin => (stdin::open_target(images, &at.image)?, at.path),
        Location::Host(path) => {
            crate::images::check_outside(&path)?;
            let is_stdout = path == Path::new("-");
            let path = if is_stdout { STDOUT.into() } else { path };
            (Arc::new(Host), path)
        }
        Location::Image(at) => (images.target(&at.image)?, at.path),
    };
    let mut sources = Vec::new();
    for path in operands.sources {
        match places(images, path) {
            Ok(places) => sources.extend(places),
            Err(e) => failures::report(e)?,
        }
    }
    let found = target.find(&to, true)?;
    let from_image = sources.iter().any(|source| source.endpoint.is_image());
    if !target.is_image() && !from_image && found.is_none() {
        diagnostics::no_image_meant(&to)?;
    }
    let is_dir = found.is_some_and(|f| f.attr.kind == FileKind::Directory);
    let into = is_dir && operands.into != Some(false);
    let needs_dir = sources.len() > 1 || paths::bytes(&to).ends_with(b"/");
    if !into && (operands.into == Some(true) || (needs_dir && !is_dir)) {
        // A directory may be copied to a new name that ends with a slash.
        let one_dir = sources.len() == 1
            && operands.into.is_none()
            && found.is_none()
            && sources[0].is_directory();
        if !one_dir {
            return Err(no_directory(&*target, &to, found.is_some()));
        }
    }
    Ok(Plan {
        sources,
        target,
        to,
        into,
    })
}

/// That there is no directory to copy into.
fn no_directory(target: &dyn Target, to: &Path, exists: bool) -> anyhow::Error {
    let name = target.display(to);
    if exists {
        let hint = match !target.is_image() && diagnostics::has_magic(to) {
            true => format!("; {}:/ is the root of the image", quoted(&name)),
            false => String::new(),
        };
        return anyhow!("{name}: is not a directory, which several files would need{hint}");
    }
    let program = if target.is_image() { "uext4 " } else { "" };
    let hint = quoted(&name);
    anyhow!("{name}: no such directory; `{program}mkdir -p {hint}` makes it")
}

/// The files that an operand names.
fn places(images: &mut Images, text: OsString) -> Result<Vec<Place>> {
    let host = |path, is_stdin| {
        vec![Place {
            endpoint: Arc::new(Host),
            path,
            is_stdin,
        }]
    };
    if text == "-" {
        return Ok(host(PathBuf::from(STDIN), true));
    }
    let at = match Location::parse(text) {
        Location::Host(path) => return Ok(host(path, false)),
        Location::Image(at) => at,
    };
    let endpoint = images.source(&at.image)?;
    let place = |at: InImage| Place {
        endpoint: Arc::clone(&endpoint),
        path: at.path,
        is_stdin: false,
    };
    let found = expand::expand(&*endpoint, &at)?;
    Ok(found.into_iter().map(place).collect())
}

impl Place {
    fn is_directory(&self) -> bool {
        let found = self.endpoint.find(&self.path, false).ok().flatten();
        found.is_some_and(|found| found.attr.kind == FileKind::Directory)
    }
}

impl Plan {
    /// Starts the bar; with a total where that is known, else trees are counted while they are copied.
    pub fn begin(&self, bar: &Bar, options: &Options) -> Option<Counting> {
        let size = |place: &Place| {
            let found = place
                .endpoint
                .find(&place.path, !options.recursive)
                .ok()??;
            (found.attr.kind == FileKind::Regular).then_some(found.attr.size)
        };
        let total: Option<u64> = self.sources.iter().map(size).sum();
        bar.phase("copy", total.unwrap_or(0));
        let counts = total.is_none() && options.recursive;
        let place = |place: &Place| (Arc::clone(&place.endpoint), place.path.clone());
        counts.then(|| Counting::begin(self.sources.iter().map(place).collect(), bar))
    }

    /// The name that a copy gets, and which names the user wrote.
    ///
    /// # Errors
    /// One that ends the command.
    pub fn destination(&self, source: &Place) -> Result<(PathBuf, Named)> {
        let name = own_name(&source.path).filter(|_| self.into);
        if source.is_stdin && self.into {
            let to = self.target.display(&self.to);
            bail!("{to}: is a directory; give what is read a name in it");
        }
        let path = name.map_or_else(|| self.to.clone(), |name| self.to.join(name));
        // Only the destination as the user wrote it may be a link to be followed: anything else may
        // be from an image, which could so lead out of the destination.
        let named = Named {
            source: true,
            target: path == self.to,
        };
        Ok((path, named))
    }
}

/// The name that a copy gets in a directory; none for `/`, `.` and what ends in `/.`, of which the content
/// is copied.
fn own_name(path: &Path) -> Option<&OsStr> {
    if paths::bytes(path).ends_with(b"/.") {
        return None;
    }
    path.file_name()
}

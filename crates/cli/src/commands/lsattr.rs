//! `uext4 lsattr`.

use crate::endpoint::Endpoint;
use crate::endpoint::Image;
use crate::images::Images;
use crate::location::{InImage, Naming};
use crate::system::paths;
use crate::{chattr_flags, expand, failures, interrupt, show};
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use uext4::FileKind;
use uext4::unstable::Attr;

/// List the flags of files, as chattr sets them
///
/// Of a directory, those of the files in it.
/// Only files and directories have flags that can be set; --json has those of the others too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 lsattr disk.img:/etc
  uext4 lsattr -d disk.img:/var/log disk.img:/tmp
  uext4 lsattr -R disk.img:/ | grep '^....i'     files that cannot be changed")]
pub struct Args {
    /// Directories themselves, not the files in them
    #[arg(short)]
    directory: bool,
    /// Names that start with a dot too
    #[arg(short)]
    all: bool,
    /// All below directories too
    #[arg(short = 'R')]
    recursive: bool,
    /// The project too
    #[arg(short)]
    project: bool,
    /// The generation too
    #[arg(short = 'v')]
    generation: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// What lsattr(1) lists of each file, and of directories.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Directories themselves.
    pub directory: bool,
    /// Names that start with a dot.
    pub all: bool,
    /// All below directories.
    pub recursive: bool,
    /// The project.
    pub project: bool,
    /// The generation.
    pub generation: bool,
}

impl Args {
    /// What lsattr(1) asks for.
    pub fn of(shown: Shown, paths: Vec<OsString>) -> Args {
        Args {
            directory: shown.directory,
            all: shown.all,
            recursive: shown.recursive,
            project: shown.project,
            generation: shown.generation,
            json: false,
            paths,
        }
    }
}

/// A file as JSON has it.
#[derive(Serialize)]
struct FlagsJson {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_bytes: Option<String>,
    flags: Vec<&'static str>,
    project: u32,
}

struct List<'a, W> {
    args: &'a Args,
    naming: Naming,
    json: Vec<FlagsJson>,
    out: W,
}

pub fn run(args: Args) -> Result<()> {
    let mut list = List {
        args: &args,
        naming: Naming::of(&args.paths, args.json),
        json: Vec::new(),
        out: BufWriter::new(std::io::stdout().lock()),
    };
    let mut images = Images::default();
    for path in &args.paths {
        let at = InImage::parse(path.clone());
        let done = images.get(&at.image, false).and_then(|image| {
            for at in expand::expand(&*image, &at)? {
                list.operand(&image, &at).or_else(failures::report)?;
            }
            Ok(())
        });
        done.or_else(failures::report)?;
    }
    list.out.flush()?;
    if args.json {
        drop(list.out);
        show::json(&list.json)?;
    }
    images.close()
}

impl<W: Write> List<'_, W> {
    fn operand(&mut self, image: &Image, at: &InImage) -> Result<()> {
        let attr = image.get(&at.path, false)?.attr;
        if attr.kind == FileKind::Directory && !self.args.directory {
            return self.directory(image, &at.path);
        }
        if !has_flags(&attr) && !self.args.json {
            bail!("{at}: only files and directories have flags");
        }
        self.show(image, &at.path, &attr)
    }

    /// Lists a directory, and with -R each directory in it after its own line.
    fn directory(&mut self, image: &Image, start: &Path) -> Result<()> {
        // Directories to read, and the lines that end one.
        let mut stack: Vec<(PathBuf, Option<Attr>)> = Vec::new();
        let mut entered = HashSet::new();
        self.enter(image, start, &mut stack)?;
        while let Some((path, attr)) = stack.pop() {
            interrupt::check()?;
            let Some(attr) = attr else {
                if !self.args.json {
                    self.out.write_all(b"\n")?;
                }
                continue;
            };
            let is_itself = path.ends_with("..") || paths::bytes(&path).ends_with(b"/.");
            let done = self.show(image, &path, &attr).and_then(|()| {
                let descends =
                    self.args.recursive && attr.kind == FileKind::Directory && !is_itself;
                // In a damaged image a directory may be below itself.
                if !descends || !entered.insert(attr.ino) {
                    return Ok(());
                }
                if !self.args.json {
                    self.out.write_all(b"\n")?;
                    self.out
                        .write_all(&show::name(&self.naming.name(image.image(), &path)))?;
                    self.out.write_all(b":\n")?;
                }
                stack.push((PathBuf::new(), None));
                self.enter(image, &path, &mut stack)
            });
            done.or_else(failures::report)?;
        }
        Ok(())
    }

    /// Puts the files of a directory on the stack.
    fn enter(
        &self,
        image: &Image,
        dir: &Path,
        stack: &mut Vec<(PathBuf, Option<Attr>)>,
    ) -> Result<()> {
        let mut names = image.list(dir)?;
        if self.args.all {
            names.extend([b".".to_vec(), b"..".to_vec()]);
            names.sort();
        }
        let shown = |name: &&Vec<u8>| self.args.all || self.args.json || !name.starts_with(b".");
        for name in names.iter().filter(shown).rev() {
            let mut path = paths::bytes(dir).into_owned();
            if !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let path = paths::path_buf(path);
            match image.get(&path, false) {
                Ok(found) if self.args.json || has_flags(&found.attr) => {
                    stack.push((path, Some(found.attr)));
                }
                Ok(_) => {}
                Err(e) => failures::report(e)?,
            }
        }
        Ok(())
    }

    fn show(&mut self, image: &Image, path: &Path, attr: &Attr) -> Result<()> {
        let flags = image
            .fs()
            .flags(paths::bytes(path))
            .map_err(|e| image.fail(path, e))?;
        let project = image
            .fs()
            .project(paths::bytes(path))
            .map_err(|e| image.fail(path, e))?;
        let name = self.naming.name(image.image(), path);
        if self.args.json {
            self.json.push(FlagsJson {
                name: String::from_utf8_lossy(&name).into_owned(),
                name_bytes: show::hex_unless_text(&name),
                flags: chattr_flags::words(flags),
                project,
            });
            return Ok(());
        }
        if self.args.project {
            write!(self.out, "{project:5} ")?;
        }
        if self.args.generation {
            write!(self.out, "{:<10} ", attr.generation)?;
        }
        write!(self.out, "{} ", chattr_flags::column(flags))?;
        self.out.write_all(&show::name(&name))?;
        Ok(self.out.write_all(b"\n")?)
    }
}

fn has_flags(attr: &Attr) -> bool {
    matches!(attr.kind, FileKind::Regular | FileKind::Directory)
}

//! `uext4 tree`.

use crate::colors::{self, Colors};
use crate::endpoint::Endpoint;
use crate::images::Images;
use crate::location::{InImage, Naming};
use crate::system::paths;
use crate::{failures, interrupt, show};
use anyhow::{Result, anyhow};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use uext4::FileKind;
use uext4::unstable::Attr;

/// Show directories and all below them as a tree, as tree(1) does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 tree disk.img:/etc
  uext4 tree -L 2 -d disk.img:/      directories, two levels
  uext4 tree -a disk.img:/home disk.img:/root")]
pub struct Args {
    /// Names that start with a dot too
    #[arg(short)]
    all: bool,
    /// Directories only
    #[arg(short)]
    directories: bool,
    /// Down to this many levels
    #[arg(short = 'L', value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..))]
    levels: Option<u32>,
    /// Names with the path before them
    #[arg(short = 'f')]
    full: bool,
    /// Names in the colours of LS_COLORS also where standard output is not a terminal
    #[arg(short = 'C', overrides_with = "no_color")]
    color: bool,
    /// No colours
    #[arg(short = 'n', overrides_with = "color")]
    no_color: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    path: show::PathJson,
    #[serde(rename = "type")]
    kind: &'static str,
    size: u64,
}

/// A file of the tree.
struct File {
    path: PathBuf,
    attr: Attr,
    /// What stands before it and before what is in it.
    indent: String,
    is_last: bool,
    depth: u32,
}

struct Trees<'a, W> {
    args: &'a Args,
    colors: Colors,
    naming: Naming,
    directories: u64,
    others: u64,
    json: Vec<Json>,
    out: W,
}

pub fn run(args: Args) -> Result<()> {
    let mut images = Images::default();
    let operands = images.operands(args.paths.clone())?;
    let mut trees = Trees {
        args: &args,
        colors: Colors::new(match (args.color, args.no_color) {
            (true, _) => colors::When::Always,
            (_, true) => colors::When::Never,
            _ => colors::When::Auto,
        }),
        naming: Naming::of(&args.paths, args.json),
        directories: 0,
        others: 0,
        json: Vec::new(),
        out: BufWriter::new(std::io::stdout().lock()),
    };
    for (endpoint, at) in &operands {
        trees.draw(&**endpoint, at).or_else(failures::report)?;
    }
    trees.finish()?;
    drop(operands);
    images.close()
}

impl<W: Write> Trees<'_, W> {
    fn draw(&mut self, endpoint: &dyn Endpoint, at: &InImage) -> Result<()> {
        let mut stack = vec![File {
            path: at.path.clone(),
            attr: endpoint.get(&at.path, true)?.attr,
            indent: String::new(),
            is_last: true,
            depth: 0,
        }];
        // In a damaged image a directory may be below itself.
        let mut entered = HashSet::new();
        while let Some(file) = stack.pop() {
            interrupt::check()?;
            self.show(endpoint, at, &file)?;
            let is_deepest = self.args.levels.is_some_and(|most| file.depth >= most);
            if file.attr.kind != FileKind::Directory || is_deepest {
                continue;
            }
            let below = if entered.insert(file.attr.ino) {
                self.below(endpoint, &file)
            } else {
                let (name, ino) = (endpoint.display(&file.path), file.attr.ino);
                Err(anyhow!("{name}: damaged: directory {ino} has two names"))
            };
            match below {
                Ok(below) => {
                    // As tree(1), which counts the start if there is something in it.
                    self.directories += u64::from(file.depth == 0 && !below.is_empty());
                    stack.extend(below.into_iter().rev());
                }
                Err(e) => failures::report(e)?,
            }
        }
        Ok(())
    }

    /// The files of a directory that are shown.
    fn below(&self, endpoint: &dyn Endpoint, dir: &File) -> Result<Vec<File>> {
        let mut files: Vec<File> = Vec::new();
        let branch = match (dir.depth, dir.is_last) {
            (0, _) => "",
            (_, true) => "    ",
            (_, false) => "│   ",
        };
        for name in endpoint.list(&dir.path)? {
            if name.starts_with(b".") && !self.args.all {
                continue;
            }
            let path = dir.path.join(paths::path(&name));
            let attr = match endpoint.get(&path, false) {
                Ok(found) => found.attr,
                Err(e) => {
                    failures::report(e)?;
                    continue;
                }
            };
            let leads_to = || endpoint.find(&path, true).ok().flatten();
            let is_directory = attr.kind == FileKind::Directory
                || (attr.kind == FileKind::Symlink
                    && leads_to().is_some_and(|found| found.attr.kind == FileKind::Directory));
            if is_directory || !self.args.directories {
                files.push(File {
                    path,
                    attr,
                    indent: format!("{}{branch}", dir.indent),
                    is_last: false,
                    depth: dir.depth + 1,
                });
            }
        }
        if let Some(last) = files.last_mut() {
            last.is_last = true;
        }
        Ok(files)
    }

    fn show(&mut self, endpoint: &dyn Endpoint, at: &InImage, file: &File) -> Result<()> {
        let path = self.naming.name(&at.image, &file.path);
        if self.args.json {
            self.json.push(Json {
                path: show::PathJson::new(&path),
                kind: show::kind(file.attr.kind),
                size: file.attr.size,
            });
            return Ok(());
        }
        let (out, colors) = (&mut self.out, &self.colors);
        out.write_all(file.indent.as_bytes())?;
        let mut name = Cow::Borrowed(&*path);
        if file.depth > 0 {
            let branch = if file.is_last {
                "└── "
            } else {
                "├── "
            };
            out.write_all(branch.as_bytes())?;
            if !self.args.full {
                name = file.path.file_name().map_or(name, paths::bytes);
            }
        }
        let paint =
            |name, attr, leads_to| colors.paint(show::name(name), attr, leads_to).into_owned();
        let mut attr = Some(file.attr);
        if file.attr.kind == FileKind::Symlink {
            attr = endpoint
                .find(&file.path, true)
                .ok()
                .flatten()
                .map(|f| f.attr);
            let target = endpoint.read_link(&file.path)?;
            let leads_to = attr.as_ref();
            out.write_all(&paint(&name, Some(&file.attr), leads_to))?;
            out.write_all(b" -> ")?;
            let of = leads_to.or(Some(&file.attr));
            out.write_all(&paint(&target, of, leads_to))?;
        } else {
            out.write_all(&paint(&name, attr.as_ref(), None))?;
        }
        let is_directory = attr.is_some_and(|attr| attr.kind == FileKind::Directory);
        out.write_all(b"\n")?;
        match is_directory {
            true => self.directories += u64::from(file.depth > 0),
            false => self.others += 1,
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if self.args.json {
            drop(self.out);
            return show::json(&self.json);
        }
        let directories = show::count(self.directories, "directory", "directories");
        let files = match self.args.directories {
            true => String::new(),
            false => format!(", {}", show::count(self.others, "file", "files")),
        };
        writeln!(self.out, "\n{directories}{files}")?;
        Ok(self.out.flush()?)
    }
}

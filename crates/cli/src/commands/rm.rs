//! `uext4 rm`.

use crate::ask::ask;
use crate::bar::Bar;
use crate::endpoint::Image;
use crate::location::InImage;
use crate::system::paths;
use crate::{failures, images, interrupt, quoted, show};
use anyhow::{Result, bail};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use uext4::{Dir, DirEntry, Errno, FileKind, Progress};

/// Remove files, and with -r directories
///
/// Names in the image may be patterns, quoted for the shell. Ctrl-C ends it after the file under way; what was
/// removed stays removed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 rm disk.img:/etc/hosts.old
  uext4 rm -r 'disk.img:/var/cache/*'
  uext4 rm -rfv disk.img:/usr/share/doc")]
pub struct Args {
    /// Directories and all in them too
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// What does not exist is not an error; no questions
    #[arg(short, long, overrides_with_all = ["interactive", "once"])]
    force: bool,
    /// Empty directories too
    #[arg(short, long)]
    dir: bool,
    /// Name each file that is removed
    #[arg(short, long)]
    verbose: bool,
    /// Ask before each file
    #[arg(short, overrides_with_all = ["force", "once"])]
    interactive: bool,
    /// Ask once before more than three files, or a directory with all in it
    #[arg(short = 'I', overrides_with_all = ["force", "interactive"])]
    once: bool,
    /// Accepted, as an image is one file system
    #[arg(long)]
    one_file_system: bool,
    #[arg(long, hide = true)]
    preserve_root: bool,
    /// IMAGE:/path
    #[arg(required_unless_present = "force")]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let count = args.paths.len();
    if args.once && (args.recursive || count > 3) {
        let noun = if count == 1 { "argument" } else { "arguments" };
        let how = if args.recursive { " recursively" } else { "" };
        if !ask(&format!("remove {count} {noun}{how}"))? {
            return Ok(());
        }
    }
    let paths = args.paths.clone();
    let bar = Bar::new();
    bar.phase("remove", 0);
    images::change_each(paths, |fs, at| {
        let image = Image::new(1, at.image.clone(), fs.clone());
        Removal {
            args: &args,
            image: &image,
            bar: &bar,
            met: HashSet::new(),
        }
        .operand(at)
    })
}

/// The removal of an operand.
struct Removal<'a> {
    args: &'a Args,
    image: &'a Image,
    bar: &'a Bar,
    /// The directories that were met: in a damaged image one may be below itself.
    met: HashSet<u64>,
}

/// A directory that is being emptied.
struct Level {
    dir: Dir,
    path: PathBuf,
    /// What is left, the next one last.
    names: Vec<Vec<u8>>,
    /// Something in it stays.
    stays: bool,
}

impl Removal<'_> {
    fn operand(&mut self, at: &InImage) -> Result<()> {
        let last = paths::bytes(&at.path);
        if last.ends_with(b"/.") || last.ends_with(b"/..") {
            bail!("{at}: `.` and `..` can't be removed; name the directory, or what is in it");
        }
        if at.path.file_name().is_none() {
            bail!("{at}: the root can't be removed; name what is in it");
        }
        let fs = self.image.fs();
        let attr = match fs.symlink_metadata(paths::bytes(&at.path)) {
            Ok(attr) => attr,
            Err(e) if self.args.force && (e == Errno::ENOENT || e == Errno::ENOTDIR) => {
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        };
        if attr.kind == FileKind::Directory && self.args.recursive {
            return self.tree(&at.path, attr.ino);
        }
        if attr.kind == FileKind::Directory && !self.args.dir {
            bail!("{at}: is a directory; -r removes it with all in it");
        }
        if !self.may(&at.path, attr.kind)? {
            return Ok(());
        }
        match attr.kind {
            FileKind::Directory => fs.remove_dir(paths::bytes(&at.path))?,
            _ => fs.remove_file(paths::bytes(&at.path))?,
        }
        self.removed(&at.path, attr.kind)
    }

    /// Removes a directory and all in it; on a stack of its own, as trees may be deep. What can't be removed is reported and
    /// stays, with the directories above it.
    fn tree(&mut self, top: &Path, ino: u64) -> Result<()> {
        let dir = self.image.fs().open_dir(paths::bytes(top))?;
        let mut stack: Vec<Level> = self.enter(dir, top.to_owned(), ino)?.into_iter().collect();
        while let Some(level) = stack.last_mut() {
            interrupt::check()?;
            if let Some(name) = level.names.pop() {
                match self.child(level, &name) {
                    Ok(below) => stack.extend(below),
                    Err(e) => {
                        level.stays = true;
                        failures::report(e)?;
                    }
                }
                continue;
            }
            let Some(emptied) = stack.pop() else { break };
            let above = stack.last_mut();
            let removed = match emptied.stays {
                true => Ok(false),
                false => self.emptied(&emptied.path, above.as_ref().map(|level| &level.dir)),
            };
            let stays = !matches!(removed, Ok(true));
            if let Some(above) = above {
                above.stays |= stays;
            }
            removed.map(drop).or_else(failures::report)?;
        }
        Ok(())
    }

    /// Removes a file of a directory; of a directory in it, what is to be emptied first.
    fn child(&mut self, level: &mut Level, name: &[u8]) -> Result<Option<Level>> {
        let path = level.path.join(paths::path(name));
        let fail = |e| self.image.fail(&path, e);
        let attr = level.dir.metadata(name).map_err(fail)?;
        if attr.kind == FileKind::Directory {
            let dir = level.dir.open_dir(name).map_err(fail)?;
            let below = self.enter(dir, path, attr.ino)?;
            level.stays |= below.is_none();
            return Ok(below);
        }
        if !self.may(&path, attr.kind)? {
            level.stays = true;
            return Ok(None);
        }
        level.dir.unlink(name).map_err(fail)?;
        self.removed(&path, attr.kind)?;
        Ok(None)
    }

    /// A directory that is to be emptied; none if the user keeps it.
    fn enter(&mut self, dir: Dir, path: PathBuf, ino: u64) -> Result<Option<Level>> {
        let fail = |e| self.image.fail(&path, e);
        if !self.met.insert(ino) {
            let name = self.display(&path);
            bail!("{name}: damaged: directory {ino} has two names");
        }
        let entries = dir.read_dir().map_err(fail)?;
        let names = entries.map(|entry| entry.map(DirEntry::into_name));
        let mut names: Vec<_> = names.collect::<uext4::Result<_>>().map_err(fail)?;
        names.sort_by(|a, b| b.cmp(a));
        if self.args.interactive && !names.is_empty() {
            let name = quoted::always(self.display(&path));
            if !ask(&format!("descend into directory {name}"))? {
                return Ok(None);
            }
        }
        Ok(Some(Level {
            dir,
            path,
            names,
            stays: false,
        }))
    }

    /// Removes a directory that is empty now, from the one above it; false if the user keeps it.
    fn emptied(&self, path: &Path, above: Option<&Dir>) -> Result<bool> {
        if !self.may(path, FileKind::Directory)? {
            return Ok(false);
        }
        let removed = match (above, path.file_name()) {
            (Some(above), Some(name)) => above.rmdir(paths::bytes(name)),
            _ => self.image.fs().remove_dir(paths::bytes(path)),
        };
        removed.map_err(|e| self.image.fail(path, e))?;
        self.removed(path, FileKind::Directory)?;
        Ok(true)
    }

    /// Whether it may be removed; asks if it is to be asked.
    fn may(&self, path: &Path, kind: FileKind) -> Result<bool> {
        if !self.args.interactive {
            return Ok(true);
        }
        let (kind, name) = (show::kind(kind), quoted::always(self.display(path)));
        ask(&format!("remove {kind} {name}"))
    }

    fn removed(&self, path: &Path, kind: FileKind) -> Result<()> {
        self.bar.advance(1);
        if self.args.verbose {
            let what = match kind {
                FileKind::Directory => "removed directory",
                _ => "removed",
            };
            let name = quoted::always(self.display(path));
            writeln!(std::io::stdout(), "{what} {name}")?;
        }
        Ok(())
    }

    fn display(&self, path: &Path) -> String {
        use crate::endpoint::Endpoint;
        self.image.display(path)
    }
}

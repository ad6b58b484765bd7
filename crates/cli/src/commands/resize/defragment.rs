//! Files whose blocks are put together.

use super::Args;
use crate::bar::Bar;
use crate::commands::walk::{Met, Next, walk};
use crate::endpoint::Image;
use crate::system::paths;
use crate::{diagnostics, images, interrupt, show};
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use uext4::{Errno, FileKind, Filesystem, Progress};

/// What stands for the whole image.
const ALL: &str = "all";

/// What was done, as JSON has it.
#[derive(Debug, Default, Serialize)]
struct Done {
    /// Files that were met.
    files: u64,
    /// Of these the ones that were moved.
    moved: u64,
    /// Of these the ones that can't be.
    left: u64,
    /// Why the first of those can't.
    #[serde(skip)]
    why: Option<uext4::Error>,
    pieces_before: usize,
    pieces_after: usize,
}

pub fn run(args: &Args, path: &Path) -> Result<()> {
    interrupt::catch()?;
    let start = match path == Path::new(ALL) {
        true => Path::new("/"),
        false => path,
    };
    let fs = images::open(&args.image, true)?;
    let image = Image::new(1, args.image.clone(), fs.clone());
    let bar = Bar::unless(args.quiet || args.json);
    let used = fs
        .statfs()
        .map(|stat| stat.inodes.saturating_sub(stat.inodes_free));
    bar.phase("defragment", used.unwrap_or(0));
    let (mut done, mut seen) = (Done::default(), HashSet::new());
    let walked = walk(&image, start, false, |met| {
        bar.advance(1);
        // A file with several names is moved once.
        if met.attr.kind == FileKind::Regular && (met.attr.nlink < 2 || seen.insert(met.attr.ino)) {
            done.put_together(&fs, &image, met)?;
        }
        Ok(Next::Descend)
    });
    drop((bar, image));
    let closed = fs.unmount();
    walked?;
    closed.map_err(|e| diagnostics::opening(&args.image, &e))?;
    if let Some(why) = done.why.take_if(|_| done.left == done.files) {
        bail!("{}: no file can be moved: {why}", args.image.display());
    }
    if args.json {
        return show::json(&done);
    }
    if !args.quiet {
        writeln!(std::io::stdout(), "{}: {done}", show::image(&args.image))?;
    }
    Ok(())
}

impl Done {
    fn put_together(&mut self, fs: &Filesystem, image: &Image, met: &Met) -> Result<()> {
        self.files += 1;
        let moved = match fs.defragment(paths::bytes(&met.path)) {
            Ok(moved) => moved,
            Err(e) if e.errno() == Errno::EOPNOTSUPP => {
                self.left += 1;
                self.why.get_or_insert(e);
                return Ok(());
            }
            Err(e) => return Err(image.fail(&met.path, e)),
        };
        self.moved += u64::from(moved.after < moved.before);
        self.pieces_before += moved.before;
        self.pieces_after += moved.after;
        Ok(())
    }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Done {
            files,
            moved,
            left,
            pieces_before,
            pieces_after,
            ..
        } = self;
        let files = show::count(*files, "file", "files");
        let pieces = show::count(*pieces_after as u64, "piece", "pieces");
        write!(
            f,
            "{moved} of {files} moved, in {pieces}, before {pieces_before}"
        )?;
        match left {
            0 => Ok(()),
            left => write!(f, "; {left} can't be moved"),
        }
    }
}

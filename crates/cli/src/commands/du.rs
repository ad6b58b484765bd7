//! `uext4 du`.

use super::walk::{Follow, Met, Next, walk_following};
use crate::endpoint::Endpoint;
use crate::images::Images;
use crate::location::Naming;
use crate::size::Unit;
use crate::system::paths;
use crate::{failures, glob, show};
use anyhow::Result;
use serde::Serialize;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use uext4::FileKind;

/// Show the space that directories and files use
///
/// In units of 1 KiB. A file with several names counts once.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Examples:
  uext4 du -sh disk.img:/usr
  uext4 du -h -d 1 disk.img:/ | sort -h
  uext4 du -ab disk.img:/etc        files too, the bytes of their data")]
pub struct Args {
    /// The operands only
    #[arg(short, long, conflicts_with_all = ["all", "max_depth"])]
    summarize: bool,
    /// Files too
    #[arg(short, long)]
    all: bool,
    /// Down to this depth below the operands only
    #[arg(short = 'd', long, value_name = "N")]
    max_depth: Option<usize>,
    /// The sum of the operands too
    #[arg(short = 'c', long)]
    total: bool,
    /// Sizes such as 1.5K and 20M
    #[arg(short, long)]
    human_readable: bool,
    /// As -h, in powers of 1000
    #[arg(long)]
    si: bool,
    /// The bytes of the data, not the space that it takes
    #[arg(short, long)]
    bytes: bool,
    /// The size of the data, not the space that it takes
    #[arg(long)]
    apparent_size: bool,
    /// In units of 1 KiB; so it is without another
    #[arg(short = 'k')]
    kibibytes: bool,
    /// In units of 1 MiB
    #[arg(short = 'm')]
    mebibytes: bool,
    /// A file with several names counts for each
    #[arg(short = 'l', long)]
    count_links: bool,
    /// Directories without the directories in them
    #[arg(short = 'S', long)]
    separate_dirs: bool,
    /// Follow all symbolic links
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Follow symbolic links among the operands
    #[arg(short = 'D', visible_short_alias = 'H', long)]
    dereference_args: bool,
    /// Without files that match this pattern, and what is below them
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<OsString>,
    /// One file system only, which an image is
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// End each line with a zero byte
    #[arg(short = '0', long)]
    null: bool,
    /// As JSON, in bytes
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    path: show::PathJson,
    bytes: u64,
    /// For the order.
    #[serde(skip)]
    name: Vec<u8>,
}

/// A directory whose files are being counted.
struct Open {
    path: PathBuf,
    depth: usize,
    /// Its own, and that of its files.
    own: u64,
    /// Of the directories below it.
    below: u64,
}

struct Sums<'a, W> {
    args: &'a Args,
    unit: Unit,
    naming: Naming,
    image: PathBuf,
    /// Those that count once, by endpoint and inode.
    seen: HashSet<(usize, u64)>,
    open: Vec<Open>,
    total: u64,
    json: Vec<Json>,
    out: W,
}

pub fn run(args: Args) -> Result<()> {
    let unit = match (args.human_readable, args.si, args.bytes, args.mebibytes) {
        (_, true, ..) => Unit::Human(1000),
        (true, ..) => Unit::Human(1024),
        (_, _, true, _) => Unit::Bytes(1),
        (_, _, _, true) => Unit::Bytes(1 << 20),
        _ => Unit::Bytes(1024),
    };
    let mut images = Images::default();
    let operands = images.operands(args.paths.clone())?;
    let mut sums = Sums {
        args: &args,
        unit,
        naming: Naming::of(&args.paths, args.json),
        image: PathBuf::new(),
        seen: HashSet::new(),
        open: Vec::new(),
        total: 0,
        json: Vec::new(),
        out: BufWriter::new(std::io::stdout().lock()),
    };
    let follow = match (args.dereference, args.dereference_args) {
        (true, _) => Follow::Always,
        (_, true) => Follow::Start,
        _ => Follow::Never,
    };
    for (endpoint, at) in operands {
        sums.image.clone_from(&at.image);
        let counted = walk_following(&*endpoint, &at.path, follow, |met| {
            sums.count(&*endpoint, met)
        });
        counted
            .and_then(|()| sums.close(0))
            .or_else(failures::report)?;
    }
    sums.finish()?;
    images.close()
}

impl<W: Write> Sums<'_, W> {
    fn count(&mut self, endpoint: &dyn Endpoint, met: &Met) -> Result<Next> {
        self.close(met.depth)?;
        if self.excludes(&met.path) {
            return Ok(Next::Skip);
        }
        let is_directory = met.attr.kind == FileKind::Directory;
        let counts_once = is_directory || (met.attr.nlink > 1 && !self.args.count_links);
        if counts_once && !self.seen.insert((endpoint.id(), met.attr.ino)) {
            return Ok(Next::Skip);
        }
        let bytes = match self.args.bytes || self.args.apparent_size {
            true => met.attr.size,
            false => met.attr.blocks * 512,
        };
        if is_directory {
            self.open.push(Open {
                path: met.path.clone(),
                depth: met.depth,
                own: bytes,
                below: 0,
            });
            return Ok(Next::Descend);
        }
        match self.open.last_mut() {
            Some(dir) => dir.own += bytes,
            None => self.total += bytes,
        }
        if self.args.all || met.depth == 0 {
            self.show(&met.path, met.depth, bytes)?;
        }
        Ok(Next::Descend)
    }

    fn excludes(&self, path: &Path) -> bool {
        let name = &*paths::bytes(path.file_name().unwrap_or_default());
        let mut patterns = self.args.exclude.iter();
        patterns.any(|pattern| glob::matches_file_name(pattern.as_encoded_bytes(), name))
    }

    /// Ends the directories from this depth on.
    fn close(&mut self, depth: usize) -> Result<()> {
        while let Some(dir) = self.open.pop_if(|dir| dir.depth >= depth) {
            let all = dir.own + dir.below;
            match self.open.last_mut() {
                Some(above) => above.below += all,
                None => self.total += all,
            }
            let shown = if self.args.separate_dirs {
                dir.own
            } else {
                all
            };
            self.show(&dir.path, dir.depth, shown)?;
        }
        Ok(())
    }

    fn show(&mut self, path: &Path, depth: usize, bytes: u64) -> Result<()> {
        let most = if self.args.summarize {
            Some(0)
        } else {
            self.args.max_depth
        };
        if most.is_some_and(|most| depth > most) {
            return Ok(());
        }
        let name = self.naming.name(&self.image, path);
        if self.args.json {
            self.json.push(Json {
                path: show::PathJson::new(&name),
                bytes,
                name,
            });
            return Ok(());
        }
        self.line(bytes, &name)
    }

    fn line(&mut self, bytes: u64, name: &[u8]) -> Result<()> {
        write!(self.out, "{}\t", self.unit.of(bytes))?;
        self.out.write_all(&show::name(name))?;
        Ok(self
            .out
            .write_all(if self.args.null { b"\0" } else { b"\n" })?)
    }

    fn finish(mut self) -> Result<()> {
        if self.args.json {
            let components = |json: &Json| {
                json.name
                    .split(|byte| *byte == b'/')
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>()
            };
            self.json.sort_by_cached_key(components);
            drop(self.out);
            return show::json(&self.json);
        }
        if self.args.total {
            self.line(self.total, b"total")?;
        }
        Ok(self.out.flush()?)
    }
}

//! `uext4 du`.

use super::walk::{Met, Next, walk};
use crate::{images, show};
use anyhow::Result;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use uext4::FileKind;

/// Show the space that directories use
///
/// With all that is below them; a file with several names counts once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 du -s disk.img:/usr")]
pub struct Args {
    /// The total only
    #[arg(short)]
    summary: bool,
    /// As JSON, in bytes
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    path: OsString,
}

#[derive(Serialize)]
struct Json {
    path: String,
    bytes: u64,
}

pub fn run(args: Args) -> Result<()> {
    let mut sizes: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut count = |met: &Met| {
        let is_dir = met.attr.kind == FileKind::Directory;
        if is_dir || met.depth == 0 {
            sizes.insert(met.path.clone(), 0);
        }
        if met.attr.nlink > 1 && !is_dir && !seen.insert(met.attr.ino) {
            return Ok(Next::Descend);
        }
        for above in met.path.ancestors().take(met.depth + 1) {
            if let Some(sum) = sizes.get_mut(above) {
                *sum += met.attr.blocks * 512;
            }
        }
        Ok(Next::Descend)
    };
    let mut start = PathBuf::new();
    images::read_each(vec![args.path], |endpoint, at| {
        start.clone_from(&at.path);
        walk(endpoint, &at.path, true, &mut count)
    })?;
    if args.summary {
        sizes.retain(|path, _| *path == start);
    }
    if args.json {
        let json = |(path, bytes): (&PathBuf, &u64)| Json {
            path: path.to_string_lossy().into_owned(),
            bytes: *bytes,
        };
        return show::json(&sizes.iter().map(json).collect::<Vec<_>>());
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (path, bytes) in &sizes {
        write!(out, "{:>12}  ", show::bytes(*bytes))?;
        out.write_all(&show::name(path.as_os_str().as_bytes()))?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

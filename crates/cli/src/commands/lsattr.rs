//! `uext4 lsattr`.

use crate::location::InImage;
use crate::{chattr_flags, diagnostics, images, show};
use anyhow::Result;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use uext4::{FileKind, Filesystem};

/// List the flags of files, as chattr sets them
///
/// Of a directory, those of all that is in it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 lsattr disk.img:/etc")]
pub struct Args {
    /// Directories themselves, not what is in them
    #[arg(short)]
    directory: bool,
    /// The project too
    #[arg(short)]
    project: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    path: OsString,
}

/// A file as JSON has it.
#[derive(Serialize)]
struct FlagsJson {
    name: String,
    flags: Vec<&'static str>,
    project: u32,
}

pub fn run(args: Args) -> Result<()> {
    let at = InImage::parse(args.path);
    let fs = images::open(&at.image, false)?;
    let fail = |e| diagnostics::in_image(&at, e);
    let mut found = Vec::new();
    for path in paths(&fs, &at, args.directory)? {
        let flags = fs.flags(&path).map_err(fail)?;
        let project = fs.project(&path).map_err(fail)?;
        found.push((path, flags, project));
    }
    if args.json {
        let json = found.iter().map(|(path, flags, project)| FlagsJson {
            name: path.to_string_lossy().into_owned(),
            flags: chattr_flags::words(*flags),
            project: *project,
        });
        return show::json(&json.collect::<Vec<_>>());
    }
    let mut out = std::io::stdout().lock();
    for (path, flags, project) in found {
        if args.project {
            write!(out, "{project:5} ")?;
        }
        write!(out, "{} ", chattr_flags::column(flags))?;
        out.write_all(&show::name(path.as_os_str().as_bytes()))?;
        writeln!(out)?;
    }
    Ok(())
}

fn paths(fs: &Filesystem, at: &InImage, itself: bool) -> Result<Vec<PathBuf>> {
    let fail = |e| diagnostics::in_image(at, e);
    let kind = fs.symlink_metadata(&at.path).map_err(fail)?.kind;
    if itself || kind != FileKind::Directory {
        return Ok(vec![at.path.clone()]);
    }
    let entries = fs.read_dir(&at.path).map_err(fail)?;
    let path = |e: uext4::DirEntry| at.path.join(e.file_name());
    let mut paths: Vec<_> = entries
        .map(|e| e.map(path))
        .collect::<uext4::Result<_>>()
        .map_err(fail)?;
    paths.sort();
    Ok(paths)
}

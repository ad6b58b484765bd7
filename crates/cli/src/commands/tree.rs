//! `uext4 tree`.

use super::walk::walk;
use crate::location::InImage;
use crate::{diagnostics, images, show};
use anyhow::Result;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use uext4::FileKind;

/// Show a directory and all below it as a tree.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 tree disk.img:/etc")]
pub struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    path: OsString,
}

#[derive(Serialize)]
struct Json {
    path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    size: u64,
}

pub fn run(args: Args) -> Result<()> {
    let at = InImage::parse(args.path);
    let fs = images::open(&at.image, false)?;
    if args.json {
        let mut all = Vec::new();
        walk(&fs, &at, |met| {
            all.push(Json {
                path: met.path.to_string_lossy().into_owned(),
                kind: show::kind(met.attr.kind),
                size: met.attr.size,
            });
            Ok(())
        })?;
        return show::json(&all);
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let (mut directories, mut others) = (0u64, 0u64);
    // Whether the ancestor at each depth was the last of its directory.
    let mut lasts: Vec<bool> = Vec::new();
    walk(&fs, &at, |met| {
        lasts.truncate(met.depth);
        for was_last in lasts.iter().skip(1) {
            out.write_all(if *was_last {
                b"    "
            } else {
                "│   ".as_bytes()
            })?;
        }
        lasts.push(met.is_last);
        let name = if met.depth == 0 {
            met.path.as_os_str()
        } else {
            let branch = if met.is_last {
                "└── "
            } else {
                "├── "
            };
            out.write_all(branch.as_bytes())?;
            met.path.file_name().unwrap_or(met.path.as_os_str())
        };
        out.write_all(&show::name(name.as_bytes()))?;
        match met.attr.kind {
            FileKind::Directory => directories += u64::from(met.depth > 0),
            FileKind::Symlink => {
                others += 1;
                let target = fs
                    .read_link(&met.path)
                    .map_err(|e| diagnostics::in_image(&at, e))?;
                out.write_all(b" -> ")?;
                out.write_all(&show::name(&target))?;
            }
            _ => others += 1,
        }
        Ok(out.write_all(b"\n")?)
    })?;
    writeln!(out, "\n{directories} directories, {others} files")?;
    Ok(out.flush()?)
}

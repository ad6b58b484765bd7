//! `uext4 tree`.

use super::walk::{Next, walk};
use crate::endpoint::Endpoint;
use crate::{images, show};
use anyhow::Result;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
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
    if args.json {
        let mut all = Vec::new();
        images::read_each(vec![args.path], |endpoint, at| {
            walk(endpoint, &at.path, true, |met| {
                all.push(Json {
                    path: met.path.to_string_lossy().into_owned(),
                    kind: show::kind(met.attr.kind),
                    size: met.attr.size,
                });
                Ok(Next::Descend)
            })
        })?;
        return show::json(&all);
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    images::read_each(vec![args.path], |endpoint, at| {
        draw(endpoint, &at.path, &mut out)
    })?;
    Ok(out.flush()?)
}

fn draw(endpoint: &dyn Endpoint, path: &Path, out: &mut impl Write) -> Result<()> {
    let (mut directories, mut others) = (0u64, 0u64);
    // Whether the ancestor at each depth was the last of its directory.
    let mut lasts: Vec<bool> = Vec::new();
    walk(endpoint, path, true, |met| {
        lasts.truncate(met.depth);
        for was_last in lasts.iter().skip(1) {
            let line = if *was_last { "    " } else { "│   " };
            out.write_all(line.as_bytes())?;
        }
        lasts.push(met.is_last);
        let mut name = met.path.as_os_str();
        if met.depth > 0 {
            let branch = if met.is_last {
                "└── "
            } else {
                "├── "
            };
            out.write_all(branch.as_bytes())?;
            name = met.path.file_name().unwrap_or(name);
        }
        out.write_all(&show::name(name.as_bytes()))?;
        match met.attr.kind {
            FileKind::Directory => directories += u64::from(met.depth > 0),
            FileKind::Symlink => {
                others += 1;
                out.write_all(b" -> ")?;
                out.write_all(&show::name(&endpoint.read_link(&met.path)?))?;
            }
            _ => others += 1,
        }
        out.write_all(b"\n")?;
        Ok(Next::Descend)
    })?;
    Ok(writeln!(
        out,
        "\n{directories} directories, {others} files"
    )?)
}

//! `uext4 readlink`.

use crate::endpoint::Endpoint;
use crate::location::Naming;
use crate::system::paths;
use crate::{failures, images, show};
use anyhow::{Result, bail};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use uext4::FileKind;

/// As many symbolic links are followed in a path, as on Linux.
const LINKS_MAX: usize = 40;

/// Print what symbolic links hold, or with -f where paths lead.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 readlink disk.img:/etc/localtime
  uext4 readlink -f disk.img:/bin/sh     follows all links; a path in the image")]
pub struct Args {
    /// The path without symbolic links; all but its last name must exist
    #[arg(short = 'f', long)]
    canonicalize: bool,
    /// As -f; all of it must exist
    #[arg(short = 'e', long)]
    canonicalize_existing: bool,
    /// As -f; none of it needs to exist
    #[arg(short = 'm', long)]
    canonicalize_missing: bool,
    /// No newline after the only one
    #[arg(short, long)]
    no_newline: bool,
    /// End each with a zero byte
    #[arg(short, long)]
    zero: bool,
    /// Report what is not a symbolic link
    #[arg(short, long)]
    verbose: bool,
    /// Report nothing; so it is without -v
    #[arg(short, long, visible_short_alias = 's', alias = "silent")]
    quiet: bool,
    /// As JSON: a list with the path and the target of each
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// A link as JSON has it.
#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    path: show::PathJson,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_bytes: Option<String>,
}

pub fn run(args: Args) -> Result<()> {
    let naming = Naming::of(&args.paths, args.json);
    let has_end = args.paths.len() > 1 || !args.no_newline;
    let mut links = Vec::new();
    images::read_each(args.paths.clone(), |endpoint, at| {
        let found = match args.canonicalize
            || args.canonicalize_existing
            || args.canonicalize_missing
        {
            true => canonical(&args, endpoint, &at.path).map(|path| naming.name(&at.image, &path)),
            false => target(endpoint, &at.path),
        };
        let found = match found {
            Err(_) if !args.verbose => {
                failures::count();
                return Ok(());
            }
            found => found?,
        };
        if args.json {
            links.push(Json {
                path: show::PathJson::new(&naming.name(&at.image, &at.path)),
                target: String::from_utf8_lossy(&found).into_owned(),
                target_bytes: show::hex_unless_text(&found),
            });
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        out.write_all(&show::name(&found))?;
        if has_end {
            out.write_all(if args.zero { b"\0" } else { b"\n" })?;
        }
        Ok(())
    })?;
    if args.json {
        show::json(&links)
    } else {
        Ok(())
    }
}

fn target(endpoint: &dyn Endpoint, path: &Path) -> Result<Vec<u8>> {
    if endpoint.get(path, false)?.attr.kind != FileKind::Symlink {
        bail!("{}: is not a symbolic link", endpoint.display(path));
    }
    endpoint.read_link(path)
}

/// The path without symbolic links and without `..`.
fn canonical(args: &Args, endpoint: &dyn Endpoint, path: &Path) -> Result<PathBuf> {
    let mut done = PathBuf::from("/");
    let mut left: Vec<OsString> = names(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            done.pop();
            continue;
        }
        done.push(&name);
        // A file that has no files in it, on the way, names nothing either.
        let found = endpoint
            .find(&done, false)
            .or_else(|e| match args.canonicalize_missing {
                true => Ok(None),
                false => Err(e),
            })?;
        match found.map(|found| found.attr.kind) {
            None if args.canonicalize_existing
                || (!left.is_empty() && !args.canonicalize_missing) =>
            {
                return Err(endpoint.missing(&done));
            }
            Some(FileKind::Symlink) => {
                links += 1;
                if links > LINKS_MAX {
                    bail!("{}: too many symbolic links", endpoint.display(path));
                }
                let target = endpoint.read_link(&done)?;
                let target = paths::path(&target);
                done.pop();
                if target.has_root() {
                    done = PathBuf::from("/");
                }
                left.extend(names(&target));
            }
            _ => {}
        }
    }
    Ok(done)
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let components = path.components().rev();
    components
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

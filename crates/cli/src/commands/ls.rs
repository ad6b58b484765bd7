//! `uext4 ls`.

use crate::accounts::Accounts;
use crate::endpoint::Endpoint;
use crate::{failures, images, show, time_format};
use anyhow::Result;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use uext4::FileKind;
use uext4::unstable::Attr;

/// List a directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 ls -l disk.img:/etc")]
pub struct Args {
    /// Mode, links, owner, group, size and time of last change (UTC) too
    #[arg(short)]
    long: bool,
    /// Names that start with a dot too
    #[arg(short)]
    all: bool,
    /// Inode numbers too
    #[arg(short)]
    inode: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    path: OsString,
}

/// A line of the list.
struct Line {
    name: Vec<u8>,
    attr: Attr,
    target: Option<Vec<u8>>,
}

pub fn run(args: Args) -> Result<()> {
    let mut lines = Vec::new();
    let mut accounts = Accounts::default();
    images::read_each(vec![args.path.clone()], |endpoint, at| {
        lines = list(endpoint, &at.path, args.all)?;
        if args.long && !args.json {
            accounts = Accounts::of(endpoint);
        }
        Ok(())
    })?;
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    if args.json {
        let json = |l: &Line| show::FileJson::new(&l.name, &l.attr, l.target.as_deref());
        return show::json(&lines.iter().map(json).collect::<Vec<_>>());
    }
    print(&args, &accounts, &lines)
}

fn list(endpoint: &dyn Endpoint, path: &Path, all: bool) -> Result<Vec<Line>> {
    let line = |name: &[u8], path: &Path| -> Result<Line> {
        let attr = endpoint.get(path, false)?.attr;
        let target = match attr.kind {
            FileKind::Symlink => Some(endpoint.read_link(path)?),
            _ => None,
        };
        Ok(Line {
            name: name.to_vec(),
            attr,
            target,
        })
    };
    let own = endpoint.get(path, false)?.attr.kind;
    let leads_to = endpoint.find(path, true).ok().flatten();
    if leads_to.map_or(own, |found| found.attr.kind) != FileKind::Directory {
        return Ok(vec![line(path.as_os_str().as_bytes(), path)?]);
    }
    let mut names = endpoint.list(path)?;
    if all {
        names.extend([b".".to_vec(), b"..".to_vec()]);
    } else {
        names.retain(|name| !name.starts_with(b"."));
    }
    let mut lines = Vec::new();
    for name in names {
        match line(&name, &path.join(OsStr::from_bytes(&name))) {
            Ok(line) => lines.push(line),
            Err(e) => failures::report(e)?,
        }
    }
    Ok(lines)
}

fn size(attr: &Attr) -> String {
    match attr.kind {
        FileKind::CharDevice | FileKind::BlockDevice => {
            format!("{}, {}", attr.rdev_major, attr.rdev_minor)
        }
        _ => attr.size.to_string(),
    }
}

fn print(args: &Args, accounts: &Accounts, lines: &[Line]) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let cells = |l: &Line| -> Vec<String> {
        let mut cells = Vec::new();
        if args.inode {
            cells.push(l.attr.ino.to_string());
        }
        if args.long {
            let a = &l.attr;
            cells.push(show::mode(a));
            cells.push(a.nlink.to_string());
            let (user, group) = (accounts.user_name(a.uid), accounts.group_name(a.gid));
            cells.push(user.map_or_else(|| a.uid.to_string(), str::to_owned));
            cells.push(group.map_or_else(|| a.gid.to_string(), str::to_owned));
            cells.push(size(a));
            cells.push(time_format::minutes(a.mtime));
        }
        cells
    };
    let rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |c: usize| rows.iter().map(|r| r[c].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (line, row) in lines.iter().zip(&rows) {
        for (cell, width) in row.iter().zip(&widths) {
            write!(out, "{cell:>width$} ")?;
        }
        out.write_all(&show::name(&line.name))?;
        if let Some(target) = line.target.as_ref().filter(|_| args.long) {
            out.write_all(b" -> ")?;
            out.write_all(&show::name(target))?;
        }
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

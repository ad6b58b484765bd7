//! `uext4 ls`.

use crate::location::InImage;
use crate::{diagnostics, images, show, time_format};
use anyhow::Result;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use uext4::unstable::Attr;
use uext4::{FileKind, Filesystem};

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
    let at = InImage::parse(args.path.clone());
    let fs = images::open(&at.image, false)?;
    let mut lines = list(&fs, &at, args.all)?;
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    if args.json {
        let json = |l: &Line| show::FileJson::new(&l.name, &l.attr, l.target.as_deref());
        return show::json(&lines.iter().map(json).collect::<Vec<_>>());
    }
    print(&args, &lines)
}

fn list(fs: &Filesystem, at: &InImage, all: bool) -> Result<Vec<Line>> {
    let fail = |e| diagnostics::in_image(at, e);
    let line = |name: &[u8], path: &std::path::Path| -> Result<Line> {
        let attr = fs.symlink_metadata(path).map_err(fail)?;
        let target = match attr.kind {
            FileKind::Symlink => Some(fs.read_link(path).map_err(fail)?),
            _ => None,
        };
        Ok(Line {
            name: name.to_vec(),
            attr: *attr,
            target,
        })
    };
    let own = fs.symlink_metadata(&at.path).map_err(fail)?;
    let leads_to = fs.metadata(&at.path).map_or(own.kind, |attr| attr.kind);
    if leads_to != FileKind::Directory {
        return Ok(vec![line(at.path.as_os_str().as_bytes(), &at.path)?]);
    }
    let mut lines = Vec::new();
    if all {
        lines.push(line(b".", &at.path.join("."))?);
        lines.push(line(b"..", &at.path.join(".."))?);
    }
    for entry in fs.read_dir(&at.path).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if all || !entry.name().starts_with(b".") {
            lines.push(line(entry.name(), &at.path.join(entry.file_name()))?);
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

fn print(args: &Args, lines: &[Line]) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let cells = |l: &Line| -> Vec<String> {
        let mut cells = Vec::new();
        if args.inode {
            cells.push(l.attr.ino.to_string());
        }
        if args.long {
            let a = &l.attr;
            cells.push(show::mode(a));
            cells.extend([a.nlink, a.uid, a.gid].map(|n| n.to_string()));
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

//! ls, ncheck and icheck: directories, and what has a name or a block.

use super::image::{self, Entry, Image, entries};
use super::inode;
use super::{Debugger, Given, words};
use crate::commands::dump::View;
use anyhow::{Result, anyhow, bail};
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use uext4::unstable::ondisk::{FileType, Ino};

/// Columns of a line.
const COLUMNS: usize = 80;
/// `ls`.
pub fn ls(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let (options, operands) = given.options("cdlpr", "[-c] [-d] [-l] [-p] [-r] file")?;
    let image = debugger.image(given)?;
    let (dir, shown) = match operands.first() {
        Some(path) => (image.find(path)?, image::text(path)),
        None => (image.cwd, ".".to_owned()),
    };
    let has = |letter: char| options.contains(&letter);
    let view = image.view()?;
    let listed = entries(view, dir, has('d'));
    let shown = given.words.get(1).map_or(shown, |word| image::text(word));
    let listed = match listed {
        Ok(listed) => listed,
        Err(e) => {
            debugger.out.push('\n');
            return Err(anyhow!("{shown}: {e} "));
        }
    };
    let mut out = String::new();
    let mut column = 0;
    for entry in &listed {
        if entry.checksum.is_some() && !has('c') {
            continue;
        }
        match (has('p'), has('l')) {
            (true, _) => parsable(view, entry, &mut out),
            (_, true) => long(view, entry, &mut out),
            _ => short(entry, &mut column, &mut out),
        }
    }
    out.push('\n');
    debugger.out.push_str(&out);
    Ok(())
}

fn short(entry: &Entry, column: &mut usize, out: &mut String) {
    let (left, right) = marks(entry);
    let start = match entry.checksum {
        Some(sum) => format!(
            "{left}{}{right} (dirblock checksum: {sum:#010x})",
            entry.ino
        ),
        None => format!("{left}{}{right} ({}) ", entry.ino, entry.len),
    };
    let name = image::text(&entry.name);
    let width = start.len() + name.len() + 3;
    if *column + width > COLUMNS {
        out.push('\n');
        *column = 0;
    }
    let _ = write!(out, "{start}{name}   ");
    *column += width;
}

const fn marks(entry: &Entry) -> (char, char) {
    if entry.is_deleted {
        ('<', '>')
    } else {
        (' ', ' ')
    }
}

fn long(view: &View, entry: &Entry, out: &mut String) {
    let (left, right) = marks(entry);
    let found = match entry.ino {
        0 => None,
        ino => view.inode(Ino(ino)).ok().map(|found| found.inode),
    };
    let (mode, uid, gid, size) = found
        .as_ref()
        .map_or((0, 0, 0, 0), |i| (i.mode, i.uid, i.gid, i.size));
    let date = found.map_or_else(|| " ".repeat(17), |inode| date(inode.mtime.sec));
    let _ = writeln!(
        out,
        "{left}{:>6}{right} {mode:>6o} ({})  {uid:>5}  {gid:>5}   {size:>5} {date} {}",
        entry.ino,
        entry.kind,
        image::text(&entry.name)
    );
}

/// `29-Nov-2026 03:10`.
fn date(seconds: i64) -> String {
    let instant = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    let local = instant.to_zoned(TimeZone::system());
    local.strftime("%e-%b-%Y %H:%M").to_string()
}

fn parsable(view: &View, entry: &Entry, out: &mut String) {
    let Some(inode) = view.inode(Ino(entry.ino)).ok().map(|found| found.inode) else {
        let _ = writeln!(out, "/0/000000/0/0/{}/0/", image::text(&entry.name));
        return;
    };
    let size = match inode.file_type() {
        FileType::Directory => String::new(),
        _ => inode.size.to_string(),
    };
    let (mode, uid, gid) = (inode.mode, inode.uid, inode.gid);
    let _ = writeln!(
        out,
        "/{}/{mode:06o}/{uid}/{gid}/{}/{size}/",
        entry.ino,
        image::text(&entry.name)
    );
}

/// `ncheck`: the names of inodes.
pub fn ncheck(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let (_, operands) = given.options("c", "[-c] <inode number> ...")?;
    if operands.is_empty() {
        bail!("{}: Usage: ncheck [-c] <inode number> ...", given.called());
    }
    let mut wanted = HashSet::new();
    for word in &operands {
        let inner = word
            .strip_prefix(b"<")
            .and_then(|rest| rest.strip_suffix(b">"));
        let number = words::number(inner.unwrap_or(word)).and_then(|n| u32::try_from(n).ok());
        let number = number.filter(|n| *n != 0).ok_or_else(|| {
            anyhow!(
                "{}: Invalid inode number - '{}'",
                given.called(),
                image::text(word)
            )
        })?;
        wanted.insert(number);
    }
    let image = debugger.image(given)?;
    let view = image.view()?;
    let mut out = "Inode\tPathname\n".to_owned();
    for (dir, path) in directories(view)? {
        let Ok(entries) = entries(view, Ino(dir), false) else {
            continue;
        };
        for entry in entries {
            if wanted.contains(&entry.ino) && !matches!(&*entry.name, b"." | b"..") {
                let _ = writeln!(out, "{}\t{path}/{}", entry.ino, image::text(&entry.name));
            }
        }
    }
    debugger.out.push_str(&out);
    Ok(())
}

/// Directories in the order of their inodes, each with its path; that of the root is `/`, as the original writes it.
fn directories(view: &View) -> Result<BTreeMap<u32, String>> {
    let mut paths = BTreeMap::from([(Ino::ROOT.0, "/".to_owned())]);
    let mut below = vec![Ino::ROOT.0];
    while let Some(dir) = below.pop() {
        let Ok(entries) = entries(view, Ino(dir), false) else {
            continue;
        };
        let path = paths.get(&dir).cloned().unwrap_or_default();
        for entry in entries {
            if entry.ino == 0
                || matches!(&*entry.name, b"." | b"..")
                || paths.contains_key(&entry.ino)
            {
                continue;
            }
            let is_dir = view
                .inode(Ino(entry.ino))
                .is_ok_and(|found| found.inode.file_type() == FileType::Directory);
            if is_dir {
                let above = path.strip_suffix('/').unwrap_or(&path);
                paths.insert(entry.ino, format!("{above}/{}", image::text(&entry.name)));
                below.push(entry.ino);
            }
        }
    }
    Ok(paths)
}

/// The path of a directory.
pub fn path_of(image: &mut Image, dir: Ino) -> Result<String> {
    let paths = directories(image.view()?)?;
    Ok(paths
        .get(&dir.0)
        .cloned()
        .unwrap_or_else(|| format!("<{}>", dir.0)))
}

/// `icheck`: the inodes that blocks belong to.
pub fn icheck(debugger: &mut Debugger, given: &Given) -> Result<()> {
    if given.operands().is_empty() {
        bail!("{}: Usage: icheck <block number> ...", given.called());
    }
    let mut wanted = Vec::new();
    for word in given.operands() {
        let number = words::number(word).ok_or_else(|| {
            anyhow!(
                "{}: Bad block number - {}",
                given.called(),
                image::text(word)
            )
        })?;
        wanted.push(number);
    }
    let view = debugger.image(given)?.view()?;
    let mut found = BTreeMap::new();
    for ino in (1..=view.sb.geometry.inodes_count).map(Ino) {
        if !inode::is_in_use(view, ino)? {
            continue;
        }
        let Ok(inode) = view.inode(ino).map(|found| found.inode) else {
            continue;
        };
        if inode.links == 0 && inode.dtime != 0 {
            continue;
        }
        let runs = inode::all_blocks(view, ino, &inode);
        for block in &wanted {
            let holds = |(first, len): &(u64, u64)| (*first..first + len).contains(block);
            if runs.iter().any(holds) {
                found.entry(*block).or_insert(ino.0);
            }
        }
    }
    let mut out = "Block\tInode number\n".to_owned();
    for block in wanted {
        let _ = match found.get(&block) {
            Some(ino) => writeln!(out, "{block}\t{ino}"),
            None => writeln!(out, "{block}\t<block not found>"),
        };
    }
    debugger.out.push_str(&out);
    Ok(())
}

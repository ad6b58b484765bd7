//! `uext4 stat`.

use crate::location::InImage;
use crate::{images, show, time_format};
use anyhow::Result;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use uext4::FileKind;
use uext4::unstable::Attr;

/// Show all attributes of files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 stat disk.img:/etc/passwd")]
pub struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let mut found = Vec::new();
    images::read_each(args.paths, |endpoint, at| {
        let attr = endpoint.get(&at.path, false)?.attr;
        let target = match attr.kind {
            FileKind::Symlink => Some(endpoint.read_link(&at.path)?),
            _ => None,
        };
        found.push((at.clone(), attr, target));
        Ok(())
    })?;
    if args.json {
        let json = |(at, attr, target): &(InImage, Attr, Option<Vec<u8>>)| {
            show::FileJson::new(at.path.as_os_str().as_bytes(), attr, target.as_deref())
        };
        let files: Vec<_> = found.iter().map(json).collect();
        return match files.as_slice() {
            [one] => show::json(one),
            many => show::json(&many),
        };
    }
    for (at, attr, target) in &found {
        print(at, attr, target.as_deref())?;
    }
    Ok(())
}

fn print(at: &InImage, a: &Attr, target: Option<&[u8]>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "  File: ")?;
    out.write_all(&show::name(at.path.as_os_str().as_bytes()))?;
    if let Some(target) = target {
        write!(out, " -> ")?;
        out.write_all(&show::name(target))?;
    }
    writeln!(out, "\n  Type: {}", show::kind(a.kind))?;
    writeln!(
        out,
        "  Size: {}  Blocks: {}  IO Block: {}",
        a.size, a.blocks, a.block_size
    )?;
    writeln!(
        out,
        " Inode: {}  Generation: {}  Links: {}",
        a.ino, a.generation, a.nlink
    )?;
    if matches!(a.kind, FileKind::CharDevice | FileKind::BlockDevice) {
        writeln!(out, "Device: {},{}", a.rdev_major, a.rdev_minor)?;
    }
    writeln!(
        out,
        "Access: ({:04o}/{})  Uid: {}  Gid: {}",
        a.mode,
        show::mode(a),
        a.uid,
        a.gid
    )?;
    writeln!(out, " Flags: 0x{:x}", a.flags)?;
    for (name, time) in [
        ("Access", a.atime),
        ("Modify", a.mtime),
        ("Change", a.ctime),
        (" Birth", a.crtime),
    ] {
        writeln!(out, "{name}: {}", time_format::exact(time))?;
    }
    Ok(())
}

//! `uext4 find`.

use super::walk::{Met, Next, walk};
use crate::{glob, images, show};
use anyhow::Result;
use clap::ValueEnum;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use uext4::FileKind;

/// Find files by name, type and more; prints their paths in the image.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 find disk.img:/usr -name '*.so' -type f")]
pub struct Args {
    /// IMAGE:/path
    path: OsString,
    /// A pattern that the name matches: * ? [a-z]
    #[arg(long)]
    name: Option<OsString>,
    /// f file, d directory, l symlink, c char device, b block device, p pipe, s socket
    #[arg(long = "type", value_enum)]
    kind: Option<Kind>,
    /// End each path with a zero byte
    #[arg(long, short = '0')]
    print0: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    F,
    D,
    L,
    C,
    B,
    P,
    S,
}

impl Kind {
    const fn is(self, kind: FileKind) -> bool {
        matches!(
            (self, kind),
            (Kind::F, FileKind::Regular)
                | (Kind::D, FileKind::Directory)
                | (Kind::L, FileKind::Symlink)
                | (Kind::C, FileKind::CharDevice)
                | (Kind::B, FileKind::BlockDevice)
                | (Kind::P, FileKind::Fifo)
                | (Kind::S, FileKind::Socket)
        )
    }
}

pub fn run(args: Args) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut found = Vec::new();
    let mut visit = |met: &Met| {
        let name = met
            .path
            .file_name()
            .unwrap_or(met.path.as_os_str())
            .as_bytes();
        let name_fits = args
            .name
            .as_ref()
            .is_none_or(|p| glob::matches(p.as_bytes(), name));
        if !name_fits || !args.kind.is_none_or(|k| k.is(met.attr.kind)) {
            return Ok(Next::Descend);
        }
        let path = met.path.as_os_str().as_bytes();
        if args.json {
            found.push(show::FileJson::new(path, &met.attr, None));
        } else if args.print0 {
            out.write_all(path)?;
            out.write_all(b"\0")?;
        } else {
            out.write_all(&show::name(path))?;
            out.write_all(b"\n")?;
        }
        Ok(Next::Descend)
    };
    images::read_each(vec![args.path], |endpoint, at| {
        walk(endpoint, &at.path, false, &mut visit)
    })?;
    out.flush()?;
    drop(out);
    if args.json {
        show::json(&found)?;
    }
    Ok(())
}

//! `uext4 stat`.

mod format;

use crate::accounts::Accounts;
use crate::location::Naming;
use crate::{diagnostics, images, show, time_format};
use anyhow::Result;
use format::Subject;
use std::ffi::OsString;
use std::io::Write;
use uext4::FileKind;
use uext4::unstable::Attr;

/// Show all attributes of files; -c shows those asked for.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Letters of a format, as in stat(1):
  %a %A    mode, in octal and in letters; %f in hexadecimal, with the type
  %F       type in words
  %u %g    numbers of owner and group; %U %G their names in the image
  %h %i    number of names; inode
  %s       size; %b blocks of %B bytes, %o block size
  %t %T    device numbers in hexadecimal; %r %R both in one
  %n %N    name; quoted, with the target of a link; %m image
  %w %x    times: birth, access; %y change of data, %z of attributes
  %W %X    the same since 1970, %Y %Z
  A width may stand before the letter: %5s, %-10n, %04a.

With several operands, --json prints an array.

Examples:
  uext4 stat disk.img:/etc/passwd
  uext4 stat -c '%a %U:%G %n' 'disk.img:/etc/*'
  uext4 stat -L -c %s disk.img:/vmlinuz
  uext4 stat --printf '%i\\t%n\\n' disk.img:/bin/sh")]
pub struct Args {
    /// Of symbolic links, show the files that they lead to
    #[arg(short = 'L', long)]
    dereference: bool,
    /// What to print of each file
    #[arg(short = 'c', long, conflicts_with_all = ["printf", "json"])]
    format: Option<String>,
    /// As -c, with escapes such as \n, and no newline after each
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    printf: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let naming = Naming::of(&args.paths, args.json);
    let format = match (&args.format, &args.printf) {
        (Some(format), _) => Some(format!("{format}\n")),
        (_, Some(format)) => Some(format::unescaped(format)),
        _ => None,
    };
    if let Some(format) = &format {
        format::check(format).map_err(diagnostics::Usage)?;
    }
    let mut found = Vec::new();
    images::read_each(args.paths.clone(), |endpoint, at| {
        let attr = endpoint.get(&at.path, args.dereference)?.attr;
        let target = match attr.kind {
            FileKind::Symlink => Some(endpoint.read_link(&at.path)?),
            _ => None,
        };
        let name = naming.name(&at.image, &at.path);
        let mut out = std::io::stdout().lock();
        if args.json {
            found.push(show::FileJson::new(&name, &attr, target.as_deref()));
        } else if let Some(format) = &format {
            let subject = Subject {
                name: &name,
                image: &at.image,
                attr: &attr,
                target: target.as_deref(),
                accounts: &Accounts::of(endpoint),
            };
            let text = format::expand(format, &subject).map_err(diagnostics::Usage)?;
            out.write_all(&text)?;
        } else {
            print(&name, &attr, target.as_deref(), &Accounts::of(endpoint))?;
        }
        Ok(())
    })?;
    match (args.json, found.as_slice()) {
        (true, [one]) if args.paths.len() == 1 => show::json(one),
        (true, many) => show::json(&many),
        _ => Ok(()),
    }
}

fn print(name: &[u8], a: &Attr, target: Option<&[u8]>, accounts: &Accounts) -> Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "  File: ")?;
    out.write_all(&show::name(name))?;
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
        "Access: ({:04o}/{})  Uid: {}{}  Gid: {}{}",
        a.mode,
        show::mode(a),
        a.uid,
        account(accounts.user_name(a.uid)),
        a.gid,
        account(accounts.group_name(a.gid))
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

/// The name of an account, after its number.
fn account(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" ({name})"))
}

//! `uext4 chmod`.

use super::change::{Scope, change_each};
use super::reference;
use crate::diagnostics::Usage;
use crate::endpoint::Endpoint;
use crate::mode::{self, ModeChange};
use crate::quoted;
use crate::system::paths;
use anyhow::Result;
use std::ffi::OsString;
use std::io::Write;
use uext4::FileKind;

/// Set permission bits
///
/// MODE is octal (644, 4755) or a list of changes for user, group, others or all: u+x, go-w, a=rX, g+s, +t. X is
/// for directories and what can be executed already. A directory keeps its set-user-ID and set-group-ID bits
/// unless they are named, or five octal digits are given.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 chmod 4755 disk.img:/bin/su
  uext4 chmod -R u=rwX,go=rX disk.img:/srv/www
  uext4 chmod --reference=disk.img:/bin/sh disk.img:/bin/tool")]
pub struct Args {
    /// All below directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Name each file with its bits
    #[arg(short, long)]
    verbose: bool,
    /// Name each file whose bits change
    #[arg(short, long)]
    changes: bool,
    /// The bits that this file has, instead of MODE
    #[arg(long, value_name = "FILE")]
    reference: Option<OsString>,
    /// The bits; a file, with --reference
    #[arg(allow_hyphen_values = true)]
    mode: OsString,
    /// IMAGE:/path
    #[arg(required_unless_present = "reference")]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let mut paths = args.paths;
    let change = match &args.reference {
        Some(file) => {
            paths.insert(0, args.mode);
            ModeChange::To {
                bits: reference::attr(file.clone())?.mode,
                kept: 0,
            }
        }
        None => {
            let parsed = ModeChange::parse(&args.mode.to_string_lossy());
            parsed.map_err(|why| Usage(format!("chmod: {why}")))?
        }
    };
    let umask = mode::umask();
    let scope = Scope {
        recursive: args.recursive,
        follow: true,
    };
    change_each(paths, scope, |image, met| {
        // Those that are met below a directory; a link has no bits of its own.
        if met.attr.kind == FileKind::Symlink {
            return Ok(());
        }
        let (before, is_dir) = (met.attr.mode, met.attr.kind == FileKind::Directory);
        let after = change.apply(before, is_dir, umask);
        let set = image.fs().set_permissions(paths::bytes(&met.path), after);
        set.map_err(|e| image.fail(&met.path, e))?;
        if args.verbose || (args.changes && before != after) {
            let name = quoted::always(image.display(&met.path));
            let bits = |mode| format!("{mode:04o} ({})", mode::letters(mode));
            let what = match before == after {
                true => format!("retained as {}", bits(after)),
                false => format!("changed from {} to {}", bits(before), bits(after)),
            };
            writeln!(std::io::stdout(), "mode of {name} {what}")?;
        }
        Ok(())
    })
}

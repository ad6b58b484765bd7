//! `uext4 getfacl`.

use super::walk::{Follow, Met, Next, walk_following};
use crate::accounts::Accounts;
use crate::acl::{self, Acl, Effective, EntryJson};
use crate::endpoint::Endpoint;
use crate::location::Naming;
use crate::{images, show};
use anyhow::{Result, anyhow};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use uext4::FileKind;
use uext4::unstable::Attr;

/// Show access control lists, as getfacl(1) does
///
/// Users and groups have the names that the image's /etc/passwd and /etc/group give them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 getfacl disk.img:/srv/shared
  uext4 getfacl -R -s disk.img:/     files with more than permission bits
  uext4 getfacl -c -n disk.img:/etc/hosts | grep '^user:1000'")]
pub struct Args {
    /// The list of the file only
    #[arg(short, long)]
    access: bool,
    /// The default list of a directory only
    #[arg(short, long)]
    default: bool,
    /// Without the lines that start with #
    #[arg(short = 'c', long)]
    omit_header: bool,
    /// The effective permissions of each entry that has a mask
    #[arg(short = 'e', long)]
    all_effective: bool,
    /// No effective permissions
    #[arg(short = 'E', long)]
    no_effective: bool,
    /// Skip files that have permission bits only
    #[arg(short, long)]
    skip_base: bool,
    /// All below directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Follow all symbolic links
    #[arg(short = 'L', long)]
    logical: bool,
    /// Skip symbolic links
    #[arg(short = 'P', long)]
    physical: bool,
    /// Numbers of users and groups
    #[arg(short, long)]
    numeric: bool,
    /// Names with the slash at their start
    #[arg(short = 'p', long)]
    absolute_names: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// The lists of a file as JSON has them.
#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    path: show::PathJson,
    uid: u32,
    gid: u32,
    mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<Vec<EntryJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Vec<EntryJson>>,
}

pub fn run(args: Args) -> Result<()> {
    let naming = Naming::of(&args.paths, args.json);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut json = Vec::new();
    images::read_each(args.paths.clone(), |endpoint, at| {
        let accounts = match args.numeric {
            true => Accounts::default(),
            false => Accounts::of(endpoint),
        };
        let follow = match (args.physical, args.logical) {
            (true, _) => Follow::Never,
            (_, true) => Follow::Always,
            _ => Follow::Start,
        };
        if follow == Follow::Start {
            endpoint.get(&at.path, true)?;
        }
        walk_following(endpoint, &at.path, follow, |met| {
            if met.attr.kind != FileKind::Symlink
                && let Some(lists) = Lists::of(&args, endpoint, met)?
            {
                let name = naming.name(&at.image, &met.path);
                match args.json {
                    true => json.push(lists.json(&name, &met.attr)),
                    false => show(&args, &lists, &accounts, &name, &met.attr, &mut out)?,
                }
            }
            Ok(if args.recursive {
                Next::Descend
            } else {
                Next::Skip
            })
        })
    })?;
    out.flush()?;
    drop(out);
    if args.json { show::json(&json) } else { Ok(()) }
}

/// The lists of a file that are shown.
struct Lists {
    access: Option<Acl>,
    default: Option<Acl>,
}

impl Lists {
    /// None if the file has nothing that is shown.
    fn of(args: &Args, endpoint: &dyn Endpoint, met: &Met) -> Result<Option<Lists>> {
        let xattrs = endpoint.xattrs(&endpoint.resolve(&met.path)?)?;
        let list = |wanted: &[u8]| -> Result<Option<Acl>> {
            let value = xattrs.iter().find(|(name, _)| name == wanted);
            let acl = value.map(|(_, value)| Acl::from_xattr(value)).transpose();
            acl.map_err(|why| {
                anyhow!(
                    "{}: its access control list is {why}",
                    endpoint.display(&met.path)
                )
            })
        };
        let (access, default) = (list(acl::ACCESS)?, list(acl::DEFAULT)?);
        let only = args.access != args.default;
        let shows_access = !only || args.access;
        let default = default.filter(|_| !only || args.default);
        let is_extended = shows_access && access.as_ref().is_some_and(Acl::is_extended);
        if args.skip_base && !is_extended && default.is_none() {
            return Ok(None);
        }
        let access = access.unwrap_or_else(|| Acl::of_mode(met.attr.mode));
        Ok(Some(Lists {
            access: shows_access.then_some(access),
            default,
        }))
    }

    fn json(&self, name: &[u8], attr: &Attr) -> Json {
        Json {
            path: show::PathJson::new(name),
            uid: attr.uid,
            gid: attr.gid,
            mode: format!("{:04o}", attr.mode),
            access: self.access.as_ref().map(Acl::json),
            default: self.default.as_ref().map(Acl::json),
        }
    }
}

fn show(
    args: &Args,
    lists: &Lists,
    accounts: &Accounts,
    name: &[u8],
    attr: &Attr,
    out: &mut impl Write,
) -> Result<()> {
    let effective = match (args.all_effective, args.no_effective) {
        (true, _) => Effective::Always,
        (_, true) => Effective::Never,
        _ => Effective::WhereLess,
    };
    if !args.omit_header {
        header(args, accounts, name, attr, out)?;
    }
    let mut text = String::new();
    if let Some(access) = &lists.access {
        text += &access.lines("", accounts, effective);
    }
    if let Some(default) = &lists.default {
        let is_only = lists.access.is_none();
        let prefix = if is_only { "" } else { "default:" };
        text += &default.lines(prefix, accounts, effective);
    }
    Ok(writeln!(out, "{text}")?)
}

fn header(
    args: &Args,
    accounts: &Accounts,
    name: &[u8],
    attr: &Attr,
    out: &mut impl Write,
) -> Result<()> {
    out.write_all(b"# file: ")?;
    out.write_all(&show::name(&quoted(args, name)))?;
    let mut text = String::from("\n");
    let owner = acl::account(accounts.user_name(attr.uid), attr.uid);
    let group = acl::account(accounts.group_name(attr.gid), attr.gid);
    let _ = writeln!(text, "# owner: {owner}\n# group: {group}");
    if attr.mode & 0o7000 != 0 {
        let flag = |bit, letter| if attr.mode & bit != 0 { letter } else { '-' };
        let flags = [flag(0o4000, 's'), flag(0o2000, 's'), flag(0o1000, 't')];
        let _ = writeln!(text, "# flags: {}", flags.iter().collect::<String>());
    }
    Ok(out.write_all(text.as_bytes())?)
}

/// A name as setfacl(1) reads it back: one line, `\` doubled, and without `-p` no slash at its start.
fn quoted(args: &Args, name: &[u8]) -> Vec<u8> {
    let relative = name.strip_prefix(b"/").filter(|_| !args.absolute_names);
    let name = match relative {
        Some(b"") => b".",
        Some(relative) => relative,
        None => name,
    };
    let mut quoted = Vec::new();
    for byte in name {
        match byte {
            b'\\' => quoted.extend_from_slice(b"\\\\"),
            b'\n' => quoted.extend_from_slice(b"\\012"),
            b'\r' => quoted.extend_from_slice(b"\\015"),
            byte => quoted.push(*byte),
        }
    }
    quoted
}

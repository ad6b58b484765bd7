//! `uext4 setfacl`.

use super::change::{Scope, change_each};
use super::walk::Met;
use crate::accounts::Accounts;
use crate::acl::{self, Acl, Item, Permissions, Tag};
use crate::diagnostics::{self, Usage};
use crate::endpoint::{Endpoint, Image};
use crate::system::paths;
use anyhow::{Result, anyhow, bail};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use uext4::{Errno, FileKind, XattrFlags};

/// Change access control lists, as setfacl(1) does
///
/// ENTRIES are separated by commas: user:NAME:rwx, group:NAME:r-X, mask::rx, other::-, each with d: before it for the default
/// list of a directory. Names are those of the image's /etc/passwd and /etc/group, or numbers. The mask becomes
/// what all its entries have together, unless it is given or with -n.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 setfacl -m u:ann:rw disk.img:/etc/hosts
  uext4 setfacl -R -m g:staff:rwX,d:g:staff:rwX disk.img:/srv/shared
  uext4 setfacl -b disk.img:/etc/hosts")]
pub struct Args {
    /// Set these entries, and keep the others
    #[arg(short, long, value_name = "ENTRIES")]
    modify: Vec<String>,
    /// The same with the entries of a file; - is standard input
    #[arg(short = 'M', long, value_name = "FILE")]
    modify_file: Option<PathBuf>,
    /// Remove these entries
    #[arg(short = 'x', long, value_name = "ENTRIES")]
    remove: Vec<String>,
    /// Set these entries and no others; user::, group:: and other:: are among them
    #[arg(long, value_name = "ENTRIES")]
    set: Vec<String>,
    /// Remove all but the permission bits
    #[arg(short = 'b', long)]
    remove_all: bool,
    /// Remove the default list
    #[arg(short = 'k', long)]
    remove_default: bool,
    /// Entries are those of the default list
    #[arg(short, long)]
    default: bool,
    /// Leave the mask alone
    #[arg(short, long)]
    no_mask: bool,
    /// All below directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Skip symbolic links
    #[arg(short = 'P', long)]
    physical: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// The entries that are given, with the numbers of the accounts of an image.
struct Entries {
    image: PathBuf,
    set: Vec<Item>,
    remove: Vec<Item>,
    modify: Vec<Item>,
}

/// The lists of a file.
#[derive(Clone, PartialEq, Eq)]
struct Lists {
    access: Acl,
    default: Option<Acl>,
}

pub fn run(mut args: Args) -> Result<()> {
    if let Some(file) = &args.modify_file {
        args.modify.push(read(file)?);
    }
    let nothing = args.modify.is_empty() && args.remove.is_empty() && args.set.is_empty();
    if nothing && !args.remove_all && !args.remove_default {
        bail!(Usage(
            "setfacl: give entries with -m, -x or --set, or -b or -k".to_owned()
        ));
    }
    let scope = Scope {
        recursive: args.recursive,
        follow: !args.physical,
    };
    let mut known: Option<Entries> = None;
    change_each(args.paths.clone(), scope, |image, met| {
        if met.attr.kind == FileKind::Symlink {
            return Ok(());
        }
        if known
            .as_ref()
            .is_none_or(|known| known.image != image.image())
        {
            known = Some(Entries::new(&args, image)?);
        }
        match &known {
            Some(entries) => change(&args, entries, image, met),
            None => Ok(()),
        }
    })
}

fn read(file: &Path) -> Result<String> {
    let mut text = String::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(file).map(|read| text = read),
    };
    read.map_err(|e| diagnostics::on_host(file, e))?;
    Ok(text)
}

impl Entries {
    fn new(args: &Args, image: &Image) -> Result<Entries> {
        let accounts = Accounts::of(image);
        let parse = |texts: &[String], with_permissions| {
            let mut items = Vec::new();
            for text in texts {
                let parsed = Acl::parse(text, &accounts);
                items.extend(parsed.map_err(|why| Usage(format!("setfacl: {why}")))?);
            }
            for item in &mut items {
                item.is_default |= args.default;
                if item.permissions.is_some() != with_permissions {
                    let what = match with_permissions {
                        true => "an entry has no permissions; give user:NAME:rwx",
                        false => "an entry that is removed has no permissions; give user:NAME",
                    };
                    bail!(Usage(format!("setfacl: {what}")));
                }
            }
            Ok(items)
        };
        Ok(Entries {
            image: image.image().to_owned(),
            set: parse(&args.set, true)?,
            remove: parse(&args.remove, false)?,
            modify: parse(&args.modify, true)?,
        })
    }
}

fn change(args: &Args, entries: &Entries, image: &Image, met: &Met) -> Result<()> {
    let path = match met.depth {
        0 => image.resolve(&met.path)?,
        _ => met.path.clone(),
    };
    let is_dir = met.attr.kind == FileKind::Directory;
    let before = lists(image, &path, met.attr.mode)?;
    let mut lists = before.clone();
    if args.remove_all {
        // The bits of the group itself, not those of the mask.
        lists.access = base(&lists.access);
    }
    if args.remove_default || args.remove_all {
        lists.default = None;
    }
    let all = [&entries.set, &entries.remove, &entries.modify];
    let has_default = all.iter().any(|items| items.iter().any(|i| i.is_default));
    if has_default && !is_dir && !args.recursive {
        let name = image.display(&met.path);
        bail!("{name}: only a directory has a default list");
    }
    for of_default in [false, true] {
        if of_default && !is_dir {
            continue;
        }
        let of = |items: &[Item]| -> Vec<Item> {
            let chosen = items.iter().filter(|i| i.is_default == of_default);
            chosen.copied().collect()
        };
        let (set, remove, modify) = (of(&entries.set), of(&entries.remove), of(&entries.modify));
        if set.is_empty() && remove.is_empty() && modify.is_empty() {
            continue;
        }
        // A default list that is new starts with the bits of the directory.
        let old = match of_default {
            true => lists.default.clone().unwrap_or(base(&lists.access)),
            false => lists.access.clone(),
        };
        let new = edited(args, &old, is_dir, &set, &remove, &modify);
        let new = new.map_err(|why| anyhow!("{}: {why}", image.display(&met.path)))?;
        match of_default {
            true => lists.default = Some(new),
            false => lists.access = new,
        }
    }
    write(image, &path, &before, &lists)
}

/// The lists that a file has.
fn lists(image: &Image, path: &Path, mode: u16) -> Result<Lists> {
    let found = image.xattrs(path)?;
    let list = |name: &[u8]| {
        let value = found.iter().find(|(n, _)| n == name);
        let list = value.map(|(_, value)| Acl::from_xattr(value)).transpose();
        list.map_err(|why| anyhow!("{}: {why}", image.display(path)))
    };
    Ok(Lists {
        access: list(acl::ACCESS)?.unwrap_or_else(|| Acl::of_mode(mode)),
        default: list(acl::DEFAULT)?,
    })
}

/// The entries that every list has.
fn base(list: &Acl) -> Acl {
    let bits = |tag| u16::from(list.get(tag).unwrap_or(0));
    Acl::of_mode(bits(Tag::UserObj) << 6 | bits(Tag::GroupObj) << 3 | bits(Tag::Other))
}

/// A list after the changes.
fn edited(
    args: &Args,
    old: &Acl,
    is_dir: bool,
    set: &[Item],
    remove: &[Item],
    modify: &[Item],
) -> Result<Acl, String> {
    let any = old.mode_bits() & 0o111 != 0;
    let bits = |given: Permissions| match given.execute_if_any && (is_dir || any) {
        true => given.bits | 1,
        false => given.bits,
    };
    let mut list = match set.is_empty() {
        true => old.clone(),
        false => Acl::default(),
    };
    for item in set {
        list.set(item.tag, item.permissions.map_or(0, bits));
    }
    for item in remove {
        if matches!(item.tag, Tag::UserObj | Tag::GroupObj | Tag::Other) {
            return Err(
                "user::, group:: and other:: can't be removed, as they are the permission bits"
                    .to_owned(),
            );
        }
        list.remove(item.tag);
    }
    for item in modify {
        list.set(item.tag, item.permissions.map_or(0, bits));
    }
    for tag in [Tag::UserObj, Tag::GroupObj, Tag::Other] {
        if list.get(tag).is_none() {
            return Err("--set needs user::, group:: and other:: too".to_owned());
        }
    }
    let gives_mask = set.iter().chain(modify).any(|item| item.tag == Tag::Mask);
    let has_mask = list.get(Tag::Mask).is_some();
    if !gives_mask && (!args.no_mask || !has_mask) && (has_mask || list.needs_mask()) {
        list.update_mask();
    }
    Ok(list)
}

fn write(image: &Image, path: &Path, before: &Lists, after: &Lists) -> Result<()> {
    let fs = image.fs();
    let put = |name: &[u8], list: &Acl| {
        let set = fs.set_xattr(
            paths::bytes(path),
            name,
            list.to_xattr(),
            XattrFlags::empty(),
        );
        set.map_err(|e| image.fail(path, e))
    };
    if before.access != after.access {
        put(acl::ACCESS, &after.access)?;
    }
    if before.default == after.default {
        return Ok(());
    }
    match &after.default {
        Some(list) => put(acl::DEFAULT, list),
        None => match fs.remove_xattr(paths::bytes(path), acl::DEFAULT) {
            Err(e) if e != Errno::ENODATA => Err(image.fail(path, e)),
            _ => Ok(()),
        },
    }
}

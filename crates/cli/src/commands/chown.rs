//! `uext4 chown` and `uext4 chgrp`.

use super::change::{Scope, change_each};
use super::reference;
use crate::accounts::Accounts;
use crate::diagnostics::Usage;
use crate::endpoint::{Endpoint, Image};
use crate::quoted;
use crate::system::paths;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use uext4::unstable::{Attr, SetAttr};

/// Set owner and group
///
/// Names are those of the image's own /etc/passwd and /etc/group. USER: means the login group of the user. As in the
/// kernel, a new owner takes the set-user-ID and set-group-ID bits away.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  uext4 chown -R 1000:1000 disk.img:/home/me
  uext4 chown www-data: disk.img:/srv/www
  uext4 chown -hR --from=1000 root disk.img:/usr/local"
)]
pub struct Args {
    #[command(flatten)]
    options: Options,
    /// Change only files that have this owner, group, or both
    #[arg(long, value_name = "OWNER", value_parser = Owner::parse)]
    from: Option<Owner>,
    /// USER, USER:GROUP, USER: or :GROUP, each a name or a number, then IMAGE:/path
    #[arg(required = true, value_name = "OWNER> <PATHS")]
    words: Vec<OsString>,
}

/// Set the group
///
/// Names are those of the image's own /etc/group.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  uext4 chgrp staff disk.img:/var/log/messages
  uext4 chgrp -R 50 disk.img:/srv"
)]
pub struct GroupArgs {
    #[command(flatten)]
    options: Options,
    /// GROUP, a name or a number, then IMAGE:/path
    #[arg(required = true, value_name = "GROUP> <PATHS")]
    words: Vec<OsString>,
}

/// What both have.
#[derive(Debug, clap::Args)]
struct Options {
    /// All below directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Of a symbolic link the link itself, not what it leads to
    #[arg(short = 'h', long, overrides_with = "dereference")]
    no_dereference: bool,
    /// Of a symbolic link what it leads to, which is so without it too
    #[arg(long, overrides_with = "no_dereference")]
    dereference: bool,
    /// With -R, follow symbolic links that are named
    #[arg(short = 'H', overrides_with = "physical")]
    named: bool,
    /// With -R, follow no symbolic link, which is so without it too
    #[arg(short = 'P', overrides_with = "named")]
    physical: bool,
    /// Name each file with its owner
    #[arg(short, long)]
    verbose: bool,
    /// Name each file whose owner changes
    #[arg(short, long)]
    changes: bool,
    /// What this file has, instead of a name or a number
    #[arg(long, value_name = "FILE")]
    reference: Option<OsString>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// A user or a group.
#[derive(Clone, Debug)]
enum Id {
    Number(u32),
    Name(String),
}

/// What is not given stays.
#[derive(Clone, Debug, Default)]
struct Owner {
    user: Option<Id>,
    group: Option<Id>,
    /// The group is the user's own.
    login_group: bool,
}

impl Id {
    fn parse(text: &str) -> Result<Id, String> {
        let digits = text.strip_prefix('+').unwrap_or(text);
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Id::Name(text.to_owned()));
        }
        match digits.parse() {
            // To chown(2) the last number means that the owner stays.
            Ok(id) if id < u32::MAX => Ok(Id::Number(id)),
            _ => Err(format!(
                "`{text}` is not an id: give a name, or a number of at most {}",
                u32::MAX - 1
            )),
        }
    }

    fn number(
        &self,
        image: &Image,
        file: &str,
        what: &str,
        find: impl FnOnce(&str) -> Option<u32>,
    ) -> Result<u32> {
        match self {
            Id::Number(id) => Ok(*id),
            Id::Name(name) => find(name).with_context(|| {
                let there = image.find(Path::new(file), true).ok().flatten();
                let file = image.display(Path::new(file));
                match there {
                    Some(_) => format!(
                        "{file}: has no {what} `{name}`; give a number, or one of its names"
                    ),
                    None => format!(
                        "{file}: is not there, so no {what} has the name `{name}`; give a number"
                    ),
                }
            }),
        }
    }
}

impl Owner {
    fn parse(text: &str) -> Result<Owner, String> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let id = |text: &str| {
            Some(Id::parse(text))
                .filter(|_| !text.is_empty())
                .transpose()
        };
        Ok(Owner {
            user: id(user)?,
            group: id(group.unwrap_or(""))?,
            login_group: group == Some("") && !user.is_empty(),
        })
    }

    fn group(text: &str) -> Result<Owner, String> {
        Ok(Owner {
            group: Some(Id::parse(text)?),
            ..Owner::default()
        })
    }

    /// The numbers, in that image.
    fn ids(&self, image: &Image, accounts: &Accounts) -> Result<Ids> {
        let user = |id: &Id| id.number(image, "/etc/passwd", "user", |n| accounts.uid(n));
        let group = |id: &Id| id.number(image, "/etc/group", "group", |n| accounts.gid(n));
        let uid = self.user.as_ref().map(user).transpose()?;
        let mut gid = self.group.as_ref().map(group).transpose()?;
        if let (true, Some(uid)) = (self.login_group, uid) {
            let own = accounts.primary_gid(uid);
            let file = image.display(Path::new("/etc/passwd"));
            gid = Some(own.with_context(|| {
                format!("{file}: has no login group of user {uid}; give it as {uid}:GROUP")
            })?);
        }
        Ok(Ids { uid, gid })
    }
}

/// Numbers, where given.
#[derive(Clone, Copy, Debug)]
struct Ids {
    uid: Option<u32>,
    gid: Option<u32>,
}

impl Ids {
    /// Whether a file has these.
    fn are_of(self, attr: &Attr) -> bool {
        self.uid.is_none_or(|uid| uid == attr.uid) && self.gid.is_none_or(|gid| gid == attr.gid)
    }
}

pub fn run(args: Args) -> Result<()> {
    change("chown", args.options, args.words, args.from, Owner::parse)
}

pub fn run_group(args: GroupArgs) -> Result<()> {
    change("chgrp", args.options, args.words, None, Owner::group)
}

/// The owner that files get, and which files.
fn wanted(
    command: &str,
    options: &Options,
    words: Vec<OsString>,
    parse: impl FnOnce(&str) -> Result<Owner, String>,
) -> Result<(Owner, Vec<OsString>)> {
    let mut paths = words;
    let to = match options.reference.clone() {
        Some(file) => {
            let attr = reference::attr(file)?;
            Owner {
                user: (command == "chown").then_some(Id::Number(attr.uid)),
                group: Some(Id::Number(attr.gid)),
                login_group: false,
            }
        }
        None => {
            let text = paths.remove(0);
            let parsed = parse(&text.to_string_lossy());
            parsed.map_err(|why| Usage(format!("{command}: {why}")))?
        }
    };
    if paths.is_empty() {
        bail!(Usage(format!(
            "{command}: name the owner, then IMAGE:/path of each file"
        )));
    }
    Ok((to, paths))
}

fn change(
    command: &str,
    options: Options,
    words: Vec<OsString>,
    from: Option<Owner>,
    parse: impl FnOnce(&str) -> Result<Owner, String>,
) -> Result<()> {
    let (to, paths) = wanted(command, &options, words, parse)?;
    let scope = Scope {
        recursive: options.recursive,
        follow: match options.recursive {
            true => options.named,
            false => !options.no_dereference,
        },
    };
    // The names of an image may be those of another number once a file of it changed, but these stay.
    let mut known: Option<(std::path::PathBuf, Accounts)> = None;
    change_each(paths, scope, |image, met| {
        if known.as_ref().is_none_or(|(of, _)| of != image.image()) {
            known = Some((image.image().to_owned(), Accounts::of(image)));
        }
        let Some((_, accounts)) = &known else {
            return Ok(());
        };
        let ids = to.ids(image, accounts)?;
        if let Some(from) = &from
            && !from.ids(image, accounts)?.are_of(&met.attr)
        {
            return Ok(());
        }
        let follow = scope.follow && met.depth == 0;
        let path = match follow {
            true => image.resolve(&met.path)?,
            false => met.path.clone(),
        };
        let set = SetAttr {
            uid: ids.uid,
            gid: ids.gid,
            ..SetAttr::default()
        };
        let set = image.fs().set_attr(paths::bytes(&path), &set);
        set.map_err(|e| image.fail(&met.path, e))?;
        let changed = !ids.are_of(&met.attr);
        if options.verbose || (options.changes && changed) {
            let name = quoted::always(image.display(&met.path));
            let line = outcome(command, &name, ids, &met.attr, accounts);
            writeln!(std::io::stdout(), "{line}")?;
        }
        Ok(())
    })
}

/// What became of a file, as the option -v prints it.
fn outcome(command: &str, name: &str, ids: Ids, before: &Attr, accounts: &Accounts) -> String {
    let user = |uid| {
        accounts
            .user_name(uid)
            .map_or(uid.to_string(), str::to_owned)
    };
    let group = |gid| {
        accounts
            .group_name(gid)
            .map_or(gid.to_string(), str::to_owned)
    };
    let both = |uid: Option<u32>, gid: Option<u32>| {
        let uid = uid.filter(|_| command == "chown").map(user);
        let gid = gid.map(group);
        match (uid, gid) {
            (Some(uid), Some(gid)) => format!("{uid}:{gid}"),
            (uid, gid) => uid.or(gid).unwrap_or_default(),
        }
    };
    let old = both(ids.uid.map(|_| before.uid), ids.gid.map(|_| before.gid));
    let what = match (command, ids.uid) {
        ("chown", Some(_)) => "ownership",
        _ => "group",
    };
    match ids.are_of(before) {
        true => format!("{what} of {name} retained as {old}"),
        false => format!(
            "changed {what} of {name} from {old} to {}",
            both(ids.uid, ids.gid)
        ),
    }
}

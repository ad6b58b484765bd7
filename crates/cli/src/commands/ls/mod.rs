//! `uext4 ls`.
//!
//! | module | holds |
//! | --- | --- |
//! | [`entry`] | a file of the list, and the order of files |
//! | [`long`] | what stands before a name |
//! | [`columns`] | names in columns |

mod columns;
mod entry;
mod long;

use crate::accounts::Accounts;
use crate::colors::{self, Colors};
use crate::endpoint::Endpoint;
use crate::images::Images;
use crate::location::{InImage, Naming};
use crate::system::paths;
use crate::{failures, glob, interrupt, show};
use anyhow::{Result, bail};
use clap::ValueEnum;
use entry::Entry;
use long::{Line, Long};
use serde::Serialize;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;
use uext4::FileKind;

/// List directories and files, as ls(1) does; times are in UTC
///
/// On a terminal, names stand in columns; otherwise, each has a line.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "\
With several operands, patterns or -R, --json prints an object for each
directory, with its `path` and its `entries`; with one operand, the entries
alone. A name that is not UTF-8 is also there as `name_bytes`, in hexadecimal.

Examples:
  uext4 ls -l disk.img:/etc
  uext4 ls -lat disk.img:/var/log disk.img:/tmp     newest first
  uext4 ls -d 'disk.img:/usr/lib/*.so'
  uext4 ls --json -R disk.img:/home")]
pub struct Args {
    /// Names that start with a dot too
    #[arg(short, long)]
    all: bool,
    /// As -a, but without . and ..
    #[arg(short = 'A', long)]
    almost_all: bool,
    /// Directories themselves, not the files in them
    #[arg(short, long)]
    directory: bool,
    /// Mode, links, owner, group, size and time of the last change too
    #[arg(short)]
    long: bool,
    /// As -l, with the numbers of owner and group
    #[arg(short, long)]
    numeric_uid_gid: bool,
    /// As -l, without the owner
    #[arg(short = 'g')]
    no_owner: bool,
    /// As -l, without the group
    #[arg(short = 'o')]
    no_group: bool,
    /// With -l, without the group
    #[arg(short = 'G', long = "no-group")]
    no_group_column: bool,
    /// With -l and -s, sizes such as 1.5K and 20M
    #[arg(short, long)]
    human_readable: bool,
    /// As -h, in powers of 1000
    #[arg(long)]
    si: bool,
    /// Inode numbers too
    #[arg(short, long)]
    inode: bool,
    /// The space that each file takes too, in units of 1 KiB
    #[arg(short, long)]
    size: bool,
    /// All below directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// By time, newest first
    #[arg(short = 't', overrides_with_all = ["by_size", "unsorted", "sort"])]
    by_time: bool,
    /// By size, largest first
    #[arg(short = 'S', overrides_with_all = ["by_time", "unsorted", "sort"])]
    by_size: bool,
    /// By what follows the last dot of the name
    #[arg(short = 'X', overrides_with_all = ["by_time", "by_size", "unsorted", "sort"])]
    by_extension: bool,
    /// As -a -U
    #[arg(short = 'f')]
    all_unsorted: bool,
    #[arg(short = 'k', hide = true)]
    kibibytes: bool,
    /// In no particular order
    #[arg(short = 'U', overrides_with_all = ["by_time", "by_size", "sort"])]
    unsorted: bool,
    /// The order
    #[arg(long, value_enum, overrides_with_all = ["by_time", "by_size", "unsorted"])]
    sort: Option<Sort>,
    /// The other way round
    #[arg(short, long)]
    reverse: bool,
    /// Directories before other files
    #[arg(long)]
    group_directories_first: bool,
    /// Show and sort by the time of the last change of attributes
    #[arg(short = 'c', overrides_with_all = ["access_time", "time"])]
    change_time: bool,
    /// Show and sort by the time of the last access
    #[arg(short = 'u', overrides_with_all = ["change_time", "time"])]
    access_time: bool,
    /// Show and sort by this time
    #[arg(long, value_enum, overrides_with_all = ["change_time", "access_time"])]
    time: Option<Time>,
    /// As -l, with times in full
    #[arg(long)]
    full_time: bool,
    /// How -l shows times
    #[arg(long, value_enum, value_name = "STYLE")]
    time_style: Option<TimeStyle>,
    /// A mark after each name: / directory, * program, @ symbolic link, | FIFO, = socket
    #[arg(short = 'F', long)]
    classify: bool,
    /// As -F, without *
    #[arg(long)]
    file_type: bool,
    /// A / after the names of directories
    #[arg(short = 'p')]
    slash: bool,
    /// Follow symbolic links among the operands
    #[arg(short = 'H', long)]
    dereference_command_line: bool,
    /// Show the files that symbolic links lead to
    #[arg(short = 'L', long)]
    dereference: bool,
    /// A line for each name
    #[arg(short = '1', overrides_with = "columns")]
    one: bool,
    /// In columns
    #[arg(short = 'C', overrides_with = "one")]
    columns: bool,
    /// The width of the columns together
    #[arg(short, long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Not the names that match this pattern
    #[arg(short = 'I', long, value_name = "PATTERN")]
    ignore: Vec<OsString>,
    /// Names as they are, without quotes; so it always is
    #[arg(short = 'N', long)]
    literal: bool,
    /// Names in the colours of LS_COLORS
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true)]
    #[arg(
        default_value = "auto",
        default_missing_value = "always",
        hide_possible_values = true
    )]
    #[arg(
        long_help = "Names in the colours of LS_COLORS: `always`, `never`, or `auto`, on a terminal unless NO_COLOR is set"
    )]
    color: colors::When,
    /// End each name with a zero byte
    #[arg(long)]
    zero: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    None,
    Name,
    Size,
    Time,
    Extension,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Time {
    #[value(alias = "modification")]
    Mtime,
    #[value(aliases = ["access", "use"])]
    Atime,
    #[value(alias = "status")]
    Ctime,
    #[value(alias = "creation")]
    Birth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TimeStyle {
    /// 2026-01-31 23:59
    LongIso,
    /// 2026-01-31 23:59:59.123456789 +0000
    FullIso,
}

impl Args {
    fn is_long(&self) -> bool {
        self.long || self.numeric_uid_gid || self.no_owner || self.no_group || self.full_time
    }

    fn sort(&self) -> Sort {
        let by_letter = [
            (self.by_time, Sort::Time),
            (self.by_size, Sort::Size),
            (self.by_extension, Sort::Extension),
            (self.unsorted || self.all_unsorted, Sort::None),
        ];
        let by_letter = by_letter.iter().find(|(given, _)| *given);
        // Without -l, the letter of a time sorts by it.
        let times = self.change_time || self.access_time;
        let otherwise = match times && !self.is_long() {
            true => Sort::Time,
            false => Sort::Name,
        };
        by_letter.map_or(self.sort.unwrap_or(otherwise), |(_, sort)| *sort)
    }

    fn time(&self) -> Time {
        match (self.change_time, self.access_time) {
            (true, _) => Time::Ctime,
            (_, true) => Time::Atime,
            _ => self.time.unwrap_or(Time::Mtime),
        }
    }

    /// Whether a symbolic link among the operands stands for the directory that it leads to.
    fn enters_links(&self) -> bool {
        let follows = self.dereference || self.dereference_command_line;
        follows || !(self.is_long() || self.classify)
    }

    fn shows(&self, name: &[u8]) -> bool {
        let all = self.all || self.almost_all || self.all_unsorted;
        let is_hidden = name.starts_with(b".") && !all;
        let mut ignored = self.ignore.iter();
        !is_hidden
            && !ignored.any(|pattern| glob::matches_file_name(pattern.as_encoded_bytes(), name))
    }
}

/// Files that are listed together: those among the operands, or those of a directory.
#[derive(Default)]
struct Group {
    /// The directory.
    path: Option<Vec<u8>>,
    entries: Vec<Entry>,
    accounts: Accounts,
}

/// A group as JSON has it.
#[derive(Serialize)]
struct GroupJson {
    #[serde(flatten)]
    path: show::PathJson,
    entries: Vec<show::FileJson>,
}

pub fn run(args: Args) -> Result<()> {
    let naming = Naming::of(&args.paths, args.json);
    let mut images = Images::default();
    let operands = images.operands(args.paths.clone())?;
    let mut list = List {
        args: &args,
        naming,
        has_headers: args.recursive || args.paths.len() > 1 || operands.len() > 1,
        groups: 0,
        colors: Colors::new(args.color),
        json: Vec::new(),
    };
    let mut files = Group::default();
    let mut directories = Vec::new();
    for (endpoint, at) in operands {
        let name = naming.name(&at.image, &at.path);
        let sorted = list.is_directory(&*endpoint, &at).and_then(|is_directory| {
            if is_directory {
                directories.push((endpoint, at, name));
                return Ok(());
            }
            if args.is_long() && files.entries.is_empty() {
                files.accounts = list.accounts(&*endpoint);
            }
            let follows = args.dereference || args.dereference_command_line;
            files
                .entries
                .push(Entry::of(&args, &*endpoint, name, &at.path, follows)?);
            Ok(())
        });
        sorted.or_else(failures::report)?;
    }
    if !files.entries.is_empty() {
        list.show(files)?;
    }
    directories.sort_by(|(_, _, a), (_, _, b)| a.cmp(b));
    if args.reverse {
        directories.reverse();
    }
    for (endpoint, at, _) in &directories {
        list.directory(&**endpoint, at)?;
    }
    list.finish()?;
    drop(directories);
    images.close()
}

/// What is listed.
struct List<'a> {
    args: &'a Args,
    naming: Naming,
    /// Directories are named.
    has_headers: bool,
    /// How many groups were printed.
    groups: usize,
    colors: Colors,
    json: Vec<GroupJson>,
}

impl List<'_> {
    /// Whether the files in it are meant.
    fn is_directory(&self, endpoint: &dyn Endpoint, at: &InImage) -> Result<bool> {
        let Args { directory, .. } = self.args;
        let own = endpoint.get(&at.path, false)?.attr.kind;
        if *directory || own != FileKind::Symlink {
            return Ok(!directory && own == FileKind::Directory);
        }
        let leads_to = endpoint.find(&at.path, true).ok().flatten();
        let leads_to = leads_to.map_or(own, |found| found.attr.kind);
        Ok(self.args.enters_links() && leads_to == FileKind::Directory)
    }

    fn accounts(&self, endpoint: &dyn Endpoint) -> Accounts {
        match self.args.is_long() && !self.args.numeric_uid_gid {
            true => Accounts::of(endpoint),
            false => Accounts::default(),
        }
    }

    /// Lists a directory, and with -R all below it.
    fn directory(&mut self, endpoint: &dyn Endpoint, at: &InImage) -> Result<()> {
        let args = self.args;
        let mut stack = vec![at.path.clone()];
        // In a damaged image a directory may be below itself.
        let mut entered = HashSet::new();
        while let Some(path) = stack.pop() {
            interrupt::check()?;
            let read = self.group(endpoint, &at.image, &path, &mut entered);
            let Some(group) = read
                .map(Some)
                .or_else(|e| failures::report(e).map(|()| None))?
            else {
                continue;
            };
            if args.recursive {
                let below = group.entries.iter().rev().filter(|entry| {
                    let kind = entry.attr.map(|attr| attr.kind);
                    kind == Some(FileKind::Directory) && entry.name != b"." && entry.name != b".."
                });
                stack.extend(below.map(|entry| path.join(paths::path(&entry.name))));
            }
            self.show(group)?;
        }
        Ok(())
    }

    /// The files of a directory.
    fn group(
        &self,
        endpoint: &dyn Endpoint,
        image: &Path,
        path: &Path,
        entered: &mut HashSet<u64>,
    ) -> Result<Group> {
        let args = self.args;
        let ino = endpoint.get(path, true)?.attr.ino;
        if !entered.insert(ino) {
            let name = endpoint.display(path);
            bail!("{name}: damaged: directory {ino} has two names");
        }
        let mut names = endpoint.list(path)?;
        if args.all || args.all_unsorted {
            names.extend([b".".to_vec(), b"..".to_vec()]);
        }
        names.retain(|name| args.shows(name));
        let mut group = Group {
            path: Some(self.naming.name(image, path)),
            entries: Vec::with_capacity(names.len()),
            accounts: self.accounts(endpoint),
        };
        for name in names {
            let path = path.join(paths::path(&name));
            match Entry::of(args, endpoint, name.clone(), &path, args.dereference) {
                Ok(entry) => group.entries.push(entry),
                Err(e) => {
                    failures::report(e)?;
                    group.entries.push(Entry::unreadable(name));
                }
            }
        }
        Ok(group)
    }

    fn show(&mut self, mut group: Group) -> Result<()> {
        entry::sort(self.args, &mut group.entries);
        if self.args.json {
            let path = group
                .path
                .as_deref()
                .or(group.entries.first().map(|e| &*e.name));
            self.json.push(GroupJson {
                path: show::PathJson::new(path.unwrap_or_default()),
                entries: group.entries.iter().filter_map(Entry::json).collect(),
            });
            return Ok(());
        }
        let mut out = BufWriter::new(std::io::stdout().lock());
        if self.groups > 0 {
            out.write_all(b"\n")?;
        }
        self.groups += 1;
        if let Some(path) = group.path.as_ref().filter(|_| self.has_headers) {
            out.write_all(&show::name(path))?;
            out.write_all(b":\n")?;
        }
        print(self.args, &self.colors, &group, &mut out)?;
        Ok(out.flush()?)
    }

    /// Prints what is printed at the end.
    fn finish(self) -> Result<()> {
        let has_pattern = |path: &OsString| glob::is_pattern(path.as_encoded_bytes());
        if !self.args.json {
            return Ok(());
        }
        if self.has_headers || self.args.paths.iter().any(has_pattern) {
            return show::json(&self.json);
        }
        show::json(
            &self
                .json
                .into_iter()
                .flat_map(|group| group.entries)
                .collect::<Vec<_>>(),
        )
    }
}

fn print(args: &Args, colors: &Colors, group: &Group, out: &mut impl Write) -> Result<()> {
    let long = Long::of(args, colors, &group.accounts, &group.entries);
    if group.path.is_some() && (args.is_long() || args.size) {
        writeln!(out, "total {}", long.total())?;
    }
    let lines: Vec<Line> = group.entries.iter().map(|entry| long.line(entry)).collect();
    let on_terminal = std::io::stdout().is_terminal() && !args.one && !args.zero;
    if !args.is_long() && (args.columns || on_terminal) {
        return Ok(columns::write(&lines, columns::width(args.width), out)?);
    }
    let end = if args.zero { b"\0" } else { b"\n" };
    for line in lines {
        out.write_all(&line.text)?;
        out.write_all(end)?;
    }
    Ok(())
}

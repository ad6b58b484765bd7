//! `uext4 complete`: the candidates that the completions of shells ask for.

use crate::endpoint::Endpoint;
use crate::images::Images;
use crate::location::Location;
use crate::system::paths;
use crate::{commands, diagnostics};
use anyhow::Result;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use uext4::{FileKind, ImageName};

/// Print what may complete the last of some words, a line for each candidate
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "Example: uext4 complete -- uext4 ls disk.img:/e"
)]
pub struct Args {
    /// The words of the command line so far, the last one incomplete
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub fn run(args: &Args) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for candidate in candidates(&args.words) {
        // A line is a candidate.
        if !candidate.as_encoded_bytes().contains(&b'\n') {
            out.write_all(candidate.as_encoded_bytes())?;
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

fn candidates(words: &[OsString]) -> Vec<OsString> {
    let Some((last, before)) = words.split_last() else {
        return Vec::new();
    };
    let mut command = commands::help::command();
    command.build();
    let mut command = &command;
    for word in before.iter().skip(1) {
        let inner = word.to_str().and_then(|word| command.find_subcommand(word));
        command = inner.unwrap_or(command);
    }
    let previous = before.last().and_then(|word| word.to_str());
    let takes_value = |arg: &&clap::Arg| previous.is_some_and(|word| is_option(arg, word));
    if let Some(option) = command.get_arguments().find(takes_value) {
        let values = option.get_possible_values();
        if !values.is_empty() && option.get_action().takes_values() {
            let names = values.iter().map(|value| value.get_name().to_owned());
            return starting_with(last, names);
        }
    }
    if last.as_encoded_bytes().starts_with(b"-") {
        let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let long = visible.filter_map(|arg| Some(format!("--{}", arg.get_long()?)));
        return starting_with(last, long);
    }
    if command.has_subcommands() {
        let visible = command
            .get_subcommands()
            .filter(|inner| !inner.is_hide_set());
        return starting_with(last, visible.map(|inner| inner.get_name().to_owned()));
    }
    files(last)
}

fn is_option(arg: &clap::Arg, word: &str) -> bool {
    let long = word.strip_prefix("--");
    let short = word.strip_prefix('-').and_then(|word| word.chars().last());
    match long {
        Some(long) => arg.get_long() == Some(long),
        None => short.is_some() && arg.get_short() == short,
    }
}

fn starting_with(word: &OsStr, names: impl Iterator<Item = String>) -> Vec<OsString> {
    let mut found: Vec<OsString> = names
        .map(OsString::from)
        .filter(|name| name.as_encoded_bytes().starts_with(word.as_encoded_bytes()))
        .collect();
    found.sort();
    found
}

/// Files of the host, or of an image if the word names one.
fn files(word: &OsStr) -> Vec<OsString> {
    match Location::parse(word.to_owned()) {
        Location::Image(at) if ImageName::parse(&at.image).path().is_file() => {
            let mut images = Images::default();
            let found = images.source(&at.image);
            let inside = found.map(|endpoint| below(&*endpoint, &paths::bytes(&at.path)));
            let of_image = |path: OsString| {
                let mut text = at.image.clone().into_os_string().into_encoded_bytes();
                text.push(b':');
                text.extend_from_slice(path.as_encoded_bytes());
                paths::word(text)
            };
            inside
                .unwrap_or_default()
                .into_iter()
                .map(of_image)
                .collect()
        }
        _ => below_host(word),
    }
}

/// A path as a directory and the beginning of a name in it.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let slash = bytes.iter().rposition(|b| *b == b'/');
    bytes.split_at(slash.map_or(0, |at| at + 1))
}

/// The directory, and one of its names, with a slash if that is a directory.
fn joined(dir: &[u8], name: &[u8], is_directory: bool) -> OsString {
    let slash: &[u8] = if is_directory { b"/" } else { b"" };
    paths::word([dir, name, slash].concat())
}

fn below(endpoint: &dyn Endpoint, path: &[u8]) -> Vec<OsString> {
    let (dir, start) = split(path);
    let dir_path = paths::path(dir);
    let mut names = endpoint.list(&dir_path).unwrap_or_default();
    names.retain(|name| name.starts_with(start) && (!start.is_empty() || !name.starts_with(b".")));
    let candidate = |name: Vec<u8>| {
        let found = endpoint.find(&dir_path.join(paths::path(&name)), true);
        let kind = found.ok().flatten().map(|found| found.attr.kind);
        joined(dir, &name, kind == Some(FileKind::Directory))
    };
    names.into_iter().map(candidate).collect()
}

fn below_host(word: &OsStr) -> Vec<OsString> {
    let (dir, start) = split(word.as_encoded_bytes());
    let dir_path = match dir {
        b"" => OsString::from("."),
        dir => paths::word(dir.to_vec()),
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir_path).into_iter().flatten().flatten() {
        let name = paths::into_bytes(entry.file_name());
        if !name.starts_with(start) || start.is_empty() && name.starts_with(b".") {
            continue;
        }
        let path = entry.path();
        found.push(joined(dir, &name, path.is_dir()));
        if path.is_file() && diagnostics::has_magic(&path) {
            let mut inside = joined(dir, &name, false).into_encoded_bytes();
            inside.extend_from_slice(b":/");
            found.push(paths::word(inside));
        }
    }
    found.sort();
    found
}

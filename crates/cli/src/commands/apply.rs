//! `uext4 apply`.

use super::Command;
use super::script::{self, Parser};
use crate::diagnostics::Usage;
use crate::system::paths;
use crate::{diagnostics, failures, images, interrupt, show};
use anyhow::Result;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Change an image by a list of commands: all of them, or none
///
/// Each line of SCRIPT is a command of uext4 that changes files, without `uext4`, quoted as for a shell; # begins a comment.
/// In it :/path is a file of IMAGE; files of the host and of other images can be copied from, and are not changed. The first
/// command that fails ends the list.
///
/// What the commands change is kept in memory, and written when the last is done, as one transaction of the
/// journal: after a failure or a crash the image has all of it or nothing. An image without a journal has no such
/// guarantee against a crash, or a full host; one whose journal is too small for the transaction is refused, which
/// -n does not find out.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 apply disk.img changes
  printf 'rm :/etc/motd\\ncp -a motd :/etc/' | uext4 apply disk.img -
  uext4 apply -n disk.img changes          # tries it

A script:
  mkdir -p :/srv/app
  cp -a build/app :/srv/app/          # from the host
  ln -s /srv/app/app :/usr/bin/app
  chmod 4755 :/srv/app/app
  rm -r ':/var/cache/old files'")]
pub struct Args {
    /// Try the commands, and write nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Say nothing
    #[arg(short, long)]
    quiet: bool,
    /// What was done as JSON, or why nothing was
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// The image
    image: PathBuf,
    /// The commands, one on each line; - for standard input
    script: PathBuf,
}

/// A command of a script.
struct Line {
    number: usize,
    command: Command,
}

#[derive(Serialize)]
struct Json {
    commands: usize,
    changed_bytes: u64,
    written: bool,
}

/// What was not done, and why.
#[derive(Serialize)]
struct FailureJson {
    commands: usize,
    changed_bytes: u64,
    /// Nothing where a crash or an error of the host leaves it open.
    written: Option<bool>,
    /// The line of the command that failed, if one did.
    line: Option<usize>,
    error: String,
}

/// How far a script came.
#[derive(Default)]
struct State {
    commands: usize,
    /// The line of the command that runs.
    line: Option<usize>,
    /// Whether the changes may be in the image.
    may_be_written: bool,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let mut state = State::default();
    let done = apply(args, &mut state);
    if let Err(e) = &done
        && args.json
        && !diagnostics::is_of_output(e)
    {
        show::json(&FailureJson {
            commands: state.commands,
            changed_bytes: 0,
            written: (!state.may_be_written).then_some(false),
            line: state.line,
            error: diagnostics::one_line(e),
        })?;
    }
    done
}

fn apply(args: &Args, state: &mut State) -> Result<ExitCode> {
    let lines = read(args, state)?;
    interrupt::catch()?;
    interrupt::keeps_nothing();
    failures::end_at_first();
    let edit = images::edit(&args.image, !args.dry_run)?;
    let commands = lines.len();
    state.commands = commands;
    for line in lines {
        interrupt::check()?;
        state.line = Some(line.number);
        if let Err(e) = line.command.run() {
            let place = at(args, line.number);
            let is_signal = e.is::<interrupt::Interrupted>();
            return Err(e.context(match is_signal {
                true => place,
                false => format!("{place}: nothing was changed"),
            }));
        }
    }
    state.line = None;
    let written = !args.dry_run && commands > 0;
    let changed_bytes = match written {
        true => edit.commit().map_err(|e| {
            state.may_be_written = e.errno() != uext4::Errno::EFBIG;
            failed(args, e)
        })?,
        false => 0,
    };
    if args.json {
        show::json(&Json {
            commands,
            changed_bytes,
            written,
        })?;
    } else if !args.quiet {
        let what = match written {
            true => format!("{} changed", show::bytes(changed_bytes)),
            false => "nothing was written".to_owned(),
        };
        let commands = show::count(commands as u64, "command", "commands");
        let image = args.image.display();
        writeln!(std::io::stdout(), "{image}: {commands}, {what}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The changes can't be made.
fn failed(args: &Args, e: uext4::Error) -> anyhow::Error {
    match e.errno() {
        uext4::Errno::EFBIG => anyhow::anyhow!(
            "{}: {e}; nothing was changed: use several scripts, or an image with a larger journal (`uext4 mkfs --journal-size`)",
            args.image.display()
        ),
        uext4::Errno::ENOSPC => anyhow::anyhow!(
            "{}: {e}: the host has no space left; an image with a journal has all of the changes when it is opened again, or none",
            args.image.display()
        ),
        _ => diagnostics::opening_to_write(&args.image, &e),
    }
}

/// Where a line is, for messages.
fn at(args: &Args, number: usize) -> String {
    format!("{}:{number}", args.script.display())
}

/// Reads the script. All of it is examined before the first command.
fn read(args: &Args, state: &mut State) -> Result<Vec<Line>> {
    let (mut lines, mut parser) = (Vec::new(), Parser::new());
    for (number, words) in script::read(&args.script)? {
        state.line = Some(number);
        let command = words.and_then(|words| parse(&mut parser, &args.image, words));
        let command = command.map_err(|why| Usage(format!("{}: {why}", at(args, number))))?;
        lines.push(Line { number, command });
    }
    state.line = None;
    Ok(lines)
}

/// Parses a command; why it can't be one of a script.
fn parse(parser: &mut Parser, image: &Path, words: Vec<Vec<u8>>) -> Result<Command, String> {
    let name = words
        .first()
        .map(|name| String::from_utf8_lossy(name).into_owned());
    let cli = parser.parse(words.iter().map(|word| in_image(image, word)))?;
    if cli.options.are_of_process() {
        return Err("options of all commands are given to `uext4 apply` itself".to_owned());
    }
    match cli.command.changes_files() {
        true => Ok(cli.command),
        false => Err(format!(
            "{} is not a command that changes files",
            name.unwrap_or_default()
        )),
    }
}

/// A word with the image put in front of `:/path`, also behind `--option=`.
fn in_image(image: &Path, word: &[u8]) -> OsString {
    let option = match word.iter().position(|byte| *byte == b'=') {
        Some(at) if word.starts_with(b"--") => at + 1,
        _ => 0,
    };
    let (option, path) = word.split_at(option);
    if !path.starts_with(b":/") {
        return paths::word(word.to_vec());
    }
    let image = image.as_os_str().as_encoded_bytes();
    // It is not an option.
    let front: &[u8] = if image.starts_with(b"-") { b"./" } else { b"" };
    paths::word([option, front, image, path].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_image_are_completed() {
        let put = |word: &str| in_image(Path::new("a.img"), word.as_bytes());
        assert_eq!(put(":/etc"), "a.img:/etc");
        assert_eq!(put("--reference=:/etc"), "--reference=a.img:/etc");
        assert_eq!(in_image(Path::new("-a"), b":/etc"), "./-a:/etc");
        for other in ["etc", "x:/etc", "-a", "a=:/b", ""] {
            assert_eq!(put(other), other);
        }
    }
}

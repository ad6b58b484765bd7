//! Lists of commands: one on each line, without `uext4`, quoted as for a shell.

use super::help;
use crate::Cli;
use anyhow::Result;
use clap::FromArgMatches;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

/// A line that has words, and its number; or why they can't be read.
pub type Line = (usize, Result<Vec<Vec<u8>>, String>);

/// Reads a list; `-` is standard input.
///
/// # Errors
/// The host's.
pub fn read(list: &Path) -> Result<Vec<Line>> {
    let mut bytes = Vec::new();
    let read = match list.as_os_str() == "-" {
        true => std::io::stdin().read_to_end(&mut bytes),
        false => std::fs::File::open(list).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    read.map_err(|e| anyhow::anyhow!("{}: {e}", list.display()))?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let lines = text.split(|byte| *byte == b'\n').zip(1..);
    let lines = lines.map(|(line, number)| {
        let words = shlex::bytes::split(line.strip_suffix(b"\r").unwrap_or(line));
        let what = "a quotation mark or backslash has no end";
        (number, words.ok_or_else(|| what.to_owned()))
    });
    Ok(lines
        .filter(|(_, words)| words.as_ref().map_or(true, |words| !words.is_empty()))
        .collect())
}

/// What commands are parsed with.
pub struct Parser(clap::Command);

impl Parser {
    pub fn new() -> Parser {
        Parser(help::command())
    }

    /// Parses the words of a command; why they are none, in one line.
    pub fn parse(&mut self, words: impl IntoIterator<Item = OsString>) -> Result<Cli, String> {
        let words = std::iter::once(OsString::from("uext4")).chain(words);
        let matches = self.0.try_get_matches_from_mut(words);
        let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
        cli.map_err(|e| {
            if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                return "only prints its help or version".to_owned();
            }
            let text = e.to_string();
            let said = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let said = said.take_while(|line| !line.starts_with("Usage:"));
            let said: Vec<&str> = said.collect();
            said.join(" ").trim_start_matches("error: ").to_owned()
        })
    }
}

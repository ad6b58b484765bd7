//! `uext4 help`: commands by what they are for, and topics.

mod meanings;
mod topics;

pub use self::topics::TOPICS;
use crate::near_names;
use anyhow::{Result, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use std::fmt::Write as _;
use std::io::Write as _;

/// Print the help of a command, or about a topic
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uext4 help cp\n  uext4 help patterns     how files in images are named"
)]
pub struct Args {
    /// A command, or a topic; `uext4 help` lists both
    words: Vec<String>,
}

/// The exit code for a command line that is wrong.
const USAGE: i32 = 2;
/// That for help that can't be printed.
const FAILED: u8 = 1;

/// The commands, by what they are for.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Build", &["mkfs"]),
    (
        "Read",
        &[
            "ls", "tree", "cat", "find", "stat", "readlink", "du", "df", "lsattr", "getfacl",
            "info", "label",
        ],
    ),
    (
        "Change",
        &[
            "cp", "mv", "rm", "mkdir", "rmdir", "ln", "mknod", "mkfifo", "touch", "truncate",
            "chmod", "chown", "chgrp", "chattr", "setfacl", "xattr", "fsverity", "apply",
        ],
    ),
    ("Maintain", &["tune", "quota", "resize", "trim"]),
    ("Export", &["export", "diff"]),
    ("Verify", &["check", "undo", "dump"]),
    (
        "Mount",
        &["mount", "umount", "freeze", "thaw", "key", "stats"],
    ),
    (
        "More",
        &[
            "batch",
            "device",
            "mqueue",
            "bench",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// The command line, with its commands in groups.
pub fn command() -> Command {
    let command = crate::Cli::command();
    let list = list(&command);
    let style = *command.get_styles().get_header();
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{style}Options:{style:#}\n{{options}}{{after-help}}"
    ))
}

/// The commands and topics, a line for each.
fn list(command: &Command) -> String {
    let mut text = String::new();
    let style = *command.get_styles().get_header();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "{style}{heading}:{style:#}");
        for name in names {
            let Some(found) = command.find_subcommand(name) else {
                continue;
            };
            let about = found
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            let _ = writeln!(text, "  {name:<12} {about}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{style}Topics:{style:#} uext4 help TOPIC");
    for topic in TOPICS {
        let _ = writeln!(text, "  {:<12} {}", topic.name, topic.about);
    }
    text.push('\n');
    text
}

/// Reports a command line that is wrong, and exits.
pub fn exit(mut e: clap::Error) -> ! {
    // That an unknown option be taken as an operand is never meant.
    if e.kind() == ErrorKind::UnknownArgument {
        e.remove(ContextKind::Suggested);
    }
    for (given, suggested) in [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (
            ContextKind::InvalidSubcommand,
            ContextKind::SuggestedSubcommand,
        ),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ] {
        remove_what_is_not_alike(&mut e, given, suggested);
    }
    let command = command_given();
    let (what, line) =
        if let Some(ContextValue::String(word)) = e.get(ContextKind::InvalidSubcommand) {
            let line = match (command.as_deref(), word.contains(":/")) {
                (Some("xattr"), true) => Some("xattr list -d IMAGE:/PATH"),
                _ => meanings::meant(word),
            };
            (format!("{word}: no such command"), line)
        } else if let (Some(command), Some(ContextValue::String(option))) =
            (command, e.get(ContextKind::InvalidArg))
        {
            let line = meanings::option_meant(&command, option);
            (format!("{command}: has no option {option}"), line)
        } else {
            print_and_exit(&e)
        };
    let Some(line) = line else {
        print_and_exit(&e);
    };
    let end = if line.contains('`') {
        ""
    } else {
        "` does that"
    };
    crate::show::warn(format_args!("{what}; `uext4 {line}{end}"));
    std::process::exit(USAGE);
}

/// The command that the arguments name.
fn command_given() -> Option<String> {
    let command = crate::Cli::command();
    let mut words = std::env::args_os().filter_map(|word| word.into_string().ok());
    words.find(|word| command.find_subcommand(word).is_some())
}

/// Keeps of what is suggested only what is spelled nearly as what was given.
fn remove_what_is_not_alike(e: &mut clap::Error, given: ContextKind, suggested: ContextKind) {
    let Some(ContextValue::String(word)) = e.get(given) else {
        return;
    };
    // The dashes make no two options alike.
    let bare = |word: &str| word.trim_start_matches('-').to_owned();
    let is_near = |other: &String| near_names::are_alike(&bare(word), &bare(other));
    let left = match e.get(suggested) {
        Some(ContextValue::String(other)) if is_near(other) => return,
        Some(ContextValue::Strings(others)) => others
            .iter()
            .filter(|other| is_near(other))
            .cloned()
            .collect(),
        _ => Vec::new(),
    };
    if e.remove(suggested).is_some() {
        // It shows the command line with what was suggested.
        e.remove(ContextKind::Usage);
    }
    if !left.is_empty() {
        e.insert(suggested, ContextValue::Strings(left));
    }
}

/// Prints help, the version, or what is wrong, and exits.
fn print_and_exit(e: &clap::Error) -> ! {
    let code = match e.print() {
        Err(why) if !e.use_stderr() => crate::end(&why.into(), FAILED).into(),
        _ => e.exit_code(),
    };
    std::process::exit(code);
}

pub fn run(args: &Args) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if let [topic] = &*args.words
        && let Some(topic) = TOPICS.iter().find(|other| other.name == topic)
    {
        return Ok(out.write_all(topic.text().as_bytes())?);
    }
    let mut command = command();
    // Gives each its full name.
    command.build();
    let mut found = &mut command;
    for word in &args.words {
        let Some(inner) = found.find_subcommand_mut(word) else {
            bail!("{word}: neither a command nor a topic; `uext4 help` lists both");
        };
        found = inner;
    }
    drop(out);
    Ok(found.print_long_help()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_has_examples() {
        let command = command();
        for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let name = inner.get_name();
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name));
            assert_eq!(groups.count(), 1, "{name}");
            let help = inner.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{name}");
            let about = inner.get_about().unwrap().to_string();
            assert!(
                about.len() <= 64 && !about.contains('\n'),
                "{name}: {about}"
            );
        }
    }

    /// What has lines of its own is not wrapped well.
    #[test]
    fn texts_fit_a_terminal() {
        let mut texts: Vec<_> = TOPICS
            .iter()
            .map(|topic| (topic.name.to_owned(), topic.text()))
            .collect();
        let mut commands = vec![command()];
        while let Some(command) = commands.pop() {
            let after = [command.get_after_help(), command.get_after_long_help()];
            for text in after.into_iter().flatten() {
                texts.push((command.get_name().to_owned(), text.to_string()));
            }
            commands.extend(command.get_subcommands().cloned());
        }
        let lines = texts
            .iter()
            .flat_map(|(name, text)| text.lines().map(move |l| (name, l)));
        let wide: Vec<_> = lines.filter(|(_, l)| l.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}

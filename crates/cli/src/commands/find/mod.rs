//! `uext4 find`.
//!
//! | module | holds |
//! | --- | --- |
//! | [`expression`] | the expressions of find(1) |
//! | [`search`] | what they say of a file |

mod expression;
mod search;

use super::walk::{Follow, walk_following};
use crate::diagnostics;
use crate::images::Images;
use crate::location::{InImage, Location, Naming};
use crate::{failures, interrupt, show};
use anyhow::Result;
use expression::{Expression, Options};
use search::Search;
use std::ffi::OsString;

/// Find files by name, type, size, time, owner or mode, as find(1)
///
/// Prints them as IMAGE:/path. All start points have the same expression, which is written after them; without
/// an action each file for which it is true is printed. Operators: ( EXPR ), ! EXPR, EXPR -a EXPR, EXPR -o EXPR.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "\
Tests:
  -name PATTERN  -iname PATTERN  the name matches; -i: in upper or lower case
  -path PATTERN  -ipath PATTERN  the whole path matches; * matches slashes too
  -lname PATTERN                 the target of a symbolic link matches
  -type f,d,l,c,b,p,s            file, directory, symlink, devices, pipe, socket
  -size [+-]N[ckMG]              the size, rounded up to the unit; without one,
                                 512 bytes
  -perm MODE | -MODE | /MODE     exactly these bits, all of them, any of them
  -user NAME  -group NAME  -uid N  -gid N  -nouser  -nogroup
  -mtime [+-]DAYS  -atime  -ctime  -mmin [+-]MINUTES  -amin  -cmin
  -newer FILE  -anewer  -cnewer  after the time of a file: /path in the image,
                                 or a name on the host
  -newermt TIME                  after a time such as 2026-01-31 (UTC)
  -links [+-]N  -inum N  -samefile FILE  -empty  -true  -false
Actions:
  -print  -print0  -prune  -quit
  -delete                        removes the file, after what is below it
Options:
  -maxdepth N  -mindepth N       how far below the start
  -depth                         the files of a directory before the directory

Examples:
  uext4 find disk.img:/usr -name '*.so*' -type f
  uext4 find disk.img:/ -perm -4000 -o -perm -2000
  uext4 find disk.img:/var -size +10M -mtime -7
  uext4 find disk.img:/etc -type f -print0 | xargs -0 uext4 cat --no-glob
  uext4 find disk.img:/var/log -name '*.log' -delete
  uext4 find disk.img:/home --json -user ann")]
pub struct Args {
    /// Follow all symbolic links
    #[arg(short = 'L', overrides_with_all = ["physical", "operands"])]
    logical: bool,
    /// Follow symbolic links among the start points
    #[arg(short = 'H', overrides_with_all = ["physical", "logical"])]
    operands: bool,
    /// Follow none; so it is without -L and -H
    #[arg(short = 'P', overrides_with_all = ["logical", "operands"])]
    physical: bool,
    /// End each path with a zero byte
    #[arg(long, short = '0')]
    print0: bool,
    /// As JSON, with the fields of `ls --json`
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Start points as IMAGE:/path, and the expression
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "START... EXPRESSION"
    )]
    words: Vec<OsString>,
}

pub fn run(mut args: Args) -> Result<()> {
    let is_expression = |word: &OsString| {
        let bytes = word.as_encoded_bytes();
        (bytes.starts_with(b"-") && bytes.len() > 1) || ["(", ")", "!"].iter().any(|w| word == w)
    };
    // An option of ours before the start.
    let at = args.words.iter().position(|word| !is_expression(word));
    let starts = at.map_or(0, |at| {
        args.words[at..]
            .iter()
            .position(is_expression)
            .unwrap_or(args.words.len() - at)
    });
    let at = at.unwrap_or(0);
    let mut words = args.words.split_off(at + starts);
    let starts = args.words.split_off(at);
    args.words.append(&mut words);
    if starts.is_empty() {
        return Err(diagnostics::Usage(
            "no start point; give IMAGE:/path before the expression".to_owned(),
        )
        .into());
    }
    let before = (at > 0).then(|| args.words[0].display().to_string());
    let parsed = expression::parse(&args.words);
    let (expression, mut options) = parsed.map_err(|why| {
        diagnostics::Usage(match before {
            Some(word) => format!(
                "{word} stands before the start point; give IMAGE:/path first, then the expression"
            ),
            None => why,
        })
    })?;
    options.json |= args.json;
    let follow = match (args.logical || options.follow, args.operands) {
        (true, _) => Follow::Always,
        (_, true) => Follow::Start,
        _ => Follow::Never,
    };
    let is_image =
        |start: &&OsString| matches!(Location::parse((*start).clone()), Location::Host(_));
    if options.deletes
        && let Some(start) = starts.iter().find(is_image)
    {
        return Err(diagnostics::no_file_named(start.as_ref()));
    }
    let mut images = Images::default();
    let found = find(
        &mut images,
        starts,
        follow,
        &expression,
        options,
        args.print0,
    );
    let closed = images.close();
    if let Some(found) = found? {
        show::json(&found)?;
    }
    closed
}

fn find(
    images: &mut Images,
    starts: Vec<OsString>,
    follow: Follow,
    expression: &Expression,
    options: Options,
    zero: bool,
) -> Result<Option<Vec<show::FileJson>>> {
    let naming = Naming::of(&starts, options.json);
    let Some(first) = starts.first().cloned().map(InImage::parse) else {
        return Ok(None);
    };
    let mut targets = Vec::new();
    if options.deletes {
        interrupt::catch()?;
        for start in &starts {
            targets.push(images.get(&InImage::parse(start.clone()).image, true)?);
        }
    }
    let operands = images.operands(starts)?;
    let mut search = Search::new(images, &first, expression, options, naming, zero, targets)?;
    for (endpoint, at) in operands {
        if search.is_over() {
            break;
        }
        let done = search.begin(&*endpoint, &at).and_then(|()| {
            walk_following(&*endpoint, &at.path, follow, |met| {
                search.visit(&*endpoint, met)
            })?;
            search.end(&*endpoint)
        });
        done.or_else(failures::report)?;
    }
    search.finish()
}

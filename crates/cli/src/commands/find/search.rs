//! What an expression says of a file.

use super::expression::{Action, Bits, Expression, Options, Pattern, Test, Time};
use crate::accounts::Accounts;
use crate::commands::walk::{Met, Next};
use crate::endpoint::{Endpoint, Host, Image};
use crate::images::Images;
use crate::location::{InImage, Location, Naming};
use crate::system::paths;
use crate::{failures, glob, show};
use anyhow::{Result, bail};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use uext4::unstable::Attr;
use uext4::{FileKind, Timestamp};

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

/// A search: what it looks up once, and what it has found.
pub struct Search<'a> {
    expression: &'a Expression,
    options: Options,
    naming: Naming,
    /// Ends every path with a zero byte.
    zero: bool,
    now: i64,
    /// The files that the expression names, with the numbers of their endpoints.
    references: HashMap<OsString, (usize, Attr)>,
    /// The image of the start point.
    image: PathBuf,
    accounts: Accounts,
    /// The images that are open to be changed.
    targets: Vec<Arc<Image>>,
    /// Directories whose files are visited before them.
    pending: Vec<Met>,
    is_over: bool,
    out: BufWriter<StdoutLock<'static>>,
    found: Vec<show::FileJson>,
}

/// A file, while an expression is evaluated.
struct Candidate<'a> {
    endpoint: &'a dyn Endpoint,
    met: &'a Met,
    next: Next,
}

impl<'a> Search<'a> {
    /// Prepares a search.
    ///
    /// # Errors
    /// A file that the expression names.
    pub fn new(
        images: &mut Images,
        start: &InImage,
        expression: &'a Expression,
        options: Options,
        naming: Naming,
        zero: bool,
        targets: Vec<Arc<Image>>,
    ) -> Result<Search<'a>> {
        let mut references = HashMap::new();
        let mut failed = Ok(());
        each_test(expression, &mut |test| {
            if let Test::NewerThanFile(_, file) | Test::SameFile(file) = test {
                match reference(images, start, file) {
                    Ok(found) => drop(references.insert(file.clone(), found)),
                    Err(e) => failed = Err(e),
                }
            }
        });
        failed?;
        let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        Ok(Search {
            expression,
            options,
            naming,
            zero,
            now: now.cast_signed(),
            references,
            image: PathBuf::new(),
            accounts: Accounts::default(),
            targets,
            pending: Vec::new(),
            is_over: false,
            out: BufWriter::new(std::io::stdout().lock()),
            found: Vec::new(),
        })
    }

    /// Whether -quit ended it.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Begins at a start point.
    ///
    /// # Errors
    /// A user or group that the image does not name.
    pub fn begin(&mut self, endpoint: &dyn Endpoint, at: &InImage) -> Result<()> {
        self.image.clone_from(&at.image);
        let mut names_accounts = false;
        each_test(self.expression, &mut |test| {
            names_accounts |= matches!(
                test,
                Test::User(_) | Test::Group(_) | Test::NoUser | Test::NoGroup
            );
        });
        if !names_accounts {
            return Ok(());
        }
        self.accounts = Accounts::of(endpoint);
        let mut unknown = None;
        each_test(self.expression, &mut |test| match test {
            Test::User(name) if self.uid(name).is_none() => unknown = Some(("user", name.clone())),
            Test::Group(name) if self.gid(name).is_none() => {
                unknown = Some(("group", name.clone()))
            }
            _ => {}
        });
        match unknown {
            Some((kind, name)) => {
                bail!("{at}: the image has no {kind} {name}; a number can be given too")
            }
            None => Ok(()),
        }
    }

    fn uid(&self, name: &str) -> Option<u32> {
        self.accounts.uid(name).or_else(|| name.parse().ok())
    }

    fn gid(&self, name: &str) -> Option<u32> {
        self.accounts.gid(name).or_else(|| name.parse().ok())
    }

    /// Visits a file.
    ///
    /// # Errors
    /// One of the file, or of the output.
    pub fn visit(&mut self, endpoint: &dyn Endpoint, met: &Met) -> Result<Next> {
        let is_deepest = self.options.depth_max.is_some_and(|most| met.depth >= most);
        let below = if is_deepest {
            Next::Skip
        } else {
            Next::Descend
        };
        if !self.options.children_first {
            return Ok(match self.evaluate(endpoint, met)? {
                Next::Descend => below,
                next => next,
            });
        }
        self.leave(endpoint, met.depth)?;
        if met.attr.kind == FileKind::Directory {
            self.pending.push(met.clone());
        } else {
            self.evaluate(endpoint, met)?;
        }
        Ok(if self.is_over { Next::Stop } else { below })
    }

    /// Evaluates what was left for the end of a start point.
    ///
    /// # Errors
    /// As [`Search::visit`].
    pub fn end(&mut self, endpoint: &dyn Endpoint) -> Result<()> {
        self.leave(endpoint, 0)
    }

    /// Evaluates the directories from this depth on, whose files have been visited.
    fn leave(&mut self, endpoint: &dyn Endpoint, depth: usize) -> Result<()> {
        while let Some(met) = self.pending.pop_if(|met| met.depth >= depth) {
            if !self.is_over {
                // The files that follow are visited also if this fails.
                if let Err(e) = self.evaluate(endpoint, &met) {
                    failures::report(e)?;
                }
            }
        }
        Ok(())
    }

    /// Writes what is not written yet; the files for JSON.
    ///
    /// # Errors
    /// Of the output.
    pub fn finish(mut self) -> Result<Option<Vec<show::FileJson>>> {
        self.out.flush()?;
        Ok(self.options.json.then_some(self.found))
    }

    fn evaluate(&mut self, endpoint: &dyn Endpoint, met: &Met) -> Result<Next> {
        if met.depth < self.options.depth_min {
            return Ok(Next::Descend);
        }
        let mut candidate = Candidate {
            endpoint,
            met,
            next: Next::Descend,
        };
        let expression = self.expression;
        self.is_true(expression, &mut candidate)?;
        Ok(if self.is_over {
            Next::Stop
        } else {
            candidate.next
        })
    }

    fn is_true(&mut self, expression: &Expression, file: &mut Candidate<'_>) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        Ok(match expression {
            Expression::Is(test) => self.test(test, file)?,
            Expression::Do(action) => {
                self.act(*action, file)?;
                true
            }
            Expression::Not(inner) => !self.is_true(inner, file)?,
            Expression::And(a, b) => self.is_true(a, file)? && self.is_true(b, file)?,
            Expression::Or(a, b) => self.is_true(a, file)? || self.is_true(b, file)?,
        })
    }

    fn act(&mut self, action: Action, file: &mut Candidate<'_>) -> Result<()> {
        let end = match action {
            Action::Prune => {
                file.next = Next::Skip;
                return Ok(());
            }
            Action::Quit => {
                self.is_over = true;
                return Ok(());
            }
            Action::Delete => return self.delete(file),
            Action::Print(end) => end,
        };
        let name = self.naming.name(&self.image, &file.met.path);
        if self.options.json {
            let attr = &file.met.attr;
            let target = match attr.kind {
                FileKind::Symlink => Some(file.endpoint.read_link(&file.met.path)?),
                _ => None,
            };
            self.found
                .push(show::FileJson::new(&name, attr, target.as_deref()));
        } else if end == 0 || self.zero {
            self.out.write_all(&name)?;
            self.out.write_all(b"\0")?;
        } else {
            self.out.write_all(&show::name(&name))?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Removes a file; the root stays, as the start point of find(1) does.
    fn delete(&self, file: &Candidate<'_>) -> Result<()> {
        let path = &file.met.path;
        let id = file.endpoint.id();
        let image = self.targets.iter().find(|image| image.id() == id);
        let (Some(image), Some(_)) = (image, path.file_name()) else {
            return Ok(());
        };
        let removed = match file.met.attr.kind {
            FileKind::Directory => image.fs().remove_dir(paths::bytes(path)),
            _ => image.fs().remove_file(paths::bytes(path)),
        };
        removed.map_err(|e| image.fail(path, e))
    }

    fn test(&self, test: &Test, file: &Candidate<'_>) -> Result<bool> {
        let (attr, path) = (&file.met.attr, &file.met.path);
        Ok(match test {
            Test::Constant(value) => *value,
            Test::Name(pattern) => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                matches(pattern, &paths::bytes(name))
            }
            Test::Path(pattern) => {
                let full = InImage {
                    image: self.image.clone(),
                    path: path.clone(),
                };
                matches(pattern, &paths::bytes(path))
                    || matches(pattern, full.to_string().as_bytes())
            }
            Test::Target(pattern) => {
                attr.kind == FileKind::Symlink && matches(pattern, &file.endpoint.read_link(path)?)
            }
            Test::Kind(kinds) => kinds.contains(&attr.kind),
            Test::Size(number, unit) => number.is(attr.size.div_ceil(*unit)),
            Test::Mode(Bits::Exactly, bits) => attr.mode == *bits,
            Test::Mode(Bits::All, bits) => attr.mode & bits == *bits,
            Test::Mode(Bits::Any, bits) => *bits == 0 || attr.mode & bits != 0,
            Test::User(name) => self.uid(name) == Some(attr.uid),
            Test::Group(name) => self.gid(name) == Some(attr.gid),
            Test::Uid(number) => number.is(attr.uid.into()),
            Test::Gid(number) => number.is(attr.gid.into()),
            Test::NoUser => self.accounts.user_name(attr.uid).is_none(),
            Test::NoGroup => self.accounts.group_name(attr.gid).is_none(),
            Test::NewerThanFile(time, than) => self
                .references
                .get(than)
                .is_some_and(|(_, than)| is_after(time_of(attr, *time), than.mtime)),
            Test::NewerThan(time, than) => is_after(time_of(attr, *time), *than),
            Test::Days(time, number) => {
                let days = (self.now - time_of(attr, *time).sec).div_euclid(DAY);
                u64::try_from(days).map_or(number.is(0), |days| number.is(days))
            }
            Test::Minutes(time, number) => {
                // Unlike days, minutes that have begun count.
                let age = self.now - time_of(attr, *time).sec;
                let minutes = (age + MINUTE - 1).div_euclid(MINUTE).max(0);
                number.is(minutes.unsigned_abs())
            }
            Test::Empty => match attr.kind {
                FileKind::Regular => attr.size == 0,
                FileKind::Directory => file.endpoint.list(path)?.is_empty(),
                _ => false,
            },
            Test::Links(number) => number.is(attr.nlink.into()),
            Test::Inode(number) => number.is(attr.ino),
            Test::SameFile(other) => self
                .references
                .get(other)
                .is_some_and(|(id, other)| *id == file.endpoint.id() && other.ino == attr.ino),
        })
    }
}

fn time_of(attr: &Attr, time: Time) -> Timestamp {
    match time {
        Time::Access => attr.atime,
        Time::Modify => attr.mtime,
        Time::Change => attr.ctime,
        Time::Birth => attr.crtime,
    }
}

fn is_after(time: Timestamp, than: Timestamp) -> bool {
    (time.sec, time.nsec) > (than.sec, than.nsec)
}

fn matches(pattern: &Pattern, name: &[u8]) -> bool {
    match pattern.ignores_case {
        true => glob::matches(&pattern.text, &name.to_ascii_lowercase()),
        false => glob::matches(&pattern.text, name),
    }
}

/// Calls `visit` for each test of an expression.
fn each_test(expression: &Expression, visit: &mut impl FnMut(&Test)) {
    match expression {
        Expression::Is(test) => visit(test),
        Expression::Do(_) => {}
        Expression::Not(inner) => each_test(inner, visit),
        Expression::And(a, b) | Expression::Or(a, b) => {
            each_test(a, visit);
            each_test(b, visit);
        }
    }
}

/// A file that an expression names: of an image, or of the host. An absolute path is one of the image of the start point.
fn reference(images: &mut Images, start: &InImage, file: &OsStr) -> Result<(usize, Attr)> {
    let location = match file.as_encoded_bytes().starts_with(b"/")
        && !file.as_encoded_bytes().contains(&b':')
    {
        true => Location::Image(InImage {
            image: start.image.clone(),
            path: PathBuf::from(file),
        }),
        false => Location::parse(file.to_owned()),
    };
    match location {
        Location::Image(at) => {
            let endpoint = images.source(&at.image)?;
            Ok((endpoint.id(), endpoint.get(&at.path, false)?.attr))
        }
        Location::Host(path) => {
            let path: &Path = &path;
            Ok((Host.id(), Host.get(path, true)?.attr))
        }
    }
}

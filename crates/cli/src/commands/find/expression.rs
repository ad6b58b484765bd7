//! The expressions of find(1).

use crate::mode::ModeChange;
use crate::timestamp;
use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::slice::Iter;
use uext4::{FileKind, Timestamp};

/// An expression: what is true of a file, and what is done with it.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A test.
    Is(Test),
    /// What is done.
    Do(Action),
    /// The opposite.
    Not(Box<Expression>),
    /// Both; the second only if the first is true.
    And(Box<Expression>, Box<Expression>),
    /// One of both; the second only if the first is false.
    Or(Box<Expression>, Box<Expression>),
}

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Its path is printed, with this at its end.
    Print(u8),
    /// What is below it is left out.
    Prune,
    /// The search ends.
    Quit,
    /// The file is removed.
    Delete,
}

/// A test.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Always so, or never.
    Constant(bool),
    /// The name matches a pattern.
    Name(Pattern),
    /// The path matches a pattern.
    Path(Pattern),
    /// The target of a symbolic link matches a pattern.
    Target(Pattern),
    /// One of these kinds.
    Kind(Vec<FileKind>),
    /// The size, rounded up to units of bytes.
    Size(Number, u64),
    /// The permission bits.
    Mode(Bits, u16),
    /// The owner, by name or number.
    User(String),
    /// The group, by name or number.
    Group(String),
    /// The number of the owner.
    Uid(Number),
    /// The number of the group.
    Gid(Number),
    /// The owner has no name.
    NoUser,
    /// The group has no name.
    NoGroup,
    /// A time is after the change of a file's data; its location is an operand.
    NewerThanFile(Time, OsString),
    /// A time is after this one.
    NewerThan(Time, Timestamp),
    /// How long ago a time is, in days.
    Days(Time, Number),
    /// The same in minutes.
    Minutes(Time, Number),
    /// A file or directory with nothing in it.
    Empty,
    /// The number of names.
    Links(Number),
    /// The inode.
    Inode(Number),
    /// The same file as this one; its location is an operand.
    SameFile(OsString),
}

/// A pattern of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Its text, in lower case if upper and lower case are the same.
    pub text: Vec<u8>,
    /// Upper and lower case are the same.
    pub ignores_case: bool,
}

/// A number to compare with: `+N`, `-N` or `N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// What a number is, compared with `than`.
    pub ordering: Ordering,
    /// The number.
    pub than: u64,
}

impl Number {
    /// Whether a number compares so.
    pub fn is(self, number: u64) -> bool {
        number.cmp(&self.than) == self.ordering
    }
}

/// Which permission bits have to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// These and no others.
    Exactly,
    /// All of these.
    All,
    /// Any of these, or none is asked for.
    Any,
}

/// A time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Of the last access.
    Access,
    /// Of the last change of its data.
    Modify,
    /// Of the last change of its attributes.
    Change,
    /// When it was made.
    Birth,
}

/// Options, which hold for the whole search wherever they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Directories above this depth only.
    pub depth_max: Option<usize>,
    /// Nothing above this depth.
    pub depth_min: usize,
    /// The files of a directory before it.
    pub children_first: bool,
    /// As -L.
    pub follow: bool,
    /// As JSON.
    pub json: bool,
    /// Files are removed.
    pub deletes: bool,
}

/// Reads an expression, with the options that stand in it. Without an action, it prints.
///
/// # Errors
/// What is wrong, for the user.
pub fn parse(words: &[OsString]) -> Result<(Expression, Options), String> {
    let mut parser = Parser {
        words: words.iter(),
        options: Options::default(),
        acts: false,
        end: b'\n',
        value: None,
    };
    let mut expression = match words {
        [] => Expression::Is(Test::Constant(true)),
        _ => parser.or()?,
    };
    if let Some(word) = parser.words.next() {
        return Err(format!("`{}` closes nothing", word.to_string_lossy()));
    }
    if !parser.acts {
        let print = Box::new(Expression::Do(Action::Print(parser.end)));
        expression = Expression::And(Box::new(expression), print);
    }
    Ok((expression, parser.options))
}

struct Parser<'a> {
    words: Iter<'a, OsString>,
    options: Options,
    /// An action was read, so that nothing is printed but by actions.
    acts: bool,
    /// What ends a path where there is no action.
    end: u8,
    /// Of `--NAME=VALUE`.
    value: Option<OsString>,
}

type Parsed = Result<Expression, String>;

impl<'a> Parser<'a> {
    fn next_is(&mut self, words: &[&str]) -> bool {
        let next = self.words.as_slice().first();
        let is = next.is_some_and(|next| words.iter().any(|word| next == word));
        if is {
            self.words.next();
        }
        is
    }

    fn or(&mut self) -> Parsed {
        let mut left = self.and()?;
        while self.next_is(&["-o", "-or"]) {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.not()?;
        loop {
            let next = self.words.as_slice().first().map(OsString::as_os_str);
            let ends = [")", "-o", "-or"];
            if next.is_none_or(|next| ends.iter().any(|end| next == *end)) {
                return Ok(left);
            }
            let _ = self.next_is(&["-a", "-and"]);
            left = Expression::And(Box::new(left), Box::new(self.not()?));
        }
    }

    fn not(&mut self) -> Parsed {
        // Many in a row must not fill the stack.
        let mut is_negated = false;
        while self.next_is(&["!", "-not"]) {
            is_negated = !is_negated;
        }
        let inner = self.primary()?;
        Ok(match is_negated {
            true => Expression::Not(Box::new(inner)),
            false => inner,
        })
    }

    fn primary(&mut self) -> Parsed {
        let Some(word) = self.words.next() else {
            return Err("the expression ends where a test is expected".to_owned());
        };
        if word == "(" {
            let inner = self.or()?;
            return match self.next_is(&[")"]) {
                true => Ok(inner),
                false => Err("`(` is not closed".to_owned()),
            };
        }
        let text = word.to_string_lossy();
        // What has one dash may have two as well, and then `=`.
        let name = match text.strip_prefix("--") {
            Some(name) if !name.is_empty() => match name.split_once('=') {
                Some((name, value)) => {
                    self.value = Some(OsString::from(value));
                    format!("-{name}")
                }
                None => format!("-{name}"),
            },
            _ => text.into_owned(),
        };
        let found = self.named(&name)?;
        match self.value.take() {
            Some(_) => Err(format!("{name} takes no value")),
            None => Ok(found),
        }
    }

    /// The test, action or option with this name.
    fn named(&mut self, name: &str) -> Parsed {
        if let Some(found) = self.option(name)? {
            return Ok(found);
        }
        if let Some(action) = self.action(name)? {
            self.acts |= action != Action::Prune;
            return Ok(Expression::Do(action));
        }
        if let Some(test) = self.test_of_name(name)? {
            return Ok(Expression::Is(test));
        }
        match self.test_of_attributes(name)? {
            Some(test) => Ok(Expression::Is(test)),
            None => Err(unknown(name)),
        }
    }

    fn option(&mut self, name: &str) -> Result<Option<Expression>, String> {
        match name {
            "-maxdepth" => self.options.depth_max = Some(self.whole(name)? as usize),
            "-mindepth" => self.options.depth_min = self.whole(name)? as usize,
            "-depth" | "-d" => self.options.children_first = true,
            "-follow" => self.options.follow = true,
            "-json" => self.options.json = true,
            "-0" => self.end = 0,
            // An image is one file system.
            "-xdev" | "-mount" | "-noleaf" | "-warn" | "-nowarn" => {}
            "-journal" => crate::images::set_journal(self.argument(name)?.into()),
            _ => return Ok(None),
        }
        Ok(Some(Expression::Is(Test::Constant(true))))
    }

    fn action(&mut self, name: &str) -> Result<Option<Action>, String> {
        Ok(Some(match name {
            "-print" => Action::Print(b'\n'),
            "-print0" => Action::Print(0),
            "-prune" => Action::Prune,
            "-quit" => Action::Quit,
            "-delete" => {
                // A directory is empty only after its files.
                self.options.children_first = true;
                self.options.deletes = true;
                Action::Delete
            }
            _ => return Ok(None),
        }))
    }

    fn test_of_name(&mut self, name: &str) -> Result<Option<Test>, String> {
        let ignores_case = name.starts_with("-i");
        Ok(Some(match name {
            "-name" | "-iname" => Test::Name(self.pattern(name, ignores_case)?),
            "-path" | "-wholename" | "-ipath" | "-iwholename" => {
                Test::Path(self.pattern(name, ignores_case)?)
            }
            "-lname" | "-ilname" => Test::Target(self.pattern(name, ignores_case)?),
            "-type" => Test::Kind(kinds(&self.text(name)?)?),
            "-samefile" => Test::SameFile(self.argument(name)?.to_owned()),
            "-true" => Test::Constant(true),
            "-false" => Test::Constant(false),
            "-empty" => Test::Empty,
            "-nouser" => Test::NoUser,
            "-nogroup" => Test::NoGroup,
            _ => return Ok(None),
        }))
    }

    fn test_of_attributes(&mut self, name: &str) -> Result<Option<Test>, String> {
        Ok(Some(match name {
            "-size" => self.size(name)?,
            "-perm" => self.permissions(name)?,
            "-user" => Test::User(self.text(name)?),
            "-group" => Test::Group(self.text(name)?),
            "-uid" => Test::Uid(self.number(name)?),
            "-gid" => Test::Gid(self.number(name)?),
            "-links" => Test::Links(self.number(name)?),
            "-inum" => Test::Inode(self.number(name)?),
            "-newer" => Test::NewerThanFile(Time::Modify, self.argument(name)?.to_owned()),
            "-anewer" => Test::NewerThanFile(Time::Access, self.argument(name)?.to_owned()),
            "-cnewer" => Test::NewerThanFile(Time::Change, self.argument(name)?.to_owned()),
            "-newermt" => self.newer(name, Time::Modify)?,
            "-newerat" => self.newer(name, Time::Access)?,
            "-newerct" => self.newer(name, Time::Change)?,
            "-newerBt" => self.newer(name, Time::Birth)?,
            "-mtime" => Test::Days(Time::Modify, self.number(name)?),
            "-atime" => Test::Days(Time::Access, self.number(name)?),
            "-ctime" => Test::Days(Time::Change, self.number(name)?),
            "-mmin" => Test::Minutes(Time::Modify, self.number(name)?),
            "-amin" => Test::Minutes(Time::Access, self.number(name)?),
            "-cmin" => Test::Minutes(Time::Change, self.number(name)?),
            _ => return Ok(None),
        }))
    }

    fn argument(&mut self, name: &str) -> Result<&'a OsStr, String> {
        let next = self.words.next().map(OsString::as_os_str);
        next.ok_or_else(|| format!("{name} needs a value after it"))
    }

    fn text(&mut self, name: &str) -> Result<String, String> {
        if let Some(value) = self.value.take() {
            return Ok(value.to_string_lossy().into_owned());
        }
        let text = self.argument(name)?.to_str();
        text.map(str::to_owned)
            .ok_or_else(|| format!("the value of {name} is not UTF-8"))
    }

    fn pattern(&mut self, name: &str, ignores_case: bool) -> Result<Pattern, String> {
        let mut text = match self.value.take() {
            Some(value) => value.as_encoded_bytes().to_vec(),
            None => self.argument(name)?.as_encoded_bytes().to_vec(),
        };
        if ignores_case {
            text.make_ascii_lowercase();
        }
        Ok(Pattern { text, ignores_case })
    }

    fn whole(&mut self, name: &str) -> Result<u64, String> {
        let text = self.text(name)?;
        let number = text.parse();
        number.map_err(|_| format!("{name} {text}: is not a number"))
    }

    fn number(&mut self, name: &str) -> Result<Number, String> {
        let text = self.text(name)?;
        number(&text).ok_or_else(|| format!("{name} {text}: give N, +N for more, or -N for less"))
    }

    fn size(&mut self, name: &str) -> Result<Test, String> {
        let text = self.text(name)?;
        let units = [
            ('c', 1),
            ('w', 2),
            ('b', 512),
            ('k', 1 << 10),
            ('M', 1 << 20),
            ('G', 1 << 30),
        ];
        let unit = units.iter().find(|(letter, _)| text.ends_with(*letter));
        let digits = text.strip_suffix(|c: char| unit.is_some_and(|(letter, _)| c == *letter));
        let size = number(digits.unwrap_or(&text)).ok_or_else(|| {
            format!("{name} {text}: give a number with c, k, M or G after it, and + or - before it, as +10M")
        })?;
        Ok(Test::Size(size, unit.map_or(512, |(_, bytes)| *bytes)))
    }

    fn permissions(&mut self, name: &str) -> Result<Test, String> {
        let text = self.text(name)?;
        let (bits, mode) = match text.split_at_checked(1) {
            Some(("-", mode)) => (Bits::All, mode),
            Some(("/", mode)) => (Bits::Any, mode),
            _ => (Bits::Exactly, &*text),
        };
        let mode = ModeChange::parse(mode).map_err(|why| format!("{name}: {why}"))?;
        Ok(Test::Mode(bits, mode.apply(0, false, 0)))
    }

    fn newer(&mut self, name: &str, time: Time) -> Result<Test, String> {
        let than = timestamp::parse(&self.text(name)?);
        let than = than.map_err(|why| format!("{name}: {why}"))?;
        Ok(Test::NewerThan(time, than))
    }
}

fn number(text: &str) -> Option<Number> {
    let (ordering, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (Ordering::Greater, digits),
        ("-", digits) => (Ordering::Less, digits),
        _ => (Ordering::Equal, text),
    };
    // The standard library would accept a second sign.
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit());
    let than = digits.parse().ok().filter(|_| is_number)?;
    Some(Number { ordering, than })
}

fn kinds(text: &str) -> Result<Vec<FileKind>, String> {
    let kind = |letter: &str| match letter {
        "f" => Ok(FileKind::Regular),
        "d" => Ok(FileKind::Directory),
        "l" => Ok(FileKind::Symlink),
        "c" => Ok(FileKind::CharDevice),
        "b" => Ok(FileKind::BlockDevice),
        "p" => Ok(FileKind::Fifo),
        "s" => Ok(FileKind::Socket),
        _ => Err(format!(
            "-type {text}: the types are f file, d directory, l symlink, c and b devices, p pipe and s socket, separated by commas"
        )),
    };
    text.split(',').map(kind).collect()
}

fn unknown(name: &str) -> String {
    let instead = match name {
        "-exec" | "-execdir" | "-ok" | "-okdir" => {
            "no programs are run: use -print0 | xargs -0, or --json"
        }
        "-printf" | "-fprintf" => {
            "use -print0 | xargs -0 uext4 stat --no-glob -c FORMAT, or --json, which has all attributes"
        }
        "-ls" | "-fls" => {
            "use -print0 | xargs -0 uext4 ls --no-glob -dils, or --json, which has all attributes"
        }
        "-fprint" | "-fprint0" => "use -print or -print0 with > FILE",
        "-regex" | "-iregex" => "use -path with a pattern, or grep",
        _ => return format!("{name}: is not known; `uext4 find --help` lists tests and actions"),
    };
    format!("{name}: {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(Expression, Options), String> {
        let words: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        parse(&words)
    }

    fn constant(value: bool) -> Box<Expression> {
        Box::new(Expression::Is(Test::Constant(value)))
    }

    const PRINT: Expression = Expression::Do(Action::Print(b'\n'));

    #[test]
    fn operators_bind_as_in_find() {
        let (expression, _) = parsed("-false -o ! -true -false").unwrap();
        let both = Expression::And(Box::new(Expression::Not(constant(true))), constant(false));
        let either = Expression::Or(constant(false), Box::new(both));
        assert_eq!(
            expression,
            Expression::And(Box::new(either), Box::new(PRINT))
        );
        let (expression, _) = parsed("( -false -o -true ) -a -false").unwrap();
        let either = Expression::Or(constant(false), constant(true));
        let both = Expression::And(Box::new(either), constant(false));
        assert_eq!(expression, Expression::And(Box::new(both), Box::new(PRINT)));
        let many = "! ".repeat(100_001) + "-true";
        assert!(parsed(&many).is_ok());
    }

    #[test]
    fn values() {
        let test = |text: &str| match parsed(text).unwrap().0 {
            Expression::And(test, _) => match *test {
                Expression::Is(test) => test,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        let more = Number {
            ordering: Ordering::Greater,
            than: 10,
        };
        assert_eq!(test("-size +10M"), Test::Size(more, 1 << 20));
        assert_eq!(test("-size +10"), Test::Size(more, 512));
        assert_eq!(test("-perm -4000"), Test::Mode(Bits::All, 0o4000));
        assert_eq!(test("-perm /u+w,g+w"), Test::Mode(Bits::Any, 0o220));
        assert_eq!(test("-perm 644"), Test::Mode(Bits::Exactly, 0o644));
        let two = vec![FileKind::Regular, FileKind::Symlink];
        assert_eq!(test("--type f,l"), Test::Kind(two));
        let pattern = Pattern {
            text: b"a*".to_vec(),
            ignores_case: true,
        };
        assert_eq!(test("-iname A*"), Test::Name(pattern.clone()));
        assert_eq!(test("--iname=A*"), Test::Name(pattern));
        let (_, options) = parsed("-maxdepth 2 -mindepth 1 --json").unwrap();
        assert_eq!((options.depth_max, options.depth_min), (Some(2), 1));
        assert!(options.json);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("-name", "needs a value"),
            ("( -true", "not closed"),
            ("-true )", "closes nothing"),
            ("-type x", "the types are"),
            ("-exec rm {} ;", "xargs -0"),
            ("-printf %s", "uext4 stat --no-glob -c"),
            ("-ls", "uext4 ls --no-glob -dils"),
            ("-frob", "is not known"),
            ("-size +-1", "give a number"),
            ("-mtime x", "+N for more"),
            ("-perm 9", "-perm: "),
            ("-true -o", "where a test is expected"),
            ("--print=3", "takes no value"),
        ] {
            let said = parsed(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}

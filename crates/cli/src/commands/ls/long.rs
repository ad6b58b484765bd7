//! What stands before a name, aligned.

use super::entry::Entry;
use super::{Args, TimeStyle};
use crate::accounts::Accounts;
use crate::colors::Colors;
use crate::{show, size, time_format};
use std::fmt::Write;
use uext4::FileKind;
use uext4::unstable::Attr;
use unicode_width::UnicodeWidthStr;

/// A file as it is shown.
pub struct Line {
    pub text: Vec<u8>,
    /// How many columns of a terminal that takes.
    pub width: usize,
}

/// How the files of a group are shown.
pub struct Long<'a> {
    args: &'a Args,
    colors: &'a Colors,
    accounts: &'a Accounts,
    widths: Widths,
    has_acl: bool,
    /// All that they take, in units of 512 bytes.
    sectors: u64,
}

#[derive(Default)]
struct Widths {
    inode: usize,
    blocks: usize,
    links: usize,
    user: usize,
    group: usize,
    size: usize,
    minor: usize,
    major: usize,
}

impl<'a> Long<'a> {
    /// For these files.
    pub fn of(
        args: &'a Args,
        colors: &'a Colors,
        accounts: &'a Accounts,
        entries: &[Entry],
    ) -> Long<'a> {
        let mut long = Long {
            args,
            colors,
            accounts,
            widths: Widths::default(),
            has_acl: entries.iter().any(|entry| entry.has_acl),
            sectors: 0,
        };
        let mut widths = Widths::default();
        for entry in entries {
            long.sectors += entry.attr.map_or(0, |attr| attr.blocks);
            let wider = |width: &mut usize, text: &str| *width = (*width).max(text.chars().count());
            let column = |text: fn(&Long<'_>, &Attr) -> String| {
                entry.attr.map_or("?".to_owned(), |attr| text(&long, &attr))
            };
            wider(&mut widths.inode, &column(|_, a| a.ino.to_string()));
            wider(&mut widths.blocks, &column(|l, a| l.blocks(a.blocks)));
            wider(&mut widths.links, &column(|_, a| a.nlink.to_string()));
            wider(&mut widths.user, &column(|l, a| l.user(a)));
            wider(&mut widths.group, &column(|l, a| l.group(a)));
            match entry.attr.filter(is_device) {
                Some(attr) => {
                    wider(&mut widths.major, &attr.rdev_major.to_string());
                    wider(&mut widths.minor, &attr.rdev_minor.to_string());
                }
                None => wider(&mut widths.size, &column(|l, a| l.bytes(a.size))),
            }
        }
        if widths.major > 0 {
            widths.size = widths.size.max(widths.major + 2 + widths.minor);
        }
        long.widths = widths;
        long
    }

    /// The space that all take.
    pub fn total(&self) -> String {
        self.blocks(self.sectors)
    }

    /// A line of the list.
    pub fn line(&self, entry: &Entry) -> Line {
        let mut text = String::new();
        let column = |of: &dyn Fn(&Attr) -> String| entry.attr.map_or("?".to_owned(), |a| of(&a));
        if self.args.inode {
            let width = self.widths.inode;
            let _ = write!(text, "{:>width$} ", column(&|a| a.ino.to_string()));
        }
        if self.args.size {
            let width = self.widths.blocks;
            let _ = write!(text, "{:>width$} ", column(&|a| self.blocks(a.blocks)));
        }
        if self.args.is_long() {
            self.long(entry, &mut text);
        }
        let mut width = text.chars().count();
        let mut text = text.into_bytes();
        let mut name = |name: &[u8], attr: Option<&Attr>, leads_to: Option<&Attr>| {
            let name = show::name(name);
            width += String::from_utf8_lossy(&name).width();
            text.extend_from_slice(&self.colors.paint(name, attr, leads_to));
        };
        let (attr, leads_to) = (entry.attr.as_ref(), entry.leads_to.as_ref());
        name(&entry.name, attr, leads_to);
        let mark = match entry.target.as_ref().filter(|_| self.args.is_long()) {
            Some(target) => {
                name(b" -> ", None, None);
                name(target, leads_to.or(attr), leads_to);
                leads_to.and_then(|attr| self.mark(attr))
            }
            None => attr.and_then(|attr| self.mark(attr)),
        };
        width += usize::from(mark.is_some());
        text.extend(mark);
        Line { text, width }
    }

    fn long(&self, entry: &Entry, text: &mut String) {
        let Widths {
            links,
            user,
            group,
            size,
            minor,
            ..
        } = self.widths;
        let args = self.args;
        let Some(attr) = entry.attr else {
            // What could not be read, in the columns of what could.
            let mark = if self.has_acl { " " } else { "" };
            let _ = write!(text, "??????????{mark} {:>links$} ", "?");
            if !args.no_owner {
                let _ = write!(text, "{:<user$} ", "?");
            }
            if self.has_group() {
                let _ = write!(text, "{:<group$} ", "?");
            }
            let times = self.time(&Entry::unreadable(Vec::new())).len();
            let _ = write!(text, "{:>size$} {:>times$} ", "?", "?");
            return;
        };
        text.push_str(&show::mode(&attr));
        if self.has_acl {
            text.push(if entry.has_acl { '+' } else { ' ' });
        }
        let _ = write!(text, " {:>links$} ", attr.nlink);
        // Names to the left, numbers to the right.
        let mut owner = |name: Option<&str>, id: u32, width: usize| {
            let _ = match name {
                Some(name) => write!(text, "{name:<width$} "),
                None => write!(text, "{id:>width$} "),
            };
        };
        if !args.no_owner {
            owner(self.accounts.user_name(attr.uid), attr.uid, user);
        }
        if self.has_group() {
            owner(self.accounts.group_name(attr.gid), attr.gid, group);
        }
        let _ = match is_device(&attr) {
            true => {
                let major = size - minor - 2;
                write!(
                    text,
                    "{:>major$}, {:>minor$} ",
                    attr.rdev_major, attr.rdev_minor
                )
            }
            false => write!(text, "{:>size$} ", self.bytes(attr.size)),
        };
        let _ = write!(text, "{} ", self.time(entry));
    }

    fn has_group(&self) -> bool {
        !self.args.no_group && !self.args.no_group_column
    }

    fn time(&self, entry: &Entry) -> String {
        let time = entry.time(self.args).unwrap_or_default();
        let full = self.args.full_time || self.args.time_style == Some(TimeStyle::FullIso);
        match full {
            true => time_format::with_zone(time),
            false => time_format::minutes(time),
        }
    }

    fn user(&self, attr: &Attr) -> String {
        let name = self.accounts.user_name(attr.uid);
        name.map_or_else(|| attr.uid.to_string(), str::to_owned)
    }

    fn group(&self, attr: &Attr) -> String {
        let name = self.accounts.group_name(attr.gid);
        name.map_or_else(|| attr.gid.to_string(), str::to_owned)
    }

    fn bytes(&self, bytes: u64) -> String {
        match (self.args.human_readable, self.args.si) {
            (_, true) => size::human(bytes, 1000),
            (true, _) => size::human(bytes, 1024),
            _ => bytes.to_string(),
        }
    }

    fn blocks(&self, sectors: u64) -> String {
        match self.args.human_readable || self.args.si {
            true => self.bytes(sectors * 512),
            false => sectors.div_ceil(2).to_string(),
        }
    }

    /// The character after a name, of -F and the options like it.
    fn mark(&self, attr: &Attr) -> Option<u8> {
        let args = self.args;
        let some = args.classify || args.file_type;
        match attr.kind {
            FileKind::Directory if some || args.slash => Some(b'/'),
            FileKind::Symlink if some => Some(b'@'),
            FileKind::Fifo if some => Some(b'|'),
            FileKind::Socket if some => Some(b'='),
            FileKind::Regular if args.classify && attr.mode & 0o111 != 0 => Some(b'*'),
            _ => None,
        }
    }
}

fn is_device(attr: &Attr) -> bool {
    matches!(attr.kind, FileKind::CharDevice | FileKind::BlockDevice)
}

//! A file of the list, and the order of files.

use super::{Args, Sort, Time};
use crate::acl::{self, Acl};
use crate::endpoint::Endpoint;
use crate::show;
use anyhow::Result;
use std::cmp::Ordering;
use std::path::Path;
use uext4::unstable::Attr;
use uext4::{FileKind, Timestamp};

/// A file of the list.
pub struct Entry {
    /// As it is shown.
    pub name: Vec<u8>,
    /// Nothing if it could not be read.
    pub attr: Option<Attr>,
    /// What a symbolic link holds.
    pub target: Option<Vec<u8>>,
    /// The attributes of the file that a symbolic link leads to.
    pub leads_to: Option<Attr>,
    /// It has an access control list.
    pub has_acl: bool,
}

impl Entry {
    /// The file at `path`, shown as `name`.
    pub fn of(
        args: &Args,
        endpoint: &dyn Endpoint,
        name: Vec<u8>,
        path: &Path,
        follows: bool,
    ) -> Result<Entry> {
        let target = match follows {
            true => endpoint.find(path, true)?,
            false => None,
        };
        let attr = match target {
            Some(found) => found.attr,
            None => endpoint.get(path, false)?.attr,
        };
        let mut entry = Entry {
            name,
            attr: Some(attr),
            target: None,
            leads_to: None,
            has_acl: false,
        };
        if attr.kind == FileKind::Symlink {
            entry.target = Some(endpoint.read_link(path)?);
            let leads_to = endpoint.find(path, true).ok().flatten();
            entry.leads_to = leads_to.map(|found| found.attr);
        } else if args.is_long() && !args.json {
            let path = if follows {
                endpoint.resolve(path)?
            } else {
                path.to_owned()
            };
            entry.has_acl = endpoint.xattrs(&path).is_ok_and(|xattrs| {
                let mut lists = xattrs
                    .iter()
                    .filter(|(name, _)| name == acl::ACCESS || name == acl::DEFAULT);
                lists.any(|(name, value)| {
                    name == acl::DEFAULT
                        || Acl::from_xattr(value).is_ok_and(|acl| acl.is_extended())
                })
            });
        }
        Ok(entry)
    }

    /// One that could not be read.
    pub fn unreadable(name: Vec<u8>) -> Entry {
        Entry {
            name,
            attr: None,
            target: None,
            leads_to: None,
            has_acl: false,
        }
    }

    /// As JSON; one that could not be read was reported.
    pub fn json(&self) -> Option<show::FileJson> {
        let attr = self.attr?;
        Some(show::FileJson::new(
            &self.name,
            &attr,
            self.target.as_deref(),
        ))
    }

    /// The time that is shown.
    pub fn time(&self, args: &Args) -> Option<Timestamp> {
        let attr = self.attr?;
        Some(match args.time() {
            Time::Mtime => attr.mtime,
            Time::Atime => attr.atime,
            Time::Ctime => attr.ctime,
            Time::Birth => attr.crtime,
        })
    }

    fn is_directory(&self) -> bool {
        let kind = |attr: &Option<Attr>| attr.map(|attr| attr.kind);
        kind(&self.attr) == Some(FileKind::Directory)
            || kind(&self.leads_to) == Some(FileKind::Directory)
    }
}

/// The bytes after the last dot, with it.
fn extension(name: &[u8]) -> &[u8] {
    let dot = name.iter().rposition(|byte| *byte == b'.');
    dot.map_or(b"", |at| &name[at..])
}

/// Puts entries into the order that is asked for.
pub fn sort(args: &Args, entries: &mut [Entry]) {
    let sort = args.sort();
    let by_sort = |a: &Entry, b: &Entry| match sort {
        Sort::None | Sort::Name => Ordering::Equal,
        Sort::Size => {
            let size = |entry: &Entry| entry.attr.map(|attr| attr.size);
            size(b).cmp(&size(a))
        }
        Sort::Time => {
            let time = |entry: &Entry| entry.time(args).map(|time| (time.sec, time.nsec));
            time(b).cmp(&time(a))
        }
        Sort::Extension => extension(&a.name).cmp(extension(&b.name)),
    };
    if sort == Sort::None {
        return;
    }
    entries.sort_by(|a, b| {
        let order = by_sort(a, b).then_with(|| a.name.cmp(&b.name));
        let order = if args.reverse { order.reverse() } else { order };
        match args.group_directories_first {
            true => b.is_directory().cmp(&a.is_directory()).then(order),
            false => order,
        }
    });
}

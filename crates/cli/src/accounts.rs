//! Names of users and groups: those of the image's own `/etc/passwd` and `/etc/group`.

use crate::endpoint::Endpoint;
use anyhow::Result;
use std::collections::HashMap;
use std::path::Path;
use uext4::FileKind;

/// More of a file than this is not read.
const BYTES_MAX: u64 = 16 << 20;

/// The users and groups that an endpoint names.
#[derive(Debug, Default)]
pub struct Accounts {
    users: Names,
    groups: Names,
    /// The group of each user's first entry.
    primary: HashMap<u32, u32>,
}

/// Names and numbers; of two that are equal, the first counts, as for getpwnam(3) and getpwuid(3).
#[derive(Debug, Default)]
struct Names {
    by_id: HashMap<u32, String>,
    by_name: HashMap<String, u32>,
}

impl Accounts {
    /// Those of an endpoint. A file that is missing or cannot be read names no accounts, and neither does a line without its fields.
    pub fn of(endpoint: &dyn Endpoint) -> Accounts {
        let mut accounts = Accounts::default();
        let passwd = read(endpoint, Path::new("/etc/passwd")).unwrap_or_default();
        for fields in entries(&passwd) {
            if let Some(uid) = accounts.users.add(&fields)
                && let Some(gid) = fields.get(3).and_then(|gid| gid.parse().ok())
            {
                accounts.primary.entry(uid).or_insert(gid);
            }
        }
        let group = read(endpoint, Path::new("/etc/group")).unwrap_or_default();
        for fields in entries(&group) {
            accounts.groups.add(&fields);
        }
        accounts
    }

    /// The name of a user.
    pub fn user_name(&self, uid: u32) -> Option<&str> {
        self.users.by_id.get(&uid).map(String::as_str)
    }

    /// The name of a group.
    pub fn group_name(&self, gid: u32) -> Option<&str> {
        self.groups.by_id.get(&gid).map(String::as_str)
    }

    /// The number of a user.
    pub fn uid(&self, name: &str) -> Option<u32> {
        number(&self.users, name)
    }

    /// The number of a group.
    pub fn gid(&self, name: &str) -> Option<u32> {
        number(&self.groups, name)
    }

    /// The group that a user has after logging in.
    pub fn primary_gid(&self, uid: u32) -> Option<u32> {
        self.primary.get(&uid).copied()
    }
}

impl Names {
    /// Adds the entry `NAME:PASSWORD:ID`; its number, if it is one.
    fn add(&mut self, fields: &[&str]) -> Option<u32> {
        let [name, _, id, ..] = fields else {
            return None;
        };
        let id = id.parse().ok().filter(|_| !name.is_empty())?;
        let name = (*name).to_owned();
        self.by_id.entry(id).or_insert_with(|| name.clone());
        self.by_name.entry(name).or_insert(id);
        Some(id)
    }
}

/// The entries of a file: its lines, split at colons. Lines that are not UTF-8 are left out.
fn entries(file: &[u8]) -> impl Iterator<Item = Vec<&str>> {
    let lines = file.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| str::from_utf8(line).ok())
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.trim_end_matches('\r').split(':').collect())
}

fn read(endpoint: &dyn Endpoint, path: &Path) -> Result<Vec<u8>> {
    let found = endpoint.get(path, true)?.attr;
    // Reading a pipe would wait.
    if found.kind != FileKind::Regular {
        return Ok(Vec::new());
    }
    let file = endpoint.open(path)?;
    let mut text = vec![0; found.size.min(BYTES_MAX) as usize];
    let read = file.read_at(&mut text, 0)?;
    text.truncate(read);
    Ok(text)
}

/// The number of a name; root has one in an image without accounts too.
fn number(names: &Names, name: &str) -> Option<u32> {
    let found = names.by_name.get(name).copied();
    found.or((name == "root").then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_numbers_with_names() {
        let mut names = Names::default();
        let text = b"root:x:0:0:root:/root:/bin/sh\n\n# comment:x:7\ntoor:x:0:0\nann:x:1000:50\r\n\
            broken\nroot:x:9:9\n:x:3:3\nnoid:x:y:3\nlatin\xe9:x:4:4\nlast:x:5";
        let added: Vec<_> = entries(text).filter_map(|f| names.add(&f)).collect();
        assert_eq!(added, [0, 0, 1000, 9, 5]);
        assert_eq!(names.by_id[&0], "root");
        assert_eq!(names.by_id[&5], "last");
        assert_eq!(names.by_name["root"], 0);
        assert_eq!(names.by_name["toor"], 0);
        assert_eq!(names.by_name.len(), 4);
    }

    #[test]
    fn root_needs_no_entry() {
        let none = Accounts::default();
        assert_eq!((none.uid("root"), none.gid("root")), (Some(0), Some(0)));
        assert_eq!((none.uid("daemon"), none.user_name(0)), (None, None));
    }
}

//! Access control lists: the values of `system.posix_acl_*`, and text as getfacl(1) and setfacl(1) have it.

use crate::accounts::Accounts;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use uext4::unstable::ondisk::{AclEntry, AclTag, acl_decode_xattr, acl_encode_xattr};

/// The attribute of a file's own list.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute of the list that a directory gives to what is made in it.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The subject of an entry; their order is that of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    /// The owner.
    UserObj,
    /// A user.
    User(u32),
    /// The owning group.
    GroupObj,
    /// A group.
    Group(u32),
    /// The most that users and groups get.
    Mask,
    /// All others.
    Other,
}

impl Tag {
    /// The word for it, and the number of the user or group that it names.
    fn kind_and_id(self) -> (&'static str, Option<u32>) {
        match self {
            Tag::UserObj => ("user", None),
            Tag::User(uid) => ("user", Some(uid)),
            Tag::GroupObj => ("group", None),
            Tag::Group(gid) => ("group", Some(gid)),
            Tag::Mask => ("mask", None),
            Tag::Other => ("other", None),
        }
    }
}

/// A list: permissions (read 4, write 2, execute 1) by subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    entries: BTreeMap<Tag, u8>,
}

/// An entry as JSON has it.
#[derive(Debug, Serialize)]
pub struct EntryJson {
    #[serde(rename = "tag")]
    kind: &'static str,
    /// The user or group; none is that of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u32>,
    permissions: String,
    /// What the mask leaves of them.
    effective: String,
}

/// An entry as setfacl(1) takes it: `[default:]user:NAME:PERMISSIONS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Of the default list.
    pub is_default: bool,
    /// Its subject.
    pub tag: Tag,
    /// Its permissions, if they are given.
    pub permissions: Option<Permissions>,
}

/// Permissions as text has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Read 4, write 2, execute 1.
    pub bits: u8,
    /// `X`: execute too, if it is a directory, or if the file has it for some user.
    pub execute_if_any: bool,
}

/// How much of [`Acl::lines`] is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effective {
    /// Where the mask takes something away.
    WhereLess,
    /// At each entry that has a mask.
    Always,
    /// Never.
    Never,
}

impl Acl {
    /// What permission bits alone say.
    pub fn of_mode(mode: u16) -> Acl {
        let bits = |shift: u16| (mode >> shift & 7) as u8;
        Acl {
            entries: BTreeMap::from([
                (Tag::UserObj, bits(6)),
                (Tag::GroupObj, bits(3)),
                (Tag::Other, bits(0)),
            ]),
        }
    }

    /// Reads the value of an attribute.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_xattr(value: &[u8]) -> Result<Acl, String> {
        let entries = acl_decode_xattr(value).map_err(|e| format!("damaged: {e}"))?;
        let entry = |e: &AclEntry| {
            let tag = match e.tag {
                AclTag::UserObj => Tag::UserObj,
                AclTag::User => Tag::User(e.id),
                AclTag::GroupObj => Tag::GroupObj,
                AclTag::Group => Tag::Group(e.id),
                AclTag::Mask => Tag::Mask,
                AclTag::Other => Tag::Other,
            };
            (tag, (e.perm & 7) as u8)
        };
        Ok(Acl {
            entries: entries.iter().map(entry).collect(),
        })
    }

    /// Makes the value of an attribute.
    pub fn to_xattr(&self) -> Vec<u8> {
        let entry = |(tag, bits): (&Tag, &u8)| {
            let (tag, id) = match *tag {
                Tag::UserObj => (AclTag::UserObj, None),
                Tag::User(uid) => (AclTag::User, Some(uid)),
                Tag::GroupObj => (AclTag::GroupObj, None),
                Tag::Group(gid) => (AclTag::Group, Some(gid)),
                Tag::Mask => (AclTag::Mask, None),
                Tag::Other => (AclTag::Other, None),
            };
            AclEntry {
                tag,
                perm: u16::from(*bits),
                id: id.unwrap_or(u32::MAX),
            }
        };
        acl_encode_xattr(&self.entries.iter().map(entry).collect::<Vec<_>>())
    }

    /// The permissions of a subject.
    pub fn get(&self, tag: Tag) -> Option<u8> {
        self.entries.get(&tag).copied()
    }

    /// Sets those.
    pub fn set(&mut self, tag: Tag, bits: u8) {
        self.entries.insert(tag, bits & 7);
    }

    /// Removes an entry; false if there was none.
    pub fn remove(&mut self, tag: Tag) -> bool {
        self.entries.remove(&tag).is_some()
    }

    /// Whether it has more than permission bits can hold.
    pub fn is_extended(&self) -> bool {
        self.entries.len() > 3 || self.needs_mask()
    }

    /// Whether it names users or groups, so that it needs a mask.
    pub fn needs_mask(&self) -> bool {
        let mut tags = self.entries.keys();
        tags.any(|tag| matches!(tag, Tag::User(_) | Tag::Group(_)))
    }

    /// Sets the mask to all that its group and the users and groups that it names have.
    pub fn update_mask(&mut self) {
        let masked = self.entries.iter().filter(|(tag, _)| is_masked(**tag));
        let mask = masked.fold(0, |mask, (_, bits)| mask | bits);
        self.set(Tag::Mask, mask);
    }

    /// The permission bits that stand for it: those of the mask, where it has one, are the group's.
    pub fn mode_bits(&self) -> u16 {
        let bits = |tag| u16::from(self.get(tag).unwrap_or(0));
        let group = self.get(Tag::Mask).map_or(bits(Tag::GroupObj), u16::from);
        bits(Tag::UserObj) << 6 | group << 3 | bits(Tag::Other)
    }

    /// The lines of getfacl(1), each with `prefix`; users and groups by name where `accounts` has one.
    pub fn lines(&self, prefix: &str, accounts: &Accounts, effective: Effective) -> String {
        let mut text = String::new();
        let mask = self.get(Tag::Mask);
        for (tag, bits) in &self.entries {
            let (kind, id) = tag.kind_and_id();
            let name = match *tag {
                Tag::User(uid) => accounts.user_name(uid),
                Tag::Group(gid) => accounts.group_name(gid),
                _ => None,
            };
            let id = id.map_or_else(String::new, |id| account(name, id));
            let _ = write!(text, "{prefix}{kind}:{id}:{}", rwx(*bits));
            if let Some(mask) = mask.filter(|_| is_masked(*tag)) {
                let left = bits & mask;
                if match effective {
                    Effective::WhereLess => left != *bits,
                    Effective::Always => true,
                    Effective::Never => false,
                } {
                    let _ = write!(text, "\t#effective:{}", rwx(left));
                }
            }
            text.push('\n');
        }
        text
    }

    /// Its entries as JSON has them.
    pub fn json(&self) -> Vec<EntryJson> {
        let mask = self.get(Tag::Mask);
        let entry = |(tag, bits): (&Tag, &u8)| {
            let (kind, id) = tag.kind_and_id();
            let mask = mask.filter(|_| is_masked(*tag));
            EntryJson {
                kind,
                id,
                permissions: rwx(*bits),
                effective: rwx(bits & mask.unwrap_or(7)),
            }
        };
        self.entries.iter().map(entry).collect()
    }

    /// Reads entries as setfacl(1) takes them, separated by commas or as lines, with comments after `#`. Users and groups are names of
    /// `accounts` or numbers.
    ///
    /// # Errors
    /// The entry that is none, and why.
    pub fn parse(text: &str, accounts: &Accounts) -> Result<Vec<Item>, String> {
        let lines = text.lines().map(|l| l.split('#').next().unwrap_or(l));
        let items = lines.flat_map(|line| line.split(','));
        items
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(|item| Item::parse(item, accounts).map_err(|why| format!("`{item}`: {why}")))
            .collect()
    }
}

impl Item {
    fn parse(text: &str, accounts: &Accounts) -> Result<Item, String> {
        let mut fields: Vec<&str> = text.split(':').map(str::trim).collect();
        let is_default = fields.len() > 1 && matches!(fields[0], "d" | "default");
        if is_default {
            fields.remove(0);
        }
        let (tag, rest) = match fields[..] {
            ["u" | "user", ref rest @ ..] if !rest.is_empty() => {
                (user(rest[0], accounts)?, &rest[1..])
            }
            ["g" | "group", ref rest @ ..] if !rest.is_empty() => {
                (group(rest[0], accounts)?, &rest[1..])
            }
            ["m" | "mask", ref rest @ ..] => (Tag::Mask, without_name(rest)),
            ["o" | "other", ref rest @ ..] => (Tag::Other, without_name(rest)),
            // A user, without the word.
            [name, ref rest @ ..] if !name.is_empty() => (user(name, accounts)?, rest),
            _ => {
                return Err(
                    "an entry is user:NAME:rwx, group:NAME:rwx, mask::rwx or other::rwx".to_owned(),
                );
            }
        };
        let permissions = match rest {
            [] | [""] => None,
            [text] => Some(Permissions::parse(text)?),
            _ => return Err("has more than a name and permissions".to_owned()),
        };
        Ok(Item {
            is_default,
            tag,
            permissions,
        })
    }
}

impl Permissions {
    fn parse(text: &str) -> Result<Permissions, String> {
        if let Ok(bits @ 0..=7) = text.parse() {
            return Ok(Permissions {
                bits,
                execute_if_any: false,
            });
        }
        let mut permissions = Permissions {
            bits: 0,
            execute_if_any: false,
        };
        for letter in text.chars() {
            match letter {
                'r' => permissions.bits |= 4,
                'w' => permissions.bits |= 2,
                'x' => permissions.bits |= 1,
                'X' => permissions.execute_if_any = true,
                '-' => {}
                _ => {
                    return Err(format!(
                        "`{text}` are not permissions: they have the letters r, w, x, X and -, or are one digit from 0 to 7"
                    ));
                }
            }
        }
        Ok(permissions)
    }
}

/// The fields after `mask` or `other`, whose name is empty or left out.
fn without_name<'a>(rest: &'a [&'a str]) -> &'a [&'a str] {
    match rest {
        ["", permissions @ ..] => permissions,
        permissions => permissions,
    }
}

fn user(name: &str, accounts: &Accounts) -> Result<Tag, String> {
    if name.is_empty() {
        return Ok(Tag::UserObj);
    }
    let uid = accounts.uid(name).or_else(|| name.parse().ok());
    uid.map(Tag::User).ok_or_else(|| {
        format!("the image has no user {name}; give a number, or add it to /etc/passwd")
    })
}

fn group(name: &str, accounts: &Accounts) -> Result<Tag, String> {
    if name.is_empty() {
        return Ok(Tag::GroupObj);
    }
    let gid = accounts.gid(name).or_else(|| name.parse().ok());
    gid.map(Tag::Group).ok_or_else(|| {
        format!("the image has no group {name}; give a number, or add it to /etc/group")
    })
}

const fn is_masked(tag: Tag) -> bool {
    matches!(tag, Tag::User(_) | Tag::GroupObj | Tag::Group(_))
}

/// A name, with what would end it in a line as octal numbers; or the number.
pub fn account(name: Option<&str>, id: u32) -> String {
    name.map_or_else(
        || id.to_string(),
        |name| escaped(name, |c| c.is_whitespace() || c == ':'),
    )
}

/// Text with `\` doubled, and characters that `is_special` finds, or that control a terminal, as octal numbers.
fn escaped(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            c if c.is_control() || is_special(c) => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
            c => out.push(c),
        }
    }
    out
}

fn rwx(bits: u8) -> String {
    let letter = |bit, letter| if bits & bit != 0 { letter } else { '-' };
    [letter(4, 'r'), letter(2, 'w'), letter(1, 'x')]
        .iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(bool, Tag, Option<u8>)>, String> {
        let items = Acl::parse(text, &Accounts::default())?;
        Ok(items
            .iter()
            .map(|i| (i.is_default, i.tag, i.permissions.map(|p| p.bits)))
            .collect())
    }

    #[test]
    fn entries_as_setfacl_takes_them() {
        let all =
            parse("u:1000:rw,user::7,g:50:r-x, m::r ,mask:rw,o:-,d:o::r\n# c\ndefault:g::x,9:r");
        let expected = [
            (false, Tag::User(1000), Some(6)),
            (false, Tag::UserObj, Some(7)),
            (false, Tag::Group(50), Some(5)),
            (false, Tag::Mask, Some(4)),
            (false, Tag::Mask, Some(6)),
            (false, Tag::Other, Some(0)),
            (true, Tag::Other, Some(4)),
            (true, Tag::GroupObj, Some(1)),
            (false, Tag::User(9), Some(4)),
        ];
        assert_eq!(all.unwrap(), expected);
        let named = parse("u:1000,g:50:,m,d:u:7").unwrap();
        assert_eq!(named[0], (false, Tag::User(1000), None));
        assert_eq!(named[1], (false, Tag::Group(50), None));
        assert_eq!(named[2], (false, Tag::Mask, None));
        assert_eq!(named[3], (true, Tag::User(7), None));
        for wrong in [
            "u:nouser:r",
            "g:nogroup:r",
            "u:1:q",
            "u:1:r:x",
            "u:1:8",
            ":r",
            "x",
        ] {
            let why = parse(wrong).unwrap_err();
            assert!(why.starts_with(&format!("`{wrong}`: ")), "{why}");
        }
        let any = Acl::parse("u::rX", &Accounts::default()).unwrap()[0].permissions;
        assert!(any.unwrap().execute_if_any && any.unwrap().bits == 4);
    }

    #[test]
    fn lists_are_values_and_text() {
        let mut acl = Acl::of_mode(0o640);
        assert!(!acl.is_extended());
        acl.set(Tag::Group(50), 7);
        acl.set(Tag::User(1000), 6);
        acl.update_mask();
        assert_eq!(acl.mode_bits(), 0o670);
        assert_eq!(Acl::from_xattr(&acl.to_xattr()), Ok(acl.clone()));
        assert!(acl.is_extended());
        acl.set(Tag::Mask, 4);
        let text = "user::rw-\nuser:1000:rw-\t#effective:r--\ngroup::r--\ngroup:50:rwx\t#effective:r--\n\
                    mask::r--\nother::---\n";
        let names = Accounts::default();
        assert_eq!(acl.lines("", &names, Effective::WhereLess), text);
        let all = acl.lines("", &names, Effective::Always);
        assert!(all.contains("group::r--\t#effective:r--"), "{all}");
        assert!(!acl.lines("", &names, Effective::Never).contains('#'));
        assert!(acl.remove(Tag::Mask) && !acl.remove(Tag::Mask));
        assert!(Acl::from_xattr(&[2, 0, 0, 0, 3, 0, 0, 0]).is_err());
        assert_eq!(account(Some("a b\\"), 1), "a\\040b\\\\");
    }
}

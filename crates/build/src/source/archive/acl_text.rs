//! Access control lists as text, as star(1) and GNU tar keep them: `user::rwx,user:ada:r-x:1000,mask::r-x`.

use uext4_ondisk::{AclEntry, AclTag};

/// Entries of a list; `None` of text that is none, or names a user or group without a number.
pub(crate) fn parse(text: &str) -> Option<Vec<AclEntry>> {
    let words = text.split([',', '\n']).map(str::trim);
    let mut entries: Vec<AclEntry> = words
        .filter(|word| !word.is_empty())
        .map(entry)
        .collect::<Option<_>>()?;
    entries.sort_by_key(|entry| (entry.tag, entry.id));
    Some(entries)
}

fn entry(word: &str) -> Option<AclEntry> {
    let mut parts = word.split(':');
    let (kind, name, permission) = (parts.next()?, parts.next()?, parts.next()?);
    let mut id = || parts.next().unwrap_or(name).parse().ok();
    let (tag, id) = match (kind, name) {
        ("user" | "u", "") => (AclTag::UserObj, u32::MAX),
        ("group" | "g", "") => (AclTag::GroupObj, u32::MAX),
        ("mask" | "m", "") => (AclTag::Mask, u32::MAX),
        ("other" | "o", "") => (AclTag::Other, u32::MAX),
        ("user" | "u", _) => (AclTag::User, id()?),
        ("group" | "g", _) => (AclTag::Group, id()?),
        _ => return None,
    };
    let mut perm = 0;
    for letter in permission.chars() {
        perm |= match letter {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            '-' => 0,
            _ => return None,
        };
    }
    Some(AclEntry { tag, perm, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_permission_or_take_the_name() {
        let list =
            parse("user::rwx,group::r-x,group:7:--x,user:ada:r--:1000,mask::r-x,other::---\n");
        let found: Vec<_> = list
            .unwrap()
            .iter()
            .map(|e| (e.tag, e.id, e.perm))
            .collect();
        let none = u32::MAX;
        assert_eq!(
            found,
            [
                (AclTag::UserObj, none, 7),
                (AclTag::User, 1000, 4),
                (AclTag::GroupObj, none, 5),
                (AclTag::Group, 7, 1),
                (AclTag::Mask, none, 5),
                (AclTag::Other, none, 0),
            ]
        );
        for wrong in [
            "user:ada:rwx",
            "user",
            "x::rwx",
            "user::rwz",
            "user:1:r--:x",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}

//! Ranges of users and groups that the caller has, in /etc/subuid and /etc/subgid.
//!
//! Source: subuid(5); the manual of podman-unshare(1).

use std::{fs, io};

use crate::error::{MkfsError, Result};
use crate::id_range::IdRange;

/// Users and groups as `podman unshare` maps them for the caller: itself as root, then the ranges of /etc/subuid and /etc/subgid,
/// from 1 on.
///
/// # Errors
/// [`MkfsError::Tree`]: the files can't be read, or name no range for the caller.
pub fn subordinate_ids() -> Result<(Vec<IdRange>, Vec<IdRange>)> {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = user_name(&users, uid);
    let read = |path: &str, own| {
        let fail = |e: io::Error| MkfsError::tree("take ranges from", path.into(), e);
        let text = fs::read_to_string(path).map_err(fail)?;
        let ranges = laid_out(own, &ranges_of(&text, uid, name.as_deref()));
        ranges.ok_or_else(|| {
            let whose = name.clone().unwrap_or(uid.to_string());
            fail(io::Error::other(format!("it has no range for {whose}")))
        })
    };
    Ok((read("/etc/subuid", uid)?, read("/etc/subgid", gid)?))
}

/// The name of a user in /etc/passwd.
fn user_name(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// First numbers and counts of a user's ranges.
fn ranges_of(text: &str, uid: u32, name: Option<&str>) -> Vec<(u32, u32)> {
    let lines = text.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (whose, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        let is_own = Some(whose) == name || whose.parse() == Ok(uid);
        is_own.then_some((first.parse().ok()?, count.parse().ok()?))
    });
    lines.collect()
}

/// The own number as 0, and ranges from 1 on; `None` without ranges.
fn laid_out(own: u32, ranges: &[(u32, u32)]) -> Option<Vec<IdRange>> {
    let mut out = vec![IdRange {
        inside: 0,
        outside: own,
        count: 1,
    }];
    let mut inside: u32 = 1;
    for (outside, count) in ranges.iter().filter(|(_, count)| *count > 0) {
        outside.checked_add(count - 1)?;
        out.push(IdRange {
            inside,
            outside: *outside,
            count: *count,
        });
        inside = inside.checked_add(*count)?;
    }
    (out.len() > 1).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::id_map::IdMap;

    #[test]
    fn subordinate_ranges_follow_the_own_number() {
        let users = "root:x:0:0::/:/bin/sh\nada:x:1000:1000::/:/bin/sh\n";
        assert_eq!(user_name(users, 1000).as_deref(), Some("ada"));
        let text = "root:1:2\nada:100000:65536\n# none\n1000:300000:10\n";
        let ranges = ranges_of(text, 1000, Some("ada"));
        assert_eq!(ranges, [(100_000, 65_536), (300_000, 10)]);
        let map = IdMap::new("map-uid", &laid_out(1000, &ranges).unwrap());
        let map = map.unwrap().unwrap();
        let found = [1000, 100_000, 300_009, 300_010].map(|id| map.inside(id));
        assert_eq!(found, [Some(0), Some(1), Some(65_546), None]);
        assert!(laid_out(0, &[]).is_none());
    }
}

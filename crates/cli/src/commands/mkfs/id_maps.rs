//! What `--map-uid` and `--map-gid` take.

use crate::system::users::subordinate_ids;
use uext4::MkfsError;
use uext4::unstable::{BuildOptions, IdRange};

/// A range, or those of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdMapArg {
    /// `INSIDE:OUTSIDE:COUNT`.
    Range(IdRange),
    /// Those in /etc/subuid and /etc/subgid.
    Subordinate,
}

impl IdMapArg {
    /// Reads the value of `--map-uid`.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn users(text: &str) -> Result<IdMapArg, String> {
        IdMapArg::parse(text, "subuid")
    }

    /// Reads the value of `--map-gid`.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn groups(text: &str) -> Result<IdMapArg, String> {
        IdMapArg::parse(text, "subgid")
    }

    fn parse(text: &str, subordinate: &str) -> Result<IdMapArg, String> {
        match text == subordinate {
            true => Ok(IdMapArg::Subordinate),
            false => IdRange::parse(text).map(IdMapArg::Range),
        }
    }
}

/// Adds the ranges to options. Groups follow the users of the caller unless they have ranges of their own.
///
/// # Errors
/// The caller has no ranges.
pub fn apply(
    users: &[IdMapArg],
    groups: &[IdMapArg],
    options: &mut BuildOptions,
) -> Result<(), MkfsError> {
    let is_subordinate = |list: &[IdMapArg]| list.contains(&IdMapArg::Subordinate);
    let both = is_subordinate(users) && groups.is_empty();
    if is_subordinate(users) || is_subordinate(groups) {
        let (uids, gids) = subordinate_ids()?;
        if is_subordinate(users) {
            options.map_uid.extend(uids);
        }
        if both || is_subordinate(groups) {
            options.map_gid.extend(gids);
        }
    }
    let ranges = |list: &[IdMapArg]| {
        let ranges = list.iter().filter_map(|arg| match arg {
            IdMapArg::Range(range) => Some(*range),
            IdMapArg::Subordinate => None,
        });
        ranges.collect::<Vec<_>>()
    };
    options.map_uid.extend(ranges(users));
    options.map_gid.extend(ranges(groups));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_ranges_of_their_own() {
        let arg = |text| IdMapArg::users(text).unwrap();
        let mut options = BuildOptions::default();
        apply(&[arg("0:5:1"), arg("1:9:2")], &[], &mut options).unwrap();
        assert_eq!((options.map_uid.len(), options.map_gid.len()), (2, 0));
        assert_eq!(arg("subuid"), IdMapArg::Subordinate);
        assert!(IdMapArg::groups("subuid").is_err() && IdMapArg::groups("subgid").is_ok());
    }
}

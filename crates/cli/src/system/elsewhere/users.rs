//! Users have no ranges of other users: /etc/subuid and /etc/subgid are Linux's.

use uext4::MkfsError;
use uext4::unstable::IdRange;

/// Users and groups of the caller.
///
/// # Errors
/// There are none.
pub fn subordinate_ids() -> Result<(Vec<IdRange>, Vec<IdRange>), MkfsError> {
    Err(MkfsError::Option {
        name: "--map-uid or --map-gid",
        value: "subuid or subgid".to_owned(),
        why: "only Linux has them",
    })
}

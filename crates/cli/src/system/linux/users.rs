//! Ranges of users that the caller has.

pub use uext4::unstable::subordinate_ids;

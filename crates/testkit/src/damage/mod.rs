//! Images damaged on purpose: fields, pointers and names, with checksums made right again.
//!
//! | module | holds |
//! | --- | --- |
//! | [`choice`] | which inode or structure |
//! | [`image`] | an image in memory, and its checksums |
//! | [`target`], [`targets`] | everything in it that has a block of its own |
//! | [`mutator`] | changes of one field |
//! | [`structure`] | changes that need several: names that lead elsewhere, entries that trade places |

pub mod choice;
pub mod image;
pub mod mutator;
pub mod structure;
pub mod target;
pub mod targets;

pub use image::DamagedImage;
pub use mutator::mutate;
pub use target::Target;
pub use targets::find as targets_of;

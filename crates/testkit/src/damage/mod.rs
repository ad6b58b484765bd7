//! Images damaged on purpose: fields, pointers and names, with checksums made right again.
//!
//! | module | holds |
//! | --- | --- |
//! | [`image`] | an image in memory, and its checksums |
//! | [`targets`] | everything in it that has a block of its own |
//! | [`mutator`] | changes of one field |
//! | [`structure`] | changes that need several: names that lead elsewhere, entries that trade places |

pub mod image;
pub mod mutator;
pub mod structure;
pub mod targets;

pub use image::DamagedImage;
pub use mutator::mutate;
pub use targets::Target;

//! Images by e2fsprogs, and a walk over all of an image.

pub mod image;
pub mod walk;

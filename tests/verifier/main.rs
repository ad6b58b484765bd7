//! The verifier against e2fsck, on clean and on damaged images.

mod clean_images;
mod kernel_images;
mod random_damage;
mod single_mutations;
mod support;

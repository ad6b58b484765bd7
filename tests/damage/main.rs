//! Damaged and malicious images: errors that `errors=` decides about, never a panic or a hang.

mod errors_option;
mod every_public_call;
mod hostile_images;
mod odd_images;
mod random_damage;

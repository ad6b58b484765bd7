//! Repairs of damaged images: against e2fsck, and interrupted.

mod as_e2fsck;
mod interrupted;
mod support;
#[path = "../verifier/support/mod.rs"]
mod verifier;

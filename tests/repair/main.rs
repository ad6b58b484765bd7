//! Repairs of damaged images: against e2fsck, interrupted, and without questions.

mod as_e2fsck;
mod interrupted;
mod safe;
mod support;
#[allow(dead_code, reason = "the tests of the verifier use the rest")]
#[path = "../verifier/support/mod.rs"]
mod verifier;

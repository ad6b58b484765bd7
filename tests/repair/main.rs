//! Repairs of damaged images: against e2fsck, interrupted, and without questions; changes of settings.

mod as_e2fsck;
mod casefold;
mod defragment;
mod grow;
mod interrupted;
mod quota;
mod rare_features;
mod rest;
mod safe;
mod shrink;
mod support;
mod tune;
mod unnamed;
#[allow(dead_code, reason = "the tests of the verifier use the rest")]
#[path = "../verifier/support/mod.rs"]
mod verifier;

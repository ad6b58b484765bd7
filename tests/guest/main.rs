//! Images that an ordinary user makes of a Debian system, in a guest that boots from them or verifies them: `make guest`.
//!
//! `UEXT4_GUEST=1` asks for them; they boot QEMU, and need root and Debian's packages.

mod casefold;
mod debian;
mod dm_verity;
mod encryption;
mod feature_pairs;
mod guide;
mod images;
mod machine;
mod quota;
mod root;

/// Whether the tests of this program are asked for; if not, prints that they are skipped.
fn is_asked_for() -> bool {
    let asked = uext4_testkit::env_number("UEXT4_GUEST", 0) > 0;
    if !asked {
        eprintln!("skipped: UEXT4_GUEST=1 boots guests");
    }
    asked
}

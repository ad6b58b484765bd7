//! Random calls by the superuser and by users, through a mount of uext4 and on the kernel's ext4: the same answers, and
//! the same trees afterwards.
//!
//! `UEXT4_CALL_SEED` and `UEXT4_CALL_SEQUENCES` choose, as for the library's `kernel_calls`. Needs root, loop devices and
//! /dev/fuse, and skips, saying so, without.

use uext4_testkit::calls::call::Call;
use uext4_testkit::calls::mounted::{Mounted, write_whole_extents};
use uext4_testkit::calls::person::Person;
use uext4_testkit::calls::sequence::{Rules, Unprotected, assert_none, sequences};
use uext4_testkit::calls::side::Side;
use uext4_testkit::calls::thread;
use uext4_testkit::mounted_dir::Shape;
use uext4_testkit::prelude::*;

/// Different differences until the test ends.
const DIFFERENCES_MAX: usize = 8;

/// The kernel passes users and groups to a server, not of capabilities: all or none.
fn any_person(rng: &mut Rng, as_root: bool) -> Person {
    let mut person = Person::random(rng, as_root);
    person.capabilities = match person.uid {
        0 => Capabilities::all(),
        _ => Capabilities::empty(),
    };
    person
}

/// Whether it fixes a file or directory: the kernel's FUSE does not know, and checks other things first. The cases
/// `fixed_*` have these.
fn fixes(call: &Call) -> bool {
    let both = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
    match call {
        Call::SetFlags(_, flags) => InodeFlags::from_bits_retain(*flags).intersects(both),
        Call::SetProject(_, flags, _) => flags & 0x18 != 0,
        _ => false,
    }
}

fn run(as_root: bool, count: u64) -> Vec<String> {
    thread::prepare();
    let mounts = [Driver::Kernel, Driver::compared("")]
        .map(|driver| MountedDir::new(driver, &Shape::DEFAULT).expect("mounts"));
    write_whole_extents(mounts[0].dir());
    let [mut kernel, mut ours] = mounts.each_ref().map(|mount| Mounted::new(mount.dir()));
    let rules = Rules {
        who: &|rng: &mut Rng| any_person(rng, as_root),
        leaves_out: &fixes,
        ages: false,
        // What the kernel answers from its cache, the server does not learn of.
        access_times: false,
    };
    let sides: &mut [&mut dyn Side; 2] = &mut [&mut kernel, &mut ours];
    let found = sequences(sides, count, &rules, as_root, DIFFERENCES_MAX);
    drop((kernel, ours));
    for mount in mounts {
        mount.finish().expect("is clean in the end");
    }
    found
}

fn compare(as_root: bool) {
    require!(can_mount());
    let _unprotected = Unprotected::turn_off();
    let count = env_number("UEXT4_CALL_SEQUENCES", 60);
    assert_none(move || run(as_root, count));
}

#[test]
fn random_calls_by_the_superuser() {
    compare(true);
}

#[test]
fn random_calls_by_users() {
    compare(false);
}

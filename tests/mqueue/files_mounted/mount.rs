//! A mount of ours beside Linux's.

use crate::directory::Directory;
use crate::mounted::Client;
use crate::namespace::{Mounted, can_mount};
use crate::sides::{self, Sides};
use uext4_testkit::require;

pub use crate::calls::*;

/// A fresh namespace on each side.
pub type Both = Sides<Directory<Client>>;

/// Runs a test with a mount of its own, if the machine allows it.
pub fn beside_the_kernel(test: fn(&Both)) {
    require!(can_mount());
    let mounted = Mounted::new().expect("mounts");
    let dir = mounted.dir().to_owned();
    sides::run(move || Client::of(&dir), test);
    mounted.unmount().expect("unmounts");
}

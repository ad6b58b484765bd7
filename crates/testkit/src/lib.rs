//! What tests of uext4 need: a model file system, random workloads, power losses, and oracles.
//!
//! # Data model
//! A [`model::Model`] is what a file system should be; a [`tree::Tree`] what one was found to be, ours
//! or the kernel's. A [`workload::Worker`] applies the same random operations to both sides.
//! [`crash`] cuts what such workers did to a recorded device and decides whether what recovery leaves
//! is allowed.
//!
//! Locks inside devices are the project's, so that the lock order is checked below the engine. What tests share beside
//! it is under locks of the standard library: they are held across operations, above the lock order.
//!
//! | module | holds |
//! | --- | --- |
//! | [`model`], [`tree`] | what should be, what is |
//! | [`workload`], [`operation`] | random operations |
//! | [`image`] | images to start from, how they are mounted |
//! | [`crash`], [`verdict`] | power losses, and what may be left after one |
//! | [`damage`] | images damaged on purpose |
//! | [`device`] | devices that fail, record or fork; the contract of every device |
//! | [`exclusive`] | what one test may use at a time |
//! | [`explore`] | the crash explorer |
//! | [`faults`] | the fault sweep |
//! | `simulate` | the simulation, with `--cfg shuttle` |
//! | [`evidence`] | what long runs have tried, for docs/TESTING.md |
//! | [`beside`] | the same operations by us and by the kernel |
//! | [`calls`] | random calls that two sides answer |
//! | [`built`], [`program`] | the workspace's command and library; programs that tests run |
//! | [`mounted_dir`], [`server`] | images mounted by the command, the kernel and others; statistics of a server |
//! | [`aligned`] | memory for direct I/O |
//! | [`as_root`] | operations that must succeed |
//! | [`acl`] | ACLs |
//! | [`guides`] | the examples of the guides |
//! | [`folding_names`] | names for directories that ignore case |
//! | [`stamps`] | what concurrent readers of a file may find |
//! | [`object_store`] | a store of objects in memory, and a network that fails |
//! | [`two_hosts`] | hosts that take an image over from each other |
//! | [`mke2fs`] | images that mke2fs makes |
//! | [`librbd_shim`] | a librbd with faults |
//! | [`loop_device`] | loop devices |
//! | [`ceph`], [`partition`] | clusters of Ceph; processes that the network cuts off |
//! | [`proxy`] | ways to servers that are cut, or that hold what they carry |
//! | [`certificates`] | certificates for TLS |
//! | [`remote_image`] | images on servers of each kind |
//! | [`oracle`] | e2fsck, the kernel, `uext4-check` |
//! | [`prelude`] | names that most tests use |
// System calls with a user's credentials, in [`calls`].
#![deny(unsafe_code)]

pub mod acl;
pub mod aligned;
pub mod as_root;
pub mod beside;
pub mod built;
pub mod calls;
pub mod ceph;
pub mod certificates;
pub mod crash;
pub mod damage;
pub mod device;
pub mod encrypted;
pub mod evidence;
pub mod exclusive;
pub mod explore;
mod external;
pub mod faults;
pub mod feature_pairs;
pub mod folding_names;
pub mod guides;
pub mod image;
pub mod librbd_shim;
pub mod loop_device;
pub mod mke2fs;
pub mod model;
pub mod mounted_dir;
pub mod nbd_server;
pub mod object_store;
pub mod operation;
pub mod oracle;
pub mod partition;
pub mod prelude;
pub mod program;
pub mod proxy;
pub mod remote_image;
pub mod server;
#[cfg(shuttle)]
pub mod simulate;
pub mod stamps;
pub mod tree;
pub mod two_hosts;
pub mod verdict;
pub mod workload;

/// Ends a test that this machine cannot run; the condition reports why. `require!(can_mount())`, or for an `Option`
/// `let image = require!(some MountedImage::new())`; the last argument is what the test returns.
#[macro_export]
macro_rules! require {
    (some $value:expr $(, $result:expr)?) => {
        match $value {
            Some(value) => value,
            None => return $($result)?,
        }
    };
    ($can:expr $(, $result:expr)?) => {
        if !$can {
            return $($result)?;
        }
    };
}

/// The default with a change: `with(|o: &mut MountOptions| o.lazytime = true)`.
pub fn with<T: Default>(change: impl FnOnce(&mut T)) -> T {
    let mut value = T::default();
    change(&mut value);
    value
}

/// The number in the environment variable `name`, or `default`.
pub fn env_number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

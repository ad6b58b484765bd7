//! Mounts: what programs see, how mounts begin and end.

mod applications;
mod command;
mod fsx;
mod lifecycle;
mod random_calls;
mod remote;
mod threads;

use rustix::process::{Signal, kill_process};
use uext4_testkit::{mounted_dir::Shape, prelude::*};

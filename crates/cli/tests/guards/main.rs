//! What the command refuses, asks or does first so that nothing is lost that its user did not mean to lose.

#[path = "../here/mod.rs"]
mod here;

mod copy;
mod devices;
mod mkfs;
mod operands;
mod output;

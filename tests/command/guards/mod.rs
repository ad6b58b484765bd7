//! What the command refuses, asks or does first so that nothing is lost that its user did not mean to lose.

pub mod copy;
mod devices;
mod mkfs;
mod operands;
mod output;

//! Mounts: what programs see, how mounts begin and end.

mod applications;
mod command;
mod fsx;
mod lifecycle;
mod random_calls;

//! Random operations against a model of what they do.

mod direct_io;
mod random_operations;

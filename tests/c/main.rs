//! libuext4 as programs in C meet it: its header, its symbols, and the examples, compiled and run.

mod abi;
mod examples;
mod header;
mod manual;
mod programs;

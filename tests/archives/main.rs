//! Images from archives and container images, beside what other programs make of the same.

mod containers;
mod export;
mod formats;
mod generator;
mod hostile;
mod layout;

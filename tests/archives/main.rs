//! Images from archives and container images, beside what other programs make of the same.

mod accepted;
mod containers;
mod export;
mod extremes;
mod formats;
mod generator;
mod hostile;
mod images;
mod kept;
mod layout;
mod metadata;
mod shared;

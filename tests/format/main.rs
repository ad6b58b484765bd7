//! Our encoding and decoding of the format against mke2fs, debugfs and dumpe2fs.

mod casefold;
mod mke2fs;
mod structures;

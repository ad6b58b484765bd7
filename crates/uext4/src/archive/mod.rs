//! Trees of images as tar archives and layers of container images.
//!
//! # Data model
//! A [`Tree`](tree::Tree) visits the files below a directory in order: a directory before what is in it, names sorted by their bytes. Each
//! becomes one member of an archive, with PAX records for what the header has no room for. So an archive depends on nothing but the tree.
//!
//! | module | holds |
//! | --- | --- |
//! | [`options`] | what a caller asks for; what it receives; errors |
//! | [`tree`] | the files below a directory, in order |
//! | [`member`] | a header with its records, and the data |
//! | [`output`] | compression and digests of what is written |
//! | [`export`] | a tree as an archive |
//! | [`layout`] | an archive as the only layer of an image in an OCI layout |
//! | [`changes`] | what differs between two trees |
//! | [`shared`] | data that two images have from the same bytes of the host |
//! | [`layer`] | these as a layer |
//! | [`source`] | an image as the source of another |

mod changes;
mod export;
mod layer;
mod layout;
mod member;
mod options;
mod output;
mod shared;
mod source;
mod tree;

pub use changes::{Change, ChangeKind, Difference};
pub use options::{Compression, ExportError, ExportOptions, ExportReport};

//! Archives and container images as the source of a tree.
//!
//! # Data model
//! An archive is read once, from its beginning: what its headers say becomes a [`layer::Layer`] in memory, the data of
//! its files stays where it can be read by position, in the archive itself or, of what is compressed or comes from a
//! pipe, in an anonymous file ([`spool`]). No name of an archive is ever made on the host. Layers are applied to each
//! other in memory ([`merge`]), so that what a later one hides takes nothing in the image.
//!
//! # Invariants
//! What streams expand to is counted ([`stream`]): names, headers and data together are at most the limit.
//!
//! | module | holds |
//! | --- | --- |
//! | [`compression`] | what a stream is compressed with |
//! | [`stream`] | counting what is read, within the limit |
//! | [`spool`] | data by position |
//! | [`numbers`] | numbers of headers |
//! | [`pax`] | records of extended headers |
//! | [`sparse`] | where the data of a sparse file lies |
//! | [`acl_text`] | access control lists as text |
//! | [`attributes`] | extended attributes of an entry |
//! | [`members`] | headers and data of an archive, in order |
//! | [`layer`] | an archive that was read |
//! | [`merge`] | layers on top of each other |
//! | [`digest`] | what names a blob |
//! | [`container`] | layers of a container image |

mod acl_text;
mod attributes;
mod compression;
mod container;
mod digest;
mod layer;
mod members;
mod merge;
mod numbers;
mod pax;
mod sparse;
mod spool;
mod stream;

pub(super) use container::{Blobs, LayerBlob, Wanted, layout_in};
pub(super) use layer::{Layer, LayerInput, Reading};
pub(super) use merge::Merge;
pub(super) use spool::Spool;
pub(super) use stream::Limit;

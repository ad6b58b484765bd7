//! No tree: the host is not Linux.

use std::io;
use std::marker::PhantomData;
use std::path::Path;

use crate::error::{MkfsError, Result};
use crate::options::MkfsOptions;
use crate::progress::Progress;
use crate::tree::{NodeId, Tree};

/// A tree that was read; none is on this host.
#[derive(Debug)]
pub struct Scan {
    pub(crate) tree: Tree,
    pub(crate) data: Data,
    pub(crate) manifest: Option<Manifest>,
}

/// What files of a tree are given; nothing is read on this host.
#[derive(Debug)]
pub(crate) enum Manifest {}

/// Gives files the owners that options name.
pub(crate) fn describe(options: &MkfsOptions, _: Option<&Manifest>, tree: &mut Tree) -> Result<()> {
    tree.set_owners(options);
    Ok(())
}

impl Scan {
    /// Fails if there is something to be read.
    ///
    /// # Errors
    /// [`MkfsError::Tree`].
    pub fn of(options: &MkfsOptions, progress: &dyn Progress) -> Result<Option<Scan>> {
        let first = options.from.first();
        first
            .map(|input| Scan::read(input.kind.path(), 1, progress))
            .transpose()
    }

    /// Fails: trees are read on Linux only.
    ///
    /// # Errors
    /// [`MkfsError::Tree`], always.
    pub fn read(root: impl AsRef<Path>, _threads: usize, _: &dyn Progress) -> Result<Scan> {
        let path = root.as_ref().to_owned();
        Err(MkfsError::tree("read", path, io::ErrorKind::Unsupported))
    }
}

/// The root of a tree; there is none.
#[derive(Debug)]
pub(crate) enum Data {}

/// The files of a tree; there are none.
pub(crate) struct Files<'a>(PhantomData<&'a Data>);

impl<'a> Files<'a> {
    pub fn new(_: Option<&'a Data>) -> Files<'a> {
        Files(PhantomData)
    }

    pub fn read(&mut self, _: &Tree, _: NodeId, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(MkfsError::NoSize)
    }

    pub fn has_changed(&mut self, _: &Tree, _: NodeId) -> Result<bool> {
        Ok(false)
    }
}

//! The right to write an image, and what readers name so that it is kept.

use super::names;
use super::root::Root;
use super::store::{Created, ObjectStore, StoreError, StoreResult, again};
use crate::error::{Failure, LeaseLoss};
use std::sync::Arc;
use uuid::Uuid;

/// Why an image is not what was to be made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Another host is its writer.
    Lost,
    /// The store fails.
    Store(StoreError),
}

impl From<StoreError> for Stopped {
    fn from(e: StoreError) -> Stopped {
        Stopped::Store(e)
    }
}

impl Stopped {
    /// What the device fails with from then on.
    pub fn failure(&self) -> Failure {
        match self {
            Stopped::Lost => Failure::LeaseLost(LeaseLoss::TakenOver),
            Stopped::Store(_) => Failure::WritesLost,
        }
    }
}

/// Makes `root` the newest, if its number is free: all that it holds is durable then. After a try that failed the root is read, as the store
/// may have made it nevertheless.
///
/// # Errors
/// [`Stopped::Lost`]: another writer has made a root of its number; the store's.
pub fn advance(store: &dyn ObjectStore, root: &Root) -> Result<(), Stopped> {
    let (name, bytes) = (names::root(root.number), root.encode());
    let done = again(store, || match store.create(&name, &bytes)? {
        Created::Yes => Ok(true),
        Created::Exists => Ok(store.get(&name, None)? == bytes),
    })?;
    done.then_some(()).ok_or(Stopped::Lost)
}

/// Makes the first root of another writer.
///
/// # Errors
/// [`Stopped::Lost`]: another has made roots since; as [`advance`].
pub fn take_over(store: &dyn ObjectStore, root: &Root) -> Result<(), Stopped> {
    advance(store, root)?;
    // The number may have been free because a root of it was removed. A newer one stays then.
    match Root::newest_number(store)? == root.number {
        true => Ok(()),
        false => Err(Stopped::Lost),
    }
}

/// Whether the store refuses to make an object again: only then no two writers advance to one root.
///
/// # Errors
/// [`Stopped::Lost`]: the root is gone, so that another writer has made others; the store's, which is one that replaces objects.
pub fn check_refuses(store: &dyn ObjectStore, root: &Root) -> Result<(), Stopped> {
    let (name, bytes) = (names::root(root.number), root.encode());
    if again(store, || store.create(&name, &bytes))? == Created::Exists {
        return Ok(());
    }
    match again(store, || store.create(&name, &bytes))? {
        Created::Exists => Err(Stopped::Lost),
        Created::Yes => Err(Stopped::Store(StoreError::Refused(
            "the store makes objects that exist again (it ignores If-None-Match), so that it can't keep two hosts apart".into(),
        ))),
    }
}

/// What says that a reader reads a root; removed when dropped.
#[derive(Debug)]
pub struct Pin {
    store: Arc<dyn ObjectStore>,
    name: String,
}

impl Pin {
    /// Pins a root that was the newest, or a newer one if it may have lost segments since. One that may not write into the store has no pin.
    ///
    /// # Errors
    /// As [`Root::newest`].
    pub fn of(store: &Arc<dyn ObjectStore>, mut root: Root) -> StoreResult<(Root, Option<Pin>)> {
        loop {
            let name = names::reader(Uuid::new_v4(), root.number);
            match again(&**store, || store.put(&name, &[])) {
                Ok(()) => {}
                Err(StoreError::Refused(_)) => return Ok((root, None)),
                Err(why) => return Err(why),
            }
            let pin = Pin {
                store: Arc::clone(store),
                name,
            };
            // A collection that has begun before the pin was made has raised the floor before.
            if Root::newest_number(&**store)? == root.number {
                return Ok((root, Some(pin)));
            }
            let newest = Root::newest(&**store)?;
            if newest.floor <= root.number {
                return Ok((root, Some(pin)));
            }
            root = newest;
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // One that stays keeps garbage, and no more.
        let _ = again(&*self.store, || {
            self.store.delete(std::slice::from_ref(&self.name))
        });
    }
}

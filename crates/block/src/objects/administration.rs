//! Images of S3 as a whole: made, listed, removed, taken over.

use super::address::S3Address;
use super::collect;
use super::lease::{self, Stopped};
use super::names;
use super::root::Root;
use super::s3::S3Store;
use super::store::{ObjectStore, StoreError, StoreResult, again};
use crate::error::{BlockError, Result};
use crate::remote_info::RemoteInfo;
use crate::scheme::S3;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

impl S3Address {
    /// Makes an image of zeros.
    ///
    /// # Errors
    /// It exists; the store's.
    pub fn create(&self, len: u64) -> Result<()> {
        super::create(&self.store()?, len).map_err(|e| self.failed(e))
    }

    /// Removes an image. Its writer, if there is one, fails: for that a small object stays of each writer that it had.
    ///
    /// # Errors
    /// The store's.
    pub fn remove(&self) -> Result<()> {
        let store = self.store()?;
        let last = self.take(&store, Root::removed)?;
        let remove = || -> StoreResult<()> {
            for prefix in [names::READERS, names::SEGMENTS] {
                collect::remove(&store, all(&store, prefix)?)?;
            }
            collect::remove_roots(&store, &last, &BTreeSet::new())
        };
        remove().map_err(|why| self.failed(why.into()))
    }

    /// Makes a root of the newest, so that no other writer does.
    fn take(&self, store: &S3Store, next: impl Fn(&Root) -> Root) -> Result<Root> {
        loop {
            let root = Root::newest(store).map_err(|why| self.failed(why.into()))?;
            let root = next(&root);
            match lease::take_over(store, &root) {
                Ok(()) => return Ok(root),
                // Its writer was faster.
                Err(Stopped::Lost) => {}
                Err(Stopped::Store(why)) => return Err(self.failed(why.into())),
            }
        }
    }

    /// What the newest root says.
    ///
    /// # Errors
    /// The store's.
    pub fn info(&self) -> Result<RemoteInfo> {
        let store = self.store()?;
        let read = || {
            let readers = again(&store, || store.list(names::READERS))?;
            Ok((Root::newest(&store)?, readers.len() as u64))
        };
        let found: StoreResult<(Root, u64)> = read();
        let (root, readers) = found.map_err(|why| self.failed(why.into()))?;
        Ok(RemoteInfo {
            bytes: root.len,
            writer: (root.epoch > 0).then_some(root.host),
            epoch: Some(root.epoch.into()),
            readers: Some(readers),
        })
    }

    /// Makes the next root, so that no other writer does, and forgets readers, which may be gone.
    ///
    /// # Errors
    /// The store's.
    pub fn break_lock(&self) -> Result<()> {
        let store = self.store()?;
        self.take(&store, Root::taken_over)?;
        let forget = || {
            let readers = all(&store, names::READERS)?;
            again(&store, || store.delete(&readers))
        };
        forget().map_err(|why: StoreError| self.failed(why.into()))
    }

    fn failed(&self, source: io::Error) -> BlockError {
        BlockError::Open {
            path: PathBuf::from(self.to_string()),
            source,
        }
    }
}

/// The names of the objects that begin with a prefix.
fn all(store: &S3Store, prefix: &str) -> StoreResult<Vec<String>> {
    let objects = again(store, || store.list(prefix))?;
    Ok(objects.into_iter().map(|object| object.name).collect())
}

/// The images whose names begin with those of `place`: `s3://BUCKET[/PREFIX]`.
///
/// # Errors
/// The store's.
pub fn images_of(place: &str) -> Result<Vec<String>> {
    let failed = |why: StoreError| BlockError::Open {
        path: place.into(),
        source: why.into(),
    };
    let rest = place.strip_prefix(S3).unwrap_or(place);
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let store = S3Store::new(bucket, "").map_err(failed)?;
    let prefix = match prefix.trim_end_matches('/') {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    };
    let names = all(&store, &prefix).map_err(failed)?;
    let images = names.iter().filter_map(|name| {
        let (image, number) = name.rsplit_once(names::ROOTS)?;
        let image = image.strip_suffix('/')?;
        number.parse::<u64>().ok()?;
        Some(format!("{S3}{bucket}/{image}"))
    });
    let images: BTreeSet<String> = images.collect();
    let mut found = Vec::new();
    for image in images {
        let prefix = image.strip_prefix(S3).and_then(|rest| rest.split_once('/'));
        let store =
            S3Store::new(bucket, prefix.map_or("", |(_, prefix)| prefix)).map_err(failed)?;
        match Root::newest(&store) {
            // It was removed.
            Err(StoreError::NotFound) => {}
            _ => found.push(image),
        }
    }
    Ok(found)
}

//! Images of Ceph as a whole: made, listed, removed.

use super::address::RbdAddress;
use super::cluster::{Breaking, connect};
use super::librbd::image::Image;
use super::open_error;
use crate::error::{BlockError, Result};
use crate::remote_info::RemoteInfo;

impl RbdAddress {
    /// Makes an image of zeros.
    ///
    /// # Errors
    /// `EEXIST`; the cluster's.
    pub fn create(&self, len: u64) -> Result<()> {
        self.refuse_snapshot()?;
        let failed = |e| open_error(self, e);
        let pool = connect(self, Breaking::Blocklists).map_err(failed)?;
        pool.create(&self.name, len).map_err(failed)
    }

    /// Removes an image that is not open and has no snapshots.
    ///
    /// # Errors
    /// `EBUSY`, `ENOTEMPTY`; the cluster's.
    pub fn remove(&self) -> Result<()> {
        self.refuse_snapshot()?;
        let failed = |e| open_error(self, e);
        let pool = connect(self, Breaking::Blocklists).map_err(failed)?;
        pool.remove(&self.name).map_err(failed)
    }

    /// What the cluster knows.
    ///
    /// # Errors
    /// The cluster's.
    pub fn info(&self) -> Result<RemoteInfo> {
        let failed = |e| open_error(self, e);
        let pool = connect(self, Breaking::Blocklists).map_err(failed)?;
        let (image, owners) = match self.snapshot.as_deref() {
            None => {
                let image = Image::open(&pool, &self.name).map_err(failed)?;
                let owners = match image.has_exclusive_lock().map_err(failed)? {
                    true => image.lock_owners().map_err(failed)?,
                    false => Vec::new(),
                };
                (image, owners)
            }
            snapshot => {
                let image = Image::open_read_only(&pool, &self.name, snapshot);
                (image.map_err(failed)?, Vec::new())
            }
        };
        Ok(RemoteInfo {
            bytes: image.geometry().map_err(failed)?.bytes,
            writer: owners.into_iter().next(),
            epoch: None,
            readers: None,
        })
    }

    pub(super) fn refuse_snapshot(&self) -> Result<()> {
        match &self.snapshot {
            None => Ok(()),
            Some(_) => Err(BlockError::Image {
                path: self.to_string().into(),
                why: "is a snapshot; `rbd snap` makes and removes those".into(),
            }),
        }
    }
}

/// The images of a pool or a namespace: `rbd:POOL[/NAMESPACE]`.
///
/// # Errors
/// The cluster's.
pub fn images_of(place: &str) -> Result<Vec<String>> {
    let place = place.trim_end_matches('/');
    // The name of an image in it, which is not used.
    let address = RbdAddress::parse(&format!("{place}/x")).map_err(|why| BlockError::Image {
        path: place.into(),
        why: why.into(),
    })?;
    let names = connect(&address, Breaking::Blocklists).and_then(|pool| pool.images());
    let names = names.map_err(|source| BlockError::Open {
        path: place.into(),
        source,
    })?;
    Ok(names
        .into_iter()
        .map(|name| format!("{place}/{name}"))
        .collect())
}

//! The addresses of images that a server elsewhere has.
#![cfg_attr(
    not(any(feature = "rbd", feature = "s3")),
    allow(
        unused_variables,
        reason = "a build without clients has no addresses, or none that can be asked"
    )
)]

use crate::device::BlockDevice;
use crate::device_id::DeviceId;
use crate::error::Result;
#[cfg(feature = "nbd")]
use crate::nbd::{NbdAddress, NbdDevice};
#[cfg(feature = "s3")]
use crate::objects::S3Address;
use crate::open::OpenOptions;
#[cfg(feature = "rbd")]
use crate::rbd::{RbdAddress, RbdDevice};
use crate::remote_info::RemoteInfo;
use std::fmt;
use std::sync::Arc;

/// Where a server has an image, of the kinds that this build can open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RemoteAddress {
    /// The export of an NBD server.
    #[cfg(feature = "nbd")]
    Nbd(NbdAddress),
    /// In S3.
    #[cfg(feature = "s3")]
    S3(S3Address),
    /// An image of Ceph.
    #[cfg(feature = "rbd")]
    Rbd(RbdAddress),
}

impl RemoteAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// Why it is none: the end of a sentence.
    pub fn parse(name: &str) -> std::result::Result<RemoteAddress, &'static str> {
        #[cfg(feature = "nbd")]
        if crate::scheme::NBD.iter().any(|s| name.starts_with(s)) {
            return NbdAddress::parse(name).map(RemoteAddress::Nbd);
        }
        #[cfg(feature = "s3")]
        if name.starts_with(crate::scheme::S3) {
            return S3Address::parse(name).map(RemoteAddress::S3);
        }
        #[cfg(feature = "rbd")]
        if name.starts_with(crate::scheme::RBD) {
            return RbdAddress::parse(name).map(RemoteAddress::Rbd);
        }
        Err(
            "is on a server that this build has no client for; one with all needs uext4's source tree, in which `cargo install --path crates/cli --features rbd,s3` installs it",
        )
    }

    /// By which two opens of the image are recognised.
    pub fn identity(&self) -> DeviceId {
        match *self {
            #[cfg(feature = "nbd")]
            RemoteAddress::Nbd(ref address) => address.identity(),
            #[cfg(feature = "s3")]
            RemoteAddress::S3(ref address) => address.identity(),
            #[cfg(feature = "rbd")]
            RemoteAddress::Rbd(ref address) => address.identity(),
        }
    }

    /// Opens the image.
    ///
    /// # Errors
    /// As [`OpenOptions`] and the device say.
    pub fn open(&self, options: &OpenOptions) -> Result<Arc<dyn BlockDevice>> {
        match *self {
            #[cfg(feature = "nbd")]
            RemoteAddress::Nbd(ref address) => Ok(Arc::new(NbdDevice::open(address, options)?)),
            #[cfg(feature = "s3")]
            RemoteAddress::S3(ref address) => Ok(Arc::new(address.open(options)?)),
            #[cfg(feature = "rbd")]
            RemoteAddress::Rbd(ref address) => {
                let opened = RbdDevice::open(address, options);
                let device = match (opened, options.size.filter(|_| options.create)) {
                    (Err(e), Some(size)) if e.is_missing() => {
                        address.create(size)?;
                        RbdDevice::open(address, options)?
                    }
                    (opened, _) => opened?,
                };
                Ok(Arc::new(device))
            }
        }
    }
}

/// What is asked of the server itself.
impl RemoteAddress {
    /// Makes an image of zeros.
    ///
    /// # Errors
    /// It exists; the server's; an NBD server makes none.
    pub fn create(&self, len: u64) -> Result<()> {
        match *self {
            #[cfg(feature = "nbd")]
            RemoteAddress::Nbd(_) => Err(self.unsupported("makes no exports")),
            #[cfg(feature = "s3")]
            RemoteAddress::S3(ref address) => address.create(len),
            #[cfg(feature = "rbd")]
            RemoteAddress::Rbd(ref address) => address.create(len),
        }
    }

    /// Removes an image that is not in use.
    ///
    /// # Errors
    /// The server's; an NBD server removes none.
    pub fn remove(&self) -> Result<()> {
        match *self {
            #[cfg(feature = "nbd")]
            RemoteAddress::Nbd(_) => Err(self.unsupported("removes no exports")),
            #[cfg(feature = "s3")]
            RemoteAddress::S3(ref address) => address.remove(),
            #[cfg(feature = "rbd")]
            RemoteAddress::Rbd(ref address) => address.remove(),
        }
    }

    /// What the server knows.
    ///
    /// # Errors
    /// The server's.
    pub fn info(&self) -> Result<RemoteInfo> {
        match *self {
            #[cfg(feature = "nbd")]
            RemoteAddress::Nbd(ref address) => Ok(RemoteInfo {
                bytes: NbdDevice::open(address, &OpenOptions::read_only())?.len(),
                writer: None,
                epoch: None,
                readers: None,
            }),
            #[cfg(feature = "s3")]
            RemoteAddress::S3(ref address) => address.info(),
            #[cfg(feature = "rbd")]
            RemoteAddress::Rbd(ref address) => address.info(),
        }
    }

    /// Takes the right to write from the host that has it, alive or not: nothing that it still writes has an effect.
    ///
    /// # Errors
    /// The server's; NBD has no such right.
    pub fn break_lock(&self) -> Result<()> {
        match *self {
            #[cfg(feature = "nbd")]
            RemoteAddress::Nbd(_) => Err(self.unsupported(
                "can't keep a host out; `--exclusive-elsewhere` takes an image over whose host is known to be gone",
            )),
            #[cfg(feature = "s3")]
            RemoteAddress::S3(ref address) => address.break_lock(),
            #[cfg(feature = "rbd")]
            RemoteAddress::Rbd(ref address) => RbdDevice::break_lock(address).map(drop),
        }
    }

    #[cfg(feature = "nbd")]
    fn unsupported(&self, why: &str) -> crate::error::BlockError {
        crate::error::BlockError::Image {
            path: self.to_string().into(),
            why: format!("is on an NBD server, which {why}"),
        }
    }
}

/// The images that a pool, a namespace or a prefix of a bucket has: names to open them by.
///
/// # Errors
/// The server's; an NBD server is not asked.
pub fn images_of(place: &str) -> Result<Vec<String>> {
    #[cfg(feature = "s3")]
    if place.starts_with(crate::scheme::S3) {
        return crate::objects::images_of(place);
    }
    #[cfg(feature = "rbd")]
    if place.starts_with(crate::scheme::RBD) {
        return crate::rbd::images_of(place);
    }
    Err(crate::error::BlockError::Image {
        path: place.into(),
        why: "is not a pool (rbd:POOL) or a prefix of a bucket (s3://BUCKET/PREFIX) that this build has a client for; exports of NBD servers are not listed".into(),
    })
}

impl fmt::Display for RemoteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            #[cfg(feature = "nbd")]
            RemoteAddress::Nbd(ref address) => address.fmt(f),
            #[cfg(feature = "s3")]
            RemoteAddress::S3(ref address) => address.fmt(f),
            #[cfg(feature = "rbd")]
            RemoteAddress::Rbd(ref address) => address.fmt(f),
        }
    }
}

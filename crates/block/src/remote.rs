//! The addresses of images that a server elsewhere has.
#![cfg_attr(
    not(any(feature = "nbd", feature = "rbd", feature = "s3")),
    allow(unused_variables, reason = "a build without clients has no addresses")
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
        Err("is on a server that this build has no client for (features nbd, rbd, s3)")
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
            RemoteAddress::Rbd(ref address) => Ok(Arc::new(RbdDevice::open(address, options)?)),
        }
    }
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

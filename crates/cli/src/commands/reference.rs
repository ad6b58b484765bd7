//! The file whose attributes another one gets.

use crate::endpoint::{Endpoint, Host};
use crate::images::Images;
use crate::location::Location;
use anyhow::Result;
use std::ffi::OsString;
use uext4::unstable::Attr;

/// The attributes of a file of the host or of an image, behind symbolic links.
///
/// # Errors
/// It is not there.
pub fn attr(file: OsString) -> Result<Attr> {
    match Location::parse(file) {
        Location::Host(path) => Ok(Host.get(&path, true)?.attr),
        Location::Image(at) => {
            let mut images = Images::default();
            let attr = images.source(&at.image)?.get(&at.path, true)?.attr;
            images.close()?;
            Ok(attr)
        }
    }
}

//! Changing files, and with `-R` all below directories.

use super::walk::{Met, Next, walk};
use crate::endpoint::{Endpoint, Image};
use crate::images;
use anyhow::Result;
use std::ffi::OsString;

/// Which files a command changes.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// All below directories too.
    pub recursive: bool,
    /// What a symbolic link that is named leads to, not the link.
    pub follow: bool,
}

/// Calls `work` for each of the files that `paths` name as `IMAGE:/path`, and for what is below them. A failure is reported, and the
/// rest is done. A signal ends it between two files; what was done stays.
///
/// # Errors
/// One that ends the command, or a device that failed.
pub fn change_each(
    paths: Vec<OsString>,
    scope: Scope,
    mut work: impl FnMut(&Image, &Met) -> Result<()>,
) -> Result<()> {
    images::change_each(paths, |fs, at| {
        let image = Image::new(1, at.image.clone(), fs.clone());
        if scope.recursive {
            return walk(&image, &at.path, scope.follow, |met| {
                work(&image, met).map(|()| Next::Descend)
            });
        }
        let attr = image.get(&at.path, scope.follow)?.attr;
        let met = Met {
            path: at.path.clone(),
            attr,
            depth: 0,
        };
        work(&image, &met)
    })
}

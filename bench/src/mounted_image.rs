//! An image, made or found, and its mount.

use crate::device::{self, Image, ImageSpec, ModelDevice};
use std::sync::Arc;
use uext4::unstable::{Ext4, ImageConfig, MountOptions};
use uext4::{Filesystem, ImageOptions};

pub struct MountedImage {
    fs: Filesystem,
    image: Image,
}

impl MountedImage {
    /// Opens or makes the image and mounts it.
    pub fn make(spec: &ImageSpec, options: &MountOptions) -> anyhow::Result<MountedImage> {
        let image = device::open(spec)?;
        let options = ImageOptions::from(ImageConfig {
            mount: options.clone(),
            ..ImageConfig::read_write()
        });
        let fs = Filesystem::open_device(image.measured(), &options)?;
        Ok(MountedImage { fs, image })
    }

    /// The mount.
    pub const fn fs(&self) -> &Filesystem {
        &self.fs
    }

    /// The file system below open files.
    pub fn engine(&self) -> &Arc<Ext4> {
        self.fs.engine()
    }

    /// The modelled device below it, if there is one.
    pub fn model(&self) -> Option<&ModelDevice> {
        self.image.model.as_deref()
    }

    /// Unmounts, and checks the image.
    pub fn finish(self, check: bool) -> anyhow::Result<()> {
        self.fs.unmount()?;
        if check {
            device::verify(&*self.image.device)?;
        }
        Ok(())
    }
}

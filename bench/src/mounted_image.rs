//! An image, made or found, and its mount.

use crate::device::{self, Image, ImageSpec, ModelDevice};
use std::sync::Arc;
use uext4_ext4::{Ext4, MountOptions};

pub struct MountedImage {
    fs: Arc<Ext4>,
    image: Image,
}

impl MountedImage {
    /// Opens or makes the image and mounts it.
    pub fn make(spec: &ImageSpec, options: &MountOptions) -> anyhow::Result<MountedImage> {
        let image = device::open(spec)?;
        let fs = Ext4::mount(image.measured(), options.clone())?;
        Ok(MountedImage { fs, image })
    }

    /// The mount.
    pub fn fs(&self) -> &Arc<Ext4> {
        &self.fs
    }

    /// The modelled device below it, if there is one.
    pub fn model(&self) -> Option<&ModelDevice> {
        self.image.model.as_deref()
    }

    /// Unmounts, and checks the image.
    pub fn finish(self, check: bool) -> anyhow::Result<()> {
        self.fs.unmount()?;
        drop(self.fs);
        if check {
            device::verify(&*self.image.device)?;
        }
        Ok(())
    }
}

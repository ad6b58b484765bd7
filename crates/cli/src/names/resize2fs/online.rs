//! File systems that are mounted: the kernel, or the server of uext4, makes them larger while they are in use.

use super::super::{exit, image};
use super::{parse_size, unit};
use crate::diagnostics::host_errno;
use crate::names::Program;
use crate::system::mounts::{self, KernelMount, MountedImage};
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use uext4::Errno;

/// What has a file system mounted.
enum Server {
    /// The kernel.
    Kernel(KernelMount),
    /// A server of uext4.
    Ours,
}

/// A file system that is mounted.
pub struct Mount {
    dir: PathBuf,
    server: Server,
}

/// The mount of an image or a device, if it is mounted.
pub fn find(image: &Path) -> Option<Mount> {
    if let Some(dir) = mounts::mounted_at(image) {
        let server = Server::Ours;
        return Some(Mount { dir, server });
    }
    let found = KernelMount::of(image);
    found.map(|mount| Mount {
        dir: mount.dir().to_owned(),
        server: Server::Kernel(mount),
    })
}

impl Mount {
    /// Makes it as large as `size`, or as its device.
    pub fn resize(
        &self,
        program: &Program,
        image: &Path,
        size: Option<&OsStr>,
        minimum: bool,
    ) -> Result<u8> {
        let (name, dir) = (image.display(), self.dir.display());
        let opened = image::look_at(image).map_err(|e| e.report(program, image, 1))?;
        let block_size = u64::from(opened.sb.geometry.block_size);
        let before = opened.sb.geometry.blocks_count;
        let wanted = match size {
            Some(text) => parse_size(program, &text.to_string_lossy())?.bytes(Some(block_size)),
            None => opened.device.len(),
        } / block_size;
        let unit = unit(block_size);
        if !minimum && wanted == before {
            uext4::unstable::to_stderr(format_args!(
                "The filesystem is already {before} ({unit}) blocks long.  Nothing to do!\n"
            ));
            return Ok(0);
        }
        writeln!(
            std::io::stdout(),
            "Filesystem at {name} is mounted on {dir}; on-line resizing required"
        )?;
        if minimum || wanted < before {
            return Err(exit(
                1,
                format!("{}: On-line shrinking not supported", program.name),
            ));
        }
        match &self.server {
            Server::Kernel(mount) => self.grow_by_kernel(mount, wanted)?,
            Server::Ours => {
                let mounted = MountedImage::at(&self.dir)?;
                mounted.grow(wanted)?;
            }
        }
        let opened = image::look_at(image).map_err(|e| e.report(program, image, 1))?;
        let after = opened.sb.geometry.blocks_count;
        writeln!(
            std::io::stdout(),
            "The filesystem on {name} is now {after} ({unit}) blocks long.\n"
        )?;
        Ok(0)
    }

    fn grow_by_kernel(&self, mount: &KernelMount, blocks: u64) -> Result<()> {
        match mount.grow(blocks) {
            Err(e) if host_errno(&e) == Some(Errno::EPERM) => {
                Err(exit(1, "resize2fs: Permission denied to resize filesystem"))
            }
            grown => grown.with_context(|| {
                format!("{}: the kernel can't make it larger", self.dir.display())
            }),
        }
    }
}

//! File systems that are mounted: the kernel, or the server of uext4, makes them larger while they are in use.

use super::super::{exit, image};
use super::{parse_size, unit};
use crate::names::Program;
use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags, ext4_ioc_resize_fs};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use uext4_mountd::resize::MountedImage;
use uext4_mountd::second_mount;

/// What has a file system mounted.
enum Server {
    /// The kernel.
    Kernel,
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
    if let Some(dir) = second_mount::mounted_at(image) {
        let server = Server::Ours;
        return Some(Mount { dir, server });
    }
    let found = image::kernel_mount(image);
    found.map(|entry| Mount {
        dir: entry.dir,
        server: Server::Kernel,
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
            uext4_mountd::to_stderr(format_args!(
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
        match self.server {
            Server::Kernel => self.grow_by_kernel(wanted)?,
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

    fn grow_by_kernel(&self, blocks: u64) -> Result<()> {
        let dir = rustix::fs::open(&self.dir, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let grown = dir.and_then(|dir| ext4_ioc_resize_fs(dir, blocks));
        match grown {
            Err(Errno::PERM) => Err(exit(1, "resize2fs: Permission denied to resize filesystem")),
            grown => grown.with_context(|| {
                format!("{}: the kernel can't make it larger", self.dir.display())
            }),
        }
    }
}

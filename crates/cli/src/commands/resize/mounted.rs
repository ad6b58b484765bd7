//! A mounted image: its server makes it larger while it is in use.

use super::{Args, print};
use crate::system::mounts::{MountedImage, ResizeError};
use anyhow::{Result, anyhow, bail};

pub fn run(args: &Args) -> Result<()> {
    let name = args.image.display();
    let failed = |e: ResizeError| anyhow!("{name}: {e}");
    let mounted = MountedImage::at(&args.image).map_err(failed)?;
    let before = mounted.size().map_err(failed)?;
    if args.minimum || args.undo.is_some() {
        bail!("{name}: is mounted: unmount it, and give its image");
    }
    let Some(size) = args.size else {
        bail!("{name}: is mounted: give SIZE");
    };
    let blocks = size.bytes(Some(before.block_size)) / before.block_size;
    if blocks < before.blocks {
        bail!(
            "{name}: has {} blocks, and a mounted image can't be made smaller: unmount it, and give its image",
            before.blocks
        );
    }
    mounted.grow(blocks).map_err(failed)?;
    let after = mounted.size().map_err(failed)?;
    print(args, after != before, after.blocks, after.block_size)
}

//! Makes an image, mounts it with the command `uext4`, writes a file through the kernel, unmounts it, and reads the
//! file with the library. Needs `/dev/fuse`; `UEXT4` names the command if it is not in `PATH`.
//!
//! ```sh
//! cargo run --example mount_image -- IMAGE MOUNTPOINT
//! ```

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;
use uext4::{Filesystem, ImageOptions, MkfsOptions, NoProgress, mkfs};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [image, mountpoint] = args.as_slice() else {
        return Err("usage: mount_image IMAGE MOUNTPOINT".into());
    };
    mkfs(image, &MkfsOptions::new().size(64 << 20), &NoProgress)?;
    uext4(&["mount".as_ref(), image.as_ref(), mountpoint.as_ref()])?;
    let written = std::fs::write(mountpoint.join("greeting"), "from the mount\n");
    // Returns when the image is closed and clean.
    uext4(&["umount".as_ref(), mountpoint.as_ref()])?;
    written?;
    let fs = Filesystem::open(image, &ImageOptions::read_only())?;
    print!("{}", String::from_utf8(fs.read("/greeting")?)?);
    Ok(())
}

/// Runs the command `uext4`.
fn uext4(args: &[&OsStr]) -> Result<(), Box<dyn Error>> {
    let program = std::env::var_os("UEXT4").unwrap_or_else(|| OsString::from("uext4"));
    let status = Command::new(program).args(args).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("uext4 {args:?}: {status}").into()),
    }
}

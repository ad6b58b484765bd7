//! Builds an image from a directory of the host, checks it, and prints what it holds.
//!
//! ```sh
//! cargo run --example build_image -- DIRECTORY IMAGE
//! ```

use std::error::Error;
use uext4::{CheckOptions, MkfsOptions, NoCheckProgress, NoProgress, check, mkfs};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(directory), Some(image)) = (args.next(), args.next()) else {
        return Err("usage: build_image DIRECTORY IMAGE".into());
    };
    // Without a size, the image is as large as the tree needs, and 5 % more.
    let options = MkfsOptions::new().from(directory).label("example");
    let made = mkfs(&image, &options, &NoProgress)?;
    println!(
        "{} files, {} directories, {} bytes of data in {} bytes",
        made.files, made.directories, made.data_bytes, made.image_bytes
    );
    let report = check(&image, &CheckOptions::new(), &NoCheckProgress)?;
    if !report.is_clean() {
        return Err(format!("the image is damaged: {:?}", report.faults).into());
    }
    Ok(())
}

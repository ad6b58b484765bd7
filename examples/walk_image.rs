//! Prints the tree of an image, with the kind, mode and size of each file. The image is not written.
//!
//! ```sh
//! cargo run --example walk_image -- IMAGE
//! ```

use std::error::Error;
use std::io::Write;
use uext4::{Filesystem, ImageOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os()
        .nth(1)
        .ok_or("usage: walk_image IMAGE")?;
    let fs = Filesystem::open(image, &ImageOptions::read_only())?;
    let mut out = std::io::stdout().lock();
    let mut pending = vec![b"/".to_vec()];
    while let Some(directory) = pending.pop() {
        for entry in fs.read_dir(&directory)? {
            let entry = entry?;
            // Names are bytes: they need not be Unicode.
            let mut path = directory.clone();
            if path != b"/" {
                path.push(b'/');
            }
            path.extend(entry.name());
            let metadata = fs.symlink_metadata(&path)?;
            let (kind, mode) = (metadata.file_kind(), metadata.permissions());
            write!(out, "{kind:?} {mode:04o} {} ", metadata.len())?;
            out.write_all(&path)?;
            writeln!(out)?;
            if metadata.is_dir() {
                pending.push(path);
            }
        }
    }
    Ok(())
}

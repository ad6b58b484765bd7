//! Copies a tree of the host into a directory of an existing image (`build_image` makes one of a whole tree): files, directories, symbolic links and modes. Owners, times,
//! attributes, hard links and special files are left out; `uext4 mkfs --from` and `uext4 cp -a` copy them.
//!
//! ```sh
//! cargo run --example copy_tree -- SOURCE IMAGE DESTINATION
//! ```

use std::error::Error;
use std::fs;
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use uext4::{Filesystem, ImageOptions, OpenOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [source, image, destination] = args.as_slice() else {
        return Err("usage: copy_tree SOURCE IMAGE DESTINATION".into());
    };
    let image = Filesystem::open(image, &ImageOptions::read_write())?;
    image.create_dir_all(destination)?;
    copy(source, &image, destination)?;
    // What was copied is durable when this returns.
    image.unmount()?;
    Ok(())
}

/// Copies what is in the directory `from`; paths of the host are paths of the image, too.
fn copy(from: &Path, image: &Filesystem, to: &Path) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let metadata = entry.metadata()?;
        let mode = (metadata.permissions().mode() & 0o7777) as u16;
        if metadata.is_dir() {
            image.create_dir(&target)?;
            copy(&path, image, &target)?;
            image.set_permissions(&target, mode)?;
        } else if metadata.is_symlink() {
            image.symlink(fs::read_link(&path)?, &target)?;
        } else if metadata.is_file() {
            let options = OpenOptions::new().write(true).create_new(true).mode(mode);
            let file = options.open(image, &target)?;
            let mut writer = BufWriter::with_capacity(1 << 20, &file);
            std::io::copy(&mut fs::File::open(&path)?, &mut writer)?;
            writer.flush()?;
        }
    }
    Ok(())
}

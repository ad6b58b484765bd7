//! What an image is made of: the features that are possible, and images among the sources.

use crate::filesystem::Filesystem;
use crate::image_options::ImageOptions;
use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;
use uext4_block::{ImageName, OpenOptions as DeviceOptions, open_image};
use uext4_build::MkfsOptions as BuildOptions;
use uext4_build::{FeatureSet, InputKind, MkfsError, NamedTree};
use uext4_ext4::KeyRing;
use uext4_ondisk::{EXT4_MAGIC, SUPERBLOCK_OFFSET};

/// Where the magic number is in the superblock.
const MAGIC_OFFSET: u64 = 56;

/// Names of the features that [`mkfs()`](crate::mkfs()) makes images with.
pub fn feature_names() -> impl Iterator<Item = &'static str> {
    FeatureSet::names()
}

/// The options, with the images among the sources open.
pub(crate) fn prepared(options: &BuildOptions, keys: &KeyRing) -> Result<BuildOptions, MkfsError> {
    let mut options = options.clone();
    for input in &mut options.from {
        if let InputKind::Path(path) = &input.kind {
            refuse_part(path)?;
        }
        if let InputKind::Path(path) = &input.kind
            && is_image(path)
        {
            let image = Filesystem::open(path, &ImageOptions::read_only().keys(keys));
            let image = image.map_err(|e| MkfsError::Tree {
                op: "open",
                path: path.clone(),
                source: e.into(),
            })?;
            input.kind = InputKind::Tree(NamedTree::new(path, Arc::new(image)));
        }
    }
    Ok(options)
}

/// Refuses a file or directory of an image, as commands name one: `IMAGE:/PATH`.
fn refuse_part(path: &Path) -> Result<(), MkfsError> {
    let Some((image, inside)) = path.to_str().and_then(|text| text.split_once(":/")) else {
        return Ok(());
    };
    if path.exists() || !is_image(Path::new(image)) {
        return Ok(());
    }
    let what = format!(
        "names a part of an image, but an image is a source as a whole; `uext4 export '{image}:/{inside}' -` writes an archive of a part, and --from - reads one"
    );
    Err(MkfsError::Unfit {
        path: path.to_owned(),
        what,
    })
}

/// Refuses an image as its own source.
pub(crate) fn refuse_itself(path: &Path, options: &BuildOptions) -> Result<(), MkfsError> {
    let identity = |path: &Path| ImageName::parse(path).identity();
    let Ok(image) = identity(path) else {
        return Ok(());
    };
    let is_itself = |from: &&Path| identity(from).is_ok_and(|id| id == image);
    let mut sources = options.from.iter().map(|input| input.kind.path());
    match sources.find(is_itself).filter(|from| is_image(from)) {
        None => Ok(()),
        Some(from) => Err(MkfsError::Unfit {
            path: from.to_owned(),
            what: "is the image to be made".to_owned(),
        }),
    }
}

/// Whether a file, block device or partition has the magic number of an image.
fn is_image(path: &Path) -> bool {
    let name = ImageName::parse(path);
    if name.is_remote() {
        return true;
    }
    // A pipe is neither, and opening it would wait.
    let Ok(there) = std::fs::metadata(name.path()) else {
        return false;
    };
    if !(there.is_file() || is_block_device(&there)) {
        return false;
    }
    let mut magic = [0; 2];
    let read = open_image(path, &DeviceOptions::read_only().exclusive(false))
        .and_then(|device| device.read_at(SUPERBLOCK_OFFSET + MAGIC_OFFSET, &mut magic));
    // Opening a partition that is not there says so.
    name.partition().is_some() || (read.is_ok() && u16::from_le_bytes(magic) == EXT4_MAGIC)
}

#[cfg(unix)]
fn is_block_device(there: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_block_device(&there.file_type())
}

#[cfg(not(unix))]
fn is_block_device(_: &Metadata) -> bool {
    false
}

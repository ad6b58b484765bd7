//! Opening an image, with the messages of e2fsprogs.

use super::{Program, exit};
use crate::commands::tune;
use crate::system::mounts;
use crate::{device, diagnostics, superblock};
use anyhow::Result;
use std::io;
use std::path::Path;
use std::sync::Arc;
use uext4::unstable::ondisk::Superblock;
use uext4::unstable::{BackupSuperblock, Tuning, read_superblock};
use uext4::{
    BlockDevice, BlockError, CheckOptions, DeviceOptions, Errno, Filesystem, ImageOptions,
};

/// The low byte of the code that e2fsprogs have for a wrong magic number, which dumpe2fs exits with.
pub const BAD_MAGIC: u8 = 19;

/// An image that is open.
pub struct Opened {
    /// Its device.
    pub device: Arc<dyn BlockDevice>,
    /// Its superblock.
    pub sb: Superblock,
}

/// Why an image was not opened.
pub struct Refused {
    /// As e2fsprogs say it.
    pub why: String,
    /// An errno, or [`BAD_MAGIC`].
    pub code: u8,
}

impl Refused {
    /// The host's error, if it is one.
    pub fn errno(&self) -> Errno {
        Errno(self.code.into())
    }

    /// What the program reports, which exits with `code`.
    pub fn report(&self, program: &Program, image: &Path, code: u8) -> anyhow::Error {
        let (name, image) = (program.name, image.display());
        exit(
            code,
            format!("{name}: {} while trying to open {image}", self.why),
        )
    }
}

/// Opens an image for reading, even while others use it.
///
/// # Errors
/// No image, or one that can't be read.
pub fn look_at(image: &Path) -> Result<Opened, Refused> {
    open(image, &DeviceOptions::read_only().exclusive(false))
}

/// Opens an image.
///
/// # Errors
/// No image, or one that can't be read, or that is in use.
pub fn open(image: &Path, options: &DeviceOptions) -> Result<Opened, Refused> {
    let opened = device::open(image, options).map_err(|e| of_device(image, e))?;
    let device = match superblock::backup_asked_for(&*opened) {
        None => opened,
        Some(block) => match BackupSuperblock::find(opened, Some(block)) {
            Some(found) => found.device,
            None => {
                return Err(Refused {
                    why: format!("Bad magic number in super-block (block {block} holds no backup)"),
                    code: BAD_MAGIC,
                });
            }
        },
    };
    match read_superblock(&*device) {
        Ok(sb) => Ok(Opened { device, sb }),
        Err(_) if !diagnostics::has_magic(image) => Err(Refused {
            why: "Bad magic number in super-block".to_owned(),
            code: BAD_MAGIC,
        }),
        Err(e) => Err(Refused {
            why: diagnostics::one_line(&e.of_mount().into()),
            code: BAD_MAGIC,
        }),
    }
}

fn of_device(image: &Path, e: BlockError) -> Refused {
    let e = diagnostics::of_device(e);
    let errno = e.errno();
    let code = u8::try_from(errno.0).unwrap_or(1);
    let why = match errno {
        Errno::ENOENT | Errno::EACCES => errno_text(errno),
        Errno::EBUSY => match mounts::mounted_at(image) {
            Some(dir) => format!("Device or resource busy (mounted on {})", dir.display()),
            None => "Device or resource busy".to_owned(),
        },
        _ => diagnostics::one_line(&diagnostics::opening(image, &e)),
    };
    Refused { why, code }
}

/// An error as strerror(3) has it, which starts with a capital.
pub fn errno_text(errno: Errno) -> String {
    let text = errno.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// The same of an error of the host; of one without a number, `Input/output error`.
pub fn host_error_text(e: &io::Error) -> String {
    errno_text(diagnostics::host_errno(e).unwrap_or(Errno::EIO))
}

/// Recovers the journal and deletes orphans, as a mount does, which is not counted as one.
///
/// # Errors
/// The device's; the journal can't be recovered.
pub fn recover(image: &Path, sb: &Superblock) -> Result<()> {
    let device = device::open(image, &DeviceOptions::read_write())
        .map_err(|e| diagnostics::device(image, e))?;
    let opened = Filesystem::open_device(device, &ImageOptions::read_write());
    let failed = |e| diagnostics::opening_to_write(image, &e);
    opened.and_then(Filesystem::unmount).map_err(failed)?;
    let tuning = Tuning {
        mount_count: Some(sb.raw.mnt_count.get()),
        ..Tuning::default()
    };
    tune::change(image, &tuning, &CheckOptions::new(), None, true)?;
    Ok(())
}

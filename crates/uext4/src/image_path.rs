//! Paths and names inside an image.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// A path or a name inside an image: bytes, because names in ext4 need not be Unicode.
///
/// Components are separated by `/`; a name is one component. Paths are absolute or relative to the root,
/// which is the same. A path holds at most 4095 bytes and a name at most 255; no byte is 0.
///
/// It is implemented by strings and by slices, arrays and vectors of bytes, and on Unix by the paths of
/// [`std::path`] and the strings of [`std::ffi`]. It is sealed.
///
/// ```
/// # use uext4::*;
/// # let device = std::sync::Arc::new(MemoryDevice::new(16 << 20));
/// # mkfs_on(&*device, &MkfsOptions::new(), &NoProgress)?;
/// # let fs = Filesystem::open_device(device, &ImageOptions::read_write())?;
/// fs.write("/text", "as a string")?;
/// fs.write(b"/latin-1-\xe9", "as bytes")?;
/// fs.write(std::path::Path::new("/path"), "as a path")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ImagePath: sealed::Sealed {
    /// The bytes.
    fn as_bytes(&self) -> &[u8];
}

mod sealed {
    /// Implemented where [`ImagePath`](super::ImagePath) is.
    pub trait Sealed {}
}

impl<T: ImagePath + ?Sized> sealed::Sealed for &T {}

impl<T: ImagePath + ?Sized> ImagePath for &T {
    fn as_bytes(&self) -> &[u8] {
        (**self).as_bytes()
    }
}

/// Implements the trait for types, by an expression of `self`.
macro_rules! image_path {
    ($($(#[$attr:meta])* [$($generics:tt)*] $type:ty: $self:ident => $bytes:expr;)*) => {$(
        $(#[$attr])*
        impl<$($generics)*> sealed::Sealed for $type {}

        $(#[$attr])*
        impl<$($generics)*> ImagePath for $type {
            fn as_bytes(&$self) -> &[u8] {
                $bytes
            }
        }
    )*};
}

image_path! {
    [] [u8]: self => self;
    [const N: usize] [u8; N]: self => self;
    [] Vec<u8>: self => self;
    [] str: self => str::as_bytes(self);
    [] String: self => str::as_bytes(self);
    [T: ImagePath + ?Sized] Box<T>: self => (**self).as_bytes();
    [T: ImagePath + ?Sized] Rc<T>: self => (**self).as_bytes();
    [T: ImagePath + ?Sized] Arc<T>: self => (**self).as_bytes();
    [T: ImagePath + ToOwned + ?Sized] Cow<'_, T>: self => (**self).as_bytes();
    #[cfg(unix)]
    [] std::ffi::OsStr: self => std::os::unix::ffi::OsStrExt::as_bytes(self);
    #[cfg(unix)]
    [] std::ffi::OsString: self => self.as_os_str().as_bytes();
    #[cfg(unix)]
    [] std::path::Path: self => self.as_os_str().as_bytes();
    #[cfg(unix)]
    [] std::path::PathBuf: self => self.as_os_str().as_bytes();
    #[cfg(unix)]
    [] std::path::Component<'_>: self => self.as_os_str().as_bytes();
}

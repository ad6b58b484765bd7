//! The images of a pool.

use super::{Pool, c_string, checked};
use std::ffi::{CStr, c_char};
use std::io;
use std::ptr;

const ERANGE: i32 = 34;
/// `layering` and `exclusive-lock`.
const FEATURES: u64 = 1 << 0 | 1 << 2;

/// `rbd_image_spec_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ImageSpec {
    id: *mut c_char,
    name: *mut c_char,
}

impl Pool {
    /// Makes an image with an exclusive lock.
    ///
    /// # Errors
    /// `EEXIST`; the cluster's.
    pub fn create(&self, name: &str, len: u64) -> io::Result<()> {
        let name = c_string(name)?;
        // 0: as large as the cluster's configuration says.
        let mut order = 0;
        // SAFETY: the pool is open; the name and the order live for the call.
        checked(unsafe {
            (self.cluster.calls.rbd_create2)(self.ioctx, name.as_ptr(), len, FEATURES, &mut order)
        })
    }

    /// Removes an image.
    ///
    /// # Errors
    /// `EBUSY`: it is open somewhere; `ENOTEMPTY`: it has snapshots; `ENOENT`; the cluster's.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let name = c_string(name)?;
        // SAFETY: the pool is open, and the name lives for the call.
        checked(unsafe { (self.cluster.calls.rbd_remove)(self.ioctx, name.as_ptr()) })
    }

    /// The names of the images.
    ///
    /// # Errors
    /// The cluster's.
    pub fn images(&self) -> io::Result<Vec<String>> {
        let mut specs = Vec::new();
        let mut len = 64;
        loop {
            let none = ImageSpec {
                id: ptr::null_mut(),
                name: ptr::null_mut(),
            };
            specs.resize(len, none);
            // SAFETY: the pool is open, and there are `len` entries to fill.
            let listed =
                unsafe { (self.cluster.calls.rbd_list2)(self.ioctx, specs.as_mut_ptr(), &mut len) };
            match checked(listed) {
                // `len` says how many there are.
                Err(e) if e.raw_os_error() == Some(ERANGE) && len > specs.len() => {}
                listed => {
                    listed?;
                    break;
                }
            }
        }
        specs.truncate(len);
        // SAFETY: the library has filled `len` entries with texts.
        let name = |spec: &ImageSpec| unsafe { CStr::from_ptr(spec.name) };
        let names = specs
            .iter()
            .map(|spec| name(spec).to_string_lossy().into_owned());
        let names = names.collect();
        // SAFETY: the entries are those that the library has filled, and are not used afterwards.
        unsafe { (self.cluster.calls.rbd_image_spec_list_cleanup)(specs.as_mut_ptr(), len) };
        Ok(names)
    }
}

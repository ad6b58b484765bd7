//! The options of librbd that are in effect for an image.

use super::checked;
use super::image::{Image, owned};
use std::ffi::{c_char, c_int};
use std::{io, ptr};

/// `rbd_config_option_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ConfigOption {
    name: *mut c_char,
    value: *mut c_char,
    source: c_int,
}

/// `RBD_CONFIG_SOURCE_POOL`
const POOL: c_int = 1;
/// `RBD_CONFIG_SOURCE_IMAGE`
const IMAGE: c_int = 2;
/// Options that a call has room for at first; librbd 16 has 77.
const LISTED: usize = 128;
const ERANGE: i32 = 34;

/// What stores a value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// The image.
    Image,
    /// The pool of the image.
    Pool,
}

/// A value that is stored in the cluster and replaces the one of this client.
#[derive(Debug)]
pub struct Setting {
    pub option: String,
    pub value: String,
    pub source: SettingSource,
}

impl Image {
    /// The options that the image and its pool set.
    ///
    /// # Errors
    /// The cluster's.
    pub fn settings(&self) -> io::Result<Vec<Setting>> {
        let none = ConfigOption {
            name: ptr::null_mut(),
            value: ptr::null_mut(),
            source: 0,
        };
        let mut options = vec![none; LISTED];
        loop {
            let mut count = options.len() as c_int;
            let list = self.calls().rbd_config_image_list;
            // SAFETY: the image is open, and there is space for `count` options.
            let listed = checked(unsafe { list(self.image, options.as_mut_ptr(), &mut count) });
            match listed.as_ref().map_err(io::Error::raw_os_error) {
                Err(Some(ERANGE)) if count as usize > options.len() => {
                    options.resize(count as usize, none);
                }
                Err(_) => return listed.map(|()| Vec::new()),
                Ok(()) => {
                    let all = options[..count as usize].iter();
                    // SAFETY: the call has set `count` options, whose names and values are texts.
                    let settings = all.filter_map(|one| unsafe { setting(one) }).collect();
                    // SAFETY: these are the texts that the call has made; none is used later.
                    unsafe {
                        (self.calls().rbd_config_image_list_cleanup)(options.as_mut_ptr(), count);
                    }
                    return Ok(settings);
                }
            }
        }
    }
}

/// What is stored in the cluster; `None` if the option is that of the client.
///
/// # Safety
/// Name and value are null or texts that end with a zero byte.
unsafe fn setting(option: &ConfigOption) -> Option<Setting> {
    let source = match option.source {
        POOL => SettingSource::Pool,
        IMAGE => SettingSource::Image,
        _ => return None,
    };
    // SAFETY: as the caller guarantees.
    let (option, value) = unsafe { (owned(option.name), owned(option.value)) };
    Some(Setting {
        option,
        value,
        source,
    })
}

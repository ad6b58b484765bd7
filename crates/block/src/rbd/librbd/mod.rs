//! The calls of librbd and librados, which are loaded when the first image is opened: a build needs neither.
//!
//! # Safety
//! All unsafe code of the client is in this module. A handle of the library lives in one value, which owns what it was made from: an image
//! owns its pool, and a pool its cluster. Both libraries allow calls on one handle from several threads. Memory of a caller is lent to a
//! request only inside [`Image::run`](image::Image::run), which returns after the last request has completed.

pub mod image;
mod images;
mod monitor;
mod settings;
pub mod watch;

pub use self::settings::{Setting, SettingSource};

use self::image::{Info, Watcher};
use self::images::ImageSpec;
use self::settings::ConfigOption;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::ptr;
use std::sync::LazyLock;

type Handle = *mut c_void;
type OnNotify = unsafe extern "C" fn(*mut c_void, u64, u64, u64, *mut c_void, usize);
type OnWatchError = unsafe extern "C" fn(*mut c_void, u64, c_int);

/// The library and the packages that have it.
const MISSING: &str = "librbd is not installed (Debian: librbd1; Fedora: librbd1)";
/// Bytes of the longest name or value that is asked for.
const TEXT_MAX: usize = 256;

macro_rules! calls {
    ($($name:ident($($argument:ty),*) $(-> $returned:ty)?;)*) => {
        /// The functions of both libraries, by their names.
        struct Calls {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $returned)?,)*
        }

        impl Calls {
            fn of(library: &libloading::Library) -> Result<Calls, libloading::Error> {
                Ok(Calls {
                    // SAFETY: the types are those of rbd/librbd.h and rados/librados.h.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,)*
                })
            }
        }
    };
}

calls! {
    rados_create2(*mut Handle, *const c_char, *const c_char, u64) -> c_int;
    rados_conf_read_file(Handle, *const c_char) -> c_int;
    rados_conf_parse_argv(Handle, c_int, *const *const c_char) -> c_int;
    rados_conf_set(Handle, *const c_char, *const c_char) -> c_int;
    rados_conf_get(Handle, *const c_char, *mut c_char, usize) -> c_int;
    rados_connect(Handle) -> c_int;
    rados_shutdown(Handle);
    rados_blocklist_add(Handle, *mut c_char, u32) -> c_int;
    rados_wait_for_latest_osdmap(Handle) -> c_int;
    rados_getaddrs(Handle, *mut *mut c_char) -> c_int;
    rados_mon_command(
        Handle,
        *mut *const c_char,
        usize,
        *const c_char,
        usize,
        *mut *mut c_char,
        *mut usize,
        *mut *mut c_char,
        *mut usize
    ) -> c_int;
    rados_buffer_free(*mut c_char);
    rados_ioctx_create(Handle, *const c_char, *mut Handle) -> c_int;
    rados_ioctx_set_namespace(Handle, *const c_char);
    rados_ioctx_destroy(Handle);
    rados_watch2(Handle, *const c_char, *mut u64, OnNotify, OnWatchError, *mut c_void) -> c_int;
    rados_notify_ack(Handle, *const c_char, u64, u64, *const c_char, c_int) -> c_int;
    rados_unwatch2(Handle, u64) -> c_int;
    rados_watch_flush(Handle) -> c_int;
    rbd_namespace_exists(Handle, *const c_char, *mut bool) -> c_int;
    rbd_create2(Handle, *const c_char, u64, u64, *mut c_int) -> c_int;
    rbd_remove(Handle, *const c_char) -> c_int;
    rbd_list2(Handle, *mut ImageSpec, *mut usize) -> c_int;
    rbd_image_spec_list_cleanup(*mut ImageSpec, usize);
    rbd_open(Handle, *const c_char, *mut Handle, *const c_char) -> c_int;
    rbd_open_read_only(Handle, *const c_char, *mut Handle, *const c_char) -> c_int;
    rbd_close(Handle) -> c_int;
    rbd_stat(Handle, *mut Info, usize) -> c_int;
    rbd_get_size(Handle, *mut u64) -> c_int;
    rbd_config_image_list(Handle, *mut ConfigOption, *mut c_int) -> c_int;
    rbd_config_image_list_cleanup(*mut ConfigOption, c_int);
    rbd_get_features(Handle, *mut u64) -> c_int;
    rbd_get_id(Handle, *mut c_char, usize) -> c_int;
    rbd_lock_acquire(Handle, c_int) -> c_int;
    rbd_lock_release(Handle) -> c_int;
    rbd_is_exclusive_lock_owner(Handle, *mut c_int) -> c_int;
    rbd_lock_get_owners(Handle, *mut c_int, *mut *mut c_char, *mut usize) -> c_int;
    rbd_lock_get_owners_cleanup(*mut *mut c_char, usize);
    rbd_lock_break(Handle, c_int, *const c_char) -> c_int;
    rbd_list_lockers(
        Handle,
        *mut c_int,
        *mut c_char,
        *mut usize,
        *mut c_char,
        *mut usize,
        *mut c_char,
        *mut usize,
        *mut c_char,
        *mut usize
    ) -> isize;
    rbd_watchers_list(Handle, *mut Watcher, *mut usize) -> c_int;
    rbd_watchers_list_cleanup(*mut Watcher, usize);
    rbd_aio_create_completion(*mut c_void, *const c_void, *mut Handle) -> c_int;
    rbd_aio_readv(Handle, *const IoSliceMut<'_>, c_int, u64, Handle) -> c_int;
    rbd_aio_writev(Handle, *const IoSlice<'_>, c_int, u64, Handle) -> c_int;
    rbd_aio_discard(Handle, u64, u64, Handle) -> c_int;
    rbd_aio_write_zeroes(Handle, u64, usize, Handle, c_int, c_int) -> c_int;
    rbd_aio_flush(Handle, Handle) -> c_int;
    rbd_aio_wait_for_complete(Handle) -> c_int;
    rbd_aio_get_return_value(Handle) -> isize;
    rbd_aio_release(Handle);
}

/// The library, which is never unloaded: its threads may still run when the last image is closed.
static CALLS: LazyLock<Result<Calls, String>> = LazyLock::new(|| {
    // SAFETY: what librbd runs when it is loaded has no conditions. Its symbols are found with those of librados, which it needs.
    let library = unsafe { libloading::Library::new("librbd.so.1") };
    let library = library.map_err(|e| format!("{MISSING}: {e}"))?;
    let calls = Calls::of(&library);
    std::mem::forget(library);
    calls.map_err(|e| format!("librbd is older than that of Ceph 16: {e}"))
});

fn calls() -> io::Result<&'static Calls> {
    CALLS
        .as_ref()
        .map_err(|why| io::Error::new(ErrorKind::NotFound, why.as_str()))
}

/// What a call returned, which is a negative errno if it failed.
fn checked(returned: c_int) -> io::Result<()> {
    match returned {
        0.. => Ok(()),
        _ => Err(io::Error::from_raw_os_error(returned.saturating_neg())),
    }
}

fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text)
        .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "a name has a zero byte"))
}

/// The text that a call has written into a buffer.
fn text(buffer: &[u8]) -> io::Result<String> {
    let text = CStr::from_bytes_until_nul(buffer).map_err(io::Error::other)?;
    Ok(text.to_string_lossy().into_owned())
}

/// A client of a cluster.
pub struct Cluster {
    calls: &'static Calls,
    rados: Handle,
}

// SAFETY: librados locks what a handle of a cluster has.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

impl Cluster {
    /// A client that is not connected yet.
    ///
    /// # Errors
    /// librbd is not installed, or too old.
    pub fn new(cluster: &str, client: &str) -> io::Result<Cluster> {
        let calls = calls()?;
        let (cluster, client) = (c_string(cluster)?, c_string(client)?);
        let mut rados = ptr::null_mut();
        // SAFETY: all pointers are of values that live for the call.
        let made =
            unsafe { (calls.rados_create2)(&mut rados, cluster.as_ptr(), client.as_ptr(), 0) };
        checked(made)?;
        Ok(Cluster { calls, rados })
    }

    /// Reads a file of the configuration; without one the first of those where Ceph's own programs search.
    pub fn read_config(&self, path: Option<&str>) -> io::Result<()> {
        let path = path.map(c_string).transpose()?;
        let path = path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: the handle is open, and the path lives for the call.
        checked(unsafe { (self.calls.rados_conf_read_file)(self.rados, path) })
    }

    /// Takes options as on a command line; the first argument is the name of the program.
    pub fn parse_arguments(&self, arguments: &[String]) -> io::Result<()> {
        let arguments: Vec<_> = arguments
            .iter()
            .map(|text| c_string(text))
            .collect::<Result<_, _>>()?;
        let pointers: Vec<_> = arguments.iter().map(|text| text.as_ptr()).collect();
        let count = pointers.len() as c_int;
        // SAFETY: the handle is open, and `count` pointers to texts live for the call.
        checked(unsafe { (self.calls.rados_conf_parse_argv)(self.rados, count, pointers.as_ptr()) })
    }

    /// Sets an option of the configuration.
    pub fn set(&self, option: &str, value: &str) -> io::Result<()> {
        let (option, value) = (c_string(option)?, c_string(value)?);
        // SAFETY: the handle is open, and both texts live for the call.
        checked(unsafe { (self.calls.rados_conf_set)(self.rados, option.as_ptr(), value.as_ptr()) })
    }

    /// The value of an option.
    pub fn get(&self, option: &str) -> io::Result<String> {
        let option = c_string(option)?;
        let mut value = [0u8; TEXT_MAX];
        // SAFETY: the handle is open, and the buffer has the length that is passed.
        checked(unsafe {
            (self.calls.rados_conf_get)(
                self.rados,
                option.as_ptr(),
                value.as_mut_ptr().cast(),
                value.len(),
            )
        })?;
        text(&value)
    }

    /// Connects to the cluster.
    pub fn connect(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        checked(unsafe { (self.calls.rados_connect)(self.rados) })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: the handle is open; pools own the cluster, so that all of them are closed.
        unsafe { (self.calls.rados_shutdown)(self.rados) }
    }
}

/// A pool of a cluster, or a namespace in one.
pub struct Pool {
    cluster: Cluster,
    ioctx: Handle,
}

// SAFETY: librados locks what a handle of a pool has; its namespace is set before it is shared.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// A pool of a connected cluster.
    ///
    /// # Errors
    /// `ENOENT`: the pool does not exist, or the namespace in it.
    pub fn open(cluster: Cluster, name: &str, namespace: Option<&str>) -> io::Result<Pool> {
        let name = c_string(name)?;
        let namespace = namespace.map(c_string).transpose()?;
        let mut ioctx = ptr::null_mut();
        // SAFETY: the cluster is open, and the name lives for the call.
        checked(unsafe {
            (cluster.calls.rados_ioctx_create)(cluster.rados, name.as_ptr(), &mut ioctx)
        })?;
        let pool = Pool { cluster, ioctx };
        if let Some(namespace) = namespace {
            pool.enter(&namespace)?;
        }
        Ok(pool)
    }

    /// Makes a namespace that of all images from now on.
    fn enter(&self, namespace: &CStr) -> io::Result<()> {
        let calls = self.cluster.calls;
        let mut exists = false;
        // SAFETY: the pool is open; the name and the answer live for the call.
        checked(unsafe {
            (calls.rbd_namespace_exists)(self.ioctx, namespace.as_ptr(), &mut exists)
        })?;
        if !exists {
            let why = "the pool has not this namespace; `rbd namespace create` makes it";
            return Err(io::Error::new(ErrorKind::NotFound, why));
        }
        // SAFETY: the pool is open and used by this thread only; the name lives for the call.
        unsafe { (calls.rados_ioctx_set_namespace)(self.ioctx, namespace.as_ptr()) }
        Ok(())
    }

    /// The cluster that it is in.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the handle is open; images and watches own the pool, so that all of them are closed.
        unsafe { (self.cluster.calls.rados_ioctx_destroy)(self.ioctx) }
    }
}

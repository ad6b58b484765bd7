//! Images, and requests to them.

use super::{Calls, Handle, Pool, TEXT_MAX, c_string, checked, text};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::ptr;
use std::sync::Arc;

/// `rbd_image_info_t`
#[repr(C)]
pub(super) struct Info {
    size: u64,
    object_size: u64,
    objects: u64,
    order: c_int,
    block_name_prefix: [c_char; 24],
    parent_pool: i64,
    parent_name: [c_char; 96],
}

/// `rbd_image_watcher_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Watcher {
    address: *mut c_char,
    id: i64,
    cookie: u64,
}

/// Requests of one call that are in flight.
const IN_FLIGHT: usize = 64;
/// Owners or watchers that a call has room for at first.
const LISTED: usize = 16;
/// `RBD_LOCK_MODE_EXCLUSIVE`
const EXCLUSIVE: c_int = 0;
/// `RBD_FEATURE_EXCLUSIVE_LOCK`
const FEATURE_EXCLUSIVE_LOCK: u64 = 1 << 2;
const ENOENT: i32 = 2;
const ERANGE: i32 = 34;

/// What is asked of an image, and the memory for it.
pub enum Transfer<'a> {
    /// Fills buffers.
    Read(Vec<IoSliceMut<'a>>),
    /// Writes buffers.
    Write(Vec<IoSlice<'a>>),
    /// Discards so many bytes.
    Discard(u64),
    /// Zeroes so many bytes.
    Zero(u64),
    /// Makes all writes before it durable.
    Flush,
}

/// A request, and where it begins.
pub struct Request<'a> {
    pub offset: u64,
    pub transfer: Transfer<'a>,
}

/// The size of an image and of its objects.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub bytes: u64,
    pub object_bytes: u64,
}

/// An open image.
pub struct Image {
    pool: Arc<Pool>,
    pub(super) image: Handle,
}

// SAFETY: librbd locks what a handle of an image has.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    /// Opens an image to write to. The lock of the image is not acquired.
    pub fn open(pool: &Arc<Pool>, name: &str) -> io::Result<Image> {
        let name = c_string(name)?;
        let mut image = ptr::null_mut();
        let open = pool.cluster.calls.rbd_open;
        // SAFETY: the pool is open, and the name lives for the call.
        checked(unsafe { open(pool.ioctx, name.as_ptr(), &mut image, ptr::null()) })?;
        Ok(Image {
            pool: pool.clone(),
            image,
        })
    }

    /// Opens an image, or a snapshot of it, to read from.
    pub fn open_read_only(
        pool: &Arc<Pool>,
        name: &str,
        snapshot: Option<&str>,
    ) -> io::Result<Image> {
        let name = c_string(name)?;
        let snapshot = snapshot.map(c_string).transpose()?;
        let snapshot = snapshot.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        let mut image = ptr::null_mut();
        let open = pool.cluster.calls.rbd_open_read_only;
        // SAFETY: the pool is open, and both names live for the call.
        checked(unsafe { open(pool.ioctx, name.as_ptr(), &mut image, snapshot) })?;
        Ok(Image {
            pool: pool.clone(),
            image,
        })
    }

    pub(super) fn calls(&self) -> &'static Calls {
        self.pool.cluster.calls
    }

    /// Its size now.
    pub fn geometry(&self) -> io::Result<Geometry> {
        let mut info = std::mem::MaybeUninit::<Info>::zeroed();
        let bytes = size_of::<Info>();
        // SAFETY: the image is open, and `info` has the size that is passed.
        checked(unsafe { (self.calls().rbd_stat)(self.image, info.as_mut_ptr(), bytes) })?;
        // SAFETY: all bytes are initialised, and any bytes are an `Info`.
        let info = unsafe { info.assume_init() };
        Ok(Geometry {
            bytes: info.size,
            object_bytes: info.object_size,
        })
    }

    /// The bytes that it has now, as far as this client has been notified.
    pub fn bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        // SAFETY: the image is open, and the number lives for the call.
        checked(unsafe { (self.calls().rbd_get_size)(self.image, &mut bytes) })?;
        Ok(bytes)
    }

    /// Whether one client at a time can hold it.
    pub fn has_exclusive_lock(&self) -> io::Result<bool> {
        let mut features = 0;
        // SAFETY: the image is open, and the number lives for the call.
        checked(unsafe { (self.calls().rbd_get_features)(self.image, &mut features) })?;
        Ok(features & FEATURE_EXCLUSIVE_LOCK != 0)
    }

    /// By which the cluster knows it.
    pub fn id(&self) -> io::Result<String> {
        let mut id = [0u8; TEXT_MAX];
        // SAFETY: the image is open, and the buffer has the length that is passed.
        checked(unsafe {
            (self.calls().rbd_get_id)(self.image, id.as_mut_ptr().cast(), id.len())
        })?;
        text(&id)
    }

    /// Acquires its lock, and keeps it until the image is closed.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: the image is open.
        checked(unsafe { (self.calls().rbd_lock_acquire)(self.image, EXCLUSIVE) })
    }

    /// Releases its lock.
    pub fn unlock(&self) -> io::Result<()> {
        // SAFETY: the image is open.
        checked(unsafe { (self.calls().rbd_lock_release)(self.image) })
    }

    /// Whether this client holds its lock: the cluster is asked.
    pub fn is_lock_owner(&self) -> io::Result<bool> {
        let mut owner = 0;
        let ask = self.calls().rbd_is_exclusive_lock_owner;
        // SAFETY: the image is open, and the number lives for the call.
        checked(unsafe { ask(self.image, &mut owner) })?;
        Ok(owner != 0)
    }

    /// The addresses of the clients that hold its lock.
    pub fn lock_owners(&self) -> io::Result<Vec<String>> {
        let mut owners = vec![ptr::null_mut::<c_char>(); LISTED];
        loop {
            let (mut mode, mut count) = (0, owners.len());
            let list = self.calls().rbd_lock_get_owners;
            // SAFETY: the image is open, and there is space for `count` pointers.
            let listed =
                checked(unsafe { list(self.image, &mut mode, owners.as_mut_ptr(), &mut count) });
            match listed.as_ref().map_err(io::Error::raw_os_error) {
                Err(Some(ENOENT)) => return Ok(Vec::new()),
                Err(Some(ERANGE)) if count > owners.len() => owners.resize(count, ptr::null_mut()),
                Err(_) => return listed.map(|()| Vec::new()),
                Ok(()) => {
                    let names = owners[..count].iter();
                    // SAFETY: the call has set `count` pointers to texts.
                    let names = names.map(|&name| unsafe { owned(name) }).collect();
                    // SAFETY: these are the texts that the call has made; none is used later.
                    unsafe {
                        (self.calls().rbd_lock_get_owners_cleanup)(owners.as_mut_ptr(), count);
                    }
                    return Ok(names);
                }
            }
        }
    }

    /// The addresses of the clients that held its lock when it was opened; of an image that is opened to read from, too.
    pub fn lockers(&self) -> io::Result<Vec<String>> {
        let mut lens = [TEXT_MAX; 4];
        loop {
            let mut texts = lens.map(|len| vec![0u8; len]);
            let [tag, clients, cookies, addresses] = texts.each_mut().map(|text| text.as_mut_ptr());
            let [tag_len, clients_len, cookies_len, addresses_len] = lens.each_mut();
            let (mut exclusive, list) = (0, self.calls().rbd_list_lockers);
            // SAFETY: the image is open, and each buffer has the length that is passed.
            let listed = unsafe {
                list(
                    self.image,
                    &mut exclusive,
                    tag.cast(),
                    tag_len,
                    clients.cast(),
                    clients_len,
                    cookies.cast(),
                    cookies_len,
                    addresses.cast(),
                    addresses_len,
                )
            };
            match checked(listed as c_int) {
                // The lengths are those that it needs.
                Err(e) if e.raw_os_error() == Some(ERANGE) => {}
                Err(e) => return Err(e),
                Ok(()) => {
                    let names = texts[3].split(|byte| *byte == 0).take(listed as usize);
                    let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
                    return Ok(names.collect());
                }
            }
        }
    }

    /// The addresses of the other clients that have it open to write to, and are alive.
    pub fn watchers(&self) -> io::Result<Vec<String>> {
        let none = Watcher {
            address: ptr::null_mut(),
            id: 0,
            cookie: 0,
        };
        let mut watchers = vec![none; LISTED];
        loop {
            let mut count = watchers.len();
            let list = self.calls().rbd_watchers_list;
            // SAFETY: the image is open, and there is space for `count` of them.
            let listed = checked(unsafe { list(self.image, watchers.as_mut_ptr(), &mut count) });
            match listed.as_ref().map_err(io::Error::raw_os_error) {
                Err(Some(ERANGE)) if count > watchers.len() => watchers.resize(count, none),
                Err(_) => return listed.map(|()| Vec::new()),
                Ok(()) => {
                    let all = watchers[..count].iter();
                    // SAFETY: the call has set `count` watchers, whose addresses are texts.
                    let names = all.map(|one| unsafe { owned(one.address) }).collect();
                    // SAFETY: these are the texts that the call has made; none is used later.
                    unsafe {
                        (self.calls().rbd_watchers_list_cleanup)(watchers.as_mut_ptr(), count);
                    }
                    return Ok(names);
                }
            }
        }
    }

    /// Takes its lock from a client.
    pub fn break_lock(&self, owner: &str) -> io::Result<()> {
        let owner = c_string(owner)?;
        let break_lock = self.calls().rbd_lock_break;
        // SAFETY: the image is open, and the address lives for the call.
        checked(unsafe { break_lock(self.image, EXCLUSIVE, owner.as_ptr()) })
    }

    /// Runs requests, many at a time and in any order, and returns when all of them have ended.
    ///
    /// # Errors
    /// The first that is found; those that did not begin by then do not.
    pub fn run<'a>(&self, requests: impl IntoIterator<Item = Request<'a>>) -> io::Result<()> {
        let mut in_flight: VecDeque<InFlight<'_, 'a>> = VecDeque::with_capacity(IN_FLIGHT);
        let mut done = Ok(());
        for request in requests {
            if in_flight.len() == IN_FLIGHT {
                done = in_flight.pop_front().map_or(Ok(()), InFlight::wait);
            }
            if done.is_ok() {
                // SAFETY: the queue is local, so that the request is dropped before its memory.
                match unsafe { InFlight::start(self, request) } {
                    Ok(started) => in_flight.push_back(started),
                    Err(e) => done = Err(e),
                }
            }
            if done.is_err() {
                break;
            }
        }
        in_flight
            .into_iter()
            .map(InFlight::wait)
            .fold(done, |done, ended| done.and(ended))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the image is open, and no request is in flight, as those borrow it.
        unsafe { (self.calls().rbd_close)(self.image) };
    }
}

/// A copy of a text of the library.
///
/// # Safety
/// The pointer is null, or of a text that ends with a zero byte.
pub(super) unsafe fn owned(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller guarantees.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// A request that librbd has. Dropping it waits for its end, as its memory is in use until then.
struct InFlight<'i, 'a> {
    image: &'i Image,
    completion: Handle,
    request: Request<'a>,
    has_ended: bool,
}

impl<'i, 'a> InFlight<'i, 'a> {
    /// Starts a request.
    ///
    /// # Safety
    /// What it returns is dropped before the memory of the request can be used again.
    unsafe fn start(image: &'i Image, request: Request<'a>) -> io::Result<InFlight<'i, 'a>> {
        let calls = image.calls();
        let mut completion = ptr::null_mut();
        // SAFETY: the handle lives for the call; a completion needs neither argument nor callback.
        checked(unsafe {
            (calls.rbd_aio_create_completion)(ptr::null_mut(), ptr::null(), &mut completion)
        })?;
        let mut started = InFlight {
            image,
            completion,
            request,
            has_ended: true,
        };
        let (image, at) = (image.image, started.request.offset);
        // SAFETY: the image is open. The buffers and the list of them stay where they are until the completion, for which the value
        // waits; a slice for I/O is an iovec.
        let submitted = unsafe {
            match &mut started.request.transfer {
                Transfer::Read(bufs) => {
                    let count = bufs.len() as c_int;
                    (calls.rbd_aio_readv)(image, bufs.as_ptr(), count, at, completion)
                }
                Transfer::Write(bufs) => {
                    let count = bufs.len() as c_int;
                    (calls.rbd_aio_writev)(image, bufs.as_ptr(), count, at, completion)
                }
                Transfer::Discard(len) => (calls.rbd_aio_discard)(image, at, *len, completion),
                Transfer::Zero(len) => {
                    (calls.rbd_aio_write_zeroes)(image, at, *len as usize, completion, 0, 0)
                }
                Transfer::Flush => (calls.rbd_aio_flush)(image, completion),
            }
        };
        checked(submitted)?;
        started.has_ended = false;
        Ok(started)
    }

    /// Waits for its end.
    fn wait(mut self) -> io::Result<()> {
        let calls = self.image.calls();
        // SAFETY: the completion is that of a request that was started.
        let returned = unsafe {
            (calls.rbd_aio_wait_for_complete)(self.completion);
            (calls.rbd_aio_get_return_value)(self.completion)
        };
        self.has_ended = true;
        if returned < 0 {
            return checked(returned as c_int);
        }
        match &self.request.transfer {
            Transfer::Read(bufs)
                if bufs.iter().map(|b| b.len()).sum::<usize>() as isize != returned =>
            {
                Err(ErrorKind::UnexpectedEof.into())
            }
            _ => Ok(()),
        }
    }
}

impl Drop for InFlight<'_, '_> {
    fn drop(&mut self) {
        let calls = self.image.calls();
        // SAFETY: the completion is released once; it is waited for if its request was started.
        unsafe {
            if !self.has_ended {
                (calls.rbd_aio_wait_for_complete)(self.completion);
            }
            (calls.rbd_aio_release)(self.completion);
        }
    }
}

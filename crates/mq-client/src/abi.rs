//! The calls of `<mqueue.h>`: pointers become references, and errors errno.

use crate::delivery::{self, Function};
use libc::{c_char, c_int, c_uint, mode_t, mq_attr, mqd_t, size_t, ssize_t, timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::slice;
use uext4_mqueue::client::{
    Attributes, Deadline, Descriptor, Mounted, Notification, OpenArgs, Priority, Signal, Size,
};

/// What names the directory of the mount.
const DIRECTORY_VARIABLE: &CStr = c"UEXT4_MQ_DIR";
/// No object is longer, so that a length above it stands for any.
const OBJECT_BYTES_MAX: usize = isize::MAX as usize;

unsafe extern "C" {
    /// As getenv(3), but null in a program that has more rights than its caller.
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

/// `struct sigevent`, with the members that the crate `libc` leaves out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SigEvent {
    /// `sigev_value`.
    pub value: libc::sigval,
    /// `sigev_signo`.
    pub signo: c_int,
    /// `sigev_notify`.
    pub notify: c_int,
    /// `sigev_notify_function`.
    pub function: Option<Function>,
    /// `sigev_notify_attributes`.
    pub attributes: *const libc::pthread_attr_t,
}

/// mq_open(3).
///
/// The C function is variadic, which can't be defined here. On x86_64 and aarch64, Linux's calling conventions pass the
/// first four arguments in the same registers either way; the last two are read with `O_CREAT` only, as
/// callers need not pass them otherwise.
///
/// # Safety
/// As of the C function: `name` is a string, and with `O_CREAT` `attr` is null or attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_open(
    name: *const c_char,
    oflag: c_int,
    mode: mode_t,
    attr: *const mq_attr,
) -> mqd_t {
    let flags = OFlags::from_bits_retain(oflag.cast_unsigned());
    let (mode, size) = match flags.contains(OFlags::CREATE) {
        // SAFETY: with `O_CREAT` the caller passes it.
        true => (mode, unsafe { attr.as_ref() }),
        false => (0, None),
    };
    let size = size.map(|attr| Size {
        maxmsg: attr.mq_maxmsg,
        msgsize: attr.mq_msgsize,
    });
    let how = OpenArgs { flags, mode, size };
    // SAFETY: the caller passes a string.
    let opened = unsafe { bytes(name) }.and_then(|name| mounted()?.open(name, &how));
    finish(opened.map(IntoRawFd::into_raw_fd))
}

/// What a fortified program calls for mq_open(3) with two arguments. `O_CREAT` needs four, so it is `EINVAL`.
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __mq_open_2(name: *const c_char, oflag: c_int) -> mqd_t {
    if oflag & libc::O_CREAT != 0 {
        return finish(Err(Errno::INVAL));
    }
    // SAFETY: as here.
    unsafe { mq_open(name, oflag, 0, std::ptr::null()) }
}

/// mq_close(3).
#[unsafe(no_mangle)]
pub extern "C" fn mq_close(mqd: mqd_t) -> c_int {
    // SAFETY: a caller that closes a descriptor does not use it afterwards.
    unsafe { libc::close(mqd) }
}

/// mq_unlink(3).
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_unlink(name: *const c_char) -> c_int {
    // SAFETY: the caller passes a string.
    let unlinked = unsafe { bytes(name) }.and_then(|name| mounted()?.unlink(name));
    done(unlinked.map_err(|e| match e {
        Errno::PERM => Errno::ACCESS,
        e => e,
    }))
}

/// mq_send(3).
///
/// # Safety
/// As [`mq_timedsend`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_send(
    mqd: mqd_t,
    message: *const c_char,
    len: size_t,
    priority: c_uint,
) -> c_int {
    // SAFETY: as here.
    unsafe { mq_timedsend(mqd, message, len, priority, std::ptr::null()) }
}

/// mq_timedsend(3); no deadline is none.
///
/// # Safety
/// `message` is `len` bytes, and `deadline` null or a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_timedsend(
    mqd: mqd_t,
    message: *const c_char,
    len: size_t,
    priority: c_uint,
    deadline: *const timespec,
) -> c_int {
    let send = || {
        // SAFETY: the caller passes a time.
        let deadline = unsafe { time(deadline) }?;
        let priority = Priority::new(priority)?;
        let queue = descriptor(mqd)?;
        let message: &[u8] = match (message.is_null(), len) {
            (_, 0) => &[],
            (true, _) => return Err(Errno::FAULT),
            // SAFETY: the caller passes so many bytes.
            _ => unsafe { slice::from_raw_parts(message.cast(), len.min(OBJECT_BYTES_MAX)) },
        };
        queue.send(message, priority, deadline)
    };
    done(send())
}

/// mq_receive(3).
///
/// # Safety
/// As [`mq_timedreceive`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_receive(
    mqd: mqd_t,
    buffer: *mut c_char,
    len: size_t,
    priority: *mut c_uint,
) -> ssize_t {
    // SAFETY: as here.
    unsafe { mq_timedreceive(mqd, buffer, len, priority, std::ptr::null()) }
}

/// mq_timedreceive(3); no deadline is none.
///
/// # Safety
/// `buffer` has `len` bytes, `priority` is null or room for one, and `deadline` null or a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_timedreceive(
    mqd: mqd_t,
    buffer: *mut c_char,
    len: size_t,
    priority: *mut c_uint,
    deadline: *const timespec,
) -> ssize_t {
    let receive = || {
        // SAFETY: the caller passes a time.
        let deadline = unsafe { time(deadline) }?;
        let queue = descriptor(mqd)?;
        let buffer: &mut [u8] = match (buffer.is_null(), len) {
            (_, 0) => &mut [],
            (true, _) => return Err(Errno::FAULT),
            // SAFETY: the caller passes that many bytes, which no other thread uses meanwhile.
            _ => unsafe { slice::from_raw_parts_mut(buffer.cast(), len.min(OBJECT_BYTES_MAX)) },
        };
        queue.receive(buffer, deadline)
    };
    finish(receive().map(|received| {
        if !priority.is_null() {
            // SAFETY: the caller passes room for it.
            unsafe { priority.write(received.priority) };
        }
        received.len.cast_signed()
    }))
}

/// mq_notify(3).
///
/// # Safety
/// `event` is null or a `struct sigevent`, whose attributes, if it has any, are initialized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_notify(mqd: mqd_t, event: *const SigEvent) -> c_int {
    let notify = || {
        // SAFETY: the caller passes one.
        let Some(event) = (unsafe { event.as_ref() }) else {
            return descriptor(mqd)?.take_back();
        };
        let value = event.value.sival_ptr as usize as u64;
        let how = match event.notify {
            libc::SIGEV_SIGNAL => Notification::Signal(Signal::new(event.signo, value)?),
            libc::SIGEV_NONE => Notification::Nothing,
            libc::SIGEV_THREAD => {
                let function = event.function.ok_or(Errno::INVAL)?;
                let queue = descriptor(mqd)?;
                // SAFETY: the caller passes such attributes.
                return unsafe {
                    delivery::register(queue, function, event.value, event.attributes)
                };
            }
            _ => return Err(Errno::INVAL),
        };
        descriptor(mqd)?.notify(how).map(drop)
    };
    done(notify())
}

/// mq_getattr(3).
///
/// # Safety
/// `attr` is null or room for attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_getattr(mqd: mqd_t, attr: *mut mq_attr) -> c_int {
    // SAFETY: as here.
    unsafe { mq_setattr(mqd, std::ptr::null(), attr) }
}

/// mq_setattr(3), which without new attributes gives what there is.
///
/// # Safety
/// `new` is null or attributes, and `old` null or room for them; they may be the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_setattr(mqd: mqd_t, new: *const mq_attr, old: *mut mq_attr) -> c_int {
    let nonblock = i64::from(libc::O_NONBLOCK);
    let set = || {
        // SAFETY: the caller passes attributes.
        let flags = unsafe { new.as_ref() }.map(|new| new.mq_flags);
        if flags.is_some_and(|flags| flags & !nonblock != 0) {
            return Err(Errno::INVAL);
        }
        let queue = descriptor(mqd)?;
        match flags {
            Some(flags) => queue.setattr(flags != 0),
            None => queue.getattr(),
        }
    };
    done(set().map(|before: Attributes| {
        if !old.is_null() {
            // SAFETY: the caller passes room for them.
            let old = unsafe { &mut *old };
            old.mq_flags = if before.nonblock { nonblock } else { 0 };
            old.mq_maxmsg = before.maxmsg;
            old.mq_msgsize = before.msgsize;
            old.mq_curmsgs = before.curmsgs;
        }
    }))
}

/// The directory that the environment names.
fn mounted() -> Result<Mounted, Errno> {
    // SAFETY: a program that changes its environment meanwhile must not call this, as with getenv(3).
    let dir = unsafe {
        let dir = secure_getenv(DIRECTORY_VARIABLE.as_ptr());
        bytes(dir).map_err(|_| Errno::NOSYS)?
    };
    match dir.is_empty() {
        true => Err(Errno::NOSYS),
        false => Ok(Mounted::new(OsStr::from_bytes(dir))),
    }
}

/// A descriptor that may be one of a queue.
fn descriptor<'fd>(mqd: mqd_t) -> Result<Descriptor<'fd>, Errno> {
    if mqd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is not -1. If it is closed meanwhile, calls fail with `EBADF`, as with any function of C.
    Ok(Descriptor::new(unsafe { BorrowedFd::borrow_raw(mqd) }))
}

/// The bytes of a string; `EFAULT` for null.
///
/// # Safety
/// It is null or a string that lives while the bytes are used.
unsafe fn bytes<'a>(string: *const c_char) -> Result<&'a [u8], Errno> {
    if string.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: as here.
    Ok(unsafe { CStr::from_ptr(string) }.to_bytes())
}

/// A deadline, if there is one.
///
/// # Safety
/// It is null or a time.
unsafe fn time(deadline: *const timespec) -> Result<Option<Deadline>, Errno> {
    // SAFETY: as here.
    let deadline = unsafe { deadline.as_ref() };
    deadline
        .map(|time| Deadline::new(time.tv_sec, time.tv_nsec))
        .transpose()
}

/// A result as the C ABI has it: -1, and errno.
fn finish<T: From<i8>>(result: Result<T, Errno>) -> T {
    result.unwrap_or_else(|e| {
        // SAFETY: errno is this thread's.
        unsafe { *libc::__errno_location() = e.raw_os_error() };
        T::from(-1)
    })
}

/// The same, where success is 0.
fn done(result: Result<(), Errno>) -> c_int {
    finish(result.map(|()| 0))
}

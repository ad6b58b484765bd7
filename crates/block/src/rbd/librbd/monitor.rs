//! What the monitors of a cluster are asked: clients that are blocklisted, and the newest map.

use super::{Cluster, c_string, checked};
use std::ffi::{CStr, c_char};
use std::{io, ptr, slice};

/// Prints a line for each entry: the address, and when it expires.
const BLOCKLIST: &str = r#"{"prefix": "osd blocklist ls"}"#;

impl Cluster {
    /// The address of this client, as locks and the blocklist have it.
    ///
    /// # Errors
    /// This client is not connected.
    pub fn address(&self) -> io::Result<String> {
        let mut address = ptr::null_mut();
        // SAFETY: the handle is open, and the pointer lives for the call.
        checked(unsafe { (self.calls.rados_getaddrs)(self.rados, &mut address) })?;
        // SAFETY: the call has set it to a text, which is freed once and not used later.
        let text = unsafe {
            let text = CStr::from_ptr(address).to_string_lossy().into_owned();
            (self.calls.rados_buffer_free)(address);
            text
        };
        Ok(text)
    }

    /// Makes the cluster refuse the requests of a client for so many seconds, those in flight too.
    ///
    /// # Errors
    /// The cluster's.
    pub fn blocklist(&self, address: &str, seconds: u32) -> io::Result<()> {
        let mut address = c_string(address)?.into_bytes_with_nul();
        let address = address.as_mut_ptr().cast();
        // SAFETY: the handle is open, and the address is a text that lives for the call.
        checked(unsafe { (self.calls.rados_blocklist_add)(self.rados, address, seconds) })?;
        self.wait_for_map()
    }

    /// The clients that the cluster refuses: for each a line with its address and the time when that ends.
    ///
    /// # Errors
    /// The cluster's.
    pub fn blocklisted(&self) -> io::Result<String> {
        let command = c_string(BLOCKLIST)?;
        let mut commands = [command.as_ptr()];
        let (mut out, mut out_bytes) = (ptr::null_mut::<c_char>(), 0);
        let (mut status, mut status_bytes) = (ptr::null_mut::<c_char>(), 0);
        // SAFETY: the handle is open; the command and the four results live for the call, which has no input.
        let asked = checked(unsafe {
            (self.calls.rados_mon_command)(
                self.rados,
                commands.as_mut_ptr(),
                commands.len(),
                ptr::null(),
                0,
                &mut out,
                &mut out_bytes,
                &mut status,
                &mut status_bytes,
            )
        });
        let mut lines = String::new();
        if !out.is_null() {
            // SAFETY: the call has set `out` to so many bytes.
            let bytes = unsafe { slice::from_raw_parts(out.cast(), out_bytes) };
            lines = String::from_utf8_lossy(bytes).into_owned();
        }
        for text in [out, status] {
            // SAFETY: the call has made it, or it is null, which is ignored; it is not used later.
            unsafe { (self.calls.rados_buffer_free)(text) };
        }
        asked.map(|()| lines)
    }

    /// Waits until this client has the newest map of the cluster, which each OSD that it uses from then on has too.
    ///
    /// # Errors
    /// The cluster's.
    pub fn wait_for_map(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        checked(unsafe { (self.calls.rados_wait_for_latest_osdmap)(self.rados) })
    }
}

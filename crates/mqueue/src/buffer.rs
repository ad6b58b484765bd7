//! The memory of a message: whole cache lines, so that messages of two queues share none.

use std::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const LINE_BYTES: usize = 64;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Line([u8; LINE_BYTES]);

/// Bytes, as many as asked for or a few more. On a line of its own, too, as it is read with each message.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Buffer(Box<[Line]>);

impl Buffer {
    /// At least `len` zeros.
    pub fn zeroed(len: usize) -> Buffer {
        Buffer(vec![Line([0; LINE_BYTES]); len.div_ceil(LINE_BYTES)].into_boxed_slice())
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_bytes()
    }
}

//! Memory for a request or a reply, whose data begins at a page: so an image that is open past the host's cache
//! needs no copy.

/// What data is aligned to, in bytes.
pub const PAGE: usize = 4096;

/// Memory that is touched only as far as it is used.
pub struct Buffer {
    memory: Vec<u8>,
    /// The first page in it.
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` bytes from a page's start on, and up to a page before it.
    pub fn new(len: usize) -> Buffer {
        let memory = vec![0; len + 2 * PAGE];
        // Room for what goes before the data, whatever the allocation's own alignment is.
        let start = PAGE + memory.as_ptr().addr().wrapping_neg() % PAGE;
        Buffer { memory, start, len }
    }

    /// The bytes from the page on.
    pub fn page(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }

    /// The same, and the last `before` bytes before it, at most a page.
    pub fn with_room_before(&mut self, before: usize) -> &mut [u8] {
        &mut self.memory[self.start - before..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_begins_at_a_page() {
        for len in [1, PAGE, 3 * PAGE + 1] {
            let mut buffer = Buffer::new(len);
            assert_eq!(buffer.page().as_ptr().addr() % PAGE, 0);
            assert_eq!(buffer.page().len(), len);
            let all = buffer.with_room_before(PAGE);
            assert_eq!((all.len(), all.as_ptr().addr() % PAGE), (len + PAGE, 0));
        }
    }
}

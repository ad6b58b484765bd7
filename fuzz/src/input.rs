//! A script, read byte by byte; zeros after its end.

/// What is left of an input.
pub struct Input<'i> {
    bytes: &'i [u8],
}

impl<'i> Input<'i> {
    pub fn new(bytes: &'i [u8]) -> Input<'i> {
        Input { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn bytes(&mut self, len: usize) -> &'i [u8] {
        let (taken, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    fn number(&mut self, len: usize) -> u64 {
        let bytes = self.bytes(len).iter().rev();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    pub fn u8(&mut self) -> u8 {
        self.number(1) as u8
    }

    pub fn u16(&mut self) -> u16 {
        self.number(2) as u16
    }

    pub fn u32(&mut self) -> u32 {
        self.number(4) as u32
    }

    pub fn u64(&mut self) -> u64 {
        self.number(8)
    }

    /// A number below `end`; zero if that is zero.
    pub fn below(&mut self, end: usize) -> usize {
        let number = match end {
            0..=256 => usize::from(self.u8()),
            _ => self.u32() as usize,
        };
        number.checked_rem(end).unwrap_or(0)
    }

    /// One of several.
    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// A number of bytes or a place in a file: small, or anything.
    pub fn position(&mut self) -> u64 {
        match self.u8() {
            kind @ 0..=99 => u64::from(kind) * 64,
            100..=199 => u64::from(self.u16()),
            200..=249 => u64::from(self.u32()),
            _ => self.u64(),
        }
    }
}

//! Numbers of headers in the forms that old writers give them.

use std::io;

/// The value of a field; one of spaces and zero bytes only is zero, as all readers take it.
///
/// # Errors
/// That of `value`, for a field with anything else.
pub(crate) fn or_zero<T: Default>(field: &[u8], value: io::Result<T>) -> io::Result<T> {
    match field.iter().all(|byte| matches!(byte, b' ' | 0)) {
        true => Ok(T::default()),
        false => value,
    }
}

/// The sum of a header's bytes, with spaces in place of the checksum itself: as pax(1) has it, and with signed bytes, as old
/// versions of SunOS wrote it.
pub(crate) fn checksums(header: &[u8]) -> [u32; 2] {
    let (mut unsigned, mut signed) = (0u32, 0i32);
    for (i, byte) in header.iter().enumerate() {
        let byte = match i {
            148..156 => b' ',
            _ => *byte,
        };
        unsigned += u32::from(byte);
        signed += i32::from(byte as i8);
    }
    [unsigned, signed as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_fields_are_zero() {
        let wrong = || Err::<u64, _>(io::Error::other("none"));
        assert_eq!(or_zero(b"  \0 ", wrong()).unwrap(), 0);
        assert_eq!(or_zero(b"", wrong()).unwrap(), 0);
        assert_eq!(or_zero(b"7 ", Ok(7)).unwrap(), 7);
        or_zero(b"x ", wrong()).unwrap_err();
    }

    #[test]
    fn both_sums() {
        let mut header = [0; 512];
        (header[0], header[150]) = (0xe9, 0xff);
        let spaces = 8 * 32;
        assert_eq!(checksums(&header), [spaces + 0xe9, spaces + 0xe9 - 256]);
    }
}

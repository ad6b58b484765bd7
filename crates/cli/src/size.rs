//! Sizes in bytes with a suffix.

/// Reads `512`, `64K`, `4G`: powers of 1024.
///
/// # Errors
/// What is wrong, for the user.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size: give a number with K, M, G or T, such as 64M");
    let text = text.strip_suffix(['B', 'b']).unwrap_or(text);
    let text = text.strip_suffix(['i']).unwrap_or(text);
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        Some(b'T' | b't') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("`{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn suffixes_are_powers_of_1024() {
        assert_eq!(parse("512"), Ok(512));
        assert_eq!(parse("4k"), Ok(4096));
        assert_eq!(parse("4G"), Ok(4 << 30));
        assert_eq!(parse("1MiB"), Ok(1 << 20));
        assert_eq!(parse("2T"), Ok(2 << 40));
        assert!(parse("").is_err());
        assert!(parse("4X").is_err());
        assert!(parse("99999999999T").is_err());
    }
}

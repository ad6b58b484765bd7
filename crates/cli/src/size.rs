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

/// How numbers of bytes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// In units of this many, rounded up.
    Bytes(u64),
    /// As [`human`].
    Human(u64),
}

impl Unit {
    /// A number of bytes.
    pub fn of(self, bytes: u64) -> String {
        match self {
            Unit::Bytes(unit) => bytes.div_ceil(unit).to_string(),
            Unit::Human(base) => human(bytes, base),
        }
    }
}

/// A number of bytes as `ls -h` shows it: at most four characters, rounded up, in units of powers of `base`, 1024 or 1000.
pub fn human(bytes: u64, base: u64) -> String {
    if bytes < base {
        return bytes.to_string();
    }
    let units = if base == 1000 { "kMGTPE" } else { "KMGTPE" };
    let mut unit = u128::from(base);
    let bytes = u128::from(bytes);
    for letter in units.chars() {
        let tenths = (bytes * 10).div_ceil(unit);
        if tenths < 100 {
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
        let whole = bytes.div_ceil(unit);
        if whole < u128::from(base) || letter == 'E' {
            return format!("{whole}{letter}");
        }
        unit *= u128::from(base);
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::{human, parse};

    #[test]
    fn human_sizes_are_rounded_up() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10 << 10, "10K"),
            ((9 << 10) + 1000, "10K"),
            ((1 << 20) - 1, "1.0M"),
            (1 << 20, "1.0M"),
            ((1 << 30) + 1, "1.1G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(bytes, 1024), text, "{bytes}");
        }
        assert_eq!(human(999, 1000), "999");
        assert_eq!(human(1500, 1000), "1.5k");
        assert_eq!(human(4096, 1000), "4.1k");
    }

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

//! Sizes with a suffix.

use std::fmt;

/// Suffixes of powers of 1024, in order.
const SUFFIXES: &[u8] = b"kmgtpe";

/// Bytes of a sector, whatever those of the device are.
const SECTOR: u64 = 512;

/// Reads `512`, `64K`, `1.5G`: bytes, in powers of 1024; `2048s`: sectors of 512 bytes. A fraction needs a suffix, and what of it is
/// less than a byte is left out.
///
/// # Errors
/// What is wrong, for the user.
pub fn parse(text: &str) -> Result<u64, String> {
    if let Some(sectors) = text.strip_suffix(['s', 'S']) {
        let is_number = !sectors.is_empty() && sectors.bytes().all(|b| b.is_ascii_digit());
        let bytes = sectors
            .parse()
            .ok()
            .and_then(|n: u64| n.checked_mul(SECTOR));
        return match is_number {
            true => bytes.ok_or_else(|| format!("`{text}` is too large")),
            false => Err(not_a_size(text)),
        };
    }
    let unit = text.strip_suffix(['B', 'b']).unwrap_or(text);
    let unit = unit.strip_suffix('i').unwrap_or(unit);
    let suffix = unit.bytes().last().unwrap_or(0).to_ascii_lowercase();
    let power = SUFFIXES.iter().position(|s| *s == suffix);
    let (number, shift) = match power {
        Some(power) => (&unit[..unit.len() - 1], 10 * (power as u32 + 1)),
        None if text.ends_with('i') => return Err(not_a_size(text)),
        None => (unit, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || number.ends_with('.') {
        return Err(not_a_size(text));
    }
    if shift == 0 && !fraction.is_empty() {
        return Err(format!(
            "`{text}` is not a whole number of bytes: a fraction needs a suffix, such as 1.5G"
        ));
    }
    let too_large = || format!("`{text}` is too large");
    let whole: u128 = whole.parse().map_err(|_| too_large())?;
    let bytes = whole
        .checked_mul(1 << shift)
        .and_then(|bytes| bytes.checked_add(part(fraction, shift)))
        .ok_or_else(too_large)?;
    u64::try_from(bytes).map_err(|_| too_large())
}

/// The bytes of a fraction of a unit, rounded down. Digits after the eighteenth count for less than a byte.
fn part(fraction: &str, shift: u32) -> u128 {
    let digits = &fraction[..fraction.len().min(18)];
    let value: u128 = digits.parse().unwrap_or(0);
    (value << shift) / 10_u128.pow(digits.len() as u32)
}

fn not_a_size(text: &str) -> String {
    format!(
        "`{text}` is not a size: give a number with K, M, G or T, such as 64M, or with s for sectors of 512 bytes"
    )
}

/// The size of a file system, as mke2fs takes it after the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsSize {
    /// With a suffix.
    Bytes(u64),
    /// Without: blocks of the block size if that is given, else KiB.
    Blocks(u64),
}

impl FsSize {
    /// Reads `64M`, `1.5G`, `8192s`, `16384`.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn parse(text: &str) -> Result<FsSize, String> {
        match text.parse() {
            Ok(blocks) => Ok(FsSize::Blocks(blocks)),
            Err(_) => parse(text).map(FsSize::Bytes),
        }
    }

    /// Bytes, if the blocks have `block_size` bytes.
    pub fn bytes(self, block_size: Option<u64>) -> u64 {
        match self {
            FsSize::Bytes(bytes) => bytes,
            FsSize::Blocks(blocks) => blocks.saturating_mul(block_size.unwrap_or(1024)),
        }
    }
}

/// A share of something, or a size: `10%`, `200M`, `+200M`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extra {
    /// Percent.
    Percent(f64),
    /// Bytes.
    Bytes(u64),
}

impl Extra {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn parse(text: &str) -> Result<Extra, String> {
        let text = text.strip_prefix('+').unwrap_or(text);
        let Some(percent) = text.strip_suffix('%') else {
            return parse(text).map(Extra::Bytes);
        };
        match percent.parse() {
            Ok(percent) if (0.0..=10_000.0).contains(&percent) => Ok(Extra::Percent(percent)),
            _ => Err(format!("`{text}` is not a share: give one such as 10%")),
        }
    }
}

impl fmt::Display for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extra::Percent(percent) => write!(f, "{percent}%"),
            Extra::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
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
    use super::{Extra, FsSize, human, parse};

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
        assert_eq!(parse("512b"), Ok(512));
        assert_eq!(parse("4k"), Ok(4096));
        assert_eq!(parse("4G"), Ok(4 << 30));
        assert_eq!(parse("1MiB"), Ok(1 << 20));
        assert_eq!(parse("2T"), Ok(2 << 40));
        assert_eq!(parse("15E"), Ok(15 << 60));
        assert_eq!(parse("2048s"), Ok(1 << 20));
        for wrong in [
            "", "K", "4X", "-4K", "+4K", "4i", "4 K", "0x10", "1e3", ".", "s", "1.5s", "+1s", "4Ks",
        ] {
            let e = parse(wrong).unwrap_err();
            assert!(e.contains("is not a size"), "{wrong}: {e}");
        }
        for large in [
            "99999999999T",
            "16E",
            "99999999999999999s",
            "340282366920938463463374607431768211456",
        ] {
            let e = parse(large).unwrap_err();
            assert!(e.contains("too large"), "{large}: {e}");
        }
    }

    #[test]
    fn fractions_are_exact() {
        assert_eq!(parse("1.5G"), Ok(3 << 29));
        assert_eq!(parse("0.5k"), Ok(512));
        assert_eq!(parse("1.3K"), Ok(1331));
        assert_eq!(parse("0.1T"), Ok((1 << 40) / 10));
        assert_eq!(parse("1.00000000000000000000000000000000001M"), Ok(1 << 20));
        assert!(parse("1.5").unwrap_err().contains("needs a suffix"));
        for wrong in ["1.G", ".5G", "1.5.5G", "1,5G"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_size_of_a_file_system_counts_blocks() {
        let bytes = |text, block_size| FsSize::parse(text).unwrap().bytes(block_size);
        assert_eq!(bytes("16384", None), 16 << 20);
        assert_eq!(bytes("16384", Some(4096)), 64 << 20);
        assert_eq!(bytes("64M", Some(4096)), 64 << 20);
        assert_eq!(bytes("2048s", None), 1 << 20);
        assert!(FsSize::parse("s").is_err());
        assert!(FsSize::parse("").is_err());
    }

    #[test]
    fn extra_is_a_share_or_a_size() {
        assert_eq!(Extra::parse("10%"), Ok(Extra::Percent(10.0)));
        assert_eq!(Extra::parse("+1.5M"), Ok(Extra::Bytes(3 << 19)));
        assert!(Extra::parse("%").is_err());
        assert!(Extra::parse("-5%").is_err());
        assert!(Extra::parse("NaN%").is_err());
    }
}

//! Records of extended headers, as pax(1) has them: `LENGTH KEY=VALUE\n`, where a value is any bytes.

use std::io;
use uext4_ondisk::Timestamp;

/// Records by key; of several with one key, the last counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(Vec<(Vec<u8>, Vec<u8>)>);

impl Records {
    /// Adds those of an extended header.
    ///
    /// # Errors
    /// A record that is none.
    pub fn add(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        // Some writers fill up with zeros.
        while bytes.first().is_some_and(|byte| *byte != 0) {
            let (record, rest) = split_record(bytes)
                .ok_or_else(|| io::Error::other("a record of an extended header is damaged"))?;
            self.0.push(record);
            bytes = rest;
        }
        Ok(())
    }

    /// Adds those of another, which count more.
    pub fn extend(&mut self, others: Records) {
        self.0.extend(others.0);
    }

    /// The value of a key; one that is empty takes back what was said before.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.0.iter().rfind(|(k, _)| k == key.as_bytes());
        found.map(|(_, v)| &v[..]).filter(|v| !v.is_empty())
    }

    /// The value of a key as a number.
    ///
    /// # Errors
    /// A value that is none.
    pub fn number(&self, key: &str) -> io::Result<Option<u64>> {
        self.get(key)
            .map(|value| number(value).ok_or_else(|| wrong(key, value)))
            .transpose()
    }

    /// The value of a key as a time.
    ///
    /// # Errors
    /// A value that is none.
    pub fn time(&self, key: &str) -> io::Result<Option<Timestamp>> {
        self.get(key)
            .map(|value| time(value).ok_or_else(|| wrong(key, value)))
            .transpose()
    }

    /// Bytes that records have in a header, about.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(k, v)| k.len() + v.len() + 4).sum()
    }

    /// Keys and values, first to last.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(k, v)| (&k[..], &v[..]))
    }
}

fn wrong(key: &str, value: &[u8]) -> io::Error {
    io::Error::other(format!(
        "the record {key} can't be {}",
        value.escape_ascii()
    ))
}

type Record = (Vec<u8>, Vec<u8>);

fn split_record(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let len = usize::try_from(number(&bytes[..space])?).ok()?;
    let (record, rest) = bytes.split_at_checked(len)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((
        (record[..equals].to_vec(), record[equals + 1..].to_vec()),
        rest,
    ))
}

/// Decimal digits, and nothing else.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| str::from_utf8(text).ok()?.parse().ok())?
}

/// Seconds, with a fraction of which nanoseconds are taken.
fn time(text: &[u8]) -> Option<Timestamp> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let sec = i64::try_from(number(parts.next()?)?).ok()?;
    let mut nsec = 0;
    if let Some(fraction) = parts.next().filter(|fraction| !fraction.is_empty()) {
        number(&fraction[..fraction.len().min(18)])?;
        let digits = fraction.iter().chain(std::iter::repeat(&b'0')).take(9);
        nsec = digits.fold(0, |n, digit| n * 10 + u32::from(digit - b'0'));
    }
    Some(match (negative, nsec) {
        (false, _) => Timestamp::new(sec, nsec),
        (true, 0) => Timestamp::new(-sec, 0),
        (true, _) => Timestamp::new(-sec - 1, 1_000_000_000 - nsec),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_any_bytes() {
        let mut records = Records::default();
        records
            .add(b"16 a=1\n2\0=4567\xff\n6 b=x\n9 a=last\n\0\0")
            .unwrap();
        assert_eq!(records.get("a"), Some(&b"last"[..]));
        assert_eq!(records.iter().next().unwrap().1, b"1\n2\0=4567\xff");
        assert_eq!(records.get("b"), Some(&b"x"[..]));
        assert_eq!(records.get("c"), None);
    }

    #[test]
    fn damage_is_an_error() {
        for bytes in [
            &b"5 a=1\n"[..],
            b"99 a=1\n",
            b"7 a=12\0",
            b"6 abc\n",
            b"x",
            b"6a=1\n",
            b"2 \n",
        ] {
            Records::default().add(bytes).unwrap_err();
        }
    }

    #[test]
    fn times_have_signs_and_fractions() {
        let of = |text: &str| time(text.as_bytes());
        assert_eq!(of("12"), Some(Timestamp::new(12, 0)));
        assert_eq!(of("12.5"), Some(Timestamp::new(12, 500_000_000)));
        assert_eq!(of("12.0000000019"), Some(Timestamp::new(12, 1)));
        assert_eq!(of("-1.25"), Some(Timestamp::new(-2, 750_000_000)));
        assert_eq!(of("-3"), Some(Timestamp::new(-3, 0)));
        for wrong in ["", "-", ".5", "1.x", "1e9", "1.5-"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}

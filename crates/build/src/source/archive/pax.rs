//! Records of extended headers, as pax(1) has them: `LENGTH KEY=VALUE\n`, where a value is any bytes.

use std::io;
use std::sync::Arc;

use uext4_ondisk::Timestamp;

/// Most records of one entry. A map of holes as GNU tar 1.14 wrote it has two for each part of a file.
const RECORDS_MAX: usize = 1 << 20;

/// Records by key; of several with one key, the last counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    /// Those that hold for all entries from some point on, shared by them; the others count more.
    global: Option<Arc<List>>,
    own: List,
}

/// Records in their order, in one buffer.
#[derive(Clone, Debug, Default)]
struct List {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

/// Where a record is: its key, which the value follows.
#[derive(Clone, Copy, Debug)]
struct Record {
    key: u32,
    value: u32,
    end: u32,
}

impl List {
    fn of(&self, record: &Record) -> (&[u8], &[u8]) {
        let part = |from: u32, to: u32| &self.bytes[from as usize..to as usize];
        (
            part(record.key, record.value),
            part(record.value, record.end),
        )
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        self.records.iter().map(|record| self.of(record))
    }
}

impl Records {
    /// These, and below them those of global headers.
    pub fn with_global(self, global: &Records) -> Records {
        Records {
            global: global.global.clone(),
            own: self.own,
        }
    }

    /// Adds those of an extended header.
    ///
    /// # Errors
    /// A record that is none.
    pub fn add(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        // Some writers fill up with zeros.
        while bytes.first().is_some_and(|byte| *byte != 0) {
            let (key, value, rest) = split_record(bytes)
                .ok_or_else(|| io::Error::other("a record of an extended header is damaged"))?;
            if self.own.records.len() == RECORDS_MAX {
                let what = format!("extended headers have more than {RECORDS_MAX} records");
                return Err(io::Error::other(what));
            }
            let own = &mut self.own;
            // Headers of one entry are limited, far below what the number holds.
            let at = own.bytes.len() as u32;
            own.bytes.extend_from_slice(key);
            own.bytes.extend_from_slice(value);
            own.records.push(Record {
                key: at,
                value: at + key.len() as u32,
                end: own.bytes.len() as u32,
            });
            bytes = rest;
        }
        Ok(())
    }

    /// Adds a global header to `self`, which has nothing but these.
    ///
    /// # Errors
    /// A record that is none; more than `bytes_max` bytes or `records_max` records in all.
    pub fn add_global(
        &mut self,
        bytes: &[u8],
        bytes_max: usize,
        records_max: usize,
    ) -> io::Result<()> {
        let own = self.global.take().map(|list| (*list).clone());
        let mut all = Records {
            global: None,
            own: own.unwrap_or_default(),
        };
        all.add(bytes)?;
        if all.own.bytes.len() > bytes_max || all.own.records.len() > records_max {
            let what =
                format!("global headers have more than {bytes_max} bytes or {records_max} records");
            return Err(io::Error::other(what));
        }
        self.global = Some(Arc::new(all.own));
        Ok(())
    }

    /// The value of a key; one that is empty takes back what was said before.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.iter().rfind(|(k, _)| *k == key.as_bytes());
        found.map(|(_, v)| v).filter(|v| !v.is_empty())
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

    /// Keys and values, first to last, those of global headers before the others.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        let global = self.global.iter().flat_map(|list| list.iter());
        global.chain(self.own.iter())
    }
}

fn wrong(key: &str, value: &[u8]) -> io::Error {
    io::Error::other(format!(
        "the record {key} can't be {}",
        value.escape_ascii()
    ))
}

/// Key, value and what follows the first record.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let len = usize::try_from(number(&bytes[..space])?).ok()?;
    let (record, rest) = bytes.split_at_checked(len)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], rest))
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

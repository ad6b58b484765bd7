//! Times as touch(1) takes them, in UTC where the text has no zone.

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::rfc2822;
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp as Instant, Zoned};
use uext4::Timestamp;

/// Reads a time for `touch -d`: `2026-01-31`, `2026-01-31 23:59:59.5`, `2026-01-31T23:59Z`, `@1767225600`, as `date -R` prints it,
/// `23:59` of today, `now`, `yesterday`, `2 days ago`.
///
/// # Errors
/// What can be given, for the user.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    parse_from(text, Instant::now())
}

fn parse_from(text: &str, now: Instant) -> Result<Timestamp, String> {
    let trimmed = text.trim();
    let found = match trimmed.strip_prefix('@') {
        Some(seconds) => since_1970(seconds),
        None => relative(trimmed, now)
            .or_else(|| absolute(trimmed, now))
            .map(timestamp),
    };
    found.ok_or_else(|| {
        "not a time: give 2026-01-31, 2026-01-31 23:59:59, one with a zone such as +0100, @SECONDS, now, yesterday, or 2 days ago"
            .to_owned()
    })
}

/// `@SECONDS` and a fraction.
fn since_1970(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let sec: i64 = whole.parse().ok()?;
    if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nsec: u32 = format!("{fraction:0<9}")[..9].parse().ok()?;
    let (sec, nsec) = match whole.starts_with('-') && nsec > 0 {
        true => (sec - 1, 1_000_000_000 - nsec),
        false => (sec, nsec),
    };
    Some(Timestamp { sec, nsec })
}

fn timestamp(at: Instant) -> Timestamp {
    let nanoseconds = at.as_nanosecond();
    Timestamp {
        sec: nanoseconds.div_euclid(1_000_000_000) as i64,
        nsec: nanoseconds.rem_euclid(1_000_000_000) as u32,
    }
}

/// A time that is said from now.
fn relative(text: &str, now: Instant) -> Option<Instant> {
    let days = |n: i64| {
        now.to_zoned(TimeZone::UTC)
            .checked_add(Span::new().days(n))
            .ok()
    };
    let later = match text.to_ascii_lowercase().as_str() {
        "now" | "today" => Some(now.to_zoned(TimeZone::UTC)),
        "yesterday" => days(-1),
        "tomorrow" => days(1),
        text => {
            let span: Span = text.parse().ok()?;
            now.to_zoned(TimeZone::UTC).checked_add(span).ok()
        }
    };
    later.map(|zoned: Zoned| zoned.timestamp())
}

fn absolute(text: &str, now: Instant) -> Option<Instant> {
    if let Ok(zoned) = rfc2822::parse(text) {
        return Some(zoned.timestamp());
    }
    if let Ok(instant) = text.parse::<Instant>() {
        return Some(instant);
    }
    let (text, zone) = split_zone(text);
    let civil = match (text.parse::<DateTime>(), text.parse::<Date>()) {
        (Ok(at), _) => at,
        (_, Ok(day)) => day.to_datetime(Time::midnight()),
        _ => {
            let time: Time = text.parse().ok()?;
            now.to_zoned(TimeZone::UTC).date().to_datetime(time)
        }
    };
    zone.to_timestamp(civil).ok()
}

/// A text and the zone at its end: `UTC`, `Z`, `+01:00`, `-0500`.
fn split_zone(text: &str) -> (&str, Offset) {
    for name in ["UTC", "GMT", "Z"] {
        if let Some(rest) = text.strip_suffix(name) {
            return (rest.trim_end(), Offset::UTC);
        }
    }
    let numeric = text.rfind(['+', '-']).and_then(|at| {
        let (rest, offset) = text.split_at(at);
        let digits: String = offset[1..].chars().filter(|c| *c != ':').collect();
        // A date has its own dashes.
        if digits.len() != 4 || !rest.contains(':') {
            return None;
        }
        let (hours, minutes): (i32, i32) = (digits[..2].parse().ok()?, digits[2..].parse().ok()?);
        let seconds = hours * 3600 + minutes * 60;
        let seconds = if offset.starts_with('-') {
            -seconds
        } else {
            seconds
        };
        Some((rest.trim_end(), Offset::from_seconds(seconds).ok()?))
    });
    numeric.unwrap_or((text, Offset::UTC))
}

/// Reads a time for `touch -t`: `[[CC]YY]MMDDhhmm[.ss]`.
///
/// # Errors
/// The form, for the user.
pub fn parse_stamp(text: &str) -> Result<Timestamp, String> {
    stamp(text, Instant::now())
        .map(timestamp)
        .ok_or_else(|| "not a time: its form is [[CC]YY]MMDDhhmm[.ss]".to_owned())
}

fn stamp(text: &str, now: Instant) -> Option<Instant> {
    let (digits, seconds) = text.split_once('.').unwrap_or((text, "00"));
    let all_digits = digits
        .bytes()
        .chain(seconds.bytes())
        .all(|b| b.is_ascii_digit());
    if !all_digits || seconds.len() != 2 {
        return None;
    }
    let number = |text: &str| text.parse::<i16>().ok();
    let (year, rest) = match digits.len() {
        8 => (now.to_zoned(TimeZone::UTC).year(), digits),
        10 => match number(&digits[..2])? {
            // As POSIX has it.
            year @ 69.. => (1900 + year, &digits[2..]),
            year => (2000 + year, &digits[2..]),
        },
        12 => (number(&digits[..4])?, &digits[4..]),
        _ => return None,
    };
    let part = |i: usize| rest[2 * i..2 * i + 2].parse::<i8>().ok();
    let second = seconds.parse::<i8>().ok()?;
    let civil = DateTime::new(year, part(0)?, part(1)?, part(2)?, part(3)?, second, 0).ok()?;
    Offset::UTC.to_timestamp(civil).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn read(text: &str) -> String {
        crate::time_format::exact(parse_from(text, now()).unwrap())
    }

    #[test]
    fn texts_are_times() {
        for (text, time) in [
            ("2020-02-03", "2020-02-03T00:00:00.000000000Z"),
            ("2020-02-03 04:05", "2020-02-03T04:05:00.000000000Z"),
            ("2020-02-03 04:05:06.7", "2020-02-03T04:05:06.700000000Z"),
            ("2020-02-03T04:05:06", "2020-02-03T04:05:06.000000000Z"),
            ("2020-02-03T04:05:06Z", "2020-02-03T04:05:06.000000000Z"),
            ("2020-02-03 04:05:06 UTC", "2020-02-03T04:05:06.000000000Z"),
            (
                "2020-02-03 04:05:06 +0100",
                "2020-02-03T03:05:06.000000000Z",
            ),
            (
                "2020-02-03 04:05:06-05:30",
                "2020-02-03T09:35:06.000000000Z",
            ),
            (
                "Mon, 03 Feb 2020 04:05:06 +0000",
                "2020-02-03T04:05:06.000000000Z",
            ),
            ("@0", "1970-01-01T00:00:00.000000000Z"),
            ("@-1.5", "1969-12-31T23:59:58.500000000Z"),
            ("@1580702706.25", "2020-02-03T04:05:06.250000000Z"),
            ("now", "2026-03-01T12:00:00.000000000Z"),
            ("yesterday", "2026-02-28T12:00:00.000000000Z"),
            ("2 days ago", "2026-02-27T12:00:00.000000000Z"),
            ("1 hour", "2026-03-01T13:00:00.000000000Z"),
            ("23:59", "2026-03-01T23:59:00.000000000Z"),
            ("2020", "2026-03-01T20:20:00.000000000Z"),
        ] {
            assert_eq!(read(text), time, "{text}");
        }
        for wrong in ["", "@", "@x", "@1.x", "2020-13-01", "soon"] {
            assert!(parse_from(wrong, now()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn stamps_are_times() {
        let read = |text| stamp(text, now()).map(|at| crate::time_format::exact(timestamp(at)));
        for (text, time) in [
            ("202001020304.05", "2020-01-02T03:04:05.000000000Z"),
            ("7001020304", "1970-01-02T03:04:00.000000000Z"),
            ("2001020304", "2020-01-02T03:04:00.000000000Z"),
            ("01020304", "2026-01-02T03:04:00.000000000Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(time), "{text}");
        }
        for wrong in ["", "202001021", "13020304", "01020304.5", "0102030x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}

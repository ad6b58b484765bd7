//! How long a command waits.

use std::time::Duration;
use uext4_mqueue::client::Deadline;

/// Reads `5`, `1.5s`, `200ms`, `2m`, `1h`; a number alone is seconds.
///
/// # Errors
/// What is wrong, for the user.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time: give seconds, or a number with ms, s, m or h");
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let with_unit = units.iter().find_map(|(unit, seconds)| {
        let number = text.strip_suffix(unit)?;
        Some((number, *seconds))
    });
    let (number, unit) = with_unit.unwrap_or((text, 1.0));
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

/// When that time is over, from now; `None` where no clock goes so far.
pub fn deadline(timeout: Duration) -> Option<Deadline> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let nsec = now.tv_nsec + i64::from(timeout.subsec_nanos());
    let sec = i64::try_from(timeout.as_secs()).ok()?;
    let sec = now
        .tv_sec
        .checked_add(sec)?
        .checked_add(nsec / 1_000_000_000)?;
    Deadline::new(sec, nsec % 1_000_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse("5"), Ok(Duration::from_secs(5)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        for wrong in ["", "s", "-1", "1d", "inf", "nan", "1e300"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn far_deadlines_are_none() {
        assert!(deadline(Duration::from_millis(1)).is_some());
        assert_eq!(deadline(Duration::MAX), None);
    }
}

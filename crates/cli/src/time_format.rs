//! Times as text, in UTC.

use uext4::Timestamp;

/// Year, month, day, hour, minute and second of a count of seconds since 1970.
fn civil(sec: i64) -> (i64, u32, u32, u32, u32, u32) {
    let (days, rest) = (sec.div_euclid(86_400), sec.rem_euclid(86_400) as u32);
    // Days since 0000-03-01, in eras of 400 years that are all of one length.
    let z = days + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day, rest / 3600, rest / 60 % 60, rest % 60)
}

/// `2026-01-31 23:59`.
pub fn minutes(time: Timestamp) -> String {
    let (y, mo, d, h, mi, _) = civil(time.sec);
    format!("{y:04}-{mo:02}-{d:02} {h:02}:{mi:02}")
}

/// `2026-01-31 23:59:59`.
pub fn seconds(sec: i64) -> String {
    let (y, mo, d, h, mi, s) = civil(sec);
    format!("{y:04}-{mo:02}-{d:02} {h:02}:{mi:02}:{s:02}")
}

/// `2026-01-31 23:59:59.123456789 +0000`.
pub fn with_zone(time: Timestamp) -> String {
    format!("{}.{:09} +0000", seconds(time.sec), time.nsec)
}

/// `2026-01-31T23:59:59Z`.
pub fn utc(sec: i64) -> String {
    let (y, mo, d, h, mi, s) = civil(sec);
    format!("{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}Z")
}

/// `2026-01-31T23:59:59.123456789Z`.
pub fn exact(time: Timestamp) -> String {
    let (y, mo, d, h, mi, s) = civil(time.sec);
    format!(
        "{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}.{:09}Z",
        time.nsec
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        assert_eq!(seconds(0), "1970-01-01 00:00:00");
        assert_eq!(seconds(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(seconds(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(seconds(-1), "1969-12-31 23:59:59");
        assert_eq!(seconds(1_767_225_600), "2026-01-01 00:00:00");
    }
}

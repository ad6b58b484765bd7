//! What `-U` takes.

use std::time::{SystemTime, UNIX_EPOCH};
use uuid::{Builder, Uuid};

/// Steps of 100 ns from the beginning of the Gregorian calendar to 1970 (RFC 9562).
const GREGORIAN_TO_UNIX: u64 = 0x01b2_1dd2_1381_4000;

/// A UUID as mke2fs and tune2fs take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UuidArg {
    /// A certain one.
    Given(Uuid),
    /// All bits zero.
    Clear,
    /// Version 4.
    Random,
    /// Version 1.
    Time,
}

impl UuidArg {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn parse(text: &str) -> Result<UuidArg, String> {
        match text {
            "clear" | "null" => Ok(UuidArg::Clear),
            "random" => Ok(UuidArg::Random),
            "time" => Ok(UuidArg::Time),
            _ => Uuid::try_parse(text)
                .map(UuidArg::Given)
                .map_err(|_| "not a UUID, and neither clear, random nor time".to_owned()),
        }
    }

    /// The UUID.
    pub fn uuid(self) -> Uuid {
        match self {
            UuidArg::Given(uuid) => uuid,
            UuidArg::Clear => Uuid::nil(),
            UuidArg::Random => Uuid::new_v4(),
            UuidArg::Time => of_now(),
        }
    }
}

/// Of the time, and random where a host has its address.
fn of_now() -> Uuid {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let steps = since.map_or(0, |since| since.as_nanos() as u64 / 100);
    let [a, b, c, d, e, f, g, h, ..] = Uuid::new_v4().into_bytes();
    // The bit of a multicast address distinguishes it from that of a host.
    let node = [a | 1, b, c, d, e, f];
    let clock = u16::from_le_bytes([g, h]);
    Builder::from_gregorian_timestamp(steps + GREGORIAN_TO_UNIX, clock, &node).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_uuids() {
        let uuid = |text| UuidArg::parse(text).map(UuidArg::uuid);
        assert_eq!(uuid("clear"), Ok(Uuid::nil()));
        assert_eq!(uuid("random").unwrap().get_version_num(), 4);
        assert_eq!(uuid("time").unwrap().get_version_num(), 1);
        let given = "12345678-1234-5678-9abc-123456789abc";
        assert_eq!(uuid(given).unwrap().to_string(), given);
        assert!(uuid("timely").is_err());
    }
}

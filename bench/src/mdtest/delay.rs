//! Where the journal sleeps during a run: the conditions of mechanism 1.

use crate::variants::parse_duration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use uext4_sync::probe::Delay;

/// A condition, with the text that names it in options and rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalDelay {
    text: String,
    delay: Delay,
}

impl JournalDelay {
    /// What the engine is to do.
    pub const fn delay(&self) -> Delay {
        self.delay
    }
}

impl FromStr for JournalDelay {
    type Err = String;

    fn from_str(text: &str) -> Result<JournalDelay, String> {
        let of = |place: fn(Duration) -> Delay, time| match parse_duration(time)? {
            Duration::ZERO => Err(format!("`{text}`: no time at all is `none`")),
            time => Ok(place(time)),
        };
        let delay = match text.split_once(':') {
            None if text == "none" => Delay::None,
            Some(("start", time)) => of(Delay::Start, time)?,
            Some(("access", time)) => of(Delay::Access, time)?,
            _ => {
                return Err(format!(
                    "`{text}` is neither none, start:TIME nor access:TIME"
                ));
            }
        };
        let text = text.to_owned();
        Ok(JournalDelay { text, delay })
    }
}

impl fmt::Display for JournalDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_named_by_their_text() {
        let us = Duration::from_micros;
        let all = [
            ("none", Delay::None),
            ("start:198us", Delay::Start(us(198))),
            ("access:50us", Delay::Access(us(50))),
        ];
        for (text, delay) in all {
            let parsed: JournalDelay = text.parse().unwrap();
            assert_eq!(
                (parsed.delay(), parsed.to_string()),
                (delay, text.to_owned())
            );
        }
        for text in [
            "50us", "start", "start:5", "start:0", "stop:5us", "none:1us", "",
        ] {
            assert!(text.parse::<JournalDelay>().is_err(), "{text}");
        }
    }
}

//! The options of a mount of message queues: limits, named as in `/proc/sys/fs/mqueue`, and those of every mount.

use super::{Given, OptionError, Options, is_harmless, split};
use uext4_fuse::TransportKind;

/// Options of every mount that apply to queues too.
const COMMON: &[&str] = &[
    "nosuid",
    "suid",
    "nodev",
    "dev",
    "noexec",
    "exec",
    "allow_other",
    "noallow_other",
    "threads",
    "fsname",
    "memory",
];

impl Options {
    /// As [`Options::parse`], for message queues.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn parse_queues<S: AsRef<str>>(lists: &[S]) -> Result<Options, OptionError> {
        let mut options = Options {
            // A ring holds a request until it is answered, and a receiver may wait without limit.
            transport: TransportKind::Dev,
            ..Options::default()
        };
        for list in lists {
            for option in split(list.as_ref()) {
                let given = Given::new(&option);
                let is_common = COMMON.contains(&given.name)
                    && (options.set_kernel(&given)? || options.set_front_end(&given)?);
                if !is_common && !options.set_limit(&given)? && !is_harmless(&given)? {
                    return Err(OptionError::UnknownOfQueues(given.name.to_owned()));
                }
            }
        }
        Ok(options)
    }

    fn set_limit(&mut self, given: &Given<'_>) -> Result<bool, OptionError> {
        if given.name == "user_bytes_max" {
            let allowed = "a number of bytes";
            self.limits.user_bytes_max = given.number(0, u64::MAX, allowed)?;
            return Ok(true);
        }
        if self.limits.get(given.name).is_none() {
            return Ok(false);
        }
        let value = given.valued("a number")?;
        match value
            .parse()
            .map(|value| self.limits.set(given.name, value))
        {
            Ok(Ok(())) => Ok(true),
            _ => Err(given.wrong("a number in the range that mq_overview(7) gives")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_what_any_mount_takes() {
        let options = [
            "msg_max=100,nosuid",
            "queues_max=7,user_bytes_max=9,threads=3",
        ];
        let options = Options::parse_queues(&options).unwrap();
        let limits = options.limits;
        assert_eq!(
            (limits.msg_max, limits.queues_max, limits.user_bytes_max),
            (100, 7, 9)
        );
        assert!(options.nosuid && options.threads == Some(3));
        assert_eq!(options.transport, TransportKind::Dev);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (option, word) in [
            ("data=journal", "'data'"),
            ("ro", "'ro'"),
            ("msg_max=0", "'0'"),
            ("msg_max", "msg_max"),
            ("msgsize_max=4294967296", "4294967296"),
            ("transport=uring", "transport"),
        ] {
            let e = Options::parse_queues(&[option]).unwrap_err().to_string();
            assert!(e.contains(word), "{option}: {e}");
        }
    }
}

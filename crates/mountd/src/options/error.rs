//! The errors of options.

/// Why an option is refused; names the option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The option is unknown.
    #[error("unknown option '{0}'; see uext4 mount --help")]
    Unknown(String),
    /// The option does not apply to message queues.
    #[error("unknown option '{0}'; see uext4 mqueue mount --help")]
    UnknownOfQueues(String),
    /// The option does not have this value.
    #[error("option '{name}': '{value}' is not allowed; give {allowed}")]
    Value {
        /// The option.
        name: String,
        /// Its value.
        value: String,
        /// The values that it has.
        allowed: String,
    },
    /// The option needs a value.
    #[error("option '{name}' needs a value: give {allowed}")]
    Missing {
        /// The option.
        name: String,
        /// The values that it has.
        allowed: String,
    },
    /// The option takes no value.
    #[error("option '{name}' takes no value, and '{value}' is given; leave '={value}' out")]
    Superfluous {
        /// The option.
        name: String,
        /// Its value.
        value: String,
    },
    /// The option has an effect that uext4 lacks.
    #[error("option '{name}' is not supported: {why}")]
    Refused {
        /// The option.
        name: String,
        /// The reason, and what to do.
        why: &'static str,
    },
    /// The option cannot change while the image is mounted.
    #[error("option '{0}' can't change while it is mounted; unmount it, and mount it again")]
    Fixed(String),
    /// The option requires another one, or excludes it.
    #[error("option '{name}' {why}")]
    Conflict {
        /// The option.
        name: &'static str,
        /// The other option, and the relation.
        why: &'static str,
    },
}

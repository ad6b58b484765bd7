//! What can be wrong with an option.

/// What is wrong with an option, named so that the user finds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such option.
    #[error("unknown option '{0}'; see uext4 mount --help")]
    Unknown(String),
    /// Message queues have no such option.
    #[error("unknown option '{0}'; see uext4 mqueue mount --help")]
    UnknownOfQueues(String),
    /// Its value is none of those it can have.
    #[error("option '{name}': '{value}' is not allowed; give {allowed}")]
    Value {
        /// The option.
        name: String,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// It has no value, and needs one.
    #[error("option '{name}' needs a value: give {allowed}")]
    Missing {
        /// The option.
        name: String,
        /// What it may be.
        allowed: String,
    },
    /// It has a value, and takes none.
    #[error("option '{name}' takes no value, and '{value}' is given; leave '={value}' out")]
    Superfluous {
        /// The option.
        name: String,
        /// Its value.
        value: String,
    },
    /// It means something that is not done here.
    #[error("option '{name}' is not supported: {why}")]
    Refused {
        /// The option.
        name: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A mount keeps it.
    #[error("option '{0}' can't change while it is mounted; unmount it, and mount it again")]
    Fixed(String),
    /// It needs another one, or excludes it.
    #[error("option '{name}' {why}")]
    Conflict {
        /// The option.
        name: &'static str,
        /// With what.
        why: &'static str,
    },
}

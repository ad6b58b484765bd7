//! Names of arms: how a mechanism's arm is chosen in an option.

use std::fmt;

/// An option names an arm that its mechanism does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{mechanism}: no arm `{name}`; there are {}", Names(arms))]
pub struct UnknownArm {
    mechanism: &'static str,
    name: String,
    arms: Vec<&'static str>,
}

struct Names<'a>(&'a [&'static str]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// The one of `arms` whose name is `text`.
///
/// # Errors
/// [`UnknownArm`], which names those there are.
pub fn parse<A: Copy>(
    mechanism: &'static str,
    text: &str,
    arms: &[A],
    name: fn(A) -> &'static str,
) -> Result<A, UnknownArm> {
    arms.iter()
        .copied()
        .find(|&arm| name(arm) == text)
        .ok_or_else(|| UnknownArm {
            mechanism,
            name: text.to_owned(),
            arms: arms.iter().map(|&arm| name(arm)).collect(),
        })
}

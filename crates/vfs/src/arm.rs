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

/// Gives an enum of arms their list, their names, and both ways between name and arm. The replaced arm
/// comes first.
#[macro_export]
macro_rules! arms {
    ($arm:ident, $mechanism:literal, $($variant:ident = $name:literal),+ $(,)?) => {
        impl $arm {
            /// Every arm, the replaced one first.
            pub const ALL: [$arm; [$($name),+].len()] = [$($arm::$variant),+];

            /// The name in options and results.
            pub const fn name(self) -> &'static str {
                match self {
                    $($arm::$variant => $name),+
                }
            }
        }

        impl ::std::fmt::Display for $arm {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $arm {
            type Err = $crate::arm::UnknownArm;

            fn from_str(text: &str) -> ::std::result::Result<$arm, Self::Err> {
                $crate::arm::parse($mechanism, text, &$arm::ALL, $arm::name)
            }
        }
    };
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

//! Names of variants: how a mechanism's variant is chosen in an option.

use std::fmt;

/// An option names a variant that its mechanism does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{mechanism}: no variant `{name}`; there are {}", Names(variants))]
pub struct UnknownVariant {
    mechanism: &'static str,
    name: String,
    variants: Vec<&'static str>,
}

struct Names<'a>(&'a [&'static str]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// Gives an enum of variants their list, their names, and both ways between name and variant. The replaced variant
/// is the first.
#[macro_export]
macro_rules! variants {
    ($variant:ident, $mechanism:literal, $($case:ident = $name:literal),+ $(,)?) => {
        impl $variant {
            /// Every variant, the replaced one first.
            pub const ALL: [$variant; [$($name),+].len()] = [$($variant::$case),+];

            /// The name in options and results.
            pub const fn name(self) -> &'static str {
                match self {
                    $($variant::$case => $name),+
                }
            }
        }

        impl ::std::fmt::Display for $variant {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $variant {
            type Err = $crate::variants::UnknownVariant;

            fn from_str(text: &str) -> ::std::result::Result<$variant, Self::Err> {
                $crate::variants::parse($mechanism, text, &$variant::ALL, $variant::name)
            }
        }
    };
}

/// The one of `variants` whose name is `text`.
///
/// # Errors
/// [`UnknownVariant`], which names those there are.
pub fn parse<A: Copy>(
    mechanism: &'static str,
    text: &str,
    variants: &[A],
    name: fn(A) -> &'static str,
) -> Result<A, UnknownVariant> {
    variants
        .iter()
        .copied()
        .find(|&variant| name(variant) == text)
        .ok_or_else(|| UnknownVariant {
            mechanism,
            name: text.to_owned(),
            variants: variants.iter().map(|&variant| name(variant)).collect(),
        })
}

//! The lists of `-E` and `-J`, the words of `-e`, and the salt of a hash tree.

use crate::size;
use crate::system::process;
use uext4::unstable::BuildOptions;
use uext4::unstable::ondisk::{Incompat, RoCompat};
use uext4::{ErrorsBehaviour, QuotaKind};
use uuid::Uuid;

/// What `-J` takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Bytes of the journal.
    pub bytes: Option<u64>,
}

impl Journal {
    /// Reads a list.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn parse(list: &str) -> Result<Journal, String> {
        let mut journal = Journal::default();
        for (name, value) in words(list) {
            match (name, value) {
                ("size", Some(value)) => journal.bytes = Some(megabytes(value)?),
                ("device", _) => {
                    return Err("a journal on another device can't be made: mke2fs -O journal_dev and tune2fs -J device= do it".to_owned());
                }
                ("location" | "fast_commit_size", _) => {
                    return Err(format!("`{name}` can't be chosen"));
                }
                _ => return Err(unknown(name, "size=MEGABYTES")),
            }
        }
        Ok(journal)
    }
}

/// A number of MiB, or a size with a suffix.
fn megabytes(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(n) => n
            .checked_mul(1 << 20)
            .ok_or_else(|| format!("`{text}` is too large")),
        Err(_) => size::parse(text),
    }
}

/// What `-E` takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    root_owner: Option<(u32, u32)>,
    hash_seed: Option<Uuid>,
    stride: Option<u16>,
    stripe_width: Option<u32>,
    /// Names are to be in the only encoding there is.
    encoding: bool,
    strict_names: Option<bool>,
    quota_kinds: Option<Vec<QuotaKind>>,
}

impl Extended {
    /// Reads a list.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn parse(list: &str) -> Result<Extended, String> {
        let mut extended = Extended::default();
        for (name, value) in words(list) {
            match (name, value) {
                ("root_owner", owner) => extended.root_owner = Some(root_owner(owner)?),
                ("hash_seed", Some(seed)) => extended.hash_seed = Some(number(name, seed)?),
                ("stride", Some(blocks)) => extended.stride = Some(number(name, blocks)?),
                ("quotatype", Some(kinds)) => extended.quota_kinds = Some(quota_kinds(kinds)?),
                ("stripe_width" | "stripe-width", Some(blocks)) => {
                    extended.stripe_width = Some(number(name, blocks)?);
                }
                ("encoding", Some("utf8" | "utf8-12.1")) => extended.encoding = true,
                ("encoding", _) => {
                    return Err("the only encoding is `utf8` (`utf8-12.1`)".to_owned());
                }
                ("encoding_flags", Some("strict")) => extended.strict_names = Some(true),
                ("encoding_flags", Some("no-strict" | "nostrict")) => {
                    extended.strict_names = Some(false);
                }
                ("encoding_flags", _) => {
                    return Err("`encoding_flags` is `strict` or `no-strict`".to_owned());
                }
                // Inode tables and journal read as zeros from the start, and free space is discarded where that costs nothing.
                ("lazy_itable_init" | "lazy_journal_init", _)
                | ("discard" | "nodiscard" | "assume_storage_prezeroed", None) => {}
                ("offset", _) => {
                    return Err("`offset` can't be chosen: make a file of the image, and copy that to its place".to_owned());
                }
                _ => {
                    let known = "root_owner[=UID:GID], hash_seed=UUID, encoding=utf8, encoding_flags=strict|no-strict, \
                                 stride=BLOCKS, stripe_width=BLOCKS, quotatype=usrquota:grpquota:prjquota, \
                                 lazy_itable_init=, lazy_journal_init=, discard, nodiscard";
                    return Err(unknown(name, known));
                }
            }
        }
        Ok(extended)
    }

    /// Sets what the list had.
    pub fn apply(&self, options: &mut BuildOptions) {
        options.root_owner = self.root_owner.or(options.root_owner);
        options.hash_seed = self.hash_seed.or(options.hash_seed);
        if self.quota_kinds.is_some() {
            options.quota_kinds.clone_from(&self.quota_kinds);
            options.features.ro_compat.insert(RoCompat::QUOTA);
            let projects = self.quota_kinds.iter().flatten();
            if projects.copied().any(|kind| kind == QuotaKind::Project) {
                options.features.ro_compat.insert(RoCompat::PROJECT);
            }
        }
        options.stride = self.stride.unwrap_or(options.stride);
        options.stripe_width = self.stripe_width.unwrap_or(options.stripe_width);
        options.strict_names = self.strict_names.unwrap_or(options.strict_names);
        if self.encoding || self.strict_names.is_some() {
            options.features.incompat.insert(Incompat::CASEFOLD);
        }
    }
}

/// `usrquota:grpquota:prjquota`, or some of them.
fn quota_kinds(list: &str) -> Result<Vec<QuotaKind>, String> {
    let kinds = list.split([':', ' ']).filter(|word| !word.is_empty());
    let kinds = kinds.map(|word| match word {
        "usr" | "usrquota" => Ok(QuotaKind::User),
        "grp" | "grpquota" => Ok(QuotaKind::Group),
        "prj" | "prjquota" => Ok(QuotaKind::Project),
        _ => Err(format!(
            "`quotatype={list}`: give usrquota, grpquota, prjquota, a colon between them"
        )),
    });
    kinds.collect()
}

/// `UID:GID`; without, the caller's own.
fn root_owner(text: Option<&str>) -> Result<(u32, u32), String> {
    let Some(text) = text else {
        return Ok(process::owner());
    };
    numbers("root_owner", text)
}

/// The owner of all files.
///
/// # Errors
/// What is wrong, for the user.
pub fn owner(text: &str) -> Result<(u32, u32), String> {
    numbers("owner", text)
}

fn numbers(name: &str, text: &str) -> Result<(u32, u32), String> {
    let (uid, gid) = text
        .split_once(':')
        .ok_or_else(|| format!("`{name}={text}`: give UID:GID, such as 0:0"))?;
    Ok((number(name, uid)?, number(name, gid)?))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{name}` can't be `{text}`"))
}

fn unknown(name: &str, known: &str) -> String {
    format!("`{name}` is unknown or lacks its value; there is {known}")
}

fn words(list: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let words = list.split(',').filter(|word| !word.is_empty());
    words.map(|word| match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    })
}

/// What `-e` takes.
///
/// # Errors
/// What is wrong, for the user.
pub fn errors(text: &str) -> Result<ErrorsBehaviour, String> {
    match text {
        "continue" => Ok(ErrorsBehaviour::Continue),
        "remount-ro" => Ok(ErrorsBehaviour::RemountRo),
        "panic" => Ok(ErrorsBehaviour::Panic),
        _ => Err("there is continue, remount-ro and panic".to_owned()),
    }
}

/// What the hashes of a tree begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salt(pub Vec<u8>);

/// Reads hexadecimal digits, or `-`.
///
/// # Errors
/// What is wrong, for the user.
pub fn salt(text: &str) -> Result<Salt, String> {
    let digits = if text == "-" { "" } else { text };
    let byte = |at: usize| {
        let two = digits.get(at..at + 2).filter(|two| !two.contains('+'));
        two.and_then(|two| u8::from_str_radix(two, 16).ok())
    };
    let bytes = (0..digits.len()).step_by(2).map(byte).collect();
    let salt: Option<Vec<u8>> = bytes;
    match salt {
        Some(salt) if salt.len() <= 256 => Ok(Salt(salt)),
        _ => Err("at most 256 bytes, each as two hexadecimal digits, or -".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals() {
        let bytes = |list| Journal::parse(list).unwrap().bytes;
        assert_eq!(bytes("size=8"), Some(8 << 20));
        assert_eq!(bytes("size=1.5G"), Some(3 << 29));
        assert!(Journal::parse("size").is_err());
        assert!(
            Journal::parse("device=/dev/x")
                .unwrap_err()
                .contains("tune2fs")
        );
    }

    #[test]
    fn salts() {
        assert_eq!(salt("00ff"), Ok(Salt(vec![0, 255])));
        assert_eq!(salt("-"), Ok(Salt(vec![])));
        for wrong in ["0", "0g", "+1", "é", &"00".repeat(257)] {
            assert!(salt(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn extended_options() {
        let mut options = BuildOptions::default();
        let list = "root_owner=5:6,stride=4,stripe-width=8,lazy_itable_init=0,nodiscard";
        Extended::parse(list).unwrap().apply(&mut options);
        assert_eq!(options.root_owner, Some((5, 6)));
        assert_eq!((options.stride, options.stripe_width), (4, 8));
        let flags = options.features.incompat;
        assert!(!options.strict_names && !flags.contains(Incompat::CASEFOLD));
        let list = "encoding=utf8-12.1,encoding_flags=strict";
        Extended::parse(list).unwrap().apply(&mut options);
        let flags = options.features.incompat;
        assert!(options.strict_names && flags.contains(Incompat::CASEFOLD));
        for wrong in [
            "encoding=latin1",
            "encoding_flags=lax",
            "stride",
            "stride=x",
            "root_owner=5",
            "offset=4096",
            "frob",
            "discard=1",
        ] {
            assert!(Extended::parse(wrong).is_err(), "{wrong}");
        }
    }
}

//! tune2fs: lists the superblock, or changes it and features.

use super::getopt::Words;
use super::undo::{self, with_undo};
use super::{Program, exit, fields, image};
use crate::commands::mkfs::{UuidArg, errors};
use crate::commands::tune;
use anyhow::Result;
use jiff::tz::TimeZone;
use std::fmt::{Display, Write as _};
use std::io::Write;
use std::path::Path;
use uext4::CheckOptions;
use uext4::unstable::ondisk::{
    Compat, ErrorsBehaviour, Feature, HashVersion, Incompat, RoCompat, Superblock,
};
use uext4::unstable::to_stderr;
use uext4::unstable::{Reserved, Tuning};

const USAGE: &str = "\
Usage: tune2fs [-c max_mounts_count] [-e errors_behavior] [-f] [-g group]
\t[-i interval[d|m|w]] [-j] [-J journal_options] [-l]
\t[-m reserved_blocks_percent] [-o [^]mount_options[,...]]
\t[-r reserved_blocks_count] [-u user] [-C mount_count]
\t[-L volume_label] [-M last_mounted_dir]
\t[-O [^]feature[,...]] [-Q quota_options]
\t[-E extended-option[,...]] [-T last_check_time] [-U UUID]
\t[-I new_inode_size] [-z undo_file] device";

/// Bytes of a label at most.
pub const LABEL_MAX: usize = 16;

/// What is asked for, and the lines that say so.
#[derive(Default)]
struct Asked {
    tuning: Tuning,
    said: String,
}

/// A label, cut to the length that one can have.
pub fn label(text: &[u8]) -> Vec<u8> {
    if text.len() > LABEL_MAX {
        to_stderr(format_args!("Warning: label too long, truncating."));
    }
    text.iter().take(LABEL_MAX).copied().collect()
}

pub fn run(program: &Program) -> Result<u8> {
    writeln!(std::io::stdout(), "{}", program.version())?;
    let words = program.read("c:e:fg:i:jlm:o:r:s:u:C:E:I:J:L:M:O:T:U:z:Q:", USAGE, 1)?;
    let [device] = words.operands.as_slice() else {
        return Err(exit(1, USAGE));
    };
    let image = Path::new(device);
    let opened = image::look_at(image).map_err(|e| {
        let no_image = "Couldn't find valid filesystem superblock.";
        let report = e.report(program, image, 1);
        match e.code == image::BAD_MAGIC {
            true => report,
            false => exit(1, format!("{report}\n{no_image}")),
        }
    })?;
    let asked = asked(program, &words, &opened.sb)?;
    if words.has('l') {
        std::io::stdout().write_all(&fields::of(&opened.sb))?;
    }
    if asked.tuning == Tuning::default() {
        return match words.has('l') || !asked.said.is_empty() {
            true => Ok(0),
            false => Err(exit(1, USAGE)),
        };
    }
    drop(opened.device);
    if opened.sb.incompat.contains(Incompat::RECOVER) {
        writeln!(std::io::stdout(), "Recovering journal.")?;
        image::recover(image, &opened.sb)?;
    }
    let adds_journal = asked.tuning.adds_journal();
    std::io::stdout().write_all(asked.said.as_bytes())?;
    with_undo(image, words.value('z'), |undo| {
        tune::change(image, &asked.tuning, &CheckOptions::new(), undo, true)
    })?;
    if let Some(undo) = words.value('z') {
        writeln!(std::io::stdout(), "{}", undo::hint(image, Path::new(undo)))?;
    }
    if adds_journal {
        writeln!(std::io::stdout(), "Creating journal inode: done")?;
    }
    Ok(0)
}

/// What the options ask for.
fn asked(program: &Program, words: &Words, sb: &Superblock) -> Result<Asked> {
    let wrong = |what: &str, value: &str| {
        exit(
            1,
            format!("{}: bad {what} - {value}\n{USAGE}", program.name),
        )
    };
    let mut asked = Asked::default();
    asked.checks(words, &wrong)?;
    asked.reserved(words, sb, &wrong)?;
    asked.names(program, words)?;
    asked.features(program, words, sb)?;
    if let Some(list) = words.list('E') {
        asked.extended(program, &list)?;
    }
    Ok(asked)
}

/// The most mounts between checks.
const MOUNTS_MAX: i16 = 16000;

/// The error of a value that can't be.
type Wrong<'a> = dyn Fn(&str, &str) -> anyhow::Error + 'a;

impl Asked {
    fn say(&mut self, what: impl Display) {
        let _ = writeln!(self.said, "{what}");
    }

    /// When the file system is checked, what happens about damage, and the reserved group: in the order of the original's lines.
    fn checks(&mut self, words: &Words, wrong: &Wrong<'_>) -> Result<()> {
        if let Some(text) = words.text('c') {
            let mounts = match text.parse::<i16>() {
                Ok(0) => -1,
                Ok(mounts) if mounts <= MOUNTS_MAX => mounts,
                _ if text == "random" => 20 + i16::from(uuid::Uuid::new_v4().as_bytes()[0] % 21),
                _ => return Err(wrong("mounts count", &text)),
            };
            self.tuning.max_mounts = Some(mounts.cast_unsigned());
            self.say(format_args!("Setting maximal mount count to {mounts}"));
        }
        if let Some(text) = words.text('C') {
            let mounts: u16 = text.parse().map_err(|_| wrong("mounts count", &text))?;
            self.tuning.mount_count = Some(mounts);
            self.say(format_args!("Setting current mount count to {mounts}"));
        }
        if let Some(text) = words.text('e') {
            let errors = errors(&text).map_err(|_| wrong("error behavior", &text))?;
            let number = match errors {
                ErrorsBehaviour::Continue => 1,
                ErrorsBehaviour::RemountRo => 2,
                ErrorsBehaviour::Panic => 3,
            };
            self.tuning.errors = Some(errors);
            self.say(format_args!("Setting error behavior to {number}"));
        }
        if let Some(text) = words.text('g') {
            let gid = tune::group(&text).map_err(|_| wrong("gid/group name", &text))?;
            self.tuning.reserved_group = Some(gid);
            self.say(format_args!("Setting reserved blocks gid to {gid}"));
        }
        if let Some(text) = words.text('i') {
            let seconds = tune::interval(&text).map_err(|_| wrong("interval", &text))?;
            self.tuning.check_interval = Some(seconds);
            self.say(format_args!(
                "Setting interval between checks to {seconds} seconds"
            ));
        }
        Ok(())
    }

    /// Reserved blocks and the user, and the last check.
    fn reserved(&mut self, words: &Words, sb: &Superblock, wrong: &Wrong<'_>) -> Result<()> {
        if let Some(text) = words.text('m') {
            let percent: f64 = text
                .parse()
                .map_err(|_| wrong("reserved block ratio", &text))?;
            if !(0.0..=50.0).contains(&percent) {
                return Err(wrong("reserved block ratio", &text));
            }
            let blocks = (percent * sb.geometry.blocks_count as f64 / 100.0) as u64;
            self.tuning.reserved = Some(Reserved::Percent(percent));
            self.say(format_args!(
                "Setting reserved blocks percentage to {percent}% ({blocks} blocks)"
            ));
        }
        if let Some(text) = words.text('r') {
            let blocks: u64 = text
                .parse()
                .map_err(|_| wrong("reserved blocks count", &text))?;
            if blocks > sb.geometry.blocks_count / 2 {
                let why = format!("tune2fs: reserved blocks count is too big ({blocks})");
                return Err(exit(1, why));
            }
            self.tuning.reserved = Some(Reserved::Blocks(blocks));
            self.say(format_args!("Setting reserved blocks count to {blocks}"));
        }
        if let Some(text) = words.text('T') {
            let seconds = time_of(&text).ok_or_else(|| {
                exit(
                    1,
                    format!("tune2fs: Couldn't parse date/time specifier: {text}"),
                )
            })?;
            self.tuning.last_check = Some(seconds);
            let time = fields::time(seconds);
            self.say(format_args!(
                "Setting time filesystem last checked to {time}\n"
            ));
        }
        if let Some(text) = words.text('u') {
            let uid = tune::user(&text).map_err(|_| wrong("uid/user name", &text))?;
            self.tuning.reserved_user = Some(uid);
            self.say(format_args!("Setting reserved blocks uid to {uid}"));
        }
        Ok(())
    }

    /// Label, UUID, directory, and mount options.
    fn names(&mut self, program: &Program, words: &Words) -> Result<()> {
        self.tuning.label = words.value('L').map(|text| label(text.as_encoded_bytes()));
        self.tuning.last_mounted = words.value('M').map(|dir| {
            let bytes = dir.as_encoded_bytes();
            bytes.get(..63).unwrap_or(bytes).to_vec()
        });
        if let Some(text) = words.text('U') {
            let uuid = UuidArg::parse(&text);
            let uuid = uuid.map_err(|_| exit(1, "tune2fs: Invalid UUID format\n"))?;
            self.tuning.uuid = Some(uuid.uuid().into_bytes());
        }
        if let Some(list) = words.list('o') {
            let options = tune::default_options(&list)
                .map_err(|_| exit(1, format!("Invalid mount option set: {list}")))?;
            self.tuning.default_options = options;
        }
        if let Some(text) = words.text('I') {
            let bytes = text
                .parse()
                .map_err(|_| exit(1, format!("{}: bad inode size - {text}", program.name)))?;
            self.tuning.inode_size = Some(bytes);
        }
        Ok(())
    }

    fn features(&mut self, program: &Program, words: &Words, sb: &Superblock) -> Result<()> {
        let journal = Feature::Compat(Compat::HAS_JOURNAL);
        if let Some(list) = words.list('O') {
            let features = tune::features(&list);
            let features =
                features.map_err(|_| exit(1, format!("Invalid filesystem option set: {list}")))?;
            self.tuning.features = features.0;
            // metadata_csum is what uninit_bg became.
            let sums = Feature::RoCompat(RoCompat::METADATA_CSUM);
            if sb.has_metadata_csum() && self.tuning.sets(sums) != Some(false) {
                let older = (Feature::RoCompat(RoCompat::GDT_CSUM), true);
                self.tuning.features.retain(|change| *change != older);
            }
        }
        if let Some(list) = words.text('Q') {
            self.quota(&list)?;
        }
        if words.has('j') || words.has('J') {
            self.tuning.features.push((journal, true));
        }
        let adds = self.tuning.adds_journal();
        if (words.has('j') || words.has('J')) && sb.compat.contains(Compat::HAS_JOURNAL) {
            return Err(exit(1, "The filesystem already has a journal."));
        }
        if let Some(list) = words.text('J') {
            let bytes = tune::journal(&list)
                .map_err(|why| exit(1, format!("{}: -J {list}: {why}", program.name)))?;
            let blocks = bytes / u64::from(sb.geometry.block_size);
            self.tuning.journal_blocks = u32::try_from(blocks).ok().filter(|_| adds);
        }
        Ok(())
    }

    fn quota(&mut self, list: &str) -> Result<()> {
        let quotas = tune::quotas(list).map_err(|_| {
            exit(
                1,
                "\nBad quota options specified.\n\nFollowing valid quota options are available (pass by separating with comma):\n\
                 \t[^]usr[quota]\n\t[^]grp[quota]\n\t[^]prj[quota]\n",
            )
        })?;
        self.tuning.quotas = quotas.0;
        Ok(())
    }

    fn extended(&mut self, program: &Program, list: &str) -> Result<()> {
        let bad = |why: &str| {
            let known = "mount_opts=, stride=, stripe_width=, hash_alg=";
            exit(
                1,
                format!(
                    "\nBad options specified.\n\n{}: {why}; there are {known}",
                    program.name
                ),
            )
        };
        for word in list.split(',') {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || {
                value
                    .parse::<u32>()
                    .map_err(|_| bad(&format!("{name}= takes a number")))
            };
            match name {
                "stride" => {
                    let blocks =
                        u16::try_from(number()?).map_err(|_| bad("stride= is too large"))?;
                    self.tuning.stride = Some(blocks);
                    self.say(format_args!("Setting stride size to {blocks}"));
                }
                "stripe_width" | "stripe-width" => {
                    let blocks = number()?;
                    self.tuning.stripe_width = Some(blocks);
                    self.say(format_args!("Setting stripe width to {blocks}"));
                }
                "mount_opts" => {
                    self.tuning.mount_options = Some(value.as_bytes().to_vec());
                    self.say(format_args!(
                        "Setting extended default mount options to '{value}'"
                    ));
                }
                "hash_alg" | "hash-alg" => {
                    let hash = match value {
                        "legacy" => HashVersion::Legacy,
                        "half_md4" => HashVersion::HalfMd4,
                        "tea" => HashVersion::Tea,
                        _ => return Err(bad("hash_alg= takes legacy, half_md4 or tea")),
                    };
                    let number = hash as u8;
                    self.tuning.hash = Some(hash);
                    let line = format!("Setting default hash algorithm to {value} ({number})\n");
                    self.said.insert_str(0, &line);
                }
                "clear_mmp" => {
                    return Err(bad(
                        "clear_mmp can't be done: a host that left the image behind is recognised within a minute, by opening it",
                    ));
                }
                "force_fsck" => return Err(bad("force_fsck can't be done: run e2fsck -f")),
                _ => return Err(bad(&format!("{name} can't be changed"))),
            }
        }
        Ok(())
    }
}

/// The seconds of `YYYYMMDD[HHMM[SS]]` in the time zone of this host, of `now`, or of a count of seconds.
fn time_of(text: &str) -> Option<u64> {
    if text == "now" {
        return Some(jiff::Timestamp::now().as_second().cast_unsigned());
    }
    let part = |range: std::ops::Range<usize>| text.get(range)?.parse::<i8>().ok();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || ![8, 12, 14].contains(&text.len()) {
        return text.strip_prefix('@').unwrap_or(text).parse().ok();
    }
    let year = text.get(0..4)?.parse::<i16>().ok()?;
    let date = jiff::civil::Date::new(year, part(4..6)?, part(6..8)?).ok()?;
    let time = date.at(
        part(8..10).unwrap_or(0),
        part(10..12).unwrap_or(0),
        part(12..14).unwrap_or(0),
        0,
    );
    let zoned = time.to_zoned(TimeZone::system()).ok()?;
    u64::try_from(zoned.timestamp().as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local() {
        assert_eq!(time_of("1234567"), Some(1_234_567));
        assert!(time_of("20200102030405").is_some_and(|time| time > 1_577_800_000));
        assert_eq!(time_of("20201302"), None);
        assert_eq!(time_of("yesterday"), None);
    }

    #[test]
    fn labels_are_cut() {
        assert_eq!(label(b"longer-than-sixteen-bytes"), b"longer-than-sixt");
    }
}

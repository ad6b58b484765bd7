//! logdump: the journal, transaction by transaction.

use super::image::text;
use super::{Debugger, Given, words};
use crate::commands::dump::{RunDump, View, journal_superblock, place_in_journal};
use crate::names::dumpe2fs::journal_lines;
use crate::names::fields::Lines;
use anyhow::{Result, anyhow, bail};
use std::fmt::Write;
use uext4::unstable::ondisk::{
    DescriptorReader, JournalBlockType, JournalHeader, JournalSuper, Pblk, RevokeReader,
};

/// The number of a type of block, and its name.
const fn kind_of(kind: JournalBlockType) -> Option<(u32, &'static str)> {
    Some(match kind {
        JournalBlockType::Descriptor => (1, "descriptor block"),
        JournalBlockType::Commit => (2, "commit block"),
        JournalBlockType::SuperV1 => (3, "V1 superblock"),
        JournalBlockType::SuperV2 => (4, "V2 superblock"),
        JournalBlockType::Revoke => (5, "revoke table"),
        JournalBlockType::Unknown(_) => return None,
    })
}

/// What is asked for.
#[derive(Default)]
struct Options {
    /// Descriptor blocks tag by tag.
    all: bool,
    superblock: bool,
    /// The whole log, not what is to be recovered alone.
    old: bool,
    /// A block of the image.
    block: Option<u64>,
    transactions: Option<u64>,
}

impl Options {
    fn read(given: &Given) -> Result<Options> {
        let mut options = Options::default();
        let mut rest = given.operands().iter();
        let usage = || {
            anyhow!(
                "{}: Usage: logdump [-acOS] [-n<num_trans>] [-b<block>]",
                given.called()
            )
        };
        while let Some(word) = rest.next() {
            let mut letters = word.strip_prefix(b"-").ok_or_else(usage)?;
            while let Some((letter, more)) = letters.split_first() {
                letters = more;
                let mut value = || {
                    let word = if more.is_empty() {
                        rest.next().map(Vec::as_slice)
                    } else {
                        Some(more)
                    };
                    word.and_then(words::number).ok_or_else(usage)
                };
                match letter {
                    b'a' => options.all = true,
                    b'S' => options.superblock = true,
                    b'O' => options.old = true,
                    b'c' => {}
                    b'b' => {
                        options.block = Some(value()?);
                        letters = &[];
                    }
                    b'n' => {
                        options.transactions = Some(value()?);
                        letters = &[];
                    }
                    _ => bail!(
                        "{}: logdump -{} is not supported here; -a lists every block",
                        given.called(),
                        char::from(*letter)
                    ),
                }
            }
        }
        Ok(options)
    }
}

/// `logdump`.
pub fn logdump(debugger: &mut Debugger, given: &Given) -> Result<()> {
    let options = Options::read(given)?;
    let view = debugger.image(given)?.view()?;
    if !view.sb.has_journal() {
        bail!("{}: filesystem has no journal", given.called());
    }
    let journal = journal_superblock(view).map_err(|e| anyhow!("{}: {e:#}", given.called()))?;
    let runs = place_in_journal(view)?;
    let mut out = String::new();
    if options.superblock {
        let mut lines = Lines::default();
        journal_lines(&mut lines, &journal, &view.sb);
        let _ = writeln!(out, "{}", text(&lines.bytes));
    }
    let (start, tid) = (journal.raw.start.get(), journal.raw.sequence.get());
    let _ = writeln!(out, "Journal starts at block {start}, transaction {tid}");
    let mut dump = Dump {
        view,
        journal: &journal,
        runs: &runs,
        options: &options,
        out,
    };
    let ended = dump.log();
    debugger.out = dump.out;
    ended.map_err(|e| anyhow!("{}: {e}", given.called()))
}

/// The log, on the way through.
struct Dump<'d> {
    view: &'d View,
    journal: &'d JournalSuper,
    runs: &'d [RunDump],
    options: &'d Options,
    out: String,
}

impl Dump<'_> {
    fn block(&self, at: u64) -> Result<Vec<u8>> {
        let run = self
            .runs
            .iter()
            .find(|run| (run.lblk..run.lblk + run.len).contains(&at));
        match run {
            Some(run) => self.view.block(Pblk(run.pblk + (at - run.lblk))),
            None => {
                let size = self.view.sb.geometry.block_size;
                bail!("short read (read 0, expected {size}) while reading journal")
            }
        }
    }

    fn log(&mut self) -> Result<()> {
        let first = u64::from(self.journal.raw.first.get());
        let (end, mut tid) = (
            u64::from(self.journal.log_end()),
            self.journal.raw.sequence.get(),
        );
        let mut at = u64::from(self.journal.raw.start.get());
        if at == 0 && !self.options.old {
            return Ok(());
        }
        at = at.max(first);
        let (mut seen, mut done, mut is_behind) = (0, 0, false);
        while seen <= end {
            let bytes = self.block(at)?;
            let Ok(header) = JournalHeader::read(&bytes) else {
                let _ = writeln!(self.out, "No magic number at block {at}: end of journal.");
                // The original continues to the end of the log, and past it.
                return match self.options.old {
                    true => self.block(end).map(drop),
                    false => Ok(()),
                };
            };
            if header.tid.0 != tid {
                let _ = writeln!(
                    self.out,
                    "Found sequence {} (not {tid}) at block {at}: end of journal.",
                    header.tid.0
                );
                if !self.options.old {
                    return Ok(());
                }
                is_behind = true;
            }
            let mut step = 1;
            let Some((kind, name)) = kind_of(header.block_type) else {
                let _ = writeln!(self.out, "Unexpected block type at block {at}.");
                return Ok(());
            };
            if self.options.block.is_none() {
                let _ = writeln!(
                    self.out,
                    "Found expected sequence {}, type {kind} ({name}) at block {at}",
                    header.tid.0
                );
            }
            match header.block_type {
                JournalBlockType::Descriptor => step += self.descriptor(&bytes, at, header.tid.0),
                JournalBlockType::Revoke => self.revokes(&bytes, at, header.tid.0),
                JournalBlockType::Commit => {
                    tid = tid.wrapping_add(1);
                    done += 1;
                }
                _ => {}
            }
            if self.options.transactions == Some(done) && !is_behind {
                return Ok(());
            }
            seen += step;
            at += step;
            if at >= end {
                at = at - end + first;
            }
        }
        Ok(())
    }

    /// Lists the tags; returns how many blocks they are of.
    fn descriptor(&mut self, bytes: &[u8], at: u64, tid: u32) -> u64 {
        let all = self.options.all;
        if all {
            let _ = writeln!(
                self.out,
                "Dumping descriptor block, sequence {tid}, at block {at}:"
            );
        }
        let Ok(tags) = DescriptorReader::new(bytes, &self.journal.format()) else {
            return 0;
        };
        let mut count = 0;
        for tag in tags.map_while(Result::ok) {
            count += 1;
            let (block, flags, journal) = (tag.pblk.0, tag.flags.bits(), at + count);
            if self.options.block == Some(block) {
                let _ = writeln!(
                    self.out,
                    "  FS block {block} logged at sequence {tid}, journal block {journal} (flags 0x{flags:x})"
                );
            } else if all && self.options.block.is_none() {
                let _ = writeln!(
                    self.out,
                    "  FS block {block} logged at journal block {journal} (flags 0x{flags:x})"
                );
            }
        }
        count
    }

    fn revokes(&mut self, bytes: &[u8], at: u64, tid: u32) {
        if self.options.all {
            let _ = writeln!(
                self.out,
                "Dumping revoke block, sequence {tid}, at block {at}:"
            );
        }
        let Ok(revoked) = RevokeReader::new(bytes, &self.journal.format()) else {
            return;
        };
        for block in revoked {
            if self.options.block == Some(block.0) {
                let _ = writeln!(
                    self.out,
                    "  Revoke FS block {} at sequence {tid}, block {at}",
                    block.0
                );
            } else if self.options.all && self.options.block.is_none() {
                let _ = writeln!(self.out, "  Revoke FS block {}", block.0);
            }
        }
    }
}

//! The journal: its superblock, and what each block of the log is.

use super::mapping::RunDump;
use super::view::View;
use super::{Dump, mapping};
use anyhow::{Result, bail};
use serde::Serialize;
use std::fmt::Write;
use uext4::unstable::ondisk::{
    CommitBlock, DescriptorReader, Ino, JournalBlockType, JournalFormat, JournalHeader,
    JournalSuper, RevokeReader,
};

#[derive(Serialize)]
pub struct JournalDump {
    inode: u32,
    blocks: u32,
    block_size: u32,
    first: u32,
    /// Where the log starts; 0 if there is nothing to recover.
    start: u32,
    /// The transaction that is expected there.
    sequence: u32,
    error: u32,
    features: Vec<&'static str>,
    log: Vec<LogBlock>,
}

/// A block that says what it is; the others are copies of blocks.
#[derive(Serialize)]
struct LogBlock {
    /// In the journal.
    block: u64,
    kind: &'static str,
    transaction: u32,
    /// Where the blocks that follow belong, or those that are revoked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// The inode of the journal, and where its blocks are.
fn runs(view: &View) -> Result<(Ino, Vec<RunDump>)> {
    let Some(ino) = view.sb.journal_ino() else {
        bail!("the image has no journal, or has it on another device");
    };
    let inode = view.inode(ino)?.inode;
    let runs = mapping::dump(view, ino, &inode).map_or_else(Vec::new, |map| map.all_runs());
    Ok((ino, runs))
}

/// Where the blocks of the journal are.
///
/// # Errors
/// As [`dump`].
pub fn place_in_journal(view: &View) -> Result<Vec<RunDump>> {
    Ok(runs(view)?.1)
}

/// Reads the superblock of the journal.
///
/// # Errors
/// As [`dump`].
pub fn superblock(view: &View) -> Result<JournalSuper> {
    let (_, runs) = runs(view)?;
    let first = view.block(mapping::place(&runs, 0)?)?;
    Ok(JournalSuper::parse(&first, view.sb.geometry.block_size)?)
}

/// Reads the journal.
///
/// # Errors
/// There is none in the image, or its inode or superblock can't be read.
pub fn dump(view: &View) -> Result<JournalDump> {
    let (ino, runs) = runs(view)?;
    let sb = superblock(view)?;
    let (blocks, most) = (sb.raw.maxlen.get(), view.sb.geometry.blocks_count);
    if u64::from(blocks) > most {
        bail!("the journal has {blocks} blocks, the image {most}");
    }
    let format = sb.format();
    let mut log = Vec::new();
    for at in u64::from(sb.raw.first.get())..u64::from(sb.raw.maxlen.get()) {
        let bytes = view.block(mapping::place(&runs, at)?)?;
        log.extend(log_block(at, &bytes, &format));
    }
    Ok(JournalDump {
        inode: ino.0,
        blocks: sb.raw.maxlen.get(),
        block_size: sb.raw.blocksize.get(),
        first: sb.raw.first.get(),
        start: sb.raw.start.get(),
        sequence: sb.raw.sequence.get(),
        error: sb.raw.errno.get(),
        features: sb.incompat.names().collect(),
        log,
    })
}

fn log_block(at: u64, bytes: &[u8], format: &JournalFormat) -> Option<LogBlock> {
    let header = JournalHeader::read(bytes).ok()?;
    let mut dump = LogBlock {
        block: at,
        kind: "unknown",
        transaction: header.tid.0,
        names: Vec::new(),
        seconds: None,
        fault: None,
    };
    let fault = match header.block_type {
        JournalBlockType::Descriptor => {
            dump.kind = "descriptor";
            match DescriptorReader::new(bytes, format) {
                Ok(tags) => {
                    dump.names = tags.map_while(|tag| tag.ok().map(|t| t.pblk.0)).collect();
                    None
                }
                Err(why) => Some(why),
            }
        }
        JournalBlockType::Revoke => {
            dump.kind = "revoke";
            match RevokeReader::new(bytes, format) {
                Ok(blocks) => {
                    dump.names = blocks.map(|b| b.0).collect();
                    None
                }
                Err(why) => Some(why),
            }
        }
        JournalBlockType::Commit => {
            dump.kind = "commit";
            let commit = CommitBlock::decode(bytes, format);
            dump.seconds = commit.as_ref().ok().map(|c| c.sec);
            commit.err()
        }
        _ => None,
    };
    dump.fault = fault.map(|why| why.to_string());
    Some(dump)
}

impl Dump for JournalDump {
    fn text(&self) -> String {
        let mut out = String::new();
        let (blocks, size) = (self.blocks, self.block_size);
        let _ = writeln!(
            out,
            "journal in inode {}: {blocks} blocks of {size}",
            self.inode
        );
        let _ = writeln!(out, "  features {}", self.features.join(" "));
        match self.start {
            0 => drop(writeln!(out, "  nothing to recover")),
            start => {
                let _ = writeln!(out, "  starts at block {start}");
            }
        }
        let _ = writeln!(
            out,
            "  next transaction {}  error {}",
            self.sequence, self.error
        );
        for block in &self.log {
            let (at, kind, tid) = (block.block, block.kind, block.transaction);
            let _ = write!(out, "{at:>8} {kind:<10} {tid:>10}");
            if let Some(seconds) = block.seconds {
                let time = crate::time_format::seconds(seconds.cast_signed());
                let _ = write!(out, "  {time}");
            }
            for name in &block.names {
                let _ = write!(out, " {name}");
            }
            if let Some(fault) = &block.fault {
                let _ = write!(out, "  FAULT: {fault}");
            }
            out.push('\n');
        }
        out
    }
}

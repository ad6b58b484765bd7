//! dumpe2fs: the superblock, the journal's superblock, and the groups.
//!
//! | module | holds |
//! | --- | --- |
//! | [`groups`] | the groups |

mod groups;

use super::fields::{self, Lines};
use super::{Program, exit, image};
use crate::commands::dump::{View, journal_superblock};
use crate::superblock;
use anyhow::Result;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use uext4::unstable::ondisk::{
    FAST_COMMIT_BLOCKS_DEFAULT, Incompat, JournalIncompat, JournalSuper, MMP_MAGIC, Mmp, Pblk,
    Superblock,
};
use uext4::unstable::to_stderr;

const USAGE: &str = "Usage: dumpe2fs [-bfghimxV] [-o superblock=<num>] [-o blocksize=<num>] device";

pub fn run(program: &Program) -> Result<u8> {
    to_stderr(format_args!("{}", program.version()));
    let words = program.read("bfghimxVo:", USAGE, 1)?;
    if words.has('V') {
        to_stderr(format_args!(
            "\tUsing EXT2FS Library version 1.47.0 (uext4)"
        ));
        return Ok(0);
    }
    let [device] = words.operands.as_slice() else {
        return Err(exit(1, USAGE));
    };
    if words.has('i') {
        return Err(exit(
            1,
            "dumpe2fs: -i reads images of e2image; `e2image -r` makes a raw one, which needs no -i",
        ));
    }
    let device = Path::new(device);
    if let Some(list) = words.list('o') {
        set_superblock(program, &list)?;
    }
    let opened = match image::look_at(device) {
        Ok(opened) => opened,
        Err(e) => {
            let report = e.report(program, device, e.code);
            writeln!(
                std::io::stdout(),
                "Couldn't find valid filesystem superblock."
            )?;
            return Err(report);
        }
    };
    let mut out = std::io::stdout().lock();
    if words.has('b') {
        // Bad blocks would be listed, of which images have none.
        return Ok(0);
    }
    let view = View::new(opened.device, opened.sb);
    if words.has('m') {
        let mmp = mmp_text(&view);
        return match mmp {
            Some(text) => Ok(out.write_all(text.as_bytes()).map(|()| 0)?),
            None => Err(exit(2, "dumpe2fs: MMP feature not enabled.")),
        };
    }
    if words.has('g') {
        out.write_all(groups::table(&view)?.as_bytes())?;
        return Ok(0);
    }
    out.write_all(&fields::of(&view.sb))?;
    let Some(journal) = journal(&view) else {
        out.flush()?;
        return Ok(1);
    };
    out.write_all(&journal)?;
    out.write_all(mmp_text(&view).unwrap_or_default().as_bytes())?;
    out.write_all(b"\n")?;
    if !words.has('h') {
        groups::write(&view, words.has('x'), &mut out)?;
    }
    Ok(0)
}

/// Takes `superblock=` and `blocksize=`; the size of blocks is that of the backup.
fn set_superblock(program: &Program, list: &str) -> Result<()> {
    for word in list.split(',') {
        match word.split_once('=') {
            Some(("superblock", block)) => match block.parse() {
                Ok(block) => superblock::set(block),
                Err(_) => {
                    let why = format!("{}: invalid superblock parameter: {block}", program.name);
                    return Err(exit(1, why));
                }
            },
            Some(("blocksize", _)) => {}
            _ => {
                return Err(exit(
                    1,
                    format!("{}: bad extended option: {word}", program.name),
                ));
            }
        }
    }
    Ok(())
}

/// What the superblock of the journal holds, nothing if there is no journal in the image; `None` if it can't be read, which is reported.
fn journal(view: &View) -> Option<Vec<u8>> {
    let mut lines = Lines::default();
    if view.sb.journal_ino().is_none() {
        return Some(lines.bytes);
    }
    match journal_superblock(view) {
        Ok(journal) => journal_lines(&mut lines, &journal, &view.sb),
        Err(e) => {
            to_stderr(format_args!(
                "dumpe2fs: {e} while reading journal super block"
            ));
            return None;
        }
    }
    Some(lines.bytes)
}

pub fn journal_lines(lines: &mut Lines, journal: &JournalSuper, sb: &Superblock) {
    let raw = &journal.raw;
    let mut names: Vec<&str> = Vec::new();
    if !journal.compat.is_empty() {
        names.push("journal_checksum");
    }
    names.extend(journal.incompat.names());
    let features = match names.is_empty() {
        true => "(none)".to_owned(),
        false => names.join(" "),
    };
    lines.add("Journal features", features);
    let blocks = raw.maxlen.get();
    let kib = u64::from(blocks) * u64::from(sb.geometry.block_size) / 1024;
    let fast = match raw.num_fc_blks.get() {
        0 if journal.incompat.contains(JournalIncompat::FAST_COMMIT) => FAST_COMMIT_BLOCKS_DEFAULT,
        fast => fast,
    };
    let size = match kib {
        _ if kib < 1 << 13 => format!("{kib}k"),
        _ => format!("{}M", kib >> 10),
    };
    lines.add("Total journal size", size);
    lines.add("Total journal blocks", blocks);
    lines.add("Max transaction length", blocks.saturating_sub(fast));
    lines.add("Fast commit length", fast);
    lines.add("Journal sequence", format!("0x{:08x}", raw.sequence.get()));
    lines.add("Journal start", raw.start.get());
    if journal
        .incompat
        .intersects(JournalIncompat::CSUM_V2 | JournalIncompat::CSUM_V3)
    {
        lines.add("Journal checksum type", "crc32c");
        lines.add("Journal checksum", format!("0x{:08x}", raw.checksum.get()));
    }
    if raw.errno.get() != 0 {
        lines.add("Journal errno", raw.errno.get().cast_signed());
    }
}

/// The block of multi-mount protection; `None` without.
fn mmp_text(view: &View) -> Option<String> {
    if !view.sb.incompat.contains(Incompat::MMP) {
        return None;
    }
    let bytes = view.block(Pblk(view.sb.raw.mmp_block.get())).ok()?;
    let seed = view.sb.has_metadata_csum().then(|| view.seed());
    let mmp = match Mmp::parse(&bytes, seed) {
        Ok(mmp) => mmp,
        Err(e) => {
            to_stderr(format_args!("dumpe2fs: {e} while reading MMP block"));
            return Some(String::new());
        }
    };
    let name = |field: &[u8]| {
        let text = field.split(|byte| *byte == 0).next().unwrap_or(&[]);
        OsString::from(String::from_utf8_lossy(text).into_owned())
    };
    let (node, device) = (name(&mmp.nodename), name(&mmp.bdevname));
    Some(format!(
        "MMP_block:\n    mmp_magic: {MMP_MAGIC:#x}\n    mmp_check_interval: {}\n    mmp_sequence: {:#010x}\n    \
         mmp_update_date: {}\n    mmp_update_time: {}\n    mmp_node_name: {}\n    mmp_device_name: {}\n",
        mmp.check_interval,
        mmp.seq,
        fields::time(mmp.time),
        mmp.time,
        node.display(),
        device.display()
    ))
}

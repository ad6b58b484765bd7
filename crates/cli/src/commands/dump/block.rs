//! A block in hexadecimal, and what says that it is in use.

use super::Dump;
use super::view::View;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use uext4::unstable::ondisk::{GroupFlags, Pblk};

/// Bytes in a line.
pub const LINE: usize = 16;

#[derive(Serialize)]
pub struct BlockDump {
    block: u64,
    /// The group it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    /// What the group's bitmap says.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_use: Option<bool>,
    hex: Vec<String>,
    #[serde(skip)]
    bytes: Vec<u8>,
}

/// Reads a block.
///
/// # Errors
/// No such block, or it can't be read.
pub fn dump(view: &View, block: u64) -> Result<BlockDump> {
    let bytes = view.block(Pblk(block))?;
    let place = view.sb.geometry.group_of_block(Pblk(block));
    let in_use = place.and_then(|(group, bit)| {
        let desc = view.group(group).ok()?;
        if desc.flags.contains(GroupFlags::BLOCK_UNINIT) {
            return None;
        }
        let bitmap = view.block(desc.block_bitmap).ok()?;
        let byte = bitmap.get(bit.0 as usize / 8)?;
        Some(byte >> (bit.0 % 8) & 1 == 1)
    });
    Ok(BlockDump {
        block,
        group: place.map(|(group, _)| group.0),
        in_use,
        hex: bytes.chunks(LINE).map(hex).collect(),
        bytes,
    })
}

/// A line of bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    pairs.join(" ")
}

impl Dump for BlockDump {
    fn text(&self) -> String {
        let mut out = String::new();
        let group = self
            .group
            .map_or_else(String::new, |g| format!(", group {g}"));
        let in_use = match self.in_use {
            Some(true) => ", in use",
            Some(false) => ", free",
            None => "",
        };
        let _ = writeln!(out, "block {}{group}{in_use}", self.block);
        let mut last: Option<&[u8]> = None;
        let mut same = false;
        for (i, line) in self.bytes.chunks(LINE).enumerate() {
            // As hexdump(1) has it: lines that repeat are one star.
            if last == Some(line) {
                if !std::mem::replace(&mut same, true) {
                    out.push_str("*\n");
                }
                continue;
            }
            (last, same) = (Some(line), false);
            let text: String = line
                .iter()
                .map(|b| match b {
                    0x20..0x7f => char::from(*b),
                    _ => '.',
                })
                .collect();
            let _ = writeln!(out, "{:05x}  {:<47}  {text}", i * LINE, hex(line));
        }
        out
    }
}

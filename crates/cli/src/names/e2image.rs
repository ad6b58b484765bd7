//! e2image: the metadata of an image as a sparse raw image (`-r`) or as qcow2 (`-Q`); with `-a` data too.
//!
//! Data blocks are holes, and directories, symbolic links, the journal and all that names blocks are kept, so that e2fsck finds what
//! it finds in the original.

use super::{Program, exit, image};
use crate::commands::dump::{NodeDump, View, mapping_of};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use uext4::unstable::ondisk::{
    FileType, GroupFlags, GroupNo, Incompat, Ino, Inode, InodeFlags, Pblk,
};
use uext4::unstable::to_stderr;
use uext4::{BlockDevice, DeviceOptions, FileDevice, Qcow2Device};

const USAGE: &str = "Usage: e2image [ -r|-Q ] [ -f ] [ -b superblock ] [ -B blocksize ] device image-file\n       e2image -I device image-file\n       e2image -ra [ -cfnp ] [ -o src_offset ] [ -O dest_offset ] src_fs [ dest_fs ]";

/// Options that are refused, each with what to do.
const REFUSED: &[(char, &str)] = &[
    (
        'I',
        "-I writes metadata back, which e2fsck -y or `uext4 undo` do with less risk",
    ),
    (
        's',
        "-s scrambles names, which is not supported; images without -a hold no data",
    ),
    (
        'c',
        "-c compares with an earlier image; leave it out, and the image is written anew",
    ),
    (
        'n',
        "-n names blocks and writes nothing; `uext4 info` counts them",
    ),
    (
        'o',
        "-o: an image in a file with an offset is named FILE?offset=BYTES",
    ),
    (
        'O',
        "-O: write the image to a file, and copy that with dd seek=",
    ),
    (
        'b',
        "-b: an image with a damaged superblock is first repaired with e2fsck -b",
    ),
    (
        'B',
        "-B: an image with a damaged superblock is first repaired with e2fsck -b",
    ),
];

pub fn run(program: &Program) -> Result<u8> {
    to_stderr(format_args!("{}", program.version()));
    let words = program.read("rQafpcnIVsb:B:o:O:", USAGE, 1)?;
    if words.has('V') {
        to_stderr(format_args!(
            "\tUsing EXT2FS Library version 1.47.0 (uext4)"
        ));
        return Ok(0);
    }
    let [from, to] = words.operands.as_slice() else {
        return Err(exit(1, USAGE));
    };
    for (letter, why) in REFUSED {
        if words.has(*letter) {
            return Err(exit(1, format!("{}: {why}", program.name)));
        }
    }
    if !words.has('r') && !words.has('Q') {
        let why = "the format of e2image without -r or -Q is not written: give -r or -Q";
        return Err(exit(1, format!("{}: {why}", program.name)));
    }
    let (from, to) = (Path::new(from), Path::new(to));
    let opened = image::look_at(from).map_err(|e| {
        let report = e.report(program, from, 1);
        // The report that follows is what ends the program.
        let _ = writeln!(
            std::io::stdout(),
            "Couldn't find valid filesystem superblock."
        );
        report
    })?;
    let view = View::new(Arc::clone(&opened.device), opened.sb);
    let blocks = blocks(&view, words.has('a'))?;
    if words.has('p') {
        to_stderr(format_args!("Copying {} blocks", blocks.len()));
    }
    if to == Path::new("-") {
        if words.has('Q') {
            let why = "a qcow2 image can't be written to standard output";
            return Err(exit(1, format!("{}: {why}", program.name)));
        }
        return stream(&view, &blocks).map(|()| 0);
    }
    file(&view, &blocks, to, words.has('Q')).with_context(|| to.display().to_string())?;
    Ok(0)
}

/// Writes to standard output, where holes are zeros.
fn stream(view: &View, blocks: &BTreeSet<u64>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let geometry = &view.sb.geometry;
    let zeros = vec![0; geometry.block_size as usize];
    for block in 0..geometry.blocks_count {
        match blocks.contains(&block) {
            true => out.write_all(&view.block(Pblk(block))?)?,
            false => out.write_all(&zeros)?,
        }
    }
    Ok(out.flush()?)
}

fn file(view: &View, blocks: &BTreeSet<u64>, to: &Path, is_qcow2: bool) -> Result<()> {
    let geometry = &view.sb.geometry;
    let block_size = u64::from(geometry.block_size);
    let len = geometry.blocks_count * block_size;
    let file_len = if is_qcow2 { 0 } else { len };
    if std::fs::metadata(to).is_ok_and(|there| there.is_file()) {
        std::fs::remove_file(to)?;
    }
    let file = Arc::new(FileDevice::open(to, &DeviceOptions::create(file_len))?);
    let device: Arc<dyn BlockDevice> = match is_qcow2 {
        true => Arc::new(Qcow2Device::create(to, file, len)?),
        false => file,
    };
    for block in blocks {
        let bytes = view.block(Pblk(*block))?;
        if bytes.iter().any(|byte| *byte != 0) {
            device.write_at(block * block_size, &bytes)?;
        }
    }
    Ok(device.flush()?)
}

/// The blocks that the image holds.
fn blocks(view: &View, data: bool) -> Result<BTreeSet<u64>> {
    let geometry = &view.sb.geometry;
    let mut all = BTreeSet::new();
    // What is in front of the first group has a boot loader, and with large blocks the superblock.
    all.extend(0..=u64::from(geometry.first_data_block));
    for no in (0..geometry.groups_count).map(GroupNo) {
        of_group(view, no, data, &mut all)?;
    }
    if view.sb.incompat.contains(Incompat::MMP) {
        all.insert(view.sb.raw.mmp_block.get());
    }
    all.retain(|block| *block < geometry.blocks_count);
    Ok(all)
}

fn of_group(view: &View, no: GroupNo, data: bool, all: &mut BTreeSet<u64>) -> Result<()> {
    let geometry = &view.sb.geometry;
    let desc = view.group(no)?;
    let first = geometry.group_first_block(no).0;
    all.extend(first..first + u64::from(geometry.base_meta_blocks(no)));
    all.extend([desc.block_bitmap.0, desc.inode_bitmap.0]);
    let table = desc.inode_table.0;
    all.extend(table..table.saturating_add(geometry.itable_blocks_per_group.into()));
    if desc.flags.contains(GroupFlags::INODE_UNINIT) {
        return Ok(());
    }
    let bitmap = view.block(desc.inode_bitmap)?;
    for index in 0..geometry.inodes_per_group {
        let byte = bitmap.get(index as usize / 8).copied().unwrap_or(0);
        let ino = geometry.ino_in_group(no, index);
        // An inode that can't be read has no blocks that could be found.
        if byte & 1 << (index % 8) != 0
            && let Ok(found) = view.inode(ino)
        {
            of_inode(view, ino, &found.inode, data, all);
        }
    }
    Ok(())
}

fn of_inode(view: &View, ino: Ino, inode: &Inode, data: bool, all: &mut BTreeSet<u64>) {
    if inode.file_acl.0 != 0 {
        all.insert(inode.file_acl.0);
    }
    let is_metadata = inode.file_type() != FileType::Regular
        || ino < view.sb.geometry.first_ino
        || view.sb.orphan_file() == Some(ino)
        || inode.flags.contains(InodeFlags::EA_INODE);
    if let Some(map) = mapping_of(view, ino, inode) {
        of_node(view, &map, data || is_metadata, all);
    }
}

fn of_node(view: &View, node: &NodeDump, data: bool, all: &mut BTreeSet<u64>) {
    all.extend(node.block);
    if data {
        let most = view.sb.geometry.blocks_count;
        for run in &node.runs {
            all.extend(run.pblk..run.pblk.saturating_add(run.len).min(most));
        }
    }
    for child in &node.below {
        of_node(view, child, data, all);
    }
}

//! What threads do to the same names.

use crate::external::*;
use crate::operation::{Op, apply};
use crate::tree::{Tree, show};

/// What is written to contested files, and nothing else.
const BYTE: u8 = 7;

/// A name in the directory `contested`, or with more `depth` one in two of those below it, and so on.
fn contested_path(rng: &mut Rng, depth: usize) -> Vec<u8> {
    // Few, where directories are to move into each other.
    let names = if depth > 1 { 4 } else { 12 };
    let mut path = format!("contested/{}", rng.u8(..names));
    for _ in 1..depth {
        if rng.bool() {
            path += &format!("/{}", rng.u8(..names));
        }
    }
    path.into_bytes()
}

/// One of two renames each of which moves a directory into the other's.
fn into_each_other(first: bool) -> Op {
    let (old, new) = match first {
        true => ("contested/0/0", "contested/1/1/0"),
        false => ("contested/1/1", "contested/0/0/0"),
    };
    Op::Rename {
        old: old.into(),
        new: new.into(),
        flags: Default::default(),
    }
}

/// Changes names below the directory `contested`, up to `depth` levels, that all threads make, remove and rename.
///
/// # Errors
/// One that no other thread explains.
pub fn contest<F: FileSystem>(fs: &F, rng: &mut Rng, depth: usize) -> Result<()> {
    let (path, other) = (contested_path(rng, depth), contested_path(rng, depth));
    let op = match rng.u8(..12) {
        0..=1 => Op::Create { path, mode: 0o644 },
        2 => Op::Unlink {
            path,
            keep: rng.bool(),
        },
        3..=4 => Op::Mkdir { path, mode: 0o755 },
        5 => Op::Rmdir { path },
        6 => Op::Link {
            old: path,
            new: other,
        },
        7 => Op::Append {
            path,
            data: vec![BYTE; 5000],
        },
        8 => Op::Truncate { path, size: 0 },
        9 => Op::Write {
            path,
            at: 0,
            data: vec![BYTE; 8192],
            direct: true,
        },
        10 if depth > 2 => into_each_other(rng.bool()),
        _ => Op::Rename {
            old: path,
            new: other,
            flags: Default::default(),
        },
    };
    match apply(fs, &op) {
        Err(e) if !is_explained(&op, e.errno()) => Err(anyhow!("{op:?}: {e:?}")),
        _ => Ok(()),
    }
}

/// Whether what other threads do to the names of an operation, or a full image, explains its error.
fn is_explained(op: &Op, errno: Errno) -> bool {
    use Errno as E;
    let of_operation: &[Errno] = match op {
        Op::Create { .. } | Op::Mkdir { .. } => &[E::EEXIST],
        Op::Unlink { .. } => &[E::EISDIR],
        Op::Rmdir { .. } => &[E::ENOTEMPTY],
        Op::Link { .. } => &[E::EEXIST, E::EPERM],
        Op::Rename { .. } => &[E::EISDIR, E::ENOTEMPTY, E::EINVAL],
        _ => &[E::EISDIR, E::EINVAL],
    };
    let of_all = [E::ENOENT, E::ENOTDIR, E::ENOSPC];
    of_all.contains(&errno) || of_operation.contains(&errno)
}

/// Whether a contested file, of which others may cut or extend the end, holds what was written to it: all bytes are the same.
///
/// # Errors
/// It holds something else, or cannot be read.
pub fn read_contested<F: FileSystem>(fs: &F, node: &F::Node) -> Result<()> {
    let attr = fs.getattr(node)?;
    if attr.kind != FileKind::Regular {
        return Ok(());
    }
    let mut data = vec![0; usize::try_from(attr.size)?];
    let len = fs.read(node, 0, &mut data)?;
    check_bytes(&data[..len])
}

/// Whether all contested files of a tree hold what was written to them.
///
/// # Errors
/// One holds something else.
pub fn check_contested(found: &Tree) -> Result<()> {
    for (path, entry) in found {
        if entry.kind == FileKind::Regular && path.starts_with(b"contested/") {
            check_bytes(&entry.data).with_context(|| show(path))?;
        }
    }
    Ok(())
}

fn check_bytes(data: &[u8]) -> Result<()> {
    match data.iter().position(|byte| *byte != BYTE) {
        None => Ok(()),
        Some(at) => bail!("byte {at} of {} is {:#x}", data.len(), data[at]),
    }
}

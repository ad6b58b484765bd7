//! What threads do to the same names.

use crate::external::*;
use crate::operation::{Op, apply};

/// Changes names of the directory `contested` that all threads make, remove and rename.
///
/// # Errors
/// One that no other thread explains.
pub fn contest<F: FileSystem>(fs: &F, rng: &mut Rng) -> Result<()> {
    let path = |rng: &mut Rng| format!("contested/{}", rng.u8(..12)).into_bytes();
    let (path, other) = (path(rng), path(rng));
    let op = match rng.u8(..9) {
        0..=1 => Op::Create { path, mode: 0o644 },
        2 => Op::Unlink {
            path,
            keep: rng.bool(),
        },
        3 => Op::Mkdir { path, mode: 0o755 },
        4 => Op::Rmdir { path },
        5 => Op::Link {
            old: path,
            new: other,
        },
        6 => Op::Append {
            path,
            data: vec![7; 5000],
        },
        7 => Op::Truncate { path, size: 0 },
        _ => Op::Rename {
            old: path,
            new: other,
            flags: Default::default(),
        },
    };
    use Errno as E;
    let fine = [
        E::EEXIST,
        E::ENOENT,
        E::EISDIR,
        E::ENOTDIR,
        E::ENOTEMPTY,
        E::EPERM,
        E::EINVAL,
        E::ENOSPC,
    ];
    match apply(fs, &op) {
        Err(e) if !fine.contains(&e.errno()) => Err(anyhow!("{op:?}: {e:?}")),
        _ => Ok(()),
    }
}

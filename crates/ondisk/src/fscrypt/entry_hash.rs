//! The hash that an entry has stored after its name, in a directory that is encrypted and ignores case.

use crate::dirent::{Dirent, dirent_size};
use crate::hash::NameHash;

/// The stored hash of an entry of this block; zeros if the record has no room for it.
pub fn entry_hash(block: &[u8], entry: &Dirent<'_>) -> NameHash {
    let at = entry.offset + dirent_size(entry.name.len());
    let end = entry.offset + entry.rec_len;
    let stored = block.get(at..end).and_then(|rest| rest.first_chunk::<8>());
    stored.map_or_else(NameHash::default, |stored| {
        let [a, b, c, d, e, f, g, h] = *stored;
        NameHash {
            major: u32::from_le_bytes([a, b, c, d]),
            minor: u32::from_le_bytes([e, f, g, h]),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirent::dir_entries;

    #[test]
    fn the_hash_is_behind_the_padded_name() {
        let mut block = vec![0; 64];
        block[..8].copy_from_slice(&[12, 0, 0, 0, 24, 0, 5, 1]);
        block[8..13].copy_from_slice(b"abcde");
        block[16..24].copy_from_slice(&[2, 0, 0, 0, 3, 0, 0, 0]);
        block[24..32].copy_from_slice(&[13, 0, 0, 0, 40, 0, 32, 1]);
        let hashes: Vec<_> = dir_entries(&block, 64)
            .flatten()
            .map(|entry| entry_hash(&block, &entry))
            .collect();
        let stored = NameHash { major: 2, minor: 3 };
        assert_eq!(hashes, [stored, NameHash::default()]);
    }
}

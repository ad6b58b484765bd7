//! A search for the ending of a name in a block of a directory.

/// As many words are compared before one that was equal ends the search.
const WORDS_AT_ONCE: usize = 64;

/// Whether the last four bytes of a name are where a record would have them. Many words are compared at a time, and most names that are
/// to be added have an ending that no other has. A name that is shorter may be anywhere.
pub(crate) fn has_ending(block: &[u8], name: &[u8]) -> bool {
    let Some(ending) = name.last_chunk().map(|end| u32::from_ne_bytes(*end)) else {
        return true;
    };
    // Records, and so their names, begin at multiples of four.
    let words = block.get(name.len() % 4..).unwrap_or(&[]);
    let (words, _) = words.as_chunks::<4>();
    let is_in = |words: &[[u8; 4]]| {
        let is_equal = |found, word: &[u8; 4]| found | (u32::from_ne_bytes(*word) == ending);
        words.iter().fold(false, is_equal)
    };
    words.chunks(WORDS_AT_ONCE).any(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileType, Ino};
    use crate::{dir_block_init, dir_find, dir_insert};

    #[test]
    fn a_name_of_any_length_is_found_anywhere() {
        for len in 1..=255_usize {
            let name: Vec<u8> = (0..len).map(|at| b'a' + (at % 26) as u8).collect();
            for before in (1..=255).step_by(5) {
                let mut block = vec![0; 1024];
                dir_block_init(&mut block, false);
                for (ino, name) in [(1, &vec![b'-'; before]), (2, &name)] {
                    dir_insert(&mut block, 1024, name, Ino(ino), FileType::Regular, 0).unwrap();
                }
                assert!(has_ending(&block, &name));
                let found = dir_find(&block, 1024, &name).unwrap();
                assert_eq!(
                    found.map(|found| found.ino),
                    Some(Ino(2)),
                    "{len} after {before}"
                );
            }
        }
    }

    #[test]
    fn what_no_record_ends_in_is_not_found() {
        let mut block = vec![0; 1024];
        dir_block_init(&mut block, false);
        dir_insert(&mut block, 1024, b"name-0001", Ino(1), FileType::Regular, 0).unwrap();
        assert!(!has_ending(&block, b"name-0002"));
        // Where no record has an ending.
        assert!(!has_ending(&block, b"e-0001"));
        assert!(has_ending(&block, b"other0001"));
        assert!(has_ending(&block, b"abc"));
    }
}

//! What one repair lost that another kept.

use super::contents::{Contents, File};
use uext4_ondisk::Ino;

/// Names, files and bytes that `kept` has and `ours` does not, each as a line. A block that is as it was in the
/// `original`, before it was damaged, is not lost.
pub fn losses(original: &Contents, kept: &Contents, ours: &Contents) -> Vec<String> {
    let mut lost = Vec::new();
    for (path, ino) in &kept.names {
        if path == b"/lost+found" && !ours.names.contains_key(path) {
            // It may have been made in vain.
            continue;
        }
        let shown = path.escape_ascii();
        let theirs = &kept.files[ino];
        if path.starts_with(b"/lost+found/#") {
            // A file that is there under any name is not lost.
            match ours.files.get(ino) {
                Some(mine) => lost.extend(
                    lost_bytes(original.files.get(&mine.ino), theirs, mine)
                        .map(|l| format!("{shown}: {l}")),
                ),
                None => lost.push(format!("{shown}: inode {ino} has no name")),
            }
            continue;
        }
        match ours.names.get(path).map(|ino| &ours.files[ino]) {
            None => {
                let elsewhere = name_of(ours, *ino);
                lost.push(format!("{shown}: no such name; inode {ino} is {elsewhere}"));
            }
            Some(mine) => {
                if mine.ino != *ino && path != b"/lost+found" {
                    lost.push(format!("{shown}: is inode {}, not {ino}", mine.ino));
                }
                lost.extend(
                    lost_bytes(original.files.get(&mine.ino), theirs, mine)
                        .map(|l| format!("{shown}: {l}")),
                );
            }
        }
    }
    lost
}

fn name_of(contents: &Contents, ino: Ino) -> String {
    let found = contents.names.iter().find(|n| *n.1 == ino);
    found.map_or("not there".to_owned(), |n| n.0.escape_ascii().to_string())
}

/// What of a file is not the same, if the other has anything there.
fn lost_bytes(original: Option<&File>, theirs: &File, mine: &File) -> Option<String> {
    if theirs.file_type != mine.file_type {
        return Some(format!(
            "is a {:?}, not a {:?}",
            mine.file_type, theirs.file_type
        ));
    }
    // A pointer to the superblock is none to data, though e2fsck copies that into the file.
    let is_data = |block: &Vec<u8>| block.get(0x38..0x3a) != Some(&[0x53, 0xef]);
    let is_dir = theirs.file_type == uext4_ondisk::FileType::Directory;
    let junk = theirs.blocks.values().any(|b| !is_data(b));
    if mine.size < theirs.size && !is_dir && !junk {
        return Some(format!("has {} bytes, not {}", mine.size, theirs.size));
    }
    if theirs.inline.iter().any(|b| *b != 0)
        && theirs.inline != mine.inline
        && theirs.file_type != uext4_ondisk::FileType::Directory
    {
        return Some("other bytes in the inode".to_owned());
    }
    for (lblk, block) in theirs.blocks.iter().filter(|b| is_data(b.1)) {
        let found = mine.blocks.get(lblk);
        let as_before = original.is_some_and(|file| file.blocks.get(lblk) == found);
        if found != Some(block) && !as_before {
            return Some(format!("other bytes in block {lblk}"));
        }
    }
    for (name, value) in &theirs.xattrs {
        if mine.xattrs.get(name) != Some(value) {
            return Some(format!("attribute {} {}", name.0, name.1.escape_ascii()));
        }
    }
    None
}

//! One field damaged at a time: whenever e2fsck finds a fault, so must we, and the reverse.
//!
//! `UEXT4_MUTATIONS` sets the number of images for each shape, `UEXT4_SEED` where to start.

mod support;

use support::image::Image;
use support::mutator::mutate;
use support::*;

/// Shapes of the images that are damaged.
const SHAPES: &[(&str, &str)] = &[
    ("-t ext4 -b 1024 -N 1024 -g 4096", "12M"),
    ("-t ext4 -b 4096 -N 1024 -O ^has_journal", "16M"),
    ("-t ext4 -b 1024 -N 1024 -O ^metadata_csum,uninit_bg", "12M"),
    ("-t ext2 -b 1024 -N 1024", "12M"),
    (
        "-t ext4 -b 2048 -N 1024 -I 512 -O inline_data,^64bit",
        "16M",
    ),
];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

fn verdict(bytes: &[u8]) -> (bool, Vec<String>) {
    match check_bytes(bytes, 1) {
        Ok(r) => (
            r.is_clean(),
            r.faults.iter().map(ToString::to_string).collect(),
        ),
        Err(e) => (false, vec![e.to_string()]),
    }
}

/// What we find and e2fsck does not: it ignores the depth of extent blocks, an orphan list that
/// can't be, extra size, attribute block and high size of reserved inodes, values that are not
/// padded with zeros, names that a linear directory has in two blocks, a bitmap with a wrong
/// checksum in some cases, bad blocks inside metadata, and sizes beyond what inline data holds.
const SHARPER: &[&str] = &[
    "extent tree is too deep",
    "extent node depth is wrong",
    "orphan list names an invalid inode",
    "inode extra size does not fit the inode (inode 7)",
    "inode extra size does not fit the inode (inode 8)",
    "extended attribute entry hash is wrong",
    "inline data is damaged",
    "block bitmap checksum is wrong",
    "journal is too short (inode 8,",
    "reserved inode is not clear (inode 5)",
    "extended attribute block is outside the file system",
    "block is claimed but holds metadata (inode 1,",
    "directory entry repeats an earlier name",
];

fn known(e2fsck_clean: bool, faults: &[String]) -> bool {
    e2fsck_clean
        && faults
            .iter()
            .any(|f| SHARPER.iter().any(|s| f.starts_with(s)))
}

#[test]
fn as_sharp_as_e2fsck() {
    if !have_tools() {
        return;
    }
    let dir = scratch();
    let tree = source_tree(dir.path(), 300);
    let mut wrong = Vec::new();
    let seed = number("UEXT4_SEED", 1);
    let only = std::env::var("UEXT4_SHAPE")
        .ok()
        .and_then(|v| v.parse::<usize>().ok());
    for (n, (options, size)) in SHAPES.iter().enumerate() {
        if only.is_some_and(|o| o != n) {
            continue;
        }
        let path = dir.path().join("base.img");
        let _ = std::fs::remove_file(&path);
        mke2fs(&path, size, options, Some(&tree));
        add_xattrs(&path);
        let (clean, text) = e2fsck(&path);
        assert!(clean, "{options}: {text}");
        assert_clean(&path, options);
        let base = Image::new(std::fs::read(&path).expect("image"));
        let targets = base.targets();
        for i in 0..number("UEXT4_MUTATIONS", 40) {
            let mut rng = fastrand::Rng::with_seed(seed * 1_000_000 + n as u64 * 100_000 + i);
            let mut image = base.clone();
            let what = mutate(&mut rng, &mut image, &targets);
            if image.bytes == base.bytes {
                continue;
            }
            std::fs::write(&path, &image.bytes).expect("write");
            let (theirs, text) = e2fsck(&path);
            let (ours, faults) = verdict(&image.bytes);
            if theirs != ours && !known(theirs, &faults) {
                let text: Vec<&str> = text.lines().filter(|l| !l.starts_with("Pass")).collect();
                wrong.push(format!(
                    "[{options}] #{i} {what}\n  e2fsck clean: {theirs}; {}\n  we: {}",
                    text.iter().take(6).copied().collect::<Vec<_>>().join(" | "),
                    faults
                        .iter()
                        .take(6)
                        .cloned()
                        .collect::<Vec<_>>()
                        .join(" | "),
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

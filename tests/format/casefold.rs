//! Folds of names against debugfs, whose `dx_hash -c` hashes the fold of a name as e2fsck does.
use std::collections::BTreeSet;
use std::process::Command;
use uext4_ondisk::{HashVersion, NameHash, dx_hash, fold_name, hashed_name};
use uext4_testkit::folding_names::pairs;

/// Whether debugfs reads it as one word, and finds a fold.
fn is_word(name: &[u8]) -> bool {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || !b.is_ascii();
    name.iter().all(is_plain) && fold_name(name).is_some()
}

#[test]
fn folds_have_the_hashes_that_debugfs_finds() {
    let pairs = pairs(60_000);
    let names = pairs.into_iter().flat_map(|pair| [pair.made, pair.sought]);
    let names: BTreeSet<Vec<u8>> = names.filter(|name| is_word(name)).collect();
    assert!(names.len() > 50_000, "{}", names.len());
    let mut script = Vec::new();
    for name in &names {
        script.extend_from_slice(b"dx_hash -h half_md4 -c -e utf8 ");
        script.extend_from_slice(name);
        script.push(b'\n');
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), script).unwrap();
    let output = Command::new("debugfs").arg("-f").arg(file.path()).output();
    let output = output.unwrap().stdout;
    let printed = String::from_utf8_lossy(&output);
    let hex = |text: &str| u32::from_str_radix(text, 16).unwrap();
    let hashes = printed.lines().filter_map(|line| {
        let (major, minor) = line.rsplit_once(" is 0x")?.1.split_once(" (minor 0x")?;
        Some(NameHash {
            major: hex(major),
            minor: hex(minor.trim_end_matches(')')),
        })
    });
    let hashes: Vec<NameHash> = hashes.collect();
    assert_eq!(hashes.len(), names.len());
    let differ = names
        .iter()
        .zip(hashes)
        .filter(|(name, hash)| dx_hash(HashVersion::HalfMd4, &[0; 4], &hashed_name(name)) != *hash);
    let differ: Vec<String> = differ
        .map(|(name, _)| String::from_utf8_lossy(name).escape_unicode().to_string())
        .collect();
    assert!(
        differ.is_empty(),
        "{} names, as {:#?}",
        differ.len(),
        &differ[..differ.len().min(10)]
    );
}

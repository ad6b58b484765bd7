//! The hash tree of dm-verity behind an image, beside the one that veritysetup makes.
use uext4_testkit::prelude::*;

use uext4::{MkfsOptions, NoProgress};

/// Runs veritysetup; `None` where it is not installed.
fn veritysetup(args: &[&str]) -> Option<String> {
    let out = Command::new("veritysetup").args(args).output().ok()?;
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {said}");
    Some(String::from_utf8(out.stdout).unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_tree_is_the_one_that_veritysetup_makes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (image, data, hashes) = (path("image"), path("data"), path("hashes"));
    // One level, several, and a last block of the image that is not whole.
    for (bytes, salt) in [
        (64 << 12, Some(vec![])),
        (3 << 20, None),
        ((70 << 20) + 1024, Some(vec![7; 256])),
    ] {
        let options = MkfsOptions::new().size(bytes).uuid([9; 16]).verity(salt);
        let tree = uext4::mkfs(&image, &options, &NoProgress).unwrap();
        let tree = tree.verity.unwrap();
        let file = std::fs::read(&image).unwrap();
        let (fs, ours) = file.split_at(tree.hash_offset as usize);
        assert_eq!(ours.len() as u64, tree.bytes);
        std::fs::write(&data, fs).unwrap();
        std::fs::write(&hashes, b"").unwrap();
        let (salt, uuid) = (hex(&tree.salt), "09090909-0909-0909-0909-090909090909");
        let salt = if salt.is_empty() { "-" } else { &salt };
        let (salt, uuid) = (format!("--salt={salt}"), format!("--uuid={uuid}"));
        let made = veritysetup(&["format", &salt, &uuid, &data, &hashes]);
        let made = require!(some made);
        let root = hex(&tree.root_hash);
        assert!(made.contains(&root), "{bytes} bytes: {made}");
        let theirs = std::fs::read(&hashes).unwrap();
        assert!(theirs == ours, "{bytes} bytes: the trees differ");
        let offset = format!("--hash-offset={}", tree.hash_offset);
        veritysetup(&["verify", &image, &image, &root, &offset]).unwrap();
        std::fs::remove_file(&image).unwrap();
    }
}

#[test]
fn what_no_tree_can_be_made_for_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let base = MkfsOptions::new().size(8 << 20);
    let small = base.clone().block_size(1024).verity(None);
    let e = uext4::mkfs(&image, &small, &NoProgress).unwrap_err();
    assert!(e.to_string().contains("4096"), "{e}");
    let long = base.verity(Some(vec![0; 257]));
    let e = uext4::mkfs(&image, &long, &NoProgress).unwrap_err();
    assert!(e.to_string().contains("256"), "{e}");
    assert!(!image.exists());
}

//! Encrypted files: `--encryption-key`, and `uext4 key` on a mount. The kernel makes them, so it must have fscrypt.

use super::MountedImage;
use uext4_testkit::encrypted;
use uext4_testkit::prelude::*;

/// The names of the key.
const DESCRIPTOR: &str = "6c33af2d78f4fc3c";
const IDENTIFIER: &str = "d63209390f7570f12ed712554119f849";

/// A machine that can mount, with an image that the kernel has filled, and its key.
fn with_image() -> Option<MountedImage> {
    let mounted = MountedImage::new()?;
    encrypted::filled(mounted.dir.path()).expect("the kernel fills it")?;
    fs::rename(mounted.path("encrypted.img"), mounted.path("e.img")).unwrap();
    fs::write(mounted.path("key"), encrypted::key()).unwrap();
    fs::write(mounted.path("short"), [1; 15]).unwrap();
    Some(mounted)
}

fn errno<T>(done: std::io::Result<T>) -> Option<i32> {
    done.err().and_then(|e| e.raw_os_error())
}

#[test]
fn a_command_reads_files_with_their_key() {
    let mounted = require!(some with_image());
    let key = ["--encryption-key", "key"];
    let with_key = |args: &[&str]| mounted.ok(&[&key, args].concat());
    assert_eq!(with_key(&["cat", "e.img:/v2/short"]), "a few bytes");
    assert_eq!(with_key(&["cat", "e.img:/v1/short"]), "a few bytes");
    let target = with_key(&["readlink", "e.img:/v2/link200"]);
    assert_eq!(target.trim_end(), "t".repeat(200));
    mounted.refuses(
        &["cat", "e.img:/v2/short"],
        "e.img:/v2 is encrypted, and its key is not there",
    );
    fs::write(mounted.path("wrong"), [1; 64]).unwrap();
    let wrong = ["--encryption-key", "wrong", "cat", "e.img:/v2/short"];
    mounted.refuses(&wrong, "e.img:/v2 is encrypted, and its key is not there");
    let named = format!("{DESCRIPTOR}:wrong");
    let wrong = ["--encryption-key", &named, "cat", "e.img:/v1/short"];
    mounted.refuses(&wrong, "do not decrypt under the key that is given");
    let names = mounted.ok(&["find", "e.img:/v2", "-type", "f", "-size", "+0"]);
    let file = names.lines().next().unwrap();
    mounted.refuses(&["cat", file], "its key is not there");
    let put = [&key[..], &["cp", "key", "e.img:/v2/new"]].concat();
    mounted.refuses(&put, "making a file in it is not supported");
    let cut = [&key[..], &["truncate", "-s", "3", "e.img:/v2/short"]].concat();
    mounted.refuses(&cut, "writing is not supported");
    // What is copied is in clear text.
    with_key(&["mkfs", "b.img", "--from", "e.img"]);
    assert_eq!(mounted.ok(&["cat", "b.img:/v2/short"]), "a few bytes");
    oracle::fsck(&mounted.path("b.img")).unwrap();
    with_key(&["export", "e.img:/v2", "v2.tar"]);
    let tar = fs::read(mounted.path("v2.tar")).unwrap();
    assert!(tar.windows(11).any(|bytes| bytes == b"a few bytes"));
    with_key(&["rm", "-r", "e.img:/v1"]);
    let moved = ["mv", "e.img:/v2/short", "e.img:/v2/another name"];
    with_key(&moved);
    assert_eq!(with_key(&["cat", "e.img:/v2/another name"]), "a few bytes");
    oracle::fsck(&mounted.path("e.img")).unwrap();
    for file in ["short", "missing"] {
        let out = mounted.run(&["--encryption-key", file, "ls", "e.img"]);
        assert_eq!(out.status.code(), Some(2), "{file}");
    }
}

#[test]
fn a_mount_gets_and_loses_keys() {
    let mounted = require!(some with_image());
    mounted.ok(&["mount", "e.img", "mnt"]);
    let (file, link) = (mounted.path("mnt/v2/short"), mounted.path("mnt/v2/link14"));
    let list = || fs::read_dir(mounted.path("mnt/v2")).unwrap().count();
    let shown = || {
        let mut names = fs::read_dir(mounted.path("mnt/v2")).unwrap();
        names.any(|entry| entry.unwrap().file_name() == "short")
    };
    let count = list();
    assert!(!shown());
    assert_eq!(errno(fs::read(&file)), Some(libc::ENOENT));
    assert_eq!(
        errno(fs::write(mounted.path("mnt/v2/new"), "x")),
        Some(libc::ENOKEY)
    );
    let encoded = fs::read_dir(mounted.path("mnt/v2")).unwrap();
    let encoded = encoded.map(|entry| entry.unwrap().path());
    let encoded = encoded
        .into_iter()
        .find(|path| path.symlink_metadata().unwrap().is_file());
    assert_eq!(errno(File::open(encoded.unwrap())), Some(libc::ENOKEY));
    assert_eq!(mounted.ok(&["key", "status", "mnt"]), "");

    mounted.ok(&["key", "add", "mnt", "key"]);
    let names = format!("identifier {IDENTIFIER} descriptor {DESCRIPTOR}\n");
    assert_eq!(mounted.ok(&["key", "status", "e.img"]), names);
    assert!(shown());
    assert_eq!(list(), count);
    assert_eq!(fs::read(&file).unwrap(), b"a few bytes");
    assert_eq!(
        fs::read_link(&link).unwrap().as_os_str(),
        "t".repeat(14).as_str()
    );
    assert_eq!(link.symlink_metadata().unwrap().len(), 14);
    assert_eq!(errno(fs::write(&file, "x")), Some(libc::EOPNOTSUPP));
    assert_eq!(
        errno(File::options().append(true).open(&file)),
        Some(libc::EOPNOTSUPP)
    );
    assert_eq!(fs::read(&file).unwrap(), b"a few bytes");

    mounted.refuses(&["key", "remove", "mnt", "0123456789abcdef"], "has no key");
    mounted.refuses(
        &["key", "remove", "mnt", "nonsense"],
        "32 of its identifier",
    );
    mounted.ok(&["key", "remove", "mnt", IDENTIFIER]);
    assert_eq!(mounted.ok(&["key", "status", "mnt"]), "");
    assert!(!shown());
    assert_eq!(errno(fs::read(&file)), Some(libc::ENOENT));
    mounted.refuses(&["key", "add", "mnt", "short"], "16 to 64 bytes");
    mounted.ok(&["umount", "mnt"]);

    mounted.ok(&["mount", "--encryption-key", "key", "e.img", "mnt"]);
    assert_eq!(fs::read(&file).unwrap(), b"a few bytes");
    fs::remove_dir_all(mounted.path("mnt/v2")).unwrap();
    mounted.ok(&["umount", "mnt"]);
    oracle::fsck(&mounted.path("e.img")).unwrap();
    mounted.refuses(&["key", "status", "mnt"], "nothing is mounted there");
}

/// Reads that the kernel answers from its cache are refused, too, as it drops that.
#[test]
fn a_file_that_is_open_on_a_mount_is_read_while_its_key_is_there() {
    let mounted = require!(some with_image());
    mounted.ok(&["mount", "--encryption-key", "key", "e.img", "mnt"]);
    let files = ["v1", "v2"].map(|dir| mounted.path(&format!("mnt/{dir}/odd")));
    let data = files.each_ref().map(|path| fs::read(path).unwrap());
    assert_eq!(data[0].len(), 70_001);
    let files = files.map(|path| File::open(path).unwrap());
    let mut part = [0; 5000];
    for name in [IDENTIFIER, DESCRIPTOR] {
        for (file, data) in files.iter().zip(&data) {
            file.read_exact_at(&mut part, 10_000).unwrap();
            assert!(part == data[10_000..15_000]);
        }
        mounted.ok(&["key", "remove", "mnt", name]);
        for file in &files {
            for at in [0, 10_000, 12_345, 65_000] {
                let read = file.read_at(&mut part, at);
                assert_eq!(errno(read), Some(libc::ENOKEY), "at {at}");
            }
            assert_eq!(file.metadata().unwrap().len(), 70_001);
        }
        mounted.ok(&["key", "add", "mnt", "key"]);
        for (file, data) in files.iter().zip(&data) {
            let mut all = vec![0; data.len()];
            file.read_exact_at(&mut all, 0).unwrap();
            assert!(all == *data);
        }
    }
    drop(files);
    mounted.ok(&["umount", "mnt"]);
    oracle::fsck(&mounted.path("e.img")).unwrap();
}

#[test]
fn the_keys_of_a_mount_are_listed_with_their_descriptors() {
    let mounted = require!(some MountedImage::new());
    fs::write(mounted.path("key"), encrypted::key()).unwrap();
    fs::write(mounted.path("short"), [1; 15]).unwrap();
    mounted.ok(&["mkfs", "k.img", "16M", "-O", "encrypt"]);
    let named = "0123456789ABCDEF:key";
    mounted.ok(&["mount", "--encryption-key", named, "k.img", "mnt"]);
    let other = "0123456789abcdef";
    let status = || mounted.ok(&["key", "status", "mnt"]);
    assert_eq!(
        status(),
        format!("identifier {IDENTIFIER} descriptor {other}\n")
    );
    mounted.ok(&["key", "add", "mnt", "key"]);
    let both = format!("identifier {IDENTIFIER} descriptor {other} descriptor {DESCRIPTOR}\n");
    assert_eq!(status(), both);
    let json = mounted.ok(&["key", "status", "--json", "mnt"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let listed =
        serde_json::json!([{"identifier": IDENTIFIER, "descriptors": [other, DESCRIPTOR]}]);
    assert_eq!(json, listed);
    mounted.refuses(
        &["key", "add", "mnt", "0123456789abcdef:short"],
        "16 to 64 bytes",
    );
    mounted.ok(&["key", "remove", "mnt", other]);
    assert_eq!(status(), "");
    mounted.ok(&["key", "add", "mnt", named]);
    assert_eq!(
        status(),
        format!("identifier {IDENTIFIER} descriptor {other}\n")
    );
    mounted.ok(&["umount", "mnt"]);
}

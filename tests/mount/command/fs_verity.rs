//! fs-verity through a mount: `fsverity enable` and `fsverity measure` of a file, as on the kernel's ext4.

use super::*;
use uext4_testkit::mounted_dir::Shape;

const SHAPE: Shape = Shape {
    args: "-t ext4 -b 4096 -O verity",
    bytes: 64 << 20,
};

fn fsverity(arguments: &[&str], file: &Path) -> String {
    let out = Command::new("fsverity").args(arguments).arg(file).output();
    let out = out.expect("fsverity starts");
    assert!(out.status.success(), "{arguments:?}: {out:?}");
    let text = String::from_utf8(out.stdout).expect("text");
    text.split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn a_file_gets_it_through_the_mount() {
    require!(can_mount() && is_installed("fsverity"));
    for transport in transports() {
        let options = format!("transport={transport}");
        let mounted = MountedDir::new(Driver::Ours(options), &SHAPE).expect("mount");
        let dir = tempfile::tempdir().expect("a directory");
        let signature = dir.path().join("signature");
        std::fs::write(&signature, [7; 300]).expect("write");
        let signed = format!("--signature={}", signature.display());
        let data: Vec<u8> = (0..700_000u32).map(|i| (i / 7) as u8).collect();
        for (name, shape) in [
            ("plain", &["--hash-alg=sha256"][..]),
            (
                "salted",
                &["--hash-alg=sha512", "--block-size=1024", "--salt=00ff10"][..],
            ),
        ] {
            let file = mounted.dir().join(name);
            std::fs::write(&file, &data).expect("write");
            let enable = [&["enable"], shape, &[signed.as_str()][..]].concat();
            fsverity(&enable, &file);
            let digest = fsverity(&[&["digest"], shape].concat(), &file);
            assert_eq!(fsverity(&["measure"], &file), digest);
            assert_eq!(std::fs::read(&file).expect("read"), data);
            let written = std::fs::OpenOptions::new().write(true).open(&file);
            let errno = written.expect_err("is refused").raw_os_error();
            assert_eq!(errno, Some(libc::EPERM));
        }
        let open = mounted.dir().join("open");
        let mut writer = std::fs::File::create(&open).expect("create");
        writer.write_all(b"data").expect("write");
        let out = Command::new("fsverity").arg("enable").arg(&open).output();
        let out = out.expect("fsverity starts");
        let why = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && why.contains("Text file busy"),
            "{why}"
        );
        writer.write_all(b", more").expect("write");
        drop(writer);
        // The kernel reports the close later than it happens.
        fsverity(&["enable"], &open);
        assert_eq!(std::fs::read(&open).expect("read"), b"data, more");
        let plain = mounted.dir().join("without");
        std::fs::write(&plain, b"data").expect("write");
        let refused = Command::new("fsverity").arg("measure").arg(&plain).output();
        assert!(!refused.expect("fsverity starts").status.success());
    }
}

//! `uext4 resize` of a mounted image.

use super::MountedImage;
use uext4_testkit::prelude::*;

fn bytes(dir: &Path) -> u64 {
    let stat = rustix::fs::statvfs(dir).unwrap();
    stat.f_blocks * stat.f_frsize
}

/// The ioctl of resize2fs.
fn ioctl(dir: &Path, blocks: u64) -> Option<i32> {
    let code = "import fcntl,os,struct,sys\n\
                fd=os.open(sys.argv[1],os.O_RDONLY)\n\
                try: fcntl.ioctl(fd,0x40086610,struct.pack('Q',int(sys.argv[2])))\n\
                except OSError as e: sys.exit(e.errno)";
    let mut python = Command::new("python3");
    let python = python.args(["-c", code]).arg(dir).arg(blocks.to_string());
    python.status().unwrap().code()
}

#[test]
fn a_mounted_image_becomes_larger() {
    let mounted = require!(some MountedImage::new());
    for options in [
        &["-o", "transport=dev"][..],
        &["-o", "transport=dev,writeback"],
        &["--no-sandbox"],
    ] {
        mounted.ok(&["mkfs", "--force", "a.img", "--size", "64M"]);
        mounted.ok(&[&["mount", "a.img", "mnt"], options].concat());
        let dir = mounted.path("mnt");
        fs::write(dir.join("kept"), "kept").unwrap();
        let before = bytes(&dir);
        let said = mounted.ok(&["resize", "mnt", "200M"]);
        assert_eq!(said, "mnt: 51200 blocks of 4096 bytes\n");
        assert!(bytes(&dir) > before + (100 << 20), "{}", bytes(&dir));
        fs::write(dir.join("large"), vec![7; 150 << 20]).unwrap();
        let json = mounted.ok(&["resize", "--json", "mnt", "51200"]);
        assert!(json.contains("\"changed\": false"), "{json}");
        mounted.refuses(&["resize", "mnt", "100M"], "can't be made smaller");
        mounted.refuses(&["resize", "mnt"], "give SIZE");
        mounted.refuses(&["resize", "-M", "mnt"], "unmount it");
        assert_eq!(ioctl(&dir, 10), Some(libc::EINVAL));
        assert_eq!(ioctl(&dir, 60_000), Some(0));
        assert_eq!(mounted.stats()["size"]["blocks"], 60_000);
        mounted.ok(&["umount", "mnt"]);
        mounted.ok(&["check", "a.img"]);
        fsck(&mounted.path("a.img"));
        assert_eq!(
            fs::metadata(mounted.path("a.img")).unwrap().len(),
            60_000 << 12
        );
        assert_eq!(mounted.ok(&["cat", "a.img:/kept"]), "kept");
        let large = mounted.command(&["cat", "a.img:/large"]).output().unwrap();
        assert!(large.stdout == vec![7; 150 << 20]);
    }
}

#[test]
fn what_is_not_a_mount_of_ours_is_refused() {
    let mounted = require!(some MountedImage::new());
    mounted.refuses(&["resize", "mnt", "1G"], "nothing is mounted there");
    mounted.refuses(&["resize", "/proc", "1G"], "not a mount of uext4");
    mounted.ok(&["mount", "-r", "a.img", "mnt"]);
    mounted.refuses(&["resize", "mnt", "1G"], "read-only");
    mounted.ok(&["umount", "mnt"]);
}

/// A loop device that becomes larger while it is mounted.
#[test]
fn a_device_that_became_larger_is_filled() {
    let mounted = require!(some MountedImage::new());
    let image = mounted.path("a.img");
    let device = require!(some uext4_testkit::loop_device::LoopDevice::attach(&image, &[]));
    mounted.ok(&["mount", device.path(), "mnt"]);
    mounted.refuses(&["resize", "mnt", "128M"], "too short");
    File::options()
        .write(true)
        .open(&image)
        .unwrap()
        .set_len(128 << 20)
        .unwrap();
    let larger = Command::new("losetup")
        .arg("-c")
        .arg(device.path())
        .status();
    assert!(larger.unwrap().success());
    mounted.ok(&["resize", "mnt", "128M"]);
    assert!(bytes(&mounted.path("mnt")) > 110 << 20);
    mounted.ok(&["umount", "mnt"]);
    drop(device);
    fsck(&image);
}

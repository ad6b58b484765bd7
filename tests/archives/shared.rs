//! Differences of overlays of one backing file: what both have from there is not read.
use uext4_testkit::prelude::*;

use crate::export::diff;
use uext4::{
    AtimeUpdate, DeviceOptions, FileDevice, Filesystem, ImageOptions, MkfsOptions, NoProgress,
    Qcow2Device, TimeSet,
};
use uext4_block::CountDevice;

const FILES: usize = 64;
const FILE_BYTES: usize = 256 << 10;

/// An image with its files, and how many bytes were read of them.
struct Counted {
    fs: Filesystem,
    files: [Arc<CountDevice<FileDevice>>; 2],
}

impl Counted {
    fn open(overlay: &Path, base: &Path) -> Counted {
        let open = |path: &Path| {
            let options = DeviceOptions::read_only().exclusive(false);
            Arc::new(CountDevice::new(FileDevice::open(path, &options).unwrap()))
        };
        let [over, below] = [open(overlay), open(base)];
        let mut backing: Arc<dyn BlockDevice> = below.clone();
        if base.extension().is_some_and(|name| name == "qcow2") {
            backing = Arc::new(Qcow2Device::open(base, backing, None).unwrap());
        }
        let device = Qcow2Device::open(overlay, over.clone(), Some(backing)).unwrap();
        let options = ImageOptions::read_only().exclusive(false);
        Counted {
            fs: Filesystem::open_device(Arc::new(device), &options).unwrap(),
            files: [over, below],
        }
    }

    fn read_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.counts().read_bytes).sum()
    }
}

fn qemu_img(dir: &Path, line: &str) -> Option<()> {
    let mut command = Command::new("qemu-img");
    let out = command.args(line.split(' ')).current_dir(dir).output();
    let out = out.ok()?;
    assert!(out.status.success(), "{line}: {out:?}");
    Some(())
}

/// Fills the data of a file in place, and leaves its times.
fn change(image: &Path) {
    let options = ImageOptions::read_write().atime(AtimeUpdate::Never);
    let fs = Filesystem::open(image, &options).unwrap();
    let before = fs.metadata("/file 7").unwrap().modified();
    let file = uext4::OpenOptions::new()
        .write(true)
        .open(&fs, "/file 7")
        .unwrap();
    file.write_all_at(b"changed", 100_000).unwrap();
    file.set_times(None, Some(TimeSet::At(before))).unwrap();
    drop(file);
    fs.unmount().unwrap();
}

#[test]
fn what_overlays_share_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let tree = path("tree");
    fs::create_dir(&tree).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    for i in 0..FILES {
        // Half of it can be compressed.
        let mut data: Vec<u8> = (0..FILE_BYTES).map(|_| random.u8(..)).collect();
        data[FILE_BYTES / 2..].fill(i as u8);
        fs::write(tree.join(format!("file {i}")), data).unwrap();
    }
    let options = MkfsOptions::new().from(&tree).size(64 << 20);
    uext4::mkfs(path("base.raw"), &options, &NoProgress).unwrap();
    let made = qemu_img(dir.path(), "convert -c -f raw -O qcow2 base.raw base.qcow2");
    require!(some made);
    for (base, format) in [("base.raw", "raw"), ("base.qcow2", "qcow2")] {
        for name in ["old", "new"] {
            let line = format!("create -q -f qcow2 -F {format} -b {base} {name}");
            qemu_img(dir.path(), &line).unwrap();
        }
        change(&path("new"));
        let [old, new] = ["old", "new"].map(|name| Counted::open(&path(name), &path(base)));
        let before = old.read_bytes() + new.read_bytes();
        let changed = ["Changed /file 7 [Data]"];
        assert_eq!(diff(&old.fs, &new.fs), changed, "{base}");
        let read = old.read_bytes() + new.read_bytes() - before;
        assert!(read < 4 * FILE_BYTES as u64, "{base}: {read} bytes read");
        assert_eq!(diff(&old.fs, &old.fs), [""; 0]);
        // A copy has the same bytes in another place.
        fs::copy(path(base), path("copy")).unwrap();
        let line = format!("rebase -u -F {format} -b copy new");
        qemu_img(dir.path(), &line).unwrap();
        drop(new);
        let copy = Filesystem::open(path("new"), &ImageOptions::read_only().exclusive(false));
        assert_eq!(diff(&old.fs, &copy.unwrap()), changed, "{base}");
        let read = old.read_bytes();
        assert!(read > (FILES * FILE_BYTES / 4) as u64, "{base}: {read}");
        for name in ["old", "new", "copy"] {
            fs::remove_file(path(name)).unwrap();
        }
    }
}

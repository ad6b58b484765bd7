//! Differences of overlays of one backing file, and of copies by reference: what both have from one place is not read.
use uext4_testkit::prelude::*;

use crate::export::diff;
use uext4::{
    AtimeUpdate, DeviceOptions, FileDevice, Filesystem, ImageOptions, MkfsOptions, NoProgress,
    Qcow2Device, TimeSet,
};
use uext4_block::CountDevice;
use uext4_testkit::loop_device::LoopDevice;

const FILES: usize = 64;
const FILE_BYTES: usize = 256 << 10;

/// An image with its files, and how many bytes were read of them.
struct Counted {
    fs: Filesystem,
    files: Vec<Arc<CountDevice<FileDevice>>>,
}

/// A file that counts.
fn file(path: &Path) -> Arc<CountDevice<FileDevice>> {
    let options = DeviceOptions::read_only().exclusive(false);
    Arc::new(CountDevice::new(FileDevice::open(path, &options).unwrap()))
}

impl Counted {
    /// An image that is a file.
    fn raw(path: &Path) -> Counted {
        let file = file(path);
        let options = ImageOptions::read_only().exclusive(false);
        Counted {
            fs: Filesystem::open_device(file.clone(), &options).unwrap(),
            files: vec![file],
        }
    }

    /// An overlay in qcow2.
    fn open(overlay: &Path, base: &Path) -> Counted {
        let [over, below] = [file(overlay), file(base)];
        let mut backing: Arc<dyn BlockDevice> = below.clone();
        if base.extension().is_some_and(|name| name == "qcow2") {
            backing = Arc::new(Qcow2Device::open(base, backing, None).unwrap());
        }
        let device = Qcow2Device::open(overlay, over.clone(), Some(backing)).unwrap();
        let options = ImageOptions::read_only().exclusive(false);
        Counted {
            fs: Filesystem::open_device(Arc::new(device), &options).unwrap(),
            files: vec![over, below],
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

/// Makes `base.raw` in a directory, an image of files whose data is apart.
fn make_base(dir: &Path) {
    let tree = dir.join("tree");
    fs::create_dir(&tree).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    for i in 0..FILES {
        // Half of it can be compressed.
        let mut data: Vec<u8> = (0..FILE_BYTES).map(|_| random.u8(..)).collect();
        data[FILE_BYTES / 2..].fill(i as u8);
        fs::write(tree.join(format!("file {i}")), data).unwrap();
    }
    let options = MkfsOptions::new().from(&tree).size(64 << 20);
    uext4::mkfs(dir.join("base.raw"), &options, &NoProgress).unwrap();
}

#[test]
fn what_overlays_share_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    make_base(dir.path());
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

/// A file system of the kernel in which files are copied by reference; unmounted when dropped.
struct WithReferences {
    dir: PathBuf,
    _loop: LoopDevice,
}

impl WithReferences {
    /// `None` if the machine has none of this kind, or the user may not mount.
    fn mount(kind: &str, below: &Path) -> Option<WithReferences> {
        let (image, dir) = (below.join(kind), below.join(format!("{kind} mounted")));
        fs::create_dir(&dir).unwrap();
        let made = fs::File::create(&image).and_then(|file| file.set_len(512 << 20));
        made.unwrap();
        let program = format!("mkfs.{kind}");
        let made = match Command::new(&program).arg("-q").arg(&image).status() {
            Ok(made) => made,
            Err(why) => {
                eprintln!("skipped: {program}: {why}");
                return None;
            }
        };
        assert!(made.success(), "{program}");
        let attached = LoopDevice::attach(&image, &[])?;
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, attached.path()]).arg(&dir);
        if !mount.status().is_ok_and(|mounted| mounted.success()) {
            eprintln!("skipped: needs a kernel with {kind}");
            return None;
        }
        Some(WithReferences {
            dir,
            _loop: attached,
        })
    }
}

impl Drop for WithReferences {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.dir).status();
    }
}

#[test]
fn what_copies_by_reference_share_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["xfs", "btrfs"] {
        let mounted = require!(some WithReferences::mount(kind, dir.path()));
        let path = |name: &str| mounted.dir.join(name);
        make_base(&mounted.dir);
        for name in ["old", "new"] {
            let mut cp = Command::new("cp");
            cp.args(["--reflink=always", "base.raw", name]);
            assert!(cp.current_dir(&mounted.dir).status().unwrap().success());
        }
        // In memory only, so far.
        change(&path("new"));
        let [old, new] = ["old", "new"].map(|name| Counted::raw(&path(name)));
        let before = old.read_bytes() + new.read_bytes();
        let changed = ["Changed /file 7 [Data]"];
        assert_eq!(diff(&old.fs, &new.fs), changed, "{kind}");
        let read = old.read_bytes() + new.read_bytes() - before;
        assert!(read < 4 * FILE_BYTES as u64, "{kind}: {read} bytes read");
        // A copy has the same bytes in another place.
        let mut cp = Command::new("cp");
        cp.args(["--reflink=never", "new", "copy"]);
        assert!(cp.current_dir(&mounted.dir).status().unwrap().success());
        let copy = Counted::raw(&path("copy"));
        assert_eq!(diff(&old.fs, &copy.fs), changed, "{kind}");
        let read = copy.read_bytes();
        assert!(read > (FILES * FILE_BYTES / 2) as u64, "{kind}: {read}");
    }
}

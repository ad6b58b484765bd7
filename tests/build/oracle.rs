//! The oracles: e2fsck, dumpe2fs, and the kernel's own mount of an image.
use uext4_testkit::prelude::*;

use uext4_build::{MkfsReport, Plan, Scan};

/// Runs a program; `None`, said aloud, where there is no such program.
pub fn run(program: &str, args: &[&str]) -> Option<Output> {
    let output = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .env("E2FSCK_TIME", "2000000000")
        .output();
    match output {
        Ok(output) => Some(output),
        Err(e) => {
            eprintln!("skipped: {program}: {e}");
            None
        }
    }
}

/// Fails unless e2fsck finds nothing at all.
pub fn fsck(image: &Path, what: &str) {
    let path = image.to_str().unwrap();
    let Some(output) = run("e2fsck", &["-fn", path]) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    // Five passes and the summary; anything else is a complaint.
    let quiet = said.lines().count() == 6;
    assert!(output.status.success() && quiet, "{what}: {said}");
}

/// What dumpe2fs says of the superblock.
pub fn dump(image: &Path) -> Option<String> {
    let output = run("dumpe2fs", &["-h", image.to_str().unwrap()])?;
    assert!(output.status.success());
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The value of a line of [`dump`].
pub fn field<'a>(dump: &'a str, name: &str) -> Option<&'a str> {
    let line = dump
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

/// Makes an image in a file.
pub fn make(image: &Path, options: &MkfsOptions) -> uext4_build::Result<MkfsReport> {
    let scan = Scan::of(options, &NoProgress)?;
    let plan = Plan::new(options, scan)?;
    let device = FileDevice::open(image, &OpenOptions::create(plan.image_bytes()))?;
    plan.write(&device, &NoProgress)
}

/// An image that the kernel mounted, until dropped.
pub struct Mounted {
    image: PathBuf,
    dir: tempfile::TempDir,
}

static LOOP_DEVICES: Exclusive<&str> = Exclusive::new("the machine's list of loop devices");

impl Mounted {
    /// Mounts an image; `None`, said aloud, without the right or the means to.
    pub fn new(image: &Path, options: &str) -> Option<Mounted> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
            eprintln!("skipped: mounting needs root and loop devices");
            return None;
        }
        let _list = LOOP_DEVICES.take();
        let dir = tempfile::tempdir().unwrap();
        let (image, at) = (image.to_str().unwrap(), dir.path().to_str().unwrap());
        let output = run("mount", &["-t", "ext4", "-o", options, image, at])?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{image}: {said}");
        let image = PathBuf::from(image);
        Some(Mounted { image, dir })
    }

    /// Where.
    pub fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A process that another thread is just starting has our open files until its exec, and the loop
        // device releases the image some time after.
        let unmounted = || {
            let done = Command::new("umount").arg(self.dir.path()).status();
            done.is_ok_and(|status| status.success())
        };
        let waits = || (0..250).any(|_| unmounted() || wait_a_little());
        let image = self.image.as_os_str().as_encoded_bytes();
        if waits() {
            let _ = (0..250).any(|_| !backs_loop_device(image) || wait_a_little());
        }
    }
}

/// Waits for a moment; returns false, for callers that continue.
fn wait_a_little() -> bool {
    std::thread::sleep(std::time::Duration::from_millis(20));
    false
}

/// Whether a loop device still has the image open.
fn backs_loop_device(image: &[u8]) -> bool {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten();
    devices.flatten().any(|device| {
        let backing = std::fs::read(device.path().join("loop/backing_file"));
        backing.is_ok_and(|name| name.trim_ascii_end() == image)
    })
}

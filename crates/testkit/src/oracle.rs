//! The oracles for an image: `uext4-check`, e2fsck, and the kernel's own mount.

use crate::external::*;
use crate::tree::{self, Tree};
use uext4_check::{CheckOptions, NoProgress};

/// Runs a command; its output if it fails.
pub fn run(program: &str, args: &[&str], code_max: i32) -> Result<String> {
    let out = Command::new(program)
        .args(args)
        .output()
        .with_context(|| program.to_owned())?;
    let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    match out.status.code() {
        Some(code) if code <= code_max => Ok(text),
        code => bail!("{program} {args:?} ended with {code:?}:\n{text}"),
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or("")
}

/// `uext4-check` finds nothing.
pub fn check(device: &dyn BlockDevice) -> Result<()> {
    let options = CheckOptions {
        threads: 1,
        ..CheckOptions::default()
    };
    let report = uext4_check::check(device, &options, &NoProgress)?;
    if !report.is_clean() || report.incomplete {
        let faults: Vec<String> = report
            .faults
            .iter()
            .take(5)
            .map(ToString::to_string)
            .collect();
        bail!("uext4-check, {} faults: {faults:#?}", report.faults_total);
    }
    Ok(())
}

/// `e2fsck -fn` finds nothing.
pub fn fsck(image: &Path) -> Result<()> {
    run("e2fsck", &["-fn", text(image)], 0).map(|_| ())
}

/// As [`fsck`], of an image in memory.
pub fn fsck_device(device: &MemoryDevice) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let image = dir.path().join("image");
    device.save_to(&image)?;
    fsck(&image)
}

/// `e2fsck -fy` replays and repairs; true if there was anything besides the journal and orphans.
pub fn repair(image: &Path) -> Result<String> {
    run("e2fsck", &["-fy", text(image)], 1)
}

/// Restores in `theirs` the attributes that [`repair`] wrongly removed: e2fsck 1.47 removes the block of attributes of a file whose truncation it
/// completes, as if it deleted it.
pub fn restore_attributes(said: &str, ours: &Tree, theirs: &mut Tree) {
    for (path, entry) in theirs {
        let is_truncated = said.contains(&format!("Truncating orphaned inode {} ", entry.ino));
        if let (true, Some(ours)) = (is_truncated, ours.get(path)) {
            entry.xattrs.clone_from(&ours.xattrs);
        }
    }
}

/// A mount of the kernel's; ends when dropped.
#[derive(Debug)]
pub struct KernelMount {
    image: PathBuf,
    dir: PathBuf,
    mounted: bool,
}

impl KernelMount {
    /// Mounts an image through a loop device.
    pub fn new(image: &Path, dir: &Path, options: &str) -> Result<KernelMount> {
        std::fs::create_dir_all(dir)?;
        let options = format!("loop,{options}");
        run(
            "mount",
            &["-t", "ext4", "-o", &options, text(image), text(dir)],
            0,
        )?;
        Ok(KernelMount {
            image: image.to_path_buf(),
            dir: dir.to_path_buf(),
            mounted: true,
        })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stops the file system as a crash would: nothing is written from then on, the log neither.
    pub fn shut_down(&self) -> Result<()> {
        // EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
        let code = "import fcntl,os,struct,sys\n\
                    fd=os.open(sys.argv[1],os.O_RDONLY)\n\
                    fcntl.ioctl(fd,0x8004587D,struct.pack('I',2))";
        run("python3", &["-c", code, text(&self.dir)], 0).map(|_| ())
    }

    /// Unmounts, and waits until the loop device has released the image.
    pub fn unmount(mut self) -> Result<()> {
        self.mounted = false;
        // A process that another thread is just starting has our open directories until its exec.
        let mut tries = 0;
        loop {
            match run("umount", &[text(&self.dir)], 0) {
                Err(_) if tries < 50 => tries += 1,
                Err(why) => return Err(why),
                Ok(_) => break,
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        wait_for_loop_device(&self.image);
        Ok(())
    }
}

/// Waits until no loop device has the image open, for some seconds at most.
pub fn wait_for_loop_device(image: &Path) {
    for _ in 0..250 {
        if !backs_loop_device(image) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Whether a loop device still has the image open: it releases the image some time after umount(8) returns.
fn backs_loop_device(image: &Path) -> bool {
    let Ok(devices) = std::fs::read_dir("/sys/block") else {
        return false;
    };
    devices.flatten().any(|device| {
        std::fs::read_to_string(device.path().join("loop/backing_file"))
            .is_ok_and(|backing| backing.trim_end() == text(image))
    })
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        if self.mounted {
            let _ = run("umount", &["-l", text(&self.dir)], 0);
        }
    }
}

/// The tree that the kernel sees in an image, read-only.
pub fn kernel_tree(image: &Path, dir: &Path) -> Result<Tree> {
    let mount = KernelMount::new(image, dir, "ro")?;
    let tree = tree::of_dir(mount.dir());
    mount.unmount()?;
    tree
}

/// The caller that this process is for the kernel: the superuser, which may lack capabilities in a container.
pub fn this_process() -> Caller {
    let mut caller = Caller::root();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    if let Some(bits) = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()) {
        caller.capabilities = Capabilities::from_bits_truncate(bits);
    }
    caller
}

//! Journals on devices of their own: those that the kernel wrote recovered by us as e2fsck does it, and
//! ours by the kernel. Needs root, loop devices and python3.

use uext4_testkit::prelude::*;

const FORMATS: [(&str, &str); 4] = [
    ("4096", ""),
    ("1024", ""),
    ("1024", "^metadata_csum,^64bit"),
    ("4096", "^metadata_csum"),
];

/// A file that is a loop device while this lives.
struct Loop {
    file: PathBuf,
    device: PathBuf,
}

impl Loop {
    fn new(file: &Path) -> Result<Loop> {
        let said = oracle::run("losetup", &["-f", "--show", text(file)?], 0)?;
        Ok(Loop {
            file: file.to_path_buf(),
            device: said.trim().into(),
        })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Ok(device) = text(&self.device) {
            let _ = oracle::run("losetup", &["-d", device], 0);
            oracle::wait_for_loop_device(&self.file);
        }
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("path")
}

/// An empty file system and its journal.
fn make(dir: &Path, (block, features): (&str, &str)) -> Result<(PathBuf, PathBuf)> {
    let (image, journal) = (dir.join("image"), dir.join("journal"));
    let args = ["-q", "-b", block, "-O", "journal_dev", text(&journal)?];
    oracle::run("mke2fs", &[&args[..], &["8M"]].concat(), 0)?;
    let on = Loop::new(&journal)?;
    let device = format!("device={}", text(&on.device)?);
    let mut args = vec!["-q", "-t", "ext4", "-b", block, "-J", &device];
    if !features.is_empty() {
        args.extend(["-O", features]);
    }
    args.extend([text(&image)?, "48M"]);
    oracle::run("mke2fs", &args, 0)?;
    Ok((image, journal))
}

fn open(path: &Path) -> Result<Arc<dyn BlockDevice>> {
    Ok(Arc::new(FileDevice::open(
        path,
        &OpenOptions::read_write(),
    )?))
}

fn mount(image: &Path, journal: &Path) -> Result<Arc<Ext4>> {
    Ok(Ext4::mount_with_journal(
        open(image)?,
        Some(open(journal)?),
        MountOptions::default(),
    )?)
}

/// `e2fsck` with the journal where the file is.
fn fsck(image: &Path, journal: &Path, how: &str) -> Result<String> {
    let on = Loop::new(journal)?;
    oracle::run(
        "e2fsck",
        &[how, "-j", text(&on.device)?, text(image)?],
        i32::from(how == "-fy"),
    )
}

#[test]
fn crash_external_journals_of_the_kernel_are_recovered() {
    require!(kernel_mounts());
    for format in FORMATS {
        kernels(format)
            .with_context(|| format!("{format:?}"))
            .unwrap();
    }
}

fn kernels(format: (&str, &str)) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (image, journal) = make(dir.path(), format)?;
    let on = Loop::new(&journal)?;
    let options = format!("journal_path={},commit=1", text(&on.device)?);
    let kernel = KernelMount::new(&image, &dir.path().join("mount"), &options)?;
    for i in 0..300 {
        let path = kernel.dir().join(format!("f{i}"));
        std::fs::write(&path, vec![i as u8; i * 50])?;
        if i % 3 == 0 {
            std::fs::remove_file(kernel.dir().join(format!("f{}", i / 2))).ok();
        }
        if i % 50 == 7 {
            std::fs::File::open(&path)?.sync_all()?;
        }
    }
    kernel.shut_down()?;
    kernel.unmount()?;
    drop(on);
    let (ours, our_journal) = (dir.path().join("ours"), dir.path().join("our_journal"));
    std::fs::copy(&image, &ours)?;
    std::fs::copy(&journal, &our_journal)?;
    let fs = mount(&ours, &our_journal)?;
    let seen = tree::of_fs(&*fs)?;
    fs.unmount()?;
    drop(fs);
    fsck(&ours, &our_journal, "-fn")?;
    fsck(&image, &journal, "-fy")?;
    let fs = mount(&image, &journal)?;
    let theirs = tree::of_fs(&*fs)?;
    fs.unmount()?;
    tree::same("our recovery / e2fsck's", &seen, &theirs)?;
    if seen.is_empty() {
        bail!("nothing was recovered");
    }
    Ok(())
}

#[test]
fn crash_external_journals_of_ours_are_recovered_by_the_kernel() {
    require!(kernel_mounts());
    for format in FORMATS {
        ours(format).with_context(|| format!("{format:?}")).unwrap();
    }
}

fn ours(format: (&str, &str)) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (image, journal) = make(dir.path(), format)?;
    let fs = mount(&image, &journal)?;
    for i in 0..200 {
        let path = format!("d{i}").into_bytes();
        apply(&*fs, &Op::Mkdir { path, mode: 0o755 })?;
        if i == 150 {
            fs.sync()?;
        }
    }
    fs.sync()?;
    let want = tree::of_fs(&*fs)?;
    fs.crash();
    drop(fs);
    let on = Loop::new(&journal)?;
    let options = format!("journal_path={}", text(&on.device)?);
    let kernel = KernelMount::new(&image, &dir.path().join("mount"), &options)?;
    let seen = tree::of_dir(kernel.dir())?;
    kernel.unmount()?;
    drop(on);
    tree::same("the kernel's view / ours before the crash", &seen, &want)?;
    fsck(&image, &journal, "-fn").map(|_| ())
}

#[test]
fn only_the_right_journal_is_taken() {
    require!(kernel_mounts());
    let dir = tempfile::tempdir().unwrap();
    let (image, journal) = make(dir.path(), FORMATS[0]).unwrap();
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let (other_image, other_journal) = make(&other, FORMATS[0]).unwrap();
    let why = mount(&image, &other_journal).unwrap_err();
    assert!(why.to_string().contains("UUID"), "{why:#}");
    let why = mount(&image, &other_image).unwrap_err();
    assert!(
        why.to_string().contains("not an external journal"),
        "{why:#}"
    );
    // Without any, it can be read if nothing is to be recovered.
    let missing = Ext4::mount(open(&image).unwrap(), MountOptions::default());
    assert!(matches!(missing, Err(Ext4Error::Unsupported(_))));
    let options = with(|o: &mut MountOptions| o.read_only = true);
    Ext4::mount(open(&image).unwrap(), options).unwrap();
    // Any byte of the first blocks may be damaged.
    let (fs_bytes, bytes) = (
        std::fs::read(&image).unwrap(),
        std::fs::read(&journal).unwrap(),
    );
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..300 {
        let mut bytes = bytes.clone();
        bytes[1024 + rng.usize(..8192)] ^= 1 << rng.u8(..8);
        let journal = Arc::new(MemoryDevice::from_bytes(&bytes)) as Arc<dyn BlockDevice>;
        let image = Arc::new(MemoryDevice::from_bytes(&fs_bytes));
        let mounted = Ext4::mount_with_journal(image, Some(journal), MountOptions::default());
        if let Ok(fs) = mounted {
            fs.unmount().unwrap();
        }
    }
}

//! Images on which the kernel was writing when it was shut down: our recovery of its journal against
//! e2fsck's. `UEXT4_KERNEL_JOURNALS` sets how many. Needs root, loop devices and python3.

use crate::*;

/// How the kernel is made to write a journal.
struct Format {
    /// Of the file system, as mke2fs takes them.
    features: &'static str,
    options: &'static str,
    /// What the journal must have then, in the words of dumpe2fs.
    journal: &'static [&'static str],
}

const fn format(
    features: &'static str,
    options: &'static str,
    journal: &'static [&'static str],
) -> Format {
    Format {
        features,
        options,
        journal,
    }
}

/// Every kind of journal that a kernel of today writes.
#[rustfmt::skip]
const FORMATS: [Format; 12] = [
    format("", "commit=1", &["journal_checksum_v3", "journal_64bit"]),
    format("^metadata_csum", "commit=1", &["journal_64bit"]),
    format("^metadata_csum,^64bit", "commit=1", &[]),
    format("orphan_file,^64bit", "commit=1", &["journal_checksum_v3"]),
    format("^extent,^64bit", "commit=1", &["journal_checksum_v3"]),
    format("^metadata_csum", "commit=1,journal_checksum", &["journal_checksum", "journal_64bit"]),
    format("^metadata_csum,^64bit", "commit=1,journal_checksum", &["journal_checksum"]),
    format("^metadata_csum", "commit=1,data=writeback,journal_async_commit", &["journal_checksum", "journal_async_commit"]),
    format("", "commit=1,data=writeback,journal_async_commit", &["journal_checksum_v3", "journal_async_commit"]),
    format("", "commit=1,data=journal", &["journal_checksum_v3"]),
    format("^metadata_csum,^64bit", "commit=1,data=journal", &[]),
    format("^metadata_csum", "commit=1,data=journal,journal_async_commit", &["journal_checksum", "journal_async_commit"]),
];

#[test]
fn crash_kernel_journals_are_recovered_as_e2fsck_does() {
    require!(kernel_mounts());
    let (mut replayed, runs) = (0, env_number("UEXT4_KERNEL_JOURNALS", 12));
    for seed in 0..runs {
        let done = one(seed).with_context(|| format!("seed {seed}"));
        replayed += u64::from(done.unwrap());
    }
    println!("{runs} images, {replayed} of them with a journal to replay");
    assert!(replayed > 0, "no journal had anything to replay");
}

/// True if the journal had something to replay.
fn one(seed: u64) -> Result<bool> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir()?;
    let image = dir.path().join("image");
    let format = &FORMATS[seed as usize % FORMATS.len()];
    let features = format.features;
    let block = ["4096", "4096", "1024"][rng.usize(..3)];
    let path = image.to_str().context("path")?;
    let args = [
        "-q", "-t", "ext4", "-b", block, "-J", "size=8", "-O", features, path, "64M",
    ];
    let args: Vec<&str> = match features.is_empty() {
        true => args
            .into_iter()
            .filter(|a| !["-O", ""].contains(a))
            .collect(),
        false => args.to_vec(),
    };
    oracle::run("mke2fs", &args, 0)?;
    let kernel = KernelMount::new(&image, &dir.path().join("mount"), format.options)?;
    let stop = AtomicBool::new(false);
    let shut = std::thread::scope(|scope| {
        for thread in 0..3 {
            let (stop, root) = (&stop, kernel.dir());
            scope.spawn(move || load(root, seed * 10 + thread, stop));
        }
        std::thread::sleep(Duration::from_millis(rng.u64(150..1800)));
        let shut = kernel.shut_down();
        stop.store(true, Ordering::Relaxed);
        shut
    });
    shut?;
    kernel.unmount()?;
    let said = oracle::run("dumpe2fs", &["-h", path], 0)?;
    let has = said.lines().find(|l| l.starts_with("Journal features"));
    for feature in format.journal {
        if !has.is_some_and(|line| line.split_whitespace().any(|word| word == *feature)) {
            bail!("the kernel wrote a journal without {feature}: {has:?}");
        }
    }
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    std::fs::copy(&image, &ours)?;
    std::fs::copy(&image, &theirs)?;
    let device = FileDevice::open(&ours, &OpenOptions::read_write())?;
    let needed = read_superblock(&device)?
        .incompat
        .contains(Incompat::RECOVER);
    drop(device);
    let seen = recovered_tree(&ours)?;
    let said = oracle::repair(&theirs)?;
    let mount = dir.path().join("mount");
    let (a, b) = (
        oracle::kernel_tree(&ours, &mount)?,
        oracle::kernel_tree(&theirs, &mount)?,
    );
    for (what, left) in [
        ("the kernel's view of our recovery", &a),
        ("our view", &seen),
    ] {
        if let Some(difference) = tree::difference(left, &b) {
            bail!("{what} / of e2fsck's: {difference}\n{said}");
        }
    }
    Ok(needed)
}

/// What every block of a journal but data starts with: data that does, too, is escaped.
const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];

/// Makes, changes and removes files until asked to stop or the file system is gone.
fn load(root: &Path, seed: u64, stop: &AtomicBool) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let dir = root.join(format!("t{seed}"));
    let _ = std::fs::create_dir(&dir);
    let mut open = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let name = |rng: &mut fastrand::Rng| {
            let n = rng.u32(..400);
            let parent = if rng.u8(..4) == 0 {
                dir.join(format!("d{}", n % 5))
            } else {
                dir.clone()
            };
            parent.join(format!("f{n}{}", "n".repeat(n as usize % 90)))
        };
        let (path, other) = (name(&mut rng), name(&mut rng));
        // Errors are ignored here: names may be missing or taken, the mount may be shut down.
        let _ = match rng.u8(..16) {
            0 => std::fs::write(&path, MAGIC.repeat(rng.usize(..8_000))),
            1..=4 => std::fs::write(&path, vec![rng.u8(..); rng.usize(..30_000)]),
            5 => std::fs::create_dir(dir.join(format!("d{}", rng.u8(..5)))),
            6..=7 => std::fs::remove_file(&path),
            8 => std::fs::rename(&path, &other),
            9 => std::fs::hard_link(&path, &other),
            10 => std::os::unix::fs::symlink("t".repeat(rng.usize(1..200)), &path),
            11 => std::fs::File::open(&path).and_then(|file| file.sync_all()),
            12 => std::fs::remove_dir_all(dir.join(format!("d{}", rng.u8(..5)))),
            13 => std::fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_len(rng.u64(..50_000))),
            14 => std::fs::File::open(&path).map(|file| open.push(file)),
            _ => {
                open.truncate(3);
                Ok(())
            }
        };
    }
}

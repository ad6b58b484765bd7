//! Fast commits that the kernel wrote: our replay of them against the kernel's own, and against what was
//! synced. `UEXT4_FAST_COMMITS` sets how many images. Needs root, loop devices and python3.

use crate::*;
use std::fs::OpenOptions as Open;

/// What must be there after a crash: files by their paths from the root, as they were when synced and
/// have been since.
type Guaranteed = BTreeMap<Vec<u8>, Vec<u8>>;

#[test]
fn crash_fast_commits_are_replayed_as_the_kernel_does() {
    require!(kernel_mounts());
    let runs = env_number("UEXT4_FAST_COMMITS", 4);
    let (mut mattered, mut compared, mut guaranteed) = (0, 0, 0);
    // The kernel does not mount each image that it wrote: more are made until it has one to compare with.
    let mut seed = 0;
    while seed < runs || (compared == 0 && seed < 4 * runs) {
        let done = one(seed).with_context(|| format!("seed {seed}"));
        let done = done.unwrap();
        mattered += u64::from(done.mattered);
        compared += u64::from(done.compared);
        guaranteed += done.guaranteed;
        seed += 1;
    }
    println!(
        "{seed} images, {mattered} changed by fast commits, {compared} compared with the kernel's \
         replay, {guaranteed} files synced"
    );
    assert!(mattered > 0, "no image had fast commits to replay");
    assert!(compared > 0, "the kernel replayed none to compare with");
}

const FEATURES: [&str; 7] = [
    "fast_commit",
    "fast_commit,orphan_file",
    "fast_commit,^metadata_csum",
    "fast_commit,^metadata_csum,^64bit",
    "fast_commit,inline_data",
    "fast_commit,inline_data,^metadata_csum",
    "fast_commit,bigalloc",
];

fn features(seed: u64) -> &'static str {
    FEATURES[seed as usize / 2 % FEATURES.len()]
}

/// An image of a kernel that was stopped while it was writing, and what it had guaranteed.
fn make(dir: &Path, seed: u64, wait_ms: u64) -> Result<(PathBuf, Guaranteed)> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let image = dir.join("image");
    let features = features(seed);
    let block = ["4096", "1024"][rng.usize(..2)];
    let path = image.to_str().context("path")?;
    let args = ["-q", "-t", "ext4", "-b", block, "-J", "size=8", "-O"];
    oracle::run("mke2fs", &[&args[..], &[features, path, "64M"]].concat(), 0)?;
    let kernel = KernelMount::new(&image, &dir.join("mount"), "commit=300")?;
    let (closing, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let guaranteed = std::thread::scope(|scope| -> Result<Guaranteed> {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (closing, stop, root) = (&closing, &stop, kernel.dir());
                scope.spawn(move || load(root, seed * 10 + thread, closing, stop))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(wait_ms));
        closing.store(true, Ordering::SeqCst);
        let shut = kernel.shut_down();
        stop.store(true, Ordering::Relaxed);
        let mut all = Guaranteed::new();
        for thread in threads {
            all.extend(thread.join().unwrap_or_default());
        }
        shut.map(|()| all)
    })?;
    kernel.unmount()?;
    Ok((image, guaranteed))
}

/// What came of an image.
struct Done {
    /// Without fast commits there would be less.
    mattered: bool,
    /// The kernel could replay them too.
    compared: bool,
    /// Files that had to be there.
    guaranteed: u64,
}

fn one(seed: u64) -> Result<Done> {
    let dir = tempfile::tempdir()?;
    let (image, guaranteed) = make(dir.path(), seed, 100 + 150 * (seed % 7))?;
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    std::fs::copy(&image, &ours)?;
    std::fs::copy(&image, &theirs)?;
    let seen = recovered_tree(&ours)?;
    check_guaranteed(&seen, &guaranteed, features(seed))?;
    let without = without_fast_commits(&image, dir.path())?;
    let compared = compared(seed, &seen, &ours, &theirs, &without);
    let compared = match compared {
        Ok(compared) => compared,
        Err(why) => return Err(why.context(format!("kept in {}", dir.keep().display()))),
    };
    // Without them there is less.
    let less = recovered_tree(&without)?;
    Ok(Done {
        mattered: tree::difference(&less, &seen).is_some(),
        compared,
        guaranteed: guaranteed.len() as u64,
    })
}

/// Lets the kernel replay, too; whether it could, and what it does is to be compared.
fn compared(seed: u64, seen: &Tree, ours: &Path, theirs: &Path, without: &Path) -> Result<bool> {
    // With inline data Linux 6.18 makes names twice, and files whose blocks no file has; and a mount may never
    // end, which stops every sync(2) of the machine.
    if features(seed).contains("inline_data") {
        return Ok(false);
    }
    match KernelMount::new(theirs, &ours.with_file_name("mount"), "rw") {
        Ok(kernel) => kernel.unmount()?,
        Err(why) => {
            println!("seed {seed}: the kernel does not mount what it wrote: {why:#}");
            return Ok(false);
        }
    }
    // Names of one file that come and go, and directories that go, the kernel replays wrong: names stay
    // that were removed, of files that have the number since. Some it refuses to replay at all.
    match is_plain(seed) {
        true => compare(seen, ours, theirs, without),
        false => Ok(false),
    }
}

/// Our replay against the kernel's; whether that is one to compare with.
fn compare(seen: &Tree, ours: &Path, theirs: &Path, without: &Path) -> Result<bool> {
    let mount_dir = &ours.with_file_name("mount");
    let before = oracle::kernel_tree(theirs, mount_dir)?;
    // The kernel's counts the links of directories wrong. As for sizes it is right, and e2fsck makes files
    // longer that have blocks past their end.
    let said = oracle::repair(theirs)?;
    let a = oracle::kernel_tree(ours, mount_dir)?;
    let mut b = oracle::kernel_tree(theirs, mount_dir)?;
    for (path, entry) in &mut b {
        if let Some(before) = before.get(path) {
            // About one in fifty replays of Linux 6.18 leaves a file with a name more than it counts.
            if entry.kind == FileKind::Regular && entry.nlink > before.nlink {
                println!("the kernel's replay is wrong: {said}");
                return Ok(false);
            }
            entry.data.clone_from(&before.data);
        }
        if let Some(right) = a.get(path)
            && keeps_blocks_of_former(right, entry, without, theirs)?
        {
            entry.data.clone_from(&right.data);
        }
    }
    let views = [("the kernel's view of our replay", &a), ("our view", seen)];
    for (what, left) in views {
        if let Some(difference) = tree::difference(left, &b) {
            bail!("{what} / of the kernel's: {difference}\n{said}");
        }
    }
    Ok(true)
}

/// Whether the kernel's file differs by blocks of another inode, which had the number before: Linux 6.18 and
/// e2fsck 1.47 make an inode where a deleted one with blocks still is and leave it those that nothing
/// replaces. They may be in holes of the new file only.
fn keeps_blocks_of_former(
    right: &tree::Entry,
    wrong: &tree::Entry,
    without: &Path,
    theirs: &Path,
) -> Result<bool> {
    if right.data == wrong.data || right.data.len() != wrong.data.len() {
        return Ok(false);
    }
    let mut bytes = right.data.iter().zip(&wrong.data);
    let in_holes = bytes.all(|(right, wrong)| right == wrong || *right == 0);
    // Deleted files are freed by a mount, not by the log.
    let former = without.with_file_name("former");
    std::fs::copy(without, &former)?;
    let path = former.to_str().context("path")?;
    oracle::run("e2fsck", &["-p", "-E", "journal_only", path], 1)?;
    let before = Stat::of(&former, wrong.ino)?;
    let after = Stat::of(theirs, wrong.ino)?;
    Ok(in_holes && before.blocks > 0 && before.generation != after.generation)
}

/// What debugfs says of an inode.
struct Stat {
    generation: u64,
    blocks: u64,
}

impl Stat {
    fn of(image: &Path, ino: u64) -> Result<Stat> {
        let path = image.to_str().context("path")?;
        let said = oracle::run("debugfs", &["-c", "-R", &format!("stat <{ino}>"), path], 0)?;
        let number = |field: &str| -> Result<u64> {
            let (_, rest) = said.split_once(field).context("a field")?;
            Ok(rest
                .split_whitespace()
                .next()
                .context("a number")?
                .parse()?)
        };
        Ok(Stat {
            generation: number("Generation:")?,
            blocks: number("Blockcount:")?,
        })
    }
}

/// Whether the workload keeps to what the kernel replays right.
fn is_plain(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

fn check_guaranteed(seen: &Tree, guaranteed: &Guaranteed, features: &str) -> Result<()> {
    // Linux 6.18 journals the block that gets the data of an inode as metadata, and revokes nothing: a replay
    // of its log brings that back over what was written to the block and synced since.
    let data_stays = !features.contains("inline_data");

    for (path, data) in guaranteed {
        let Some(entry) = seen.get(path) else {
            bail!("{} was synced and is not there", tree::show(path));
        };
        if entry.data.len() != data.len() || data_stays && entry.data != *data {
            let sizes = (entry.data.len(), data.len());
            bail!("{} is not as synced: {sizes:?} bytes", tree::show(path));
        }
    }
    Ok(())
}

/// Where in an image the fast commits are: the bytes of their blocks, in order.
fn area(image: &Path, dir: &Path) -> Result<Vec<u64>> {
    let path = image.to_str().context("path")?;
    let dump = dir.join("journal");
    let command = format!("dump <8> {}", dump.display());
    oracle::run("debugfs", &["-c", "-R", &command, path], 0)?;
    let journal = std::fs::read(&dump)?;
    let be32 = |at: usize| -> Result<u32> {
        let bytes = journal.get(at..at + 4).context("a short journal")?;
        Ok(u32::from_be_bytes(bytes.try_into()?))
    };
    let (block, blocks, fast) = (be32(12)?, be32(16)?, be32(0x54)?);
    let first = blocks - fast + 1;
    let mut places = Vec::new();
    for at in first..(first + 10).min(blocks) {
        let said = oracle::run("debugfs", &["-c", "-R", &format!("bmap <8> {at}"), path], 0)?;
        let number = said
            .lines()
            .find_map(|line| line.trim().parse::<u64>().ok());
        places.push(number.context("no block number")? * u64::from(block));
    }
    Ok(places)
}

/// Files and directories that start in their inodes, grow there and leave them, each step synced.
#[test]
fn crash_fast_commits_of_data_in_inodes() {
    require!(kernel_mounts());
    for features in &FEATURES[4..] {
        in_inodes(features).context(*features).unwrap();
    }
}

fn in_inodes(features: &str) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (image, mount_dir) = (dir.path().join("image"), dir.path().join("mount"));
    let path = image.to_str().context("path")?;
    let args = ["-q", "-t", "ext4", "-J", "size=8", "-O", features];
    oracle::run("mke2fs", &[&args[..], &[path, "64M"]].concat(), 0)?;
    let kernel = KernelMount::new(&image, &mount_dir, "commit=300")?;
    let write = |name: &str, at: u64, data: &[u8]| -> Result<()> {
        let path = kernel.dir().join(name);
        let mut open = Open::new();
        let file = open.write(true).create(true).truncate(false).open(path)?;
        file.write_all_at(data, at)?;
        Ok(file.sync_all()?)
    };
    write("stays", 0, &[1; 10])?;
    write("leaves", 0, &[2; 100])?;
    write("stays", 10, &[3; 90])?;
    write("leaves", 100, &[4; 9000])?;
    std::fs::create_dir(kernel.dir().join("dir"))?;
    write("dir/first", 0, b"1")?;
    for i in 0..20 {
        write(&format!("dir/name-{i}"), 0, &[i; 70])?;
    }
    write("stays", 50, &[5; 30])?;
    std::fs::remove_file(kernel.dir().join("dir/name-3"))?;
    write("dir/name-4", 0, b"again")?;
    let want = tree::of_dir(kernel.dir())?;
    kernel.shut_down()?;
    kernel.unmount()?;
    let seen = recovered_tree(&image)?;
    tree::same("synced / replayed", &want, &seen)?;
    Ok(())
}

/// Power is lost at some moments of the replay, and the next one finds what the first had found.
#[test]
fn crash_a_replay_that_is_cut_short_is_done_again() {
    require!(kernel_mounts());
    let dir = tempfile::tempdir().unwrap();
    let (image, _) = make(dir.path(), 1, 300).unwrap();
    let bytes = std::fs::read(&image).unwrap();
    let device = Arc::new(RecordDevice::new(MemoryDevice::from_bytes(&bytes)).unwrap());
    let fs = mount(Arc::clone(&device) as Arc<_>).unwrap();
    let want = tree::of_fs(&*fs).unwrap();
    fs.unmount().unwrap();
    drop(fs);
    let log = device.log();
    let mut rng = fastrand::Rng::with_seed(1);
    let cuts = env_number("UEXT4_FAST_COMMIT_CUTS", 30);
    for i in 0..cuts {
        // Every moment has its turn when there are enough.
        let at = log.ops.len() * i as usize / cuts as usize;
        let crashed = Arc::new(log.replay(&Cut::at(at).seeded(rng.u64(..))));
        let fs = mount(Arc::clone(&crashed) as Arc<_>)
            .with_context(|| format!("cut at {at} of {}", log.ops.len()))
            .unwrap();
        let seen = tree::of_fs(&*fs).unwrap();
        fs.unmount().unwrap();
        if let Some(difference) = tree::difference(&seen, &want) {
            panic!("cut at {at} of {}: {difference}", log.ops.len());
        }
        oracle::check(&*crashed).unwrap();
    }
}

/// An image alternates: the kernel and we stop on it in turn, and each recovers what the other left.
#[test]
fn crash_turns_with_the_kernel() {
    require!(kernel_mounts());
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..2 {
        let (image, _) = make(dir.path(), seed * 2, 200).unwrap();
        for turn in 0..3 {
            take_a_turn(dir.path(), &image, seed * 100 + turn * 10)
                .with_context(|| format!("seed {seed}, turn {turn}"))
                .unwrap();
        }
    }
}

/// We recover, make something and stop; the kernel recovers, makes something and stops.
fn take_a_turn(dir: &Path, image: &Path, seed: u64) -> Result<()> {
    let device = Arc::new(FileDevice::open(image, &OpenOptions::read_write())?);
    let fs = mount(Arc::clone(&device) as Arc<_>)?;
    for i in 0..40 {
        let path = format!("ours{seed}-{i}").into_bytes();
        apply(&*fs, &Op::Mkdir { path, mode: 0o755 })?;
    }
    fs.sync()?;
    let want = tree::of_fs(&*fs)?;
    fs.crash();
    drop((fs, device));
    let kernel = KernelMount::new(image, &dir.join("mount"), "commit=300")?;
    let seen = tree::of_dir(kernel.dir())?;
    tree::same("the kernel's view / ours before the crash", &seen, &want)?;
    let (never, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let guaranteed = std::thread::scope(|scope| -> Result<Guaranteed> {
        let thread = scope.spawn(|| load(kernel.dir(), seed + 1000, &never, &stop));
        std::thread::sleep(Duration::from_millis(150));
        // It has stopped by itself before the file system does: all that it synced is guaranteed.
        stop.store(true, Ordering::Relaxed);
        let guaranteed = thread.join().unwrap_or_default();
        kernel.shut_down()?;
        Ok(guaranteed)
    })?;
    kernel.unmount()?;
    let bytes = std::fs::read(image)?;
    let fs = mount(Arc::new(MemoryDevice::from_bytes(&bytes)))?;
    check_guaranteed(&tree::of_fs(&*fs)?, &guaranteed, FEATURES[0])?;
    Ok(fs.unmount()?)
}

/// Damage is passed over, or refused when checksums vouch for it; nothing panics.
#[test]
fn any_byte_of_fast_commits_may_be_damaged() {
    require!(kernel_mounts());
    let dir = tempfile::tempdir().unwrap();
    let (image, _) = make(dir.path(), 0, 300).unwrap();
    let places = area(&image, dir.path()).unwrap();
    let bytes = std::fs::read(&image).unwrap();
    let size = (places[1] - places[0]) as usize;
    let mut rng = fastrand::Rng::with_seed(2);
    let (mut refused, runs) = (0, env_number("UEXT4_FAST_COMMIT_DAMAGE", 60));
    for run in 0..runs {
        let mut bytes = bytes.clone();
        let at = *rng.choice(&places).unwrap() as usize + rng.usize(..size);
        bytes[at] ^= 1 << rng.u8(..8);
        let vouched = run % 3 != 0;
        if vouched {
            for _ in 0..rng.usize(..3) {
                let at = *rng.choice(&places).unwrap() as usize + rng.usize(..size);
                bytes[at] = rng.u8(..);
            }
            vouch(&mut bytes, &places, size);
        }
        let device = Arc::new(MemoryDevice::from_bytes(&bytes));
        match mount(Arc::clone(&device) as Arc<_>) {
            Ok(fs) => {
                let seen = tree::of_fs(&*fs);
                let unmounted = fs.unmount();
                if !vouched {
                    seen.unwrap();
                    unmounted.unwrap();
                    oracle::check(&*device).unwrap();
                }
            }
            Err(why) if vouched => {
                refused += 1;
                assert!(why.to_string().contains("inode"), "{why:#}");
            }
            Err(why) => panic!("byte {at}: {why:#}"),
        }
    }
    println!("{runs} damaged, {refused} refused");
}

/// Makes checksums of fast commits right.
fn vouch(bytes: &mut [u8], places: &[u64], size: usize) {
    let mut crc = 0;
    for place in places {
        let block = &mut bytes[*place as usize..*place as usize + size];
        let mut at = 0;
        while at + 4 <= size {
            let half = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]);
            let (tag, end) = (half(at), at + 4 + usize::from(half(at + 2)));
            if end > size {
                return;
            }
            if tag == 8 && end >= at + 12 {
                let sum = uext4_ondisk::crc32c(crc, &block[at..at + 8]);
                block[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
                crc = 0;
            } else {
                crc = uext4_ondisk::crc32c(crc, &block[at..end]);
            }
            at = end;
        }
    }
}

/// The image as if no fast commits followed its log.
fn without_fast_commits(image: &Path, dir: &Path) -> Result<PathBuf> {
    let first = *area(image, dir)?.first().context("no fast commit area")? as usize;
    let mut bytes = std::fs::read(image)?;
    bytes[first..first + 12].fill(0);
    let without = dir.join("without");
    std::fs::write(&without, bytes)?;
    Ok(without)
}

/// Bytes of data; now and then such that an inode may hold it.
fn length(rng: &mut fastrand::Rng) -> usize {
    match rng.u8(..3) {
        0 => rng.usize(..150),
        _ => rng.usize(..30_000),
    }
}

/// Works on files in a directory of its own until asked to stop or the file system is gone.
fn load(root: &Path, seed: u64, closing: &AtomicBool, stop: &AtomicBool) -> Guaranteed {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut work = Work {
        root,
        closing,
        plain: is_plain(seed / 10),
        dir: root.join(format!("t{seed}")),
        guaranteed: Guaranteed::new(),
        files: BTreeMap::new(),
    };
    let started = std::fs::create_dir(&work.dir).and_then(|()| File::open(root)?.sync_all());
    if started.is_err() {
        return work.guaranteed;
    }
    while !stop.load(Ordering::Relaxed) {
        // An error ends it: names are known to be there or not, so it is the file system that went.
        if work.step(&mut rng).is_err() {
            break;
        }
    }
    work.guaranteed
}

struct Work<'r> {
    root: &'r Path,
    /// The shutdown is near: fsync of a commit that it cuts short may say that all went well.
    closing: &'r AtomicBool,
    plain: bool,
    dir: PathBuf,
    guaranteed: Guaranteed,
    /// What is there, as far as this thread did it.
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Work<'_> {
    fn path(&self, rng: &mut fastrand::Rng) -> PathBuf {
        let n = rng.u32(..60);
        let parent = match rng.u8(..4) {
            0 => self.dir.join(format!("d{}", n % 3)),
            _ => self.dir.clone(),
        };
        parent.join(format!("f{n}{}", "n".repeat(n as usize * 3)))
    }

    fn some_file(&self, rng: &mut fastrand::Rng) -> Option<PathBuf> {
        let n = rng.usize(..self.files.len().max(1));
        self.files.keys().nth(n).cloned()
    }

    /// The name changes: nothing is guaranteed of it, nor of other names of the same file, any more.
    fn touch(&mut self, path: &Path) {
        self.guaranteed.remove(&self.key(path));
    }

    fn key(&self, path: &Path) -> Vec<u8> {
        let path = path.strip_prefix(self.root).unwrap_or(path);
        path.as_os_str().as_bytes().to_vec()
    }

    fn step(&mut self, rng: &mut fastrand::Rng) -> std::io::Result<()> {
        let path = self.path(rng);
        if !path.parent().is_some_and(Path::is_dir) {
            return match path.parent() {
                Some(parent) => std::fs::create_dir(parent),
                None => Ok(()),
            };
        }
        match rng.u8(..14) {
            0..=2 => {
                self.touch(&path);
                let data = vec![rng.u8(..); length(rng)];
                std::fs::write(&path, &data)?;
                self.files.insert(path, data);
            }
            3..=4 => self.write(rng)?,
            5 => {
                if let Some(path) = self.some_file(rng) {
                    self.touch(&path);
                    std::fs::remove_file(&path)?;
                    self.files.remove(&path);
                }
            }
            6 => {
                if let Some(from) = self.some_file(rng).filter(|from| *from != path) {
                    self.touch(&from);
                    self.touch(&path);
                    std::fs::rename(&from, &path)?;
                    if let Some(data) = self.files.remove(&from) {
                        self.files.insert(path, data);
                    }
                }
            }
            7 if !self.plain => self.link(rng, &path)?,
            7 => {}
            8 if !self.plain && rng.u8(..3) == 0 => self.name_late(rng, path)?,
            8 => self.resize(rng)?,
            9 => self.allocate(rng)?,
            10 if !self.plain && rng.u8(..4) == 0 => {
                let dir = self.dir.join(format!("e{}", rng.u8(..3)));
                let _ = std::fs::create_dir(&dir).or_else(|_| std::fs::remove_dir(&dir));
            }
            _ => {
                if let Some(path) = self.some_file(rng) {
                    File::open(&path)?.sync_all()?;
                    if !self.closing.load(Ordering::SeqCst) {
                        let data = self.files.get(&path).cloned().unwrap_or_default();
                        self.guaranteed.insert(self.key(&path), data);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes into a file, or past its end.
    fn write(&mut self, rng: &mut fastrand::Rng) -> std::io::Result<()> {
        let Some(path) = self.some_file(rng) else {
            return Ok(());
        };
        self.touch(&path);
        let (at, data) = match rng.u8(..3) {
            0 => (rng.usize(..150), vec![rng.u8(..); rng.usize(1..80)]),
            _ => (rng.usize(..80_000), vec![rng.u8(..); rng.usize(1..20_000)]),
        };
        Open::new()
            .write(true)
            .open(&path)?
            .write_all_at(&data, at as u64)?;
        if let Some(file) = self.files.get_mut(&path) {
            file.resize(file.len().max(at + data.len()), 0);
            file[at..at + data.len()].copy_from_slice(&data);
        }
        Ok(())
    }

    /// A file that gets its first name when it is written.
    fn name_late(&mut self, rng: &mut fastrand::Rng, path: PathBuf) -> std::io::Result<()> {
        use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(openat(CWD, &self.dir, flags, Mode::from(0o644))?);
        let data = vec![rng.u8(..); length(rng)];
        file.write_all_at(&data, 0)?;
        if rng.bool() {
            file.sync_all()?;
        }
        if path.exists() {
            return Ok(());
        }
        self.touch(&path);
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, from, CWD, &path, AtFlags::SYMLINK_FOLLOW)?;
        self.files.insert(path, data);
        Ok(())
    }

    /// A second name, which comes and goes: the content of linked files is not followed.
    fn link(&mut self, rng: &mut fastrand::Rng, path: &Path) -> std::io::Result<()> {
        let Some(from) = self.some_file(rng) else {
            return Ok(());
        };
        let name = format!("link{}", rng.u8(..20));
        let path = path.with_file_name(name);
        let _ = std::fs::hard_link(&from, &path).or_else(|_| std::fs::remove_file(&path));
        Ok(())
    }

    fn resize(&mut self, rng: &mut fastrand::Rng) -> std::io::Result<()> {
        let Some(path) = self.some_file(rng) else {
            return Ok(());
        };
        self.touch(&path);
        let size = rng.usize(..60_000);
        Open::new().write(true).open(&path)?.set_len(size as u64)?;
        if let Some(file) = self.files.get_mut(&path) {
            file.resize(size, 0);
        }
        Ok(())
    }

    fn allocate(&mut self, rng: &mut fastrand::Rng) -> std::io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        let Some(path) = self.some_file(rng) else {
            return Ok(());
        };
        self.touch(&path);
        let file = Open::new().write(true).open(&path)?;
        let (at, len) = (rng.usize(..60_000), rng.usize(1..30_000));
        let keep = rng.bool();
        let flags = match keep {
            true => FallocateFlags::KEEP_SIZE,
            false => FallocateFlags::empty(),
        };
        fallocate(&file, flags, at as u64, len as u64)?;
        if let Some(data) = self.files.get_mut(&path).filter(|_| !keep) {
            data.resize(data.len().max(at + len), 0);
        }
        Ok(())
    }
}

//! Every byte of the structures in use, changed to three other values, one at a time: with checksums either the
//! right answer or an error that names the place; without, no panic and no hang. And never more memory than
//! 64 MiB and twice the image.
//!
//! By default a sample; `UEXT4_BYTES_STEP=1` takes every byte. `UEXT4_BYTES_FIRST` is where to begin, so that several
//! processes can share the work.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use uext4_testkit::image::{mke2fs, mount};
use uext4_testkit::prelude::*;
use uext4_testkit::tree::join;
use uext4_vfs::errno::Error;

const BLOCK: usize = 1024;
const BYTES: u64 = 3 << 20;
/// More entries than any directory has.
const ENTRIES_MAX: usize = 5000;
/// No case takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

static MEMORY_LIMIT: Exclusive<&str> = Exclusive::new("the memory limit of the process");

/// An image to damage.
struct Subject {
    bytes: Vec<u8>,
    image: MemoryDevice,
    /// Where structures in use are.
    places: Vec<usize>,
    /// What is right: the tree at each point that was durable, as far as the log may be cut to.
    right: Vec<Tree>,
}

fn create(fs: &Ext4, dir: &InodeRef, name: &str, kind: NewKind<'_>) -> Result<InodeRef> {
    let new = NewNode { mode: 0o755, kind };
    Ok(FileSystem::create(
        fs,
        &Caller::root(),
        dir,
        name.as_bytes(),
        &new,
    )?)
}

/// A bit of every structure: a hashed directory, a tree of extents, attributes in inode and block, links.
fn fill(fs: &Ext4, part: usize) -> Result<()> {
    let (root, who) = (fs.root()?.clone(), Caller::root());
    let dir = create(fs, &root, &format!("dir{part}"), NewKind::Directory)?;
    for i in 0..30 {
        let name = format!("{i}{}", "n".repeat(40));
        let file = create(fs, &dir, &name, NewKind::Regular)?;
        if i < 3 {
            fs.files
                .write(&file, 0, &vec![i as u8 + 1; 700 * i], true)?;
        }
    }
    let file = create(fs, &root, &format!("file{part}"), NewKind::Regular)?;
    for i in 0..10 {
        fs.files
            .write(&file, i * 3 * BLOCK as u64, b"extent", true)?;
    }
    let set = |name: &[u8], value: &[u8]| {
        FileSystem::setxattr(fs, &who, &file, name, value, XattrFlags::empty())
    };
    set(b"user.small", b"1")?;
    set(b"user.large", &[7; 500])?;
    create(
        fs,
        &root,
        &format!("fast{part}"),
        NewKind::Symlink(b"target"),
    )?;
    create(
        fs,
        &root,
        &format!("slow{part}"),
        NewKind::Symlink(&[b's'; 200]),
    )?;
    create(fs, &root, &format!("fifo{part}"), NewKind::Fifo)?;
    FileSystem::unlink(fs, &who, &dir, format!("7{}", "n".repeat(40)).as_bytes())?;
    Ok(())
}

/// An image made with `args`; `crashed`: all is in its log.
fn subject(args: &str, crashed: bool) -> Result<Subject> {
    let device = Arc::new(mke2fs(args, BYTES)?);
    let fs = mount(device.clone())?;
    let mut right = vec![tree::of_fs(&*fs)?];
    fill(&fs, 0)?;
    if !crashed {
        fs.sync()?;
        fill(&fs, 1)?;
        right.clear();
    } else {
        fs.sync()?;
        right.push(tree::of_fs(&*fs)?);
        fill(&fs, 1)?;
        fs.sync()?;
    }
    right.push(tree::of_fs(&*fs)?);
    let mut unused = data_blocks(&fs)?;
    if !crashed {
        // What an empty log was used for is unused now; its first block is its superblock.
        let log = fs.mapping.extents(&*fs.inodes.get_inode(Ino::JOURNAL)?)?;
        let blocks = log
            .iter()
            .flat_map(|e| e.pblk.0..e.pblk.0 + u64::from(e.len));
        unused.extend(blocks.skip(1));
    }
    if crashed {
        fs.crash();
    } else {
        fs.unmount()?;
    }
    drop(fs);
    let bytes = device.snapshot();
    let in_use = |(n, block): (usize, &[u8])| {
        let used = block.iter().any(|b| *b != 0) && !unused.contains(&(n as u64));
        used.then_some(n * BLOCK)
    };
    let starts = bytes.chunks(BLOCK).enumerate().filter_map(in_use);
    let places = starts.flat_map(|start| start..start + BLOCK).collect();
    Ok(Subject {
        image: MemoryDevice::from_bytes(&bytes),
        bytes,
        places,
        right,
    })
}

/// The blocks of data of regular files and of long symbolic links: nothing protects them.
fn data_blocks(fs: &Ext4) -> Result<BTreeSet<u64>> {
    let (who, mut blocks) = (Caller::root(), BTreeSet::new());
    let mut left = vec![fs.root()?.clone()];
    while let Some(dir) = left.pop() {
        for name in tree::names(fs, &dir, ENTRIES_MAX)? {
            let node = FileSystem::lookup(fs, &who, &dir, &name)?;
            if node.is_dir() {
                left.push(node);
                continue;
            }
            for extent in fs.mapping.extents(&node)? {
                blocks.extend(extent.pblk.0..extent.pblk.0 + u64::from(extent.len));
            }
        }
    }
    Ok(blocks)
}

/// An error that says where: its errno if it is one of an operation.
fn names_the_place(text: &str, errno: Option<Errno>) -> Result<()> {
    const PLACES: [&str; 8] = [
        "inode",
        "block",
        "group",
        "superblock",
        "journal",
        "directory",
        "descriptor",
        "feature",
    ];
    if errno.is_some_and(|e| e != Errno::EUCLEAN) {
        bail!("{text}, which is not EUCLEAN");
    }
    if !PLACES.iter().any(|place| text.contains(place)) {
        bail!("{text:?} names no place");
    }
    Ok(())
}

fn told(e: &Error) -> Result<()> {
    names_the_place(&e.to_string(), Some(e.errno()))
}

/// Whether all that a mounted image says is right, where it does not say that it is damaged.
fn check_answers(fs: &Ext4, right: &[Tree]) -> Result<()> {
    let mut seen: Tree = Tree::new();
    let mut damaged = false;
    walk(fs, &mut seen, &mut damaged)?;
    let fits = |tree: &Tree| {
        let known = seen
            .iter()
            .all(|(path, entry)| tree.get(path) == Some(entry));
        known && (damaged || seen.len() == tree.len())
    };
    if right.iter().any(fits) {
        return Ok(());
    }
    let last = right.last().context("something is right")?;
    bail!("{}", tree::difference(&seen, last).unwrap_or_default())
}

/// Collects what there is; an error says where.
fn walk(fs: &Ext4, seen: &mut Tree, damaged: &mut bool) -> Result<()> {
    let mut ask = |e: Error| {
        *damaged = true;
        told(&e)
    };
    let root = match FileSystem::root(fs) {
        Ok(root) => root.clone(),
        Err(e) => return ask(e),
    };
    let who = Caller::root();
    let mut left = vec![(Vec::new(), root.clone())];
    while let Some((path, dir)) = left.pop() {
        let mut names = Vec::new();
        let listed = FileSystem::readdir(fs, &who, &dir, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                names.push(entry.name.to_vec());
            }
            names.len() < ENTRIES_MAX
        });
        if let Err(e) = listed {
            ask(e)?;
        }
        for name in names {
            if path.is_empty() && name == b"lost+found" {
                continue;
            }
            let at = join(&path, &name);
            let node = match FileSystem::lookup(fs, &who, &dir, &name) {
                Ok(node) => node,
                Err(e) => {
                    ask(e).with_context(|| tree::show(&at))?;
                    continue;
                }
            };
            // No file is as large; one that says so is read in part, to save memory of our own.
            if node.size() > BYTES {
                let mut bytes = vec![0; 1 << 16];
                for at in [0, node.size() - 1000] {
                    let _ = fs.read(&node, at, &mut bytes);
                }
                continue;
            }
            let entry = match tree::entry_of(fs, &node) {
                Ok(entry) => entry,
                Err(e) => {
                    let e = e.downcast::<Error>()?;
                    ask(e).with_context(|| tree::show(&at))?;
                    continue;
                }
            };
            if entry.kind == FileKind::Directory {
                left.push((at.clone(), node));
            }
            seen.insert(at, entry);
        }
    }
    Ok(())
}

/// Some changes: whatever they answer, they return.
fn change(fs: &Ext4) {
    let who = Caller::root();
    let Ok(root) = FileSystem::root(fs) else {
        return;
    };
    if let Ok(file) = create(fs, root, "new", NewKind::Regular) {
        let _ = fs.files.write(&file, 0, &[1; 3000], true);
    }
    let _ = FileSystem::unlink(fs, &who, root, b"file0");
    let _ = FileSystem::rmdir(fs, &who, root, b"dir1");
    if let Ok(dir) = FileSystem::lookup(fs, &who, root, b"dir0") {
        let _ = create(fs, &dir, "new", NewKind::Directory);
        let _ = FileSystem::unlink(fs, &who, &dir, format!("8{}", "n".repeat(40)).as_bytes());
    }
}

fn examine(subject: &Subject, at: usize, value: u8, checksums: bool) -> Result<()> {
    let device = Arc::new(subject.image.clone());
    device.write_at(at as u64, &[value])?;
    let fs = match mount(device as Arc<dyn BlockDevice>) {
        Ok(fs) => fs,
        Err(_) if !checksums => return Ok(()),
        Err(why) => {
            let errno = why.downcast_ref::<Ext4Error>().map(|_| Errno::EUCLEAN);
            return names_the_place(&format!("{why:#}"), errno);
        }
    };
    let answers = match checksums {
        true => check_answers(&fs, &subject.right),
        false => {
            let _ = walk(&fs, &mut Tree::new(), &mut false);
            Ok(())
        }
    };
    change(&fs);
    let _ = fs.unmount();
    answers
}

/// Stops the process when nothing happens any more.
fn watch(progress: &Arc<AtomicU64>) {
    let progress = Arc::clone(progress);
    std::thread::spawn(move || {
        let mut before = u64::MAX;
        loop {
            let now = progress.load(Ordering::SeqCst);
            if now == u64::MAX {
                return;
            }
            if now == before {
                eprintln!("byte {} with value {} hangs", now >> 8, now & 0xff);
                std::process::abort();
            }
            before = now;
            std::thread::sleep(PATIENCE);
        }
    });
}

/// Lets the process have no more than 64 MiB and two images beside what it has.
fn limit_memory(image: u64) -> Result<Rlimit> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let now = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let now: u64 = now.context("VmData")?.trim().parse()?;
    let before = getrlimit(Resource::Data);
    let current = Some(now * 1024 + (64 << 20) + 2 * image);
    setrlimit(Resource::Data, Rlimit { current, ..before })?;
    Ok(before)
}

fn every_byte(args: &str, crashed: bool, checksums: bool) {
    let _limit = MEMORY_LIMIT.take();
    let subject = subject(args, crashed).expect("an image");
    let step = env_number("UEXT4_BYTES_STEP", 211) as usize;
    let first = env_number("UEXT4_BYTES_FIRST", 0) as usize;
    let progress = Arc::new(AtomicU64::new(0));
    watch(&progress);
    let before = limit_memory(subject.bytes.len() as u64).expect("is limited");
    let mut failures = Vec::new();
    let (mut cases, mut rng) = (0, fastrand::Rng::with_seed(first as u64));
    for &at in subject.places.iter().skip(first).step_by(step) {
        let was = subject.bytes[at];
        for value in [was ^ 1 << rng.u8(..8), was.wrapping_add(rng.u8(1..)), !was] {
            progress.store((at as u64) << 8 | u64::from(value), Ordering::SeqCst);
            cases += 1;
            if let Err(why) = examine(&subject, at, value, checksums) {
                failures.push(format!("byte {at}, {was:#x} made {value:#x}: {why:#}"));
            }
        }
    }
    progress.store(u64::MAX, Ordering::SeqCst);
    setrlimit(Resource::Data, before).expect("is limited no more");
    println!(
        "{args} (crashed {crashed}): {cases} cases, {} places",
        subject.places.len()
    );
    let shown = failures
        .iter()
        .take(20)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        failures.is_empty(),
        "{} of {cases}:\n{shown}",
        failures.len()
    );
}

#[test]
fn checksums_find_what_is_damaged() {
    every_byte("-t ext4 -b 1024 -N 128 -O ^resize_inode", false, true);
}

#[test]
fn checksums_find_what_is_damaged_in_a_log() {
    every_byte("-t ext4 -b 1024 -N 128 -O ^resize_inode", true, true);
}

#[test]
fn without_checksums_nothing_breaks() {
    let args = "-t ext4 -b 1024 -N 128 -O ^resize_inode,^metadata_csum";
    every_byte(args, false, false);
}

#[test]
fn without_checksums_nothing_breaks_in_a_log() {
    every_byte("-t ext3 -b 1024 -N 128 -O ^resize_inode", true, false);
}

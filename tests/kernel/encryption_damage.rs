//! Damaged contexts, names and directory blocks of encrypted files, without checksums: walks with the key and without it give errors that name the inode,
//! never a panic or a hang. Needs root, loop devices, and a kernel with fscrypt, which makes the image.

use crate::*;
use uext4::{Errno, FileKind, Filesystem, ImageOptions, Metadata};
use uext4_ondisk::KeyName;
use uext4_testkit::encrypted;

const RUNS: u64 = 200;
const BLOCK: usize = 1024;
const INODE: usize = 256;
/// The most names that one walk visits.
const NAMES_MAX: usize = 3000;

const FILL: &str = r"
def v1(contents, names, flags):
    return struct.pack('=BBBB', 0, contents, names, flags) + descriptor
def v2(contents, names, flags):
    return struct.pack('=BBBBBBBB', 2, contents, names, flags, 0, 0, 0, 0) + identifier
for at, policy in enumerate([v1(1, 4, 0), v2(1, 4, 3)]):
    path = os.path.join(top, 'dir%d' % at)
    os.mkdir(path)
    dir = os.open(path, os.O_RDONLY)
    fcntl.ioctl(dir, 0x800C6613, bytearray(policy.ljust(24, b'\0')), True)
    os.chdir(path)
    for n in [0, 1, 16, 1000, 1024, 3000, 40000]:
        with open('file%d' % n, 'wb') as f: f.write(b'd' * n)
    for n in [1, 16, 45, 60, 200, 900]: os.symlink('t' * n, 'link%d' % n)
    os.makedirs('sub/deeper')
    with open('sub/deeper/file', 'wb') as f: f.write(b'd' * 100)
    os.mkdir('many')
    for i in range(120): os.link('file1', 'many/' + ('%d-' % i).ljust(3 + i * 11 % 240, 'n'))
os.chdir('/')
";

/// Where damage is done: contexts, the inodes that have them, and blocks of directories and links.
struct Targets {
    contexts: Vec<usize>,
    blocks: Vec<usize>,
}

impl Targets {
    fn of(image: &Path, bytes: &[u8]) -> Result<Targets> {
        let keys = crate::encryption::with_key()?;
        let names = keys.names();
        let mut contexts = Vec::new();
        // The name of the key follows 4 or 8 bytes of the context.
        for name in &names {
            let before = match name {
                KeyName::Descriptor(_) => 4,
                KeyName::Identifier(_) => 8,
            };
            let found = bytes.windows(name.as_bytes().len()).enumerate();
            let found = found.filter(|(_, part)| *part == name.as_bytes());
            contexts.extend(found.map(|(at, _)| at - before));
        }
        let fs = crate::encryption::open(image, &keys)?;
        let (mut blocks, mut left) = (Vec::new(), vec![fs.root()?.clone()]);
        while let Some(dir) = left.pop() {
            for name in tree::names(&*fs, &dir, usize::MAX)? {
                let node = fs.lookup(&Caller::root(), &dir, &name)?;
                let attr = fs.getattr(&node)?;
                let is_long_link =
                    attr.kind == uext4_vfs::attr::FileKind::Symlink && attr.blocks > 0;
                if node.is_dir() || is_long_link {
                    for extent in fs.mapping.extents(&node)? {
                        let all = extent.pblk.0..extent.pblk.0 + u64::from(extent.len);
                        blocks.extend(all.map(|block| block as usize * BLOCK));
                    }
                }
                if node.is_dir() && name != b"lost+found" {
                    left.push(node);
                }
            }
        }
        ensure!(contexts.len() > 20 && blocks.len() > 20);
        Ok(Targets { contexts, blocks })
    }

    /// Changes a few bytes.
    fn damage(&self, bytes: &mut [u8], rng: &mut Rng) {
        for _ in 0..rng.usize(1..12) {
            let context = *rng.choice(&self.contexts).expect("contexts");
            let block = *rng.choice(&self.blocks).expect("blocks");
            let at = match rng.u8(..8) {
                0 | 1 => context + rng.usize(..40),
                2 => context - context % INODE + rng.usize(..INODE),
                // Headers of entries are there.
                3 => block + rng.usize(..BLOCK) / 4 * 4 + rng.usize(4..8),
                4 => block + rng.usize(..40),
                _ => block + rng.usize(..BLOCK),
            };
            let Some(byte) = bytes.get_mut(at) else {
                continue;
            };
            *byte = match rng.u8(..3) {
                0 => *byte ^ 1 << rng.u8(..8),
                1 => *rng.choice(&[0, 1, b'/', 255]).unwrap_or(&0),
                _ => rng.u8(..),
            };
        }
    }
}

/// What a walk has met.
#[derive(Default)]
struct Met {
    read: usize,
    failed: usize,
    inodes: HashSet<u64>,
    nameless: BTreeSet<String>,
}

impl Met {
    fn note<T>(&mut self, what: &str, done: uext4::Result<T>) -> Option<T> {
        let why = match done {
            Ok(value) => {
                self.read += 1;
                return Some(value);
            }
            Err(why) => why,
        };
        self.failed += 1;
        let said = why.to_string();
        let names_inode = said.split("inode ").skip(1).any(|rest| {
            let first = rest.bytes().next();
            first.is_some_and(|byte| byte.is_ascii_digit())
        });
        // Damaged names are listed that no look-up finds: their entry is not where their hash leads, or they decrypt to what encrypts to others.
        let is_missing = match what {
            "get_xattr" => matches!(why.errno(), Errno::ENODATA | Errno::EOPNOTSUPP),
            _ => why.errno() == Errno::ENOENT,
        };
        if !names_inode && !is_missing {
            self.nameless.insert(format!("{what}: {said}"));
        }
        None
    }
}

fn walk(bytes: &[u8], with_key: bool) -> Met {
    let mut met = Met::default();
    let mut options = ImageOptions::read_write();
    if with_key {
        options = options.encryption_key(&encrypted::key()).expect("a key");
    }
    let device = Arc::new(MemoryDevice::from_bytes(bytes));
    let Some(fs) = met.note("open", Filesystem::open_device(device, &options)) else {
        return met;
    };
    let (mut left, mut seen) = (vec![b"/".to_vec()], 0);
    while let Some(dir) = left.pop() {
        let Some(entries) = met.note("read_dir", fs.read_dir(&dir)) else {
            continue;
        };
        for entry in entries.take(NAMES_MAX) {
            let Some(entry) = met.note("entry", entry) else {
                continue;
            };
            seen += 1;
            if seen > NAMES_MAX {
                break;
            }
            let path = [&dir, entry.name()].join(&b'/');
            let found = met.note("metadata", fs.symlink_metadata(&path));
            if let Some(found) = found {
                if met.inodes.insert(found.ino()) {
                    read_all(&fs, &path, &found, &mut met);
                }
                // A damaged directory may be its own ancestor.
                if found.is_dir() && path.len() < 600 {
                    left.push(path);
                }
            }
        }
    }
    for dir in ["/dir0", "/dir1"] {
        if with_key {
            let _ = fs.remove_dir_all(dir);
        }
        let _ = fs.remove_dir_all(dir);
    }
    let _ = fs.unmount();
    met
}

fn read_all(fs: &Filesystem, path: &[u8], found: &Metadata, met: &mut Met) {
    match found.file_kind() {
        FileKind::Symlink => drop(met.note("read_link", fs.read_link(path))),
        FileKind::Regular => {
            let Some(file) = met.note("open", fs.open_file(path)) else {
                return;
            };
            let mut data = vec![0; 50_000];
            met.note("read", file.read_at(&mut data, 0));
            let near_end = found.len().saturating_sub(100);
            met.note("read", file.read_at(&mut data, near_end));
        }
        _ => {}
    }
    if let Some(names) = met.note("list_xattrs", fs.list_xattrs(path)) {
        for name in names {
            met.note("get_xattr", fs.get_xattr(path, &name));
        }
    }
}

#[test]
fn damage_of_encrypted_files_gives_errors_that_name_the_inode() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let args = [
        "-b",
        "1024",
        "-O",
        "^metadata_csum,^has_journal",
        "-N",
        "256",
    ];
    let made = encrypted::filled_by(dir.path(), "4M", &args, FILL)?;
    let (image, _) = require!(some made, Ok(()));
    let whole = Arc::new(std::fs::read(&image)?);
    let targets = Targets::of(&image, &whole)?;
    let runs = env_number("UEXT4_DAMAGE_RUNS", RUNS);
    let first = env_number("UEXT4_DAMAGE_SEED", 0);
    let (mut read, mut failed, mut nameless) = (0, 0, BTreeMap::new());
    for seed in first..=first + runs {
        let mut bytes = whole.to_vec();
        if seed != first {
            targets.damage(&mut bytes, &mut Rng::with_seed(seed));
        }
        for with_key in [true, false] {
            let image = bytes.clone();
            let what = format!("seed {seed}, key {with_key}");
            let met = within(&what, move || walk(&image, with_key));
            read += met.read;
            failed += met.failed;
            for said in met.nameless {
                nameless.entry(said).or_insert(what.clone());
            }
            if seed == first {
                println!("whole: {} read, {} failed", met.read, met.failed);
            }
        }
    }
    println!("{read} read, {failed} failed");
    ensure!(nameless.is_empty(), "{nameless:#?}");
    Ok(())
}

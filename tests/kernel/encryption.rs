//! Files that the kernel has encrypted: read here with their keys, and listed and removed without them as the kernel does it. Needs root, loop devices,
//! and a kernel with fscrypt.

use crate::*;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use uext4_ext4::KeyRing;
use uext4_vfs::errno::Errno;

/// Whether the kernel's ext4 has fscrypt.
const FEATURE: &str = "/sys/fs/ext4/features/encryption";

/// Makes directories with policies of both versions and all modes that the kernel has, and fills them; prints those that it made.
const FILL: &str = r"
import fcntl, hashlib, os, struct, sys
top, raw = sys.argv[1], bytes.fromhex(sys.argv[2])
fd = os.open(top, os.O_RDONLY)
def add(spec):
    arg = bytearray(spec.ljust(40, b'\0') + struct.pack('=LL', len(raw), 0) + bytes(32) + raw)
    fcntl.ioctl(fd, 0xC0506617, arg, True)
    return bytes(arg[8:40])
descriptor = hashlib.sha512(hashlib.sha512(raw).digest()).digest()[:8]
add(struct.pack('=LL', 1, 0) + descriptor)
identifier = add(struct.pack('=LL', 2, 0))[:16]
def v1(contents, names, flags):
    return struct.pack('=BBBB', 0, contents, names, flags) + descriptor
def v2(contents, names, flags, unit=0):
    return struct.pack('=BBBBBBBB', 2, contents, names, flags, unit, 0, 0, 0) + identifier
policies = {
    'v1': v1(1, 4, 0), 'v1-cbc': v1(5, 6, 3), 'v1-direct': v1(9, 9, 4 | 2),
    'v2': v2(1, 4, 3), 'v2-pad4': v2(1, 4, 0), 'v2-pad8': v2(1, 4, 1), 'v2-cbc': v2(5, 6, 2),
    'v2-ino64': v2(1, 4, 8 | 3), 'v2-ino32': v2(1, 4, 16 | 1), 'v2-hctr2': v2(1, 10, 2),
    'v2-unit512': v2(1, 4, 3, 9), 'v2-adiantum': v2(9, 9, 3), 'v2-direct': v2(9, 9, 4 | 1),
}
for name, policy in policies.items():
    path = os.path.join(top, name)
    os.mkdir(path)
    dir = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(dir, 0x800C6613, bytearray(policy.ljust(24, b'\0')), True)
        open(path + '/is-supported', 'w').close()
    except OSError:
        os.rmdir(path)
        continue
    print(name)
    os.chdir(path)
    def put(name, spans, size=None):
        with open(name, 'wb') as f:
            for at, data in spans:
                f.seek(at); f.write(data)
            if size is not None: f.truncate(size)
    def data(n): return bytes((i * 7 + i // 251) & 255 for i in range(n))
    put('empty', [])
    put('short', [(0, b'a few bytes')])
    put('odd', [(0, data(70001))])
    put('holes', [(i * 20000, data(6000)) for i in range(20)], 1 << 20)
    put('block', [(0, data(4096))])
    with open('given', 'wb') as f:
        os.posix_fallocate(f.fileno(), 0, 1 << 16)
        os.pwrite(f.fileno(), data(5000), 20000)
    for n in [1, 15, 16, 17, 31, 32, 33, 100, 148, 149, 150, 180, 200, 224, 239, 240, 254, 255]:
        put(str(n).ljust(n, 'n')[:n], [(0, data(n))])
    for n in [1, 14, 16, 44, 45, 56, 57, 58, 59, 60, 200, 1000]:
        os.symlink('t' * n, 'link%d' % n)
    os.makedirs('sub/deeper')
    put('sub/deeper/file', [(0, data(9000))])
    os.mkfifo('pipe')
    os.mkdir('many')
    for i in range(400 if name in ('v1', 'v2', 'v2-hctr2') else 3):
        put('many/%d-' % i + 'm' * (i % 200), [(0, b'x')])
    put('many/a.txt', [(0, b'x')])
    os.rename('many/a.txt', 'many/b.txt')
os.chdir('/')
os.system('sync -f ' + top)
";

const KEY: [u8; 64] = {
    let mut key = [0; 64];
    let mut i = 0;
    while i < key.len() {
        key[i] = (i * 5 + 3) as u8;
        i += 1;
    }
    key
};

fn open(image: &Path, keys: &KeyRing) -> Result<Arc<Ext4>> {
    let device = FileDevice::open(image, &OpenOptions::read_write())?;
    let options = MountOptions {
        keys: keys.clone(),
        ..MountOptions::default()
    };
    Ok(Ext4::mount(Arc::new(device), options)?)
}

fn with_key() -> Result<KeyRing> {
    let keys = KeyRing::new();
    keys.add(&KEY).context("the length of the key")?;
    Ok(keys)
}

/// An image with encrypted directories, which the kernel has filled, and their names; none where the kernel has no fscrypt.
fn filled(dir: &Path) -> Result<Option<(PathBuf, Vec<String>)>> {
    require!(kernel_mounts() && Path::new(FEATURE).exists(), Ok(None));
    let (image, at) = (dir.join("image"), dir.join("mount"));
    let features = ["-O", "encrypt,stable_inodes", "-b", "4096", "-I", "256"];
    uext4_testkit::mke2fs::make(&image, "64M", &features);
    let mount = KernelMount::new(&image, &at, "rw")?;
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let top = at.to_str().context("a path")?;
    let made = oracle::run("python3", &["-c", FILL, top, &hex], 0)?;
    mount.unmount()?;
    Ok(Some((image, made.lines().map(str::to_owned).collect())))
}

/// What is seen of an inode without its key.
type Seen = BTreeMap<Vec<u8>, (u64, u64, Vec<u8>)>;

fn seen_by_kernel(top: &Path, dir: &Path, seen: &mut Seen) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let meta = path.symlink_metadata()?;
        let target = match meta.is_symlink() {
            true => path.read_link()?.as_os_str().as_bytes().to_vec(),
            false => Vec::new(),
        };
        let name = path.strip_prefix(top)?.as_os_str().as_bytes().to_vec();
        seen.insert(name, (meta.ino(), meta.size(), target));
        if meta.is_dir() {
            seen_by_kernel(top, &path, seen)?;
        }
    }
    Ok(())
}

fn seen_here(fs: &Ext4, path: &[u8], dir: &InodeRef, seen: &mut Seen) -> Result<()> {
    let caller = Caller::root();
    for name in tree::names(fs, dir, usize::MAX)? {
        let node = fs
            .lookup(&caller, dir, &name)
            .with_context(|| format!("look-up of {}", tree::show(&name)))?;
        let attr = fs.getattr(&node)?;
        let target = match attr.kind {
            FileKind::Symlink => fs.readlink(&caller, &node)?,
            _ => Vec::new(),
        };
        let path = tree::join(path, &name);
        seen.insert(path.clone(), (u64::from(node.ino.0), attr.size, target));
        if attr.kind == FileKind::Directory {
            seen_here(fs, &path, &node, seen)?;
        }
    }
    Ok(())
}

#[test]
fn what_the_kernel_encrypts_is_read_with_the_key() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (image, made) = require!(some filled(dir.path())?, Ok(()));
    let mount_at = dir.path().join("mount");
    let mount = KernelMount::new(&image, &mount_at, "ro")?;
    let add = FILL.split("descriptor =").next().context("the call")?;
    let add = format!(
        "{add}\nadd(struct.pack('=LL', 2, 0))\nimport hashlib\nadd(struct.pack('=LL', 1, 0) + hashlib.sha512(hashlib.sha512(raw).digest()).digest()[:8])"
    );
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let top = mount_at.to_str().context("a path")?;
    oracle::run("python3", &["-c", &add, top, &hex], 0)?;
    let theirs = tree::of_dir(mount.dir())?;
    mount.unmount()?;
    let fs = open(&image, &with_key()?)?;
    let ours = tree::of_fs(&*fs)?;
    tree::same("ours / the kernel's", &ours, &theirs)?;
    assert!(made.contains(&"v1".to_owned()) && made.contains(&"v2".to_owned()));
    println!("policies: {}", made.join(" "));
    fs.unmount()?;
    drop(fs);
    oracle::fsck(&image)
}

#[test]
fn without_the_key_the_names_are_the_kernels() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (image, _) = require!(some filled(dir.path())?, Ok(()));
    let mount_at = dir.path().join("mount");
    let mount = KernelMount::new(&image, &mount_at, "ro")?;
    let mut theirs = Seen::new();
    seen_by_kernel(mount.dir(), mount.dir(), &mut theirs)?;
    mount.unmount()?;
    let fs = open(&image, &KeyRing::new())?;
    let mut ours = Seen::new();
    seen_here(&fs, b"", &fs.root()?.clone(), &mut ours)?;
    for (name, seen) in &theirs {
        let here = ours.get(name);
        ensure!(
            here == Some(seen),
            "{}: {here:?}, the kernel {seen:?}",
            tree::show(name)
        );
    }
    assert_eq!(ours.len(), theirs.len());
    let caller = Caller::root();
    for name in ["v1", "v2"] {
        refuse_without_key(
            &fs,
            &fs.lookup(&caller, &fs.root()?.clone(), name.as_bytes())?,
        )?;
    }
    for name in tree::names(&*fs, &fs.root()?.clone(), 100)? {
        if name != b"lost+found" {
            remove(&fs, &fs.root()?.clone(), &name)?;
        }
    }
    fs.unmount()?;
    drop(fs);
    oracle::fsck(&image)?;
    oracle::check(&MemoryDevice::from_bytes(&std::fs::read(&image)?))
}

fn refuse_without_key(fs: &Ext4, dir: &InodeRef) -> Result<()> {
    let caller = Caller::root();
    let errno = |done: uext4_vfs::errno::Result<()>| done.err().map(|e| e.errno());
    let file = tree::names(fs, dir, 10_000)?.into_iter().find(|name| {
        let found = fs.lookup(&caller, dir, name);
        found.is_ok_and(|node| node.file_type == uext4_ondisk::FileType::Regular)
    });
    let name = file.context("a file")?;
    let node = fs.lookup(&caller, dir, &name)?;
    let read = fs.read_with(&node, 0, &mut [0; 10], uext4_vfs::io::IoFlags::empty());
    if fs.getattr(&node)?.size > 0 {
        assert_eq!(errno(read.map(drop)), Some(Errno::ENOKEY));
    }
    let plain = fs.lookup(&caller, dir, b"short").map(drop);
    assert_eq!(errno(plain), Some(Errno::ENOENT));
    let new = NewNode {
        mode: 0o644,
        kind: uext4_vfs::attr::NewKind::Regular,
    };
    let made = fs.create(&caller, dir, b"new", &new).map(drop);
    assert_eq!(errno(made), Some(Errno::ENOKEY));
    assert_eq!(
        errno(fs.link(&caller, &node, dir, b"new")),
        Some(Errno::ENOKEY)
    );
    let flags = uext4_vfs::attr::RenameFlags::empty();
    let renamed = fs.rename(&caller, dir, &name, dir, b"new", flags);
    assert_eq!(errno(renamed), Some(Errno::ENOKEY));
    Ok(())
}

fn remove(fs: &Ext4, dir: &InodeRef, name: &[u8]) -> Result<()> {
    let caller = Caller::root();
    let node = fs.lookup(&caller, dir, name)?;
    if !node.is_dir() {
        return Ok(fs.unlink(&caller, dir, name)?);
    }
    for name in tree::names(fs, &node, usize::MAX)? {
        remove(fs, &node, &name)?;
    }
    Ok(fs.rmdir(&caller, dir, name)?)
}

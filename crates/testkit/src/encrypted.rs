//! Images with files that the kernel has encrypted (fscrypt).

use crate::external::*;
use crate::image::kernel_mounts;
use crate::oracle::{self, KernelMount};

/// Whether the kernel's ext4 has fscrypt.
const FEATURE: &str = "/sys/fs/ext4/features/encryption";

/// Adds the key to a mounted file system, by both its names.
const ADD_KEY: &str = r"
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
";

/// Makes directories with policies of both versions and all modes that the kernel has, and fills them; prints those that it made.
const FILL: &str = r"
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

/// The key of the files.
pub fn key() -> [u8; 64] {
    std::array::from_fn(|i| (i * 5 + 3) as u8)
}

fn python(script: &str, top: &Path) -> Result<String> {
    let hex: String = key().iter().map(|byte| format!("{byte:02x}")).collect();
    let top = top.to_str().context("a path")?;
    oracle::run("python3", &["-c", script, top, &hex], 0)
}

/// Gives the kernel the key.
pub fn add_key(mount: &KernelMount) -> Result<()> {
    python(ADD_KEY, mount.dir()).map(|_| ())
}

/// Makes an image in `dir` with encrypted directories, which the kernel has filled: its path, and the names of the directories; none where the kernel
/// has no fscrypt.
pub fn filled(dir: &Path) -> Result<Option<(PathBuf, Vec<String>)>> {
    filled_by(dir, "64M", &["-b", "4096"], FILL)
}

/// The same on an image with clusters of several blocks.
pub fn filled_clusters(dir: &Path) -> Result<Option<(PathBuf, Vec<String>)>> {
    filled_by(
        dir,
        "64M",
        &["-b", "4096", "-O", "bigalloc", "-C", "16384"],
        FILL,
    )
}

/// Makes an image in `dir` by mke2fs with some more arguments. A script, which has the mount as `top` and the names of the key as `descriptor` and
/// `identifier`, fills it on a mount of the kernel: the path, and the lines that it prints; none where the kernel has no fscrypt.
pub fn filled_by(
    dir: &Path,
    size: &str,
    args: &[&str],
    script: &str,
) -> Result<Option<(PathBuf, Vec<String>)>> {
    if !kernel_mounts() || !Path::new(FEATURE).exists() {
        return Ok(None);
    }
    let (image, at) = (dir.join("encrypted.img"), dir.join("kernel"));
    let features = ["-O", "encrypt,stable_inodes", "-I", "256"];
    crate::mke2fs::make(&image, size, &[&features, args].concat());
    let mount = KernelMount::new(&image, &at, "rw")?;
    let printed = python(&[ADD_KEY, script].concat(), mount.dir())?;
    mount.unmount()?;
    Ok(Some((image, printed.lines().map(str::to_owned).collect())))
}

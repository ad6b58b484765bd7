"""Fills a mounted file system with what a kernel makes: argument 1 is the mount point, 2 the size of the
largest directory, 3 a comma-separated list of extras."""
import fcntl, os, random, struct, sys

root, names, extras = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
random.seed(5)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


os.mkdir(f"{root}/big")
for i in range(names):
    write(f"{root}/big/{i:05d}-{'n' * random.randrange(60)}", b"x" * (i % 3))
for entry in random.sample(sorted(os.listdir(f"{root}/big")), names // 3):
    os.unlink(f"{root}/big/{entry}")
for i in range(names // 4):
    write(f"{root}/big/again{i}", b"")

os.mkdir(f"{root}/deep")
path = f"{root}/deep"
for i in range(30):
    path += f"/level{i}"
    os.mkdir(path)
for i in range(150):
    os.mkdir(f"{root}/deep/sub{i}")
for i in range(0, 150, 2):
    os.rmdir(f"{root}/deep/sub{i}")
os.rename(f"{root}/deep/sub1", f"{root}/deep/sub3/moved")

# Many extents: every other block.
with open(f"{root}/holes", "wb") as f:
    for i in range(0, 6000, 2):
        f.seek(i * 4096)
        f.write(b"h")
with open(f"{root}/prealloc", "wb") as f:
    os.posix_fallocate(f.fileno(), 0, 1 << 20)
    os.pwrite(f.fileno(), b"mid", 300000)
write(f"{root}/plain", os.urandom(1 << 20))
os.truncate(f"{root}/plain", 70001)
for i in range(5):
    os.link(f"{root}/plain", f"{root}/link{i}")
for n in (3, 59, 60, 61, 300, 900):
    os.symlink("s" * n, f"{root}/symlink{n}")
os.mkfifo(f"{root}/fifo")
os.mknod(f"{root}/chr", 0o020600, os.makedev(5, 300))
os.mknod(f"{root}/blk", 0o060600, os.makedev(400, 70000))
for i in range(12):
    name = f"{root}/attr{i}"
    write(name, b"")
    os.setxattr(name, "user.one", b"1" * i)
    if i % 2:
        # Equal attributes share a block.
        os.setxattr(name, "user.shared", b"s" * 300)
    if i > 9:
        os.setxattr(name, "user.own", b"o" * (200 + i))
if "ea" in extras:
    for i in range(4):
        os.setxattr(f"{root}/attr{i}", "user.huge", b"H" * (9000 + 3000 * (i // 2)))
if "inline" in extras:
    for i in range(200):
        write(f"{root}/inl{i}", b"i" * i)
        os.mkdir(f"{root}/idir{i}")
        for j in range(i % 9):
            write(f"{root}/idir{i}/e{j}", b"")
if "nlink" in extras:
    os.mkdir(f"{root}/many")
    for i in range(65100):
        os.mkdir(f"{root}/many/{i}")
if "casefold" in extras:
    os.mkdir(f"{root}/fold")
    fd = os.open(f"{root}/fold", os.O_RDONLY)
    fcntl.ioctl(fd, 0x40086602, struct.pack("L", 0x40000000))
    os.close(fd)
    for i in range(600):
        write(f"{root}/fold/Name{i}", b"")
if "crash" in extras:
    # Not everything on the machine: another file system may be stuck.
    os.system(f"sync -f {root}")
    for i in range(300):
        write(f"{root}/late{i}", b"late" * i)
    for i in range(0, 100):
        os.unlink(f"{root}/late{i}")
    held = []
    for i in range(200, 230):
        held.append(os.open(f"{root}/late{i}", os.O_RDWR))
        os.unlink(f"{root}/late{i}")
    os.mkdir(f"{root}/gone")
    held.append(os.open(f"{root}/gone", os.O_RDONLY))
    os.rmdir(f"{root}/gone")
    fd = os.open(f"{root}/deep", os.O_RDONLY)
    os.fsync(fd)
    for i in range(100):
        write(f"{root}/lost{i}", b"lost" * i)
    flags = 1 if "flush" in extras else 2
    fcntl.ioctl(fd, 0x8004587D, struct.pack("I", flags))

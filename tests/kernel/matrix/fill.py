"""Fills a mounted file system with a nasty tree: fill.py DIR NAMES EXTENTS DEPTH"""

import os
import socket
import stat
import sys

root, names, extents, depth = sys.argv[1], *map(int, sys.argv[2:5])
os.chdir(root)
block = os.statvfs(".").f_bsize


def put(name, data=b""):
    with open(name, "wb") as f:
        f.write(data)


# A directory of many names, of a few files, as no file has so many links.
os.mkdir("names")
for i in range(names):
    if i % 50000 == 0:
        put(f"target{i}", b"t" * i)
    os.link(f"target{i - i % 50000}", f"names/n{i:x}{'-' * (i % 9)}")

os.mkdir("long")
for i in range(min(names // 60, 3000)):
    name = f"{i}-".encode() + bytes([0x80 + i % 64]) * 255
    put(b"long/" + name[:255], b"l" * (i % 200))

os.mkdir("deep")
os.chdir("deep")
for i in range(depth):
    os.mkdir("d")
    if i % 50 == 0:
        put("f", b"deep")
    os.chdir("d")
os.chdir(root)

# A file of many extents, some with data.
with open("extents", "wb") as f:
    for i in range(extents):
        os.posix_fallocate(f.fileno(), 2 * i * block, block)
        if i % 5 == 0:
            os.pwrite(f.fileno(), b"%d" % i, 2 * i * block + i % block // 2)

# A file as large as there may be.
with open("sparse", "wb") as f:
    # Not in its inode, where little may follow.
    f.write(b"s" * 5000)
    f.flush()
    low, high = 0, 1 << 62
    while low + 1 < high:
        middle = (low + high) // 2
        try:
            os.ftruncate(f.fileno(), middle)
            low = middle
        except OSError:
            high = middle
    os.ftruncate(f.fileno(), low)
    for at in (0, low // 3, low // 2, low - 3):
        os.pwrite(f.fileno(), b"end", at)

# Attributes until there is no room.
for n, size in enumerate((1, 30, 200, 900)):
    put(f"attributes{n}")
    try:
        for i in range(200):
            os.setxattr(f"attributes{n}", f"user.{'k' * (i % 20)}{i}", bytes([i]) * size)
    except OSError:
        pass
    try:
        os.setxattr(f"attributes{n}", "user.large", bytes([n]) * 30000)
    except OSError:
        pass

put("linked", b"linked")
os.mkdir("links")
for i in range(min(names, 65000) - 2):
    os.link("linked", f"links/{i}")

os.mkdir("special")
os.mkfifo("special/fifo")
os.mknod("special/char", stat.S_IFCHR | 0o600, os.makedev(1, 3))
os.mknod("special/block", stat.S_IFBLK | 0o600, os.makedev(700, 70000))
s = socket.socket(socket.AF_UNIX)
s.bind("special/socket")
for n in (1, 59, 60, 61, 150, 1000):
    os.symlink("s" * n, f"special/link{n}")
for n in (0, 1, 59, 60, 61, 100, 160, 200, 5000):
    put(f"special/file{n}", b"x" * n)
    os.mkdir(f"special/dir{n}")
    for i in range(n // 8):
        put(f"special/dir{n}/{i}")
os.chown("special/file59", 70000, 80000)
os.chmod("special/file60", 0o6751)
os.utime("special/file61", ns=(-5, 4000000000123456789))
os.system("sync -f .")

#!/usr/bin/env python3
"""Compares two trees: names, types, contents, modes, owners, times, xattrs, links, devices, holes.

usage: compare.py A B [--no-holes] [--ctime]   exit code 0 if equal, 1 with a line for each difference.
--ctime: the time of the inode's change too, which an image keeps and a copy on the host cannot.
"""
import os
import stat
import sys


def walk(root):
    """Relative path to lstat, of everything below root."""
    found = {".": os.lstat(root)}
    stack = [""]
    while stack:
        at = stack.pop()
        with os.scandir(os.path.join(root, at)) as entries:
            for entry in entries:
                path = os.path.join(at, entry.name)
                found[path] = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    stack.append(path)
    return found


NAMES = {}


def names(tree):
    """The set of names of each file of a tree, by device and inode."""
    if id(tree) not in NAMES:
        found = {}
        for path, st in tree.items():
            found.setdefault((st.st_dev, st.st_ino), set()).add(path)
        NAMES[id(tree)] = found
    return NAMES[id(tree)]


def xattrs(path):
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return {}
    return {n: os.getxattr(path, n, follow_symlinks=False) for n in names}


def same_content(a, b):
    with open(a, "rb") as fa, open(b, "rb") as fb:
        while True:
            x, y = fa.read(1 << 20), fb.read(1 << 20)
            if x != y:
                return False
            if not x:
                return True


def data_bytes(path):
    """Bytes that are not holes, in 64 KiB steps."""
    total, at = 0, 0
    with open(path, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        while at < size:
            try:
                start = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(f.fileno(), start, os.SEEK_HOLE)
            total += at - start
    return total


def main():
    holes = "--no-holes" not in sys.argv
    a_root, b_root = [x for x in sys.argv[1:] if not x.startswith("--")]
    a, b = walk(a_root), walk(b_root)
    wrong = []
    b.pop("lost+found", None)
    for path in sorted(set(a) | set(b)):
        if path not in a or path not in b:
            wrong.append(f"{path}: only in {'A' if path in a else 'B'}")
            continue
        x, y = a[path], b[path]
        pa, pb = os.path.join(a_root, path), os.path.join(b_root, path)
        times = ["st_mtime_ns"] + (["st_ctime_ns"] if "--ctime" in sys.argv else [])
        for name in ["st_mode", "st_uid", "st_gid"] + times:
            if getattr(x, name) != getattr(y, name):
                wrong.append(f"{path}: {name} {getattr(x, name)} != {getattr(y, name)}")
        if not stat.S_ISDIR(x.st_mode):
            # Names outside the tree do not come along, so links are counted as names inside it.
            if names(a)[x.st_dev, x.st_ino] != names(b)[y.st_dev, y.st_ino]:
                wrong.append(f"{path}: other names of the same file differ")
        if stat.S_ISREG(x.st_mode):
            if x.st_size != y.st_size or not same_content(pa, pb):
                wrong.append(f"{path}: content")
            elif holes and x.st_size > (1 << 20):
                # Block sizes differ between file systems: a tenth is no matter.
                da, db = data_bytes(pa), data_bytes(pb)
                if db > da * 1.1 + (1 << 20):
                    wrong.append(f"{path}: holes ({da} against {db} bytes of data)")
        elif stat.S_ISLNK(x.st_mode):
            if os.readlink(pa) != os.readlink(pb):
                wrong.append(f"{path}: target")
        elif stat.S_ISBLK(x.st_mode) or stat.S_ISCHR(x.st_mode):
            if x.st_rdev != y.st_rdev:
                wrong.append(f"{path}: device {x.st_rdev} != {y.st_rdev}")
        if xattrs(pa) != xattrs(pb):
            wrong.append(f"{path}: xattrs")
    for line in wrong[:50]:
        print(line)
    print(f"{len(a)} entries compared, {len(wrong)} differences")
    sys.exit(1 if wrong else 0)


main()

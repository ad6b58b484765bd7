"""An open image, with the calls of ``os`` and ``shutil``."""

import errno
import os
import posixpath
import stat as stat_bits
import typing

from . import _uext4
from ._io import open_file
from ._path import Path, as_str

CHUNK_BYTES = 1 << 20


class StatFs(typing.NamedTuple):
    """Sizes and free space, in blocks of ``block_size`` bytes."""

    block_size: int
    blocks: int
    blocks_free: int
    blocks_available: int
    inodes: int
    inodes_free: int
    name_bytes_max: int
    read_only: bool


class DirEntry:
    """A name of a directory, as ``os.DirEntry``."""

    __slots__ = ("_image", "_inode", "_kind", "name", "path")

    def __init__(self, image, directory, name, inode, kind):
        self._image = image
        self._inode = inode
        self._kind = kind
        self.name = name
        self.path = posixpath.join(directory, name)

    def inode(self):
        return self._inode

    def stat(self, *, follow_symlinks=True):
        return self._image.stat(self.path, follow_symlinks=follow_symlinks)

    def _is(self, kind, follow_symlinks):
        try:
            if self._kind is None:
                self._kind = stat_bits.S_IFMT(self._image.lstat(self.path).st_mode)
            if follow_symlinks and self._kind == stat_bits.S_IFLNK:
                return stat_bits.S_IFMT(self.stat().st_mode) == kind
            return self._kind == kind
        except FileNotFoundError:
            return False

    def is_dir(self, *, follow_symlinks=True):
        return self._is(stat_bits.S_IFDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks=True):
        return self._is(stat_bits.S_IFREG, follow_symlinks)

    def is_symlink(self):
        return self._is(stat_bits.S_IFLNK, False)

    def __repr__(self):
        return f"<uext4.DirEntry {self.path!r}>"


class Image(_uext4.Image):
    """An open image: ``with uext4.Image("disk.img", "r+") as image``. ``image / "etc"`` is a :class:`uext4.Path`."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __truediv__(self, name):
        return Path(self, "/", name)

    def path(self, *names):
        """A path of this image."""
        return Path(self, "/", *names)

    def open(self, path, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *, permissions=0o644):
        """As ``open()``; ``permissions`` are those of a new file."""
        return open_file(self, path, mode, buffering, encoding, errors, newline, permissions)

    def statfs(self):
        return StatFs(**self._statfs())

    def lstat(self, path):
        return self.stat(path, follow_symlinks=False)

    def listdir(self, path="/"):
        return [name for name, _, _ in self._entries(path)]

    def scandir(self, path="/"):
        directory = as_str(path)
        return [DirEntry(self, directory, *entry) for entry in self._entries(path)]

    def exists(self, path):
        return self._kind(path) is not None

    def is_dir(self, path):
        return self._kind(path) == stat_bits.S_IFDIR

    def is_file(self, path):
        return self._kind(path) == stat_bits.S_IFREG

    def is_symlink(self, path):
        return self._kind(path, follow_symlinks=False) == stat_bits.S_IFLNK

    def _kind(self, path, follow_symlinks=True):
        try:
            return stat_bits.S_IFMT(self.stat(path, follow_symlinks=follow_symlinks).st_mode)
        except OSError as e:
            if e.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise

    def makedirs(self, path, mode=0o755, exist_ok=False):
        path = as_str(path)
        try:
            self.mkdir(path, mode)
        except FileNotFoundError:
            parent = posixpath.dirname(path.rstrip("/"))
            if not parent or parent == path:
                raise
            self.makedirs(parent, mode, exist_ok=True)
            self.makedirs(path, mode, exist_ok)
        except FileExistsError:
            if not exist_ok or not self.is_dir(path):
                raise

    remove = _uext4.Image.unlink
    replace = _uext4.Image.rename

    def utime(self, path, times=None, *, ns=None, follow_symlinks=True):
        if times is not None:
            if ns is not None:
                raise ValueError("either times or ns, not both")
            ns = tuple(round(time * 1_000_000_000) for time in times)
        self._utime(path, ns, follow_symlinks=follow_symlinks)

    def walk(self, top="/", topdown=True, onerror=None, followlinks=False):
        """As ``os.walk``."""
        top = as_str(top)
        try:
            entries = self.scandir(top)
        except OSError as e:
            if onerror is not None:
                onerror(e)
            return
        dirs = [entry.name for entry in entries if entry.is_dir()]
        links = {entry.name for entry in entries if entry.is_symlink()}
        found = set(dirs)
        files = [entry.name for entry in entries if entry.name not in found]
        if topdown:
            yield top, dirs, files
        for name in dirs:
            if followlinks or name not in links:
                yield from self.walk(posixpath.join(top, name), topdown, onerror, followlinks)
        if not topdown:
            yield top, dirs, files

    def copy_in(self, source, path, *, dirs_exist_ok=False):
        """Copies a file or a tree of the host into the image, with permissions, times, extended attributes (those of ``user``) and
        symbolic links, as ``shutil.copytree(symlinks=True)``."""
        path = as_str(path)
        of = os.lstat(source)
        if stat_bits.S_ISDIR(of.st_mode):
            self._make_dir(path, dirs_exist_ok)
            with os.scandir(source) as entries:
                for entry in entries:
                    self.copy_in(entry.path, posixpath.join(path, os.fsdecode(entry.name)), dirs_exist_ok=dirs_exist_ok)
        elif stat_bits.S_ISLNK(of.st_mode):
            self.symlink(os.readlink(source), path)
        elif stat_bits.S_ISREG(of.st_mode):
            with open(source, "rb", buffering=0) as old, self.open(path, "wb", buffering=0) as new:
                _copy_data(old, new)
        else:
            self.mknod(path, of.st_mode, os.major(of.st_rdev), os.minor(of.st_rdev))
        if not stat_bits.S_ISLNK(of.st_mode):
            for name in os.listxattr(source, follow_symlinks=False):
                if name.startswith("user."):
                    self.setxattr(path, name, os.getxattr(source, name, follow_symlinks=False))
            self.chmod(path, stat_bits.S_IMODE(of.st_mode))
        self.utime(path, ns=(of.st_atime_ns, of.st_mtime_ns), follow_symlinks=False)

    def copy_out(self, path, target, *, dirs_exist_ok=False):
        """Copies a file or a tree of the image to the host, as :meth:`copy_in` does the other way."""
        path = as_str(path)
        of = self.lstat(path)
        if stat_bits.S_ISDIR(of.st_mode):
            os.makedirs(target, exist_ok=dirs_exist_ok)
            for name in self.listdir(path):
                if name in (".", "..") or "/" in name:
                    raise OSError(errno.EUCLEAN, "a name that leads out of the directory", path)
                self.copy_out(posixpath.join(path, name), os.path.join(target, name), dirs_exist_ok=dirs_exist_ok)
        elif stat_bits.S_ISLNK(of.st_mode):
            os.symlink(self.readlink(path), target)
        elif stat_bits.S_ISREG(of.st_mode):
            if os.path.islink(target):
                raise FileExistsError(errno.EEXIST, "the target is a symbolic link", target)
            with self.open(path, "rb", buffering=0) as old, open(target, "wb", buffering=0) as new:
                _copy_data(old, new)
        else:
            os.mknod(target, of.st_mode, of.st_rdev)
        if not stat_bits.S_ISLNK(of.st_mode):
            for name in self.listxattr(path):
                if name.startswith("user."):
                    os.setxattr(target, name, self.getxattr(path, name), follow_symlinks=False)
            os.chmod(target, stat_bits.S_IMODE(of.st_mode))
        os.utime(target, ns=(of.st_atime_ns, of.st_mtime_ns), follow_symlinks=False)

    def _make_dir(self, path, exist_ok):
        try:
            self.mkdir(path)
        except FileExistsError:
            if not self.is_dir(path) or not (exist_ok or posixpath.normpath(path) == "/"):
                raise

    def __repr__(self):
        return f"<uext4.Image {'closed' if self.closed else 'open'}>"


def _copy_data(old, new):
    buffer = memoryview(bytearray(CHUNK_BYTES))
    while read := old.readinto(buffer):
        data = buffer[:read]
        while data:
            data = data[new.write(data):]


def open_device(file, length=None, *, name="", **options):
    """Opens, for reading, the image in a file object of Python, of which only what is used is read. The object needs ``seek`` and
    ``read``; calls of several threads are put in order."""
    import threading

    lock = threading.Lock()
    if length is None:
        length = file.seek(0, os.SEEK_END)

    def read(offset, count):
        with lock:
            file.seek(offset)
            data = file.read(count)
            while len(data) < count:
                more = file.read(count - len(data))
                if not more:
                    break
                data += more
            return bytes(data)

    return Image(name or getattr(file, "name", None) or "file object", "r", read=read, length=length, **options)

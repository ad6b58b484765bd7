"""Paths of an image, as those of ``pathlib``."""

import fnmatch
import os
from pathlib import PurePosixPath


def as_str(path):
    """A path of any kind as a string."""
    if hasattr(path, "__ext4path__"):
        return path.__ext4path__()
    return os.fsdecode(path)


class Path:
    """A path of an open image. It has no ``__fspath__``, so that no call on files of the host takes it for one of theirs."""

    __slots__ = ("_pure", "image")

    def __init__(self, image, *names):
        self.image = image
        self._pure = PurePosixPath("/", *(as_str(name) for name in names))

    def _of(self, pure):
        return Path(self.image, str(pure))

    def __ext4path__(self):
        return str(self._pure)

    def __str__(self):
        return str(self._pure)

    def __repr__(self):
        return f"uext4.Path({str(self)!r})"

    def __eq__(self, other):
        if not isinstance(other, Path):
            return NotImplemented
        return self.image is other.image and self._pure == other._pure

    def __lt__(self, other):
        if not isinstance(other, Path):
            return NotImplemented
        return self._pure < other._pure

    def __hash__(self):
        return hash((id(self.image), self._pure))

    def __truediv__(self, name):
        return Path(self.image, str(self), name)

    def joinpath(self, *names):
        return Path(self.image, str(self), *names)

    name = property(lambda self: self._pure.name)
    stem = property(lambda self: self._pure.stem)
    suffix = property(lambda self: self._pure.suffix)
    suffixes = property(lambda self: self._pure.suffixes)
    parts = property(lambda self: self._pure.parts)
    parent = property(lambda self: self._of(self._pure.parent))
    parents = property(lambda self: [self._of(parent) for parent in self._pure.parents])

    def as_posix(self):
        return str(self)

    def with_name(self, name):
        return self._of(self._pure.with_name(name))

    def with_stem(self, stem):
        return self._of(self._pure.with_stem(stem))

    def with_suffix(self, suffix):
        return self._of(self._pure.with_suffix(suffix))

    def relative_to(self, other):
        """What leads from another path to this one, as a ``PurePosixPath``."""
        return self._pure.relative_to(as_str(other))

    def is_relative_to(self, other):
        return self._pure.is_relative_to(as_str(other))

    def match(self, pattern):
        return self._pure.match(pattern)

    def open(self, mode="r", buffering=-1, encoding=None, errors=None, newline=None):
        return self.image.open(self, mode, buffering, encoding, errors, newline)

    def read_bytes(self):
        with self.open("rb", 0) as file:
            return file.readall()

    def read_text(self, encoding=None, errors=None):
        with self.open("r", encoding=encoding, errors=errors) as file:
            return file.read()

    def write_bytes(self, data):
        with self.open("wb") as file:
            return file.write(data)

    def write_text(self, data, encoding=None, errors=None, newline=None):
        with self.open("w", encoding=encoding, errors=errors, newline=newline) as file:
            return file.write(data)

    def stat(self, *, follow_symlinks=True):
        return self.image.stat(self, follow_symlinks=follow_symlinks)

    def lstat(self):
        return self.image.lstat(self)

    def exists(self):
        return self.image.exists(self)

    def is_dir(self):
        return self.image.is_dir(self)

    def is_file(self):
        return self.image.is_file(self)

    def is_symlink(self):
        return self.image.is_symlink(self)

    def iterdir(self):
        for name in self.image.listdir(self):
            yield self / name

    def walk(self, top_down=True, on_error=None, follow_symlinks=False):
        for top, dirs, files in self.image.walk(self, top_down, on_error, follow_symlinks):
            yield self._of(top), dirs, files

    def glob(self, pattern):
        """Paths below this one that match; ``**`` stands for any number of directories, and no symbolic link is followed for it."""
        parts = PurePosixPath(pattern).parts
        if not parts or parts[0] == "/":
            raise ValueError(f"not a relative pattern: {pattern!r}")
        seen = set()
        for path in self._glob(parts):
            if path not in seen:
                seen.add(path)
                yield path

    def rglob(self, pattern):
        return self.glob(f"**/{pattern}")

    def _glob(self, parts):
        if not parts:
            yield self
            return
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._glob(rest)
        elif not any(letter in first for letter in "*?["):
            path = self / first
            if path.is_symlink() or path.exists():
                yield from path._glob(rest)
            return
        if not self.is_dir():
            return
        for entry in self.image.scandir(self):
            path = self / entry.name
            if first == "**":
                if entry.is_dir(follow_symlinks=False):
                    yield from path._glob(parts)
            elif fnmatch.fnmatchcase(entry.name, first) and (not rest or entry.is_dir()):
                yield from path._glob(rest)

    def mkdir(self, mode=0o755, parents=False, exist_ok=False):
        if parents:
            self.image.makedirs(self, mode, exist_ok)
            return
        try:
            self.image.mkdir(self, mode)
        except FileExistsError:
            if not exist_ok or not self.is_dir():
                raise

    def rmdir(self):
        self.image.rmdir(self)

    def unlink(self, missing_ok=False):
        try:
            self.image.unlink(self)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, target):
        self.image.rename(self, target)
        return Path(self.image, target)

    replace = rename

    def touch(self, mode=0o644, exist_ok=True):
        self.image.open(self, "ab" if exist_ok else "xb", 0, permissions=mode).close()
        self.image.utime(self)

    def symlink_to(self, target):
        self.image.symlink(target, self)

    def hardlink_to(self, target):
        self.image.link(target, self)

    def readlink(self):
        """The target of a symbolic link, as a ``PurePosixPath``."""
        return PurePosixPath(self.image.readlink(self))

    def chmod(self, mode, *, follow_symlinks=True):
        self.image.chmod(self, mode, follow_symlinks=follow_symlinks)

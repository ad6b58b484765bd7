"""Files of an image for fsspec, and so for pandas, zarr and dask: ``ext4://data/x.parquet::s3://bucket/disk.img``."""

from __future__ import annotations

import datetime
import os
import shutil
import stat as stat_bits

from fsspec import AbstractFileSystem, open as open_with_fsspec
from fsspec.utils import stringify_path

from ._image import Image, open_device

_KINDS = {stat_bits.S_IFREG: "file", stat_bits.S_IFDIR: "directory", stat_bits.S_IFLNK: "link"}


class Ext4FileSystem(AbstractFileSystem):
    """The files of the image ``fo``: a path of the host, a URL, a file object or an open :class:`uext4.Image`.

    On the host an image is opened with ``mode``, ``r`` or ``r+``; elsewhere for reading, and only what is used is read. With ``auto_mkdir``
    writing a file makes the directories that it needs. An image that is written is complete after :meth:`close`.
    """

    protocol = "ext4"
    root_marker = "/"
    cachable = False

    def __init__(self, fo="", mode="r", target_protocol=None, target_options=None, auto_mkdir=True, image_options=None, **kwargs):
        super().__init__(**kwargs)
        if not fo:
            raise ValueError("ext4 needs an image: ext4://PATH::file:///IMAGE, or fo=")
        options = image_options or {}
        self.auto_mkdir = auto_mkdir
        self._target = None
        if isinstance(fo, Image):
            self.image = fo
        elif hasattr(fo, "read") and hasattr(fo, "seek"):
            self.image = open_device(fo, **options)
        else:
            self.image = self._open_image(os.fspath(fo), mode, target_protocol, target_options or {}, options)

    def _open_image(self, fo, mode, protocol, target_options, options):
        for scheme in ("file://", "local://"):
            fo = fo.removeprefix(scheme)
        if protocol in (None, "file", "local") and "://" not in fo:
            return Image(fo, mode, **options)
        if mode != "r":
            raise ValueError(f"{fo}: an image that is not on this host is opened for reading")
        self._target = open_with_fsspec(fo, "rb", protocol=protocol, **target_options).open()
        return open_device(self._target, name=fo, **options)

    def close(self):
        """Writes everything back and closes the image."""
        self.image.close()
        if self._target is not None:
            self._target.close()

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        path = path.removeprefix("ext4://").removeprefix("ext4::")
        return "/" + path.strip("/")

    def unstrip_protocol(self, name):
        return "ext4:/" + self._strip_protocol(name)

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        own = self.image.lstat(path)
        kind = _KINDS.get(stat_bits.S_IFMT(own.st_mode), "other")
        found = own
        result = {"islink": kind == "link"}
        if kind == "link":
            result["destination"] = self.image.readlink(path)
            try:
                found = self.image.stat(path)
            except OSError:
                pass
            # A link to a directory stays a link, so that a walk ends.
            if stat_bits.S_ISREG(found.st_mode):
                kind = "file"
        result.update(
            name=path,
            size=0 if kind == "directory" else found.st_size,
            type=kind,
            mode=found.st_mode,
            uid=found.st_uid,
            gid=found.st_gid,
            ino=found.st_ino,
            nlink=found.st_nlink,
            mtime=found.st_mtime,
        )
        return result

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        if self.image.is_dir(path):
            names = [entry.path for entry in self.image.scandir(path)]
        else:
            names = [self.info(path)["name"]]
        return [self.info(name) for name in names] if detail else sorted(names)

    def exists(self, path, **kwargs):
        return self.image.exists(self._strip_protocol(path))

    def isdir(self, path):
        return self.image.is_dir(self._strip_protocol(path))

    def isfile(self, path):
        return self.image.is_file(self._strip_protocol(path))

    def created(self, path):
        raise NotImplementedError("os.stat_result has no time of creation")

    def modified(self, path):
        seconds = self.image.stat(self._strip_protocol(path)).st_mtime
        return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)

    def mkdir(self, path, create_parents=True, **kwargs):
        path = self._strip_protocol(path)
        if create_parents:
            self.image.makedirs(path)
        else:
            self.image.mkdir(path)

    def makedirs(self, path, exist_ok=False):
        self.image.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path):
        self.image.rmdir(self._strip_protocol(path))

    def rm_file(self, path):
        self.image.unlink(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path, recursive=False, maxdepth=None):
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        for found in self.expand_path(path):
            if not self.image.is_dir(found) or self.image.is_symlink(found):
                self.image.unlink(found)
            elif not recursive:
                self.image.rmdir(found)
            elif found == "/":
                raise ValueError("the root directory can't be removed")
            else:
                self.image.rmtree(found)

    def cp_file(self, path1, path2, **kwargs):
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.image.is_dir(path1):
            self.image.makedirs(path2, exist_ok=True)
            return
        self._make_parent(path2)
        with self.image.open(path1, "rb", 0) as old, self.image.open(path2, "wb") as new:
            shutil.copyfileobj(old, new, 1 << 20)

    def mv(self, path1, path2, recursive=False, maxdepth=None, **kwargs):
        if isinstance(path1, str) and isinstance(path2, str) and not any(c in path1 for c in "*?[") and maxdepth is None:
            source, target = self._strip_protocol(path1), self._strip_protocol(path2)
            if path2.endswith("/") or self.image.is_dir(target):
                target = self._strip_protocol(target + "/" + source.rpartition("/")[2])
            self._make_parent(target)
            self.image.rename(source, target)
            return
        super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)

    def touch(self, path, truncate=True, **kwargs):
        path = self._strip_protocol(path)
        self._make_parent(path)
        self.image.open(path, "wb" if truncate else "ab", 0).close()
        self.image.utime(path)

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        if not autocommit:
            raise NotImplementedError("transactions of fsspec")
        path = self._strip_protocol(path)
        if mode[0] != "r":
            self._make_parent(path)
        buffering = block_size if isinstance(block_size, int) and block_size > 1 else -1
        return self.image.open(path, mode if "b" in mode else mode + "b", buffering)

    def _make_parent(self, path):
        if self.auto_mkdir:
            self.image.makedirs(self._parent(path) or "/", exist_ok=True)

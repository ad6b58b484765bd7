"""Images made, checked, repaired and compared. Each takes ``progress``, which is called as ``progress(phase, done, total)`` at most
twenty times a second; an exception that it raises ends :func:`mkfs`, and that of the others is raised in the end."""

import os
import typing

from . import _uext4


class MkfsReport(typing.NamedTuple):
    """What an image was filled with."""

    files: int
    directories: int
    symlinks: int
    others: int
    hard_links: int
    data_bytes: int
    image_bytes: int
    digest: typing.Optional[bytes]


class Fault(typing.NamedTuple):
    """Something wrong with an image."""

    text: str
    inode: typing.Optional[int]
    block: typing.Optional[int]
    group: typing.Optional[int]


class CheckReport(typing.NamedTuple):
    """What a check found."""

    clean: bool
    faults: list
    faults_total: int
    notes: list
    incomplete: bool
    needs_recovery: bool
    inodes_used: int


class RepairReport(typing.NamedTuple):
    """What a repair did; ``clean`` if the image has no fault left."""

    repaired: list
    left: list
    clean: bool


class Change(typing.NamedTuple):
    """A file that differs: ``added``, ``removed`` or ``changed``, and then in what. ``kind`` is that of ``stat.S_IFMT``."""

    path: str
    change: str
    kind: int
    differences: list


def _faults(found):
    return [Fault(**fault) for fault in found]


def mkfs(path, source=None, *, progress=None, **options):
    """Makes an image, empty or of a directory, an archive, a container image or another image; several sources are a list, and ``/PATH=SOURCE``
    puts one below a path. Options are those of ``uext4 mkfs``: ``size``, ``label``, ``uuid``, ``features``, ``format`` and others."""
    sources = [] if source is None else [source] if isinstance(source, (str, bytes, os.PathLike)) else list(source)
    sources = [os.fsdecode(source) for source in sources]
    options = {name: value for name, value in options.items() if value is not None}
    return MkfsReport(**_uext4.mkfs(os.fsdecode(path), sources, options, progress))


def check(path, *, threads=0, faults_max=10_000, progress=None):
    """Checks everything of an image, and changes nothing."""
    found = _uext4.check(os.fsdecode(path), threads, faults_max, progress)
    found["faults"] = _faults(found["faults"])
    found["notes"] = _faults(found["notes"])
    return CheckReport(**found)


def repair(path, *, safe=False, undo=None, threads=0, progress=None):
    """Repairs an image; with ``safe`` what loses nothing. ``undo`` is a file for the bytes that are replaced."""
    undo = None if undo is None else os.fsdecode(undo)
    done = _uext4.repair(os.fsdecode(path), safe, undo, threads, progress)
    return RepairReport(_faults(done["repaired"]), _faults(done["left"]), done["clean"])


def diff(old, new, path="/", new_path=None, *, progress=None):
    """What differs between a tree of an open image and one of another."""
    found = _uext4.diff(old, new, path, path if new_path is None else new_path, progress)
    return [Change(**change) for change in found]

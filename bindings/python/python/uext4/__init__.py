"""ext4 images in user space: built, checked, opened, read and written, without mounting them.

Calls on an image are those of ``os`` and ``shutil``, and raise ``OSError`` as these do. They release the interpreter's lock, and any
number of threads can use an image at once.
"""

from ._image import DirEntry, Image, StatFs, open_device
from ._io import RawFile
from ._maintain import CheckReport, Change, Fault, MkfsReport, RepairReport, check, diff, mkfs, repair
from ._path import Path
from ._uext4 import __version__

__all__ = [
    "Change",
    "CheckReport",
    "DirEntry",
    "Fault",
    "Image",
    "MkfsReport",
    "Path",
    "RawFile",
    "RepairReport",
    "StatFs",
    "__version__",
    "check",
    "diff",
    "mkfs",
    "open_device",
    "repair",
]

"""Open files as the objects of ``io``."""

import io


class RawFile(io.RawIOBase):
    """An open file without a buffer. ``pread_into`` and ``pwrite`` take an offset, and suit files that threads share."""

    def __init__(self, raw, name, mode):
        self._raw = raw
        self.name = name
        self.mode = mode
        self._readable = "r" in mode or "+" in mode
        self._writable = mode != "r"

    def readable(self):
        self._check_open()
        return self._readable

    def writable(self):
        self._check_open()
        return self._writable

    def seekable(self):
        self._check_open()
        return True

    def readinto(self, buffer):
        self._check_open()
        if not self._readable:
            raise io.UnsupportedOperation("not readable")
        return self._raw.readinto(memoryview(buffer).cast("B"))

    def readall(self):
        left = max(self.stat().st_size - self.tell(), 0)
        data = bytearray(left)
        done = 0
        with memoryview(data) as view:
            while done < left:
                read = self.readinto(view[done:])
                if not read:
                    break
                done += read
        del data[done:]
        # What another writer has added meanwhile.
        return bytes(data) + (super().readall() if done == left else b"")

    def write(self, data):
        self._check_open()
        if not self._writable:
            raise io.UnsupportedOperation("not writable")
        return self._raw.write(memoryview(data).cast("B"))

    def pread_into(self, buffer, offset):
        """Reads at an offset into a buffer, and returns the bytes that were read; the position stays."""
        self._check_open()
        return self._raw.pread_into(memoryview(buffer).cast("B"), offset)

    def pwrite(self, data, offset):
        """Writes at an offset, and returns the bytes that were written; the position stays."""
        self._check_open()
        return self._raw.pwrite(memoryview(data).cast("B"), offset)

    def seek(self, offset, whence=io.SEEK_SET):
        self._check_open()
        return self._raw.seek(offset, whence)

    def tell(self):
        return self.seek(0, io.SEEK_CUR)

    def truncate(self, size=None):
        self._check_open()
        if not self._writable:
            raise io.UnsupportedOperation("truncate")
        if size is None:
            size = self.tell()
        self._raw.truncate(size)
        return size

    def fsync(self, data_only=False):
        """Returns once what the file holds is durable, as ``os.fsync``; a buffer above it is flushed before."""
        self._check_open()
        self._raw.fsync(data_only)

    def stat(self):
        """The attributes, as ``os.fstat``."""
        self._check_open()
        return self._raw.stat()

    def close(self):
        if not self.closed:
            super().close()
            self._raw.close()

    def _check_open(self):
        if self.closed:
            raise ValueError("I/O operation on closed file.")

    def __repr__(self):
        return f"<uext4.RawFile name={self.name!r} mode={self.mode!r}>"


def open_file(image, path, mode, buffering, encoding, errors, newline, permissions):
    """As ``open()``, of a file of an image."""
    letters = set(mode)
    if len(letters) != len(mode) or letters - set("rwxabt+") or len(letters & set("rwxa")) != 1:
        raise ValueError(f"invalid mode: {mode!r}")
    binary = "b" in letters
    if binary and "t" in letters:
        raise ValueError("can't have text and binary mode at once")
    if binary and not (encoding is None and errors is None and newline is None):
        raise ValueError("binary mode takes no encoding, errors or newline")
    if buffering == 0 and not binary:
        raise ValueError("can't have unbuffered text I/O")
    plain = "".join(sorted(letters & set("rwxa"))) + ("+" if "+" in letters else "")
    raw = RawFile(image.open_raw(path, plain, permissions), path, plain)
    if buffering == 0:
        return raw
    line_buffering = buffering == 1 and not binary
    size = buffering if buffering > 1 else 128 * 1024
    try:
        if plain[0] == "a":
            raw.seek(0, io.SEEK_END)
        if "+" in plain:
            buffered = io.BufferedRandom(raw, size)
        elif plain == "r":
            buffered = io.BufferedReader(raw, size)
        else:
            buffered = io.BufferedWriter(raw, size)
        if binary:
            return buffered
        return io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering)
    except BaseException:
        raw.close()
        raise

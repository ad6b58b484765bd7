"""Calls on an image behave as those of ``os`` and ``shutil``."""

import errno
import filecmp
import gc
import io
import os
import stat
import threading

import pytest
import uext4


def make_tree(root):
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "one").write_bytes(os.urandom(300_000))
    (root / "a" / "b" / "two").write_text("two\n")
    (root / "empty").mkdir()
    (root / "link").symlink_to("a/one")
    (root / "a" / "one").chmod(0o640)
    os.utime(root / "a" / "one", ns=(1_500_000_000_123_456_789, 1_600_000_000_987_654_321))


def assert_same(left, right):
    found = filecmp.dircmp(left, right)
    assert not (found.left_only or found.right_only or found.funny_files)
    assert not filecmp.cmpfiles(left, right, found.common_files, shallow=False)[1]
    for name in found.common:
        one, two = os.lstat(os.path.join(left, name)), os.lstat(os.path.join(right, name))
        assert (one.st_mode, one.st_mtime_ns) == (two.st_mode, two.st_mtime_ns), name
    for name in found.common_dirs:
        assert_same(os.path.join(left, name), os.path.join(right, name))


def test_a_tree_that_is_copied_in_and_out_is_the_same(image, tmp_path):
    make_tree(tmp_path / "tree")
    image.copy_in(tmp_path / "tree", "/tree")
    image.copy_out("/tree", tmp_path / "copy")
    assert_same(tmp_path / "tree", tmp_path / "copy")
    assert os.readlink(tmp_path / "copy" / "link") == "a/one"


def test_errors_have_number_and_names(image):
    with pytest.raises(FileNotFoundError) as e:
        image.stat("/none")
    assert (e.value.errno, e.value.filename) == (errno.ENOENT, "/none")
    with pytest.raises(FileNotFoundError) as e:
        image.rename("/none", "/other")
    assert (e.value.filename, e.value.filename2) == ("/none", "/other")
    image.mkdir("/dir")
    with pytest.raises(FileExistsError):
        image.mkdir("/dir")
    with pytest.raises(IsADirectoryError):
        image.open("/dir", "w")
    (image / "dir" / "file").write_bytes(b"")
    with pytest.raises(OSError) as e:
        image.rmdir("/dir")
    assert e.value.errno == errno.ENOTEMPTY
    with pytest.raises(OSError) as e:
        image.getxattr("/dir", "user.none")
    assert e.value.errno == errno.ENODATA


def test_open_returns_the_objects_of_io(image):
    with image.open("/f", "w", encoding="utf-8", newline="\n") as f:
        assert isinstance(f, io.TextIOWrapper)
        f.write("grüße\nzwei\n")
    with image.open("/f", encoding="utf-8") as f:
        assert f.readlines() == ["grüße\n", "zwei\n"]
    with image.open("/f", "ab") as f:
        assert isinstance(f, io.BufferedWriter)
        assert f.tell() == image.stat("/f").st_size
        f.write(b"end")
    with image.open("/f", "r+b") as f:
        assert isinstance(f, io.BufferedRandom)
        f.seek(-3, io.SEEK_END)
        assert f.read() == b"end"
        f.truncate(4)
    with image.open("/f", "rb", 0) as f:
        assert isinstance(f, uext4.RawFile)
        assert f.readall() == "grü".encode()
        with pytest.raises(io.UnsupportedOperation):
            f.write(b"x")
    with pytest.raises(ValueError):
        f.read()
    with pytest.raises(FileExistsError):
        image.open("/f", "x")
    for mode in ("", "rw", "q", "rbt", "rr"):
        with pytest.raises(ValueError):
            image.open("/f", mode)


def test_attributes(image):
    image.open("/f", "w").close()
    image.chmod("/f", 0o711)
    image.chown("/f", 7, -1)
    image.utime("/f", ns=(1_000_000_001, -1))
    found = image.stat("/f")
    assert isinstance(found, os.stat_result)
    assert stat.S_IMODE(found.st_mode) == 0o711 and stat.S_ISREG(found.st_mode)
    assert (found.st_uid, found.st_gid) == (7, 0)
    assert (found.st_atime_ns, found.st_mtime_ns) == (1_000_000_001, -1)
    image.setxattr("/f", "user.a", b"\0b")
    assert image.listxattr("/f") == ["user.a"] and image.getxattr("/f", "user.a") == b"\0b"
    image.removexattr("/f", "user.a")
    assert image.listxattr("/f") == []
    image.symlink("f", "/s")
    image.chown("/s", 9, 9, follow_symlinks=False)
    assert image.lstat("/s").st_uid == 9 and image.stat("/s").st_uid == 7
    image.mknod("/null", stat.S_IFCHR | 0o666, 1, 3)
    assert image.stat("/null").st_rdev == os.makedev(1, 3)


def test_names_are_bytes(image):
    image.open(b"/\xff", "w").close()
    assert image.listdir("/")[-1:] == ["\udcff"] or "\udcff" in image.listdir("/")
    assert image.exists("/\udcff")
    image.unlink(b"/\xff")


def test_paths(image):
    etc = image / "etc"
    (etc / "conf.d").mkdir(parents=True)
    assert (etc / "hosts").write_text("localhost\n") == 10
    assert (etc / "hosts").read_text() == "localhost\n"
    (etc / "conf.d" / "x.conf").touch()
    assert sorted(str(p) for p in etc.rglob("*.conf")) == ["/etc/conf.d/x.conf"]
    assert [str(p) for p in image.path().glob("*/h*")] == ["/etc/hosts"]
    assert sorted(p.name for p in etc.iterdir()) == ["conf.d", "hosts"]
    assert [(str(top), dirs, files) for top, dirs, files in etc.walk()] == [
        ("/etc", ["conf.d"], ["hosts"]),
        ("/etc/conf.d", [], ["x.conf"]),
    ]
    moved = (etc / "hosts").rename("/hosts")
    assert moved.is_file() and moved.parent == image / "/" and not (etc / "hosts").exists()
    with pytest.raises(TypeError):
        open(moved)
    moved.unlink()
    moved.unlink(missing_ok=True)


def test_a_closed_image_refuses(image_file):
    with uext4.Image(image_file, "r+") as image:
        file = image.open("/f", "wb", 0)
    assert image.closed
    with pytest.raises(ValueError):
        image.listdir()
    with pytest.raises(OSError):
        file.write(b"late")
    with uext4.Image(image_file) as image:
        assert image.read_only
        with pytest.raises(OSError) as e:
            image.mkdir("/d")
        assert e.value.errno == errno.EROFS


def test_many_threads(image):
    errors = []

    def work(number):
        try:
            image.mkdir(f"/{number}")
            for i in range(50):
                path = image / str(number) / str(i)
                path.write_bytes(bytes([number]) * 10_000)
                assert path.read_bytes() == bytes([number]) * 10_000
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sum(len(files) for _, _, files in image.walk()) == 400


def test_a_file_object_is_a_device(image_file):
    with uext4.Image(image_file, "r+") as image:
        for i in range(40):
            (image / str(i)).write_bytes(bytes([i]) * 200_000)
    read = 0

    class Counted(io.FileIO):
        def read(self, n=-1):
            nonlocal read
            data = super().read(n)
            read += len(data)
            return data

    with Counted(image_file) as device, uext4.open_device(device) as image:
        assert (image / "3").read_bytes() == b"\3" * 200_000
        assert read < 4 << 20
        threads = [threading.Thread(target=lambda i=i: (image / str(i)).read_bytes()) for i in range(40)]
        for thread in threads:
            thread.start()
            gc.collect()
        for thread in threads:
            thread.join()


def test_an_exception_of_the_device_is_an_error(image_file):
    class Broken(io.FileIO):
        broken = False

        def read(self, n=-1):
            if self.broken:
                raise RuntimeError("gone")
            return super().read(n)

    with uext4.Image(image_file, "r+") as image:
        (image / "f").write_bytes(b"x" * 200_000)
    with Broken(image_file) as device, uext4.open_device(device) as image:
        device.broken = True
        with pytest.raises(OSError) as e:
            (image / "f").read_bytes()
        assert e.value.errno == errno.EIO and "gone" in str(e.value)


def test_build_check_diff_and_repair(tmp_path):
    make_tree(tmp_path / "tree")
    calls = []
    report = uext4.mkfs(tmp_path / "a.img", tmp_path / "tree", size=32 << 20, label="demo", progress=lambda *of: calls.append(of))
    assert (report.files, report.symlinks) == (2, 1)
    assert {phase for phase, _, _ in calls} >= {"scan", "data"}
    calls.clear()
    assert uext4.check(tmp_path / "a.img", progress=lambda *of: calls.append(of)).clean and calls
    uext4.mkfs(tmp_path / "b.img", tmp_path / "tree", size=32 << 20)
    with uext4.Image(tmp_path / "b.img", "r+") as new, uext4.Image(tmp_path / "a.img") as old:
        assert uext4.diff(old, new) == []
        (new / "a" / "one").write_bytes(b"")
        found = uext4.diff(old, new, "/a")
        assert [(c.path, c.change) for c in found] == [("/one", "changed")]
        assert "size" in found[0].differences
    # The count of free inodes of the first group, which any check finds wrong.
    with open(tmp_path / "b.img", "r+b") as f:
        f.seek(4096 + 0x0E)
        f.write(b"\x01\x00")
    assert not uext4.check(tmp_path / "b.img").clean
    assert uext4.repair(tmp_path / "b.img").clean
    assert uext4.check(tmp_path / "b.img").clean


def test_an_exception_of_a_callback_is_raised(tmp_path):
    def progress(phase, done, total):
        raise KeyError(phase)

    with pytest.raises(KeyError):
        uext4.mkfs(tmp_path / "x.img", size=32 << 20, progress=progress)
    assert not (tmp_path / "x.img").exists()
    with pytest.raises(TypeError):
        uext4.mkfs(tmp_path / "x.img", size=32 << 20, sizes=1)
    with pytest.raises(OSError):
        uext4.check(tmp_path / "none.img")

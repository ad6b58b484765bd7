"""fsspec's own tests of a file system, on an image."""

import fsspec.tests.abstract as abstract
import pytest
import uext4
from uext4.fsspec import Ext4FileSystem


class Ext4Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self, tmp_path_factory):
        path = tmp_path_factory.mktemp("image") / "disk.img"
        uext4.mkfs(path, size=64 << 20)
        fs = Ext4FileSystem(str(path), mode="r+")
        yield fs
        fs.close()
        report = uext4.check(path)
        assert report.clean, report.faults

    @pytest.fixture
    def fs_path(self):
        return "/run"


class TestCopy(abstract.AbstractCopyTests, Ext4Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Ext4Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Ext4Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Ext4Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Ext4Fixtures):
    pass

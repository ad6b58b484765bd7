"""Images that the tests use."""

import pytest
import uext4


@pytest.fixture
def image_file(tmp_path):
    path = tmp_path / "disk.img"
    uext4.mkfs(path, size=64 << 20)
    return path


@pytest.fixture
def image(image_file):
    with uext4.Image(image_file, "r+") as image:
        yield image
    report = uext4.check(image_file)
    assert report.clean, report.faults

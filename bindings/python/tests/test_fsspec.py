"""URLs of fsspec, and what reads through them."""

import threading

import fsspec
import pytest
import uext4
from uext4.fsspec import Ext4FileSystem


@pytest.fixture
def filled(image_file):
    with uext4.Image(image_file, "r+") as image:
        (image / "data" / "sub").mkdir(parents=True)
        (image / "data" / "a.csv").write_text("x,y\n1,2\n3,4\n")
        image.symlink("a.csv", "/data/link")
        image.symlink("..", "/data/sub/up")
    return image_file


def test_a_chained_url_opens_a_file_of_an_image(filled):
    for image in (f"file://{filled}", str(filled)):
        with fsspec.open(f"ext4://data/a.csv::{image}") as f:
            assert f.read() == b"x,y\n1,2\n3,4\n"


def test_an_image_in_another_store_is_read_in_part(filled):
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/disk.img", filled.read_bytes())
    with fsspec.open("ext4://data/a.csv::memory://disk.img", "rt") as f:
        assert f.readline() == "x,y\n"
    with pytest.raises(ValueError):
        Ext4FileSystem("memory://disk.img", mode="r+")
    memory.rm("/disk.img")


def test_links_and_removal(filled):
    with uext4.Image(filled, "r+") as image:
        fs = Ext4FileSystem(image)
        assert fs.find("/data") == ["/data/a.csv", "/data/link", "/data/sub/up"]
        assert fs.info("/data/link")["size"] == 12 and fs.info("/data/link")["islink"]
        fs.rm("/data/sub", recursive=True)
        assert fs.find("/data") == ["/data/a.csv", "/data/link"]
        fs.mv("/data/a.csv", "/new/b.csv")
        assert fs.cat("/new/b.csv") == b"x,y\n1,2\n3,4\n"


def test_threads_read_through_one_file_system(filled):
    with fsspec.open(filled, "rb") as file:
        fs = Ext4FileSystem(file)
        found = []
        threads = [threading.Thread(target=lambda: found.append(fs.cat("/data/a.csv"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [b"x,y\n1,2\n3,4\n"] * 8
        fs.close()

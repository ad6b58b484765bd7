"""pandas, zarr and dask read inside an image, on this host and in S3: where they are installed (PARQUET=1)."""

import pytest

import uext4
from uext4.fsspec import Ext4FileSystem


@pytest.fixture
def frame(image_file):
    """A frame that is in the image, as /t/x.parquet."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"x": range(1000), "y": [str(i) for i in range(1000)]})
    fs = Ext4FileSystem(str(image_file), mode="r+")
    with fs.open("/t/x.parquet", "wb") as f:
        frame.to_parquet(f)
    fs.close()
    return frame


@pytest.fixture
def s3(image_file):
    """Options for a server of S3 that has the image, as s3://bucket/disk.img."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "key", "secret": "secret", "client_kwargs": {"endpoint_url": f"http://{host}:{port}"}}
    import s3fs

    store = s3fs.S3FileSystem(**options)
    store.mkdir("bucket")

    def put():
        store.put(str(image_file), "bucket/disk.img")
        return options

    yield put
    server.stop()


def test_pandas_reads_parquet_in_an_image(frame, image_file):
    pandas = pytest.importorskip("pandas")
    read = pandas.read_parquet(f"ext4://t/x.parquet::file://{image_file}")
    pandas.testing.assert_frame_equal(read, frame)


def test_pandas_reads_parquet_in_an_image_in_s3(frame, s3):
    pandas = pytest.importorskip("pandas")
    url = "ext4://t/x.parquet::s3://bucket/disk.img"
    read = pandas.read_parquet(url, storage_options={"s3": s3()})
    pandas.testing.assert_frame_equal(read, frame)


def test_dask_reads_many_files(image_file):
    dask = pytest.importorskip("dask.bag")
    with uext4.Image(image_file, "r+") as image:
        image.makedirs("/lines", exist_ok=True)
        for n in range(20):
            (image / "lines" / f"{n}.txt").write_text(f"{n}\n" * 10)
    lines = dask.read_text("ext4://lines/*.txt", storage_options={"fo": str(image_file)})
    assert sorted(map(int, lines.compute(scheduler="threads"))) == sorted(list(range(20)) * 10)


def test_zarr_reads_and_writes_an_array(image_file):
    zarr = pytest.importorskip("zarr")
    import numpy

    values = numpy.arange(10_000).reshape(100, 100)
    fs = Ext4FileSystem(str(image_file), mode="r+")
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

    store = zarr.storage.FsspecStore(AsyncFileSystemWrapper(fs, asynchronous=True), path="/array.zarr")
    array = zarr.create_array(store, shape=values.shape, chunks=(10, 10), dtype=values.dtype)
    array[:] = values
    fs.close()
    assert uext4.check(image_file).clean
    fs = Ext4FileSystem(str(image_file))
    store = zarr.storage.FsspecStore(AsyncFileSystemWrapper(fs, asynchronous=True), path="/array.zarr", read_only=True)
    assert (zarr.open_array(store, mode="r")[:] == values).all()
    fs.close()

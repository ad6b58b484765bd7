"""How reads of many files scale with threads: files read in a second by 1, 2, 4 and 8 threads, the best of five runs each."""

import os
import sys
import tempfile
import threading
import time

import uext4

FILES, FILE_BYTES, RUNS = 512, 256 << 10, 5


def read_files(image, numbers):
    buffer = bytearray(FILE_BYTES)
    for number in numbers:
        with image.open(f"/{number}", "rb", 0) as f:
            assert f.readinto(buffer) == FILE_BYTES


def run(image, count):
    threads = [threading.Thread(target=read_files, args=(image, range(n, FILES, count))) for n in range(count)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return FILES / (time.perf_counter() - start)


def main():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "disk.img")
        uext4.mkfs(path, size=512 << 20)
        with uext4.Image(path, "r+") as image:
            for number in range(FILES):
                (image / str(number)).write_bytes(os.urandom(FILE_BYTES))
            print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, {FILES} files of {FILE_BYTES >> 10} KiB")
            for count in (1, 2, 4, 8):
                print(f"{count} threads: {max(run(image, count) for _ in range(RUNS)):.0f} files/s")


if __name__ == "__main__":
    main()

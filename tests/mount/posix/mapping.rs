//! Files in memory.

use crate::*;

const CASES: [Case; 7] = [
    ("map_shared", shared),
    ("map_private", private),
    ("map_refused", refused),
    ("map_past_the_end", past_the_end),
    ("map_holes", holes),
    ("map_sync", sync),
    ("map_times", times),
];

#[test]
fn mapping_calls() {
    compare(&CASES, &[]);
}

const BOTH: i32 = PROT_READ | PROT_WRITE;

/// What is mapped; a panic where that must not fail.
struct Mapping {
    start: *mut u8,
    len: usize,
}

impl Mapping {
    fn new(fd: i32, len: usize, prot: i32, flags: i32, at: i64) -> Mapping {
        let start = call!(mmap, std::ptr::null_mut(), len, prot, flags, fd, at).expect("maps");
        let start = std::ptr::with_exposed_provenance_mut(start as usize);
        Mapping { start, len }
    }

    fn put(&self, at: usize, byte: u8, len: usize) {
        // SAFETY: the pages are mapped; a signal shows where the file ends.
        unsafe { self.start.add(at).write_bytes(byte, len) };
    }

    fn get(&self, at: usize, len: usize) -> Vec<u8> {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.start.add(at), len) }.to_vec()
    }

    fn sync(&self, s: &mut Scene, flags: i32) {
        s.done(
            format!("msync({flags})"),
            call!(msync, self.start.cast(), self.len, flags),
        );
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        call!(munmap, self.start.cast(), self.len).expect("unmaps");
    }
}

fn shared(s: &mut Scene) {
    let fd = s.file("f", 10_000);
    let map = Mapping::new(fd, 10_000, BOTH, MAP_SHARED, 0);
    s.line(runs(&map.get(0, 10_000)));
    map.put(100, b'm', 50);
    s.pread(fd, 10_000, 0);
    s.pwrite(fd, b"written", 5000);
    s.line(runs(&map.get(4990, 100)));
    s.ftruncate(fd, 10_100);
    s.line(runs(&map.get(9990, 200)));
    map.put(10_050, b'e', 10);
    s.pread(fd, 200, 10_000);
    s.fsync(fd);
    s.ftruncate(fd, 10_010);
    s.ftruncate(fd, 10_100);
    s.pread(fd, 200, 10_000);
    let other = s.open("f", O_RDONLY, 0);
    let second = Mapping::new(other, 4096, PROT_READ, MAP_SHARED, 0);
    map.put(0, b'2', 5);
    s.line(runs(&second.get(0, 20)));
    s.fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
    s.line(runs(&second.get(0, 4096)));
    map.put(1, b'3', 5);
    s.pread(fd, 5000, 0);
    s.unlink("f");
    map.put(0, b'4', 5);
    s.pread(fd, 10, 0);
    s.close(fd);
    map.sync(s, MS_SYNC);
    drop(map);
    s.pread(other, 10, 0);
}

fn private(s: &mut Scene) {
    let fd = s.file("f", 5000);
    let map = Mapping::new(fd, 5000, BOTH, MAP_PRIVATE, 0);
    map.put(0, b'p', 10);
    s.pread(fd, 20, 0);
    s.line(runs(&map.get(0, 20)));
    s.pwrite(fd, b"w", 4500);
    s.line(runs(&map.get(4490, 20)));
    let r = s.open("f", O_RDONLY, 0);
    let second = Mapping::new(r, 4096, BOTH, MAP_PRIVATE, 0);
    second.put(0, b'q', 1);
    s.pread(fd, 2, 0);
}

fn refused(s: &mut Scene) {
    s.file("f", 10_000);
    let r = s.open("f", O_RDONLY, 0);
    let w = s.open("f", O_WRONLY, 0);
    let both = s.open("f", O_RDWR, 0);
    let end = s.open("f", O_RDWR | O_APPEND, 0);
    let path = s.open("f", O_PATH, 0);
    let dir = s.open(".", O_RDONLY | O_DIRECTORY, 0);
    let none = std::ptr::null_mut();
    let map = |s: &mut Scene, what, fd, prot, flags, at| {
        s.done(what, call!(mmap, none, 4096, prot, flags, fd, at));
    };
    map(s, "shared, to read", r, PROT_READ, MAP_SHARED, 0);
    map(s, "shared, to write, of a reader", r, BOTH, MAP_SHARED, 0);
    map(s, "of a writer", w, PROT_READ, MAP_SHARED, 0);
    map(s, "private, of a writer", w, BOTH, MAP_PRIVATE, 0);
    map(s, "of an appender", end, BOTH, MAP_SHARED, 0);
    map(s, "of a path", path, PROT_READ, MAP_SHARED, 0);
    map(s, "of a directory", dir, PROT_READ, MAP_SHARED, 0);
    map(s, "in sync", both, BOTH, MAP_SHARED_VALIDATE | MAP_SYNC, 0);
    map(s, "validated", both, BOTH, MAP_SHARED_VALIDATE, 0);
    map(
        s,
        "unknown",
        both,
        BOTH,
        MAP_SHARED_VALIDATE | 0x4000_0000,
        0,
    );
    map(s, "unaligned", both, BOTH, MAP_SHARED, 100);
    map(s, "far away", both, BOTH, MAP_SHARED, 1 << 40);
    map(s, "executable", both, PROT_READ | PROT_EXEC, MAP_PRIVATE, 0);
    map(s, "populated", both, BOTH, MAP_SHARED | MAP_POPULATE, 4096);
    s.done("nothing", call!(mmap, none, 0, BOTH, MAP_SHARED, both, 0));
}

fn past_the_end(s: &mut Scene) {
    let fd = s.file("f", 5000);
    for at in [4999, 5000, 8191, 8192, 20_000] {
        s.in_child(|s| {
            let map = Mapping::new(fd, 30_000, BOTH, MAP_SHARED, 0);
            s.line(runs(&map.get(at, 1)));
        });
        s.in_child(|_| Mapping::new(fd, 30_000, BOTH, MAP_SHARED, 0).put(at, b'z', 1));
    }
    s.fstat(fd);
    s.fsync(fd);
    s.ftruncate(fd, 10_000);
    s.pread(fd, 10_000, 0);
    s.in_child(|s| {
        let map = Mapping::new(fd, 30_000, BOTH, MAP_SHARED, 0);
        map.put(9000, b'x', 10);
        s.ftruncate(fd, 4096);
        s.line(runs(&map.get(0, 4096)));
        s.line(runs(&map.get(9000, 1)));
    });
    let e = s.file("empty", 0);
    s.in_child(|s| s.line(runs(&Mapping::new(e, 4096, BOTH, MAP_SHARED, 0).get(0, 1))));
}

fn holes(s: &mut Scene) {
    let fd = s.file("f", 0);
    s.ftruncate(fd, 100_000);
    s.blocks(fd);
    let map = Mapping::new(fd, 100_000, BOTH, MAP_SHARED, 0);
    s.line(runs(&map.get(0, 100_000)));
    s.blocks(fd);
    map.put(50_000, b'h', 100);
    map.sync(s, MS_SYNC);
    s.blocks(fd);
    s.lseek(fd, 0, SEEK_DATA);
    s.lseek(fd, 49_152, SEEK_HOLE);
    s.fallocate(fd, 0, 0, 100_000);
    map.put(0, b'u', 5000);
    s.fsync(fd);
    s.pread(fd, 100_000, 0);
    s.blocks(fd);
}

fn sync(s: &mut Scene) {
    let fd = s.file("f", 8192);
    let map = Mapping::new(fd, 8192, BOTH, MAP_SHARED, 0);
    map.put(0, b's', 8192);
    for flags in [MS_SYNC, MS_ASYNC, MS_INVALIDATE, MS_SYNC | MS_ASYNC, 0, 64] {
        map.sync(s, flags);
    }
    let inside = map.start.wrapping_add(1);
    s.done("msync, unaligned", call!(msync, inside.cast(), 10, MS_SYNC));
    let beyond = map.start.wrapping_add(1 << 30);
    s.done(
        "msync, not mapped",
        call!(msync, beyond.cast(), 4096, MS_SYNC),
    );
    for advice in [
        MADV_NORMAL,
        MADV_WILLNEED,
        MADV_DONTNEED,
        MADV_COLD,
        MADV_PAGEOUT,
    ] {
        let answer = call!(madvise, map.start.cast(), 8192, advice);
        s.done(format!("madvise({advice})"), answer);
    }
    s.line(runs(&map.get(0, 8192)));
    s.done(
        "madvise, remove",
        call!(madvise, map.start.cast(), 4096, MADV_REMOVE),
    );
    s.line(runs(&map.get(0, 8192)));
    s.done("mlock", call!(mlock, map.start.cast(), 4096));
    let direct = s.open("f", O_RDONLY | O_DIRECT, 0);
    map.put(0, b'D', 4096);
    let mut memory = uext4_testkit::aligned::Aligned::new(8192);
    let answer = call!(
        pread,
        direct,
        memory.bytes_mut().as_mut_ptr().cast(),
        8192,
        0
    );
    s.number("direct read", answer);
    s.line(runs(memory.bytes()));
}

fn times(s: &mut Scene) {
    let fd = s.file("f", 8192);
    let map = Mapping::new(fd, 8192, BOTH, MAP_SHARED, 0);
    s.changes("f", |s| {
        map.put(0, b't', 1);
        map.sync(s, MS_SYNC);
    });
    s.changes("f", |s| {
        map.put(0, b'u', 1);
        s.fsync(fd);
    });
    s.chown("f", 1001, 1001);
    s.chmod("f", 0o6777);
    s.as_user(1001, &[1001], |s| {
        map.put(4096, b'u', 1);
        map.sync(s, MS_SYNC);
    });
    s.stat("f");
}

//! fallocate in each of its modes, data and holes.

use crate::*;

const KEEP: i32 = FALLOC_FL_KEEP_SIZE;
const PUNCH: i32 = FALLOC_FL_PUNCH_HOLE | KEEP;
const ZERO: i32 = FALLOC_FL_ZERO_RANGE;

const CASES: [Case; 7] = [
    ("space_allocate", allocate),
    ("space_punch", punch),
    ("space_zero", zero),
    ("space_collapse", collapse),
    ("space_insert", insert),
    ("space_refused", refused),
    ("space_seek", seek),
];

#[test]
fn space_calls() {
    compare(&CASES, &[]);
}

/// A file of eleven blocks, each of which holds its number.
fn numbered(s: &mut Scene, name: &str) -> i32 {
    let fd = s.file(name, 0);
    for at in 0..11u8 {
        s.pwrite(fd, &[at; 4096], 4096 * i64::from(at));
    }
    s.fsync(fd);
    fd
}

fn whole(s: &mut Scene, fd: i32) {
    s.fstat(fd);
    s.pread(fd, 100_000, 0);
    s.blocks(fd);
}

fn allocate(s: &mut Scene) {
    let fd = s.file("f", 10);
    s.fallocate(fd, 0, 0, 10_000);
    whole(s, fd);
    s.fallocate(fd, KEEP, 0, 100_000);
    whole(s, fd);
    s.fallocate(fd, 0, 50_000, 1);
    whole(s, fd);
    s.pwrite(fd, b"in the middle", 30_000);
    whole(s, fd);
    s.ftruncate(fd, 50_001);
    whole(s, fd);
    s.fallocate(fd, 0, 1 << 30, 4096);
    s.fstat(fd);
    s.blocks(fd);
    s.fallocate(fd, 0, 0, 1 << 40);
    s.fstat(fd);
    s.number("posix_fallocate", Ok(posix(fd, 0, 2_000_000)));
    s.number("posix_fallocate", Ok(posix(fd, -1, 10)));
}

fn posix(fd: i32, at: i64, len: i64) -> i64 {
    // SAFETY: no memory is passed.
    unsafe { posix_fallocate(fd, at, len) }.into()
}

fn punch(s: &mut Scene) {
    let fd = numbered(s, "f");
    s.fallocate(fd, PUNCH, 4096, 4096);
    whole(s, fd);
    s.fallocate(fd, PUNCH, 10_000, 5000);
    whole(s, fd);
    s.fallocate(fd, PUNCH, 20_000, 100);
    whole(s, fd);
    s.fallocate(fd, PUNCH, 40_000, 1 << 30);
    whole(s, fd);
    s.fallocate(fd, PUNCH, 1 << 30, 4096);
    s.fallocate(fd, PUNCH, 0, 1 << 40);
    whole(s, fd);
    s.fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 4096);
}

fn zero(s: &mut Scene) {
    let fd = numbered(s, "f");
    s.fallocate(fd, ZERO, 4096, 4096);
    whole(s, fd);
    s.fallocate(fd, ZERO, 10_000, 5000);
    whole(s, fd);
    s.fallocate(fd, ZERO | KEEP, 40_000, 20_000);
    whole(s, fd);
    s.fallocate(fd, ZERO, 40_000, 20_000);
    whole(s, fd);
    s.fallocate(fd, ZERO, 100_000, 4096);
    s.fstat(fd);
    s.blocks(fd);
}

fn collapse(s: &mut Scene) {
    let fd = numbered(s, "f");
    let mode = FALLOC_FL_COLLAPSE_RANGE;
    s.fallocate(fd, mode, 4096, 8192);
    whole(s, fd);
    s.fallocate(fd, mode, 0, 4096);
    whole(s, fd);
    s.fallocate(fd, mode, 100, 4096);
    s.fallocate(fd, mode, 4096, 100);
    s.fallocate(fd, mode, 4096, 1 << 20);
    s.fallocate(fd, mode | KEEP, 0, 4096);
    s.ftruncate(fd, 20_000);
    s.fallocate(fd, mode, 16_384, 4096);
    s.fallocate(fd, mode, 12_288, 4096);
    whole(s, fd);
}

fn insert(s: &mut Scene) {
    let fd = numbered(s, "f");
    let mode = FALLOC_FL_INSERT_RANGE;
    s.fallocate(fd, mode, 4096, 8192);
    whole(s, fd);
    s.fallocate(fd, mode, 0, 4096);
    whole(s, fd);
    s.fallocate(fd, mode, 100, 4096);
    s.fallocate(fd, mode, 4096, 100);
    s.fallocate(fd, mode, 1 << 20, 4096);
    s.fallocate(fd, mode | KEEP, 0, 4096);
    s.fallocate(fd, mode, 4096, 1 << 44);
    whole(s, fd);
}

fn refused(s: &mut Scene) {
    let fd = s.file("f", 10);
    for mode in [0, KEEP, PUNCH, ZERO, ZERO | KEEP] {
        s.fallocate(fd, mode, 0, 0);
        s.fallocate(fd, mode, -1, 10);
        s.fallocate(fd, mode, 0, -1);
        s.fallocate(fd, mode, i64::MAX, 10);
        s.fallocate(fd, mode, 10, i64::MAX);
        s.fallocate(fd, mode, (1 << 44) - 4096, 4096);
        s.fallocate(fd, mode, 1 << 50, 4096);
        s.fallocate(-1, mode, 0, 10);
    }
    s.fallocate(fd, 0x4, 0, 10);
    s.fallocate(fd, 0x40, 0, 10);
    s.fallocate(fd, 0x80, 0, 4096);
    s.fallocate(fd, 0x1000, 0, 10);
    s.fallocate(fd, PUNCH | ZERO, 0, 10);
    let r = s.open("f", O_RDONLY, 0);
    let d = s.open(".", O_RDONLY | O_DIRECTORY, 0);
    s.mknod("p", S_IFIFO | 0o600, (0, 0));
    let p = s.open("p", O_RDWR, 0);
    for mode in [0, PUNCH] {
        s.fallocate(r, mode, 0, 10);
        s.fallocate(d, mode, 0, 10);
        s.fallocate(p, mode, 0, 10);
    }
    s.fstat(fd);
}

fn seek(s: &mut Scene) {
    let fd = s.file("f", 0);
    let both = |s: &mut Scene| {
        for at in [
            0, 1, 4095, 4096, 20_479, 20_480, 24_576, 40_960, 100_000, 100_001,
        ] {
            s.lseek(fd, at, SEEK_DATA);
            s.lseek(fd, at, SEEK_HOLE);
        }
    };
    both(s);
    s.pwrite(fd, &[1; 4096], 20_480);
    s.ftruncate(fd, 100_000);
    s.fsync(fd);
    both(s);
    s.pwrite(fd, &[1; 4096], 40_960);
    both(s);
    s.fallocate(fd, PUNCH, 20_480, 4096);
    both(s);
    s.ftruncate(fd, 40_970);
    both(s);
    s.lseek(fd, -1, SEEK_DATA);
    s.lseek(fd, -1, SEEK_HOLE);
    s.lseek(fd, 0, SEEK_CUR);
}

//! Calls on open files: data, space, locks, positions.

use crate::scene::{Scene, call, runs, text};

impl Scene {
    pub fn write(&mut self, fd: i32, data: &[u8]) -> i64 {
        let answer = call!(libc::write, fd, data.as_ptr().cast(), data.len());
        self.number(format!("write({})", runs(data)), answer)
    }

    pub fn pwrite(&mut self, fd: i32, data: &[u8], at: i64) -> i64 {
        let answer = call!(libc::pwrite, fd, data.as_ptr().cast(), data.len(), at);
        self.number(format!("pwrite({}, {at})", runs(data)), answer)
    }

    pub fn read(&mut self, fd: i32, len: usize) {
        let mut data = vec![0u8; len];
        let answer = call!(libc::read, fd, data.as_mut_ptr().cast(), len);
        self.shown(
            format!("read({len})"),
            answer.map(|n| runs(&data[..n as usize])),
        );
    }

    pub fn pread(&mut self, fd: i32, len: usize, at: i64) {
        let mut data = vec![0u8; len];
        let answer = call!(libc::pread, fd, data.as_mut_ptr().cast(), len, at);
        self.shown(
            format!("pread({len}, {at})"),
            answer.map(|n| runs(&data[..n as usize])),
        );
    }

    pub fn pwritev2(&mut self, fd: i32, parts: &[&[u8]], at: i64, flags: i32) {
        let part = |part: &&[u8]| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        };
        let all: Vec<_> = parts.iter().map(part).collect();
        let answer = call!(
            libc::pwritev2,
            fd,
            all.as_ptr(),
            all.len() as i32,
            at,
            flags
        );
        self.number(
            format!("pwritev2({} parts, {at}, {flags:#x})", all.len()),
            answer,
        );
    }

    pub fn preadv2(&mut self, fd: i32, lens: &[usize], at: i64, flags: i32) {
        let mut parts: Vec<_> = lens.iter().map(|len| vec![0u8; *len]).collect();
        let part = |part: &mut Vec<u8>| libc::iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        };
        let all: Vec<_> = parts.iter_mut().map(part).collect();
        let answer = call!(libc::preadv2, fd, all.as_ptr(), all.len() as i32, at, flags);
        let answer = answer.map(|n| runs(&parts.concat()[..n as usize]));
        self.shown(format!("preadv2({lens:?}, {at}, {flags:#x})"), answer);
    }

    pub fn lseek(&mut self, fd: i32, to: i64, whence: i32) {
        let answer = call!(libc::lseek, fd, to, whence);
        self.number(format!("lseek({to}, {whence})"), answer);
    }

    pub fn truncate(&mut self, path: &str, len: i64) {
        let name = text(path);
        let answer = call!(libc::truncate, name.as_ptr(), len);
        self.done(format!("truncate({path}, {len})"), answer);
    }

    pub fn ftruncate(&mut self, fd: i32, len: i64) {
        self.done(format!("ftruncate({len})"), call!(libc::ftruncate, fd, len));
    }

    pub fn fallocate(&mut self, fd: i32, mode: i32, at: i64, len: i64) {
        let answer = call!(libc::fallocate, fd, mode, at, len);
        self.done(format!("fallocate({mode:#x}, {at}, {len})"), answer);
    }

    pub fn fsync(&mut self, fd: i32) {
        self.done("fsync", call!(libc::fsync, fd));
    }

    pub fn flock(&mut self, fd: i32, operation: i32) {
        self.done(
            format!("flock({operation})"),
            call!(libc::flock, fd, operation),
        );
    }

    /// Sets or asks for a lock of `kind` on a range.
    pub fn lock(&mut self, fd: i32, command: i32, kind: i32, range: (i64, i64)) {
        // SAFETY: all zeros are a `flock`.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as i16;
        lock.l_whence = libc::SEEK_SET as i16;
        (lock.l_start, lock.l_len) = range;
        let answer = call!(libc::fcntl, fd, command, &raw mut lock);
        let gets = matches!(command, libc::F_GETLK | libc::F_OFD_GETLK);
        let answer = answer.map(|_| match gets {
            true => format!("{} {} {}", lock.l_type, lock.l_start, lock.l_len),
            false => "done".to_owned(),
        });
        self.shown(format!("fcntl({command}, {kind}, {range:?})"), answer);
    }

    /// fcntl(2) with a number.
    pub fn fcntl(&mut self, fd: i32, command: i32, argument: i32) {
        let answer = call!(libc::fcntl, fd, command, argument);
        self.number(format!("fcntl({command}, {argument:#o})"), answer);
    }

    pub fn copy_file_range(&mut self, from: (i32, i64), to: (i32, i64), len: usize) {
        let (mut a, mut b) = (from.1, to.1);
        let answer = call!(
            libc::copy_file_range,
            from.0,
            &raw mut a,
            to.0,
            &raw mut b,
            len,
            0
        );
        let what = format!("copy_file_range({}, {}, {len})", from.1, to.1);
        self.number(what, answer);
    }
}

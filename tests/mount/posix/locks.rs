//! flock(2), and locks of fcntl(2) of processes and of open files.

use crate::*;

const CASES: [Case; 4] = [
    ("lock_flock", flocks),
    ("lock_processes", processes),
    ("lock_open_files", open_files),
    ("lock_waiting", waiting),
];

#[test]
fn lock_calls() {
    compare(&CASES, &[]);
}

fn flocks(s: &mut Scene) {
    s.file("f", 1);
    let a = s.open("f", O_RDWR, 0);
    let b = s.open("f", O_RDONLY, 0);
    s.flock(a, LOCK_SH | LOCK_NB);
    s.flock(b, LOCK_SH | LOCK_NB);
    s.flock(a, LOCK_EX | LOCK_NB);
    s.flock(b, LOCK_UN);
    s.flock(a, LOCK_EX | LOCK_NB);
    s.flock(b, LOCK_SH | LOCK_NB);
    s.in_child(|s| {
        s.flock(a, LOCK_SH | LOCK_NB);
        let c = s.open("f", O_RDONLY, 0);
        s.flock(c, LOCK_EX | LOCK_NB);
    });
    s.flock(a, 99);
    let d = s.open(".", O_RDONLY, 0);
    s.flock(d, LOCK_EX | LOCK_NB);
    s.close(a);
    s.flock(b, LOCK_EX | LOCK_NB);
}

fn processes(s: &mut Scene) {
    let fd = s.file("f", 100);
    let r = s.open("f", O_RDONLY, 0);
    s.lock(fd, F_SETLK, F_WRLCK, (0, 10));
    s.lock(fd, F_SETLK, F_RDLCK, (20, 10));
    s.lock(r, F_SETLK, F_WRLCK, (40, 10));
    s.in_child(|s| {
        for range in [(0, 1), (5, 20), (10, 5), (25, 0), (20, 5)] {
            s.lock(fd, F_GETLK, F_WRLCK, range);
            s.lock(fd, F_SETLK, F_WRLCK, range);
            s.lock(fd, F_SETLK, F_RDLCK, range);
        }
    });
    s.lock(fd, F_SETLK, F_UNLCK, (3, 2));
    s.in_child(|s| {
        s.lock(fd, F_SETLK, F_WRLCK, (3, 2));
        s.lock(fd, F_SETLK, F_WRLCK, (3, 3));
    });
    s.lock(fd, F_SETLK, F_WRLCK, (-1, 10));
    s.lock(fd, F_SETLK, 77, (0, 10));
    // Closing any descriptor of the file releases them.
    s.close(r);
    s.in_child(|s| s.lock(fd, F_SETLK, F_WRLCK, (0, 0)));
}

fn open_files(s: &mut Scene) {
    s.file("f", 100);
    let a = s.open("f", O_RDWR, 0);
    let b = s.open("f", O_RDWR, 0);
    s.lock(a, F_OFD_SETLK, F_WRLCK, (0, 10));
    s.lock(b, F_OFD_SETLK, F_WRLCK, (5, 10));
    s.lock(b, F_OFD_GETLK, F_WRLCK, (5, 10));
    s.lock(b, F_OFD_SETLK, F_WRLCK, (10, 10));
    s.lock(b, F_SETLK, F_WRLCK, (0, 10));
    s.in_child(|s| s.lock(a, F_OFD_SETLK, F_WRLCK, (0, 10)));
    s.close(a);
    s.lock(b, F_OFD_SETLK, F_WRLCK, (5, 10));
}

fn waiting(s: &mut Scene) {
    let fd = s.file("f", 100);
    let mut pipe = [0; 2];
    call!(pipe2, pipe.as_mut_ptr(), 0).expect("a pipe");
    s.lock(fd, F_SETLK, F_WRLCK, (0, 10));
    let child = call!(fork).expect("forks") as i32;
    if child == 0 {
        s.lock(fd, F_SETLKW, F_WRLCK, (0, 10));
        s.write(pipe[1], b"!");
        crate::scene::exit(0);
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    // SAFETY: all zeros are a `flock`, of everything.
    let mut all: libc::flock = unsafe { std::mem::zeroed() };
    all.l_type = F_UNLCK as i16;
    call!(fcntl, fd, F_SETLK, &raw mut all).expect("released");
    let mut status = 0;
    call!(waitpid, child, &raw mut status, 0).expect("ends");
    s.read(pipe[0], 10);
}

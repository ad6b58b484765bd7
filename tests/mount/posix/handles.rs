//! Handles of files: name_to_handle_at(2), open_by_handle_at(2).

use crate::*;

const CASES: [Case; 4] = [
    ("handle_open", open),
    ("handle_directories", directories),
    ("handle_unlinked", unlinked),
    ("handle_reused", reused),
];

#[test]
fn handle_calls() {
    compare(&CASES, &[]);
}

fn drop_caches() {
    std::fs::write("/proc/sys/vm/drop_caches", "2").expect("as root");
}

fn open(s: &mut Scene) {
    s.file("f", 10);
    s.symlink("f", "l");
    let handle = s.handle("f", 0);
    let fd = s.open_handle(&handle, O_RDWR);
    s.pread(fd, 20, 0);
    s.pwrite(fd, b"by handle", 0);
    s.fstat(fd);
    s.rename("f", "g");
    let fd = s.open_handle(&handle, O_RDONLY);
    s.pread(fd, 20, 0);
    drop_caches();
    let fd = s.open_handle(&handle, O_RDONLY);
    s.pread(fd, 20, 0);
    let link = s.handle("l", 0);
    s.open_handle(&link, O_RDONLY);
    s.open_handle(&link, O_PATH);
    s.handle("none", 0);
    s.handle("", AT_EMPTY_PATH);
    s.handle("g", 0x8000);
    s.as_user(1001, &[1001], |s| {
        s.handle("g", 0);
        s.open_handle(&handle, O_RDONLY);
    });
}

fn directories(s: &mut Scene) {
    s.mkdir("d", 0o755);
    s.mkdir("d/e", 0o755);
    s.file("d/e/f", 1);
    let d = s.handle("d/e", 0);
    let f = s.handle("d/e/f", 0);
    drop_caches();
    let fd = s.open_handle(&d, O_RDONLY | O_DIRECTORY);
    s.openat(fd, "f", O_RDONLY, 0);
    s.openat(fd, "..", O_RDONLY, 0);
    s.openat(fd, "../../d/e/f", O_RDONLY, 0);
    let fd = s.open_handle(&f, O_RDONLY);
    s.fstat(fd);
    s.unlink("d/e/f");
    s.rmdir("d/e");
    s.fstat(fd);
    s.close(fd);
    s.open_handle(&f, O_RDONLY);
    s.open_handle(&d, O_RDONLY);
}

fn unlinked(s: &mut Scene) {
    let fd = s.file("f", 10);
    let handle = s.handle("f", 0);
    s.unlink("f");
    let again = s.open_handle(&handle, O_RDONLY);
    s.pread(again, 20, 0);
    s.close(again);
    s.close(fd);
    // A server learns some time after a file was closed.
    std::thread::sleep(std::time::Duration::from_millis(100));
    s.open_handle(&handle, O_RDONLY);
    drop_caches();
    s.open_handle(&handle, O_RDONLY);
}

fn reused(s: &mut Scene) {
    let mut handles = Vec::new();
    for at in 0..50 {
        let name = format!("old{at}");
        let fd = s.file(&name, 1);
        handles.push(s.handle(&name, 0));
        s.close(fd);
        s.unlink(&name);
    }
    drop_caches();
    for at in 0..200 {
        s.file(&format!("new{at}"), 2);
    }
    for handle in &handles {
        s.open_handle(handle, O_RDONLY);
    }
}

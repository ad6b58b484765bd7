//! Calls on a directory that ignores case, for the guest: a program of its own, without libraries, that `tests/guest/casefold.rs` builds.
//!
//! A list of names has a byte with the length of each before it.
//! usage: calls fold DIR | calls verdicts PAIRS DIR ANSWERS | calls fill NAMES DIR | calls seek NAMES DIR

use std::env::args;
use std::ffi::{OsStr, c_int, c_ulong};
use std::fs::{self, File};
use std::io::{Error, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const GETFLAGS: c_ulong = 0x8008_6601;
const SETFLAGS: c_ulong = 0x4008_6602;
const CASEFOLD: c_ulong = 0x4000_0000;
const EINVAL: i32 = 22;
const ENOENT: i32 = 2;

unsafe extern "C" {
    fn ioctl(fd: c_int, request: c_ulong, flags: *mut c_ulong) -> c_int;
}

/// chattr +F.
fn fold(dir: &Path) {
    let dir = File::open(dir).expect("open");
    let mut flags: c_ulong = 0;
    let mut call = |request| {
        // SAFETY: the kernel reads or writes an int at the address.
        let done = unsafe { ioctl(dir.as_raw_fd(), request, &raw mut flags) };
        assert_eq!(done, 0, "ioctl: {}", Error::last_os_error());
        flags |= CASEFOLD;
    };
    call(GETFLAGS);
    call(SETFLAGS);
}

fn names(list: &str, dir: &str) -> Vec<PathBuf> {
    let bytes = fs::read(list).expect("a list");
    let mut rest = &bytes[..];
    let mut found = Vec::new();
    while let [len, after @ ..] = rest {
        let (name, after) = after.split_at(usize::from(*len));
        found.push(Path::new(dir).join(OsStr::from_bytes(name)));
        rest = after;
    }
    found
}

/// Makes the first name of each pair and looks the second up. A letter for each pair: made or not, and the same, distinct, or not a name.
fn verdicts(pairs: &[PathBuf], answers: &str) {
    let mut letters = Vec::new();
    for pair in pairs.chunks(2) {
        let made = File::create_new(&pair[0]);
        let made = made.map(|file| file.metadata().expect("stat").ino());
        let sought = fs::symlink_metadata(&pair[1]).map(|found| found.ino());
        let row = match &made {
            Ok(_) => 0,
            Err(e) if e.raw_os_error() == Some(EINVAL) => 3,
            Err(e) => panic!("create {:?}: {e}", pair[0]),
        };
        let column = match &sought {
            Ok(ino) if made.as_ref().ok() == Some(ino) => 0,
            Err(e) if e.raw_os_error() == Some(ENOENT) => 1,
            Err(e) if e.raw_os_error() == Some(EINVAL) => 2,
            other => panic!("look up {:?}: {other:?}", pair[1]),
        };
        letters.push(b'a' + row + column);
        if made.is_ok() {
            fs::remove_file(&pair[0]).expect("remove");
        }
    }
    let mut file = File::create(answers).expect("create");
    file.write_all(&letters).expect("write");
    println!("pairs: {}", letters.len());
}

fn main() {
    let args: Vec<String> = args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[1..] {
        ["fold", dir] => fold(Path::new(dir)),
        ["verdicts", pairs, dir, answers] => verdicts(&names(pairs, dir), answers),
        ["fill", list, dir] => {
            for path in names(list, dir) {
                File::create_new(path).expect("create");
            }
        }
        ["seek", list, dir] => {
            let names = names(list, dir);
            for path in &names {
                assert!(path.exists(), "{path:?} is not there");
            }
            println!("found: {}", names.len());
        }
        _ => panic!("arguments"),
    }
}

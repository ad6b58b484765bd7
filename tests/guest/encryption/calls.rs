//! Encrypted directories, for the guest: a program of its own, without libraries, that `tests/guest/encryption.rs` builds.
//!
//! usage: calls fill TOP KEY | calls list TOP

use std::env::args;
use std::ffi::{c_int, c_ulong};
use std::fs::{self, File};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

const GETFLAGS: c_ulong = 0x8008_6601;
const SETFLAGS: c_ulong = 0x4008_6602;
const CASEFOLD: u8 = 0x40;
const SET_POLICY: c_ulong = 0x800C_6613;
const ADD_KEY: c_ulong = 0xC050_6617;
const ENABLE_VERITY: c_ulong = 0x4080_6685;

unsafe extern "C" {
    fn ioctl(fd: c_int, request: c_ulong, arg: *mut u8) -> c_int;
}

fn call(file: &File, request: c_ulong, arg: &mut [u8]) -> Result<()> {
    // SAFETY: the kernel reads or writes no more than the argument of that request, which `arg` has room for.
    match unsafe { ioctl(file.as_raw_fd(), request, arg.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// What policies of version 1 have for the key.
const DESCRIPTOR: [u8; 8] = *b"\xfeother\0\x01";

/// Adds a key, with its descriptor, too: its identifier.
fn add_key(top: &Path, raw: &[u8]) -> [u8; 16] {
    let mut arg = vec![0; 80];
    arg[0] = 1;
    arg[8..16].copy_from_slice(&DESCRIPTOR);
    arg[40] = raw.len() as u8;
    arg.extend(raw);
    call(&File::open(top).expect("open"), ADD_KEY, &mut arg).expect("a descriptor");
    let mut arg = vec![0; 80];
    arg[0] = 2;
    arg[40] = raw.len() as u8;
    arg.extend(raw);
    call(&File::open(top).expect("open"), ADD_KEY, &mut arg).expect("a key");
    arg[8..24].try_into().expect("an identifier")
}

/// Directories with a policy: whether it folds names, the number of its names, and the modes and flags. Those of version 1 are called so.
const POLICIES: [(&str, bool, usize, [u8; 3]); 11] = [
    ("folds", true, 20, [1, 4, 3]),
    ("folds-hashed", true, 2000, [1, 4, 0]),
    ("folds-cbc", true, 20, [5, 6, 1]),
    ("folds-ino64", true, 20, [1, 4, 8 | 2]),
    ("cbc", false, 20, [5, 6, 2]),
    ("hctr2", false, 20, [1, 10, 3]),
    ("adiantum", false, 400, [9, 9, 3]),
    ("direct", false, 20, [9, 9, 4 | 2]),
    ("v1", false, 20, [1, 4, 0]),
    ("v1-cbc", false, 20, [5, 6, 3]),
    ("v1-direct", false, 20, [9, 9, 4 | 1]),
];

fn make(path: &Path, folds: bool, modes: [u8; 3], key: [u8; 16]) -> Result<()> {
    fs::create_dir(path)?;
    let dir = File::open(path)?;
    let mut policy = [0; 24];
    policy[1..4].copy_from_slice(&modes);
    if path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"v1")) {
        policy[4..12].copy_from_slice(&DESCRIPTOR);
    } else {
        policy[0] = 2;
        policy[8..].copy_from_slice(&key);
    }
    call(&dir, SET_POLICY, &mut policy)?;
    if folds {
        let mut flags = [0; 8];
        call(&dir, GETFLAGS, &mut flags)?;
        flags[3] |= CASEFOLD;
        call(&dir, SETFLAGS, &mut flags)?;
    }
    fs::write(path.join("Is-Supported"), b"yes")
}

/// Gives a file fs-verity: SHA-256, and blocks of 4,096 bytes.
fn enable_verity(path: &Path) -> Result<()> {
    let mut arg = [0; 128];
    arg[0] = 1;
    arg[4] = 1;
    arg[9] = 0x10;
    call(&File::open(path)?, ENABLE_VERITY, &mut arg)
}

fn fill(top: &Path, key: [u8; 16]) -> Result<()> {
    for (name, folds, count, modes) in POLICIES {
        let path = top.join(name);
        if let Err(why) = make(&path, folds, modes, key) {
            println!("not made {name}: {why}");
            let _ = fs::remove_dir(&path);
            continue;
        }
        for i in 0..count {
            let long = "m".repeat(i % 200);
            fs::write(path.join(format!("N\u{c4}me-{i}-{long}")), vec![i as u8; i])?;
        }
        fs::write(path.join("Large"), vec![9; 70_001])?;
        fs::write(path.join("Checked"), vec![8; 700_001])?;
        enable_verity(&path.join("Checked"))?;
        symlink("a target", path.join("Link"))?;
        fs::create_dir(path.join("Sub"))?;
        fs::write(path.join("Sub/File"), b"in a directory")?;
        println!("made: {name} {count}");
    }
    Ok(())
}

fn list(top: &Path, dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let meta = path.symlink_metadata()?;
        let name = path.strip_prefix(top).expect("below").as_os_str();
        let hex: String = name.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        println!("seen: {hex} {}", meta.ino());
        if meta.is_dir() {
            list(top, &path)?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[1..] {
        ["fill", top, key] => {
            let top = Path::new(top);
            fill(top, add_key(top, &fs::read(key)?))
        }
        ["list", top] => list(Path::new(top), Path::new(top)),
        _ => panic!("arguments"),
    }
}

//! Fills, changes and lists a directory: a program of its own, without libraries, that runs here and in a guest.
//!
//! usage: calls fill DIR [fold] [verity] | calls change DIR | calls list DIR

use std::ffi::{CString, OsStr, c_char, c_int, c_ulong, c_void};
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{Error, Read, Result};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

const GETFLAGS: c_ulong = 0x8008_6601;
const SETFLAGS: c_ulong = 0x4008_6602;
const CASEFOLD: c_ulong = 0x4000_0000;
const ENABLE_VERITY: c_ulong = 0x4080_6685;
const FIFO: u32 = 0o010_000;
const CHARACTERS: u32 = 0o020_000;

unsafe extern "C" {
    fn ioctl(fd: c_int, request: c_ulong, given: *mut c_void) -> c_int;
    fn mknod(path: *const c_char, mode: u32, device: u64) -> c_int;
    fn fallocate(fd: c_int, mode: c_int, offset: i64, len: i64) -> c_int;
    fn lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, len: usize, flags: c_int) -> c_int;
    fn lgetxattr(path: *const c_char, name: *const c_char, value: *mut c_void, len: usize) -> isize;
    fn llistxattr(path: *const c_char, names: *mut c_void, len: usize) -> isize;
}

/// `struct fsverity_enable_arg` of linux/fsverity.h.
#[repr(C)]
struct EnableVerity {
    version: u32,
    algorithm: u32,
    block_size: u32,
    salt_len: u32,
    salt: u64,
    signature_len: u32,
    reserved: u32,
    signature: u64,
    others: [u64; 11],
}

fn text(path: impl AsRef<OsStr>) -> CString {
    CString::new(path.as_ref().as_bytes()).expect("no zero")
}

/// Bytes that differ from name to name.
fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + seed * 13) as u8).collect()
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) -> bool {
    let (path, name) = (text(path), text(name));
    // SAFETY: the strings end with a zero, the value has its length.
    unsafe { lsetxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) == 0 }
}

fn special(path: &Path, kind: u32, device: u64) -> Result<()> {
    // SAFETY: the path ends with a zero.
    match unsafe { mknod(text(path).as_ptr(), kind | 0o640, device) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

fn call<T>(file: &File, request: c_ulong, given: &mut T) -> Result<()> {
    // SAFETY: each request is given the structure that it reads or writes.
    match unsafe { ioctl(file.as_raw_fd(), request, (&raw mut *given).cast()) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// A directory that ignores case; a name is found by its other spelling.
fn fold(dir: &Path) -> Result<()> {
    fs::create_dir(dir)?;
    let open = File::open(dir)?;
    let mut flags: c_ulong = 0;
    call(&open, GETFLAGS, &mut flags)?;
    flags |= CASEFOLD;
    call(&open, SETFLAGS, &mut flags)?;
    for i in 0..120 {
        fs::write(dir.join(format!("Stra\u{df}e {i}")), bytes(i, i))?;
    }
    for i in 0..120 {
        let found = fs::read(dir.join(format!("STRASSE {i}")))?;
        assert_eq!(found, bytes(i, i), "another spelling");
    }
    Ok(())
}

/// A file that fs-verity seals.
fn verity(path: &Path, block_size: u32) -> Result<()> {
    fs::write(path, bytes(3, 70_000))?;
    let mut given = EnableVerity {
        version: 1,
        algorithm: 1,
        block_size,
        salt_len: 0,
        salt: 0,
        signature_len: 0,
        reserved: 0,
        signature: 0,
        others: [0; 11],
    };
    call(&File::open(path)?, ENABLE_VERITY, &mut given)
}

/// Links, special files, attributes.
fn fill_others(dir: &Path) -> Result<()> {
    let links = dir.join("links");
    fs::create_dir(&links)?;
    for len in [1, 59, 60, 150, 900] {
        symlink("s".repeat(len), links.join(len.to_string()))?;
    }
    fs::hard_link(dir.join("sizes/1000"), links.join("hard"))?;
    special(&links.join("fifo"), FIFO, 0)?;
    special(&links.join("device"), CHARACTERS, 0x1_0203)?;
    let attributes = dir.join("attributes");
    fs::create_dir(&attributes)?;
    for (i, sizes) in [&[3_usize, 40][..], &[500], &[3, 700, 9000]].into_iter().enumerate() {
        let path = attributes.join(i.to_string());
        fs::write(&path, bytes(i, i * 80))?;
        for size in sizes {
            // There may be no room for it.
            set_xattr(&path, &format!("user.of{size}"), &bytes(*size, *size));
        }
    }
    set_xattr(&attributes, "user.of a directory", b"value");
    Ok(())
}

fn fill(dir: &Path, more: &[&str]) -> Result<()> {
    fs::create_dir(dir)?;
    let many = dir.join("many");
    fs::create_dir(&many)?;
    for i in 0..200 {
        fs::write(many.join(format!("a name of some length {i}")), bytes(i, i % 40 * 5))?;
    }
    for i in (0..200).step_by(7) {
        fs::remove_file(many.join(format!("a name of some length {i}")))?;
        fs::rename(many.join(format!("a name of some length {}", i + 1)), many.join(format!("another {i}")))?;
    }
    let sizes = dir.join("sizes");
    fs::create_dir(&sizes)?;
    for (i, size) in [0, 1, 59, 60, 61, 150, 160, 1000, 1024, 5000, 20_000, 300_000].into_iter().enumerate() {
        let path = sizes.join(size.to_string());
        fs::write(&path, bytes(i, size))?;
        chown(&path, Some(1000 + i as u32), Some(70_000 * i as u32))?;
        fs::set_permissions(&path, Permissions::from_mode(0o400 + i as u32))?;
        let file = OpenOptions::new().write(true).open(&path)?;
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000 + i as u64);
        file.set_times(FileTimes::new().set_modified(time).set_accessed(time))?;
    }
    let pieces = dir.join("pieces");
    fs::create_dir(&pieces)?;
    let file = File::create_new(pieces.join("sparse"))?;
    for at in [0, 100_000, 3_000_000, 17_000_003] {
        file.write_all_at(&bytes(9, 3000), at)?;
    }
    let (one, two) = (File::create_new(pieces.join("one"))?, File::create_new(pieces.join("two"))?);
    for i in 0..12 {
        one.write_all_at(&bytes(i, 2100), i as u64 * 2100)?;
        one.sync_data()?;
        two.write_all_at(&bytes(i, 1500), i as u64 * 9000)?;
        two.sync_data()?;
    }
    two.set_len(50_001)?;
    let file = File::create_new(pieces.join("allocated"))?;
    // SAFETY: a call without memory. Files of mapped blocks have none.
    if unsafe { fallocate(file.as_raw_fd(), 0, 0, 200_000) } == 0 {
        file.write_all_at(&bytes(5, 10_000), 50_000)?;
        // A hole.
        assert_eq!(unsafe { fallocate(file.as_raw_fd(), 3, 5_000, 70_000) }, 0);
    }
    fill_others(dir)?;
    for what in more {
        match *what {
            "fold" => fold(&dir.join("fold"))?,
            "verity" => verity(&dir.join("verity"), 4096)?,
            _ => panic!("{what}"),
        }
    }
    Ok(())
}

/// Changes what filled: removes, moves, cuts, adds.
fn change(dir: &Path) -> Result<()> {
    let names = names(&dir.join("many"));
    for (i, path) in names.iter().enumerate() {
        match i % 4 {
            0 => fs::remove_file(path)?,
            1 => fs::rename(path, path.with_file_name(format!("moved {i}")))?,
            2 => OpenOptions::new().write(true).open(path)?.write_all_at(&bytes(i, 700), 100)?,
            _ => {}
        }
    }
    let pieces = dir.join("pieces");
    if pieces.exists() {
        OpenOptions::new().write(true).open(pieces.join("sparse"))?.set_len(200_000)?;
        fs::remove_file(pieces.join("one"))?;
        let file = OpenOptions::new().write(true).open(pieces.join("two"))?;
        file.write_all_at(&bytes(1, 60_000), 3_000)?;
        fs::rename(dir.join("links"), pieces.join("links"))?;
        fs::remove_dir_all(dir.join("attributes"))?;
    }
    fs::create_dir(dir.join("new"))?;
    for i in 0..90 {
        fs::write(dir.join(format!("new/{i}")), bytes(i, 400))?;
    }
    Ok(())
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    names.sort();
    names
}

/// FNV-1a.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Name and sum of each attribute.
fn xattrs(path: &Path) -> String {
    let mut names = vec![0_u8; 65_536];
    // SAFETY: the path ends with a zero, the memory has the length.
    let len = unsafe { llistxattr(text(path).as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    names.truncate(usize::try_from(len).unwrap_or(0));
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        let mut value = vec![0_u8; 65_536];
        let name = text(OsStr::from_bytes(name));
        // SAFETY: as above.
        let len = unsafe { lgetxattr(text(path).as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        value.truncate(usize::try_from(len).expect("a value"));
        found.push(format!("{name:?}={:x}", sum(&value)));
    }
    found.sort();
    found.join(" ")
}

fn list(dir: &Path, name: &str) {
    let here = dir.join(name);
    let there = fs::symlink_metadata(&here).unwrap_or_else(|e| panic!("{}: {e}", here.display()));
    let data = if there.is_file() {
        let mut data = Vec::new();
        let read = File::open(&here).and_then(|mut file| file.read_to_end(&mut data));
        read.unwrap_or_else(|e| panic!("{}: {e}", here.display()));
        format!("{:x}", sum(&data))
    } else if there.is_symlink() {
        format!("{:?}", fs::read_link(&here).expect("a target"))
    } else {
        String::new()
    };
    println!(
        "{name:?} {:o} {}:{} links {} size {} blocks {} device {:x} time {}.{} {data} {}",
        there.mode(), there.uid(), there.gid(), there.nlink(), there.size(), there.blocks(), there.rdev(), there.mtime(), there.mtime_nsec(), xattrs(&here)
    );
    if there.is_dir() {
        for path in names(&here) {
            let last = path.file_name().and_then(OsStr::to_str).expect("a name");
            list(dir, &format!("{name}/{last}"));
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[1..] {
        ["fill", dir, ref more @ ..] => fill(Path::new(dir), more).expect("fills"),
        ["change", dir] => change(Path::new(dir)).expect("changes"),
        ["list", dir] => list(Path::new(dir), "."),
        _ => panic!("arguments"),
    }
}

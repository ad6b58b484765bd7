//! The calls, and random ones.

use super::person::{GROUPS, USERS};
use super::values;
use crate::external::*;
use std::fmt;
use uext4_vfs::open_file::OpenFlags;

/// Files that are open at a time.
pub const SLOTS: usize = 3;

/// A name in a directory, which is at most two below the sequence's.
#[derive(Clone, PartialEq, Eq)]
pub struct At {
    pub dir: String,
    pub name: &'static str,
}

impl At {
    /// The whole path.
    pub fn path(&self) -> String {
        match self.dir.is_empty() {
            true => self.name.to_owned(),
            false => format!("{}/{}", self.dir, self.name),
        }
    }
}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

/// What a time is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Stay,
    Now,
    At(i64),
}

/// How open(2) makes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    No,
    /// `O_CREAT`
    Missing(u16),
    /// `O_CREAT | O_EXCL`
    New(u16),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Open {
        slot: usize,
        at: At,
        flags: OpenFlags,
        make: Make,
        directory: bool,
    },
    Close(usize),
    Mkdir(At, u16),
    Mknod(At, FileKind, u16, (u32, u32)),
    Symlink(At, usize),
    Link(At, At),
    Unlink(At),
    Rmdir(At),
    Rename(At, At, u32),
    Chmod(At, u16),
    Chown(At, Option<u32>, Option<u32>),
    Truncate(At, u64),
    Utimens(At, To, To),
    Get(At, &'static str),
    Set(At, &'static str, Vec<u8>, u32),
    List(At),
    Remove(At, &'static str),
    Access(At, u8),
    Readdir(At),
    Readlink(At),
    Stat(At),
    Flags(At),
    /// The flags that change.
    SetFlags(At, u32),
    /// The flags as `FS_IOC_FSSETXATTR` has them, and the project.
    SetProject(At, u32, u32),
    Tmpfile {
        slot: usize,
        dir: At,
        flags: OpenFlags,
        mode: u16,
    },
    LinkOpen(usize, At),
    Write(usize, u64, Vec<u8>),
    Read(usize, u64, usize),
    Ftruncate(usize, u64),
    Fallocate(usize, Fallocate, u64, u64),
    /// For a hole, or for data.
    Seek(usize, bool, u64),
    StatOpen(usize),
    ListOpen(usize),
}

/// One byte more than a name may have.
const LONG_NAME: &str = match std::str::from_utf8(&[b'n'; 256]) {
    Ok(name) => name,
    Err(_) => "",
};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Where something may be: in a directory that is there, as `kind` says.
fn at(rng: &mut Rng, kind: &dyn Fn(&At) -> Option<FileKind>) -> At {
    let mut dir = String::new();
    for _ in 0..[0, 0, 0, 1, 1, 2][rng.usize(..6)] {
        let below = At {
            dir: dir.clone(),
            name: NAMES[rng.usize(..NAMES.len())],
        };
        if kind(&below) == Some(FileKind::Directory) {
            dir = below.path();
        }
    }
    let name = NAMES[rng.usize(..NAMES.len())];
    At { dir, name }
}

fn mode(rng: &mut Rng) -> u16 {
    match rng.u8(..4) {
        0 => rng.u16(..0o10000),
        1 => 0o777 | rng.u16(..8) << 9,
        _ => [0o755, 0o644, 0o770, 0o700, 0o666, 0o777, 0o750, 0o070][rng.usize(..8)],
    }
}

fn offset(rng: &mut Rng) -> u64 {
    match rng.u8(..3) {
        0 => rng.u64(..20_000),
        1 => 4096 * rng.u64(..6),
        _ => [0, 1, 4095, 4097, 100_000][rng.usize(..5)],
    }
}

fn open_flags(rng: &mut Rng) -> OpenFlags {
    let mut flags = [
        OpenFlags::READ,
        OpenFlags::WRITE,
        OpenFlags::READ | OpenFlags::WRITE,
        OpenFlags::READ | OpenFlags::WRITE,
    ][rng.usize(..4)];
    if flags.contains(OpenFlags::WRITE) {
        flags.set(OpenFlags::APPEND, rng.u8(..4) == 0);
        flags.set(OpenFlags::TRUNCATE, rng.u8(..5) == 0);
    }
    flags
}

fn to(rng: &mut Rng) -> To {
    match rng.u8(..3) {
        0 => To::Now,
        1 => To::Stay,
        _ => To::At([0, 1, 86_400 * 365, 999_999_999, 5_000_000_000][rng.usize(..5)]),
    }
}

fn id(rng: &mut Rng, ids: &[u32]) -> Option<u32> {
    (rng.u8(..3) != 0).then(|| ids[rng.usize(..ids.len())])
}

impl Call {
    /// One that makes things, to begin with.
    pub fn random_making(rng: &mut Rng, kind: &dyn Fn(&At) -> Option<FileKind>) -> Call {
        let place = at(rng, kind);
        match rng.u8(..8) {
            0..3 => Call::Mkdir(place, mode(rng)),
            3 => Call::Chown(place, id(rng, &USERS), Some(GROUPS[rng.usize(..5)])),
            4 => Call::Chmod(place, mode(rng)),
            5 => {
                let value = values::acl(rng, false);
                Call::Set(place, values::ACLS[rng.usize(..2)], value, 0)
            }
            _ => Call::Open {
                slot: rng.usize(..SLOTS),
                at: place,
                flags: OpenFlags::READ | OpenFlags::WRITE,
                make: Make::Missing(mode(rng)),
                directory: false,
            },
        }
    }

    /// Any.
    pub fn random(rng: &mut Rng, kind: &dyn Fn(&At) -> Option<FileKind>) -> Call {
        match rng.u8(..100) {
            0..45 => Call::random_of_names(rng, kind),
            45..75 => Call::random_of_attributes(rng, kind),
            _ => Call::random_of_open(rng, kind),
        }
    }

    fn random_of_names(rng: &mut Rng, kind: &dyn Fn(&At) -> Option<FileKind>) -> Call {
        let mut place = at(rng, kind);
        if rng.u8(..50) == 0 {
            place.name = [".", "..", LONG_NAME][rng.usize(..3)];
        }
        match rng.u8(..20) {
            0..5 => Call::Open {
                slot: rng.usize(..SLOTS),
                at: place,
                flags: open_flags(rng),
                make: match rng.u8(..5) {
                    0 => Make::No,
                    1 => Make::New(mode(rng)),
                    _ => Make::Missing(mode(rng)),
                },
                directory: false,
            },
            5..8 => Call::Mkdir(place, mode(rng)),
            8 => {
                let kinds = [
                    FileKind::Regular,
                    FileKind::Fifo,
                    FileKind::Socket,
                    FileKind::CharDevice,
                    FileKind::BlockDevice,
                ];
                let device = [(0, 0), (1, 3), (300, 70_000)][rng.usize(..3)];
                Call::Mknod(place, kinds[rng.usize(..5)], mode(rng), device)
            }
            9 => Call::Symlink(place, [1, 59, 60, 300][rng.usize(..4)]),
            10..12 => Call::Link(place, at(rng, kind)),
            12..14 => Call::Unlink(place),
            14 => Call::Rmdir(place),
            15 => Call::LinkOpen(rng.usize(..SLOTS), place),
            _ => {
                let flags = [0, 0, 1, 2, 2, 4, 5, 6][rng.usize(..8)];
                Call::Rename(place, at(rng, kind), flags)
            }
        }
    }

    fn random_of_attributes(rng: &mut Rng, kind: &dyn Fn(&At) -> Option<FileKind>) -> Call {
        let place = at(rng, kind);
        match rng.u8(..26) {
            0..3 => Call::Chmod(place, mode(rng)),
            3..6 => match (id(rng, &USERS), id(rng, &GROUPS)) {
                (None, None) => Call::Chown(place, None, Some(2002)),
                (uid, gid) => Call::Chown(place, uid, gid),
            },
            6 => Call::Truncate(place, offset(rng)),
            7 => match (to(rng), to(rng)) {
                (To::Stay, To::Stay) => Call::Utimens(place, To::Now, To::Now),
                (atime, mtime) => Call::Utimens(place, atime, mtime),
            },
            8 => Call::Get(place, values::name(rng)),
            9..12 => {
                let name = values::name(rng);
                Call::Set(place, name, values::value(rng, name), rng.u32(..3))
            }
            12..16 => {
                let value = values::acl(rng, true);
                Call::Set(place, values::ACLS[rng.usize(..2)], value, 0)
            }
            16 => Call::Get(place, values::ACLS[rng.usize(..2)]),
            17 => Call::Remove(place, values::name(rng)),
            18 => Call::Remove(place, values::ACLS[rng.usize(..2)]),
            19 => Call::List(place),
            20 => Call::Flags(place),
            21..24 => Call::SetFlags(place, values::flags(rng)),
            _ => Call::SetProject(place, values::xflags(rng), rng.u32(..8) / 7),
        }
    }

    fn random_of_open(rng: &mut Rng, kind: &dyn Fn(&At) -> Option<FileKind>) -> Call {
        let slot = rng.usize(..SLOTS);
        let (place, flags) = (at(rng, kind), open_flags(rng));
        match rng.u8(..23) {
            0..3 => Call::Access(place, rng.u8(..8)),
            3 => Call::Readdir(place),
            4 => Call::Readlink(place),
            5 => Call::Stat(place),
            6 => Call::Tmpfile {
                slot,
                dir: place,
                flags: flags | OpenFlags::WRITE,
                mode: mode(rng),
            },
            7..10 => Call::Open {
                slot,
                at: place,
                flags,
                make: Make::No,
                directory: rng.u8(..4) == 0,
            },
            10..14 => {
                let len = [0, 1, 100, 5000][rng.usize(..4)];
                Call::Write(slot, offset(rng), vec![rng.u8(1..); len])
            }
            14 => Call::Read(slot, offset(rng), 6000),
            15 => Call::Ftruncate(slot, offset(rng)),
            16..19 => {
                let what = [
                    Fallocate::Allocate,
                    Fallocate::AllocateKeepSize,
                    Fallocate::PunchHole,
                    Fallocate::ZeroRange,
                    Fallocate::ZeroRangeKeepSize,
                ][rng.usize(..5)];
                Call::Fallocate(slot, what, offset(rng), rng.u64(1..20_000))
            }
            19 => Call::Seek(slot, rng.bool(), offset(rng)),
            20 => Call::Close(slot),
            21 => Call::ListOpen(slot),
            _ => Call::StatOpen(slot),
        }
    }

    /// The names that it is about.
    pub fn places(&self) -> Vec<&At> {
        match self {
            Call::Open { at, .. } => vec![at],
            Call::Tmpfile { dir, .. } => vec![dir],
            Call::Link(a, b) | Call::Rename(a, b, _) => vec![a, b],
            Call::Mkdir(at, _)
            | Call::Mknod(at, ..)
            | Call::Symlink(at, _)
            | Call::Unlink(at)
            | Call::Rmdir(at)
            | Call::Chmod(at, _)
            | Call::Chown(at, ..)
            | Call::Truncate(at, _)
            | Call::Utimens(at, ..)
            | Call::Get(at, _)
            | Call::Set(at, ..)
            | Call::List(at)
            | Call::Remove(at, _)
            | Call::Access(at, _)
            | Call::Readdir(at)
            | Call::Readlink(at)
            | Call::Stat(at)
            | Call::Flags(at)
            | Call::SetFlags(at, _)
            | Call::SetProject(at, ..)
            | Call::LinkOpen(_, at) => vec![at],
            _ => Vec::new(),
        }
    }

    /// The open file that it is about.
    pub fn slot(&self) -> Option<usize> {
        match self {
            Call::LinkOpen(slot, _)
            | Call::Write(slot, ..)
            | Call::Read(slot, ..)
            | Call::Ftruncate(slot, _)
            | Call::Fallocate(slot, ..)
            | Call::Seek(slot, ..)
            | Call::StatOpen(slot)
            | Call::ListOpen(slot) => Some(*slot),
            _ => None,
        }
    }

    /// Whether the kernel opens the file for it, or follows a link: then what is neither file nor directory is
    /// left alone.
    pub fn opens(&self) -> bool {
        matches!(
            self,
            Call::Open { .. }
                | Call::Truncate(..)
                | Call::Flags(_)
                | Call::SetFlags(..)
                | Call::SetProject(..)
        )
    }
}

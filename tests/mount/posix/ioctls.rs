//! Flags, generations, trimming, maps of blocks.

use crate::on_attributes::SETFLAGS;
use crate::*;

pub const CASES: [Case; 6] = [
    ("ioctl_flags", flags),
    ("ioctl_flags_users", flags_users),
    ("ioctl_fsxattr", fsxattr),
    ("ioctl_generation", generation),
    ("ioctl_file_system", file_system),
    ("ioctl_blocks", blocks),
];

#[rustfmt::skip]
const ALLOWED: [Allowed; 8] = [
    // The kernel does not pass to FUSE which capabilities root is without.
    ("ioctl_flags", "set flags 0x4000: EPERM", "done"),
    ("ioctl_flags", "flags = 0x80000", "flags = 0x84000"),
    // Nothing here would follow the flag.
    ("ioctl_flags", "set flags 0x400000 done", "EOPNOTSUPP"),
    ("ioctl_flags", "flags = 0x480000", "flags = 0x80000"),
    // FUSE has no such thing.
    ("ioctl_file_system", "GETFSUUID = ", "ENOTTY"),
    ("ioctl_blocks", "FIEMAP = ", "EOPNOTSUPP"),
    ("ioctl_blocks", "FIBMAP 0 = true", "false"),
    ("ioctl_blocks", "FIBMAP 2 = true", "false"),
];

#[test]
fn ioctl_calls() {
    compare(&CASES, &ALLOWED);
}

const FSGETXATTR: c_ulong = 0x801c_581f;
const FSSETXATTR: c_ulong = 0x401c_5820;
const GETVERSION: c_ulong = 0x8008_7601;
const SETVERSION: c_ulong = 0x4008_7602;
const FITRIM: c_ulong = 0xc018_5879;
const FIEMAP: c_ulong = 0xc020_660b;
const SWAP_BOOT: c_ulong = 0x6611;
const GETFSUUID: c_ulong = 0x8011_1500;
const GETFSLABEL: c_ulong = 0x8100_9431;
const FIBMAP: c_ulong = 1;
const FIGETBSZ: c_ulong = 2;

fn flags(s: &mut Scene) {
    let fd = s.file("f", 1);
    s.mkdir("d", 0o755);
    s.flags(fd);
    for bit in 0..32 {
        s.set_flags(fd, 1 << bit);
        s.flags(fd);
        s.set_flags(fd, 0);
    }
    let d = s.open("d", O_RDONLY, 0);
    s.flags(d);
    for bit in [3, 4, 5, 6, 7, 14, 16, 17, 25, 29, 30] {
        s.set_flags(d, 1 << bit);
        s.flags(d);
        s.set_flags(d, 0);
    }
    // What a directory hands down.
    s.set_flags(d, 0x201_00f8 & !0x30);
    s.mkdir("d/d", 0o755);
    let in_d = s.file("d/f", 1);
    s.flags(in_d);
    let d_in_d = s.open("d/d", O_RDONLY, 0);
    s.flags(d_in_d);
    s.changes("f", |s| s.set_flags(fd, 0x80));
    s.symlink("f", "l");
    let l = s.open("l", O_PATH | O_NOFOLLOW, 0);
    s.flags(l);
    s.mknod("p", S_IFIFO | 0o600, (0, 0));
    let p = s.open("p", O_RDWR, 0);
    s.flags(p);
    s.set_flags(p, 0x40);
}

fn flags_users(s: &mut Scene) {
    s.file("f", 1);
    let other = s.open("f", O_RDONLY, 0);
    s.chown("f", 1001, 1001);
    for uid in [1001, 1002] {
        s.as_user(uid, &[uid], |s| {
            let fd = s.open("f", O_RDONLY, 0);
            s.flags(fd);
            for flags in [0x40, 0x80, 0x10, 0x20, 0x4000, 0] {
                s.set_flags(fd, flags);
            }
        });
    }
    s.set_flags(other, 0x10);
    s.as_user(1001, &[1001], |s| s.set_flags(other, 0));
    s.set_flags(other, 0);
    let flags = 0x1234_5678_0008_0040u64;
    s.done(
        "flags with more bits",
        call!(ioctl, other, SETFLAGS, &raw const flags),
    );
    s.done(
        "flags of nothing",
        call!(ioctl, -1, SETFLAGS, &raw const flags),
    );
}

fn fsxattr(s: &mut Scene) {
    let fd = s.file("f", 1);
    s.mkdir("d", 0o755);
    let d = s.open("d", O_RDONLY, 0);
    for (name, fd) in [("file", fd), ("directory", d)] {
        for flags in [
            0,
            0x8,
            0x10,
            0x20,
            0x40,
            0x80,
            0x200,
            0x1,
            0x800,
            0x8000,
            0x8000_0000,
            0,
        ] {
            let mut x = [0u32; 7];
            x[0] = flags;
            let answer = call!(ioctl, fd, FSSETXATTR, x.as_ptr());
            s.done(format!("FSSETXATTR of a {name} {flags:#x}"), answer);
            let answer = call!(ioctl, fd, FSGETXATTR, x.as_mut_ptr());
            s.shown("FSGETXATTR", answer.map(|_| format!("{x:x?}")));
            s.flags(fd);
        }
    }
    let mut x = [0u32; 7];
    x[3] = 5;
    s.done("a project", call!(ioctl, fd, FSSETXATTR, x.as_ptr()));
    x = [0, 4096, 0, 0, 0, 0, 0];
    s.done(
        "a size of extents",
        call!(ioctl, fd, FSSETXATTR, x.as_ptr()),
    );
}

fn generation(s: &mut Scene) {
    let fd = s.file("f", 1);
    let first = s.quietly(fd, GETVERSION);
    s.line(format_args!("there is one: {}", first.is_ok()));
    s.ioctl("SETVERSION", fd, SETVERSION, 77);
    let same = |s: &mut Scene, number| {
        let now = s.quietly(fd, number);
        s.line(format_args!("the same: {}", now == first));
    };
    same(s, GETVERSION);
    same(s, 0x8008_6603);
    s.ioctl("SETVERSION of ext4", fd, 0x4008_6604, 78);
    same(s, GETVERSION);
    s.chown("f", 1001, 1001);
    s.as_user(1002, &[1002], |s| {
        s.ioctl("SETVERSION", fd, SETVERSION, 79);
        same(s, GETVERSION);
    });
}

fn file_system(s: &mut Scene) {
    let fd = s.file("f", 5000);
    let trim = |s: &mut Scene, range: [u64; 3]| {
        let mut range = range;
        let answer = call!(ioctl, fd, FITRIM, range.as_mut_ptr());
        s.done(
            format!("FITRIM of {range:?}")
                .split("of")
                .next()
                .unwrap_or(""),
            answer,
        );
    };
    trim(s, [0, u64::MAX, 0]);
    trim(s, [0, 1 << 20, 4096]);
    trim(s, [1 << 50, 1 << 20, 0]);
    trim(s, [0, 100, 0]);
    trim(s, [0, u64::MAX, 1 << 40]);
    s.as_user(1001, &[1001], |s| trim(s, [0, u64::MAX, 0]));
    let mut uuid = [0u8; 17];
    let answer = call!(ioctl, fd, GETFSUUID, uuid.as_mut_ptr());
    s.shown("GETFSUUID", answer.map(|_| format!("{uuid:x?}")));
    let mut label = [0u8; 256];
    s.done(
        "GETFSLABEL",
        call!(ioctl, fd, GETFSLABEL, label.as_mut_ptr()),
    );
    s.ioctl("FIGETBSZ", fd, FIGETBSZ, 0);
    s.ioctl("FIONREAD", fd, FIONREAD, 0);
    s.ioctl("no such ioctl", fd, 0x8008_66ff, 0);
    s.ioctl("one of terminals", fd, TCGETS, 0);
    s.ioctl("SWAP_BOOT of a hole", fd, SWAP_BOOT, 0);
    s.pread(fd, 10_000, 0);
    s.fstat(fd);
    s.ioctl("SWAP_BOOT back", fd, SWAP_BOOT, 0);
    s.pread(fd, 10_000, 0);
    s.fstat(fd);
    s.as_user(1001, &[1001], |s| {
        s.ioctl("SWAP_BOOT", fd, SWAP_BOOT, 0);
    });
}

fn blocks(s: &mut Scene) {
    let fd = s.file("f", 10_000);
    s.pwrite(fd, &[b'y'; 4096], 40_960);
    s.fallocate(fd, FALLOC_FL_KEEP_SIZE, 81_920, 8192);
    s.fsync(fd);
    let mut map = [0u64; 4 + 10 * 7];
    map[1] = u64::MAX;
    map[3] = 10;
    let answer = call!(ioctl, fd, FIEMAP, map.as_mut_ptr());
    let extents = |map: &[u64]| {
        let count = (map[2] >> 32) as usize;
        let extent = |at: usize| {
            let e = &map[4 + 7 * at..];
            format!("{}+{} {:#x}", e[0], e[2], e[5] as u32)
        };
        (0..count).map(extent).collect::<Vec<_>>().join(", ")
    };
    s.shown("FIEMAP", answer.map(|_| extents(&map)));
    for at in [0, 2, 5] {
        let mut block: c_int = at;
        let answer = call!(ioctl, fd, FIBMAP, &raw mut block);
        s.shown(format!("FIBMAP {at}"), answer.map(|_| block != 0));
    }
}

//! What is done with a damaged image: a walk, then operations of the script.

use crate::input::Input;
use std::sync::Arc;
use uext4_block::{BlockDevice, MemoryDevice};
use uext4_check::{CheckError, CheckOptions, CheckReport, Fault, FaultKind, NoProgress};
use uext4_ext4::{DataMode, Ext4, InodeRef};
use uext4_ondisk::InodeFlags;
use uext4_testkit::image::mount_in;
use uext4_vfs::attr::{FileKind, NewKind, NewNode, RenameFlags, SetAttr, XattrFlags};
use uext4_vfs::io::{Fallocate, IoFlags};
use uext4_vfs::{Caller, FileSystem};

/// The most names of a walk.
const NAMES_MAX: usize = 300;

/// The most operations of a script.
const OPERATIONS_MAX: usize = 40;

/// The stack of the thread that works: that of a server's threads.
const STACK_BYTES: usize = 2 << 20;

const ATTRIBUTES: [&[u8]; 8] = [
    b"user.small",
    b"user.large",
    b"user.huge",
    b"user.new",
    b"user.x",
    b"security.selinux",
    b"system.posix_acl_access",
    b"system.posix_acl_default",
];

const RANGES: [Fallocate; 7] = [
    Fallocate::Allocate,
    Fallocate::AllocateKeepSize,
    Fallocate::PunchHole,
    Fallocate::ZeroRange,
    Fallocate::ZeroRangeKeepSize,
    Fallocate::CollapseRange,
    Fallocate::InsertRange,
];

fn check(device: &MemoryDevice) -> Result<CheckReport, CheckError> {
    let options = CheckOptions {
        threads: 1,
        ..CheckOptions::default()
    };
    uext4_check::check(device, &options, &NoProgress)
}

/// What the verifier finds wrong.
pub fn faults(device: &MemoryDevice) -> Vec<String> {
    let report = match check(device) {
        Ok(report) => report,
        Err(why) => return vec![why.to_string()],
    };
    // An error on record is none: the engine records what it finds in the content of an ACL, which verifiers do not read.
    let mut faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    if report.incomplete {
        faults.push("the verifier left something out".to_owned());
    }
    faults
}

/// Runs something on a stack of a server's size.
pub fn on_a_servers_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let run = thread.spawn_scoped(scope, run).expect("a thread");
        run.join().expect("no panic");
    });
}

/// Whether the verifier finds nothing wrong, and notes no structure that it reads as e2fsck does and that the engine, as the kernel,
/// refuses, nor a pointer of the resize inode to a block that is free.
fn is_sound(device: &MemoryDevice) -> bool {
    let is_damage =
        |note: &Fault| matches!(note.kind, FaultKind::Structure(_) | FaultKind::ResizeInode);
    faults(device).is_empty()
        && check(device).is_ok_and(|report| !report.notes.iter().any(is_damage))
}

/// Works on an image: what the verifier finds nothing wrong with, the engine leaves so.
pub fn leaves_no_damage(device: &Arc<MemoryDevice>, input: &mut Input<'_>) {
    save(device, "before");
    let was_sound = is_sound(device);
    on(device, input);
    save(device, "after");
    if was_sound {
        let faults = faults(device);
        assert!(
            faults.is_empty(),
            "work on a sound image damaged it: {faults:#?}"
        );
    }
}

/// Keeps the image in the directory that `UEXT4_FUZZ_SAVE` names, to be examined.
fn save(device: &MemoryDevice, name: &str) {
    if let Some(dir) = std::env::var_os("UEXT4_FUZZ_SAVE") {
        let path = std::path::Path::new(&dir).join(name);
        device.save_to(&path).expect("saved");
    }
}

/// Mounts and works, on a stack of a server's size; errors are to be expected.
fn on(device: &Arc<MemoryDevice>, input: &mut Input<'_>) {
    on_a_servers_stack(|| mounted(device, input));
}

fn mounted(device: &Arc<MemoryDevice>, input: &mut Input<'_>) {
    let kind = input.u8();
    let modes = [None, Some(DataMode::Journal), Some(DataMode::Writeback)];
    let data = modes[usize::from(kind) % 3];
    let Ok(fs) = mount_in(
        Arc::clone(device) as Arc<dyn BlockDevice>,
        u64::from(kind / 3),
        data,
    ) else {
        return;
    };
    let mut nodes = walk(&fs);
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() || nodes.is_empty() {
            break;
        }
        operation(&fs, &mut nodes, input);
    }
    drop(nodes);
    let _ = fs.statfs();
    let _ = fs.syncfs();
    let _ = fs.unmount();
}

/// A name that the walk found, and what has it.
struct Found {
    dir: InodeRef,
    name: Vec<u8>,
    node: InodeRef,
}

/// Looks up and reads everything there is, up to a limit. The root is the first.
fn walk(fs: &Ext4) -> Vec<Found> {
    let caller = Caller::root();
    let mut found = Vec::new();
    let Ok(root) = fs.root() else {
        return found;
    };
    found.push(Found {
        dir: root.clone(),
        name: b".".to_vec(),
        node: root.clone(),
    });
    let mut left = vec![root.clone()];
    while let Some(dir) = left.pop() {
        let mut names = Vec::new();
        let mut last = 0;
        let _ = fs.readdir(&caller, &dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            last = entry.cookie;
            names.len() < NAMES_MAX
        });
        let _ = fs.readdir(&caller, &dir, last, &mut |_| false);
        let _ = fs.list_readable(&dir);
        for name in names {
            if name == b"." || name == b".." || found.len() >= NAMES_MAX {
                continue;
            }
            let Ok(node) = fs.lookup(&caller, &dir, &name) else {
                continue;
            };
            read(fs, &node);
            if fs
                .getattr(&node)
                .is_ok_and(|attr| attr.kind == FileKind::Directory)
            {
                left.push(node.clone());
            }
            found.push(Found {
                dir: dir.clone(),
                name,
                node,
            });
        }
    }
    found
}

fn read(fs: &Ext4, node: &InodeRef) {
    let caller = Caller::root();
    let Ok(attr) = fs.getattr(node) else {
        return;
    };
    let mut data = vec![0; 20_000];
    let _ = FileSystem::read(fs, node, 0, &mut data);
    let _ = FileSystem::read(fs, node, attr.size.saturating_sub(100), &mut data);
    let _ = fs.seek_data(node, 0).and_then(|at| fs.seek_hole(node, at));
    let _ = fs.readlink(&caller, node);
    for name in fs.listxattr(&caller, node).unwrap_or_default() {
        let _ = fs.getxattr(&caller, node, &name);
    }
}

/// Writes or allocates blocks that do not touch each other: the tree of extents gets leaves, and levels.
fn comb(fs: &Ext4, node: &InodeRef, input: &mut Input<'_>) {
    let block = u64::from(fs.statfs().map_or(1024, |all| all.block_size));
    let (kind, first, count) = (input.u8(), u64::from(input.u8()), u64::from(input.u8()));
    let step = 2 + u64::from(kind / 8 % 4);
    for at in (0..count).map(|i| (first + i * step) * block) {
        let done = match kind % 4 {
            0 => FileSystem::write(fs, node, at, &[1; 100]).map(drop),
            1 => fs.fallocate(node, Fallocate::PunchHole, at, block),
            2 => fs.fallocate(node, Fallocate::ZeroRange, at, block),
            _ => fs.fallocate(node, Fallocate::AllocateKeepSize, at, block),
        };
        if done.is_err() {
            break;
        }
    }
}

fn operation(fs: &Ext4, nodes: &mut Vec<Found>, input: &mut Input<'_>) {
    let caller = Caller::root();
    let at = input.below(nodes.len());
    let to = input.below(nodes.len());
    let (node, other) = (&nodes[at].node, &nodes[to].node);
    match input.u8() % 26 {
        kind @ 0..=2 => {
            // Long ones split blocks of directories soon.
            let long = usize::from(input.u8() % 4) * 60;
            let name = format!("new{}{}", input.u8(), "n".repeat(long)).into_bytes();
            let new = NewNode {
                mode: 0o755,
                kind: [
                    NewKind::Regular,
                    NewKind::Directory,
                    NewKind::Symlink(b"target"),
                ][usize::from(kind)],
            };
            if let Ok(made) = fs.create(&caller, node, &name, &new) {
                nodes.push(Found {
                    dir: nodes[at].node.clone(),
                    name,
                    node: made,
                });
            }
        }
        3 => drop(fs.unlink(&caller, &nodes[at].dir, &nodes[at].name)),
        4 => drop(fs.rmdir(&caller, &nodes[at].dir, &nodes[at].name)),
        5 => drop(fs.link(&caller, node, other, b"link")),
        6 => {
            let flags = RenameFlags::from_bits_truncate(u32::from(input.u8() % 8));
            let name = match input.u8() % 2 {
                0 => b"moved".to_vec(),
                _ => nodes[to].name.clone(),
            };
            let from = &nodes[at];
            let into = if input.u8().is_multiple_of(2) {
                other
            } else {
                &nodes[to].dir
            };
            let _ = fs.rename(&caller, &from.dir, &from.name, into, &name, flags);
        }
        7 | 8 => {
            let (place, len) = (input.position(), input.u16());
            let data = vec![5; usize::from(len) % 9000];
            let _ = FileSystem::write(fs, node, place, &data);
        }
        9 => {
            let place = input.position() & !511;
            let data = uext4_testkit::aligned::Aligned::of(&[6; 4096]);
            let _ = fs.write_with(node, place, data.bytes(), IoFlags::DIRECT);
        }
        10 => drop(fs.append(node, &[7; 3000])),
        11 | 12 => {
            let mut change = SetAttr::default();
            match input.u8() % 3 {
                0 => change.mode = Some(input.u16() & 0o7777),
                _ => change.size = Some(input.position()),
            }
            let _ = fs.setattr(&caller, node, &change);
        }
        13 | 14 => {
            let what = *input.choose(&RANGES).unwrap_or(&Fallocate::PunchHole);
            // What moves data wants whole blocks.
            let (place, len) = match input.u8().is_multiple_of(2) {
                true => (
                    u64::from(input.u8() % 32) << 12,
                    u64::from(input.u8() % 8) << 12,
                ),
                false => (input.position(), input.position()),
            };
            // Allocating is bounded by the device; zeroing and moving is by the size of the file.
            let _ = fs.fallocate(node, what, place, len);
        }
        15 | 16 => {
            let name = *input.choose(&ATTRIBUTES).unwrap_or(&ATTRIBUTES[0]);
            let value = match input.u8() % 3 {
                0 => input.bytes(44).to_vec(),
                1 => vec![8; usize::from(input.u8()) * 4],
                _ => vec![9; usize::from(input.u16()) % 5000],
            };
            let _ = fs.setxattr(&caller, node, name, &value, XattrFlags::empty());
        }
        17 => {
            let name = *input.choose(&ATTRIBUTES).unwrap_or(&ATTRIBUTES[0]);
            let _ = fs.removexattr(&caller, node, name);
        }
        18 => read(fs, node),
        19 | 20 => comb(fs, node, input),
        21 => {
            // Many names of one file: leaves of a directory split, and its tree grows.
            for number in 0..input.u8() {
                let name = format!("{number}{}", "l".repeat(usize::from(number) % 240));
                let _ = fs.link(&caller, other, node, name.as_bytes());
            }
        }
        22 => drop(fs.files.swap_boot(&caller, node)),
        23 => {
            let flags = InodeFlags::from_bits_retain(input.u32());
            let _ = fs.files.set_flags(&caller, node, flags);
        }
        24 => {
            let place = input.position();
            let _ = fs.read_with(node, place, &mut [0; 5000], IoFlags::NOWAIT);
            let _ = fs.write_with(node, place, &[4; 1000], IoFlags::NOWAIT);
        }
        _ => {
            let _ = fs.fsync(node, input.u8().is_multiple_of(2));
            let name = input.bytes(20);
            let _ = fs.lookup(&caller, node, name);
            let cookie = input.u64();
            let mut count = 0;
            let _ = fs.readdir(&caller, node, cookie, &mut |_| {
                count += 1;
                count < NAMES_MAX
            });
        }
    }
}

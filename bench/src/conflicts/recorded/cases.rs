//! The initial state, and the calls of each virtual CPU in it.
//!
//! A CPU has a directory of its own and shares another with the second CPU, which a third made. In both it has a file
//! and names of its own; one file they share. Files made by one CPU lie side by side in the inode table.

use super::call::{Call, IO_BYTES, What, World};
use super::cpu::Cpu;
use super::recorded::Recorded;
use crate::aligned::AlignedBuf;
use crate::quiet_image::mounted;
use anyhow::{Context as _, Result};
use std::collections::HashMap;
use std::sync::Arc;
use uext4_ext4::MountOptions;
use uext4_testkit::model::Model;
use uext4_testkit::operation::{Op, apply, find};
use uext4_vfs::ilock::{LockMode, ilock};

/// Bytes of the image and of the files in it.
const IMAGE_BYTES: u64 = 512 << 20;
const FILE_BYTES: usize = 64 << 10;
/// Other names in a directory.
const OTHERS: usize = 20;
/// How often readers of the shared file meet before its lock is made for many.
const READERS_MET: usize = 300;
/// Where the CPU begins in a file that both write.
const APART: u64 = 32 << 10;

/// What the two calls of a case have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Nothing: each in its own directory.
    Own,
    /// The directory.
    Directory,
    /// The file.
    File,
}

/// A call and where it is done.
#[derive(Clone, Debug)]
pub struct Case {
    pub scope: Scope,
    pub call: Call,
}

impl Recorded for Case {
    type World = World;

    fn run(&self, world: &World, buffer: &mut AlignedBuf) -> Result<()> {
        self.call.run(world, buffer)
    }

    fn name(&self) -> String {
        let scope = match self.scope {
            Scope::Own => "own directory",
            Scope::Directory => "shared directory",
            Scope::File => "shared file",
        };
        format!("{:?}, {scope}", self.call.what)
    }
}

/// The directory of a CPU's own, by which of the two it is.
fn own(which: usize) -> &'static str {
    ["a", "b"][which % 2]
}

/// What CPU `which` of the two calls.
pub fn cases(which: usize) -> Vec<Case> {
    let mut cases = apart(which);
    cases.extend(of_one_file(which));
    cases
}

/// Calls in its own directory and in the shared one.
fn apart(which: usize) -> Vec<Case> {
    use What::*;
    let both = [
        (Create, "new", ""),
        (Unlink, "old", ""),
        (UnlinkOpen, "open", ""),
        (Link, "file", "linked"),
        (Rename, "from", "to"),
        (RenameAcross, "from", "to"),
        (Lookup, "file", ""),
        (LookupMissing, "missing", ""),
        (Stat, "file", ""),
        (StatPath, "file", ""),
        (Mkdir, "newdir", ""),
        (Rmdir, "olddir", ""),
        (Read, "file", ""),
        (ReadDirect, "file", ""),
        (Write, "file", ""),
        (WriteDirect, "file", ""),
        (Append, "tail", ""),
        (Truncate, "tail", ""),
        (Fallocate, "tail", ""),
        (Chmod, "file", ""),
        (Utimens, "file", ""),
        (Getxattr, "file", ""),
        (Setxattr, "file", ""),
        (Fsync, "synced", ""),
    ];
    let mut cases = Vec::new();
    for (scope, dir) in [(Scope::Own, own(which)), (Scope::Directory, "s")] {
        let path = |name: &str| format!("{dir}/{name}{which}").into_bytes();
        for (what, name, new) in both {
            let call = Call {
                what,
                path: path(name),
                new: if new.is_empty() {
                    Vec::new()
                } else {
                    path(new)
                },
                at: 0,
            };
            cases.push(Case { scope, call });
        }
        let call = Call {
            what: Readdir,
            path: dir.into(),
            new: Vec::new(),
            at: 0,
        };
        cases.push(Case { scope, call });
    }
    cases
}

/// Calls of the shared file.
fn of_one_file(which: usize) -> impl Iterator<Item = Case> {
    use What::*;
    let all = [
        Lookup,
        Stat,
        StatPath,
        Read,
        ReadDirect,
        Write,
        WriteDirect,
        Getxattr,
    ];
    all.into_iter().map(move |what| Case {
        scope: Scope::File,
        call: Call {
            what,
            path: b"s/both".to_vec(),
            new: Vec::new(),
            at: which as u64 * APART,
        },
    })
}

/// The CPU that makes what the other two share.
pub const MAKER: usize = 2;

/// The order in which they make the initial state.
const MAKERS: [usize; 3] = [MAKER, 0, 1];

/// What a CPU makes of the initial state.
fn made_by(which: usize) -> Vec<Op> {
    let mut ops = Vec::new();
    let file = |ops: &mut Vec<Op>, path: String, bytes: usize| {
        let path = path.into_bytes();
        ops.push(Op::Create {
            path: path.clone(),
            mode: 0o644,
        });
        if bytes > 0 {
            let (name, value) = (b"user.x".to_vec(), b"value".to_vec());
            ops.push(Op::Append {
                path: path.clone(),
                data: vec![7; bytes],
            });
            ops.push(Op::SetXattr { path, name, value });
        }
    };
    let dir = |ops: &mut Vec<Op>, path: String| {
        let (path, mode) = (path.into_bytes(), 0o755);
        ops.push(Op::Mkdir { path, mode });
    };
    if which == MAKER {
        dir(&mut ops, "s".into());
        dir(&mut ops, "s2".into());
        file(&mut ops, "s/both".into(), FILE_BYTES);
        return ops;
    }
    dir(&mut ops, own(which).into());
    dir(&mut ops, format!("{}2", own(which)));
    for at in [own(which), "s"] {
        for n in 0..OTHERS {
            file(&mut ops, format!("{at}/other{which}-{n}"), 0);
        }
        file(&mut ops, format!("{at}/file{which}"), FILE_BYTES);
        file(&mut ops, format!("{at}/tail{which}"), 3 * IO_BYTES);
        file(&mut ops, format!("{at}/synced{which}"), IO_BYTES);
        for name in ["old", "open", "from"] {
            file(&mut ops, format!("{at}/{name}{which}"), 0);
        }
        dir(&mut ops, format!("{at}/olddir{which}"));
    }
    ops
}

/// What a CPU did before, so that it has its journal handle's blocks and its places: its calls, and back.
fn warm_up(which: usize) -> Vec<Op> {
    if which == MAKER {
        return Vec::new();
    }
    let once = [own(which), "s"]
        .into_iter()
        .flat_map(|at| [name_calls(at, which), data_calls(at, which)])
        .flatten();
    let once: Vec<Op> = once.collect();
    [once.clone(), once].concat()
}

fn named(at: &str, name: &str, which: usize) -> Vec<u8> {
    format!("{at}/{name}{which}").into_bytes()
}

fn name_calls(at: &str, which: usize) -> Vec<Op> {
    let path = |name: &str| named(at, name, which);
    let (old, new) = (path("from"), path("to"));
    let across = format!("{at}2/to{which}").into_bytes();
    let create = |name: &str| Op::Create {
        path: path(name),
        mode: 0o644,
    };
    let unlink = |name: &str| Op::Unlink {
        path: path(name),
        keep: false,
    };
    let rename = |old: &[u8], new: &[u8]| Op::Rename {
        old: old.to_vec(),
        new: new.to_vec(),
        flags: uext4_vfs::RenameFlags::empty(),
    };
    vec![
        create("new"),
        unlink("new"),
        Op::Mkdir {
            path: path("newdir"),
            mode: 0o755,
        },
        Op::Rmdir {
            path: path("newdir"),
        },
        Op::Link {
            old: path("file"),
            new: path("linked"),
        },
        unlink("linked"),
        rename(&old, &new),
        rename(&new, &old),
        rename(&old, &across),
        rename(&across, &old),
    ]
}

fn data_calls(at: &str, which: usize) -> Vec<Op> {
    let path = |name: &str| named(at, name, which);
    let chmod = |(name, mode): (&str, u16)| Op::Chmod {
        path: path(name),
        mode,
    };
    let modes = [
        ("file", 0o644),
        ("tail", 0o644),
        ("old", 0o644),
        ("open", 0o644),
        ("olddir", 0o755),
    ];
    let mut ops: Vec<Op> = modes.into_iter().map(chmod).collect();
    ops.extend([
        Op::SetXattr {
            path: path("file"),
            name: b"user.x".to_vec(),
            value: b"value".to_vec(),
        },
        Op::Append {
            path: path("tail"),
            data: vec![7; IO_BYTES],
        },
        Op::Truncate {
            path: path("tail"),
            size: 3 * IO_BYTES as u64,
        },
    ]);
    let both = (b"s/both".to_vec(), which as u64 * APART);
    for (path, at) in [(path("file"), 0), both] {
        for direct in [false, true] {
            let (path, data) = (path.clone(), vec![7; IO_BYTES]);
            ops.push(Op::Write {
                path,
                at,
                data,
                direct,
            });
        }
    }
    ops
}

/// The model in the initial state.
pub fn model() -> Model {
    let mut model = Model::new();
    for op in MAKERS.iter().flat_map(|which| made_by(*which)) {
        let done = model.apply(&op);
        debug_assert!(done.is_ok(), "{op:?}: {done:?}");
    }
    model
}

/// Makes the image and mounts it; each CPU makes what is its own. With `cold` a transaction begins after that.
pub fn world(cpus: &[Cpu; 3], options: &MountOptions, cold: bool) -> Result<Arc<World>> {
    let fs = mounted(IMAGE_BYTES, None, options)?;
    for jobs in [made_by as fn(usize) -> Vec<Op>, warm_up] {
        // What was made is durable, and what follows is part of the next transaction.
        fs.sync()?;
        for which in MAKERS {
            let fs = Arc::clone(&fs);
            cpus[which].run(move || {
                for op in jobs(which) {
                    let done = apply(&*fs, &op);
                    done.with_context(|| format!("preparing: {op:?}"))?;
                }
                Ok(())
            })?;
        }
    }
    let mut nodes = HashMap::new();
    for path in model().tree().into_keys() {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(&path);
        if !name.starts_with(b"old") {
            nodes.insert(path.clone(), find(&*fs, &path)?);
        }
    }
    let world = Arc::new(World { fs, nodes });
    // What was read has its access time, and files that many read have got what they need for that.
    let root = ilock(&world.fs.namei.root()?.ilock, LockMode::Shared);
    let shared = ilock(&world.node(b"s/both")?.ilock, LockMode::Shared);
    for (which, cpu) in cpus.iter().enumerate().take(2) {
        let world = Arc::clone(&world);
        cpu.run(move || {
            let cases = cases(which).into_iter().map(|case| case.call);
            for call in cases.filter(Call::only_reads) {
                for _ in 0..READERS_MET {
                    call.run(&world, &mut call.buffer())?;
                }
            }
            Ok(())
        })?;
    }
    drop((shared, root));
    if cold {
        world.fs.sync()?;
    }
    Ok(world)
}

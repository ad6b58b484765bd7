//! A server that keeps names in memory and nothing else: what the kernel and a transport cost by themselves,
//! and so what no server exceeds.

use super::target::Transport;
use crate::variants::Named;
use clap::Args;
use rustix::io::dup;
use rustix::process::{getegid, geteuid};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use uext4_fuse::abi::{Opcode, ROOT_ID, output};
use uext4_fuse::handler::{Handler, put};
use uext4_fuse::{
    KernelOptions, Mountpoint, Request, ServeOptions, TransportResources, serve_handler,
};
use uext4_sync::{CachePadded, Mutex, class};
use uext4_vfs::Errno;

/// The time that ours are valid.
const VALID_SECONDS: u64 = u32::MAX as u64;

/// Of the names; a power of two.
const SHARDS: usize = 64;

/// Where it is mounted.
#[derive(Clone, Debug, Args)]
pub struct NullArgs {
    /// How the kernel reaches it
    #[arg(long, default_value = "dev", value_parser = Transport::named)]
    pub transport: Transport,
    /// The mount point
    pub dir: PathBuf,
}

/// A name in a directory.
type Name = (u64, Box<[u8]>);

/// Names, and the nodes they stand for. A node with an even number is a directory, as the root is.
struct Null {
    names: Vec<CachePadded<Mutex<HashMap<Name, u64>>>>,
    hasher: RandomState,
    /// The numbers of new nodes come from it, two at a time.
    next: CachePadded<AtomicU64>,
}

impl Null {
    fn new() -> Null {
        let shard = || CachePadded::new(Mutex::new(&class::FUSE_NODES, HashMap::new()));
        Null {
            names: (0..SHARDS).map(|_| shard()).collect(),
            hasher: RandomState::new(),
            next: CachePadded::new(AtomicU64::new(ROOT_ID + 1)),
        }
    }

    fn shard(&self, name: &Name) -> &Mutex<HashMap<Name, u64>> {
        &self.names[self.hasher.hash_one(name) as usize % SHARDS]
    }

    /// The node of a new name.
    fn add(&self, name: Name, directory: bool) -> Result<u64, Errno> {
        let even = self.next.fetch_add(2, Relaxed);
        let node = if directory { even } else { even + 1 };
        match self.shard(&name).lock().insert(name, node) {
            None => Ok(node),
            Some(_) => Err(Errno::EEXIST),
        }
    }

    fn lookup(&self, name: &Name) -> output::Entry {
        match self.shard(name).lock().get(name) {
            Some(node) => entry(*node),
            // The kernel remembers that there is none.
            None => output::Entry {
                entry_valid: VALID_SECONDS,
                ..output::Entry::default()
            },
        }
    }
}

/// The owner of everything is the server's user.
fn owner() -> (u32, u32) {
    static OWNER: OnceLock<(u32, u32)> = OnceLock::new();
    *OWNER.get_or_init(|| (geteuid().as_raw(), getegid().as_raw()))
}

fn attr(node: u64) -> output::Attr {
    let (uid, gid) = owner();
    let directory = node == ROOT_ID || node.is_multiple_of(2);
    output::Attr {
        ino: node,
        mode: if directory { 0o040_755 } else { 0o100_644 },
        nlink: if directory { 2 } else { 1 },
        uid,
        gid,
        blksize: 4096,
        ..output::Attr::default()
    }
}

fn entry(node: u64) -> output::Entry {
    output::Entry {
        nodeid: node,
        entry_valid: VALID_SECONDS,
        attr_valid: VALID_SECONDS,
        attr: attr(node),
        ..output::Entry::default()
    }
}

impl Handler for Null {
    fn handle(
        &self,
        _worker: usize,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        let name = || Ok((request.header.nodeid, request.name()?.into()));
        let len = match request.opcode {
            Opcode::Lookup => put(out, &self.lookup(&name()?)),
            Opcode::Create => {
                let len = put(out, &entry(self.add(name()?, false)?))?;
                Ok(len + put(&mut out[len..], &output::Open::default())?)
            }
            Opcode::Mkdir => put(out, &entry(self.add(name()?, true)?)),
            Opcode::Unlink | Opcode::Rmdir => {
                let name = name()?;
                let gone = self.shard(&name).lock().remove(&name);
                gone.map(|_| 0).ok_or(Errno::ENOENT)
            }
            Opcode::Getattr => {
                let reply = output::AttrReply {
                    attr_valid: VALID_SECONDS,
                    attr: attr(request.header.nodeid),
                    ..output::AttrReply::default()
                };
                put(out, &reply)
            }
            Opcode::Open => put(out, &output::Open::default()),
            Opcode::Statfs => put(out, &output::Statfs::default()),
            Opcode::Forget
            | Opcode::BatchForget
            | Opcode::Release
            | Opcode::Releasedir
            | Opcode::Readdir
            | Opcode::Readdirplus
            | Opcode::Fsyncdir
            | Opcode::Interrupt
            | Opcode::Destroy => Ok(0),
            _ => Err(Errno::ENOSYS),
        };
        len.map(Some)
    }
}

/// Serves until it is unmounted.
pub fn run(args: &NullArgs) -> anyhow::Result<()> {
    let options = ServeOptions {
        transport: args.transport.kind(),
        ..ServeOptions::default()
    };
    let resources = TransportResources::new(&options)?;
    let kernel = KernelOptions {
        fs_name: "null".to_owned(),
        subtype: "uext4-null".to_owned(),
        uring: args.transport == Transport::Uring,
        acl: true,
        ..KernelOptions::default()
    };
    let mountpoint = Mountpoint::mount(&args.dir, &kernel)?;
    let connection = dup(mountpoint.connection())?;
    let negotiated = mountpoint.negotiated();
    let make = |_, _, _: &[_]| Ok(Null::new());
    Ok(serve_handler(
        make,
        connection,
        resources,
        negotiated,
        &options,
        |_| {},
    )?)
}

//! An ext4 image over FUSE: its ioctls.
//!
//! The numbers and structures are those of `linux/fs.h` and of the kernel's documentation of ext4.

use crate::fs_verity_ioctls::{self, FS_IOC_ENABLE_VERITY, FS_IOC_MEASURE_VERITY};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use uext4::unstable::ondisk::{Generation, Incompat, InodeFlags};
use uext4::unstable::{Durations, Ext4, InodeRef};
use uext4::{BlockDevice, Caller, Capabilities, Errno, Result};
use uext4_fuse::filesystem::VALID_SECONDS;
use uext4_fuse::handler::put;
use uext4_fuse::{FuseFileSystem, Invalidation, IoctlCall};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const FS_IOC_GETVERSION: u32 = 0x8008_7601;
const FS_IOC_SETVERSION: u32 = 0x4008_7602;
const EXT4_IOC_GETVERSION: u32 = 0x8008_6603;
const EXT4_IOC_SETVERSION: u32 = 0x4008_6604;
const EXT4_IOC_SWAP_BOOT: u32 = 0x6611;
const EXT4_IOC_RESIZE_FS: u32 = 0x4008_6610;
/// What fscrypt has: policies, nonces, and keys, which the server gets in its own way.
const FSCRYPT: [u32; 9] = [
    0x800c_6613,
    0x4010_6614,
    0x400c_6615,
    0xc009_6616,
    0xc050_6617,
    0xc040_6618,
    0xc040_6619,
    0xc080_661a,
    0x8010_661b,
];
const FITRIM: u32 = 0xc018_5879;
const FS_IOC_GETFSLABEL: u32 = 0x8100_9431;

/// `FSLABEL_MAX`, in bytes.
const LABEL_BYTES: usize = 256;

/// `struct fsxattr`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct FsXattr {
    xflags: u32,
    extsize: u32,
    nextents: u32,
    projid: u32,
    cowextsize: u32,
    pad: [u8; 8],
}

/// `struct fstrim_range`, in bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct TrimRange {
    start: u64,
    len: u64,
    minlen: u64,
}

/// The flags that both pairs of ioctls have: those of `FS_IOC_GETFLAGS` and the bits of `FS_IOC_FSGETXATTR`.
const XFLAGS: [(InodeFlags, u32); 7] = [
    (InodeFlags::SYNC, 0x20),
    (InodeFlags::IMMUTABLE, 0x8),
    (InodeFlags::APPEND, 0x10),
    (InodeFlags::NODUMP, 0x80),
    (InodeFlags::NOATIME, 0x40),
    (InodeFlags::PROJINHERIT, 0x200),
    (InodeFlags::DAX, 0x8000),
];

fn xflags_of(flags: InodeFlags) -> u32 {
    let set = XFLAGS.iter().filter(|(flag, _)| flags.contains(*flag));
    set.fold(0, |all, (_, bit)| all | bit)
}

/// `flags` with each flag of [`XFLAGS`] set or cleared as in `xflags`. Ignores other bits of `xflags`, as the kernel does.
fn with_xflags(flags: InodeFlags, xflags: u32) -> InodeFlags {
    let mut wanted = flags;
    for (flag, bit) in XFLAGS {
        wanted.set(flag, xflags & bit != 0);
    }
    wanted
}

/// A mounted image for [`uext4_fuse::Server`].
pub struct Ext4Adapter {
    fs: Arc<Ext4>,
    /// The number of the directory that is the root of the mount.
    root: u64,
    /// The user that mounted it.
    owner: u32,
}

impl Ext4Adapter {
    /// The directory `root` of an image and all below it, mounted by the user `owner`.
    pub fn new(fs: Arc<Ext4>, root: u64, owner: u32) -> Ext4Adapter {
        Ext4Adapter { fs, root, owner }
    }
}

impl FuseFileSystem for Ext4Adapter {
    type Fs = Ext4;

    fn fs(&self) -> &Ext4 {
        &self.fs
    }

    fn node_by_number(&self, ino: u64) -> Result<InodeRef> {
        self.fs.inode_by_number(ino)
    }

    fn root(&self) -> Result<InodeRef> {
        self.fs.inode_by_number(self.root)
    }

    fn root_number(&self) -> u64 {
        self.root
    }

    /// A directory that ignores case has names that the kernel takes for others; the names of one that is encrypted change with its key.
    fn names_valid_s(&self, dir: &InodeRef) -> u64 {
        let changes = InodeFlags::CASEFOLD | InodeFlags::ENCRYPT;
        match self.fs.files.flags(dir).intersects(changes) {
            true => 0,
            false => VALID_SECONDS,
        }
    }

    /// An empty directory may ignore case from now on, and an encrypted one get its key; what it does not have then, the kernel would not ask for.
    fn absence_valid_s(&self) -> u64 {
        let superblock = self.fs.volume.superblock();
        let changes = Incompat::CASEFOLD | Incompat::ENCRYPT;
        match superblock.incompat.intersects(changes) {
            true => 0,
            false => VALID_SECONDS,
        }
    }

    fn ioctl(
        &self,
        caller: &Caller,
        node: &InodeRef,
        call: &IoctlCall<'_>,
        out: &mut [u8],
    ) -> Result<usize> {
        let fs = &*self.fs;
        Ok(match call.command {
            FS_IOC_GETFLAGS => put(out, &fs.files.flags(node).bits())?,
            FS_IOC_SETFLAGS => {
                let flags = InodeFlags::from_bits_retain(call.argument()?);
                fs.volume.report(fs.files.set_flags(caller, node, flags))?;
                0
            }
            FS_IOC_FSGETXATTR => put(
                out,
                &FsXattr {
                    xflags: xflags_of(fs.files.flags(node)),
                    projid: fs.files.project(node),
                    ..FsXattr::default()
                },
            )?,
            FS_IOC_FSSETXATTR => {
                let wanted: FsXattr = call.argument()?;
                let flags = with_xflags(fs.files.flags(node), wanted.xflags);
                let projid = Some(wanted.projid);
                fs.volume.report(fs.files.set_flags_and_project(
                    caller,
                    node,
                    Some(flags),
                    projid,
                ))?;
                0
            }
            FS_IOC_GETVERSION | EXT4_IOC_GETVERSION => put(out, &fs.files.generation(node).0)?,
            FS_IOC_SETVERSION | EXT4_IOC_SETVERSION => {
                let generation = Generation(call.argument()?);
                fs.volume
                    .report(fs.files.set_generation(caller, node, generation))?;
                0
            }
            EXT4_IOC_SWAP_BOOT => {
                fs.volume.report(fs.files.swap_boot(caller, node))?;
                0
            }
            FS_IOC_GETFSLABEL => {
                let mut label = [0; LABEL_BYTES];
                let name = &fs.volume.superblock().raw.volume_name;
                label[..name.len()].copy_from_slice(name);
                put(out, &label)?
            }
            FS_IOC_ENABLE_VERITY => {
                fs_verity_ioctls::enable(fs, caller, node, call)?;
                0
            }
            FS_IOC_MEASURE_VERITY => fs_verity_ioctls::measure(fs, node, call, out)?,
            FITRIM => trim(fs, caller, call.argument()?, out)?,
            EXT4_IOC_RESIZE_FS => self.grow(caller, call.argument()?)?,
            command if FSCRYPT.contains(&command) => return Err(Errno::EOPNOTSUPP.into()),
            _ => return Err(Errno::ENOTTY.into()),
        })
    }

    fn excludes_writers(&self, command: u32) -> bool {
        command == FS_IOC_ENABLE_VERITY
    }

    fn invalidated_by(&self, command: u32) -> Invalidation {
        match command {
            EXT4_IOC_SWAP_BOOT => Invalidation::Data,
            FS_IOC_SETFLAGS | FS_IOC_FSSETXATTR | FS_IOC_SETVERSION | EXT4_IOC_SETVERSION
            | FS_IOC_ENABLE_VERITY => Invalidation::Attributes,
            _ => Invalidation::Nothing,
        }
    }

    fn size_statistics(&self) -> Option<Value> {
        let geometry = self.fs.volume.geometry();
        Some(json!({
            "blocks": geometry.blocks_count,
            "block_size": geometry.block_size,
        }))
    }

    fn journal_statistics(&self) -> Option<Value> {
        let stats = self.fs.volume.journal().stats();
        Some(json!({
            "journal_bytes": stats.journal_bytes,
            "checkpoint_bytes": stats.checkpoint_bytes,
            "commit": durations(&stats.commit),
            "checkpoint": durations(&stats.checkpoint),
        }))
    }

    fn remote_statistics(&self) -> Option<Value> {
        let stats = self.fs.volume.device().remote_stats()?;
        let mut remote = json!({ "kind": stats.kind, "flush": durations(&stats.flushes) });
        if let Some(lease) = stats.lease {
            remote["lease"] = lease.name().into();
        }
        if let Some((epoch, root)) = stats.epoch_and_root {
            remote["epoch"] = epoch.into();
            remote["root"] = root.into();
        }
        if let Some(connections) = stats.connections {
            remote["connections"] = connections.into();
        }
        if let Some(cache) = stats.cache {
            remote["cache"] = json!({
                "memory_hits": cache.memory_hits,
                "disk_hits": cache.disk_hits,
                "misses": cache.misses,
            });
        }
        Some(remote)
    }

    fn cache_statistics(&self) -> Value {
        let cache = self.fs.volume.cache();
        json!({
            "inodes": self.fs.table.cached_inodes(),
            "metadata_blocks": cache.len(),
            "metadata_bytes": cache.len() * cache.block_size(),
        })
    }
}

impl Ext4Adapter {
    /// `EXT4_IOC_RESIZE_FS`: makes the file system larger, for the superuser and the user that mounted it.
    fn grow(&self, caller: &Caller, blocks: u64) -> Result<usize> {
        if !caller.has(Capabilities::SYS_ADMIN) && caller.uid != self.owner {
            return Err(Errno::EPERM.into());
        }
        self.fs.volume.report(self.fs.grow(blocks))?;
        Ok(0)
    }
}

fn durations(d: &Durations) -> Value {
    let us = |duration: Duration| duration.as_nanos() as f64 / 1000.0;
    let bucket = |(bound, count)| json!({ "up_to_us": us(bound), "count": count });
    json!({
        "count": d.count,
        "total_us": us(d.total),
        "max_us": us(d.max),
        "buckets": d.buckets().map(bucket).collect::<Value>(),
    })
}

/// `FITRIM`: returns how many bytes were discarded in place of the length.
fn trim(fs: &Ext4, caller: &Caller, range: TrimRange, out: &mut [u8]) -> Result<usize> {
    if !caller.has(Capabilities::SYS_ADMIN) {
        return Err(Errno::EPERM.into());
    }
    let trimmed = fs
        .volume
        .report(fs.blocks.trim(range.start, range.len, range.minlen))?;
    let reply = TrimRange {
        len: trimmed,
        ..range
    };
    Ok(put(out, &reply)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_translated_both_ways() {
        let all = XFLAGS
            .iter()
            .fold(InodeFlags::empty(), |all, (flag, _)| all | *flag);
        assert_eq!(xflags_of(all), 0x82f8);
        assert_eq!(
            with_xflags(InodeFlags::EXTENTS, 0x82f8),
            all | InodeFlags::EXTENTS
        );
        assert_eq!(with_xflags(all, 1), InodeFlags::empty());
    }

    #[test]
    fn structures_have_the_sizes_in_the_numbers() {
        assert_eq!(size_of::<FsXattr>(), 28);
        assert_eq!(size_of::<TrimRange>(), 24);
    }
}

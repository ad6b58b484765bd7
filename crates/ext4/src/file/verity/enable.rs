//! A file gets fs-verity.
//!
//! # Crash
//! The file is an orphan while its tree is written, so that a mount after a crash frees what lies behind the data. The flag is set in the
//! transaction that ends this.

use crate::deletion::DELETE_CREDITS;
use crate::file::fallocate::PUBLISH_CREDITS;
use crate::file::{FileIo, ReadKind, check_regular};
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::mapping::extents::convert::Written;
use crate::prelude::*;
use uext4_ondisk::{BlockHash, EXTENT_LEN_MAX_UNWRITTEN, FsVerity, FsVerityDescriptor};
use uext4_vfs::errno::Error;

fn refused(errno: Errno, why: &'static str) -> Ext4Error {
    Error::new(errno).context(why).into()
}

impl FileIo {
    /// Gives a file fs-verity (`FS_IOC_ENABLE_VERITY`): hashes all of its data. It cannot be written from then on. Returns what the file has.
    ///
    /// # Locks
    /// The inode's `ilock`, alone, until all is hashed.
    ///
    /// # Crash
    /// The file has it or not; what was written behind the data is freed by the next mount.
    ///
    /// # Errors
    /// `EACCES`: the caller may not write the file. `EEXIST`: the file has it. `EPERM`: immutable or append-only. `EOPNOTSUPP`: the file system does not
    /// have the feature `verity`, or the file has no extents or journals its data. `EINVAL`: a value out of range, or blocks larger than those of the file
    /// system. `EISDIR`, [`Ext4Error::NoSpace`], [`Ext4Error::QuotaExceeded`], [`Ext4Error::TooLarge`].
    pub fn enable_verity(
        &self,
        caller: &Caller,
        inode: &InodeRef,
        verity: &FsVerity,
    ) -> Result<FsVerityDescriptor> {
        check_regular(inode)?;
        let _change = self.volume.freeze.begin_change();
        let quotas = self.volume.quotas();
        let _limits = quotas.and_then(|q| q.begin(caller.has(Capabilities::SYS_RESOURCE)));
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        self.volume.check_writable()?;
        let attr = self.attributes.attr(inode);
        self.attributes
            .check_access(caller, inode, &attr, Access::WRITE)?;
        self.check_can_have(inode, verity)?;
        if inode.is_inline() {
            self.inline.convert_inline(inode, true)?;
        }
        let size = inode.size();
        // Frees what was allocated behind the data.
        self.truncate_locked(inode, size)?;
        self.volume.with_handle(DELETE_CREDITS, |handle| {
            self.orphans.add_orphan(handle, inode.inode())
        })?;
        let made = self.write_tree(inode, verity).and_then(|descriptor| {
            self.mark(inode)?;
            Ok(descriptor)
        });
        // Frees the tree, and ends that the file is an orphan.
        made.inspect_err(|_| drop(self.truncate_locked(inode, size)))
    }

    fn check_can_have(&self, inode: &Inode, verity: &FsVerity) -> Result<()> {
        let flags = inode.flags();
        if !self.volume.sb.ro_compat.contains(RoCompat::VERITY) {
            let why = "the feature verity is off; `uext4 tune -O verity` enables it";
            return Err(refused(Errno::EOPNOTSUPP, why));
        }
        if flags.contains(InodeFlags::VERITY) {
            return Err(refused(Errno::EEXIST, "the file has fs-verity"));
        }
        if flags.intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND) {
            return Err(Ext4Error::NotPermitted);
        }
        if !inode.has_extents() && !inode.is_inline() {
            let why = "fs-verity of a file without extents";
            return Err(refused(Errno::EOPNOTSUPP, why));
        }
        if self.mapping.journals_data(inode) || flags.contains(InodeFlags::ENCRYPT) {
            let why = "fs-verity of a file whose data is journaled or encrypted";
            return Err(refused(Errno::EOPNOTSUPP, why));
        }
        if !verity.is_valid() || u64::from(verity.block_bytes) > self.volume.block_size() {
            let why = "blocks of fs-verity have 1024 bytes to those of a block of the file system, a salt at most 32, a signature 16128";
            return Err(Ext4Error::Invalid(why));
        }
        Ok(())
    }

    /// Allocates and writes tree and descriptor.
    fn write_tree(&self, inode: &Inode, verity: &FsVerity) -> Result<FsVerityDescriptor> {
        let size = inode.size();
        let block = self.volume.block_size();
        let tree = verity.tree(size);
        let tree_at = FsVerity::tree_at(size);
        let (descriptor_at, end) = verity.descriptor_at(size, &tree, block as u32);
        self.mapping.check_end(inode, end)?;
        let (from, to) = (tree_at / block, end / block);
        self.allocate_range(inode, from, to, None)?;
        let hasher = verity.hasher();
        let hashed = u64::from(verity.block_bytes);
        let write = |at: u64, bytes: &[u8]| self.write_behind(inode, tree_at + at * hashed, bytes);
        let mut buffer = Vec::new();
        let mut hashes: Vec<BlockHash> = Vec::new();
        for part in 0..tree.parts() {
            let read = |first: u64, data: &mut [u8]| {
                // What lies past the size is hashed as zeros.
                let known = (size - first * hashed).min(data.len() as u64) as usize;
                self.read_mapped(
                    inode,
                    first * hashed,
                    &mut data[..known],
                    ReadKind::default(),
                )
            };
            hashes.push(tree.part(part, (&hasher, &mut buffer), read, write)?.1);
        }
        let descriptor = FsVerityDescriptor {
            verity: verity.clone(),
            data_bytes: size,
            root: tree.finish(&hasher, hashes, write)?,
        };
        // The tree may end within a block, the rest of which is read by no one, but is to be the same for all.
        let tree_end = tree_at + tree.blocks() * hashed;
        self.write_behind(
            inode,
            tree_end,
            &vec![0; (descriptor_at - tree_end) as usize],
        )?;
        let blocks = descriptor.encode_blocks((end - descriptor_at) as usize);
        self.write_behind(inode, descriptor_at, &blocks)?;
        inode.unflushed.add();
        self.publish_written(inode, from, to)?;
        Ok(descriptor)
    }

    /// Writes bytes to blocks that are allocated and unwritten.
    fn write_behind(&self, inode: &Inode, mut at: u64, mut bytes: &[u8]) -> Result<()> {
        let block = self.volume.block_size();
        while !bytes.is_empty() {
            let mapping = self.mapping.map_block(inode, Lblk((at / block) as u32))?;
            let Some(pblk) = mapping.pblk else {
                let hole = Corrupt::new(CorruptKind::ExtentOrder).ino(inode.ino);
                return Err(hole.detail(format_args!("a hole at byte {at}")).into());
            };
            let within = at % block;
            let room = u64::from(mapping.len) * block - within;
            let (part, rest) = bytes.split_at((room as usize).min(bytes.len()));
            let device = self.volume.device();
            device.write_at(pblk.0 * block + within, part)?;
            at += part.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Makes blocks `[at, to)`, all of them allocated, written.
    fn publish_written(&self, inode: &Inode, mut at: u64, to: u64) -> Result<()> {
        while at < to {
            let mapping = self.mapping.map_block(inode, Lblk(at as u32))?;
            // An extent at a time, so that credits are enough.
            let most = u64::from(EXTENT_LEN_MAX_UNWRITTEN);
            let end = at + u64::from(mapping.len).min(to - at).min(most);
            self.blocks.retry_no_space(|| {
                self.volume.with_handle(PUBLISH_CREDITS * 2, |handle| {
                    let mut map = inode.map.write();
                    let written = Written::Yes;
                    self.mapping
                        .convert_extents(handle, inode, &mut map, (at, end), written, true)
                })
            })?;
            at = end;
        }
        Ok(())
    }

    /// Sets the flag, and ends that the file is an orphan.
    fn mark(&self, inode: &InodeRef) -> Result<()> {
        self.volume.with_handle(DELETE_CREDITS, |handle| {
            inode.touch_data(handle);
            if !inode.is_unlinked() {
                self.orphans.remove_orphan(handle, inode)?;
            }
            self.table.update_inode(inode, handle, |disk| {
                disk.flags.insert(InodeFlags::VERITY);
            })
        })
    }
}

//! Open files: reading, writing, ranges, and making durable.

use super::{Answer, Server, convert};
use crate::abi::{
    FSYNC_DATA_ONLY, OPEN_KILL_SUIDGID, Opcode, OpenReply, WRITE_CACHE, WRITE_KILL_SUIDGID, input,
    output,
};
use crate::filesystem::{FuseFileSystem, Invalidation, Node};
use crate::handler::put;
use crate::request::Request;
use uext4_vfs::permission;
use uext4_vfs::{
    Attr, Caller, Capabilities, Errno, Fallocate, FileKind, FileSystem, IoFlags, Result, SetAttr,
};

const O_ACCMODE: u32 = libc::O_ACCMODE as u32;
const O_TRUNC: u32 = libc::O_TRUNC as u32;
const O_APPEND: u32 = libc::O_APPEND as u32;

/// The bytes that one read and one write copy between two files.
const COPY_BYTES: usize = 1 << 20;
/// The most bytes that one request copies, because it cannot be interrupted.
const COPY_BYTES_MAX: u64 = 64 << 20;

/// What fallocate(2) does with that mode.
///
/// # Errors
/// `EOPNOTSUPP`: an unknown mode.
fn fallocate_of(mode: u32) -> Result<Fallocate, Errno> {
    const KEEP_SIZE: u32 = libc::FALLOC_FL_KEEP_SIZE as u32;
    const PUNCH: u32 = libc::FALLOC_FL_PUNCH_HOLE as u32 | KEEP_SIZE;
    const ZERO: u32 = libc::FALLOC_FL_ZERO_RANGE as u32;
    const ZERO_KEEP: u32 = ZERO | KEEP_SIZE;
    const COLLAPSE: u32 = libc::FALLOC_FL_COLLAPSE_RANGE as u32;
    const INSERT: u32 = libc::FALLOC_FL_INSERT_RANGE as u32;
    Ok(match mode {
        0 => Fallocate::Allocate,
        KEEP_SIZE => Fallocate::AllocateKeepSize,
        PUNCH => Fallocate::PunchHole,
        ZERO => Fallocate::ZeroRange,
        ZERO_KEEP => Fallocate::ZeroRangeKeepSize,
        COLLAPSE => Fallocate::CollapseRange,
        INSERT => Fallocate::InsertRange,
        _ => return Err(Errno::EOPNOTSUPP),
    })
}

/// The caller without the capability to keep set-id bits. Its groups are not known here, so it counts as a member of the
/// file's group: as elsewhere in FUSE, the set-group-id bit stays if the group may not execute the file.
pub(super) fn without_set_id_rights(caller: &Caller, attr: &Attr) -> Caller {
    let mut caller = caller.clone().with_groups(&[attr.gid]);
    caller.capabilities -= Capabilities::FSETID;
    caller
}

impl<F: FuseFileSystem> Server<F> {
    /// How the kernel may use a node that was opened with `flags`.
    pub(super) fn opened(&self, id: u64, flags: u32) -> output::Open {
        if flags & O_ACCMODE != libc::O_RDONLY as u32 {
            // Before the kernel can map it.
            self.nodes.open_for_writing(id);
        }
        // Only the kernel's requests change the file, so its cache stays valid.
        let mut how = OpenReply::KEEP_CACHE;
        how.set(OpenReply::NOFLUSH, !self.negotiated.writeback);
        if convert::io_flags(flags).contains(IoFlags::DIRECT) {
            how |= OpenReply::DIRECT_IO | OpenReply::PARALLEL_DIRECT_WRITES;
        }
        output::Open {
            open_flags: how.bits(),
            ..output::Open::default()
        }
    }

    pub(super) fn open(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Open = request.arg()?;
        let node = self.node(request.header.nodeid)?;
        self.prepare_open(request, &node, arg.flags, arg.open_flags)?;
        Ok(put(out, &self.opened(request.header.nodeid, arg.flags))?)
    }

    pub(super) fn release(&self, request: &Request<'_>) -> Answer {
        let arg: input::Release = request.arg()?;
        if arg.flags & O_ACCMODE != libc::O_RDONLY as u32 {
            self.nodes.end_writing(request.header.nodeid);
        }
        Ok(0)
    }

    /// Checks what the kernel cannot check, and truncates the file for `O_TRUNC`.
    ///
    /// # Errors
    /// `EPERM`: the file is immutable or append-only, or has fs-verity. Those of [`FileSystem::check_open`].
    pub fn prepare_open(
        &self,
        request: &Request<'_>,
        node: &Node<F>,
        flags: u32,
        open_flags: u32,
    ) -> Result<()> {
        let writes = flags & (O_ACCMODE | O_TRUNC) != libc::O_RDONLY as u32;
        self.fs().check_open(node, writes)?;
        if !writes {
            return Ok(());
        }
        let attr = self.fs().getattr(node)?;
        let append_only = attr.flags & Attr::FLAG_APPEND != 0;
        if attr.flags & (Attr::FLAG_IMMUTABLE | Attr::FLAG_VERITY) != 0
            || append_only && flags & (O_APPEND | O_TRUNC) != O_APPEND
        {
            return Err(Errno::EPERM.into());
        }
        if flags & O_TRUNC != 0 && attr.kind == FileKind::Regular {
            let mut caller = self.caller(request);
            if open_flags & OPEN_KILL_SUIDGID != 0 {
                caller = without_set_id_rights(&caller, &attr);
            }
            let cut = SetAttr {
                size: Some(0),
                ..SetAttr::default()
            };
            let after = self.fs().setattr(&caller, node, &cut)?;
            if after.mode != attr.mode {
                self.invalidate_attributes(request.header.nodeid);
            }
            self.sync_if_sync(node)?;
        }
        Ok(())
    }

    pub(super) fn read(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Read = request.arg()?;
        let flags = convert::io_flags(arg.flags) & IoFlags::DIRECT;
        let node = match flags.is_empty() {
            // Before the data is read; see `drop_cached`.
            true => self.nodes.get_for_cache(request.header.nodeid),
            false => self.nodes.get(request.header.nodeid),
        };
        let node = node.ok_or(Errno::ESTALE)?;
        let data = out.get_mut(..arg.size as usize).ok_or(Errno::EIO)?;
        self.fs().read_with(&node, arg.offset, data, flags)
    }

    pub(super) fn write(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Write = request.arg()?;
        let data = request.payload();
        let data = data.get(..arg.size as usize).ok_or(Errno::EIO)?;
        let node = self.node(request.header.nodeid)?;
        let mut flags = convert::io_flags(arg.flags);
        if self.options.synchronous.all() {
            flags |= IoFlags::SYNC;
        }
        let caller = self.caller(request);
        flags.set(IoFlags::NO_RESERVE, !caller.has(Capabilities::SYS_RESOURCE));
        // Written-back data may begin before the end of the file. Without the writeback cache, only mappings write from the
        // cache.
        if arg.write_flags & WRITE_CACHE == 0 || !self.negotiated.writeback {
            self.check_append_only(&node, arg.offset)?;
        }
        if arg.write_flags & WRITE_KILL_SUIDGID != 0 {
            self.kill_set_id(&caller, request.header.nodeid, &node)?;
        }
        let written = self.fs().write_with(&node, arg.offset, data, flags)?;
        if flags.contains(IoFlags::DIRECT) {
            self.drop_cached(request.header.nodeid);
        }
        let reply = output::Written {
            size: written.len as u32,
            padding: 0,
        };
        Ok(put(out, &reply)?)
    }

    /// Invalidates the kernel's cache of a file after a direct write. The kernel itself did so before the write, but data
    /// that was read during the write may be older, and stays cached if the write is asynchronous. A read that is answered
    /// after this either saw the write or marked the file before.
    fn drop_cached(&self, id: u64) {
        if self.nodes.take_cached(id) {
            self.invalidator.invalidate(id, Invalidation::Data);
        }
    }

    /// Checks a write to an append-only file: the kernel allows fcntl(2) to clear `O_APPEND` of an open file.
    fn check_append_only(&self, node: &Node<F>, offset: u64) -> Result<()> {
        let attr = self.fs().getattr(node)?;
        match attr.flags & Attr::FLAG_APPEND != 0 && offset < attr.size {
            true => Err(Errno::EPERM.into()),
            false => Ok(()),
        }
    }

    /// Removes set-id bits before a caller without the capability to keep them writes to the node.
    fn kill_set_id(&self, caller: &Caller, id: u64, node: &Node<F>) -> Result<()> {
        let attr = self.fs().getattr(node)?;
        let mode = permission::mode_after_write(&attr, &without_set_id_rights(caller, &attr));
        if mode.is_some() {
            let change = SetAttr {
                mode,
                ..SetAttr::default()
            };
            self.fs().setattr(&Caller::root(), node, &change)?;
            self.invalidate_attributes(id);
        }
        Ok(())
    }

    /// As [`Server::kill_set_id`], for requests that do not say whether the caller may keep the bits.
    fn kill_set_id_unless_root(
        &self,
        request: &Request<'_>,
        id: u64,
        node: &Node<F>,
    ) -> Result<()> {
        match request.header.uid {
            0 => Ok(()),
            _ => self.kill_set_id(&self.caller(request), id, node),
        }
    }

    /// Invalidates the mode in the kernel, which uses it to execute programs and does not expect a write to change it.
    fn invalidate_attributes(&self, id: u64) {
        self.invalidator.invalidate(id, Invalidation::Attributes);
    }

    pub(super) fn fallocate(&self, request: &Request<'_>) -> Answer {
        let arg: input::Fallocate = request.arg()?;
        let node = self.node(request.header.nodeid)?;
        let what = fallocate_of(arg.mode)?;
        self.kill_set_id_unless_root(request, request.header.nodeid, &node)?;
        let mut flags = IoFlags::empty();
        let caller = self.caller(request);
        flags.set(IoFlags::NO_RESERVE, !caller.has(Capabilities::SYS_RESOURCE));
        self.fs()
            .fallocate_with(&node, what, arg.offset, arg.length, flags)?;
        self.sync_if_sync(&node)
    }

    pub(super) fn lseek(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Lseek = request.arg()?;
        let node = self.node(request.header.nodeid)?;
        let offset = match i32::try_from(arg.whence) {
            Ok(libc::SEEK_DATA) => self.fs().seek_data(&node, arg.offset)?,
            Ok(libc::SEEK_HOLE) => self.fs().seek_hole(&node, arg.offset)?,
            _ => return Err(Errno::EINVAL.into()),
        };
        Ok(put(out, &output::Lseek { offset })?)
    }

    pub(super) fn copy_file_range(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::CopyFileRange = request.arg()?;
        let from = self.node(request.header.nodeid)?;
        let to = self.node(arg.nodeid_out)?;
        self.check_append_only(&to, arg.off_out)?;
        self.kill_set_id_unless_root(request, arg.nodeid_out, &to)?;
        let len = arg.len.min(COPY_BYTES_MAX);
        let mut chunk = vec![0; COPY_BYTES.min(len as usize)];
        let mut copied = 0;
        let outcome = loop {
            let wanted = (len - copied).min(chunk.len() as u64) as usize;
            match self.copy_chunk(
                &from,
                arg.off_in + copied,
                &to,
                arg.off_out + copied,
                &mut chunk[..wanted],
            ) {
                Ok(0) => break Ok(()),
                Ok(n) => copied += n as u64,
                Err(e) => break Err(e),
            }
        };
        if copied == 0 {
            outcome?;
        }
        self.sync_if_sync(&to)?;
        if request.opcode == Opcode::CopyFileRange64 {
            return Ok(put(out, &output::Copied { bytes: copied })?);
        }
        let reply = output::Written {
            size: copied as u32,
            padding: 0,
        };
        Ok(put(out, &reply)?)
    }

    fn copy_chunk(
        &self,
        from: &Node<F>,
        from_offset: u64,
        to: &Node<F>,
        to_offset: u64,
        chunk: &mut [u8],
    ) -> Answer {
        let read = self.fs().read(from, from_offset, chunk)?;
        match read {
            0 => Ok(0),
            _ => self.fs().write(to, to_offset, &chunk[..read]),
        }
    }

    pub(super) fn fsync(&self, request: &Request<'_>) -> Answer {
        let arg: input::Fsync = request.arg()?;
        let node = self.node(request.header.nodeid)?;
        self.fs()
            .fsync(&node, arg.fsync_flags & FSYNC_DATA_ONLY != 0)?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_fallocate() {
        assert_eq!(fallocate_of(0), Ok(Fallocate::Allocate));
        assert_eq!(fallocate_of(3), Ok(Fallocate::PunchHole));
        assert_eq!(fallocate_of(2), Err(Errno::EOPNOTSUPP));
        assert_eq!(fallocate_of(8), Ok(Fallocate::CollapseRange));
        assert_eq!(fallocate_of(0x40), Err(Errno::EOPNOTSUPP));
    }
}

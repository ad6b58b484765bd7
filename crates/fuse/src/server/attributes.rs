//! Attributes and extended attributes.

use super::convert;
use super::data::without_set_id_rights;
use super::{Answer, Server};
use crate::abi::{SETXATTR_ACL_KILL_SGID, SetattrValid, input, output};
use crate::filesystem::{FuseFileSystem, Node};
use crate::handler::{put, put_bytes};
use crate::request::Request;
use uext4_vfs::permission::Access;
use uext4_vfs::{Attr, Capabilities, Errno, FileSystem, SetAttr, TimeSet, Timestamp, XattrFlags};

/// The attribute of every file with the statistics of the mount. listxattr(2) does not report it.
pub const STATISTICS_XATTR: &[u8] = b"uext4.stats";

/// The change that a request asks for.
fn change_of(arg: &input::Setattr, valid: SetattrValid) -> SetAttr {
    let given = |bit, value| valid.contains(bit).then_some(value);
    let time = |set, now, sec: u64, nsec| match (valid.contains(set), valid.intersects(now)) {
        (false, _) => None,
        (true, true) => Some(TimeSet::Now),
        (true, false) => Some(TimeSet::At(Timestamp {
            sec: sec.cast_signed(),
            nsec,
        })),
    };
    SetAttr {
        mode: given(SetattrValid::MODE, (arg.mode & 0o7777) as u16),
        uid: valid.contains(SetattrValid::UID).then_some(arg.uid),
        gid: valid.contains(SetattrValid::GID).then_some(arg.gid),
        size: valid.contains(SetattrValid::SIZE).then_some(arg.size),
        atime: time(
            SetattrValid::ATIME,
            SetattrValid::ATIME_NOW,
            arg.atime,
            arg.atimensec,
        ),
        mtime: time(
            SetattrValid::MTIME,
            SetattrValid::MTIME_NOW,
            arg.mtime,
            arg.mtimensec,
        ),
        ctime: time(
            SetattrValid::CTIME,
            SetattrValid::empty(),
            arg.ctime,
            arg.ctimensec,
        ),
        crtime: None,
    }
}

/// Writes a value, or its size if the caller has no room.
fn put_value(out: &mut [u8], value: &[u8], room: u32) -> Answer {
    if room == 0 {
        let size = value.len() as u32;
        return Ok(put(out, &output::Getxattr { size, padding: 0 })?);
    }
    if value.len() > room as usize {
        return Err(Errno::ERANGE.into());
    }
    Ok(put_bytes(out, value)?)
}

impl<F: FuseFileSystem> Server<F> {
    fn put_attr(&self, out: &mut [u8], attr: &Attr) -> Answer {
        let reply = output::AttrReply {
            attr_valid: self.adapter.attributes_valid_s(attr.ino),
            attr: convert::attr(&self.options.ownership.shown(attr)),
            ..output::AttrReply::default()
        };
        Ok(put(out, &reply)?)
    }

    pub(super) fn getattr(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let node = self.node(request.header.nodeid)?;
        let attr = self.fs().getattr(&node)?;
        self.put_attr(out, &attr)
    }

    pub(super) fn statx(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let node = self.node(request.header.nodeid)?;
        let attr = self.fs().getattr(&node)?;
        let reply = output::StatxReply {
            attr_valid: self.adapter.attributes_valid_s(attr.ino),
            stat: convert::statx(&self.options.ownership.shown(&attr)),
            ..output::StatxReply::default()
        };
        Ok(put(out, &reply)?)
    }

    pub(super) fn setattr(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Setattr = request.arg()?;
        let valid = SetattrValid::from_bits_retain(arg.valid);
        let node = self.node(request.header.nodeid)?;
        let mut caller = self.caller(request);
        // The kernel also sets it with every change of the owner, which removes the bits anyway.
        if valid.contains(SetattrValid::KILL_SUIDGID | SetattrValid::SIZE) {
            caller = without_set_id_rights(&caller, &self.fs().getattr(&node)?);
        }
        let change = self.options.ownership.stored(change_of(&arg, valid))?;
        let attr = self.fs().setattr(&caller, &node, &change)?;
        self.sync_if_sync(&node)?;
        self.put_attr(out, &attr)
    }

    pub(super) fn access(&self, request: &Request<'_>) -> Answer {
        let arg: input::Access = request.arg()?;
        let node = self.node(request.header.nodeid)?;
        let want = Access::from_bits_truncate((arg.mask & 7) as u8);
        let mut caller = self.caller(request);
        if caller.uid != 0 {
            caller.capabilities = Capabilities::empty();
        }
        self.fs().access(&caller, &node, want)?;
        Ok(0)
    }

    pub(super) fn getxattr(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Getxattr = request.arg()?;
        let name = request.name()?;
        if name == STATISTICS_XATTR {
            return put_value(out, &self.statistics_json(), arg.size);
        }
        let node = self.node(request.header.nodeid)?;
        let value = self
            .fs()
            .getxattr(&self.caller_of_xattr(request), &node, name)?;
        put_value(out, &value, arg.size)
    }

    pub(super) fn listxattr(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Getxattr = request.arg()?;
        let node = self.node(request.header.nodeid)?;
        let mut list = Vec::new();
        for name in self.fs().listxattr(&self.caller(request), &node)? {
            list.extend_from_slice(&name);
            list.push(0);
        }
        put_value(out, &list, arg.size)
    }

    pub(super) fn setxattr(&self, request: &Request<'_>) -> Answer {
        let arg: input::Setxattr = request.arg()?;
        let (name, value) = request.split_name()?;
        let value = value.get(..arg.size as usize).ok_or(Errno::EIO)?;
        let flags = XattrFlags::from_bits(arg.flags).ok_or(Errno::EINVAL)?;
        let node = self.node(request.header.nodeid)?;
        let mut caller = self.caller_of_xattr(request);
        if arg.setxattr_flags & SETXATTR_ACL_KILL_SGID != 0 {
            caller.capabilities -= Capabilities::FSETID;
        }
        self.fs().setxattr(&caller, &node, name, value, flags)?;
        self.sync_if_sync(&node)
    }

    pub(super) fn removexattr(&self, request: &Request<'_>) -> Answer {
        let node = self.node(request.header.nodeid)?;
        let caller = self.caller_of_xattr(request);
        self.fs().removexattr(&caller, &node, request.name()?)?;
        self.sync_if_sync(&node)
    }

    /// The caller of an operation on an attribute. The kernel has already refused `trusted.` names to callers without the
    /// capability.
    fn caller_of_xattr(&self, request: &Request<'_>) -> uext4_vfs::Caller {
        let mut caller = self.caller(request);
        caller.capabilities |= Capabilities::SYS_ADMIN;
        caller
    }

    /// Makes a change of a file durable if the mount is synchronous (`sync`).
    pub(super) fn sync_if_sync(&self, node: &Node<F>) -> Answer {
        if self.options.synchronous.all() {
            self.fs().fsync(node, false)?;
        }
        Ok(0)
    }
}

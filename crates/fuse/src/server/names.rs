//! Requests that look up, create, rename and remove names.

use super::{Answer, Server, convert};
use crate::abi::{Opcode, input, output};
use crate::filesystem::{FuseFileSystem, Node, VALID_SECONDS};
use crate::handler::{put, put_bytes};
use crate::request::Request;
use uext4_vfs::{Attr, Caller, Errno, FileSystem, NewKind, NewNode, RenameFlags, Result};
use zerocopy::FromBytes;

impl<F: FuseFileSystem> Server<F> {
    /// The entry of `node`, whose name the kernel may cache for so many seconds. The kernel has one more reference to the node.
    ///
    /// # Errors
    /// Those of [`FileSystem::getattr`].
    pub fn entry(&self, node: Node<F>, name_valid_s: u64) -> Result<(output::Entry, Attr)> {
        let attr = self.fs().getattr(&node)?;
        let id = self.id_of(attr.ino);
        self.nodes.hold(id, node);
        let entry = output::Entry {
            nodeid: id,
            generation: u64::from(attr.generation),
            entry_valid: name_valid_s,
            attr_valid: self.adapter.attributes_valid_s(attr.ino),
            entry_valid_nsec: 0,
            attr_valid_nsec: 0,
            attr: convert::attr(&self.options.ownership.shown(&attr)),
        };
        Ok((entry, attr))
    }

    fn put_entry(&self, out: &mut [u8], node: Node<F>, name_valid_s: u64) -> Answer {
        let (entry, _) = self.entry(node, name_valid_s)?;
        Ok(put(out, &entry)?)
    }

    pub(super) fn lookup(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let (id, name) = (request.header.nodeid, request.name()?);
        // A look-up by handle: the kernel may have forgotten the node.
        if name == b"." {
            let node = match self.nodes.get(id) {
                Some(node) => node,
                None => self.adapter.node_by_number(id)?,
            };
            return self.put_entry(out, node, VALID_SECONDS);
        }
        let dir = match self.nodes.get(id) {
            Some(dir) => dir,
            None if name == b".." => self.adapter.node_by_number(id)?,
            None => return Err(Errno::ESTALE.into()),
        };
        match self.fs().lookup(&self.caller(request), &dir, name) {
            Ok(node) => self.put_entry(out, node, self.adapter.names_valid_s(&dir)),
            // The kernel may cache a negative entry.
            Err(e) if e == Errno::ENOENT => Ok(put(
                out,
                &output::Entry {
                    entry_valid: self.adapter.absence_valid_s(),
                    ..output::Entry::default()
                },
            )?),
            Err(e) => Err(e),
        }
    }

    pub(super) fn forget(&self, request: &Request<'_>) -> Answer {
        let forgotten: input::Forget = request.arg()?;
        self.nodes.forget(request.header.nodeid, forgotten.nlookup);
        Ok(0)
    }

    pub(super) fn batch_forget(&self, request: &Request<'_>) -> Answer {
        let batch: input::BatchForget = request.arg()?;
        let mut rest = request.payload();
        for _ in 0..batch.count {
            let Ok((one, after)) = input::ForgetOne::read_from_prefix(rest) else {
                return Err(Errno::EIO.into());
            };
            self.nodes.forget(one.nodeid, one.nlookup);
            rest = after;
        }
        Ok(0)
    }

    fn make(
        &self,
        request: &Request<'_>,
        name: &[u8],
        umask: u32,
        new: &NewNode<'_>,
    ) -> Result<Node<F>> {
        let dir = self.node(request.header.nodeid)?;
        let caller = self.caller(request).with_umask(umask as u16);
        let node = self.fs().create(&caller, &dir, name, new)?;
        self.sync_if_dirsync(&dir)?;
        Ok(node)
    }

    /// For how many seconds the kernel may cache a name in the directory of a request.
    fn name_valid_s(&self, request: &Request<'_>) -> Result<u64> {
        let dir = self.node(request.header.nodeid)?;
        Ok(self.adapter.names_valid_s(&dir))
    }

    pub(super) fn symlink(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let (name, target) = request.two_names()?;
        let new = NewNode {
            mode: 0o777,
            kind: NewKind::Symlink(target),
        };
        let node = self.make(request, name, 0, &new)?;
        self.put_entry(out, node, self.name_valid_s(request)?)
    }

    pub(super) fn mknod(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Mknod = request.arg()?;
        let new = NewNode {
            mode: (arg.mode & 0o7777) as u16,
            kind: convert::new_kind(arg.mode, arg.rdev).ok_or(Errno::EINVAL)?,
        };
        let node = self.make(request, request.name()?, arg.umask, &new)?;
        self.put_entry(out, node, self.name_valid_s(request)?)
    }

    pub(super) fn mkdir(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Mkdir = request.arg()?;
        let new = NewNode {
            mode: (arg.mode & 0o7777) as u16,
            kind: NewKind::Directory,
        };
        let node = self.make(request, request.name()?, arg.umask, &new)?;
        self.put_entry(out, node, self.name_valid_s(request)?)
    }

    pub(super) fn create(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Create = request.arg()?;
        let new = NewNode {
            mode: (arg.mode & 0o7777) as u16,
            kind: NewKind::Regular,
        };
        let name = request.name()?;
        let made = self.make(request, name, arg.umask, &new);
        let node = match made {
            // Created since the kernel's look-up; open(2) without `O_EXCL` opens it.
            Err(e) if e == Errno::EEXIST && arg.flags & libc::O_EXCL as u32 == 0 => {
                let dir = self.node(request.header.nodeid)?;
                let node = self.fs().lookup(&self.caller(request), &dir, name)?;
                self.prepare_open(request, &node, arg.flags, arg.open_flags)?;
                node
            }
            made => made?,
        };
        let valid_s = self.name_valid_s(request)?;
        self.put_created(out, node, valid_s, arg.flags)
    }

    pub(super) fn tmpfile(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Create = request.arg()?;
        let dir = self.node(request.header.nodeid)?;
        let caller = self.caller(request).with_umask(arg.umask as u16);
        let node = self
            .fs()
            .tmpfile(&caller, &dir, (arg.mode & 0o7777) as u16)?;
        self.put_created(out, node, VALID_SECONDS, arg.flags)
    }

    fn put_created(&self, out: &mut [u8], node: Node<F>, name_valid_s: u64, flags: u32) -> Answer {
        let (entry, _) = self.entry(node, name_valid_s)?;
        let at = put(out, &entry)?;
        let opened = put(&mut out[at..], &self.opened(entry.nodeid, flags))?;
        Ok(at + opened)
    }

    pub(super) fn unlink(&self, request: &Request<'_>) -> Answer {
        let dir = self.node(request.header.nodeid)?;
        self.fs()
            .unlink(&self.caller(request), &dir, request.name()?)?;
        self.sync_if_dirsync(&dir)
    }

    pub(super) fn rmdir(&self, request: &Request<'_>) -> Answer {
        let dir = self.node(request.header.nodeid)?;
        self.fs()
            .rmdir(&self.caller(request), &dir, request.name()?)?;
        self.sync_if_dirsync(&dir)
    }

    pub(super) fn rename(&self, request: &Request<'_>) -> Answer {
        let (new_dir, flags) = if request.opcode == Opcode::Rename2 {
            let arg: input::Rename2 = request.arg()?;
            (arg.newdir, arg.flags)
        } else {
            (request.arg::<input::Rename>()?.newdir, 0)
        };
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
        let (old_name, new_name) = request.two_names()?;
        let old_dir = self.node(request.header.nodeid)?;
        let new_dir = self.node(new_dir)?;
        let caller = self.caller(request);
        self.fs()
            .rename(&caller, &old_dir, old_name, &new_dir, new_name, flags)?;
        self.sync_if_dirsync(&old_dir)?;
        self.sync_if_dirsync(&new_dir)
    }

    pub(super) fn link(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Link = request.arg()?;
        let dir = self.node(request.header.nodeid)?;
        let node = self.node(arg.oldnodeid)?;
        let caller = self.caller(request);
        self.fs().link(&caller, &node, &dir, request.name()?)?;
        self.sync_if_dirsync(&dir)?;
        self.put_entry(out, node, self.adapter.names_valid_s(&dir))
    }

    pub(super) fn readlink(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let node = self.node(request.header.nodeid)?;
        let target = self.fs().readlink(&Caller::root(), &node)?;
        Ok(put_bytes(out, &target)?)
    }

    /// Makes a change of a directory durable if the mount is synchronous (`sync` or `dirsync`).
    fn sync_if_dirsync(&self, dir: &Node<F>) -> Answer {
        if self.options.synchronous.directories() {
            self.fs().fsync(dir, false)?;
        }
        Ok(0)
    }
}

//! Listing directories.

use super::{Answer, Server, convert};
use crate::abi::{input, output};
use crate::filesystem::{FuseFileSystem, Node};
use crate::handler::put_bytes;
use crate::request::Request;
use uext4_vfs::attr::DirEntry;
use uext4_vfs::{Caller, Errno, Error, FileSystem};
use zerocopy::IntoBytes;

/// The alignment of a record in bytes.
const ALIGN: usize = 8;

impl<F: FuseFileSystem> Server<F> {
    /// Writes the entries from a cookie on until the reply is full; with `plus`, each with a reference to its node.
    pub(super) fn readdir(&self, request: &Request<'_>, out: &mut [u8], plus: bool) -> Answer {
        let arg: input::Read = request.arg()?;
        let dir = self.node(request.header.nodeid)?;
        let room = out.get_mut(..arg.size as usize).ok_or(Errno::EIO)?;
        let mut at = 0;
        let mut failed = None;
        // The kernel has checked the permission.
        let root = Caller::root();
        self.fs()
            .readdir(&root, &dir, arg.offset, &mut |entry| match self.put_dirent(
                &dir,
                entry,
                &mut room[at..],
                plus,
            ) {
                Ok(0) => false,
                Ok(n) => {
                    at += n;
                    true
                }
                Err(e) => {
                    failed = Some(e);
                    false
                }
            })?;
        match failed {
            Some(e) if at == 0 => Err(e),
            _ => Ok(at),
        }
    }

    /// Writes one record and returns its length; 0 if it does not fit.
    fn put_dirent(
        &self,
        dir: &Node<F>,
        entry: &DirEntry<'_>,
        out: &mut [u8],
        plus: bool,
    ) -> Answer {
        if entry.name.contains(&0) || entry.name.contains(&b'/') {
            let what = "a directory entry whose name has a NUL or a slash";
            return Err(Error::from_source(Errno::EUCLEAN, what));
        }
        let head = if plus { size_of::<output::Entry>() } else { 0 };
        let named = head + size_of::<output::Dirent>() + entry.name.len();
        let len = named.next_multiple_of(ALIGN);
        if len > out.len() {
            return Ok(0);
        }
        let mut at = 0;
        if plus {
            at += put_bytes(out, self.entry_of(dir, entry)?.as_bytes())?;
        }
        let record = output::Dirent {
            ino: entry.ino,
            off: entry.cookie,
            namelen: entry.name.len() as u32,
            kind: convert::dirent_kind(entry.kind),
        };
        at += put_bytes(&mut out[at..], record.as_bytes())?;
        at += put_bytes(&mut out[at..], entry.name)?;
        out[at..len].fill(0);
        Ok(len)
    }

    /// The node of an entry; empty for `.` and `..`, and if the name has been removed meanwhile.
    fn entry_of(&self, dir: &Node<F>, entry: &DirEntry<'_>) -> uext4_vfs::Result<output::Entry> {
        if matches!(entry.name, b"." | b"..") {
            return Ok(output::Entry::default());
        }
        // By name: the number may belong to another file by now.
        match self.fs().lookup(&Caller::root(), dir, entry.name) {
            Ok(node) => Ok(self.entry(node, self.adapter.names_valid_s(dir))?.0),
            Err(e) if e == Errno::ENOENT => Ok(output::Entry::default()),
            Err(e) => Err(e),
        }
    }
}

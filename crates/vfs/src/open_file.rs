//! An open file: a node, how it may be used, and a position.
//!
//! # Invariants
//! What a file was opened for is checked once, when it is opened; later changes of its mode do not
//! matter. Reads and writes at the position do not overlap, so each byte is read once.
//!
//! # Locking
//! The position is guarded by its `file_pos` lock, which is held during the read or write and is
//! therefore the outermost: no caller holds a lock.

use crate::attr::{Attr, FileKind, SetAttr};
use crate::caller::{Caller, Capabilities};
use crate::errno::{Errno, Result};
use crate::filesystem::FileSystem;
use crate::io::{Fallocate, IoFlags, Written};
use crate::permission::{self, Access};
use bitflags::bitflags;
use std::io::SeekFrom;
use std::ops::Deref;
use uext4_sync::{Mutex, class};

bitflags! {
    /// What a file is opened for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OpenFlags: u32 {
        /// Reading.
        const READ = 1;
        /// Writing.
        const WRITE = 2;
        /// Every write appends.
        const APPEND = 4;
        /// Truncated to length 0 at opening; needs `WRITE`.
        const TRUNCATE = 8;
        /// Every read and write is [`IoFlags::DIRECT`].
        const DIRECT = 16;
        /// Every write is [`IoFlags::DSYNC`].
        const DSYNC = 32;
        /// Every write is [`IoFlags::SYNC`].
        const SYNC = 64;
    }
}

impl OpenFlags {
    /// The flags of each read and write.
    const fn io(self) -> IoFlags {
        let mut io = IoFlags::empty();
        let all = [
            (OpenFlags::DIRECT, IoFlags::DIRECT),
            (OpenFlags::DSYNC, IoFlags::DSYNC),
            (OpenFlags::SYNC, IoFlags::SYNC),
            (OpenFlags::APPEND, IoFlags::APPEND),
        ];
        let mut i = 0;
        while i < all.len() {
            if self.contains(all[i].0) {
                io = io.union(all[i].1);
            }
            i += 1;
        }
        io
    }
}

/// What [`OpenFile::seek_to`] searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Data (`SEEK_DATA`).
    Data,
    /// A hole, or the end (`SEEK_HOLE`).
    Hole,
}

/// An open file. The node and `mount`, which keeps the file system mounted and leads to it, stay until it
/// is dropped, and are dropped in this order.
pub struct OpenFile<M: Deref<Target: FileSystem>> {
    node: <M::Target as FileSystem>::Node,
    mount: M,
    flags: OpenFlags,
    /// The flags of each read and write; immutable.
    io: IoFlags,
    /// The caller of open(2). Its writes may clear set-id bits.
    opener: Caller,
    position: Mutex<u64>,
}

impl<F: FileSystem, M: Deref<Target = F>> OpenFile<M> {
    /// Opens a node that exists (open(2)).
    ///
    /// # Locks
    /// May sleep.
    ///
    /// # Errors
    /// `EACCES`: the mode forbids it. `EISDIR`: a directory, to be written. `ELOOP`: a symbolic link.
    /// `EPERM`: an append-only file, opened to write elsewhere or to truncate; a file with fs-verity, opened to write. `EINVAL`: neither reading nor
    /// writing, or truncating without writing. `ENXIO`: a socket.
    pub fn open(mount: M, caller: &Caller, node: F::Node, flags: OpenFlags) -> Result<OpenFile<M>> {
        let writes = flags.contains(OpenFlags::WRITE);
        if !flags.intersects(OpenFlags::READ | OpenFlags::WRITE)
            || flags.contains(OpenFlags::TRUNCATE) && !writes
        {
            return Err(Errno::EINVAL.into());
        }
        let attr = mount.getattr(&node)?;
        match attr.kind {
            FileKind::Symlink => return Err(Errno::ELOOP.into()),
            FileKind::Socket => return Err(Errno::ENXIO.into()),
            FileKind::Directory if writes => return Err(Errno::EISDIR.into()),
            _ => {}
        }
        let mut want = Access::empty();
        want.set(Access::READ, flags.contains(OpenFlags::READ));
        want.set(Access::WRITE, writes);
        mount.access(caller, &node, want)?;
        mount.check_open(&node, writes)?;
        let append_only = attr.flags & Attr::FLAG_APPEND != 0;
        let elsewhere = flags & (OpenFlags::APPEND | OpenFlags::TRUNCATE) != OpenFlags::APPEND;
        let verity = attr.flags & Attr::FLAG_VERITY != 0;
        if writes && (verity || append_only && elsewhere) {
            return Err(Errno::EPERM.into());
        }
        let file = OpenFile::new(mount, caller, node, flags);
        if flags.contains(OpenFlags::TRUNCATE) && attr.kind == FileKind::Regular {
            let cut = SetAttr {
                size: Some(0),
                ..SetAttr::default()
            };
            file.mount.setattr(caller, &file.node, &cut)?;
        }
        Ok(file)
    }

    /// Opens a file that the caller just created, whatever its mode says.
    pub fn new(mount: M, caller: &Caller, node: F::Node, flags: OpenFlags) -> OpenFile<M> {
        let mut io = flags.io();
        io.set(IoFlags::NO_RESERVE, !caller.has(Capabilities::SYS_RESOURCE));
        OpenFile {
            node,
            mount,
            flags,
            io,
            opener: caller.clone(),
            position: Mutex::new(&class::FILE_POS, 0),
        }
    }

    /// The file system it is on.
    pub fn fs(&self) -> &F {
        &self.mount
    }

    /// The file.
    pub fn node(&self) -> &F::Node {
        &self.node
    }

    /// What it was opened for.
    pub fn flags(&self) -> OpenFlags {
        self.flags
    }

    /// Reads at the position, and moves it (read(2)).
    ///
    /// # Locks
    /// Takes `file_pos`; may sleep.
    ///
    /// # Errors
    /// As [`OpenFile::read_at`].
    pub fn read(&self, data: &mut [u8]) -> Result<usize> {
        let mut position = self.position.lock();
        let n = self.read_at(*position, data)?;
        *position += n as u64;
        Ok(n)
    }

    /// Reads at a byte offset (pread(2)).
    ///
    /// # Errors
    /// `EBADF`: not open for reading. Others as [`FileSystem::read_with`].
    pub fn read_at(&self, offset: u64, data: &mut [u8]) -> Result<usize> {
        self.read_at_with(offset, data, IoFlags::empty())
    }

    /// As [`OpenFile::read_at`], with `flags` added to those it was opened with (preadv2(2)).
    ///
    /// # Errors
    /// As [`OpenFile::read_at`].
    pub fn read_at_with(&self, offset: u64, data: &mut [u8], flags: IoFlags) -> Result<usize> {
        if !self.flags.contains(OpenFlags::READ) {
            return Err(Errno::EBADF.into());
        }
        self.mount
            .read_with(&self.node, offset, data, flags | self.io)
    }

    /// Writes at the position or, when appending, at the end, and moves the position (write(2)).
    ///
    /// # Locks
    /// Takes `file_pos`; may sleep.
    ///
    /// # Errors
    /// As [`OpenFile::write_at`].
    pub fn write(&self, data: &[u8]) -> Result<usize> {
        let mut position = self.position.lock();
        let written = self.write_at_with(*position, data, IoFlags::empty())?;
        *position = written.end();
        Ok(written.len)
    }

    /// Writes at a byte offset (pwrite(2)); a file opened for appending is written at its end, as on Linux.
    ///
    /// # Errors
    /// `EBADF`: not open for writing. Others as [`FileSystem::write_with`].
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        Ok(self.write_at_with(offset, data, IoFlags::empty())?.len)
    }

    /// As [`OpenFile::write_at`], with `flags` added to those it was opened with; returns where it wrote
    /// (pwritev2(2)).
    ///
    /// # Errors
    /// As [`OpenFile::write_at`].
    pub fn write_at_with(&self, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        let flags = flags | self.io;
        self.prepare_write(data, flags)?;
        self.mount.write_with(&self.node, offset, data, flags)
    }

    /// Allocates, frees or zeroes a range (fallocate(2)).
    ///
    /// # Errors
    /// `EBADF`: not open for writing. Others as [`FileSystem::fallocate`].
    pub fn fallocate(&self, what: Fallocate, offset: u64, len: u64) -> Result<()> {
        self.prepare_write(&[0], IoFlags::empty())?;
        self.mount
            .fallocate_with(&self.node, what, offset, len, self.io)
    }

    /// Moves the position to the next data, or the next hole (lseek(2)).
    ///
    /// # Locks
    /// Takes `file_pos`; may sleep.
    ///
    /// # Errors
    /// As [`FileSystem::seek_data`] and [`FileSystem::seek_hole`].
    pub fn seek_to(&self, wanted: Wanted, offset: u64) -> Result<u64> {
        let mut position = self.position.lock();
        *position = match wanted {
            Wanted::Data => self.mount.seek_data(&self.node, offset)?,
            Wanted::Hole => self.mount.seek_hole(&self.node, offset)?,
        };
        Ok(*position)
    }

    /// Checks that it may be written, and clears set-id bits before the data changes.
    #[inline]
    fn prepare_write(&self, data: &[u8], flags: IoFlags) -> Result<()> {
        if !self.flags.contains(OpenFlags::WRITE) {
            return Err(Errno::EBADF.into());
        }
        if self.opener.has(Capabilities::FSETID) || data.is_empty() {
            return Ok(());
        }
        self.clear_set_id(flags)
    }

    /// Clears the set-id bits that a write of the opener clears.
    fn clear_set_id(&self, flags: IoFlags) -> Result<()> {
        let attr = self.mount.getattr(&self.node)?;
        let mode = permission::mode_after_write(&attr, &self.opener);
        if mode.is_some() {
            if flags.contains(IoFlags::NOWAIT) {
                return Err(Errno::EAGAIN.into());
            }
            let change = SetAttr {
                mode,
                ..SetAttr::default()
            };
            self.mount.setattr(&Caller::root(), &self.node, &change)?;
        }
        Ok(())
    }

    /// Moves the position and returns the new one (lseek(2)); it may be past the end.
    ///
    /// # Locks
    /// Takes `file_pos`; may sleep.
    ///
    /// # Errors
    /// `EINVAL`: before the start. `EOVERFLOW`: beyond 2^63 - 1.
    pub fn seek(&self, to: SeekFrom) -> Result<u64> {
        let mut position = self.position.lock();
        let (base, change) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::Current(change) => (*position, change),
            SeekFrom::End(change) => (self.mount.getattr(&self.node)?.size, change),
        };
        let target = i128::from(base) + i128::from(change);
        if target < 0 {
            return Err(Errno::EINVAL.into());
        }
        if target > i128::from(i64::MAX) {
            return Err(Errno::EOVERFLOW.into());
        }
        *position = target as u64;
        Ok(*position)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::attr::{NewKind, NewNode};
    use crate::filesystem::open_or_create;
    use crate::memory_fs::MemoryFs;
    use std::sync::Arc;

    const ROOT: Caller = Caller::root();
    const USER: Caller = Caller::user(1000, 1000);
    const READ: OpenFlags = OpenFlags::READ;
    const WRITE: OpenFlags = OpenFlags::WRITE;

    fn file(fs: &Arc<MemoryFs>, mode: u16) -> u64 {
        let new = NewNode {
            mode,
            kind: NewKind::Regular,
        };
        open_or_create(&**fs, &ROOT, &1, b"f", &new)
            .expect("makes it")
            .0
    }

    fn open(
        fs: &Arc<MemoryFs>,
        who: &Caller,
        node: u64,
        flags: OpenFlags,
    ) -> Result<OpenFile<Arc<MemoryFs>>, Errno> {
        OpenFile::open(Arc::clone(fs), who, node, flags).map_err(|e| e.errno())
    }

    #[test]
    fn the_position_moves() {
        let fs = Arc::new(MemoryFs::new());
        let node = file(&fs, 0o644);
        let f = open(&fs, &ROOT, node, READ | WRITE).expect("opens");
        assert_eq!(f.write(b"hello ").unwrap(), 6);
        assert_eq!(f.write(b"world").unwrap(), 5);
        assert_eq!(f.seek(SeekFrom::Start(3)).unwrap(), 3);
        let mut data = [0; 4];
        assert_eq!(f.read(&mut data).unwrap(), 4);
        assert_eq!(&data, b"lo w");
        assert_eq!(f.seek(SeekFrom::Current(-1)).unwrap(), 6);
        assert_eq!(f.read(&mut data).unwrap(), 4);
        assert_eq!(&data, b"worl");
        assert_eq!(f.read(&mut data).unwrap(), 1);
        assert_eq!(f.read(&mut data).unwrap(), 0);
        assert_eq!(f.seek(SeekFrom::End(-2)).unwrap(), 9);
        assert_eq!(f.seek(SeekFrom::End(-12)).unwrap_err(), Errno::EINVAL);
        let beyond = f.seek(SeekFrom::Start(u64::MAX));
        assert_eq!(beyond.unwrap_err(), Errno::EOVERFLOW);
        assert_eq!(f.seek(SeekFrom::Current(0)).unwrap(), 9);
    }

    #[test]
    fn appends_go_to_the_end() {
        let fs = Arc::new(MemoryFs::new());
        let node = file(&fs, 0o644);
        let f = open(&fs, &ROOT, node, READ | WRITE | OpenFlags::APPEND).expect("opens");
        f.write(b"abc").unwrap();
        f.seek(SeekFrom::Start(0)).unwrap();
        f.write(b"de").unwrap();
        f.write_at(0, b"f").unwrap();
        assert_eq!(f.seek(SeekFrom::Current(0)).unwrap(), 5);
        let mut data = [0; 8];
        assert_eq!(f.read_at(0, &mut data).unwrap(), 6);
        assert_eq!(&data[..6], b"abcdef");
    }

    #[test]
    fn a_file_is_used_as_it_was_opened() {
        let fs = Arc::new(MemoryFs::new());
        let node = file(&fs, 0o644);
        let reader = open(&fs, &USER, node, READ).expect("opens");
        assert_eq!(reader.write(b"x").unwrap_err(), Errno::EBADF);
        let writer = open(&fs, &ROOT, node, WRITE).expect("opens");
        assert_eq!(writer.read(&mut [0]).unwrap_err(), Errno::EBADF);
        fs.set_mode(node, 0);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "opened before");
        assert_eq!(open(&fs, &USER, node, READ).err(), Some(Errno::EACCES));
    }

    #[test]
    fn what_can_not_be_opened() {
        let fs = Arc::new(MemoryFs::new());
        let node = file(&fs, 0o644);
        let nothing = OpenFlags::empty();
        let cut = OpenFlags::TRUNCATE;
        assert_eq!(open(&fs, &USER, node, WRITE).err(), Some(Errno::EACCES));
        assert_eq!(open(&fs, &ROOT, node, nothing).err(), Some(Errno::EINVAL));
        assert_eq!(
            open(&fs, &ROOT, node, READ | cut).err(),
            Some(Errno::EINVAL)
        );
        assert_eq!(open(&fs, &ROOT, 1, WRITE).err(), Some(Errno::EISDIR));
        let link = NewNode {
            mode: 0,
            kind: NewKind::Symlink(b"f"),
        };
        let link = fs.create(&ROOT, &1, b"l", &link).expect("makes it");
        assert_eq!(open(&fs, &ROOT, link, READ).err(), Some(Errno::ELOOP));
    }

    #[test]
    fn opening_can_cut() {
        let fs = Arc::new(MemoryFs::new());
        let node = file(&fs, 0o644);
        fs.write(&node, 0, b"abc").unwrap();
        open(&fs, &ROOT, node, WRITE | OpenFlags::TRUNCATE).expect("opens");
        assert_eq!(fs.getattr(&node).unwrap().size, 0);
    }

    #[test]
    fn writing_takes_set_id_bits() {
        let fs = Arc::new(MemoryFs::new());
        let node = file(&fs, 0o6777);
        let by_root = open(&fs, &ROOT, node, WRITE).expect("opens");
        by_root.write(b"x").unwrap();
        assert_eq!(fs.getattr(&node).unwrap().mode, 0o6777);
        let by_user = open(&fs, &USER, node, WRITE).expect("opens");
        by_user.write(b"").unwrap();
        assert_eq!(fs.getattr(&node).unwrap().mode, 0o6777);
        by_user.write(b"x").unwrap();
        assert_eq!(fs.getattr(&node).unwrap().mode, 0o777);
    }

    #[test]
    fn create_is_found_the_second_time() {
        let fs = Arc::new(MemoryFs::new());
        let new = NewNode {
            mode: 0o600,
            kind: NewKind::Regular,
        };
        let (a, made) = open_or_create(&*fs, &ROOT, &1, b"n", &new).unwrap();
        assert!(made);
        let again = open_or_create(&*fs, &ROOT, &1, b"n", &new).unwrap();
        assert_eq!(again, (a, false));
        let denied = open_or_create(&*fs, &USER, &1, b"m", &new);
        assert_eq!(denied.unwrap_err(), Errno::EACCES);
    }
}

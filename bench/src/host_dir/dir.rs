//! What a worker does in its directory of the host: a system call on its handle for each operation.

use crate::location::Dir;
use anyhow::Context as _;
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat,
};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

/// An open directory.
#[derive(Debug)]
pub struct HostDir {
    fd: OwnedFd,
}

impl HostDir {
    /// Opens `name` in `parent`.
    pub fn open(parent: impl AsFd, name: &str) -> anyhow::Result<HostDir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(parent, name, flags, Mode::empty()).with_context(|| name.to_owned())?;
        Ok(HostDir { fd })
    }

    fn file(&self, name: &[u8], flags: OFlags) -> anyhow::Result<File> {
        let mode = Mode::from_raw_mode(0o644);
        let fd = openat(&self.fd, name, flags | OFlags::CLOEXEC, mode);
        Ok(File::from(fd.with_context(|| shown(name))?))
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl Dir for HostDir {
    type File = File;

    fn create(&self, name: &[u8]) -> anyhow::Result<File> {
        self.file(name, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(file.write_all(bytes)?)
    }

    fn fsync(&self, file: &File) -> anyhow::Result<()> {
        Ok(file.sync_all()?)
    }

    fn stat(&self, name: &[u8]) -> anyhow::Result<()> {
        let attributes = statat(&self.fd, name, AtFlags::empty());
        std::hint::black_box(attributes.with_context(|| shown(name))?);
        Ok(())
    }

    fn read(&self, name: &[u8], buffer: &mut [u8]) -> anyhow::Result<()> {
        self.file(name, OFlags::RDONLY)?.read_at(buffer, 0)?;
        Ok(())
    }

    fn unlink(&self, name: &[u8]) -> anyhow::Result<()> {
        unlinkat(&self.fd, name, AtFlags::empty()).with_context(|| shown(name))
    }

    fn open(&self, name: &[u8]) -> anyhow::Result<File> {
        self.file(name, OFlags::RDWR)
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], at: u64) -> anyhow::Result<()> {
        Ok(file.read_exact_at(buffer, at)?)
    }

    fn write_at(&self, file: &File, bytes: &[u8], at: u64) -> anyhow::Result<()> {
        Ok(file.write_all_at(bytes, at)?)
    }

    fn fallocate(&self, file: &File, at: u64, len: u64) -> anyhow::Result<()> {
        let flags = FallocateFlags::empty();
        Ok(rustix::fs::fallocate(file, flags, at, len)?)
    }

    fn set_len(&self, file: &File, len: u64) -> anyhow::Result<()> {
        Ok(file.set_len(len)?)
    }

    fn rename(&self, name: &[u8], to: &HostDir, new: &[u8]) -> anyhow::Result<()> {
        renameat(&self.fd, name, &to.fd, new).with_context(|| shown(name))
    }

    fn list(&self, mut each: impl FnMut(&[u8])) -> anyhow::Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                each(name);
            }
        }
        Ok(())
    }

    fn enter(&self, name: &[u8]) -> anyhow::Result<HostDir> {
        HostDir::open(&self.fd, &shown(name))
    }

    fn mkdir(&self, name: &[u8]) -> anyhow::Result<()> {
        mkdirat(&self.fd, name, Mode::from_raw_mode(0o755)).with_context(|| shown(name))
    }

    fn rmdir(&self, name: &[u8]) -> anyhow::Result<()> {
        unlinkat(&self.fd, name, AtFlags::REMOVEDIR).with_context(|| shown(name))
    }
}

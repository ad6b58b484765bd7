//! What is read and written: a file of ours, a bare device, or a file of the host.

use crate::aligned::AlignedBuf;
use anyhow::ensure;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use uext4_block::BlockDevice;
use uext4_ext4::{Ext4, InodeRef};
use uext4_vfs::filesystem::FileSystem;
use uext4_vfs::io::IoFlags;

/// How the bytes are filled in: so many in one call.
const FILL_BYTES: usize = 1 << 20;

/// A range of bytes, read and written directly by many threads.
pub trait Target: Sync {
    /// Fills `data` from `offset` on.
    fn read(&self, offset: u64, data: &mut [u8]) -> anyhow::Result<()>;

    /// Writes all of `data` at `offset`.
    fn write(&self, offset: u64, data: &[u8]) -> anyhow::Result<()>;

    /// Makes what was written durable.
    fn sync(&self) -> anyhow::Result<()>;
}

/// Writes all of `bytes` once, in large pieces, so that every block is allocated and initialised.
pub fn fill(target: &impl Target, bytes: u64) -> anyhow::Result<()> {
    let buf = AlignedBuf::random(FILL_BYTES);
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(FILL_BYTES as u64);
        target.write(at, &buf.bytes()[..len as usize])?;
        at += len;
    }
    target.sync()
}

#[derive(Debug)]
pub struct OurFile {
    /// The mount.
    pub fs: Arc<Ext4>,
    /// The file.
    pub node: InodeRef,
}

impl Target for OurFile {
    #[inline]
    fn read(&self, offset: u64, data: &mut [u8]) -> anyhow::Result<()> {
        let want = data.len();
        let got = FileSystem::read_with(&*self.fs, &self.node, offset, data, IoFlags::DIRECT)?;
        ensure!(got == want, "short read at {offset}: {got} of {want} bytes");
        Ok(())
    }

    #[inline]
    fn write(&self, offset: u64, data: &[u8]) -> anyhow::Result<()> {
        let want = data.len();
        let done = FileSystem::write_with(&*self.fs, &self.node, offset, data, IoFlags::DIRECT)?;
        let got = done.len;
        ensure!(
            got == want,
            "short write at {offset}: {got} of {want} bytes"
        );
        Ok(())
    }

    fn sync(&self) -> anyhow::Result<()> {
        FileSystem::fsync(&*self.fs, &self.node, false)?;
        Ok(FileSystem::syncfs(&*self.fs)?)
    }
}

/// A device without a file system.
#[derive(Debug)]
pub struct Bare(pub Arc<dyn BlockDevice>);

impl Target for Bare {
    #[inline]
    fn read(&self, offset: u64, data: &mut [u8]) -> anyhow::Result<()> {
        Ok(self.0.read_at(offset, data)?)
    }

    #[inline]
    fn write(&self, offset: u64, data: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.write_at(offset, data)?)
    }

    fn sync(&self) -> anyhow::Result<()> {
        Ok(self.0.flush()?)
    }
}

/// pread(2) and pwrite(2), as fio's psync engine does.
impl Target for File {
    #[inline]
    fn read(&self, offset: u64, data: &mut [u8]) -> anyhow::Result<()> {
        Ok(self.read_exact_at(data, offset)?)
    }

    #[inline]
    fn write(&self, offset: u64, data: &[u8]) -> anyhow::Result<()> {
        Ok(self.write_all_at(data, offset)?)
    }

    fn sync(&self) -> anyhow::Result<()> {
        Ok(self.sync_all()?)
    }
}

//! Where workers make their files: below a mount of ours, or in a directory of the host. What a workload does is
//! written once for both.

/// Directories for workers, all on one file system.
pub trait Location: Sync {
    /// The directory of a worker.
    type Dir<'a>: Dir
    where
        Self: 'a;

    /// What a worker's thread does first: it takes its directory. Workers share directories if there are fewer.
    fn enter(&self, worker: usize) -> anyhow::Result<Self::Dir<'_>>;

    /// Opens a file by its path below all of the directories, and closes it.
    fn open_and_close(&self, path: &str) -> anyhow::Result<()>;

    /// Makes everything durable that was done in the file system.
    fn syncfs(&self) -> anyhow::Result<()>;
}

/// A directory, in which a worker works by names.
pub trait Dir {
    /// An open file; dropping it closes it.
    type File;

    /// Creates a file that is not there yet, and opens it for writing.
    fn create(&self, name: &[u8]) -> anyhow::Result<Self::File>;

    /// Writes all of `bytes` to the beginning of a file just created.
    fn write(&self, file: &Self::File, bytes: &[u8]) -> anyhow::Result<()>;

    /// Makes a file durable.
    fn fsync(&self, file: &Self::File) -> anyhow::Result<()>;

    /// Looks up its attributes.
    fn stat(&self, name: &[u8]) -> anyhow::Result<()>;

    /// Opens a file and reads from its beginning, in one call.
    fn read(&self, name: &[u8], buffer: &mut [u8]) -> anyhow::Result<()>;

    /// Removes a file.
    fn unlink(&self, name: &[u8]) -> anyhow::Result<()>;

    /// Opens a file that is there, for reading and writing.
    fn open(&self, name: &[u8]) -> anyhow::Result<Self::File>;

    /// Reads all of `buffer` from byte `at` on.
    fn read_at(&self, file: &Self::File, buffer: &mut [u8], at: u64) -> anyhow::Result<()>;

    /// Writes all of `bytes` from byte `at` on.
    fn write_at(&self, file: &Self::File, bytes: &[u8], at: u64) -> anyhow::Result<()>;

    /// Allocates blocks for `len` bytes from byte `at` on, and makes the file so long.
    fn fallocate(&self, file: &Self::File, at: u64, len: u64) -> anyhow::Result<()>;

    /// Sets the size of a file.
    fn set_len(&self, file: &Self::File, len: u64) -> anyhow::Result<()>;

    /// Gives a file another name, in another directory or in this one.
    fn rename(&self, name: &[u8], to: &Self, new: &[u8]) -> anyhow::Result<()>;

    /// Gives each name in it to `each`, without `.` and `..`.
    fn list(&self, each: impl FnMut(&[u8])) -> anyhow::Result<()>;

    /// A directory in it.
    fn enter(&self, name: &[u8]) -> anyhow::Result<Self>
    where
        Self: Sized;

    /// Makes a directory.
    fn mkdir(&self, name: &[u8]) -> anyhow::Result<()>;

    /// Removes a directory, which must be empty.
    fn rmdir(&self, name: &[u8]) -> anyhow::Result<()>;
}

//! Operations of a mounted file system by the superuser that a test expects to succeed.

use crate::external::*;
use crate::oracle;
use std::fmt::Debug;

/// Runs one operation as the superuser; each method panics with the operation and its error.
#[allow(missing_docs, reason = "each is the operation of its name")]
pub trait AsRoot {
    /// The file system.
    fn ext4(&self) -> &Ext4;

    #[track_caller]
    fn top(&self) -> InodeRef {
        done("root", b"", self.ext4().namei.root()).clone()
    }

    #[track_caller]
    fn make(&self, dir: &InodeRef, name: &(impl AsRef<[u8]> + ?Sized), new: &NewNode) -> InodeRef {
        let (namei, name) = (&self.ext4().namei, name.as_ref());
        done("create", name, namei.create(&ME, dir, name, new))
    }

    #[track_caller]
    fn get(&self, dir: &InodeRef, name: &(impl AsRef<[u8]> + ?Sized)) -> InodeRef {
        let (namei, name) = (&self.ext4().namei, name.as_ref());
        done("lookup", name, namei.lookup(&ME, dir, name))
    }

    #[track_caller]
    fn remove(&self, dir: &InodeRef, name: &(impl AsRef<[u8]> + ?Sized)) {
        let (namei, name) = (&self.ext4().namei, name.as_ref());
        done("unlink", name, namei.unlink(&ME, dir, name));
    }

    #[track_caller]
    fn remove_dir(&self, dir: &InodeRef, name: &(impl AsRef<[u8]> + ?Sized)) {
        let (namei, name) = (&self.ext4().namei, name.as_ref());
        done("rmdir", name, namei.rmdir(&ME, dir, name));
    }

    /// Writes; returns how many bytes.
    #[track_caller]
    fn put(&self, file: &InodeRef, at: u64, data: &[u8]) -> usize {
        done("write", b"", self.ext4().files.write(file, at, data, true))
    }

    #[track_caller]
    fn resize(&self, file: &InodeRef, size: u64) {
        done("truncate", b"", self.ext4().files.truncate(file, size));
    }

    /// Unmounts, and fails unless the verifier and e2fsck find no fault on the device.
    #[track_caller]
    fn end_on(&self, device: &MemoryDevice) {
        done("unmount", b"", self.ext4().unmount());
        done("verify", b"", oracle::check(device));
        done("e2fsck", b"", oracle::fsck_device(device));
    }

    #[track_caller]
    fn allocate(&self, file: &InodeRef, what: Fallocate, at: u64, len: u64) {
        let files = &self.ext4().files;
        done("fallocate", b"", files.fallocate(file, what, at, len));
    }
}

const ME: Caller = Caller::root();

impl AsRoot for Ext4 {
    fn ext4(&self) -> &Ext4 {
        self
    }
}

/// The value, or a panic that names the operation.
#[track_caller]
fn done<T, E: Debug>(what: &str, on: &[u8], result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(why) => panic!("{what} {}: {why:?}", String::from_utf8_lossy(on)),
    }
}

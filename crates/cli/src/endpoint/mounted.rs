//! The files of an image that is mounted here, through its mount.

use super::{Endpoint, Found, Source, host};
use crate::diagnostics;
use crate::location::InImage;
use crate::system::files;
use anyhow::Result;
use rustix::fs::{CWD, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno as HostErrno;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// The files of an image that is mounted here. All paths start at the directory of the mount, also those in symbolic links.
pub struct Mounted {
    id: usize,
    image: PathBuf,
    root: File,
}

impl Mounted {
    /// The image in the file `image`, which is mounted at `dir`.
    pub fn new(id: usize, image: PathBuf, dir: &Path) -> Result<Mounted> {
        let root = rustix::fs::openat(CWD, dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        let root = File::from(root.map_err(|e| diagnostics::on_host(dir, e))?);
        Ok(Mounted { id, image, root })
    }

    fn open_as(&self, path: &Path, flags: OFlags) -> Result<File, HostErrno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        loop {
            match rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve) {
                // A rename raced with a `..`.
                Err(HostErrno::AGAIN | HostErrno::INTR) => {}
                opened => return Ok(File::from(opened?)),
            }
        }
    }

    fn fail(&self, path: &Path, e: HostErrno) -> anyhow::Error {
        self.fail_with(path, e.into())
    }

    fn fail_with(&self, path: &Path, e: io::Error) -> anyhow::Error {
        diagnostics::on_host(Path::new(&self.display(path)), e)
    }
}

impl Endpoint for Mounted {
    fn id(&self) -> usize {
        self.id
    }

    fn display(&self, path: &Path) -> String {
        let at = InImage {
            image: self.image.clone(),
            path: path.to_owned(),
        };
        at.to_string()
    }

    fn find(&self, path: &Path, follow: bool) -> Result<Option<Found>> {
        let nofollow = if follow {
            OFlags::empty()
        } else {
            OFlags::NOFOLLOW
        };
        let file = match self.open_as(path, OFlags::PATH | nofollow) {
            Ok(file) => file,
            Err(HostErrno::NOENT) => return Ok(None),
            Err(e) => return Err(self.fail(path, e)),
        };
        let found = file.metadata();
        let found = found.map_err(|e| diagnostics::on_host(Path::new(&self.display(path)), e))?;
        Ok(Some(Found {
            attr: files::attr(&found),
            dev: 0,
        }))
    }

    fn list(&self, path: &Path) -> Result<Vec<Vec<u8>>> {
        let fail = |e| self.fail(path, e);
        let dir = self.open_as(path, OFlags::RDONLY | OFlags::DIRECTORY);
        let dir = dir.map_err(fail)?;
        let mut buf = vec![MaybeUninit::uninit(); 1 << 16];
        let mut entries = RawDir::new(dir, &mut buf);
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        names.sort();
        Ok(names)
    }

    fn read_link(&self, path: &Path) -> Result<Vec<u8>> {
        let link = self.open_as(path, OFlags::PATH | OFlags::NOFOLLOW);
        let target = link.and_then(|link| rustix::fs::readlinkat(link, c"", Vec::new()));
        Ok(target.map_err(|e| self.fail(path, e))?.into_bytes())
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Source>> {
        let file = self.open_as(path, OFlags::RDONLY | OFlags::NONBLOCK);
        let file = file.map_err(|e| self.fail(path, e))?;
        host::source(Path::new(&self.display(path)), file)
    }

    fn xattrs(&self, path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let file = self.open_as(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW);
        match file {
            // A link, or what only its owner may read.
            Err(HostErrno::LOOP | HostErrno::ACCESS | HostErrno::NXIO) => Ok(Vec::new()),
            Err(e) => Err(self.fail(path, e)),
            Ok(file) => files::xattrs_of_open(&file).map_err(|e| self.fail_with(path, e)),
        }
    }
}

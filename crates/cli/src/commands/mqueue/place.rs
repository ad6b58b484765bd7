//! A queue by its path in the mounted directory, and errors about it.

use crate::diagnostics;
use anyhow::{Result, anyhow, bail};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4_mqueue::client::{Mounted, OpenArgs};

/// Where a queue is, or would be.
pub struct Place {
    path: PathBuf,
    dir: PathBuf,
    mounted: Mounted,
    /// With the slash at its start.
    name: Vec<u8>,
}

impl Place {
    /// The queue of that path.
    ///
    /// # Errors
    /// No file could have that path.
    pub fn new(path: &Path) -> Result<Place> {
        let Some(name) = path.file_name() else {
            bail!(
                "{}: no queue; name one in the directory, as {}/jobs",
                path.display(),
                path.display()
            );
        };
        let dir = match path.parent() {
            Some(dir) if dir != Path::new("") => dir,
            _ => Path::new("."),
        };
        Ok(Place {
            path: path.to_owned(),
            dir: dir.to_owned(),
            mounted: Mounted::new(dir),
            name: [b"/", name.as_bytes()].concat(),
        })
    }

    /// Opens it, and makes it if `how` says so.
    pub fn open(&self, how: &OpenArgs) -> Result<OwnedFd, Errno> {
        self.mounted.open(&self.name, how)
    }

    /// Takes its name away.
    pub fn unlink(&self) -> Result<(), Errno> {
        self.mounted.unlink(&self.name)
    }

    /// An error about it.
    pub fn failure(&self, e: Errno) -> anyhow::Error {
        let dir = self.dir.display();
        match e {
            Errno::NOSYS => no_mount(&self.dir),
            Errno::NOENT => anyhow!(
                "{self}: no such queue; `uext4 mqueue ls {dir}` lists those that there are, `uext4 mqueue send --create` makes one"
            ),
            Errno::ACCESS | Errno::PERM => {
                anyhow!("{self}: permission denied; `uext4 mqueue ls -l {dir}` shows whose it is")
            }
            Errno::NOSPC => {
                anyhow!("{self}: no more queues can be made; remove some with `uext4 mqueue rm`")
            }
            // mq_open(3) has it for descriptors too, of which a command has few.
            Errno::MFILE => anyhow!(
                "{self}: the queues of its owner would take too many bytes; remove some with `uext4 mqueue rm`, or mount with -o user_bytes_max=N"
            ),
            e => diagnostics::on_host(&self.path, e),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// A directory that is not a mount of queues.
pub fn no_mount(dir: &Path) -> anyhow::Error {
    let dir = dir.display();
    anyhow!("{dir}: no mount of message queues; mount one with: uext4 mqueue mount {dir}")
}

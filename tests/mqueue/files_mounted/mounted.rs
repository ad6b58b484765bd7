//! Our side: a namespace that is mounted, and the client's calls.

use crate::calls::Res;
use crate::directory::{Directory, Queues, errno};
use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;
use uext4_mqueue::client::{Descriptor, Mounted, Notification, OpenArgs, Priority};
use uext4_testkit::prelude::*;

/// The queues of a directory.
pub struct Client {
    dir: PathBuf,
    mounted: Mounted,
}

impl Client {
    /// What is mounted there.
    pub fn of(dir: &Path) -> Directory<Client> {
        let client = Client {
            dir: dir.to_owned(),
            mounted: Mounted::new(dir),
        };
        Directory::new(dir, client)
    }
}

impl Queues for Client {
    fn set_queues_max(&self, max: u32) {
        let (name, max) = ("uext4.queues_max", max.to_string());
        rustix::fs::setxattr(&self.dir, name, max.as_bytes(), XattrFlags::empty())
            .expect("as root");
    }

    fn open(&self, name: &str, flags: OFlags) -> Res<OwnedFd> {
        let how = OpenArgs {
            flags,
            mode: 0o600,
            size: None,
        };
        self.mounted.open(name.as_bytes(), &how).map_err(errno)
    }

    fn unlink(&self, name: &str) -> Res<()> {
        let unlinked = self.mounted.unlink(name.as_bytes());
        // As mq_unlink(3) has it.
        unlinked.map_err(|e| match e {
            Errno::PERM => libc::EACCES,
            e => errno(e),
        })
    }

    fn send(&self, queue: BorrowedFd<'_>, bytes: &[u8]) -> Res<()> {
        let sent = Descriptor::new(queue).send(bytes, Priority::default(), None);
        sent.map_err(errno)
    }

    fn receive(&self, queue: BorrowedFd<'_>, bytes: &mut [u8]) -> Res<usize> {
        let received = Descriptor::new(queue).receive(bytes, None);
        received.map(|got| got.len).map_err(errno)
    }

    fn register(&self, queue: BorrowedFd<'_>) -> Res<()> {
        let registered = Descriptor::new(queue).notify(Notification::Nothing);
        registered.map(drop).map_err(errno)
    }
}

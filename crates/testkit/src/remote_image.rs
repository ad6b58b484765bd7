//! An image on a server, whichever kind of server: made, written, taken over, exported by another program.

use crate::ceph;
use crate::external::*;
use crate::nbd_server::NbdServer;
use uext4_block::RemoteAddress;

/// What is written at a time.
const CHUNK: usize = 256 << 10;

/// Which server has an image. Ceph and S3 are those of the cluster whose client this process is: [`ceph::is_client`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Ceph.
    Rbd,
    /// A gateway of S3.
    S3,
    /// nbdkit over TCP, with a cache that is lost if it is killed.
    NbdTcp,
    /// qemu-nbd over a socket.
    NbdSocket,
}

/// An image; removed when dropped.
#[derive(Debug)]
pub struct RemoteImage {
    server: Server,
    name: String,
    nbd: Option<NbdServer>,
}

impl RemoteImage {
    /// A new one of so many zeros. `None`, with a line on stderr, where the server's program is not installed.
    ///
    /// # Errors
    /// The server's.
    pub fn new(server: Server, bytes: u64) -> Result<Option<RemoteImage>> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let unique = format!("file-system-{}-{number}", std::process::id());
        let nbd = match server {
            Server::NbdTcp => NbdServer::with_cache(bytes),
            Server::NbdSocket => NbdServer::new(bytes),
            Server::Rbd | Server::S3 => None,
        };
        let name = match (server, &nbd) {
            (Server::Rbd, _) => format!("rbd:rbd/{unique}"),
            (Server::S3, _) => format!("s3://images/{unique}"),
            (_, Some(nbd)) => nbd.name(),
            (_, None) => return Ok(None),
        };
        let image = RemoteImage { server, name, nbd };
        if image.nbd.is_none() {
            image.address()?.create(bytes)?;
        }
        Ok(Some(image))
    }

    /// Its name for every command.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> Result<RemoteAddress> {
        RemoteAddress::parse(&self.name).map_err(|why| anyhow!("{} {why}", self.name))
    }

    /// Opens it as any host does.
    ///
    /// # Errors
    /// The device's.
    pub fn open(&self, options: &OpenOptions) -> Result<Arc<dyn BlockDevice>> {
        Ok(open_image(Path::new(&self.name), options)?)
    }

    /// Replaces all of it.
    ///
    /// # Errors
    /// The device's.
    pub fn put(&self, image: &MemoryDevice) -> Result<()> {
        let device = self.open(&OpenOptions::read_write())?;
        device.zero(0, device.len())?;
        for (chunk, offset) in image.snapshot().chunks(CHUNK).zip((0..).step_by(CHUNK)) {
            if chunk.iter().any(|byte| *byte != 0) {
                device.write_at(offset, chunk)?;
            }
        }
        Ok(device.flush()?)
    }

    /// Copies it to a file: by `rbd`, or what the server of NBD has. Of S3 by another opening: no other program knows the format.
    ///
    /// # Errors
    /// It can't be read.
    pub fn export(&self, to: &Path) -> Result<()> {
        match (&self.nbd, self.server) {
            (Some(nbd), _) => drop(fs::copy(nbd.file(), to)?),
            (None, Server::Rbd) => {
                let image = self.name.trim_start_matches("rbd:");
                let to = to.to_str().context("UTF-8")?;
                let _ = fs::remove_file(to);
                ceph::rbd(&["export", "--no-progress", image, to]);
            }
            (None, _) => {
                let device = self.open(&OpenOptions::read_only())?;
                MemoryDevice::copy_of(&*device)?.save_to(to)?;
            }
        }
        Ok(())
    }

    /// Keeps a host out that has it open and can't be asked. In S3 the next opening does, and NBD can't.
    ///
    /// # Errors
    /// The server's.
    pub fn take_over(&self) -> Result<()> {
        match self.server {
            Server::Rbd => Ok(self.address()?.break_lock()?),
            Server::S3 | Server::NbdTcp | Server::NbdSocket => Ok(()),
        }
    }

    /// Kills the server of NBD, with what it had not made durable, and starts it again.
    pub fn lose_server(&mut self) {
        if let Some(nbd) = &mut self.nbd {
            nbd.kill();
            nbd.start_again();
        }
    }
}

impl Drop for RemoteImage {
    fn drop(&mut self) {
        if self.nbd.is_none()
            && let Ok(address) = self.address()
        {
            // A test that failed may have it open.
            let _ = address.remove();
        }
    }
}

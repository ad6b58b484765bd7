//! A file system served to a mount, from its first request to its last.

use crate::filesystem::FuseFileSystem;
use crate::handler::Handler;
use crate::mountpoint::Negotiated;
use crate::server::{Invalidator, Server, ServerOptions};
use crate::transport::dev::{DevTransport, Devices};
use crate::transport::uring::{self, THREADS_PER_CPU, UringResources, UringTransport};
use crate::transport::{Transport, TransportKind};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

/// Threads on `/dev/fuse` for each CPU, and the least number of threads. Each can sleep in fsync(2).
const DEV_THREADS_PER_CPU: usize = 4;
const DEV_THREADS_MIN: usize = 8;

/// How a mount is served.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// How requests come.
    pub transport: TransportKind,
    /// Threads that answer; over io_uring, of each CPU. `None`: four for each CPU and at least eight on `/dev/fuse`, and the
    /// transport's own number over io_uring.
    pub threads: Option<usize>,
    /// What the server does with requests.
    pub server: ServerOptions,
}

/// What a transport takes from the host. A process acquires it before it enters a sandbox.
pub struct TransportResources {
    devices: Devices,
    uring: Option<UringResources>,
}

impl TransportResources {
    /// What the transport that `options` ask for takes: descriptors of `/dev/fuse` for the threads, and rings where the
    /// kernel has FUSE over io_uring enabled.
    ///
    /// # Errors
    /// As the host says: no `/dev/fuse`, or no permission; with io_uring asked for, no rings.
    pub fn new(options: &ServeOptions) -> io::Result<TransportResources> {
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match options.transport {
            TransportKind::Uring => 1,
            _ => options
                .threads
                .unwrap_or((DEV_THREADS_PER_CPU * available).max(DEV_THREADS_MIN)),
        };
        let devices = Devices::open(threads.max(1))?;
        let per_cpu = options.threads.unwrap_or(THREADS_PER_CPU);
        let rings = || UringResources::new(possible_cpus()?, per_cpu);
        let uring = match options.transport {
            TransportKind::Dev => None,
            _ if !uring::is_enabled() => None,
            // The kernel's io_uring may be older than its FUSE, or forbidden.
            TransportKind::Auto => rings().ok(),
            TransportKind::Uring => Some(rings()?),
        };
        Ok(TransportResources { devices, uring })
    }

    /// The descriptors of `/dev/fuse`.
    pub fn into_devices(self) -> Devices {
        self.devices
    }

    /// Whether there are rings, so that the kernel can be asked for requests over io_uring.
    pub fn has_rings(&self) -> bool {
        self.uring.is_some()
    }

    /// How many threads will serve at most.
    pub fn workers(&self) -> usize {
        let over_uring = self.uring.as_ref().map_or(0, UringResources::workers);
        self.devices.threads().max(over_uring)
    }
}

/// The number of CPUs that the machine can have: one more than the last number in the kernel's list.
fn possible_cpus() -> io::Result<usize> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let list = list.trim();
    let last = list.rsplit([',', '-']).next().unwrap_or(list);
    let last: usize = last.parse().map_err(io::Error::other)?;
    Ok(last + 1)
}

/// Stops a server while the kernel still sends requests.
#[derive(Clone)]
pub struct Stopper(Weak<dyn Handler>);

impl Stopper {
    /// Makes requests fail with `ENOTCONN` from now on, and returns when no request is being answered. The threads wait for
    /// the kernel to end the connection, which it does when this process ends.
    ///
    /// # Locks
    /// May sleep.
    pub fn stop(&self) {
        // `None` if the server has ended by itself.
        if let Some(handler) = self.0.upgrade() {
            handler.stop();
        }
    }
}

/// Serves `fs` to the mount of `connection` until it is unmounted. Calls `started` once requests are answered, with a
/// value that stops the server earlier. Does not unmount the file system: the caller does.
///
/// # Locks
/// May sleep; starts threads, and waits for them.
///
/// # Errors
/// The host's error if serving cannot continue; also if io_uring was requested and the kernel has it disabled.
pub fn serve<F: FuseFileSystem>(
    fs: F,
    connection: OwnedFd,
    resources: TransportResources,
    negotiated: Negotiated,
    options: &ServeOptions,
    started: impl FnOnce(Stopper),
) -> io::Result<()> {
    let invalidator = Invalidator::new(&connection)?;
    let make = |workers: usize, transport: TransportKind, devices: &[Arc<OwnedFd>]| {
        let server_options = options.server.with_transport(workers, transport);
        let server = Server::new(fs, workers, negotiated, server_options, invalidator);
        Ok(server.map_err(io::Error::other)?.with_devices(devices))
    };
    serve_handler(make, connection, resources, negotiated, options, started)
}

/// As [`serve`], with the handler that `make` gives, which gets the number of threads, the transport, and the descriptor of
/// each thread if replies can be given later.
///
/// # Locks
/// May sleep; starts threads, and waits for them.
///
/// # Errors
/// Those of `make`, and as [`serve`].
pub fn serve_handler<H: Handler>(
    make: impl FnOnce(usize, TransportKind, &[Arc<OwnedFd>]) -> io::Result<H>,
    connection: OwnedFd,
    resources: TransportResources,
    negotiated: Negotiated,
    options: &ServeOptions,
    started: impl FnOnce(Stopper),
) -> io::Result<()> {
    let TransportResources { devices, uring } = resources;
    match (options.transport, negotiated.uring, uring) {
        (_, true, Some(rings)) => {
            drop(devices);
            let transport = UringTransport::new(&connection, rings)?;
            let handler = make(transport.workers(), TransportKind::Uring, &[])?;
            return serve_over(transport, &Arc::new(handler), started);
        }
        (_, true, None) => {
            return Err(io::Error::other(
                "requests come over io_uring, without rings",
            ));
        }
        (TransportKind::Uring, false, _) => {
            let why = "FUSE over io_uring is disabled: write Y to /sys/module/fuse/parameters/enable_uring, \
                       or use transport=dev";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        (_, false, _) => {}
    }
    let transport = DevTransport::new(&connection, devices)?;
    drop(connection);
    let handler = make(transport.workers(), TransportKind::Dev, transport.devices())?;
    serve_over(transport, &Arc::new(handler), started)
}

/// As [`serve`], over a transport that is bound to the mount.
///
/// # Locks
/// May sleep; starts threads, and waits for them.
///
/// # Errors
/// The transport's.
pub fn serve_over<H: Handler>(
    transport: impl Transport,
    handler: &Arc<H>,
    started: impl FnOnce(Stopper),
) -> io::Result<()> {
    let for_stopper: Arc<dyn Handler> = handler.clone();
    let stopper = Stopper(Arc::downgrade(&for_stopper));
    drop(for_stopper);
    transport.run(handler, || started(stopper))
}

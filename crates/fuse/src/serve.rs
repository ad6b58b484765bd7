//! A file system served to a mount, from its first request to its last.

use crate::abi::{NOTIFY_INVAL_INODE, output};
use crate::handler::Handler;
use crate::mountpoint::Negotiated;
use crate::queues::QueueServer;
use crate::served::{Outdated, Served};
use crate::server::{Notify, Server, ServerOptions};
use crate::settings::{Settings, Synchronous};
use crate::transport::dev::DevTransport;
use crate::transport::reply::send_notification;
use crate::transport::uring::{self, THREADS_PER_CPU, UringPrepared, UringTransport};
use crate::transport::{Transport, TransportKind, open_device};
use serde_json::{Map, Value};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak, mpsc};
use std::thread;
use uext4::mqueue::IpcNamespace;
use zerocopy::IntoBytes;

/// Threads on `/dev/fuse` for each CPU, and the fewest of them: as many can sleep in fsync(2) at a time.
const DEV_THREADS_PER_CPU: usize = 4;
const DEV_THREADS_MIN: usize = 8;

/// How many threads serve queues best: they never wait, so one for each CPU, and one that is awake when all answer.
pub fn queue_threads() -> usize {
    1 + std::thread::available_parallelism().map_or(1, usize::from)
}

/// How a mount is served.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// How requests come.
    pub transport: TransportKind,
    /// Threads that answer; over io_uring, of each CPU. `None`: four for each CPU and at least eight on `/dev/fuse`, and the
    /// transport's own number over io_uring.
    pub threads: Option<usize>,
    /// Which changes are durable when they return.
    pub synchronous: Arc<Synchronous>,
    /// Who changes what of the mount can change.
    pub settings: Option<Arc<dyn Settings>>,
    /// What the statistics say beside what is counted: the image, who watches the server.
    pub facts: Map<String, Value>,
}

impl ServeOptions {
    fn for_server(&self, workers: usize, transport: &str) -> ServerOptions {
        let mut facts = self.facts.clone();
        facts.insert("transport".into(), transport.into());
        facts.insert("threads".into(), workers.into());
        ServerOptions {
            synchronous: Arc::clone(&self.synchronous),
            settings: self.settings.clone(),
            facts,
        }
    }
}

/// What serving takes from the host: to be had before a sandbox closes.
pub struct Prepared {
    devices: Vec<OwnedFd>,
    uring: Option<UringPrepared>,
}

impl Prepared {
    /// What the transport that `options` ask for takes: descriptors of `/dev/fuse` for the threads, and rings where the
    /// kernel has FUSE over io_uring turned on.
    ///
    /// # Errors
    /// As the host says: no `/dev/fuse`, or no permission; with io_uring asked for, no rings.
    pub fn new(options: &ServeOptions) -> io::Result<Prepared> {
        let cpus = possible_cpus()?;
        let available = std::thread::available_parallelism().map_or(cpus, usize::from);
        let threads = match options.transport {
            TransportKind::Uring => 1,
            _ => options
                .threads
                .unwrap_or((DEV_THREADS_PER_CPU * available).max(DEV_THREADS_MIN)),
        };
        let devices = (0..threads.max(1)).map(|_| open_device());
        let devices = devices.collect::<io::Result<_>>()?;
        let rings = || UringPrepared::new(cpus, options.threads.unwrap_or(THREADS_PER_CPU));
        let uring = match options.transport {
            TransportKind::Dev => None,
            _ if !uring::is_enabled() => None,
            // The kernel's io_uring may be older than its FUSE, or forbidden.
            TransportKind::Auto => rings().ok(),
            TransportKind::Uring => Some(rings()?),
        };
        Ok(Prepared { devices, uring })
    }

    /// Whether there are rings, so that the kernel can be asked for requests over io_uring.
    pub fn has_rings(&self) -> bool {
        self.uring.is_some()
    }

    /// How many threads will serve at most.
    pub fn workers(&self) -> usize {
        let over_uring = self.uring.as_ref().map_or(0, UringPrepared::workers);
        self.devices.len().max(over_uring)
    }
}

/// How many CPUs the machine could have: the last number of the kernel's list, and one.
fn possible_cpus() -> io::Result<usize> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = list.trim().rsplit([',', '-']).next().unwrap_or_default();
    let last: usize = last.parse().map_err(io::Error::other)?;
    Ok(last + 1)
}

/// Tells the kernel through the connection.
struct Connection {
    fd: Arc<OwnedFd>,
    /// To the thread that says which data is out of date.
    data: mpsc::Sender<u64>,
}

impl Connection {
    /// Starts a thread, which ends with the value.
    fn new(connection: &OwnedFd) -> io::Result<Connection> {
        let fd = Arc::new(connection.try_clone()?);
        let (data, outdated) = mpsc::channel();
        let tells = Arc::clone(&fd);
        let tell = move || {
            for node in outdated {
                tell_outdated(&tells, node, Outdated::All);
            }
        };
        thread::Builder::new()
            .name("invalidation".into())
            .spawn(tell)?;
        Ok(Connection { fd, data })
    }
}

fn tell_outdated(connection: &OwnedFd, node: u64, what: Outdated) {
    let body = output::InvalInode {
        ino: node,
        // Below zero: no data.
        off: if what == Outdated::All { 0 } else { -1 },
        len: 0,
    };
    send_notification(connection, NOTIFY_INVAL_INODE, body.as_bytes());
}

impl Notify for Connection {
    fn outdated(&self, node: u64, what: Outdated) {
        tell_outdated(&self.fd, node, what);
    }

    fn data_outdated(&self, node: u64) {
        // The thread ends after the last sender.
        let _ = self.data.send(node);
    }
}

/// Ends the answering of requests while the kernel still sends them.
#[derive(Clone)]
pub struct Stopper(Weak<dyn Handler>);

impl Stopper {
    /// From now on requests get `ENOTCONN`; returns when none is being answered any more. The threads stay, and wait
    /// for the kernel to end the connection, which it does when this process ends.
    ///
    /// # Locks
    /// May sleep.
    pub fn stop(&self) {
        // One that has ended by itself answers nothing.
        if let Some(handler) = self.0.upgrade() {
            handler.stop();
        }
    }
}

/// Serves `fs` to the mount that `connection` is bound to, until it is unmounted. `started` is called once requests
/// are being answered, with what ends that before the mount does. The file system stays as it is then: whoever called unmounts it.
///
/// # Locks
/// May sleep; starts threads, and waits for them.
///
/// # Errors
/// As the host says, where it cannot go on; with io_uring asked for, if the kernel has it turned off.
pub fn serve<F: Served>(
    fs: Arc<F>,
    connection: OwnedFd,
    prepared: Prepared,
    negotiated: Negotiated,
    options: &ServeOptions,
    started: impl FnOnce(Stopper),
) -> io::Result<()> {
    let notify = Box::new(Connection::new(&connection)?);
    let make = |workers: usize, name: &str| {
        let server_options = options.for_server(workers, name);
        Server::new(fs, workers, negotiated, server_options, notify).map_err(io::Error::other)
    };
    serve_handler(make, connection, prepared, negotiated, options, started)
}

/// As [`serve`], the queues of a namespace, over `/dev/fuse`: a ring holds a request until it is answered, and those of
/// queues may wait for ever.
///
/// # Locks
/// May sleep; starts threads, and waits for them.
///
/// # Errors
/// As the host says, where it cannot go on.
pub fn serve_queues(
    namespace: IpcNamespace,
    connection: OwnedFd,
    prepared: Prepared,
    negotiated: Negotiated,
    options: &ServeOptions,
    started: impl FnOnce(Stopper),
) -> io::Result<()> {
    let transport = DevTransport::new(&connection, prepared.devices)?;
    let workers = transport.workers();
    let server_options = options.for_server(workers, TransportKind::Dev.name());
    let notify = Box::new(Connection::new(&connection)?);
    let server = Server::new(namespace, workers, negotiated, server_options, notify);
    let server = server.map_err(io::Error::other)?;
    let handler = Arc::new(QueueServer::new(server, transport.devices(), connection));
    let for_clock = Arc::clone(&handler);
    let clock = thread::Builder::new().name("deadlines".into());
    let clock = clock.spawn(move || for_clock.watch_the_clock())?;
    let served = run(transport, &handler, started);
    handler.stop();
    match clock.join() {
        Ok(()) => served,
        Err(_) => Err(io::Error::other("a thread panicked")),
    }
}

/// As [`serve`], with the handler that `make` gives, which gets the number of threads and the name of the transport.
///
/// # Locks
/// May sleep; starts threads, and waits for them.
///
/// # Errors
/// Those of `make`, and as [`serve`].
pub fn serve_handler<H: Handler>(
    make: impl FnOnce(usize, &str) -> io::Result<H>,
    connection: OwnedFd,
    prepared: Prepared,
    negotiated: Negotiated,
    options: &ServeOptions,
    started: impl FnOnce(Stopper),
) -> io::Result<()> {
    let Prepared { devices, uring } = prepared;
    match (options.transport, negotiated.uring, uring) {
        (_, true, Some(rings)) => {
            drop(devices);
            let transport = UringTransport::new(&connection, rings)?;
            let handler = make(transport.workers(), TransportKind::Uring.name())?;
            return run(transport, &Arc::new(handler), started);
        }
        (_, true, None) => {
            return Err(io::Error::other(
                "requests come over io_uring, without rings",
            ));
        }
        (TransportKind::Uring, false, _) => {
            let why = "FUSE over io_uring is turned off: write Y to /sys/module/fuse/parameters/enable_uring, \
                       or use transport=dev";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        (_, false, _) => {}
    }
    let transport = DevTransport::new(&connection, devices)?;
    drop(connection);
    let handler = make(transport.workers(), TransportKind::Dev.name())?;
    run(transport, &Arc::new(handler), started)
}

fn run<H: Handler>(
    transport: impl Transport,
    handler: &Arc<H>,
    started: impl FnOnce(Stopper),
) -> io::Result<()> {
    let for_stopper: Arc<dyn Handler> = handler.clone();
    let stopper = Stopper(Arc::downgrade(&for_stopper));
    drop(for_stopper);
    transport.run(handler, || started(stopper))
}

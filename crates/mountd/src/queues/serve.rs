//! Serving a namespace of queues to a mount.

use super::adapter::QueueAdapter;
use super::server::QueueServer;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use uext4::unstable::mqueue::IpcNamespace;
use uext4_fuse::transport::dev::DevTransport;
use uext4_fuse::{
    Invalidator, Negotiated, ServeOptions, Server, Stopper, Transport, TransportKind,
    TransportResources, serve_over,
};

/// The number of threads that serves queues best. No request blocks its thread, so this is one for each CPU, and one more
/// that is awake while those answer.
pub fn threads() -> usize {
    1 + thread::available_parallelism().map_or(1, usize::from)
}

/// As [`uext4_fuse::serve`], for the queues of a namespace, and always over `/dev/fuse`: a ring holds a request until it
/// is answered, and a receiver may wait for ever.
///
/// # Locks
/// May sleep; starts threads, and waits for them.
///
/// # Errors
/// The transport's.
pub fn serve_queues(
    namespace: IpcNamespace,
    connection: OwnedFd,
    resources: TransportResources,
    negotiated: Negotiated,
    options: &ServeOptions,
    started: impl FnOnce(Stopper),
) -> io::Result<()> {
    let transport = DevTransport::new(&connection, resources.into_devices())?;
    let workers = transport.workers();
    let server = Server::new(
        QueueAdapter(namespace),
        workers,
        negotiated,
        options.server.with_transport(workers, TransportKind::Dev),
        // Queues are opened past the page cache.
        Invalidator::without_data(&connection)?,
    )
    .map_err(io::Error::other)?;
    let handler = Arc::new(QueueServer::new(server, transport.devices(), connection));
    let for_deadlines = Arc::clone(&handler);
    let deadlines = thread::Builder::new()
        .name("deadlines".into())
        .spawn(move || for_deadlines.expire_calls())?;
    let served = serve_over(transport, &handler, started);
    uext4_fuse::Handler::stop(&*handler);
    match deadlines.join() {
        Ok(()) => served,
        Err(_) => Err(io::Error::other("a thread panicked")),
    }
}

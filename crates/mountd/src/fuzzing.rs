//! The request handlers of mounts, without a mount: for fuzzing.

use crate::ext4_adapter::Ext4Adapter;
use crate::options::Options;
use crate::process::settings::ImageSettings;
use crate::queues::{QueueAdapter, QueueServer};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use uext4::unstable::Ext4;
use uext4::unstable::mqueue::IpcNamespace;
use uext4_fuse::{Handler, Invalidator, Negotiated, Server, ServerOptions};

/// What is sent to the kernel goes here.
fn connection() -> io::Result<OwnedFd> {
    let null = File::options().read(true).write(true).open("/dev/null");
    Ok(OwnedFd::from(null?))
}

/// The handler of a mounted image.
///
/// # Errors
/// The host's, or that of reading the root directory.
pub fn image_handler(fs: Arc<Ext4>) -> io::Result<impl Handler> {
    let mut options = ServerOptions::default();
    let synchronous = Arc::clone(&options.synchronous);
    let settings = ImageSettings::new(Arc::clone(&fs), &Options::default(), synchronous, 0);
    options.settings = Some(Arc::new(settings));
    let root = Ext4Adapter::new(fs, 2, 0);
    let invalidator = Invalidator::without_data(&connection()?)?;
    let server = Server::new(root, 1, Negotiated::default(), options, invalidator);
    let server = server.map_err(io::Error::other)?;
    Ok(server.with_devices(&[Arc::new(connection()?)]))
}

/// The handler of a namespace of message queues.
///
/// # Errors
/// The host's.
pub fn queue_handler(namespace: IpcNamespace) -> io::Result<impl Handler> {
    let invalidator = Invalidator::without_data(&connection()?)?;
    let options = ServerOptions::default();
    let adapter = QueueAdapter(namespace);
    let server = Server::new(adapter, 1, Negotiated::default(), options, invalidator);
    let server = server.map_err(io::Error::other)?;
    let devices = [Arc::new(connection()?)];
    Ok(QueueServer::new(server, &devices, connection()?))
}

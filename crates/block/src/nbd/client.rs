//! The connections to a server, which all devices of an export share.
//!
//! # Locking
//! The list of the clients of this process is a leaf (class `device`).

use super::address::NbdAddress;
use super::connection::{Connection, Lost, Pending, Request};
use super::handshake::{self, Export, PATIENCE};
use super::tls::Security;
use crate::error::Failure;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::{Duration, Instant};
use uext4_sync::{Mutex, RwLock, class};

/// Connections to a server that allows several.
const CONNECTIONS: usize = 4;
/// What a further one is waited for at least.
const PATIENCE_MIN: Duration = Duration::from_millis(50);

/// Clients by their addresses.
type Clients = Vec<(NbdAddress, Weak<Client>)>;

/// Those of this process.
static CLIENTS: LazyLock<Mutex<Clients>> =
    LazyLock::new(|| Mutex::new(&class::DEVICE, Clients::new()));

/// The connections to one export.
#[derive(Debug)]
pub struct Client {
    connections: Vec<Connection>,
    /// Immutable.
    pub export: Export,
    /// Which connection is used next.
    next: AtomicUsize,
    lost: Arc<Lost>,
    /// What was to be durable and is not.
    pub failure: OnceLock<Failure>,
    /// Blocks of the server that are read, changed and written back; a write of whole ones takes it shared.
    pub edges: RwLock<Vec<u8>>,
}

impl Client {
    /// The one that this process has, if it still works, or a new one.
    ///
    /// # Errors
    /// The server can't be reached, or refuses.
    pub fn of(address: &NbdAddress) -> io::Result<Arc<Client>> {
        let mut clients = CLIENTS.lock();
        clients.retain(|(_, client)| client.strong_count() > 0);
        let of_address = clients.iter().filter(|(other, _)| other == address);
        let live: Vec<Arc<Client>> = of_address.filter_map(|(_, c)| c.upgrade()).collect();
        drop(clients);
        let found = live.into_iter().rev().find(|client| client.works());
        if let Some(found) = found {
            return Ok(found);
        }
        let client = Arc::new(Client::open(address)?);
        CLIENTS
            .lock()
            .push((address.clone(), Arc::downgrade(&client)));
        Ok(client)
    }

    fn open(address: &NbdAddress) -> io::Result<Client> {
        let security = Security::of(address)?;
        let begin = Instant::now();
        let (stream, export) = handshake::open(address, security.as_ref(), PATIENCE)?;
        // A server that lets fewer in may leave the next one waiting.
        let patience = (begin.elapsed() * 8).clamp(PATIENCE_MIN, PATIENCE);
        let mut streams = vec![stream];
        while export.allows_several() && streams.len() < CONNECTIONS {
            match handshake::open(address, security.as_ref(), patience) {
                Ok((stream, other)) if other == export => streams.push(stream),
                _ => break,
            }
        }
        let (is_structured, lost) = (export.is_structured, Arc::default());
        Ok(Client {
            connections: streams
                .into_iter()
                .map(|stream| Connection::new(stream, is_structured, &lost))
                .collect(),
            export,
            next: AtomicUsize::new(0),
            lost,
            failure: OnceLock::new(),
            edges: RwLock::new(&class::DEVICE_EDGES, Vec::new()),
        })
    }

    /// How many connections work: all or none.
    pub fn connections(&self) -> usize {
        match self.works() {
            true => self.connections.len(),
            false => 0,
        }
    }

    fn works(&self) -> bool {
        self.lost.get().is_none() && self.failure.get().is_none()
    }

    /// Sends a request and its data.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn start(&self, request: Request, data: &[IoSlice<'_>]) -> io::Result<Pending> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        self.connections[number].start(request, data)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        for connection in &self.connections {
            connection.close();
        }
    }
}

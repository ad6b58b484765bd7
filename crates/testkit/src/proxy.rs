//! A way to a server that is cut, or that holds what it carries.

use crate::external::*;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Condvar, Mutex, PoisonError};

/// Carries connections to a server, as [`Way`] says.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What becomes of what a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It arrives.
    Open,
    /// It waits, and arrives when the way is open again.
    Held,
    /// It is lost, with its connection; none can be made.
    Cut,
}

#[derive(Debug)]
struct Shared {
    way: Mutex<Way>,
    changed: Condvar,
    /// Those that were made, both ends of each.
    connections: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Of a server, with a way that is open. It runs until the process ends.
    pub fn start(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let proxy = Proxy {
            address: listener.local_addr().expect("an address"),
            shared: Arc::new(Shared {
                way: Mutex::new(Way::Open),
                changed: Condvar::new(),
                connections: Mutex::default(),
            }),
        };
        let shared = Arc::clone(&proxy.shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                // A client that has ended already needs nothing.
                let _ = client.and_then(|client| connect(&shared, client, server));
            }
        });
        proxy
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What becomes of what clients send from now on.
    pub fn set(&self, way: Way) {
        *lock(&self.shared.way) = way;
        self.shared.changed.notify_all();
        if way == Way::Cut {
            for connection in lock(&self.shared.connections).drain(..) {
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(shared: &Arc<Shared>, client: TcpStream, server: SocketAddr) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    let mut connections = lock(&shared.connections);
    if *lock(&shared.way) == Way::Cut {
        return client.shutdown(Shutdown::Both);
    }
    connections.extend([client.try_clone()?, server.try_clone()?]);
    drop(connections);
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(len) = from_client.read(&mut bytes) {
            let way = lock(&shared.way);
            let way = shared.changed.wait_while(way, |way| *way == Way::Held);
            drop(way);
            if len == 0 || to_server.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut from_server, mut to_client) = (server, client);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    Ok(())
}

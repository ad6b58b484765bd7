//! A connection's socket.

use super::address::Server;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long the other host may be silent, where its system would answer.
#[cfg(target_os = "linux")]
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A connection's socket.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    /// Connects to a server.
    ///
    /// # Errors
    /// The host's.
    pub(super) fn connect(server: &Server, patience: Duration) -> io::Result<Socket> {
        match server {
            Server::Tcp { host, port } => {
                let mut failed = io::Error::new(ErrorKind::NotFound, "the host has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, patience) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            end_when_silent(&stream)?;
                            return Ok(Socket::Tcp(stream));
                        }
                        Err(e) => failed = e,
                    }
                }
                Err(failed)
            }
            #[cfg(unix)]
            Server::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path)?)),
            #[cfg(not(unix))]
            Server::Unix(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    pub fn set_patience(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => {
                stream.set_write_timeout(time)?;
                stream.set_read_timeout(time)
            }
            #[cfg(unix)]
            Socket::Unix(stream) => {
                stream.set_write_timeout(time)?;
                stream.set_read_timeout(time)
            }
        }
    }

    /// Acknowledges what arrives at once: some servers answer in small parts, each of which waits for that.
    pub fn acknowledge(&self) {
        #[cfg(target_os = "linux")]
        if let Socket::Tcp(stream) = self {
            // It is slower without.
            let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
        }
    }

    /// Ends it, also for a thread that reads it.
    pub fn shut_down(&self) {
        // It is ended otherwise.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(std::net::Shutdown::Both),
            #[cfg(unix)]
            Socket::Unix(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

/// Ends a connection whose other host is not there any more: one that only waits would wait for ever.
fn end_when_silent(stream: &TcpStream) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::net::sockopt;
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, SILENCE_MAX / 2)?;
        sockopt::set_tcp_keepintvl(stream, SILENCE_MAX / 12)?;
        sockopt::set_tcp_keepcnt(stream, 6)?;
        sockopt::set_tcp_user_timeout(stream, SILENCE_MAX.as_millis() as u32)?;
    }
    let _ = stream;
    Ok(())
}

impl Read for &Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).read(buf),
            #[cfg(unix)]
            Socket::Unix(stream) => (&*stream).read(buf),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[io::IoSlice::new(buf)])
    }

    // A confined server may make this call of the host alone.
    fn write_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).write_vectored(bufs),
            #[cfg(unix)]
            Socket::Unix(stream) => (&*stream).write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

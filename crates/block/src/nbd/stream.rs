//! A connection's bytes, as they are or with TLS.

use super::socket::Socket;
use super::tls::{Security, TlsStream};
use std::io::{self, IoSlice, Read, Write};
use std::time::Duration;

/// A connection's bytes.
#[derive(Debug)]
pub enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// The same connection with TLS from now on.
    ///
    /// # Errors
    /// The server's name can't be that of a certificate.
    pub fn secured(self, security: &Security) -> io::Result<Stream> {
        match self {
            Stream::Plain(socket) => Ok(Stream::Tls(Box::new(TlsStream::new(socket, security)?))),
            Stream::Tls(_) => Ok(self),
        }
    }

    fn socket(&self) -> &Socket {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.socket(),
        }
    }

    /// How long a call may wait from now on.
    pub fn set_patience(&self, time: Option<Duration>) -> io::Result<()> {
        self.socket().set_patience(time)
    }

    /// See [`Socket::acknowledge`].
    pub fn acknowledge(&self) {
        self.socket().acknowledge();
    }

    /// Ends it, also for a thread that reads it.
    pub fn shut_down(&self) {
        self.socket().shut_down();
    }

    /// Sends that nothing follows, where the server has to know.
    pub fn finish(&self) {
        if let Stream::Tls(stream) = self {
            stream.finish();
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => (&*socket).read(buf),
            Stream::Tls(stream) => (&**stream).read(buf),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => (&*socket).write_vectored(bufs),
            Stream::Tls(stream) => (&**stream).write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

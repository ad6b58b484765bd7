//! What a build without TLS does where an address asks for it.

use super::address::NbdAddress;
use super::socket::Socket;
use std::io::{self, ErrorKind, Read, Write};

/// A connection with TLS; none can be.
#[derive(Debug)]
pub enum TlsStream {}

/// What is needed to begin TLS; none can be.
#[derive(Debug)]
pub enum Security {}

impl Security {
    pub fn of(address: &NbdAddress) -> io::Result<Option<Security>> {
        match address.tls {
            None => Ok(None),
            Some(_) => Err(io::Error::new(
                ErrorKind::Unsupported,
                "it asks for TLS, which this build has not; `cargo install --path crates/cli` in uext4's source tree installs one that has",
            )),
        }
    }
}

/// An error of the handshake as it is.
pub fn explained(error: io::Error, _: &NbdAddress) -> io::Error {
    error
}

impl TlsStream {
    pub fn new(_: Socket, security: &Security) -> io::Result<TlsStream> {
        match *security {}
    }

    pub fn socket(&self) -> &Socket {
        match *self {}
    }

    pub fn finish(&self) {
        match *self {}
    }
}

impl Read for &TlsStream {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match **self {}
    }
}

impl Write for &TlsStream {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match **self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match **self {}
    }
}

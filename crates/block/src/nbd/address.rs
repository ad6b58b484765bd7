//! Where an export is.

use crate::device_id::DeviceId;
use crate::scheme::{NBD, SOCKET};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::fmt;
use std::path::PathBuf;

/// The port of servers that name none.
const PORT: u16 = 10_809;
/// See [`NBD`].
const TCP: &str = NBD[0];
/// See [`NBD`].
const UNIX: &str = NBD[1];
/// See [`NBD`].
const TLS: &str = NBD[2];
/// What is written as `%XX`.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#').add(b':');

/// The export of a server: `nbd://HOST[:PORT]/EXPORT`, or `nbd+unix:///EXPORT?socket=PATH`. Bytes of an export or a path can be written as
/// `%XX`; an export without a name is the server's default.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NbdAddress {
    pub(super) server: Server,
    pub(super) export: String,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Server {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl NbdAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// Why it is none: the end of a sentence.
    pub fn parse(name: &str) -> Result<NbdAddress, &'static str> {
        if name.starts_with(TLS) {
            return Err("asks for TLS, which this client has not");
        }
        if let Some(rest) = name.strip_prefix(UNIX) {
            let Some((export, socket)) = rest.split_once(SOCKET) else {
                return Err("names no socket; nbd+unix:///EXPORT?socket=PATH does");
            };
            let Some(export) = export.strip_prefix('/') else {
                return Err(
                    "names a host beside its socket; nbd+unix:///EXPORT?socket=PATH has three slashes",
                );
            };
            if socket.is_empty() {
                return Err("names no socket; nbd+unix:///EXPORT?socket=PATH does");
            }
            let socket = std::path::absolute(decoded(socket)?);
            return Ok(NbdAddress {
                server: Server::Unix(socket.map_err(|_| "has a socket that can't be found")?),
                export: decoded(export)?,
            });
        }
        let rest = name.strip_prefix(TCP).ok_or("is not an address of NBD")?;
        let (server, export) = rest.split_once('/').unwrap_or((rest, ""));
        if export.contains('?') {
            return Err("has a `?`, which is written as %3F in the name of an export");
        }
        let (host, port) = match server.rsplit_once(':') {
            Some((host, "")) => (host, PORT),
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse();
                (
                    host,
                    port.map_err(|_| "has a port that is not a number up to 65535")?,
                )
            }
            _ => (server, PORT),
        };
        let host = match host.strip_prefix('[') {
            None => host,
            Some(inside) => inside
                .strip_suffix(']')
                .ok_or("has a bracket without its other one")?,
        };
        if host.contains(['[', ']']) {
            return Err("has a bracket in its host");
        }
        if host.is_empty() {
            return Err("names no host");
        }
        Ok(NbdAddress {
            server: Server::Tcp {
                host: decoded(host)?,
                port,
            },
            export: decoded(export)?,
        })
    }

    /// By which two opens of the export are recognised.
    pub fn identity(&self) -> DeviceId {
        DeviceId::of_name(self)
    }
}

fn decoded(text: &str) -> Result<String, &'static str> {
    let bytes = percent_decode_str(text).decode_utf8();
    Ok(bytes.map_err(|_| "has %XX that is not UTF-8")?.into_owned())
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = utf8_percent_encode(&self.export, ENCODED);
        match &self.server {
            Server::Unix(path) => {
                let path = path.to_string_lossy();
                write!(
                    f,
                    "{UNIX}/{export}{SOCKET}{}",
                    utf8_percent_encode(&path, ENCODED)
                )
            }
            Server::Tcp { host, port } => {
                let (open, close) = if host.contains(':') {
                    ("[", "]")
                } else {
                    ("", "")
                };
                write!(f, "{TCP}{open}{host}{close}")?;
                if *port != PORT {
                    write!(f, ":{port}")?;
                }
                write!(f, "/{export}")
            }
        }
    }
}

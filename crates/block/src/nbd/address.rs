//! Where an export is.

use crate::device_id::DeviceId;
use crate::scheme::NBD;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::fmt;
use std::path::PathBuf;

/// The port of servers that name none.
const PORT: u16 = 10_809;
/// What is written as `%XX`.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'%')
    .add(b'?')
    .add(b'#')
    .add(b':')
    .add(b'&');

/// The export of a server: `nbd://HOST[:PORT]/EXPORT`, or `nbd+unix:///EXPORT?socket=PATH`. Bytes of an export or a path can be written as
/// `%XX`; an export without a name is the server's default.
///
/// `nbds://` and `nbds+unix://` ask for TLS, with the parameters `tls-certificates=DIR`, a directory with `ca-cert.pem`, `client-cert.pem`
/// and `client-key.pem`, and `tls-hostname=NAME`, the name that the server's certificate is for: otherwise that of the host, and of a
/// socket `localhost`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NbdAddress {
    pub(super) server: Server,
    pub(super) export: String,
    pub(super) tls: Option<Tls>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Server {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// What is known of a server that is asked for TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tls {
    /// The directory with certificates; without one the authorities are those of this host.
    pub certificates: Option<PathBuf>,
    /// The name that the certificate is for.
    pub hostname: Option<String>,
}

/// What stands behind the `?`.
#[derive(Default)]
struct Parameters {
    socket: Option<PathBuf>,
    tls: Tls,
}

impl Parameters {
    fn parse(query: &str, is_tls: bool) -> Result<Parameters, &'static str> {
        let mut parameters = Parameters::default();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = decoded(value)?;
            if key.starts_with("tls-") && !is_tls {
                return Err("has a parameter of TLS, which nbds:// and nbds+unix:// ask for");
            }
            match (key, &value[..]) {
                ("socket" | "tls-certificates" | "tls-hostname", "") => {
                    return Err("has a parameter without a value");
                }
                ("socket", path) => parameters.socket = Some(absolute(path)?),
                ("tls-certificates", dir) => parameters.tls.certificates = Some(absolute(dir)?),
                ("tls-hostname", _) => parameters.tls.hostname = Some(value),
                ("tls-verify-peer", "1" | "true") | ("tls-type", "x509") => {}
                ("tls-verify-peer", _) => {
                    return Err(
                        "asks that the server's certificate is not verified, which this client always does",
                    );
                }
                ("tls-type", _) => {
                    return Err(
                        "asks for another kind of TLS than that with certificates, tls-type=x509",
                    );
                }
                _ => {
                    return Err(
                        "has an unknown parameter; those known are socket, tls-certificates and tls-hostname. In the name of an export a `?` is written as %3F",
                    );
                }
            }
        }
        Ok(parameters)
    }
}

impl NbdAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// Why it is none: the end of a sentence.
    pub fn parse(name: &str) -> Result<NbdAddress, &'static str> {
        let scheme = NBD.iter().find(|scheme| name.starts_with(**scheme));
        let scheme = scheme.ok_or("is not an address of NBD")?;
        let (is_tls, is_unix) = (scheme.starts_with("nbds"), scheme.contains("unix"));
        let rest = &name[scheme.len()..];
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (server, export) = rest.split_once('/').unwrap_or((rest, ""));
        let parameters = Parameters::parse(query, is_tls)?;
        let server = match (is_unix, parameters.socket) {
            (true, None) => return Err("names no socket; nbd+unix:///EXPORT?socket=PATH does"),
            (true, Some(_)) if !server.is_empty() => {
                return Err(
                    "names a host beside its socket; nbd+unix:///EXPORT?socket=PATH has three slashes",
                );
            }
            (true, Some(socket)) => Server::Unix(socket),
            (false, Some(_)) => {
                return Err(
                    "names a socket beside its host; nbd+unix:///EXPORT?socket=PATH has none",
                );
            }
            (false, None) => Server::tcp(server)?,
        };
        Ok(NbdAddress {
            server,
            export: decoded(export)?,
            tls: is_tls.then_some(parameters.tls),
        })
    }

    /// By which two opens of the export are recognised, however they connect.
    pub fn identity(&self) -> DeviceId {
        DeviceId::of_name(NbdAddress {
            tls: None,
            ..self.clone()
        })
    }
}

impl Server {
    /// Reads `HOST[:PORT]`.
    fn tcp(server: &str) -> Result<Server, &'static str> {
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
        let host = decoded(host)?;
        Ok(Server::Tcp { host, port })
    }
}

fn decoded(text: &str) -> Result<String, &'static str> {
    let is_code = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_code) {
        return Err(
            "has a `%` without two hexadecimal digits behind it; a `%` of a name is written as %25",
        );
    }
    let bytes = percent_decode_str(text).decode_utf8();
    Ok(bytes.map_err(|_| "has %XX that is not UTF-8")?.into_owned())
}

fn absolute(path: &str) -> Result<PathBuf, &'static str> {
    std::path::absolute(path).map_err(|_| "has a path that can't be found")
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
        let tls = if self.tls.is_some() { "s" } else { "" };
        let export = encoded(&self.export);
        let mut parameters = Vec::new();
        match &self.server {
            Server::Unix(path) => {
                write!(f, "nbd{tls}+unix:///{export}")?;
                parameters.push(("socket", encoded(&path.to_string_lossy())));
            }
            Server::Tcp { host, port } => {
                let (open, close) = if host.contains(':') {
                    ("[", "]")
                } else {
                    ("", "")
                };
                write!(f, "nbd{tls}://{open}{host}{close}")?;
                if *port != PORT {
                    write!(f, ":{port}")?;
                }
                write!(f, "/{export}")?;
            }
        }
        let tls = self.tls.as_ref();
        if let Some(dir) = tls.and_then(|tls| tls.certificates.as_ref()) {
            parameters.push(("tls-certificates", encoded(&dir.to_string_lossy())));
        }
        if let Some(name) = tls.and_then(|tls| tls.hostname.as_ref()) {
            parameters.push(("tls-hostname", encoded(name)));
        }
        for (number, (key, value)) in parameters.iter().enumerate() {
            let before = if number == 0 { '?' } else { '&' };
            write!(f, "{before}{key}={value}")?;
        }
        Ok(())
    }
}

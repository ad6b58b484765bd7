//! TLS of a connection.
//!
//! # Locking
//! `sending` is held while a thread sends, so that what was encrypted first is sent first, and `receiving` by the one thread that reads.
//! `session` is a leaf, held to encrypt or decrypt: never while the socket is waited for, as a server may read no further before its replies
//! are read.

use super::address::{NbdAddress, Server, Tls};
use super::socket::Socket;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, pem,
};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4_sync::{Mutex, class};

/// What a certificate of a server behind a socket is for, unless the address names it.
const OF_SOCKETS: &str = "localhost";
/// Bytes that are read from a socket at a time: more than a record has.
const INCOMING: usize = 32 << 10;
/// The most that is encrypted before it is sent, in bytes.
const OUTGOING_MAX: usize = 256 << 10;

/// What is needed to begin TLS with a server.
#[derive(Debug)]
pub struct Security {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Security {
    /// That of an address; `None` if it asks for no TLS.
    ///
    /// # Errors
    /// A file of certificates can't be used; the host's name can't be that of a certificate.
    pub fn of(address: &NbdAddress) -> io::Result<Option<Security>> {
        let Some(tls) = &address.tls else {
            return Ok(None);
        };
        let name = expected_name(address).to_owned();
        let name = ServerName::try_from(name.clone()).map_err(|_| {
            invalid(format!(
                "{name:?} can't be the name in a certificate; tls-hostname=NAME gives another"
            ))
        })?;
        let config = Arc::new(config(tls)?);
        Ok(Some(Security { config, name }))
    }
}

fn expected_name(address: &NbdAddress) -> &str {
    let given = address.tls.as_ref().and_then(|tls| tls.hostname.as_deref());
    given.unwrap_or(match &address.server {
        Server::Tcp { host, .. } => host,
        Server::Unix(_) => OF_SOCKETS,
    })
}

fn invalid(why: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

fn config(tls: &Tls) -> io::Result<ClientConfig> {
    let file = |name: &str| {
        let path = tls.certificates.as_ref().map(|dir| dir.join(name));
        path.filter(|path| path.exists())
    };
    if let Some(dir) = &tls.certificates
        && !dir.is_dir()
    {
        return Err(invalid(format!("{} is not a directory", dir.display())));
    }
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(roots(file("ca-cert.pem"))?);
    let mut verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
    if let Some(path) = file("ca-crl.pem") {
        verifier = verifier
            .with_crls(all::<CertificateRevocationListDer<'_>>(&path)?)
            .allow_unknown_revocation_status();
    }
    let verifier = verifier.build().map_err(|e| invalid(e.to_string()))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| invalid(e.to_string()))?
        .with_webpki_verifier(verifier);
    Ok(match (file("client-cert.pem"), file("client-key.pem")) {
        (Some(chain), Some(key)) => {
            let private = PrivateKeyDer::from_pem_file(&key).map_err(|e| unusable(&key, e))?;
            builder
                .with_client_auth_cert(all(&chain)?, private)
                .map_err(|e| invalid(format!("{} with {}: {e}", chain.display(), key.display())))?
        }
        (None, None) => builder.with_no_client_auth(),
        (Some(path), None) | (None, Some(path)) => {
            return Err(invalid(format!(
                "{} is there alone; a client has both client-cert.pem and client-key.pem",
                path.display()
            )));
        }
    })
}

/// The authorities in a file, or those of this host.
fn roots(file: Option<PathBuf>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            for certificate in all::<CertificateDer<'_>>(&path)? {
                let added = roots.add(certificate);
                added.map_err(|e| invalid(format!("{}: {e}", path.display())))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(invalid(
                    "this host has no CA certificates; tls-certificates=DIR names a directory with ca-cert.pem".to_owned(),
                ));
            }
        }
    }
    Ok(roots)
}

/// All items of a kind in a PEM file.
fn all<T: PemObject>(path: &Path) -> io::Result<Vec<T>> {
    let items = T::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<T>, _>>);
    match items.map_err(|e| unusable(path, e))? {
        items if items.is_empty() => Err(unusable(path, pem::Error::NoItemsFound)),
        items => Ok(items),
    }
}

fn unusable(path: &Path, why: pem::Error) -> io::Error {
    match why {
        pem::Error::Io(e) => io::Error::new(e.kind(), format!("{}: {e}", path.display())),
        why => invalid(format!("{}: {why}", path.display())),
    }
}

/// An error of the handshake with what can be done about it.
pub fn explained(error: io::Error, address: &NbdAddress) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let why = match inner {
        Some(rustls::Error::InvalidCertificate(why)) => refused(why, address),
        Some(rustls::Error::AlertReceived(alert)) => format!(
            "the server ends TLS ({alert:?}); it may ask for a certificate of this client, client-cert.pem and client-key.pem in the directory of tls-certificates=DIR"
        ),
        Some(why) => format!("TLS fails: {why}"),
        None => return error,
    };
    io::Error::new(ErrorKind::PermissionDenied, why)
}

/// Why a server's certificate is not accepted.
fn refused(why: &CertificateError, address: &NbdAddress) -> String {
    let name = expected_name(address);
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "no known CA has signed the server's certificate; tls-certificates=DIR names a directory with the certificate of its CA, ca-cert.pem".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "the server's certificate is not for {name} (as a subject alternative name); tls-hostname=NAME gives the name that it is for"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired; its operator makes a new one".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet; a clock may be wrong".to_owned()
        }
        CertificateError::Revoked => "the server's certificate was revoked (ca-crl.pem)".to_owned(),
        why => format!("the server's certificate can't be accepted: {why}"),
    }
}

/// A connection with TLS. Its handshake is part of the first calls.
#[derive(Debug)]
pub struct TlsStream {
    socket: Socket,
    session: Mutex<ClientConnection>,
    /// What is encrypted and not sent yet.
    sending: Mutex<Vec<u8>>,
    receiving: Mutex<Incoming>,
}

/// What was read from the socket and is not decrypted yet.
#[derive(Debug)]
struct Incoming {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl TlsStream {
    /// On a socket whose server expects TLS.
    ///
    /// # Errors
    /// The session can't begin.
    pub fn new(socket: Socket, security: &Security) -> io::Result<TlsStream> {
        let session = ClientConnection::new(Arc::clone(&security.config), security.name.clone());
        let mut session = session.map_err(io::Error::other)?;
        session.set_buffer_limit(Some(OUTGOING_MAX));
        Ok(TlsStream {
            socket,
            session: Mutex::new(&class::DEVICE, session),
            sending: Mutex::new(&class::DEVICE_SYNC, Vec::new()),
            receiving: Mutex::new(
                &class::DEVICE_SYNC,
                Incoming {
                    bytes: vec![0; INCOMING].into(),
                    start: 0,
                    end: 0,
                },
            ),
        })
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Sends that nothing follows.
    pub fn finish(&self) {
        // The server may have gone.
        let _ = self.send(|session| {
            session.send_close_notify();
            Ok(0)
        });
    }

    /// Sends what `encrypt` adds, after what was encrypted before.
    fn send(
        &self,
        encrypt: impl FnOnce(&mut ClientConnection) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut bytes = self.sending.lock();
        let mut session = self.session.lock();
        let taken = encrypt(&mut session)?;
        while session.wants_write() {
            session.write_tls(&mut *bytes)?;
        }
        drop(session);
        let sent = (&self.socket).write_all(&bytes);
        bytes.clear();
        sent.map(|()| taken)
    }

    /// Decrypts a part of what was read, and in the handshake answers.
    fn decrypt(&self, incoming: &mut Incoming) -> io::Result<()> {
        let mut session = self.session.lock();
        let was_handshaking = session.is_handshaking();
        let mut bytes = &incoming.bytes[incoming.start..incoming.end];
        incoming.start += session.read_tls(&mut bytes)?;
        let processed = session.process_new_packets().map(drop);
        let answers = was_handshaking && session.wants_write();
        drop(session);
        let answered = match answers {
            true => self.send(|_| Ok(0)).map(drop),
            false => Ok(()),
        };
        processed.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
        answered
    }
}

impl Read for &TlsStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut incoming = self.receiving.lock();
        loop {
            match self.session.lock().reader().read(buf) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            if incoming.start == incoming.end {
                incoming.start = 0;
                incoming.end = (&self.socket).read(&mut incoming.bytes)?;
                if incoming.end == 0 {
                    return Ok(0);
                }
            }
            self.decrypt(&mut incoming)?;
        }
    }
}

impl Write for &TlsStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send(|session| {
            let mut taken = 0;
            for buf in bufs {
                let n = session.writer().write(buf)?;
                taken += n;
                if n < buf.len() {
                    break;
                }
            }
            Ok(taken)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! What the names of images begin with that a server has.

/// Of NBD servers over TCP, over sockets, and over TLS.
pub const NBD: [&str; 3] = ["nbd://", "nbd+unix://", "nbds://"];
/// What stands between an export and the socket of its server.
pub const SOCKET: &str = "?socket=";

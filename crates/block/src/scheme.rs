//! What the names of images begin with that a server has.

/// Of NBD servers over TCP and over sockets, and of both with TLS.
pub const NBD: [&str; 4] = ["nbd://", "nbd+unix://", "nbds://", "nbds+unix://"];
/// Of Ceph's block devices.
pub const RBD: &str = "rbd:";
/// Of stores of objects.
pub const S3: &str = "s3://";
/// What stands between an export and the socket of its server.
pub const SOCKET: &str = "?socket=";

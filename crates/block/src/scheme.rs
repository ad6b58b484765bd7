//! What the names of images begin with that a server has.

/// Of NBD servers over TCP, over sockets, and over TLS.
pub const NBD: [&str; 3] = ["nbd://", "nbd+unix://", "nbds://"];
/// Of Ceph's block devices.
pub const RBD: &str = "rbd:";
/// Of stores of objects.
pub const S3: &str = "s3://";
/// What stands between an export and the socket of its server.
pub const SOCKET: &str = "?socket=";

//! What a server knows of an image.

/// What a server knows of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteInfo {
    /// The size in bytes.
    pub bytes: u64,
    /// The host or the client that writes it, or wrote it last where the server does not know whether it still does; `None`: none.
    pub writer: Option<String>,
    /// How often the right to write was taken; `None` where the server does not count.
    pub epoch: Option<u64>,
    /// Readers that keep what they read.
    pub readers: Option<u64>,
}

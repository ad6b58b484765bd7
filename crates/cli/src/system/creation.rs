//! How files of the host are opened to be written.

/// How [`files::create`](super::files::create) opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// A device, which is refused if it is mounted or part of another one.
    Device,
    /// A FIFO, which is refused while it has no reader.
    Fifo,
    /// Something else that has no length.
    Special,
    /// A file, which may be there.
    Any,
    /// A file that is there and no link.
    Existing,
    /// Nothing is there.
    New,
}

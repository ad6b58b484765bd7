//! What is written: compressed, and with its digests.

use super::options::{Compression, ExportError, ExportOptions};
use liblzma::stream::MtStreamBuilder;
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::thread::available_parallelism;

/// Bytes that are compressed on their own, so that threads can share the work.
const XZ_BLOCK_BYTES: u64 = 24 << 20;

/// Counts what is written, and computes its digest if that is wanted.
pub(super) struct Digested<W> {
    to: W,
    hash: Option<Sha256>,
    bytes: u64,
}

impl<W: Write> Digested<W> {
    pub fn new(to: W, wanted: bool) -> Self {
        Digested {
            to,
            hash: wanted.then(Sha256::new),
            bytes: 0,
        }
    }

    /// What is below, the bytes that were written, and their digest.
    pub fn finish(self) -> (W, u64, Option<String>) {
        (self.to, self.bytes, self.hash.map(digest))
    }
}

impl<W: Write> Write for Digested<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let n = self.to.write(data)?;
        if let Some(hash) = &mut self.hash {
            hash.update(&data[..n]);
        }
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn digest(hash: Sha256) -> String {
    let digits = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    ["sha256:".to_owned(), digits].concat()
}

/// The digest of bytes.
pub(super) fn digest_of(bytes: &[u8]) -> String {
    digest(Sha256::new_with_prefix(bytes))
}

/// A compressor.
pub(super) enum Compressor<W: Write> {
    None(W),
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
    Xz(liblzma::write::XzEncoder<W>),
    Bzip2(bzip2::write::BzEncoder<W>),
}

impl<W: Write> Compressor<W> {
    /// One that writes to `to`.
    pub fn new(to: W, options: &ExportOptions) -> Result<Self, ExportError> {
        let level_max = match options.compression {
            Compression::Zstd => 22,
            _ => 9,
        };
        if let Some(level) = options
            .level
            .filter(|level| !(1..=level_max).contains(level))
        {
            return Err(ExportError::Level(level));
        }
        let threads = match options.threads {
            0 => available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        let threads = u32::try_from(threads).unwrap_or(u32::MAX).min(64);
        let level = |default| options.level.unwrap_or(default);
        let made = match options.compression {
            Compression::None => Ok(Compressor::None(to)),
            Compression::Gzip => {
                let level = flate2::Compression::new(level(6));
                Ok(Compressor::Gzip(flate2::write::GzEncoder::new(to, level)))
            }
            Compression::Bzip2 => {
                let level = bzip2::Compression::new(level(9));
                Ok(Compressor::Bzip2(bzip2::write::BzEncoder::new(to, level)))
            }
            Compression::Zstd => zstd_encoder(to, level(3), threads).map(Compressor::Zstd),
            Compression::Xz => {
                let mut builder = MtStreamBuilder::new();
                let builder = builder.threads(threads).block_size(XZ_BLOCK_BYTES);
                let stream = builder.preset(level(6)).encoder();
                let encoder = |s| Compressor::Xz(liblzma::write::XzEncoder::new_stream(to, s));
                stream.map(encoder).map_err(io::Error::from)
            }
        };
        made.map_err(ExportError::Output)
    }

    /// Writes the end.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Compressor::None(to) => Ok(to),
            Compressor::Gzip(encoder) => encoder.finish(),
            Compressor::Zstd(encoder) => encoder.finish(),
            Compressor::Xz(encoder) => encoder.finish(),
            Compressor::Bzip2(encoder) => encoder.finish(),
        }
    }
}

/// With at least one worker: the same bytes with any number of them.
fn zstd_encoder<W: Write>(
    to: W,
    level: u32,
    threads: u32,
) -> io::Result<zstd::Encoder<'static, W>> {
    let mut encoder = zstd::Encoder::new(to, level as i32)?;
    encoder.include_checksum(true)?;
    encoder.multithread(threads)?;
    Ok(encoder)
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Compressor::None(to) => to.write(data),
            Compressor::Gzip(encoder) => encoder.write(data),
            Compressor::Zstd(encoder) => encoder.write(data),
            Compressor::Xz(encoder) => encoder.write(data),
            Compressor::Bzip2(encoder) => encoder.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Compressor::None(to) => to.flush(),
            Compressor::Gzip(encoder) => encoder.flush(),
            Compressor::Zstd(encoder) => encoder.flush(),
            Compressor::Xz(encoder) => encoder.flush(),
            Compressor::Bzip2(encoder) => encoder.flush(),
        }
    }
}

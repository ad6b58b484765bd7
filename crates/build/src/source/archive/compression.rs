//! What a stream is compressed with, by its first bytes.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// How a stream is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compression {
    /// Not at all.
    Plain,
    /// RFC 1952, any number of members, and zeros after them, as tapes have them.
    Gzip,
    /// RFC 8878, any number of frames.
    Zstd,
    /// Of xz(1), any number of streams.
    Xz,
    /// Of bzip2(1), any number of streams.
    Bzip2,
}

/// The most memory that a stream may ask its reader for: what `xz -9` and `zstd --ultra -22` need.
const WINDOW_LOG_MAX: u32 = 27;
const XZ_MEMORY_MAX: u64 = 128 << 20;
/// Bytes by which compressions are distinguished.
const MAGIC_MAX: u64 = 6;

impl Compression {
    /// By the first bytes of a stream.
    pub fn of(magic: &[u8]) -> Compression {
        match magic {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            // A frame, or one to be skipped.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bzip2,
            _ => Compression::Plain,
        }
    }

    /// Of a stream, and the stream from its beginning.
    pub fn detect<R: Read>(mut input: R) -> io::Result<(Compression, impl Read)> {
        let mut magic = Vec::new();
        // A pipe may give a byte at a time.
        (&mut input).take(MAGIC_MAX).read_to_end(&mut magic)?;
        if magic.is_empty() {
            return Err(io::Error::other("it is empty"));
        }
        let compression = Compression::of(&magic);
        Ok((compression, io::Cursor::new(magic).chain(input)))
    }

    /// What the stream holds. Damage is an error, and so is a stream that ends early.
    pub fn decode<'r>(
        self,
        input: impl BufRead + Send + 'r,
    ) -> io::Result<Box<dyn Read + Send + 'r>> {
        Ok(match self {
            Compression::Plain => Box::new(input),
            Compression::Gzip => Box::new(Members(Some(GzDecoder::new(input)))),
            Compression::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(input)?;
                decoder.window_log_max(WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
            Compression::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(
                    XZ_MEMORY_MAX,
                    liblzma::stream::CONCATENATED,
                )?;
                Box::new(liblzma::bufread::XzDecoder::new_stream(input, stream))
            }
            Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        })
    }
}

/// The members of a gzip stream; `None` after the last.
struct Members<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let n = member.read(bytes)?;
            if n > 0 || bytes.is_empty() {
                return Ok(n);
            }
            let rest = self.0.take().map(GzDecoder::into_inner);
            self.0 = rest.map(after_zeros).transpose()?.flatten();
        }
        Ok(0)
    }
}

/// The member after zeros, which are allowed at the end only; `None` at the end.
fn after_zeros<R: BufRead>(mut input: R) -> io::Result<Option<GzDecoder<R>>> {
    let mut zeros = false;
    loop {
        let buffer = input.fill_buf()?;
        let len = buffer.len();
        if len == 0 {
            return Ok(None);
        }
        match buffer.iter().position(|byte| *byte != 0) {
            Some(0) if !zeros => return Ok(Some(GzDecoder::new(input))),
            Some(_) => {
                let what = "other bytes follow the zeros at the end of a gzip stream";
                return Err(io::Error::other(what));
            }
            None => {
                zeros = true;
                input.consume(len);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        match compression {
            Compression::Plain => bytes.to_vec(),
            Compression::Gzip => {
                let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Compression::Zstd => zstd::encode_all(bytes, 1).unwrap(),
            Compression::Xz => {
                let mut to = liblzma::write::XzEncoder::new(Vec::new(), 1);
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Compression::Bzip2 => {
                let mut to = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
        }
    }

    const ALL: [Compression; 5] = [
        Compression::Plain,
        Compression::Gzip,
        Compression::Zstd,
        Compression::Xz,
        Compression::Bzip2,
    ];

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let (compression, input) = Compression::detect(bytes)?;
        let mut out = Vec::new();
        compression
            .decode(io::BufReader::new(input))?
            .read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn each_is_known_by_its_first_bytes_also_twice_in_a_row() {
        for compression in ALL {
            let one = packed(compression, b"one");
            assert_eq!(Compression::of(&one), compression);
            assert_eq!(unpacked(&one).unwrap(), b"one");
            let two = [one, packed(compression, b"two")].concat();
            assert_eq!(unpacked(&two).unwrap(), b"onetwo", "{compression:?}");
        }
    }

    #[test]
    fn a_stream_that_ends_early_is_an_error() {
        let text: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        for compression in &ALL[1..] {
            let bytes = packed(*compression, &text);
            for len in [20, bytes.len() / 2, bytes.len() - 5] {
                unpacked(&bytes[..len]).expect_err("a part of a stream");
            }
        }
    }
}

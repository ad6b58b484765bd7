//! The members of a tar archive, one after the other: a header, what extends it, then its data.
//!
//! Headers are decoded by the crate tar. Its iterator is not used: it splits extended headers at line ends, which
//! values of attributes may have, does not bound them, and reads holes.
//!
//! Source: pax(1); the manual of GNU tar, "Basic Tar Format".

use std::io::{self, Read};

use tar::{EntryType, Header};

use super::numbers;
use super::pax::Records;
use super::sparse::{self, Announced, Sparse};
use super::stream::{Counted, Place};

/// Bytes of a block.
const BLOCK: u64 = 512;
/// Bytes and number of records that hold for all members of an archive: each of them is searched for what it says.
const GLOBAL_BYTES_MAX: usize = 64 << 10;
const GLOBAL_RECORDS_MAX: usize = 1000;

/// What the headers of a member say.
pub(crate) struct Member {
    /// Where its first header begins.
    pub offset: u64,
    /// The last of its headers, with what no other says.
    pub header: Header,
    pub path: Vec<u8>,
    /// Target of a link.
    pub link: Vec<u8>,
    pub records: Records,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of data in the archive: [`Members::data`] gives them, without a map and holes.
    pub stored: u64,
    /// Where the data begins.
    pub data_at: u64,
    /// Of a sparse file.
    pub sparse: Option<Sparse>,
}

/// An archive that is read.
pub(crate) struct Members<'l, R> {
    input: Counted<'l, R>,
    place: Place,
    /// Records that hold for all members from here on.
    global: Records,
    /// Bytes of data that were not read, and of what fills up their last block.
    left: u64,
    fill: u64,
    /// Where the last header begins.
    header_at: u64,
}

/// What describes a member before its own header does.
#[derive(Default)]
struct Extended {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    records: Records,
    begun: bool,
}

impl<'l, R: Read> Members<'l, R> {
    /// Reads an archive from its beginning; `place` is that of `input`.
    pub fn new(input: Counted<'l, R>, place: Place) -> Self {
        Members {
            input,
            place,
            global: Records::default(),
            left: 0,
            fill: 0,
            header_at: 0,
        }
    }

    /// Where the last header that was read begins.
    pub fn header_at(&self) -> u64 {
        self.header_at
    }

    /// The data of the last member, which ends early only if the archive does.
    pub fn data(&mut self) -> Data<'_, 'l, R> {
        Data(self)
    }

    /// The next member; `None` at the end.
    ///
    /// # Errors
    /// Damage, in words; what the input says.
    pub fn next(&mut self) -> io::Result<Option<Member>> {
        io::copy(&mut self.data(), &mut io::sink())?;
        let fill = std::mem::take(&mut self.fill);
        self.skip(fill)?;
        self.place.headers_begin();
        let mut offset = self.place.position();
        let mut extended = Extended::default();
        let mut records = Records::default();
        loop {
            let Some(header) = self.header()? else {
                return match extended.begun {
                    false => Ok(None),
                    true => Err(io::Error::other("an extended header has no member")),
                };
            };
            let size = numbers::or_zero(&header.as_old().size, header.entry_size())?;
            let kind = header.entry_type();
            match kind {
                EntryType::GNULongName => extended.name = Some(self.text(size)?),
                EntryType::GNULongLink => extended.link = Some(self.text(size)?),
                EntryType::XHeader => {
                    let bytes = self.bytes(size)?;
                    records.add(&bytes)?;
                }
                EntryType::XGlobalHeader => {
                    let bytes = self.bytes(size)?;
                    let (most, records) = (GLOBAL_BYTES_MAX, GLOBAL_RECORDS_MAX);
                    self.global.add_global(&bytes, most, records)?;
                    if !extended.begun {
                        offset = self.place.position();
                    }
                    continue;
                }
                _ => {
                    extended.records = records.with_global(&self.global);
                    let member = self.member(offset, header, extended)?;
                    self.place.data_begins();
                    return Ok(Some(member));
                }
            }
            extended.begun = true;
        }
    }

    /// Reads to the end of the stream, so that what checks it sees all.
    pub fn finish(mut self) -> io::Result<()> {
        self.place.data_begins();
        io::copy(&mut self.input, &mut io::sink()).map(drop)
    }

    /// A header; `None` at the end, which a block of zeros is, and the end of the stream.
    fn header(&mut self) -> io::Result<Option<Header>> {
        self.header_at = self.place.position();
        let mut header = Header::new_old();
        let bytes = header.as_mut_bytes();
        let first = loop {
            match self.input.read(bytes) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                n => break n?,
            }
        };
        if first == 0 {
            return Ok(None);
        }
        self.exact(&mut bytes[first..])?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let [unsigned, signed] = numbers::checksums(bytes);
        match header.cksum() {
            Ok(found) if found == unsigned || found == signed => Ok(Some(header)),
            _ => Err(io::Error::other(
                "no header of an archive, or a damaged one",
            )),
        }
    }

    fn member(&mut self, offset: u64, header: Header, extended: Extended) -> io::Result<Member> {
        let records = extended.records;
        let kind = header.entry_type();
        let mut stored = match records.number("size")? {
            Some(size) => size,
            None => numbers::or_zero(&header.as_old().size, header.entry_size())?,
        };
        // Some writers keep the length of a link's target or of a directory's list there.
        if !(kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() || is_unknown(kind)) {
            stored = 0;
        }
        let mut sparse = None;
        if kind.is_gnu_sparse() {
            let gnu = header
                .as_gnu()
                .ok_or_else(|| io::Error::other("a sparse file has no header of GNU tar"))?;
            let mut input = Exact(self);
            sparse = Some(sparse::from_header(gnu, stored, &mut input)?);
        }
        self.left = stored;
        self.fill = stored.wrapping_neg() % BLOCK;
        match sparse::from_records(&records, stored)? {
            None => {}
            Some(Announced::Whole(whole)) => sparse = Some(whole),
            Some(Announced::InData(size)) => {
                let (whole, read) = sparse::from_data(size, stored, &mut self.data())?;
                sparse = Some(whole);
                stored -= read;
            }
        }
        let path = records.get("GNU.sparse.name").or(records.get("path"));
        let path = match path {
            Some(path) => path.to_vec(),
            None => extended
                .name
                .unwrap_or_else(|| header.path_bytes().into_owned()),
        };
        let link = match records.get("linkpath") {
            Some(link) => link.to_vec(),
            None => match extended.link {
                Some(link) => link,
                None => header.link_name_bytes().unwrap_or_default().into_owned(),
            },
        };
        Ok(Member {
            offset,
            path,
            link,
            size: sparse.as_ref().map_or(stored, |sparse| sparse.size),
            stored,
            data_at: self.place.position(),
            sparse,
            records,
            header,
        })
    }

    /// The content of an extended header.
    fn bytes(&mut self, size: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // The stream ends with an error before this takes too much.
        let read = (&mut self.input).take(size).read_to_end(&mut bytes)?;
        if read as u64 != size {
            return Err(ends_early());
        }
        self.skip(size.wrapping_neg() % BLOCK)?;
        Ok(bytes)
    }

    /// The content of an extended header that is a name.
    fn text(&mut self, size: u64) -> io::Result<Vec<u8>> {
        let mut bytes = self.bytes(size)?;
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            bytes.truncate(end);
        }
        Ok(bytes)
    }

    fn skip(&mut self, n: u64) -> io::Result<()> {
        let mut block = [0; BLOCK as usize];
        self.exact(&mut block[..n as usize])
    }

    fn exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(bytes).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => ends_early(),
            _ => e,
        })
    }
}

/// Types of which nothing is known; their data is there all the same.
fn is_unknown(kind: EntryType) -> bool {
    !matches!(kind.as_byte(), 0 | b'0'..=b'7' | b'S')
}

fn ends_early() -> io::Error {
    io::Error::other("the archive ends early")
}

/// Blocks between headers.
struct Exact<'m, 'l, R>(&'m mut Members<'l, R>);

impl<R: Read> Read for Exact<'_, '_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.exact(bytes)?;
        Ok(bytes.len())
    }
}

/// The data of a member.
pub(crate) struct Data<'m, 'l, R>(&'m mut Members<'l, R>);

impl<R: Read> Read for Data<'_, '_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes
            .len()
            .min(usize::try_from(self.0.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let n = self.0.input.read(&mut bytes[..most])?;
        if n == 0 {
            return Err(ends_early());
        }
        self.0.left -= n as u64;
        Ok(n)
    }
}

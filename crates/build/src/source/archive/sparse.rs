//! Where the data of a sparse file lies: the four forms that GNU tar writes.
//!
//! Source: the manual of GNU tar, "Storing Sparse Files".

use std::io::{self, Read};

use super::pax::{Records, number};
use crate::tree::Segment;

/// Bytes of a block of an archive.
const BLOCK: usize = 512;
/// Segments of a file: more than extents could name without a tree of trees.
const SEGMENTS_MAX: u64 = 1 << 22;

/// A sparse file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sparse {
    /// Bytes of the file.
    pub size: u64,
    /// Its data, in order; the archive has it without the holes.
    pub segments: Vec<Segment>,
}

/// What an extended header says of a sparse file.
pub(crate) enum Announced {
    /// All of it.
    Whole(Sparse),
    /// The map precedes the data; the file has so many bytes.
    InData(u64),
}

/// Puts a map together, in order and within the file.
struct Map {
    size: u64,
    segments: Vec<Segment>,
    end: u64,
}

fn wrong(what: &str) -> io::Error {
    io::Error::other(format!("the map of a sparse file is damaged: {what}"))
}

impl Map {
    fn new(size: u64) -> Map {
        Map {
            size,
            segments: Vec::new(),
            end: 0,
        }
    }

    fn push(&mut self, start: u64, len: u64) -> io::Result<()> {
        let end = start
            .checked_add(len)
            .filter(|end| *end <= self.size)
            .ok_or_else(|| wrong("data is behind the end"))?;
        if start < self.end {
            return Err(wrong("data is out of order"));
        }
        if self.segments.len() as u64 == SEGMENTS_MAX {
            return Err(wrong("it has too many parts"));
        }
        self.end = end;
        if len > 0 {
            self.segments.push(Segment { start, end });
        }
        Ok(())
    }

    /// `stored`: bytes of data in the archive.
    fn finish(self, stored: u64) -> io::Result<Sparse> {
        let total: u64 = self.segments.iter().map(|s| s.end - s.start).sum();
        match total == stored {
            true => Ok(Sparse {
                size: self.size,
                segments: self.segments,
            }),
            false => Err(wrong("it names more or less data than there is")),
        }
    }
}

/// The map in a header of type `S`, which continues in blocks of its own; `stored`: bytes of data that follow.
pub(crate) fn from_header(
    header: &tar::GnuHeader,
    stored: u64,
    input: &mut impl Read,
) -> io::Result<Sparse> {
    let mut map = Map::new(header.real_size()?);
    let mut add = |parts: &[tar::GnuSparseHeader]| {
        for part in parts.iter().filter(|part| !part.is_empty()) {
            map.push(part.offset()?, part.length()?)?;
        }
        io::Result::Ok(())
    };
    add(&header.sparse)?;
    let mut more = header.is_extended();
    while more {
        let mut block = tar::GnuExtSparseHeader::new();
        input.read_exact(block.as_mut_bytes())?;
        add(block.sparse())?;
        more = block.is_extended();
    }
    map.finish(stored)
}

/// What the records of an extended header say; `None` of a file that is not sparse.
pub(crate) fn from_records(records: &Records, stored: u64) -> io::Result<Option<Announced>> {
    if records.get("GNU.sparse.major").is_some() {
        let size = records.number("GNU.sparse.realsize")?;
        return Ok(Some(Announced::InData(
            size.ok_or_else(|| wrong("no size"))?,
        )));
    }
    let Some(size) = records.number("GNU.sparse.size")? else {
        return Ok(None);
    };
    let mut map = Map::new(size);
    if let Some(list) = records.get("GNU.sparse.map") {
        let numbers: Option<Vec<u64>> = list.split(|byte| *byte == b',').map(number).collect();
        let numbers = numbers.ok_or_else(|| wrong("a number is none"))?;
        for part in numbers.chunks(2) {
            let [start, len] = part else {
                return Err(wrong("a length is missing"));
            };
            map.push(*start, *len)?;
        }
    } else {
        let mut start = None;
        for (key, value) in records.iter() {
            match key {
                b"GNU.sparse.offset" => start = number(value),
                b"GNU.sparse.numbytes" => {
                    let (start, len) = start
                        .take()
                        .zip(number(value))
                        .ok_or_else(|| wrong("a number is none"))?;
                    map.push(start, len)?;
                }
                _ => {}
            }
        }
    }
    Ok(Some(Announced::Whole(map.finish(stored)?)))
}

/// Reads the map in front of the data of a file of `size` bytes; `stored`: bytes of both. Returns the bytes of the map as well.
pub(crate) fn from_data(
    size: u64,
    stored: u64,
    input: &mut impl Read,
) -> io::Result<(Sparse, u64)> {
    let (mut block, mut at, mut read) = ([0; BLOCK], BLOCK, 0);
    let mut next = || -> io::Result<u64> {
        let mut value: u64 = 0;
        for digits in 0..20 {
            if at == BLOCK {
                input.read_exact(&mut block)?;
                (at, read) = (0, read + BLOCK as u64);
            }
            let byte = block[at];
            at += 1;
            match byte {
                b'\n' if digits > 0 => return Ok(value),
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    let more = value.checked_mul(10).and_then(|v| v.checked_add(digit));
                    value = more.ok_or_else(|| wrong("a number is too large"))?;
                }
                _ => break,
            }
        }
        Err(wrong("a number is none"))
    };
    let mut map = Map::new(size);
    for _ in 0..next()? {
        let (start, len) = (next()?, next()?);
        map.push(start, len)?;
    }
    let data = stored
        .checked_sub(read)
        .ok_or_else(|| wrong("it is longer than the file"))?;
    Ok((map.finish(data)?, read))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &[&str]) -> Records {
        let mut records = Records::default();
        for line in text {
            let digits = if line.len() + 3 < 10 { 1 } else { 2 };
            let text = format!("{} {line}\n", line.len() + 2 + digits);
            records.add(text.as_bytes()).unwrap();
        }
        records
    }

    fn expected() -> Sparse {
        let segments = [(0, 5), (100, 110)];
        Sparse {
            size: 200,
            segments: segments.map(|(start, end)| Segment { start, end }).into(),
        }
    }

    #[test]
    fn the_forms_of_extended_headers_say_the_same() {
        let forms = [
            records(&["GNU.sparse.size=200", "GNU.sparse.map=0,5,100,10,200,0"]),
            records(&[
                "GNU.sparse.size=200",
                "GNU.sparse.offset=0",
                "GNU.sparse.numbytes=5",
                "GNU.sparse.offset=100",
                "GNU.sparse.numbytes=10",
            ]),
        ];
        for form in forms {
            match from_records(&form, 15).unwrap() {
                Some(Announced::Whole(sparse)) => assert_eq!(sparse, expected()),
                _ => panic!("no map"),
            }
            assert!(from_records(&form, 16).is_err());
        }
        assert!(from_records(&records(&["path=x"]), 0).unwrap().is_none());
    }

    #[test]
    fn a_map_before_the_data() {
        let mut bytes = b"2\n0\n5\n100\n10\n".to_vec();
        bytes.resize(BLOCK, 0);
        bytes.extend([7; 15]);
        let (sparse, read) = from_data(200, bytes.len() as u64, &mut &bytes[..]).unwrap();
        assert_eq!((sparse, read), (expected(), 512));
        for text in [
            "2\n0\n5\n4\n10\n",
            "1\n0\n",
            "\n",
            "99999999999999999999999\n",
            "1\n190\n20\n",
        ] {
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(BLOCK, 0);
            from_data(200, 512 + 15, &mut &bytes[..]).unwrap_err();
        }
    }
}

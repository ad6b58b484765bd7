//! The file that holds old bytes of an image: a header, then records of an offset, a length, a checksum, and the old and the new bytes.
//!
//! All numbers are little-endian. The header says how many records follow and whether the repair is complete; it is
//! written again when that changes. A file whose records are not all there was never acted on. Old bytes are put back only where
//! each byte is the old or the new one: not on another image, nor where something has written since.

use crate::error::RepairError;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use uext4_block::BlockDevice;
use uext4_ondisk::{CRC_INIT, crc32c};

const MAGIC: &[u8; 8] = b"uext4und";
const VERSION: u32 = 1;
/// Bytes of the header, and of a record before its bytes.
const HEADER: usize = 40;
const RECORD: usize = 16;
/// Bytes of a record at most.
pub(crate) const RUN_BYTES_MAX: usize = 1 << 20;

/// Where an undo file is written.
#[derive(Debug)]
pub struct UndoPlace {
    path: PathBuf,
    opened: Option<OpenPlace>,
}

#[derive(Debug)]
struct OpenPlace {
    file: File,
    dir: Dir,
}

/// The directory of a file, where making its name durable takes one.
#[derive(Debug)]
struct Dir(Option<File>);

impl Dir {
    /// Windows has no such call, and opens no directory as a file.
    fn open(path: &Path) -> io::Result<Dir> {
        match cfg!(unix) {
            true => Ok(Dir(Some(File::open(path)?))),
            false => Ok(Dir(None)),
        }
    }

    fn try_clone(&self) -> io::Result<Dir> {
        Ok(Dir(self.0.as_ref().map(File::try_clone).transpose()?))
    }

    fn sync(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), File::sync_all)
    }
}

impl UndoPlace {
    /// A path that is opened when a repair begins.
    pub fn new(path: &Path) -> UndoPlace {
        UndoPlace {
            path: path.to_owned(),
            opened: None,
        }
    }

    /// The same, opened now: for a process that gives up paths before it reads an image. The file is empty until a repair begins.
    ///
    /// # Errors
    /// The host's.
    pub fn open_now(path: &Path) -> Result<UndoPlace, RepairError> {
        let opened = OpenPlace::new(path).map_err(UndoFile::failed(path))?;
        Ok(UndoPlace {
            path: path.to_owned(),
            opened: Some(opened),
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl OpenPlace {
    fn new(path: &Path) -> io::Result<OpenPlace> {
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(true).truncate(false);
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        Ok(OpenPlace {
            file: open.open(path)?,
            dir: Dir::open(dir.unwrap_or(Path::new(".")))?,
        })
    }

    fn try_clone(&self) -> io::Result<OpenPlace> {
        Ok(OpenPlace {
            file: self.file.try_clone()?,
            dir: self.dir.try_clone()?,
        })
    }
}

/// What the repair has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Nothing, or a part.
    Started,
    /// Everything.
    Complete,
}

/// An undo file that is open.
pub(crate) struct UndoFile<'p> {
    path: &'p Path,
    file: File,
    device_bytes: u64,
    records: u64,
    pub(crate) progress: Progress,
}

fn header(device_bytes: u64, records: u64, progress: Progress) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(u32::from(progress == Progress::Complete).to_le_bytes());
    bytes.extend(device_bytes.to_le_bytes());
    bytes.extend(records.to_le_bytes());
    bytes.extend([0; 4]);
    let sum = crc32c(CRC_INIT, &bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// False if the file ended before all was read.
fn whole(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |w| u32::from_le_bytes(*w))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |w| u64::from_le_bytes(*w))
}

impl<'p> UndoFile<'p> {
    fn failed(path: &Path) -> impl Fn(io::Error) -> RepairError {
        move |source| RepairError::UndoFile {
            path: path.to_owned(),
            source,
        }
    }

    fn bad(path: &Path, why: &'static str) -> RepairError {
        RepairError::BadUndoFile {
            path: path.to_owned(),
            why,
        }
    }

    /// Writes the bytes that are now where `runs` will be written, and makes the file durable.
    ///
    /// # Errors
    /// The device's or the host's.
    pub(crate) fn create(
        place: &'p UndoPlace,
        device: &dyn BlockDevice,
        runs: &[(u64, Vec<u8>)],
    ) -> Result<Self, RepairError> {
        let path = &*place.path;
        let failed = Self::failed(path);
        let opened = match &place.opened {
            Some(opened) => opened.try_clone(),
            None => OpenPlace::new(path),
        };
        let OpenPlace { mut file, dir } = opened.map_err(&failed)?;
        file.set_len(0).map_err(&failed)?;
        file.rewind().map_err(&failed)?;
        let (device_bytes, records) = (device.len(), runs.len() as u64);
        let mut out = BufWriter::new(&file);
        let head = header(device_bytes, records, Progress::Started);
        out.write_all(&head).map_err(&failed)?;
        let mut old = Vec::new();
        for (offset, new) in runs {
            old.resize(new.len(), 0);
            device.read_at(*offset, &mut old)?;
            let mut record = offset.to_le_bytes().to_vec();
            record.extend((old.len() as u32).to_le_bytes());
            record.extend(crc32c(crc32c(CRC_INIT, &old), new).to_le_bytes());
            for part in [&record, &old, new] {
                out.write_all(part).map_err(&failed)?;
            }
        }
        out.flush().map_err(&failed)?;
        drop(out);
        file.sync_all().map_err(&failed)?;
        dir.sync().map_err(&failed)?;
        Ok(UndoFile {
            path,
            file,
            device_bytes,
            records,
            progress: Progress::Started,
        })
    }

    /// Opens a file; `None` if there is none, or it is not whole, so that no repair has begun with it.
    ///
    /// # Errors
    /// The host's; the file is something else.
    pub(crate) fn open(place: &'p UndoPlace) -> Result<Option<Self>, RepairError> {
        let path = &*place.path;
        let failed = Self::failed(path);
        let opened = match &place.opened {
            Some(opened) => opened.file.try_clone(),
            None => OpenOptions::new().read(true).write(true).open(path),
        };
        let file = match opened {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let mut head = Vec::new();
        (&file).rewind().map_err(&failed)?;
        let read = (&file).take(HEADER as u64).read_to_end(&mut head);
        read.map_err(&failed)?;
        if head.is_empty() {
            return Ok(None);
        }
        let front = head.len().min(MAGIC.len());
        if head.get(..front) != MAGIC.get(..front) {
            return Err(Self::bad(path, "it starts with other bytes"));
        }
        let sum = head.get(..HEADER - 4).map(|h| crc32c(CRC_INIT, h));
        if sum != Some(le32(&head, HEADER - 4)) {
            return Ok(None);
        }
        if le32(&head, 8) != VERSION {
            return Err(Self::bad(path, "it has another version"));
        }
        let mut undo = UndoFile {
            path,
            file,
            device_bytes: le64(&head, 16),
            records: le64(&head, 24),
            progress: match le32(&head, 12) {
                0 => Progress::Started,
                _ => Progress::Complete,
            },
        };
        let whole = undo.each(|_, _, _| Ok(()))?;
        match (whole, undo.progress) {
            (true, _) => Ok(Some(undo)),
            (false, Progress::Started) => Ok(None),
            (false, Progress::Complete) => Err(Self::bad(path, "records are missing")),
        }
    }

    /// Calls `f` with every record; false if one is cut off or damaged.
    fn each(
        &mut self,
        mut f: impl FnMut(u64, &[u8], &[u8]) -> Result<(), RepairError>,
    ) -> Result<bool, RepairError> {
        let failed = Self::failed(self.path);
        let start = SeekFrom::Start(HEADER as u64);
        self.file.seek(start).map_err(&failed)?;
        let mut input = BufReader::new(&self.file);
        let mut bytes = Vec::new();
        for _ in 0..self.records {
            let mut head = [0; RECORD];
            if !whole(input.read_exact(&mut head)).map_err(&failed)? {
                return Ok(false);
            }
            let (offset, len) = (le64(&head, 0), le32(&head, 8) as usize);
            if len > RUN_BYTES_MAX {
                return Ok(false);
            }
            bytes.resize(2 * len, 0);
            let read = whole(input.read_exact(&mut bytes)).map_err(&failed)?;
            if !read || crc32c(CRC_INIT, &bytes) != le32(&head, 12) {
                return Ok(false);
            }
            let (old, new) = bytes.split_at(len);
            f(offset, old, new)?;
        }
        Ok(true)
    }

    /// Writes the old bytes to the device and makes them durable.
    ///
    /// # Errors
    /// The device's; the file is of another image, or something has written to it since. Then nothing is written.
    pub(crate) fn put_back(&mut self, device: &dyn BlockDevice) -> Result<(), RepairError> {
        if self.device_bytes != device.len() {
            return Err(Self::bad(self.path, "it is of an image of another size"));
        }
        let (path, mut now) = (self.path, Vec::new());
        let read = self.each(|offset, old, new| {
            now.resize(old.len(), 0);
            device.read_at(offset, &mut now)?;
            let mut bytes = now.iter().zip(old.iter().zip(new));
            match bytes.all(|(now, (old, new))| now == old || now == new) {
                true => Ok(()),
                false => Err(Self::bad(
                    path,
                    "it is of another image, or that was written since",
                )),
            }
        })?;
        if !read || !self.each(|offset, old, _| Ok(device.write_at(offset, old)?))? {
            return Err(Self::bad(path, "its records changed while they were read"));
        }
        device.flush()?;
        Ok(())
    }

    /// Records that the repair is complete, durably.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn complete(&mut self) -> Result<(), RepairError> {
        let failed = Self::failed(self.path);
        self.progress = Progress::Complete;
        let head = header(self.device_bytes, self.records, self.progress);
        self.file.seek(SeekFrom::Start(0)).map_err(&failed)?;
        self.file.write_all(&head).map_err(&failed)?;
        self.file.sync_all().map_err(&failed)
    }
}

//! An archive that was read: what its headers say, and where the data of its files is.

use std::collections::HashSet;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use tar::EntryType;
use uext4_ondisk::{DevNo, FileType, InodeFlags, Timestamp, XattrList};

use super::attributes;
use super::compression::Compression;
use super::digest::{Digest, Digested};
use super::members::{Member, Members};
use super::numbers::or_zero;
use super::spool::{Spool, SpoolError};
use super::stream::{Counted, Limit, Place};
use crate::error::{MkfsError, Result, shown_name};
use crate::progress::{Progress, go_on};
use crate::source::part::{Part, Store};
use crate::tree::{Attributes, Segment};

/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;
/// Longest name that a directory can hold.
pub(crate) const NAME_MAX: usize = 255;
/// Longest path of an entry, which is what system calls take.
const PATH_MAX: usize = 4095;
/// Longest target of a symbolic link.
pub(crate) const TARGET_MAX: usize = 4095;
/// Warnings that are kept of one archive.
const WARNINGS_MAX: usize = 1000;

/// What an entry is.
#[derive(Debug)]
pub(crate) enum Content {
    Directory,
    /// A regular file, whose data begins at a byte of the store; `None` without data.
    Regular {
        at: Option<u64>,
        segments: Option<Vec<Segment>>,
    },
    /// Another name of a file.
    HardLink(Vec<u8>),
    Symlink(Vec<u8>),
    Device(DevNo),
    Fifo,
}

/// A name in an archive.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Where its header begins.
    pub offset: u64,
    /// Names from the root, none of them `.` or `..`; no slash at the ends; empty for the root.
    pub path: Vec<u8>,
    pub content: Content,
    pub attributes: Attributes,
    /// Shared by all entries with the same.
    pub xattrs: Option<Arc<XattrList>>,
}

/// An archive that was read.
#[derive(Debug)]
pub(crate) struct Layer {
    /// What messages name.
    pub name: String,
    pub entries: Vec<Entry>,
    /// Where the data of files is; `None` without any.
    pub store: Option<Store>,
    pub warnings: Vec<String>,
}

/// How archives are read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    /// Of all archives together.
    pub limit: &'a Limit,
    /// Where data goes that can't be read by position.
    pub spool: &'a Path,
    pub progress: &'a dyn Progress,
}

/// Where an archive comes from.
pub(crate) enum LayerInput {
    /// A file or a part of one: what is not compressed is read there again.
    Part(Part),
    /// Anything that is read once.
    Stream(Box<dyn Read + Send>),
}

impl Layer {
    /// Reads an archive, compressed or not. `name` is for messages; `digest` what its bytes must have. Data is written to `spool`, which
    /// is made if it is needed.
    ///
    /// # Errors
    /// [`MkfsError::Archive`] names layer, entry and offset.
    pub fn read(
        name: &str,
        input: LayerInput,
        digest: Option<&Digest>,
        reading: &Reading<'_>,
        spool: &mut Option<Spool>,
    ) -> Result<Layer> {
        let fail = |e: io::Error| failed(name, None, 0, e);
        let (stream, part): (Box<dyn Read + Send>, _) = match input {
            LayerInput::Part(part) => (Box::new(part.clone()), Some(part)),
            LayerInput::Stream(stream) => (stream, None),
        };
        let mut digested = Digested::new(stream, digest);
        let (compression, input) = Compression::detect(&mut digested).map_err(fail)?;
        let in_place = part.filter(|part| compression == Compression::Plain && part.is_dense());
        let buffered = BufReader::with_capacity(BUFFER, input);
        let stream = compression.decode(buffered).map_err(fail)?;
        let spool = match (&in_place, spool) {
            (Some(_), _) => None,
            (None, Some(spool)) => Some(spool),
            (None, none) => Some(none.insert(Spool::new_in(reading.spool).map_err(fail)?)),
        };
        let layer = Reader::new(name, in_place, spool, reading).read(stream);
        let layer = layer.map_err(|e| match reading.progress.is_cancelled() {
            true => MkfsError::Cancelled,
            false => e,
        })?;
        digested.finish().map_err(fail)?;
        Ok(layer)
    }
}

/// An error with its place; that of a spool is not the archive's.
fn failed(name: &str, entry: Option<&[u8]>, offset: u64, e: io::Error) -> MkfsError {
    match e.downcast::<SpoolError>() {
        Ok(SpoolError { dir, source }) => MkfsError::Spool { dir, source },
        Err(e) => MkfsError::archive(name, entry, offset, e),
    }
}

/// Reads one archive.
struct Reader<'a> {
    layer: Layer,
    /// A file with the bytes of the archive.
    in_place: Option<Part>,
    spool: Option<&'a mut Spool>,
    reading: &'a Reading<'a>,
    /// Extended attributes that entries have, each list once.
    xattrs: HashSet<Arc<XattrList>>,
    /// Warnings that are not kept.
    unkept: u64,
}

impl<'a> Reader<'a> {
    fn new(
        name: &str,
        in_place: Option<Part>,
        spool: Option<&'a mut Spool>,
        reading: &'a Reading<'a>,
    ) -> Reader<'a> {
        Reader {
            layer: Layer {
                name: name.to_owned(),
                entries: Vec::new(),
                store: None,
                warnings: Vec::new(),
            },
            in_place,
            spool,
            reading,
            xattrs: HashSet::new(),
            unkept: 0,
        }
    }

    fn read(mut self, stream: impl Read) -> Result<Layer> {
        let place = Place::new();
        let stream = BufReader::with_capacity(BUFFER, stream);
        let (limit, progress) = (self.reading.limit, self.reading.progress);
        let counted = Counted::new(stream, limit, place.clone(), progress);
        let mut members = Members::new(counted, place);
        let name = self.layer.name.clone();
        loop {
            let member = match members.next() {
                Ok(None) => break,
                Ok(Some(member)) => member,
                Err(e) => return Err(failed(&name, None, members.header_at(), e)),
            };
            let (offset, path) = (member.offset, member.path.clone());
            self.add(member, &mut members)
                .map_err(|e| failed(&name, Some(&path), offset, e))?;
            go_on(self.reading.progress, 1)?;
        }
        let position = members.header_at();
        members
            .finish()
            .map_err(|e| failed(&name, None, position, e))?;
        if let Some(spool) = self.spool {
            let file = spool.file().map_err(|e| failed(&name, None, position, e))?;
            self.layer.store = Some(Store::Open(file));
        }
        if let Some(part) = self.in_place {
            self.layer.store = Some(part.store);
        }
        if self.unkept > 0 {
            let text = format!("{name}: {} more such warnings", self.unkept);
            self.layer.warnings.push(text);
        }
        Ok(self.layer)
    }

    fn add<R: Read>(&mut self, member: Member, members: &mut Members<'_, R>) -> io::Result<()> {
        let kind = member.header.entry_type();
        let (file_type, content) = match kind {
            // As archives before POSIX have it.
            EntryType::Regular if member.path.ends_with(b"/") => {
                (FileType::Directory, Content::Directory)
            }
            EntryType::Directory => (FileType::Directory, Content::Directory),
            // With a list of its names, as GNU tar's incremental archives have it.
            _ if kind.as_byte() == b'D' => (FileType::Directory, Content::Directory),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let at = self.store(&member, members)?;
                let segments = member.sparse.as_ref().map(|sparse| sparse.segments.clone());
                (FileType::Regular, Content::Regular { at, segments })
            }
            EntryType::Link => (FileType::Regular, Content::HardLink(member.link.clone())),
            EntryType::Symlink => {
                let target = member.link.clone();
                if target.is_empty() || target.len() > TARGET_MAX || target.contains(&0) {
                    let len = target.len();
                    let what = format!(
                        "a symbolic link's target has {len} bytes, not 1 to {TARGET_MAX}, or a zero byte"
                    );
                    return Err(io::Error::other(what));
                }
                (FileType::Symlink, Content::Symlink(target))
            }
            EntryType::Char => (FileType::CharDevice, Content::Device(device(&member)?)),
            EntryType::Block => (FileType::BlockDevice, Content::Device(device(&member)?)),
            EntryType::Fifo => (FileType::Fifo, Content::Fifo),
            _ => {
                let kind = (kind.as_byte() as char).escape_default();
                let shown = shown_name(&member.path);
                self.warn(format!(
                    "{shown}: left out, as its type `{kind}` is unknown"
                ));
                return Ok(());
            }
        };
        let path = normalized(&member.path)?;
        let attributes = attributes(&member, file_type)?;
        let (xattrs, refused) = attributes::from_records(&member.records)?;
        for name in refused {
            let (shown, name) = (shown_name(&member.path), shown_name(name.as_bytes()));
            self.warn(format!("{shown}: attribute {name} has no place in ext4"));
        }
        let xattrs = xattrs.map(|list| match self.xattrs.get(&list) {
            Some(same) => same.clone(),
            None => {
                let list = Arc::new(list);
                self.xattrs.insert(list.clone());
                list
            }
        });
        self.layer.entries.push(Entry {
            offset: member.offset,
            path,
            content,
            attributes,
            xattrs,
        });
        Ok(())
    }

    fn warn(&mut self, text: String) {
        match self.layer.warnings.len() < WARNINGS_MAX {
            true => {
                let text = format!("{}: {text}", self.layer.name);
                self.layer.warnings.push(text);
            }
            false => self.unkept += 1,
        }
    }

    /// Puts the data of a file where it can be read by position.
    fn store<R: Read>(
        &mut self,
        member: &Member,
        members: &mut Members<'_, R>,
    ) -> io::Result<Option<u64>> {
        if member.stored == 0 {
            return Ok(None);
        }
        if let Some(part) = &self.in_place {
            return Ok(Some(part.at + member.data_at));
        }
        let Some(spool) = &mut self.spool else {
            return Ok(None);
        };
        let at = spool.position();
        io::copy(&mut members.data(), spool)?;
        Ok(Some(at))
    }
}

/// The names of a path, without those that say nothing.
///
/// # Errors
/// A path that leads out of the tree, and a name that no directory holds.
fn normalized(path: &[u8]) -> io::Result<Vec<u8>> {
    let wrong = |what: &str| Err(io::Error::other(what.to_owned()));
    if path.starts_with(b"/") && path.iter().any(|byte| *byte != b'/') {
        return wrong(
            "the name is absolute, as `tar -P` makes them; without it names are relative",
        );
    }
    if path.is_empty() || path.contains(&0) {
        return wrong("the name is empty or holds a zero byte");
    }
    if path.len() > PATH_MAX {
        let what = format!("the path has more than {PATH_MAX} bytes");
        return wrong(&what);
    }
    let mut out = Vec::with_capacity(path.len());
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => continue,
            b".." => return wrong("the name leads upward by `..`"),
            _ if name.len() > NAME_MAX => {
                return wrong(&format!("a name has more than {NAME_MAX} bytes"));
            }
            _ => {}
        }
        if !out.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(name);
    }
    Ok(out)
}

fn device(member: &Member) -> io::Result<DevNo> {
    let header = &member.header;
    let bytes = header.as_bytes();
    let major = or_zero(&bytes[329..337], header.device_major())?;
    let minor = or_zero(&bytes[337..345], header.device_minor())?;
    match (major, minor) {
        // What the word on disk holds.
        (Some(major @ ..=0xfff), Some(minor @ ..=0xf_ffff)) => Ok(DevNo { major, minor }),
        _ => Err(io::Error::other(
            "the device has no number that ext4 can hold",
        )),
    }
}

fn attributes(member: &Member, file_type: FileType) -> io::Result<Attributes> {
    let (header, records) = (&member.header, &member.records);
    let fields = header.as_old();
    let id = |record: Option<u64>, field: io::Result<u64>| {
        let id = record.map_or(field, Ok)?;
        u32::try_from(id).map_err(|_| io::Error::other(format!("the owner {id} is out of range")))
    };
    let mtime = match records.time("mtime")? {
        Some(time) => time,
        // Before 1970 in the binary form.
        None => Timestamp::new(or_zero(&fields.mtime, header.mtime())? as i64, 0),
    };
    let permission = match file_type {
        // Linux has no others.
        FileType::Symlink => 0o777,
        _ => (or_zero(&fields.mode, header.mode())? & 0o7777) as u16,
    };
    Ok(Attributes {
        mode: file_type.to_mode() | permission,
        uid: id(records.number("uid")?, or_zero(&fields.uid, header.uid()))?,
        gid: id(records.number("gid")?, or_zero(&fields.gid, header.gid()))?,
        size: match file_type {
            FileType::Regular => member.size,
            FileType::Symlink => member.link.len() as u64,
            _ => 0,
        },
        atime: records.time("atime")?.unwrap_or(mtime),
        mtime,
        ctime: records.time("ctime")?.unwrap_or(mtime),
        crtime: None,
        flags: InodeFlags::empty(),
        project: 0,
    })
}

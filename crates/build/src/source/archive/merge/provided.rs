//! Trees that a program provides.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use uext4_ondisk::{DevNo, FileType, InodeFlags, Timestamp, XattrList, XattrOwnedValue};

use super::{Described, Merge, What, joined, wrong};
use crate::error::{Result, shown_name as shown};
use crate::fs_verity;
use crate::progress::{Progress, go_on};
use crate::source::archive::layer::{NAME_MAX, TARGET_MAX};
use crate::source::data::Origin;
use crate::tree::{Attributes, Segment};
use crate::tree_source::{NamedTree, SourceFile, SourceKind};
use crate::xattrs::on_disk;

/// Flags that mean something for directories only.
const OF_DIRECTORIES: InodeFlags = InodeFlags::DIRSYNC
    .union(InodeFlags::TOPDIR)
    .union(InodeFlags::CASEFOLD)
    .union(InodeFlags::PROJINHERIT);

/// What of a file is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    /// All but its fs-verity.
    AllButVerity,
}

/// The flags that chattr(1) sets and that files of a type can have.
fn flags_of(file_type: FileType, flags: InodeFlags) -> InodeFlags {
    let settable = InodeFlags::USER_MODIFIABLE - InodeFlags::EXTENTS;
    let possible = match file_type {
        FileType::Directory => settable,
        FileType::Regular => settable - OF_DIRECTORIES,
        _ => InodeFlags::NODUMP | InodeFlags::NOATIME,
    };
    flags & possible
}

impl Merge {
    /// Applies a tree, below a path.
    ///
    /// # Errors
    /// [`crate::MkfsError::Tree`]: it can't be read, or has what no tree can; [`crate::MkfsError::Cancelled`].
    pub fn apply_tree(
        &mut self,
        named: &NamedTree,
        below: &[u8],
        progress: &dyn Progress,
    ) -> Result<()> {
        self.layer += 1;
        let source = self.merged.add_tree(named.clone());
        let mut known = HashMap::new();
        let mut lost = 0;
        for file in named.tree().files() {
            let file = file.map_err(|e| named.failed(e))?;
            let path = file.path.clone();
            let put = self.put_file(file, source, below, &mut known);
            let put = put.map_err(|e| io::Error::other(format!("/{}: {e}", shown(&path))));
            lost += u64::from(put.map_err(|e| named.failed(e))? == Kept::AllButVerity);
            go_on(progress, 1)?;
        }
        if lost > 0 {
            let name = named.name().display();
            let why = "it is not of SHA-256 over blocks of 4096 bytes";
            let warning =
                format!("{name}: fs-verity of files is not kept, {lost} in number: {why}");
            self.warnings.push(warning);
        }
        Ok(())
    }

    /// Puts a file in place; `known` has the nodes of those before by their ids.
    fn put_file(
        &mut self,
        mut file: SourceFile,
        source: u32,
        below: &[u8],
        known: &mut HashMap<u64, usize>,
    ) -> io::Result<Kept> {
        self.entries += 1;
        let is_root = file.path.is_empty();
        if !is_root && !file.path.split(|byte| *byte == b'/').all(is_name) {
            return Err(wrong("not a path of names"));
        }
        let path = joined(below, &file.path);
        let is_dir = file.kind == SourceKind::Directory;
        if let Some(first) = known.get(&file.id).filter(|_| !is_dir) {
            self.link(&path, *first)?;
            return Ok(Kept::All);
        }
        let xattrs = self.attributes_of(&file);
        let attributes = attributes(&file)?;
        let described = Described {
            attributes,
            xattrs,
            header: None,
        };
        let kind = std::mem::replace(&mut file.kind, SourceKind::Fifo);
        let what = content(
            kind,
            Origin::Tree {
                source,
                id: file.id,
            },
        )?;
        match (is_root, is_dir) {
            (true, true) => self.describe(below, described)?,
            (true, false) => return Err(wrong("the root must be a directory")),
            _ => {
                let is_regular = matches!(what, What::Regular { .. });
                let node = self.put(&path, what, described)?;
                known.insert(file.id, node);
                if let Some(descriptor) = file.fsverity.filter(|_| is_regular) {
                    let decoded = uext4_ondisk::FsVerityDescriptor::decode(&descriptor);
                    let verity = decoded.map(|d| d.verity).filter(fs_verity::is_made);
                    let kept = verity.as_ref().map_or(Kept::AllButVerity, |_| Kept::All);
                    self.nodes[node].verity = verity;
                    return Ok(kept);
                }
            }
        }
        Ok(Kept::All)
    }

    /// The extended attributes that ext4 has a place for.
    fn attributes_of(&mut self, file: &SourceFile) -> Option<Arc<XattrList>> {
        let mut list = XattrList::default();
        for (name, value) in &file.xattrs {
            match on_disk(name, value) {
                Some((index, rest, value)) => {
                    list.set(index, rest, XattrOwnedValue::Inline(value.into_owned()));
                }
                None => self.warnings.push(format!(
                    "/{}: attribute {} has no place in ext4",
                    shown(&file.path),
                    shown(name)
                )),
            }
        }
        (!list.is_empty()).then(|| Arc::new(list))
    }
}

/// Whether a directory can have the name.
fn is_name(name: &[u8]) -> bool {
    let is_special = matches!(name, b"" | b"." | b"..");
    !is_special && name.len() <= NAME_MAX && !name.contains(&0)
}

fn content(kind: SourceKind, origin: Origin) -> io::Result<What> {
    Ok(match kind {
        SourceKind::Directory => What::Directory(BTreeMap::new()),
        SourceKind::Regular { len, segments } => What::Regular {
            origin,
            segments: segments.map(|list| checked(list, len)).transpose()?,
        },
        SourceKind::Symlink(target) => match target.len() {
            1..=TARGET_MAX => What::Symlink(target.into()),
            len => return Err(wrong(format!("a target of {len} bytes"))),
        },
        SourceKind::CharDevice(major, minor) | SourceKind::BlockDevice(major, minor) => {
            What::Device(DevNo { major, minor })
        }
        SourceKind::Fifo | SourceKind::Socket => What::Other,
    })
}

/// Segments that are in order and in the file.
fn checked(list: Vec<std::ops::Range<u64>>, len: u64) -> io::Result<Vec<Segment>> {
    let mut at = 0;
    let mut segments = Vec::with_capacity(list.len());
    for range in list {
        if range.start < at || range.end < range.start || range.end > len {
            return Err(wrong(
                "ranges of data are not in order, or outside of the file",
            ));
        }
        at = range.end;
        segments.push(Segment {
            start: range.start,
            end: range.end,
        });
    }
    segments.retain(|segment| segment.start < segment.end);
    Ok(segments)
}

fn attributes(file: &SourceFile) -> io::Result<Attributes> {
    let (file_type, size) = match &file.kind {
        SourceKind::Directory => (FileType::Directory, 0),
        SourceKind::Regular { len, .. } => (FileType::Regular, *len),
        SourceKind::Symlink(target) => (FileType::Symlink, target.len() as u64),
        SourceKind::CharDevice(..) => (FileType::CharDevice, 0),
        SourceKind::BlockDevice(..) => (FileType::BlockDevice, 0),
        SourceKind::Fifo => (FileType::Fifo, 0),
        SourceKind::Socket => (FileType::Socket, 0),
    };
    if i64::try_from(size).is_err() {
        return Err(wrong(format!("{size} bytes")));
    }
    Ok(Attributes {
        mode: file_type.to_mode() | file.permissions & 0o7777,
        uid: file.uid,
        gid: file.gid,
        size,
        atime: timestamp(file.atime),
        mtime: timestamp(file.mtime),
        ctime: timestamp(file.ctime),
        crtime: file.crtime.map(timestamp),
        flags: flags_of(file_type, file.flags),
        project: file.project,
    })
}

fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp::new(after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let (secs, nanos) = (before.as_secs() as i64, before.subsec_nanos());
            match nanos {
                0 => Timestamp::new(-secs, 0),
                _ => Timestamp::new(-secs - 1, 1_000_000_000 - nanos),
            }
        }
    }
}

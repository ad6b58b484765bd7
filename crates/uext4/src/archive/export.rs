//! A tree as an archive.

use super::member::{self, Member};
use super::options::{ExportError, ExportOptions, ExportReport};
use super::output::{Compressor, Digested};
use super::tree::{Tree, Visited};
use crate::Progress;
use crate::filesystem::Filesystem;
use crate::image_path::ImagePath;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use tar::EntryType;
use uext4_vfs::FileKind;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

impl Filesystem {
    /// Writes the tree below `path` as a tar archive, in the format of POSIX with PAX records: owners by number, times to the
    /// nanosecond, extended attributes, ACLs, devices, hard links, and large files with holes as sparse files. The same tree gives the
    /// same bytes. Sockets are left out, with a warning. `progress` has one phase, `export`, in entries.
    ///
    /// # Errors
    /// A file of the image can't be read; the archive can't be written.
    ///
    /// ```
    /// # use uext4::*;
    /// # let device = std::sync::Arc::new(MemoryDevice::new(16 << 20));
    /// # mkfs_on(&*device, &MkfsOptions::new(), &NoProgress)?;
    /// # let fs = Filesystem::open_device(device, &ImageOptions::read_write())?;
    /// fs.write("/hostname", b"demo\n")?;
    /// let mut archive = Vec::new();
    /// let report = fs.export("/", &mut archive, &ExportOptions::new(), &NoProgress)?;
    /// assert_eq!(report.files, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn export(
        &self,
        path: impl ImagePath,
        to: impl Write,
        options: &ExportOptions,
        progress: &dyn Progress,
    ) -> Result<ExportReport, ExportError> {
        export(self, path.as_bytes(), to, options, progress, Names::Any)
    }
}

/// Which names an archive may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Any,
    /// Not those that a layer gives a meaning.
    OfLayer,
}

pub(super) fn export(
    fs: &Filesystem,
    path: &[u8],
    to: impl Write,
    options: &ExportOptions,
    progress: &dyn Progress,
    names: Names,
) -> Result<ExportReport, ExportError> {
    let span =
        || tracing::debug_span!("library", operation = "export", path = %path.escape_ascii());
    let _span = span().entered();
    let mut tree = Tree::new(fs, path, false)?;
    let mut archive = Archive::new(to, options, names)?;
    progress.phase("export", 0);
    while let Some(file) = tree.next()? {
        archive.add(&tree, &file)?;
        progress.advance(1);
        if progress.is_cancelled() {
            return Err(ExportError::Cancelled);
        }
    }
    archive.finish()
}

/// An archive that is being written.
pub(super) struct Archive<W: Write> {
    out: BufWriter<Digested<Compressor<Digested<W>>>>,
    names: Names,
    /// The first names of files with several.
    first_names: HashMap<u64, Vec<u8>>,
    buf: Vec<u8>,
    pub report: ExportReport,
}

impl<W: Write> Archive<W> {
    pub fn new(to: W, options: &ExportOptions, names: Names) -> Result<Self, ExportError> {
        let written = Digested::new(to, options.digests);
        let compressor = Compressor::new(written, options)?;
        let archive = Digested::new(compressor, options.digests);
        Ok(Archive {
            out: BufWriter::with_capacity(CHUNK_BYTES, archive),
            names,
            first_names: HashMap::new(),
            buf: vec![0; CHUNK_BYTES],
            report: ExportReport::default(),
        })
    }

    /// Adds a file; a further name of one that was added becomes a hard link.
    pub fn add(&mut self, tree: &Tree<'_>, file: &Visited) -> Result<(), ExportError> {
        let name = file.path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        if self.names == Names::OfLayer && name.starts_with(b".wh.") {
            let path = tree.full(&file.path);
            return Err(ExportError::Whiteout { path });
        }
        if file.attr.kind == FileKind::Socket {
            let path = tree.full(&file.path);
            let warning = format!("{}: a socket is left out", path.escape_ascii());
            self.report.warnings.push(warning);
            return Ok(());
        }
        if file.attr.nlink > 1 && file.attr.kind != FileKind::Directory {
            if let Some(first) = self.first_names.get(&file.attr.ino) {
                let first = first.clone();
                return self.add_link(file, &first);
            }
            self.first_names.insert(file.attr.ino, file.path.clone());
        }
        let (xattrs, mut target, mut segments) = (tree.xattrs(file)?, None, Vec::new());
        match file.attr.kind {
            FileKind::Symlink => target = Some(tree.target(file)?),
            FileKind::Regular => segments = tree.segments(file)?,
            _ => {}
        }
        let member = Member {
            path: in_archive(&file.path),
            attr: &file.attr,
            link: target.as_ref().map(|t| (EntryType::Symlink, &t[..])),
            xattrs: &xattrs,
            segments: &segments,
            with_atime: self.names == Names::Any,
        };
        let parts = member.write_headers(&mut self.out);
        self.data(tree, file, &parts.map_err(ExportError::Output)?)?;
        match file.attr.kind {
            FileKind::Regular => self.report.files += 1,
            FileKind::Directory => self.report.directories += 1,
            FileKind::Symlink => self.report.symlinks += 1,
            _ => self.report.others += 1,
        }
        Ok(())
    }

    /// Adds a further name of a file that is in the archive, or that a layer finds below it.
    pub fn add_link(&mut self, file: &Visited, first: &[u8]) -> Result<(), ExportError> {
        let member = Member {
            path: &file.path,
            attr: &file.attr,
            link: Some((EntryType::Link, first)),
            xattrs: &[],
            segments: &[],
            with_atime: self.names == Names::Any,
        };
        let written = member.write_headers(&mut self.out);
        written.map_err(ExportError::Output)?;
        self.report.hard_links += 1;
        Ok(())
    }

    /// Adds the name that removes another one.
    pub fn add_whiteout(&mut self, path: &[u8]) -> Result<(), ExportError> {
        let at = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
        let name = [&path[..at], b".wh.", &path[at..]].concat();
        let written = member::write_empty(&mut self.out, &name);
        self.report.whiteouts += 1;
        written.map_err(ExportError::Output)
    }

    fn data(
        &mut self,
        tree: &Tree<'_>,
        file: &Visited,
        parts: &[(u64, u64)],
    ) -> Result<(), ExportError> {
        let mut stored = 0;
        for &(begin, len) in parts {
            let (mut at, end) = (begin, begin + len);
            stored += len;
            while at < end {
                let most = usize::try_from(end - at)
                    .unwrap_or(usize::MAX)
                    .min(CHUNK_BYTES);
                let n = tree.read(file, at, &mut self.buf[..most])?;
                // A file that is cut while it is read keeps the size of its header.
                self.buf[n..most].fill(0);
                let written = self.out.write_all(&self.buf[..most]);
                written.map_err(ExportError::Output)?;
                at += most as u64;
            }
        }
        let fill = member::padding(stored);
        let written = self.out.write_all(&member::end()[..fill]);
        written.map_err(ExportError::Output)
    }

    /// Writes the end, and returns what was written.
    pub fn finish(mut self) -> Result<ExportReport, ExportError> {
        let ended = self.out.write_all(&member::end());
        let ended = ended.and_then(|()| self.out.into_inner().map_err(io::Error::from));
        let (compressor, bytes, diff_id) = ended.map_err(ExportError::Output)?.finish();
        self.report.archive_bytes = bytes;
        self.report.diff_id = diff_id;
        let written = compressor.finish().map_err(ExportError::Output)?;
        let (mut to, bytes, digest) = written.finish();
        to.flush().map_err(ExportError::Output)?;
        self.report.written_bytes = bytes;
        self.report.digest = digest;
        Ok(self.report)
    }
}

/// The path of a file as a member's: that of the root is `.`.
fn in_archive(path: &[u8]) -> &[u8] {
    match path {
        [] => b".",
        _ => path,
    }
}

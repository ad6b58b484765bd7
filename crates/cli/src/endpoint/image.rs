//! The files of an image.

use super::{Endpoint, Found, Overwrite, Sink, Source, Target};
use crate::location::InImage;
use crate::system::{files, paths};
use crate::{diagnostics, failures};
use anyhow::Result;
use std::path::{Component, Path, PathBuf};
use uext4::unstable::SetAttr;
use uext4::{
    Errno, Error, File, FileKind, Filesystem, ImageName, NewKind, OpenOptions, XattrFlags,
};

/// The files of an image.
pub struct Image {
    id: usize,
    image: PathBuf,
    fs: Filesystem,
}

/// A file of an image, open.
struct Open {
    at: InImage,
    file: File,
}

/// A file of an image that is appended to, open.
struct Appended(Open);

impl Image {
    /// The image `fs` in the file `image`.
    pub fn new(id: usize, image: PathBuf, fs: Filesystem) -> Image {
        Image { id, image, fs }
    }

    /// The file that holds the image.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The image, open.
    pub fn fs(&self) -> &Filesystem {
        &self.fs
    }

    fn at(&self, path: &Path) -> InImage {
        InImage {
            image: self.image.clone(),
            path: path.to_owned(),
        }
    }

    /// The names in the blocks of a directory that can be read; the others are reported.
    fn list_readable(&self, path: &Path) -> Result<Vec<Vec<u8>>> {
        let listed = self.fs.list_readable(paths::bytes(path));
        let (mut names, faults) = listed.map_err(|e| self.fail(path, e))?;
        for fault in faults {
            failures::report(self.fail(path, fault))?;
        }
        // Paths are made of them.
        let is_legal =
            |name: &Vec<u8>| !name.is_empty() && !name.iter().any(|byte| matches!(byte, b'/' | 0));
        for name in names.iter().filter(|name| !is_legal(name)) {
            let what = format!("illegal name '{}'", name.escape_ascii());
            let fault = Error::new(Errno::EUCLEAN).context(what);
            failures::report(self.fail(path, fault))?;
        }
        names.retain(is_legal);
        Ok(names)
    }

    fn names(&self, path: &Path) -> uext4::Result<Vec<Vec<u8>>> {
        let entries = self.fs.read_dir(paths::bytes(path))?;
        entries.map(|e| e.map(uext4::DirEntry::into_name)).collect()
    }

    /// An error about one of its files.
    pub fn fail(&self, path: &Path, e: Error) -> anyhow::Error {
        diagnostics::changing(&self.fs, &self.at(path), e)
    }

    /// An error about a file that is to be made.
    fn fail_new(&self, path: &Path, e: Error) -> anyhow::Error {
        diagnostics::creating(&self.fs, &self.at(path), e)
    }

    /// The path without links, `.` and `..`, as far as it exists.
    ///
    /// # Errors
    /// As [`Endpoint::resolve`].
    pub fn real(&self, path: &Path) -> Result<PathBuf> {
        let mut real = PathBuf::from("/");
        for component in path.components() {
            match component {
                Component::Normal(name) => {
                    let path = self.resolve(&real.join(name))?;
                    real = match path.components().any(|c| c == Component::ParentDir) {
                        true => self.real(&path)?,
                        false => path,
                    };
                }
                Component::ParentDir => drop(real.pop()),
                _ => {}
            }
        }
        Ok(real)
    }
}

impl Source for Open {
    fn read_at(&self, data: &mut [u8], offset: u64) -> Result<usize> {
        self.file
            .read_at(data, offset)
            .map_err(|e| diagnostics::in_image(&self.at, e))
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        match self.file.seek_data(offset) {
            Ok(at) => Ok(Some(at)),
            Err(e) if e == Errno::ENXIO => Ok(None),
            Err(e) => Err(diagnostics::in_image(&self.at, e)),
        }
    }
}

impl Sink for Open {
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        self.file
            .write_all_at(data, offset)
            .map_err(|e| diagnostics::in_image(&self.at, e))
    }

    fn can_have_holes(&self) -> bool {
        true
    }

    fn finish(&self, len: u64) -> Result<()> {
        self.file
            .set_len(len)
            .map_err(|e| diagnostics::in_image(&self.at, e))
    }
}

impl Sink for Appended {
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        self.0.write_at(data, offset)
    }

    fn can_have_holes(&self) -> bool {
        false
    }

    fn finish(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

impl Endpoint for Image {
    fn id(&self) -> usize {
        self.id
    }

    fn image_file(&self) -> Option<(u64, u64)> {
        files::identity(ImageName::parse(&self.image).path())
    }

    fn display(&self, path: &Path) -> String {
        self.at(path).to_string()
    }

    fn find(&self, path: &Path, follow: bool) -> Result<Option<Found>> {
        let attr = if follow {
            self.fs.metadata(paths::bytes(path))
        } else {
            self.fs.symlink_metadata(paths::bytes(path))
        };
        match attr {
            Ok(attr) => Ok(Some(Found {
                attr: *attr,
                dev: 0,
            })),
            Err(e) if e == Errno::ENOENT => Ok(None),
            Err(e) => Err(self.fail(path, e)),
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<Vec<u8>>> {
        let mut names = match self.names(path) {
            // Damage, or a device that fails: what it does not concern is there.
            Err(e) if e == Errno::EUCLEAN || e == Errno::EIO => self.list_readable(path)?,
            names => names.map_err(|e| self.fail(path, e))?,
        };
        names.sort();
        Ok(names)
    }

    fn list_undamaged(&self, path: &Path) -> Result<Vec<Vec<u8>>> {
        self.names(path).map_err(|e| self.fail(path, e))
    }

    fn read_link(&self, path: &Path) -> Result<Vec<u8>> {
        self.fs
            .read_link(paths::bytes(path))
            .map_err(|e| self.fail(path, e))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Source>> {
        let file = self
            .fs
            .open_file(paths::bytes(path))
            .map_err(|e| self.fail(path, e))?;
        let at = self.at(path);
        Ok(Box::new(Open { at, file }))
    }

    fn xattrs(&self, path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let names = self
            .fs
            .list_xattrs(paths::bytes(path))
            .map_err(|e| self.fail(path, e))?;
        let value = |name: Vec<u8>| match self.fs.get_xattr(paths::bytes(path), &name) {
            Ok(value) => Some(Ok((name, value))),
            // An attribute that only the file system itself can read.
            Err(e) if e == Errno::EOPNOTSUPP => None,
            Err(e) => Some(Err(self.fail(path, e))),
        };
        names.into_iter().filter_map(value).collect()
    }

    fn missing(&self, path: &Path) -> anyhow::Error {
        self.fail(path, Errno::ENOENT.into())
    }
}

impl Target for Image {
    fn create(&self, path: &Path, mode: u16, over: Overwrite) -> Result<Box<dyn Sink>> {
        let options = OpenOptions::new().create(true).mode(mode);
        let appends = over == Overwrite::Append;
        let options = match over {
            Overwrite::Append => options.append(true),
            Overwrite::New => options.write(true).create_new(true),
            Overwrite::Named | Overwrite::Existing => options.write(true).truncate(true),
        };
        let file = options.open(&self.fs, paths::bytes(path));
        let file = file.map_err(|e| self.fail_new(path, e))?;
        let at = self.at(path);
        let open = Open { at, file };
        Ok(match appends {
            true => Box::new(Appended(open)),
            false => Box::new(open),
        })
    }

    fn make(&self, path: &Path, mode: u16, kind: NewKind<'_>) -> Result<()> {
        self.fs
            .mknod(paths::bytes(path), mode, kind)
            .map_err(|e| self.fail_new(path, e))
    }

    fn link(&self, original: &Path, link: &Path) -> Result<()> {
        self.fs
            .hard_link(paths::bytes(original), paths::bytes(link))
            .map_err(|e| self.fail_new(link, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.fs
            .remove_file(paths::bytes(path))
            .map_err(|e| self.fail(path, e))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.fs
            .remove_dir(paths::bytes(path))
            .map_err(|e| self.fail(path, e))
    }

    fn flush(&self) -> Result<()> {
        self.fs
            .sync()
            .map_err(|e| diagnostics::opening(&self.image, &e))
    }

    fn set_attr(&self, path: &Path, kind: FileKind, change: &SetAttr) -> Result<()> {
        let mut change = *change;
        if kind == FileKind::Symlink {
            change.mode = None;
        }
        self.fs
            .set_attr(paths::bytes(path), &change)
            .map_err(|e| self.fail(path, e))
    }

    fn set_xattr(&self, path: &Path, name: &[u8], value: &[u8]) -> Result<bool> {
        match self
            .fs
            .set_xattr(paths::bytes(path), name, value, XattrFlags::empty())
        {
            Ok(()) => Ok(true),
            Err(e) if e == Errno::EOPNOTSUPP => Ok(false),
            Err(e) => Err(diagnostics::setting_xattr(
                &self.fs,
                &self.at(path),
                name,
                value.len(),
                e,
            )),
        }
    }
}

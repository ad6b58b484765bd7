//! What the features of the file system say of directory blocks.

use crate::inode::Inode;
use crate::prelude::*;
use crate::volume::Volume;
use std::borrow::Cow;
use uext4_ondisk::{NameEncoding, dir_data_end, name_key};

impl Volume {
    /// Where records end in a block.
    pub(crate) fn dir_end(&self) -> usize {
        dir_data_end(self.cache().block_size(), self.dir_tail())
    }

    /// Whether directory blocks end in a checksum.
    pub(crate) fn dir_tail(&self) -> bool {
        self.sb.has_metadata_csum()
    }

    /// Whether `filetype` is on.
    pub(crate) fn has_filetype(&self) -> bool {
        self.sb.incompat.contains(Incompat::FILETYPE)
    }

    /// Whether a directory ignores case: its names are found by their folds. Not if it is encrypted, too: its entries are found by their ciphertext.
    #[inline]
    pub(crate) fn ignores_case(&self, dir: &Inode) -> bool {
        self.folds(dir) && !dir.is_encrypted()
    }

    /// Whether a directory is encrypted and ignores case: its entries have their hashes, which follow from its key.
    #[inline]
    pub(crate) fn has_keyed_hashes(&self, dir: &Inode) -> bool {
        self.folds(dir) && dir.is_encrypted()
    }

    #[inline]
    fn folds(&self, dir: &Inode) -> bool {
        self.sb.incompat.contains(Incompat::CASEFOLD) && dir.flags().contains(InodeFlags::CASEFOLD)
    }

    /// A key that names in `dir` share if they are the same there.
    #[inline]
    pub(crate) fn name_key<'n>(&self, dir: &Inode, name: &'n [u8]) -> Cow<'n, [u8]> {
        match self.ignores_case(dir) {
            true => name_key(name),
            false => Cow::Borrowed(name),
        }
    }

    /// The encoding of names in a directory, if it ignores case.
    ///
    /// # Errors
    /// An unknown encoding.
    fn encoding_of(&self, dir: &Inode) -> Result<Option<NameEncoding>> {
        if !self.ignores_case(dir) {
            return Ok(None);
        }
        Ok(NameEncoding::read(&self.sb.raw)?)
    }

    /// Refuses to look up a name for which the encoding of a directory that ignores case has no fold.
    ///
    /// # Errors
    /// `EINVAL`; an unknown encoding.
    pub(crate) fn check_sought(&self, dir: &Inode, name: &[u8]) -> Result<()> {
        let encoding = self.encoding_of(dir)?;
        match encoding.is_none_or(|encoding| encoding.may_seek(name)) {
            true => Ok(()),
            false => Err(not_utf8()),
        }
    }

    /// Refuses to add a name that the encoding of a directory that ignores case does not accept.
    ///
    /// # Errors
    /// As [`Volume::check_sought`].
    pub(crate) fn check_added(&self, dir: &Inode, name: &[u8]) -> Result<()> {
        let encoding = self.encoding_of(dir)?;
        match encoding.is_none_or(|encoding| encoding.accepts(name)) {
            true => Ok(()),
            false => Err(not_utf8()),
        }
    }

    /// Says that a name in `dir` became something else.
    pub(crate) fn forget_name(&self, dir: &Inode, name: &[u8]) {
        self.names.forget(dir.ino, &self.name_key(dir, name));
    }

    /// Whether a look-up found no such name in `dir`, and nothing changed it since.
    ///
    /// # Locks
    /// The caller holds what a change of the name needs, so that it stays absent.
    pub(crate) fn is_absent(&self, dir: &Inode, name: &[u8]) -> bool {
        self.names.is_absent(dir.ino, &self.name_key(dir, name))
    }

    /// The type that an entry stores for a file of this type.
    pub(crate) fn entry_type(&self, file_type: FileType) -> FileType {
        match self.has_filetype() {
            true => file_type,
            false => FileType::Unknown,
        }
    }
}

fn not_utf8() -> Ext4Error {
    Ext4Error::Invalid("a name that is not UTF-8, in a directory that ignores case and is strict")
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;
    use crate::fixture::*;

    #[test]
    fn entries_have_the_type_of_their_file_if_the_feature_is_on() {
        for (features, types) in [
            ("", [FileType::Directory, FileType::Regular]),
            ("^filetype", [FileType::Unknown; 2]),
        ] {
            let device = image(8 << 20, features);
            let fs = mount(&device);
            let root = fs.namei.root().expect("root").clone();
            make(&fs, &root, "d", &DIR);
            make(&fs, &root, "f", &FILE);
            let block = fs.mapping.extents(&root).expect("extents")[0].pblk;
            let buffer = fs.volume.cache().get(block.0).expect("read");
            let stored = |name: &[u8]| {
                let content = buffer.read();
                dir_entries(content.data(), fs.volume.dir_end())
                    .flatten()
                    .find_map(|entry| (entry.name == name).then_some(entry.file_type))
            };
            assert_eq!([stored(b"d"), stored(b"f")], types.map(Some));
        }
    }
}

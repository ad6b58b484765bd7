//! What the features of the file system say of directory blocks.

use crate::prelude::*;
use crate::volume::Volume;
use uext4_ondisk::dir_data_end;

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

    /// The type that an entry stores for a file of this type.
    pub(crate) fn entry_type(&self, file_type: FileType) -> FileType {
        match self.has_filetype() {
            true => file_type,
            false => FileType::Unknown,
        }
    }
}

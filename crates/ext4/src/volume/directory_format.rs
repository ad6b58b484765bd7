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

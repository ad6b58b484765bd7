//! The kind of a file, as mode bits and as the byte in a directory entry; device numbers.

/// Kind of a file, with the values of directory entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FileType {
    /// Not known; directory entries without the `filetype` feature.
    Unknown = 0,
    /// Regular file.
    Regular = 1,
    /// Directory.
    Directory = 2,
    /// Character device.
    CharDevice = 3,
    /// Block device.
    BlockDevice = 4,
    /// Named pipe.
    Fifo = 5,
    /// Socket.
    Socket = 6,
    /// Symbolic link.
    Symlink = 7,
}

impl FileType {
    /// The mode bits of the type (`S_IFMT`).
    pub const MODE_MASK: u16 = 0xf000;

    /// From a directory entry; unknown values give [`FileType::Unknown`].
    #[inline]
    pub const fn from_dirent(byte: u8) -> Self {
        match byte {
            1 => FileType::Regular,
            2 => FileType::Directory,
            3 => FileType::CharDevice,
            4 => FileType::BlockDevice,
            5 => FileType::Fifo,
            6 => FileType::Socket,
            7 => FileType::Symlink,
            _ => FileType::Unknown,
        }
    }

    /// The byte in a directory entry.
    #[inline]
    pub const fn to_dirent(self) -> u8 {
        self as u8
    }

    /// From a mode.
    #[inline]
    pub const fn from_mode(mode: u16) -> Self {
        match mode & Self::MODE_MASK {
            0x8000 => FileType::Regular,
            0x4000 => FileType::Directory,
            0x2000 => FileType::CharDevice,
            0x6000 => FileType::BlockDevice,
            0x1000 => FileType::Fifo,
            0xc000 => FileType::Socket,
            0xa000 => FileType::Symlink,
            _ => FileType::Unknown,
        }
    }

    /// The bits of a mode; 0 for [`FileType::Unknown`].
    #[inline]
    pub const fn to_mode(self) -> u16 {
        match self {
            FileType::Unknown => 0,
            FileType::Regular => 0x8000,
            FileType::Directory => 0x4000,
            FileType::CharDevice => 0x2000,
            FileType::BlockDevice => 0x6000,
            FileType::Fifo => 0x1000,
            FileType::Socket => 0xc000,
            FileType::Symlink => 0xa000,
        }
    }
}

/// Number of a device file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DevNo {
    /// Major number, 12 bits on disk.
    pub major: u32,
    /// Minor number, 20 bits on disk.
    pub minor: u32,
}

impl DevNo {
    /// From the first two words of the block area: the old encoding if the first is set.
    pub const fn decode(word0: u32, word1: u32) -> Self {
        if word0 != 0 {
            DevNo {
                major: (word0 >> 8) & 0xff,
                minor: word0 & 0xff,
            }
        } else {
            DevNo {
                major: (word1 >> 8) & 0xfff,
                minor: (word1 & 0xff) | ((word1 >> 12) & 0xfff00),
            }
        }
    }

    /// The first two words: the old encoding where it is wide enough.
    pub const fn encode(self) -> (u32, u32) {
        if self.major < 256 && self.minor < 256 {
            (self.major << 8 | self.minor, 0)
        } else {
            let low = (self.minor & 0xff) | (self.major & 0xfff) << 8;
            (0, low | (self.minor & 0xfff00) << 12)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_round_trip() {
        for b in 0..=7 {
            let t = FileType::from_dirent(b);
            assert_eq!(
                (t.to_dirent(), FileType::from_mode(t.to_mode() | 0o644)),
                (b, t)
            );
        }
        assert_eq!(FileType::from_dirent(0xde), FileType::Unknown);
    }

    #[test]
    fn device_numbers_round_trip() {
        for (major, minor) in [(8, 1), (255, 255), (259, 3), (1, 256), (4095, 0xfffff)] {
            let (a, b) = DevNo { major, minor }.encode();
            assert_eq!(DevNo::decode(a, b), DevNo { major, minor });
        }
    }
}

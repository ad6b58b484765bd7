//! What a file or device holds, by the marks that file systems, partition tables and archives leave.
//!
//! | module | holds |
//! | --- | --- |
//! | [`advice`] | the command that helps with what is not an ext4 image |

mod advice;

pub use advice::describe;

use crate::system::files;
use std::fs::File;
use std::io;
use std::path::Path;
use uext4::unstable::errno_of;
use uext4::{BlockDevice, BlockError, DeviceOptions, Errno, FileDevice, ImageName};

/// A mark: what has it, where it is, and how often it may be repeated how far on.
struct Mark {
    what: &'static str,
    offset: usize,
    bytes: &'static [u8],
    repeated: (usize, usize),
}

const fn mark(what: &'static str, offset: usize, bytes: &'static [u8]) -> Mark {
    let repeated = (0, 1);
    Mark {
        what,
        offset,
        bytes,
        repeated,
    }
}

/// The marks, as each format's documentation has them; what is more exact first.
const MARKS: &[Mark] = &[
    mark("an ext2, ext3 or ext4 file system", 0x438, b"\x53\xef"),
    mark("a LUKS volume", 0, b"LUKS\xba\xbe"),
    Mark {
        repeated: (512, 4),
        ..mark("a volume of LVM", 0, b"LABELONE")
    },
    mark("a member of a Linux RAID", 0x1000, b"\xfc\x4e\x2b\xa9"),
    mark("a member of a Linux RAID", 0, b"\xfc\x4e\x2b\xa9"),
    mark("an XFS file system", 0, b"XFSB"),
    mark("a Btrfs file system", 0x10040, b"_BHRfS_M"),
    mark("an F2FS file system", 0x400, b"\x10\x20\xf5\xf2"),
    mark(
        "a bcache or bcachefs device",
        0x1018,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca",
    ),
    // A slot for each of the last transactions.
    Mark {
        repeated: (1024, 128),
        ..mark("a ZFS pool", 0x20000, b"\x0c\xb1\xba\0\0\0\0\0")
    },
    mark("an EROFS file system", 0x400, b"\xe2\xe1\xf5\xe0"),
    mark("a SquashFS file system", 0, b"hsqs"),
    mark("a ReiserFS file system", 0x10034, b"ReIsEr"),
    mark("a JFS file system", 0x8000, b"JFS1"),
    mark("a NILFS2 file system", 0x406, b"\x34\x34"),
    mark("an OCFS2 file system", 0x2000, b"OCFSV2"),
    mark("a GFS2 file system", 0x10000, b"\x01\x16\x19\x70\0\0\0\x01"),
    mark("an ISO 9660 file system", 0x8001, b"CD001"),
    mark("a UDF file system", 0x8001, b"BEA01"),
    mark("swap space", 4096 - 10, b"SWAPSPACE2"),
    mark("swap space", 4096 - 10, b"SWAP-SPACE"),
    mark("swap space", 65536 - 10, b"SWAPSPACE2"),
    mark("a BitLocker volume", 3, b"-FVE-FS-"),
    mark("an NTFS file system", 3, b"NTFS    "),
    mark("an exFAT file system", 3, b"EXFAT   "),
    mark("a FAT file system", 0x36, b"FAT"),
    mark("a FAT file system", 0x52, b"FAT32"),
    mark("an APFS container", 0x20, b"NXSB"),
    mark("an HFS+ file system", 0x400, b"H+\0\x04"),
    mark("a Ceph BlueStore device", 0, b"bluestore block device"),
    mark("a qcow2 image", 0, b"QFI\xfb"),
    mark("a VMDK image", 0, b"KDMV"),
    mark("a VMDK image", 0, b"# Disk DescriptorFile"),
    mark("a VDI image", 0x40, b"\x7f\x10\xda\xbe"),
    mark("a VHDX image", 0, b"vhdxfile"),
    mark("a VHD image", 0, b"conectix"),
    mark("an Android sparse image", 0, b"\x3a\xff\x26\xed"),
    mark("data compressed by gzip", 0, b"\x1f\x8b\x08"),
    mark("data compressed by zstd", 0, b"\x28\xb5\x2f\xfd"),
    mark("data compressed by xz", 0, b"\xfd7zXZ\0"),
    mark("data compressed by bzip2", 0, b"BZh"),
    mark("data compressed by lz4", 0, b"\x04\x22\x4d\x18"),
    mark("a tar archive", 257, b"ustar"),
    mark("a cpio archive", 0, b"070701"),
    mark("a cpio archive", 0, b"070702"),
    mark("a cpio archive", 0, b"070707"),
    mark("a cpio archive", 0, b"\xc7\x71"),
    mark("a zip archive", 0, b"PK\x03\x04"),
    mark("a 7z archive", 0, b"7z\xbc\xaf\x27\x1c"),
    mark("an ELF program", 0, b"\x7fELF"),
    mark("a partition table (GPT)", 512, b"EFI PART"),
    mark("a partition table (GPT)", 4096, b"EFI PART"),
    mark("a partition table (MBR) or boot sector", 510, b"\x55\xaa"),
];

/// Bytes that are read at once of a file that begins with zeros.
const READ_BYTES: usize = 1 << 20;
/// All marks are in the first so many bytes.
const HEAD_BYTES: usize = 0x20000 + 128 * 1024;

/// What is unknown.
const UNKNOWN: &str = "data that is not a file system";
/// What is unknown and has no marks, as they are before it.
const LATER: &str = "data after zeros";

/// What an image holds that is to be overwritten; `None` if a file holds only zeros, or the first [`HEAD_BYTES`] of a device or a
/// partition.
///
/// # Errors
/// It can't be read.
pub fn holds(image: &Path) -> Result<Option<&'static str>, BlockError> {
    let options = DeviceOptions::read_only().exclusive(false);
    let name = ImageName::parse(image);
    if name.is_within() {
        return match uext4::open_image(image, &options) {
            // A store that has no image yet.
            Err(e) if e.is_missing() => Ok(None),
            opened => in_device(&*opened?),
        };
    }
    let image = name.path();
    let device = FileDevice::open(image, &options)?;
    let head = in_device(&device)?;
    let of_host = |source| BlockError::Open {
        path: image.to_owned(),
        source,
    };
    let file = File::open(image).map_err(of_host)?;
    if head.is_none()
        && file.metadata().map_err(of_host)?.is_file()
        && has_data_after(&file, HEAD_BYTES as u64).map_err(of_host)?
    {
        return Ok(Some(LATER));
    }
    Ok(head)
}

/// What begins with the device; `None` if its first [`HEAD_BYTES`] are zeros.
///
/// # Errors
/// It can't be read.
pub fn in_device(device: &dyn BlockDevice) -> Result<Option<&'static str>, BlockError> {
    Ok(in_head(&read(device, 0, HEAD_BYTES)?))
}

/// Whether a byte at `offset` or after it is not zero. Holes are not read.
fn has_data_after(file: &File, offset: u64) -> io::Result<bool> {
    let mut at = offset;
    loop {
        at = match files::next_data(file, at) {
            Ok(Some(data)) => data,
            Ok(None) => return Ok(false),
            // A file system that does not know of holes.
            Err(e)
                if matches!(
                    errno_of(&e).map(Errno),
                    Some(Errno::EINVAL | Errno::EOPNOTSUPP)
                ) =>
            {
                at
            }
            Err(e) => return Err(e),
        };
        let mut data = vec![0; READ_BYTES];
        let len = files::read_at(file, &mut data, at)?;
        data.truncate(len);
        if data.iter().any(|b| *b != 0) {
            return Ok(true);
        }
        if data.is_empty() {
            return Ok(false);
        }
        at += data.len() as u64;
    }
}

/// The bytes from `offset` on, as many as there are.
fn read(device: &dyn BlockDevice, offset: u64, len: usize) -> Result<Vec<u8>, BlockError> {
    let there = device.len().saturating_sub(offset).min(len as u64);
    let mut bytes = vec![0; there as usize];
    if there > 0 {
        device.read_at(offset, &mut bytes)?;
    }
    Ok(bytes)
}

fn in_head(head: &[u8]) -> Option<&'static str> {
    let is_there = |mark: &Mark| {
        let (stride, count) = mark.repeated;
        (0..count).any(|i| {
            let at = head.get(mark.offset + i * stride..);
            at.is_some_and(|at| at.starts_with(mark.bytes))
        })
    };
    match MARKS.iter().find(|mark| is_there(mark)) {
        Some(mark) => Some(mark.what),
        None if head.iter().all(|b| *b == 0) => None,
        None => Some(UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES, MARKS, UNKNOWN, in_head};

    #[test]
    fn every_mark_is_found_where_it_may_be() {
        for mark in MARKS {
            let (stride, count) = mark.repeated;
            for i in [0, count - 1] {
                let mut head = vec![0; HEAD_BYTES];
                let at = mark.offset + i * stride;
                head[at..at + mark.bytes.len()].copy_from_slice(mark.bytes);
                assert_eq!(in_head(&head), Some(mark.what));
                assert_eq!(in_head(&head[..at]), None, "{}", mark.what);
                head[at] ^= 0xff;
                assert_eq!(in_head(&head), Some(UNKNOWN));
            }
        }
        assert_eq!(in_head(&[]), None);
    }
}

//! The command that helps with what is not an ext4 image.

use super::{HEAD_BYTES, UNKNOWN, in_head, read};
use crate::{device, quoted, show};
use std::path::{Path, PathBuf};
use uext4::{BlockDevice, BlockError, DeviceOptions, ImageName, Partition};

/// Partitions that one line names.
const NAMED_MAX: usize = 6;
/// Bytes that are text, or not.
const TEXT_BYTES: usize = 4096;
/// Bytes at the end of a VHD of fixed size.
const VHD_FOOTER_BYTES: u64 = 512;

/// What may have become of one, where backups were searched for.
const OVERWRITTEN: &str =
    "it was an image, its superblock was overwritten, and no backup of it was found";

/// What an image holds instead of ext4, and what to do about it: the end of a sentence.
///
/// # Errors
/// It can't be read, or its name asks for a partition that it does not have.
pub fn describe(image: &Path) -> Result<String, BlockError> {
    let files = device::files(image, &DeviceOptions::read_only().exclusive(false))?;
    let name = ImageName::parse(image);
    let (device, found) = match name.partition() {
        Some(_) => (files.device(0, None)?, Vec::new()),
        None => files.partitions()?,
    };
    let head = read(&*device, 0, HEAD_BYTES)?;
    let quoted = quoted::path(image);
    if head.is_empty() {
        return Ok("not an ext4 image: it is empty".to_owned());
    }
    if is_fixed_vhd(&*device)? {
        let convert = convert(image, &quoted);
        return Ok(format!("not an ext4 image but a VHD image; {convert}"));
    }
    let Some(what) = in_head(&head) else {
        return Ok(match head.len() < HEAD_BYTES {
            true => "not an ext4 image: it holds only zeros".to_owned(),
            false => format!(
                "not an ext4 image: it begins with only zeros; if an image begins later in it, --offset names where; \
                 if {OVERWRITTEN}"
            ),
        });
    };
    if what == UNKNOWN {
        let text = &head[..head.len().min(TEXT_BYTES)];
        return Ok(match is_text(text) {
            true => "not an ext4 image but text; is it the right file?".to_owned(),
            false => format!("not an ext4 image; is it the right file? If {OVERWRITTEN}"),
        });
    }
    if what.starts_with("a partition table") {
        return Ok(format!(
            "not an ext4 image but {what}{}",
            with_partitions(&name, &*device, &found)?
        ));
    }
    Ok(match of(what, image, &quoted) {
        Some(advice) => format!("not an ext4 image but {what}; {advice}"),
        None => format!("not an ext4 image but {what}"),
    })
}

/// The partitions of a disk, and how one is named.
fn with_partitions(
    name: &ImageName,
    device: &dyn BlockDevice,
    found: &[Partition],
) -> Result<String, BlockError> {
    if found.is_empty() {
        return Ok("; it names no partitions".to_owned());
    }
    let mut holds = Vec::new();
    for partition in found.iter().take(NAMED_MAX) {
        holds.push(in_head(&read(device, partition.start, HEAD_BYTES)?));
    }
    let ext = holds
        .iter()
        .position(|holds| holds.is_some_and(|holds| holds.contains("ext4")));
    let advice = match ext.and_then(|i| found.get(i)) {
        Some(p) => {
            let part = quoted::path(&ImageName::in_disk(name.path(), p.number));
            format!("`uext4 ls {part}` lists number {}", p.number)
        }
        None => {
            let disk = quoted::path(name.path());
            format!("`losetup --find --show -P {disk}` makes a device of each")
        }
    };
    Ok(format!(": {}; {advice}", in_words(found, &holds)))
}

/// The partitions in one line.
fn in_words(partitions: &[Partition], holds: &[Option<&str>]) -> String {
    let one = |(p, holds): (&Partition, &Option<&str>)| {
        let (start, len) = (show::bytes(p.start), show::bytes(p.len));
        let holds = holds.map_or(String::new(), |holds| format!(", {holds}"));
        let name = match p.name.as_str() {
            "" => String::new(),
            name => format!("{}: ", quoted::quoted(name)),
        };
        format!(
            "{} ({name}{len} from {start} on, {}{holds})",
            p.number, p.kind
        )
    };
    let mut words: Vec<String> = partitions.iter().zip(holds).map(one).collect();
    if partitions.len() > NAMED_MAX {
        words.push(format!("{} more", partitions.len() - NAMED_MAX));
    }
    words.join(", ")
}

/// What to do about something that has a mark.
fn of(what: &str, path: &Path, name: &str) -> Option<String> {
    let mounts = || Some(format!("`mount -o loop {name} DIR` mounts it, as root"));
    let from = "`uext4 mkfs NEW --from DIR` makes an image of that";
    let unpack = |with: &str| Some(format!("`{with}` unpacks it, and {from}"));
    let expand = |with: &str| {
        let to = quoted::path(&new(expanded(path)));
        Some(format!("`{with} {name} > {to}` unpacks it"))
    };
    match what {
        "a qcow2 image" | "a VMDK image" | "a VDI image" | "a VHDX image" | "a VHD image" => {
            Some(convert(path, name))
        }
        "an Android sparse image" => {
            let to = quoted::path(&new(path.with_extension("raw.img")));
            Some(format!("`simg2img {name} {to}` makes a raw one"))
        }
        "data compressed by gzip" => expand("gzip -dc"),
        "data compressed by zstd" => expand("zstd -dc"),
        "data compressed by xz" => expand("xz -dc"),
        "data compressed by bzip2" => expand("bzip2 -dc"),
        "data compressed by lz4" => expand("lz4 -dc"),
        "a tar archive" => unpack(&format!("tar -xf {name} -C DIR")),
        "a cpio archive" => unpack(&format!("cpio -idm -D DIR < {name}")),
        "a zip archive" => unpack(&format!("unzip {name} -d DIR")),
        "a SquashFS file system" => unpack(&format!("unsquashfs -d DIR {name}")),
        "an EROFS file system" => unpack(&format!("fsck.erofs --extract=DIR {name}")),
        "a LUKS volume" => Some(format!(
            "`cryptsetup open {name} NAME` opens it, as root, and /dev/mapper/NAME is what it holds"
        )),
        "an ISO 9660 file system"
        | "a UDF file system"
        | "an XFS file system"
        | "a Btrfs file system"
        | "an F2FS file system"
        | "an NTFS file system"
        | "an exFAT file system"
        | "a FAT file system"
        | "an HFS+ file system"
        | "a JFS file system"
        | "a NILFS2 file system" => mounts(),
        _ => None,
    }
}

fn convert(path: &Path, name: &str) -> String {
    let to = quoted::path(&new(path.with_extension("raw.img")));
    format!("`qemu-img convert -O raw {name} {to}` makes a raw one")
}

/// The name, unless it is taken.
fn new(path: PathBuf) -> PathBuf {
    if path.exists() { "NEW".into() } else { path }
}

/// The name of what a compressed file holds.
fn expanded(path: &Path) -> PathBuf {
    let ext = path.extension().and_then(|ext| ext.to_str());
    match ext {
        Some("gz" | "zst" | "zstd" | "xz" | "bz2" | "lz4") => path.with_extension(""),
        _ => path.with_extension("raw.img"),
    }
}

fn is_fixed_vhd(device: &dyn BlockDevice) -> Result<bool, BlockError> {
    let footer = device.len().checked_sub(VHD_FOOTER_BYTES);
    match footer {
        Some(at) => Ok(read(device, at, 8)? == b"conectix"),
        None => Ok(false),
    }
}

fn is_text(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // A character may be cut at the end.
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.is_empty()
        && text
            .chars()
            .all(|c| !c.is_control() || c.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_recognised() {
        assert!(is_text(b"#!/bin/sh\n"));
        assert!(is_text("caf\u{e9}".as_bytes()));
        assert!(is_text(b"caf\xc3"));
        assert!(!is_text(b"caf\xe9 noir"));
        assert!(!is_text(b"a\0b"));
    }
}

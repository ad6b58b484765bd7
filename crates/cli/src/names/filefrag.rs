//! filefrag: in how many extents files are, of the host, and of images as IMAGE:/path.

use super::image::errno_text;
use super::{Program, exit, reported};
use crate::endpoint::{Endpoint, Found};
use crate::images::Images;
use crate::location::{InImage, Location};
use crate::system::extents::{Extent, Mapped, Volume};
use crate::system::{host_extents, paths};
use crate::{diagnostics, show};
use anyhow::Result;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use uext4::unstable::ondisk::InodeFlags;
use uext4::unstable::to_stderr;
use uext4::{Dir, Errno, FiemapOf, FileKind};

const USAGE: &str = "Usage: filefrag [-b{blocksize}[KMG]] [-BeEksvxX] file ...";

/// `EXT4_SUPER_MAGIC`, as statfs(2) gives it.
const EXT4_MAGIC: u64 = 0xEF53;

/// Names of `FIEMAP_EXTENT_*`, in the order in which they are listed.
const FLAGS: [(u32, &str); 11] = [
    (LAST, "last"),
    (UNKNOWN, "unknown_loc"),
    (DELALLOC, "delalloc"),
    (0x8, "encoded"),
    (0x80, "encrypted"),
    (0x100, "not_aligned"),
    (INLINE, "inline"),
    (0x400, "tail_packed"),
    (0x800, "unwritten"),
    (0x1000, "merged"),
    (0x2000, "shared"),
];
const LAST: u32 = 0x1;
const UNKNOWN: u32 = 0x2;
const DELALLOC: u32 = 0x4;
const INLINE: u32 = 0x200;

/// The largest block of the output, in bytes.
const LARGEST_BLOCK: u64 = 1 << 30;

/// What is asked for.
struct Asked {
    /// The block of the output, in bytes; that of the file system, if none is given.
    block_size: Option<u64>,
    verbose: bool,
    hexadecimal: bool,
    xattrs: bool,
    synced: bool,
}

/// Which file system it is.
#[derive(PartialEq, Eq)]
enum VolumeId {
    Host(u64),
    Image(PathBuf),
}

/// What goes wrong with a file, and what the program exits with for it.
struct Failed {
    code: u8,
    why: String,
}

pub fn run(program: &Program) -> Result<u8> {
    let words = program.read("Bb::eEkPsvVxX", USAGE, 1)?;
    if words.has('V') {
        to_stderr(format_args!("{}", program.version()));
        return Ok(0);
    }
    let refused = [
        ('B', "-B: FIBMAP is not asked"),
        ('E', "-E: the kernel's cache of extents is not read"),
        ('P', "-P: the kernel's cache of extents is not filled"),
    ];
    if let Some((_, why)) = refused.iter().find(|(letter, _)| words.has(*letter)) {
        return Err(exit(1, format!("filefrag: {why}; leave it out")));
    }
    if words.operands.is_empty() {
        return Err(exit(1, USAGE));
    }
    let asked = Asked {
        block_size: block_size(program, &words)?,
        verbose: words.has('v') || words.has('e'),
        hexadecimal: words.has('X'),
        xattrs: words.has('x'),
        synced: words.has('s'),
    };
    let mut images = Images::default();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut code, mut last) = (0, None);
    for file in &words.operands {
        match asked.mapped(&mut images, file) {
            Ok((mapped, volume)) => {
                let is_first = last.as_ref() != Some(&volume);
                out.write_all(asked.listed(file, &mapped, is_first).as_bytes())?;
                last = Some(volume);
            }
            Err(failed) => {
                // In the order of the files.
                out.flush()?;
                program.warn(failed.why);
                code = if code == 0 { failed.code } else { code };
            }
        }
    }
    out.flush()?;
    images.close()?;
    Ok(code)
}

/// The block that the output counts in, if one is given.
fn block_size(program: &Program, words: &super::getopt::Words) -> Result<Option<u64>> {
    if words.has('k') {
        return Ok(Some(1024));
    }
    if !words.has('b') {
        return Ok(None);
    }
    let Some(text) = words.text('b') else {
        program.warn("-b needs a blocksize option, assuming 1024-byte blocks.");
        return Ok(Some(1024));
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text.get(..digits).and_then(|n| n.parse().ok()).unwrap_or(0);
    let unit = text.get(digits..).and_then(|rest| rest.chars().next());
    let shift = match unit {
        Some('g' | 'G') => 30,
        Some('m' | 'M') => 20,
        Some('k' | 'K') => 10,
        _ => 0,
    };
    let bytes = number.saturating_mul(1 << shift);
    if bytes > LARGEST_BLOCK {
        program.warn(format_args!("blocksize {bytes} over 1GB"));
        to_stderr(format_args!("{USAGE}"));
        return Err(reported(1));
    }
    // A power of two, from a sector on.
    let rounded = |bytes: u64| 1 << bytes.ilog2();
    Ok(Some(bytes.checked_ilog2().map_or(1024, |_| rounded(bytes))))
}

impl Asked {
    /// Finds a file, and where it is.
    fn mapped(&self, images: &mut Images, file: &OsStr) -> Result<(Mapped, VolumeId), Failed> {
        match Location::parse(file.to_owned()) {
            Location::Host(path) => self.host(&path).map_err(|e| Failed {
                code: u8::try_from(e.0).unwrap_or(1),
                why: format!("{}: {}", path.display(), errno_text(e)),
            }),
            Location::Image(at) => match self.image(images, &at) {
                Ok(Some(mapped)) => Ok(mapped),
                Ok(None) => Err(Failed {
                    code: Errno::ENOENT.0.unsigned_abs() as u8,
                    why: format!("{at}: {}", errno_text(Errno::ENOENT)),
                }),
                Err(e) => Err(Failed {
                    code: 1,
                    why: diagnostics::one_line(&e),
                }),
            },
        }
    }

    /// A file of the host.
    fn host(&self, path: &Path) -> Result<(Mapped, VolumeId), Errno> {
        let (mapped, device) = host_extents::map(path, self.xattrs, self.synced)?;
        Ok((mapped, VolumeId::Host(device)))
    }

    /// A file of an image, if it is there.
    fn image(&self, images: &mut Images, at: &InImage) -> Result<Option<(Mapped, VolumeId)>> {
        let image = images.get(&at.image, false)?;
        let Some(Found { attr, .. }) = image.find(&at.path, true)? else {
            return Ok(None);
        };
        let fs = image.fs();
        let of = match self.xattrs {
            true => FiemapOf::Xattrs,
            false => FiemapOf::Data,
        };
        let whole = u64::MAX >> 1;
        let found = match attr.kind {
            FileKind::Regular => fs
                .open_file(paths::bytes(&at.path))
                .and_then(|f| f.fiemap(of, 0, whole)),
            FileKind::Directory => {
                let (dir, engine) = (fs.open_dir(paths::bytes(&at.path)), fs.engine());
                let found = |dir: Dir| engine.files.fiemap(dir.node(), of, 0, whole);
                dir.and_then(|dir| engine.volume.report(found(dir)))
            }
            _ => Err(Errno::EOPNOTSUPP.into()),
        };
        let found = found.map_err(|e| image.fail(&at.path, e))?;
        let statfs = fs.statfs().map_err(|e| image.fail(&at.path, e))?;
        let extents = found.into_iter().map(|e| Extent {
            logical: e.logical,
            physical: e.physical,
            len: e.len,
            flags: e.flags.bits(),
        });
        let mapped = Mapped {
            size: attr.size,
            extents: extents.collect(),
            has_extents: attr.flags & InodeFlags::EXTENTS.bits() != 0,
            volume: Volume {
                magic: EXT4_MAGIC,
                block_size: statfs.block_size.into(),
                blocks: statfs.blocks,
            },
        };
        Ok(Some((mapped, VolumeId::Image(at.image.clone()))))
    }

    /// What is said about a file, the first one on its file system or not.
    fn listed(&self, file: &OsStr, mapped: &Mapped, is_first: bool) -> String {
        let volume = &mapped.volume;
        let block_size = self.block_size.unwrap_or(volume.block_size).max(1);
        let blocks = mapped.size.div_ceil(volume.block_size.max(1));
        let name = String::from_utf8_lossy(&show::name(file.as_encoded_bytes())).into_owned();
        let mut out = String::new();
        if self.verbose {
            if is_first {
                let _ = writeln!(out, "Filesystem type is: {:x}", volume.magic);
                if volume.magic == EXT4_MAGIC && !mapped.has_extents {
                    let groups = volume.blocks.div_ceil(volume.block_size.max(1) * 8);
                    let _ = writeln!(out, "Filesystem cylinder groups approximately {groups}");
                }
            }
            let s = if blocks == 1 { "" } else { "s" };
            let shown = blocks * volume.block_size / block_size;
            let _ = writeln!(
                out,
                "File size of {name} is {} ({shown} block{s} of {block_size} bytes)",
                mapped.size
            );
        }
        let digits = |number: u64| number.checked_ilog10().unwrap_or(0) as usize;
        let mut table = Table {
            block_size,
            size: mapped.size,
            hexadecimal: self.hexadecimal,
            logical: digits(blocks).max(8),
            physical: digits(volume.blocks).max(10),
            out,
        };
        if self.verbose && !mapped.extents.is_empty() {
            table.head();
        }
        let (mut pieces, mut expected) = (0_u64, 0_u64);
        let mut logical = 0_u64;
        for (i, extent) in mapped.extents.iter().enumerate() {
            // After a hole the next block is as far away as it would be without.
            expected = expected.wrapping_add(extent.logical.wrapping_sub(logical));
            let follows = extent.physical == expected && i > 0;
            pieces += u64::from(!follows);
            if self.verbose {
                table.row(i, extent, (!follows && expected > 0).then_some(expected));
            }
            expected = extent.physical.wrapping_add(extent.len);
            logical = extent.logical.wrapping_add(extent.len);
        }
        let s = if pieces == 1 { "" } else { "s" };
        let _ = writeln!(table.out, "{name}: {pieces} extent{s} found");
        table.out
    }
}

/// The table of a file.
struct Table {
    block_size: u64,
    size: u64,
    hexadecimal: bool,
    /// Columns of a number of a block of the file.
    logical: usize,
    /// The same of the device.
    physical: usize,
    out: String,
}

impl Table {
    fn head(&mut self) {
        let (logical, physical) = (self.logical * 2 + 3, self.physical * 2 + 3);
        let _ = writeln!(
            self.out,
            " ext: {:>logical$} {:>physical$} length: {:>w$} flags:",
            "logical_offset:",
            "physical_offset:",
            "expected:",
            w = self.physical + 1,
        );
    }

    fn row(&mut self, i: usize, extent: &Extent, expected: Option<u64>) {
        // What is not in whole blocks is in bytes.
        let unit = match extent.flags & INLINE != 0 {
            true => 1,
            false => self.block_size,
        };
        let is_placed = extent.flags & (UNKNOWN | DELALLOC) == 0;
        let (len, physical) = match is_placed {
            true => (extent.len / unit, extent.physical / unit),
            false => (0, 0),
        };
        let first = extent.logical / unit;
        let last = |first: u64, len: u64| first + len.saturating_sub(1);
        let length = match is_placed {
            true => len,
            false => extent.len / unit,
        };
        let (l, p) = (self.logical, self.physical);
        let number = |number: u64, width: usize| match self.hexadecimal {
            true => format!("{number:>width$x}"),
            false => format!("{number:>width$}"),
        };
        let expected = match expected {
            Some(expected) => format!("{}:", number(expected / unit, p)),
            None => " ".repeat(p + 1),
        };
        let _ = writeln!(
            self.out,
            "{i:4}: {}..{}: {}..{}: {}: {expected}{}",
            number(first, l),
            number(last(first, length), l),
            number(physical, p),
            number(last(physical, len), p),
            number(len, 6),
            flags(extent, self.size),
        );
    }
}

/// The flags of an extent of a file of `size` bytes, if it has any, with a space before them.
fn flags(extent: &Extent, size: u64) -> String {
    let set = FLAGS.iter().filter(|(flag, _)| extent.flags & flag != 0);
    let mut names: Vec<String> = set.map(|(_, name)| (*name).to_owned()).collect();
    let known = FLAGS.iter().fold(0, |all, (flag, _)| all | flag);
    let others = extent.flags & !known;
    if others != 0 {
        names.push(format!("{others:#x}"));
    }
    if extent.logical.saturating_add(extent.len) >= size {
        names.push("eof".to_owned());
    }
    match names.is_empty() {
        true => String::new(),
        false => format!(" {}", names.join(",")),
    }
}

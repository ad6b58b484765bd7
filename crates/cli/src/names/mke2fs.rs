//! mke2fs: makes a file system, empty or of a directory.
//!
//! | module | holds |
//! | --- | --- |
//! | [`conf`] | mke2fs.conf |
//! | [`text`] | what is printed |
//! | [`within`] | file systems that are a part of a file |

mod conf;
mod text;
mod within;

use super::getopt::Words;
use super::tune2fs::LABEL_MAX;
use super::{Program, exit, image};
use crate::commands::mkfs::{self, Args};
use crate::commands::tune;
use crate::size::FsSize;
use crate::system::mounts::KernelMount;
use crate::system::{files, paths};
use crate::{device, diagnostics, probe};
use anyhow::Result;
use conf::Conf;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use uext4::unstable::Tuning;
use uext4::unstable::ondisk::{Feature, Superblock};
use uext4::unstable::to_stderr;
use uext4::{CheckOptions, DeviceOptions, ImageName, NoProgress};
use uuid::Uuid;

const USAGE: &str = "\
Usage: mke2fs [-c|-l filename] [-b block-size] [-C cluster-size]
\t[-i bytes-per-inode] [-I inode-size] [-J journal-options]
\t[-G flex-group-size] [-N number-of-inodes] [-d root-directory]
\t[-m reserved-blocks-percentage] [-o creator-os]
\t[-g blocks-per-group] [-L volume-label] [-M last-mounted-directory]
\t[-O feature[,...]] [-r fs-revision] [-E extended-option[,...]]
\t[-t fs-type] [-T usage-type ] [-U UUID] [-e errors_behavior][-z undo_file]
\t[-jnqvDFSV] device [blocks-count]";

/// Bits of the default mount options that every image is made with: `user_xattr` and `acl`.
const MOUNT_OPTIONS: u32 = 0xc;
/// The bytes for an inode that can be asked for.
const INODE_RATIOS: RangeInclusive<u64> = 1024..=0x400_0000;
/// The kinds of quotas; an empty word is none.
const QUOTAS: [&str; 7] = ["", "usr", "usrquota", "grp", "grpquota", "prj", "prjquota"];
/// Options that are passed on as they are.
const PASSED: &str = "eMgGoJrclCzS";

/// What is made.
struct Job<'a> {
    program: &'a Program,
    words: Words,
    image: &'a Path,
    bytes: u64,
    /// Where in the file.
    offset: u64,
    /// The file was not there.
    is_new: bool,
    /// Type and usage, as mke2fs.conf has them.
    types: Vec<String>,
    conf: Conf,
}

/// A label, cut to the length that one can have.
fn label(text: &[u8]) -> Vec<u8> {
    let cut: Vec<u8> = text.iter().take(LABEL_MAX).copied().collect();
    if cut.len() < text.len() {
        let label = String::from_utf8_lossy(&cut);
        to_stderr(format_args!(
            "Warning: label too long; will be truncated to '{label}'\n"
        ));
    }
    cut
}

pub fn run(program: &Program) -> Result<u8> {
    let letters = "b:cg:i:jl:m:no:qr:s:t:d:e:FG:I:J:KL:M:N:O:R:ST:U:Vz:vC:DE:";
    let words = program.read(letters, USAGE, 1)?;
    if words.has('V') {
        return Ok(program.print_version("mke2fs"));
    }
    if !words.has('q') {
        to_stderr(format_args!("{}", program.version_of("mke2fs")));
    }
    let (image, size) = match words.operands.as_slice() {
        [image] => (image.clone(), None),
        [image, size] => (image.clone(), Some(size.clone())),
        _ => return Err(exit(1, USAGE)),
    };
    let job = Job::new(program, words, Path::new(&image), size.as_deref())?;
    job.make()
}

/// The value of a word in a list of extended options.
fn extended<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    let mut words = list.split(',').filter_map(|word| word.split_once('='));
    words
        .find(|(word, _)| *word == name)
        .map(|(_, value)| value)
}

/// A list without the words with these names.
fn without(list: &str, names: &[&str]) -> String {
    let name = |word: &str| {
        word.split_once('=')
            .map_or(word, |(name, _)| name)
            .to_owned()
    };
    let kept = list
        .split(',')
        .filter(|word| !names.contains(&name(word).as_str()));
    kept.filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(",")
}

/// The bytes of what is there, if there is something.
fn len_of(image: &Path) -> Result<Option<u64>> {
    let name = ImageName::parse(image);
    if !name.is_within() && fs::symlink_metadata(name.path()).is_err() {
        return Ok(None);
    }
    let options = DeviceOptions::read_only().exclusive(false);
    match fs::metadata(name.path()) {
        Ok(there) if there.is_file() && !name.is_within() => Ok(Some(there.len())),
        _ => {
            let opened = device::open(image, &options);
            let opened = opened.map_err(|e| diagnostics::device(image, e))?;
            Ok(Some(opened.len()))
        }
    }
}

/// Refuses what is not done here, rather than to do something else to the image.
fn refuse(program: &Program, words: &Words) -> Result<()> {
    let whys = [
        (
            'c',
            "blocks are not tested; `badblocks DEVICE` tests a disk",
        ),
        ('l', "a list of bad blocks is not taken"),
        (
            'S',
            "superblocks and group descriptors are not written over a file system that exists; mke2fs of e2fsprogs does it",
        ),
        (
            'z',
            "no undo file is written; a file that holds data is replaced only when its successor is complete",
        ),
    ];
    let name = program.name;
    if let Some((letter, why)) = whys.iter().find(|(letter, _)| words.has(*letter)) {
        return Err(exit(
            1,
            format!("{name}: -{letter} is not supported: {why}"),
        ));
    }
    if let Some(system) = words
        .text('o')
        .filter(|system| !["0", "linux", "Linux"].contains(&system.as_str()))
    {
        let why = format!("{name}: -o {system} is not supported: only images of Linux are made");
        return Err(exit(1, why));
    }
    if let Some(revision) = words.text('r').filter(|text| text != "0" && text != "1") {
        let why = format!(
            "{name}: Filesystem revision too high while trying to create revision {revision}"
        );
        return Err(exit(1, why));
    }
    if words.text('r').is_some_and(|revision| revision == "0") {
        let why = format!("{name}: -r 0 is not supported: only revision 1 is made");
        return Err(exit(1, why));
    }
    Ok(())
}

impl<'a> Job<'a> {
    fn new(
        program: &'a Program,
        words: Words,
        image: &'a Path,
        size: Option<&OsStr>,
    ) -> Result<Job<'a>> {
        let name = program.name;
        let list = words.list('E').unwrap_or_default();
        let offset = match extended(&list, "offset") {
            None => 0,
            Some(text) => crate::size::parse(text)
                .map_err(|_| exit(1, format!("Invalid offset: {text}\n")))?,
        };
        let kinds = extended(&list, "quotatype").into_iter();
        if let Some(kind) = kinds
            .flat_map(|kinds| kinds.split(':'))
            .find(|kind| !QUOTAS.contains(kind))
        {
            let why = format!("{name}: Invalid quotatype parameter: {kind}");
            return Err(exit(1, why));
        }
        refuse(program, &words)?;
        let there = len_of(image)?;
        let block_size = words.text('b').and_then(|text| text.parse().ok());
        let bytes = match (size, there) {
            (Some(size), _) => {
                let text = size.to_string_lossy();
                let size = FsSize::parse(&text).map_err(|_| {
                    let image = image.display();
                    exit(
                        1,
                        format!("{name}: invalid blocks '{text}' on device '{image}'"),
                    )
                })?;
                size.bytes(block_size)
            }
            (None, Some(len)) => len.saturating_sub(offset),
            (None, None) => {
                let image = image.display();
                let why = format!("The file {image} does not exist and no size was specified.");
                return Err(exit(1, why));
            }
        };
        if bytes == 0 {
            return Err(exit(
                1,
                format!(
                    "{name}: Device size reported to be zero.  Invalid partition specified, or\n\tthe file is empty: name a size behind it\n"
                ),
            ));
        }
        let conf = Conf::load()?;
        let types = types(program, &words, &conf, bytes);
        let is_new = there.is_none();
        Ok(Job {
            program,
            words,
            image,
            bytes,
            offset,
            is_new,
            types,
            conf,
        })
    }

    fn is_quiet(&self) -> bool {
        self.words.has('q')
    }

    fn make(&self) -> Result<u8> {
        let features = self.features()?;
        let wants_journal = features.split(',').any(|name| name == "has_journal");
        let args = self.args(&features)?;
        if self.words.has('n') {
            if self.is_new {
                return Err(exit(
                    1,
                    format!(
                        "{}: No such file or directory while trying to determine hardware sector size",
                        self.program.name
                    ),
                ));
            }
            let sb = mkfs::plan(&args)?;
            return self.print(&text::plan(&sb), "");
        }
        self.check_place()?;
        let options = args.made_with()?;
        let there = len_of(self.image)?;
        let is_part = !ImageName::parse(self.image).is_within()
            && (self.offset > 0 || there.is_some_and(|len| len > self.bytes) && self.is_file());
        match is_part {
            true => within::make(self.image, self.offset, self.bytes, &options, &NoProgress)?,
            false => drop(mkfs::make(&args, &options)?),
        }
        if self.offset > 0 {
            device::set_offset(self.offset);
        }
        self.complete()?;
        let opened =
            image::look_at(self.image).map_err(|e| e.report(self.program, self.image, 1))?;
        if wants_journal
            && !opened
                .sb
                .compat
                .contains(uext4::unstable::ondisk::Compat::HAS_JOURNAL)
        {
            to_stderr(format_args!("\nFilesystem too small for a journal"));
        }
        self.print(
            &self.heading(&opened.sb),
            &text::steps(&opened.sb, self.words.has('d')),
        )
    }

    fn is_file(&self) -> bool {
        fs::metadata(self.image).is_ok_and(|there| there.is_file())
    }

    /// What is printed of the file system itself.
    fn heading(&self, sb: &Superblock) -> String {
        let mut heading = String::new();
        if !self.is_new
            && !self
                .words
                .list('E')
                .unwrap_or_default()
                .contains("nodiscard")
        {
            heading += text::DISCARDED;
        }
        if self.words.has('v') {
            heading = format!("{}{heading}{}", text::types(&self.types), text::details(sb));
        }
        match self.words.has('v') {
            true => heading + &text::backups(sb),
            false => heading + &text::plan(sb),
        }
    }

    fn print(&self, heading: &str, steps: &str) -> Result<u8> {
        let mut out = std::io::stdout().lock();
        if self.is_new {
            writeln!(out, "Creating regular file {}", self.image.display())?;
        }
        if !self.is_quiet() {
            write!(out, "{heading}\n{steps}")?;
        }
        Ok(0)
    }

    /// Refuses a device that is mounted, and asks about what holds something, where there is a terminal to ask at.
    fn check_place(&self) -> Result<()> {
        let name = self.image.display();
        if KernelMount::of(self.image).is_some() {
            let why = format!("{name} is mounted; will not make a filesystem here!");
            return Err(exit(1, why));
        }
        if fs::metadata(self.image).is_ok_and(|there| files::is_char_device(there.file_type())) {
            return Err(exit(1, format!("{name} is not a block special device.")));
        }
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if self.is_new || self.words.has('F') || !is_terminal {
            return Ok(());
        }
        let held = probe::holds(self.image).map_err(|e| diagnostics::device(self.image, e))?;
        let Some(held) = held else { return Ok(()) };
        writeln!(std::io::stdout(), "{name} contains {held}")?;
        match crate::ask::ask("Proceed anyway")? {
            true => Ok(()),
            false => Err(exit(1, "")),
        }
    }

    /// The features in the file system.
    fn features(&self) -> Result<String> {
        let mut all = self.conf.features(&self.types);
        if self.words.has('j') && !all.iter().any(|name| name == "has_journal") {
            all.push("has_journal".to_owned());
        }
        let asked = self.words.text('O');
        let list = asked
            .clone()
            .or_else(|| self.conf.default_features(&self.types));
        for word in list
            .unwrap_or_default()
            .split([',', ' '])
            .filter(|word| !word.is_empty())
        {
            let (name, on) = word
                .strip_prefix('^')
                .map_or((word, true), |name| (name, false));
            if name != "none" && Feature::parse_name(name).is_none() {
                let list = asked.unwrap_or_default();
                return Err(exit(1, format!("Invalid filesystem option set: {list}")));
            }
            match name {
                "none" => all.clear(),
                _ => all.retain(|other| other != name),
            }
            if on && name != "none" {
                all.push(name.to_owned());
            }
        }
        Ok(all.join(","))
    }

    /// Bytes of a cluster; of a block without the feature.
    fn cluster_size(&self, features: &str, block_size: u64) -> Result<u64> {
        match features.split(',').any(|name| name == "bigalloc") {
            true => self.number('C', "cluster_size", 16 * block_size),
            false => Ok(block_size),
        }
    }

    /// The same as arguments of `uext4 mkfs`.
    fn args(&self, features: &str) -> Result<Args> {
        let mut line: Vec<OsString> = Vec::new();
        let mut add = |option: &str, value: &OsStr| line.extend([option.into(), value.to_owned()]);
        let block_size = self.number('b', "blocksize", 4096)?;
        let ratio = self.number('i', "inode_ratio", 16384)?;
        if self.words.has('i') && !INODE_RATIOS.contains(&ratio) {
            let (min, max) = (INODE_RATIOS.start(), INODE_RATIOS.end());
            let name = self.program.name;
            let why = format!("{name}: invalid inode ratio {ratio} (min {min}/max {max})");
            return Err(exit(1, why));
        }
        // No more inodes than clusters, unless asked for.
        let ratio = match self.words.has('i') {
            true => ratio,
            false => ratio.max(self.cluster_size(features, block_size)?),
        };
        let inode_size = self.number('I', "inode_size", 256)?;
        let reserved = self
            .words
            .text('m')
            .or_else(|| self.value("reserved_ratio"));
        add("--size", self.bytes.to_string().as_ref());
        add("-b", block_size.to_string().as_ref());
        add("-i", ratio.to_string().as_ref());
        add("-I", inode_size.to_string().as_ref());
        add("-m", reserved.unwrap_or_else(|| "5".to_owned()).as_ref());
        add("-O", format!("none,{features}").as_ref());
        let asked = self.words.value('L').unwrap_or_default();
        add("-L", &paths::word(label(asked.as_encoded_bytes()).to_vec()));
        let uuid = self
            .words
            .text('U')
            .unwrap_or_else(|| Uuid::new_v4().to_string());
        add("-U", uuid.as_ref());
        if let Some(inodes) = self.words.text('N').filter(|text| text != "0") {
            add("-N", inodes.as_ref());
        }
        if let Some(groups) = self.value("flex_bg_size").filter(|_| !self.words.has('G')) {
            add("-G", groups.as_ref());
        }
        if let Some(tree) = self.words.value('d') {
            add("-d", tree);
        }
        if let Some(list) = self.extended(features) {
            add("-E", list.as_ref());
        }
        let mut flags: Vec<OsString> = Vec::new();
        for letter in PASSED.chars() {
            let option = format!("-{letter}");
            match self.words.value(letter) {
                Some(value) => add(&option, value),
                None if self.words.has(letter) => flags.push(option.into()),
                None => {}
            }
        }
        line.extend(flags);
        line.extend(["-q".into(), "-F".into(), "--".into(), self.image.into()]);
        Args::read(line).map_err(|e| {
            let text = e.to_string();
            let why = text.lines().next().unwrap_or_default();
            exit(
                1,
                format!(
                    "{}: {}",
                    self.program.name,
                    why.trim_start_matches("error: ")
                ),
            )
        })
    }

    /// `-E` as `uext4 mkfs` takes it; the hash seed is random, unless what is made is to be reproducible.
    fn extended(&self, features: &str) -> Option<String> {
        let list = self
            .words
            .list('E')
            .or_else(|| self.words.list('R'))
            .unwrap_or_default();
        let kinds = extended(&list, "quotatype").unwrap_or_default();
        let mut list = without(&list, &["offset", "quotatype"]);
        let has = |feature: &str| features.split(',').any(|name| name == feature);
        let mut kinds: Vec<&str> = kinds.split(':').filter(|kind| !kind.is_empty()).collect();
        if has("quota") && !kinds.is_empty() {
            // Projects have theirs with the feature.
            kinds.extend(has("project").then_some("prj"));
            list = format!("{list},quotatype={}", kinds.join(":"));
        }
        let is_fixed = self.words.has('U') || std::env::var_os("SOURCE_DATE_EPOCH").is_some();
        if extended(&list, "hash_seed").is_none() && !is_fixed {
            list = format!("{list},hash_seed={}", Uuid::new_v4());
        }
        Some(list.trim_matches(',').to_owned()).filter(|list| !list.is_empty())
    }

    fn value(&self, key: &str) -> Option<String> {
        self.conf.value(&self.types, key).map(str::to_owned)
    }

    /// A number of an option, of mke2fs.conf, or `other`.
    fn number(&self, letter: char, key: &str, other: u64) -> Result<u64> {
        let Some(text) = self.words.text(letter) else {
            let of_conf = self.value(key).and_then(|text| text.parse().ok());
            return Ok(of_conf.unwrap_or(other));
        };
        let what = match letter {
            'b' => "block size",
            'i' => "inode ratio",
            'C' => "cluster size",
            _ => "inode size",
        };
        crate::size::parse(&text)
            .map_err(|_| exit(1, format!("{}: invalid {what} - {text}", self.program.name)))
    }

    /// Changes what an image can't be made with.
    fn complete(&self) -> Result<()> {
        let options = self.value("default_mntopts").unwrap_or_default();
        let bits = tune::default_options(&options).map_or(MOUNT_OPTIONS, |(set, _)| set);
        let tuning = Tuning {
            default_options: match bits {
                MOUNT_OPTIONS => (0, 0),
                bits => (bits, u32::MAX),
            },
            ..Tuning::default()
        };
        if tuning != Tuning::default() {
            tune::change(self.image, &tuning, &CheckOptions::new(), None, true)?;
        }
        Ok(())
    }
}

/// The type that is asked for, and what the file system is for: by its size unless that is given.
fn types(program: &Program, words: &Words, conf: &Conf, bytes: u64) -> Vec<String> {
    let of_name = program.name.strip_prefix("mkfs.").map(str::to_owned);
    let of_conf = || conf.value(&[], "fs_type").map(str::to_owned);
    let default = if words.has('j') { "ext3" } else { "ext2" };
    let fs_type = words.text('t').or(of_name).or_else(of_conf);
    let mut types = vec![fs_type.unwrap_or_else(|| default.to_owned())];
    match words.text('T') {
        Some(list) => types.extend(list.split(',').map(str::to_owned)),
        None => {
            let usage = match bytes >> 20 {
                0..3 => Some("floppy"),
                3..512 => Some("small"),
                0x40_0000..0x100_0000 => Some("big"),
                0x100_0000.. => Some("huge"),
                _ => None,
            };
            types.extend(usage.map(str::to_owned));
        }
    }
    types
}

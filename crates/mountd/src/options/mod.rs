//! The options of `-o`, in the syntax of mount(8), mount.fuse3(8) and ext4(5).
//!
//! # Data model
//! [`Options`] is the result of all `-o` of a command line; a later option overrides an earlier one. A name sets a
//! field, or changes nothing, or is refused with a reason (both in `table`), or is unknown.

mod change;
mod error;
mod queues;
mod table;
#[cfg(test)]
mod tests;

pub use error::OptionError;
pub use table::Harmless;

use std::path::PathBuf;
use std::time::Duration;
use table::{HARMLESS, REFUSED, Shape};
use uext4::unstable::mqueue::Limits;
use uext4::unstable::ondisk::ErrorsBehaviour;
use uext4::unstable::{
    BallocVariant, DioLock, DirLockVariant, Exclusion, GenerationVariant, IallocVariant,
    IcacheVariant, ImageConfig,
};
use uext4::{AtimeUpdate, DataMode, EnforcedQuotas, FsVerityReads};
use uext4_fuse::{Ownership, TransportKind};

/// How an image is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// How it is opened.
    pub open: ImageConfig,
    /// Set-id bits and file capabilities have no effect. The default; cleared by `suid`.
    pub nosuid: bool,
    /// Device files cannot be opened. The default; cleared by `dev`.
    pub nodev: bool,
    /// Nothing can be executed.
    pub noexec: bool,
    /// Every write is durable when it returns.
    pub sync: bool,
    /// Every change of a directory is durable when it returns.
    pub dirsync: bool,
    /// Whether users other than the mounting one may use it; `None`: only if root mounts.
    pub allow_other: Option<bool>,
    /// The transport of requests.
    pub transport: TransportKind,
    /// Number of server threads; `None`: chosen by the server.
    pub threads: Option<usize>,
    /// The kernel caches writes.
    pub writeback: bool,
    /// The owners and permissions that are shown.
    pub ownership: Ownership,
    /// Where the image begins in its file or device, in bytes.
    pub offset: u64,
    /// Bytes of it; `None`: up to the end of the file or device.
    pub size_limit: Option<u64>,
    /// The block with the backup that the image is read with in place of its superblock; 1 is the superblock itself.
    pub superblock: Option<u64>,
    /// The directory of the image that is mounted; `None`: its root.
    pub subdir: Option<PathBuf>,
    /// The source shown in the list of mounts instead of the image.
    pub fs_name: Option<String>,
    /// The kernel's readahead in bytes; `None`: its default.
    pub readahead: Option<u64>,
    /// Limit of the server's address space in bytes; `None`: computed from the machine's memory and the other options.
    pub memory: Option<u64>,
    /// The limits of message queues.
    pub limits: Limits,
    /// An existing mount is to change (`remount`).
    pub remount: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            open: ImageConfig::read_write(),
            nosuid: true,
            nodev: true,
            noexec: false,
            sync: false,
            dirsync: false,
            allow_other: None,
            transport: TransportKind::Auto,
            threads: None,
            writeback: false,
            ownership: Ownership::default(),
            offset: 0,
            size_limit: None,
            superblock: None,
            subdir: None,
            fs_name: None,
            readahead: None,
            memory: None,
            limits: Limits::default(),
            remount: false,
        }
    }
}

/// The largest number of threads.
const THREADS_MAX: usize = 1024;
/// The largest readahead.
const READAHEAD_MAX: u64 = 64 << 20;

impl Options {
    /// Parses the lists of all `-o`; a later option overrides an earlier one.
    ///
    /// # Errors
    /// The first option that is unknown, refused, or has a wrong value; options that exclude each other.
    pub fn parse<S: AsRef<str>>(lists: &[S]) -> Result<Options, OptionError> {
        let mut options = Options::default();
        for list in lists {
            options.apply_list(list.as_ref())?;
        }
        options.check()?;
        Ok(options)
    }

    /// These options, changed by those of a list.
    ///
    /// # Errors
    /// The first option that is unknown, refused, or has a wrong value.
    pub(crate) fn apply_list(&mut self, list: &str) -> Result<(), OptionError> {
        split(list).iter().try_for_each(|option| self.apply(option))
    }

    /// Whether other users may use the mount, depending on whether root mounts it.
    pub fn allows_others(&self, is_root: bool) -> bool {
        self.allow_other
            .unwrap_or(is_root && !self.ownership.fakeroot)
    }

    /// Whether the mount shows something else than the files of the whole device as they are stored.
    pub fn shows_other_files(&self) -> bool {
        self.ownership != Ownership::default()
            || self.subdir.is_some()
            || (self.offset, self.size_limit) != (0, None)
    }

    fn apply(&mut self, option: &str) -> Result<(), OptionError> {
        let given = Given::new(option);
        if given.name == "dax" && matches!(given.value, Some("never" | "inode")) {
            // Which of the two makes no difference without a mapping of the device.
            return Ok(());
        }
        if let Some((_, why)) = REFUSED.iter().find(|(name, _)| *name == given.name) {
            return Err(OptionError::Refused {
                name: given.name.to_owned(),
                why,
            });
        }
        if self.set_kernel(&given)?
            || self.set_ext4(&given)?
            || self.set_times(&given)?
            || self.set_variant(&given)?
            || self.set_part(&given)?
            || self.set_ownership(&given)?
            || self.set_front_end(&given)?
            || is_harmless(&given)?
        {
            return Ok(());
        }
        Err(OptionError::Unknown(given.name.to_owned()))
    }

    /// Sets an option that the kernel enforces.
    fn set_kernel(&mut self, given: &Given<'_>) -> Result<bool, OptionError> {
        let (field, on) = match given.name {
            "ro" => (&mut self.open.mount.read_only, true),
            "rw" => (&mut self.open.mount.read_only, false),
            "nosuid" => (&mut self.nosuid, true),
            "suid" => (&mut self.nosuid, false),
            "nodev" => (&mut self.nodev, true),
            "dev" => (&mut self.nodev, false),
            "noexec" => (&mut self.noexec, true),
            "exec" => (&mut self.noexec, false),
            "sync" => (&mut self.sync, true),
            "async" => (&mut self.sync, false),
            "dirsync" => (&mut self.dirsync, true),
            "remount" => (&mut self.remount, true),
            _ => return Ok(false),
        };
        given.plain()?;
        *field = on;
        Ok(true)
    }

    /// Sets an option of the file system.
    fn set_ext4(&mut self, given: &Given<'_>) -> Result<bool, OptionError> {
        let mount = &mut self.open.mount;
        match given.name {
            "noload" | "norecovery" => mount.noload = given.plain().map(|()| true)?,
            "exclusive_elsewhere" => mount.exclusion = given.plain().map(|()| Exclusion::Alone)?,
            "discard" => mount.discard = given.plain().map(|()| true)?,
            "nodiscard" => mount.discard = given.plain().map(|()| false)?,
            "quota" | "usrquota" => mount.quotas.user = given.plain().map(|()| true)?,
            "grpquota" => mount.quotas.group = given.plain().map(|()| true)?,
            "prjquota" => mount.quotas.project = given.plain().map(|()| true)?,
            "noquota" => mount.quotas = given.plain().map(|()| EnforcedQuotas::default())?,
            "dioread_nolock" => mount.dioread_nolock = given.plain().map(|()| true)?,
            "dioread_lock" => mount.dioread_nolock = given.plain().map(|()| false)?,
            "nobarrier" => mount.barrier = given.plain().map(|()| false)?,
            "barrier" => {
                mount.barrier = match given.value {
                    None | Some("1") => true,
                    Some("0") => false,
                    Some(_) => return Err(given.wrong("0 or 1")),
                }
            }
            "commit" => {
                let allowed = "a number of seconds from 0 (the default, 5) to 86400";
                mount.commit_interval = match given.number(0, 86_400, allowed)? {
                    0 => Duration::from_secs(5),
                    seconds => Duration::from_secs(seconds),
                };
            }
            "data" => {
                let allowed = "ordered, writeback or journal";
                let mode = DataMode::parse(given.valued(allowed)?);
                mount.data = Some(mode.ok_or_else(|| given.wrong(allowed))?);
            }
            "fsverity" => {
                let allowed = "check or ignore";
                let reads = FsVerityReads::parse(given.valued(allowed)?);
                mount.fs_verity = reads.ok_or_else(|| given.wrong(allowed))?;
            }
            "errors" => {
                let allowed = "continue, remount-ro or panic";
                mount.errors = Some(match given.valued(allowed)? {
                    "continue" => ErrorsBehaviour::Continue,
                    "remount-ro" => ErrorsBehaviour::RemountRo,
                    "panic" => ErrorsBehaviour::Panic,
                    _ => return Err(given.wrong(allowed)),
                });
            }
            "journal" | "journal_path" => {
                let path = given.valued("the path of a file or a block device")?;
                self.open.journal = Some(PathBuf::from(path));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets an option of the times of files.
    fn set_times(&mut self, given: &Given<'_>) -> Result<bool, OptionError> {
        let mount = &mut self.open.mount;
        match given.name {
            "noatime" => mount.atime = AtimeUpdate::Never,
            // The kernel's default is relatime too.
            "atime" | "relatime" | "nostrictatime" => mount.atime = AtimeUpdate::Relative,
            "strictatime" => mount.atime = AtimeUpdate::Strict,
            "lazytime" => mount.lazytime = true,
            "nolazytime" => mount.lazytime = false,
            "nodiratime" => mount.nodiratime = true,
            "diratime" => mount.nodiratime = false,
            _ => return Ok(false),
        }
        given.plain()?;
        Ok(true)
    }

    /// Selects the variant of a mechanism.
    fn set_variant(&mut self, given: &Given<'_>) -> Result<bool, OptionError> {
        let mount = &mut self.open.mount;
        match given.name {
            "ialloc" => mount.ialloc = given.variant(&IallocVariant::ALL, IallocVariant::name)?,
            "balloc" => mount.balloc = given.variant(&BallocVariant::ALL, BallocVariant::name)?,
            "generation" => {
                mount.generation =
                    given.variant(&GenerationVariant::ALL, GenerationVariant::name)?;
            }
            "icache" => mount.icache = given.variant(&IcacheVariant::ALL, IcacheVariant::name)?,
            "dio-lock" => mount.dio_lock = given.variant(&DioLock::ALL, DioLock::name)?,
            "dir-lock" => {
                mount.dir_lock = given.variant(&DirLockVariant::ALL, DirLockVariant::name)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets an option that says which part of the file or of the image is mounted.
    fn set_part(&mut self, given: &Given<'_>) -> Result<bool, OptionError> {
        let size = |allowed| {
            let bytes = bytes(given.valued(allowed)?);
            bytes.ok_or_else(|| given.wrong(allowed))
        };
        match given.name {
            "offset" => self.offset = size("bytes, with K, M or G")?,
            "sizelimit" => {
                self.size_limit = Some(size("bytes, with K, M or G")?).filter(|n| *n > 0)
            }
            "sb" => {
                let allowed = "the number of a block";
                self.superblock = Some(given.number(1, u64::MAX, allowed)?).filter(|n| *n != 1);
            }
            "subdir" | "X-mount.subdir" => {
                let allowed = "the path of a directory in the image";
                self.subdir = Some(PathBuf::from(given.valued(allowed)?));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets an option that says which owners and permissions files show.
    fn set_ownership(&mut self, given: &Given<'_>) -> Result<bool, OptionError> {
        let id = || {
            given
                .number(0, u64::from(u32::MAX) - 1, "a number")
                .map(|id| id as u32)
        };
        let ownership = &mut self.ownership;
        match given.name {
            "uid" => ownership.uid = Some(id()?),
            "gid" => ownership.gid = Some(id()?),
            "umask" => {
                let allowed = "permission bits in octal, 0 to 777";
                let bits = u16::from_str_radix(given.valued(allowed)?, 8).ok();
                let bits = bits.filter(|bits| *bits <= 0o777);
                ownership.umask = bits.ok_or_else(|| given.wrong(allowed))?;
            }
            "fakeroot" => ownership.fakeroot = given.plain().map(|()| true)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets an option of the server.
    fn set_front_end(&mut self, given: &Given<'_>) -> Result<bool, OptionError> {
        match given.name {
            "allow_other" => self.allow_other = given.plain().map(|()| Some(true))?,
            "noallow_other" => self.allow_other = given.plain().map(|()| Some(false))?,
            "writeback" => self.writeback = given.plain().map(|()| true)?,
            "nowriteback" => self.writeback = given.plain().map(|()| false)?,
            "direct" => self.open.direct = given.plain().map(|()| true)?,
            "nodirect" => self.open.direct = given.plain().map(|()| false)?,
            "transport" => {
                let all = [
                    TransportKind::Auto,
                    TransportKind::Dev,
                    TransportKind::Uring,
                ];
                self.transport = given.variant(&all, TransportKind::name)?;
            }
            "threads" => {
                let allowed = format!("a number from 1 to {THREADS_MAX}");
                let threads = given.number(1, THREADS_MAX as u64, &allowed)?;
                self.threads = usize::try_from(threads).ok();
            }
            "fsname" => self.fs_name = Some(given.valued("a name")?.to_owned()),
            "readahead" => {
                let allowed = "bytes, with K or M, up to 64M";
                let bytes = bytes(given.valued(allowed)?).filter(|b| *b <= READAHEAD_MAX);
                self.readahead = Some(bytes.ok_or_else(|| given.wrong(allowed))?);
            }
            "memory" => {
                let allowed = "bytes, with K, M or G";
                let bytes = bytes(given.valued(allowed)?);
                self.memory = Some(bytes.ok_or_else(|| given.wrong(allowed))?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn check(&self) -> Result<(), OptionError> {
        if self.ownership.fakeroot && self.allow_other == Some(true) {
            return Err(OptionError::Conflict {
                name: "fakeroot",
                why: "excludes 'allow_other': every user would have all rights",
            });
        }
        if self.open.mount.noload && !self.open.mount.read_only {
            return Err(OptionError::Conflict {
                name: "noload",
                why: "needs 'ro': what is not recovered must not be written",
            });
        }
        if self.superblock.is_some() && !self.open.mount.read_only {
            return Err(OptionError::Conflict {
                name: "sb",
                why: "needs 'ro': with a backup of its superblock an image can only be read; e2fsck -fy -b repairs it",
            });
        }
        Ok(())
    }
}

/// An option as written.
struct Given<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

impl<'a> Given<'a> {
    fn new(option: &'a str) -> Given<'a> {
        match option.split_once('=') {
            Some((name, value)) => Given {
                name,
                value: Some(value),
            },
            None => Given {
                name: option,
                value: None,
            },
        }
    }

    fn plain(&self) -> Result<(), OptionError> {
        match self.value {
            None => Ok(()),
            Some(value) => Err(OptionError::Superfluous {
                name: self.name.to_owned(),
                value: value.to_owned(),
            }),
        }
    }

    fn valued(&self, allowed: &str) -> Result<&'a str, OptionError> {
        match self.value {
            None | Some("") => Err(OptionError::Missing {
                name: self.name.to_owned(),
                allowed: allowed.to_owned(),
            }),
            Some(value) => Ok(value),
        }
    }

    fn number(&self, least: u64, most: u64, allowed: &str) -> Result<u64, OptionError> {
        let number = self.valued(allowed)?.parse().ok();
        let number = number.filter(|n| (least..=most).contains(n));
        number.ok_or_else(|| self.wrong(allowed))
    }

    fn variant<A: Copy>(&self, all: &[A], name: fn(A) -> &'static str) -> Result<A, OptionError> {
        let names: Vec<&str> = all.iter().map(|&variant| name(variant)).collect();
        let allowed = format!("one of {}", names.join(", "));
        let value = self.valued(&allowed)?;
        let variant = all.iter().copied().find(|&variant| name(variant) == value);
        variant.ok_or_else(|| self.wrong(&allowed))
    }

    fn wrong(&self, allowed: &str) -> OptionError {
        OptionError::Value {
            name: self.name.to_owned(),
            value: self.value.unwrap_or_default().to_owned(),
            allowed: allowed.to_owned(),
        }
    }
}

fn is_harmless(given: &Given<'_>) -> Result<bool, OptionError> {
    if given.name.starts_with("X-mount.") {
        return Err(OptionError::Refused {
            name: given.name.to_owned(),
            why: "mount(8) does that; use mount -t fuse.uext4",
        });
    }
    if given.name.starts_with("x-") || given.name.starts_with("X-") {
        return Ok(true);
    }
    let Some((_, shape, _)) = HARMLESS.iter().find(|(name, ..)| *name == given.name) else {
        return Ok(false);
    };
    match shape {
        Shape::Plain => given.plain()?,
        Shape::Valued => given.valued("one").map(|_| ())?,
        Shape::Both => {}
    }
    Ok(true)
}

/// The options of a list; a comma or backslash after a backslash is part of a value.
fn split(list: &str) -> Vec<String> {
    let mut options = vec![String::new()];
    let mut chars = list.chars();
    while let Some(c) = chars.next() {
        let option = options.last_mut().expect("there is one from the start");
        match c {
            ',' => options.push(String::new()),
            '\\' => match chars.next() {
                Some(next @ (',' | '\\')) => option.push(next),
                other => option.extend(std::iter::once(c).chain(other)),
            },
            c => option.push(c),
        }
    }
    options.retain(|option| !option.is_empty());
    options
}

/// Parses `512`, `64K`, `4M`, `1G`.
fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

//! Errors as one line: what, why, and what to do about it.

use crate::location::{self, InImage};
use crate::quoted::{self, quoted};
use crate::superblock::{self, OpenError};
use crate::system::paths;
use crate::system::{files, mounts};
use crate::{device, interrupt, near_names, probe, show, size, undecrypted};
use std::fs;
use std::io;
use std::path::Path;
use uext4::DeviceOptions;
use uext4::unstable::ondisk::{EXT4_MAGIC, SUPERBLOCK_OFFSET};
use uext4::unstable::{errno_of, read_superblock};
use uext4::{
    BlockError, CheckError, Errno, Error, Filesystem, ImageName, ImageOptions, InodeFlags,
    MkfsError,
};

/// The chain of an error as one text; what an outer message already ends with is not repeated.
pub fn one_line(e: &anyhow::Error) -> String {
    // One that nothing was said about is of what is printed.
    let mut line = match is_of_output(e) {
        true => "standard output".to_owned(),
        false => String::new(),
    };
    for cause in e.chain() {
        let io = cause.downcast_ref::<io::Error>();
        let text = match io.and_then(host_errno) {
            Some(errno) => errno.to_string(),
            None => cause.to_string(),
        };
        if line.ends_with(&text) || line.contains(&format!(": {text}")) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&text);
    }
    without_numbers(&line)
}

/// Without the numbers that the standard library puts behind what went wrong.
fn without_numbers(mut text: &str) -> String {
    let mut left = String::new();
    while let Some((before, after)) = text.split_once(" (os error ") {
        left.push_str(before);
        text = after.split_once(')').map_or("", |(_, after)| after);
    }
    left + text
}

/// The number on Linux of an error of the host, if it has one.
pub fn host_errno(e: &io::Error) -> Option<Errno> {
    let errno = errno_of(e).map(Errno);
    // One that Linux does not have is better described by the host.
    errno.filter(|errno| cfg!(target_os = "linux") || errno.name() != "EUNKNOWN")
}

/// Whether writing to standard output failed.
pub fn is_of_output(e: &anyhow::Error) -> bool {
    let first = e.chain().next();
    first.is_some_and(|first| {
        first.is::<io::Error>() || first.downcast_ref().is_some_and(serde_json::Error::is_io)
    })
}

/// Whether the reader of our output went away, which is not a failure.
pub fn is_closed_pipe(e: &anyhow::Error) -> bool {
    let kind = e.downcast_ref::<io::Error>().map(io::Error::kind);
    let of_json = e.downcast_ref::<serde_json::Error>();
    kind.or(of_json.and_then(serde_json::Error::io_error_kind)) == Some(io::ErrorKind::BrokenPipe)
}

/// Whether the file system of the host had no space for the file that holds an image.
fn is_of_full_host(e: &Error) -> bool {
    let mut cause = std::error::Error::source(e);
    while let Some(e) = cause {
        let errno = e.downcast_ref().and_then(host_errno);
        if matches!(errno, Some(Errno::ENOSPC | Errno::EDQUOT)) {
            return true;
        }
        cause = e.source();
    }
    false
}

/// An error about a file of an image.
pub fn in_image(at: &InImage, e: Error) -> anyhow::Error {
    if is_of_full_host(&e) {
        let full = host_is_full(&at.image);
        return anyhow::anyhow!("{at}: {full}");
    }
    let image = at.image.display();
    let hint = match e.errno() {
        Errno::ENOENT => match at.path.file_name() {
            Some(name) => {
                let name = quoted(paths::bytes(name));
                let root = quoted(format!("{image}:/"));
                format!("; `uext4 find {root} -name {name}` searches the whole image")
            }
            None => String::new(),
        },
        Errno::EISDIR => format!("; `uext4 ls {}` lists it", quoted(at.to_string())),
        Errno::EROFS => "; the image is mounted read-only".to_owned(),
        Errno::ENOSPC => format!(
            "; `uext4 df {}` shows what is used",
            quoted(image.to_string())
        ),
        Errno::EUCLEAN => format!(
            "; `uext4 check {}` reports what is damaged",
            quoted(image.to_string())
        ),
        _ => String::new(),
    };
    anyhow::anyhow!("{at}: {e}{hint}")
}

/// An error about a file of an image that was to be changed: what stands against it.
pub fn changing(fs: &Filesystem, at: &InImage, e: Error) -> anyhow::Error {
    // The command has every capability, so that only flags refuse it.
    if matches!(e.errno(), Errno::EPERM | Errno::EACCES) {
        let above = at.path.parent().unwrap_or(Path::new("/"));
        for path in [&at.path, above] {
            let flags = fs.flags(paths::bytes(path)).unwrap_or(InodeFlags::empty());
            let (name, flag, letter) = match flags {
                f if f.contains(InodeFlags::IMMUTABLE) => (at.beside(path), "immutable", 'i'),
                f if f.contains(InodeFlags::APPEND) => (at.beside(path), "append-only", 'a'),
                _ => continue,
            };
            let (what, hint) = (e.errno().text(), quoted(name.to_string()));
            let why = match path == at.path {
                true => format!("it is {flag}"),
                false => format!("{name} is {flag}"),
            };
            return anyhow::anyhow!("{at}: {what}: {why}; `uext4 chattr -{letter} {hint}` first");
        }
    }
    if let Some(target) = dangling(fs, at)
        && e == Errno::ENOENT
    {
        return anyhow::anyhow!("{at}: is a link to {target}, which does not exist");
    }
    if e == Errno::ENOENT
        && let Some(why) = undecrypted::why(fs, at)
    {
        return anyhow::anyhow!("{at}: {e}: {why}");
    }
    if e == Errno::ENOENT
        && let Some(near) = near_names::in_image(fs, &at.path)
    {
        let near = quoted(at.beside(&near).to_string());
        return anyhow::anyhow!("{at}: {e}; did you mean {near}?");
    }
    in_image(at, e)
}

/// An error about a file of an image that was to be made: its directory may be missing.
pub fn creating(fs: &Filesystem, at: &InImage, e: Error) -> anyhow::Error {
    if e != Errno::ENOENT {
        return changing(fs, at, e);
    }
    let above = at.beside(at.path.parent().unwrap_or(Path::new("/")));
    if let Some(target) = dangling(fs, at).or_else(|| dangling(fs, &above)) {
        return anyhow::anyhow!(
            "{at}: no such directory: leads through a link to {target}, which does not exist"
        );
    }
    match fs.metadata(paths::bytes(&above.path)) {
        Err(gone) if gone == Errno::ENOENT => {
            let hint = quoted(above.to_string());
            anyhow::anyhow!("{above}: no such directory; `uext4 mkdir -p {hint}` makes it")
        }
        _ => changing(fs, at, e),
    }
}

/// What a symbolic link holds that leads nowhere.
fn dangling(fs: &Filesystem, at: &InImage) -> Option<String> {
    let target = fs.read_link(paths::bytes(&at.path)).ok()?;
    let leads = fs.exists(paths::bytes(&at.path)).unwrap_or(true);
    (!leads).then(|| String::from_utf8_lossy(&target).into_owned())
}

/// Another process uses the image.
#[derive(Debug)]
pub struct Busy(String);

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Busy {}

/// A command line that says too little or something wrong; exits with 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An extended attribute that can't be set.
pub fn setting_xattr(
    fs: &Filesystem,
    at: &InImage,
    name: &[u8],
    len: usize,
    e: Error,
) -> anyhow::Error {
    let name = String::from_utf8_lossy(name);
    match e.errno() {
        Errno::ENOSPC | Errno::E2BIG | Errno::ERANGE => anyhow::anyhow!(
            "{at}: {e}: attribute {name} of {len} bytes is too large beside the others; \
             `uext4 mkfs -O ea_inode` makes an image that holds up to 64 KiB in each"
        ),
        Errno::EOPNOTSUPP => anyhow::anyhow!(
            "{at}: {e}: no attribute can be named {name}; names start with user., trusted., security. or system."
        ),
        Errno::ENODATA => anyhow::anyhow!(
            "{at}: has no attribute {name}; `uext4 xattr list {}` lists them",
            quoted(at.to_string())
        ),
        _ => changing(fs, at, e),
    }
}

/// An error about a file of the host.
pub fn on_host(path: &Path, e: impl Into<io::Error>) -> anyhow::Error {
    let e = e.into();
    let errno = host_errno(&e);
    match errno {
        // The reader is gone; what that means is for the command.
        Some(Errno::EPIPE) => return e.into(),
        Some(Errno::ENOSPC | Errno::EDQUOT) => return host_is_full(path),
        _ => {}
    }
    let text = match errno {
        Some(errno) if errno.name() != "EUNKNOWN" => errno.text().to_owned(),
        _ => e.to_string(),
    };
    anyhow::anyhow!("{}: {text}{}", path.display(), did_you_mean(path))
}

/// How a file in an image is named.
const FORM: &str = "a file in an image is IMAGE:/path, such as disk.img:/etc/hosts";

/// A path without an image, of which a file was to be changed: what it names is the host's, or the image itself.
pub fn no_file_named(path: &Path) -> anyhow::Error {
    let name = path.display();
    if has_magic(path) {
        let hint = quoted(format!("{name}:/"));
        return anyhow::anyhow!(
            "{name}: names an image, not a file in it; {hint} is its root directory"
        );
    }
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => {
            anyhow::anyhow!("{name}: is a directory of the host; {FORM}")
        }
        Ok(_) => anyhow::anyhow!("{name}: is a file of the host; {FORM}"),
        Err(_) if location::meant(path).is_some() => {
            anyhow::anyhow!("{name}: no such file{}", did_you_mean(path))
        }
        Err(_) => missing(path, &format!("; {FORM}")),
    }
}

/// An error about a file of the host that is to be made: its directory may be missing.
pub fn creating_on_host(path: &Path, e: impl Into<io::Error>) -> anyhow::Error {
    let e = e.into();
    match path.parent() {
        Some(above) if e.kind() == io::ErrorKind::NotFound && !above.exists() => {
            let (name, hint) = (
                above.display(),
                quoted(above.as_os_str().as_encoded_bytes()),
            );
            anyhow::anyhow!("{name}: no such directory; `mkdir -p {hint}` makes it")
        }
        _ => on_host(path, e),
    }
}

/// The file system of the host has no space left for a file.
fn host_is_full(path: &Path) -> anyhow::Error {
    if path == Path::new("/dev/stdout") {
        return io::Error::from_raw_os_error(Errno::ENOSPC.0).into();
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let (name, dir) = (path.display(), dir.unwrap_or(Path::new(".")).display());
    anyhow::anyhow!("{name}: no space left on the host, on the file system of {dir}")
}

/// A hint about a path that leads into a file, as if that were a directory.
fn did_you_mean(path: &Path) -> String {
    let meant = location::meant(path);
    meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"))
}

/// What names of images end with.
const IMAGE_EXTENSIONS: [&str; 6] = ["img", "image", "raw", "ext2", "ext3", "ext4"];

fn has_name_of_image(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| IMAGE_EXTENSIONS.iter().any(|known| extension == *known))
}

/// Refuses to make a file of the host whose name says that an image was meant.
pub fn no_image_meant(path: &Path) -> anyhow::Result<()> {
    match has_name_of_image(path) {
        true => Err(opening_to_write(path, &Errno::ENOENT.into())),
        false => Ok(()),
    }
}

/// An image that can't be opened to be written.
pub fn opening_to_write(image: &Path, e: &Error) -> anyhow::Error {
    if e.errno() == Errno::ENOENT
        && image
            .parent()
            .is_some_and(|dir| dir == Path::new("") || dir.is_dir())
    {
        let quoted = quoted::path(image);
        return match has_name_of_image(image) {
            true => missing(
                image,
                &format!("; `uext4 mkfs {quoted} --size 1G` makes one"),
            ),
            false => missing(image, &format!("; {FORM}")),
        };
    }
    opening(image, e)
}

/// A device of an image that can't be opened.
pub fn opening_device(image: &Path, e: OpenError) -> anyhow::Error {
    match e {
        OpenError::Device(e) => device(image, e),
        OpenError::NoBackup(block) => anyhow::anyhow!(
            "{}: block {block} holds no backup of its superblock; `uext4 mkfs -n` with the size and options that made it \
             lists them",
            image.display()
        ),
    }
}

/// An image that can't be opened.
pub fn opening(image: &Path, e: &Error) -> anyhow::Error {
    let name = image.display();
    if let Some(why) = of_server(image, e) {
        return anyhow::anyhow!("{name}: {why}");
    }
    if matches!(e.errno(), Errno::EUCLEAN | Errno::EINVAL)
        && let Some(remedy) = superblock::remedy(image)
    {
        return anyhow::anyhow!("{name}: {remedy}");
    }
    match e.errno() {
        Errno::ENOENT => missing(image, ""),
        Errno::ENOTDIR if location::meant(image).is_some() => {
            anyhow::anyhow!("{name}: no such file{}", did_you_mean(image))
        }
        Errno::EBUSY => Busy(busy(image, &e.to_string())).into(),
        Errno::EACCES => anyhow::anyhow!(
            "{name}: permission denied; it must be readable to you, and writable unless it is only read (mount: -o ro)"
        ),
        Errno::EROFS => anyhow::anyhow!("{name}: it, or the file system it is on, is read-only"),
        _ if !has_magic(image) => not_an_image(image),
        Errno::EUCLEAN | Errno::EINVAL | Errno::EIO if truncated(image).is_some() => {
            anyhow::anyhow!("{name}: {}", truncated(image).unwrap_or_default())
        }
        Errno::EUCLEAN => {
            let read = match superblock::backup_that_reads(image) {
                Some(block) => format!(
                    ", and --superblock {block} (mount: -o ro,sb={block}) reads it with backups of superblock and descriptors"
                ),
                None => if_readable_without_journal(image),
            };
            anyhow::anyhow!("{name}: {e}; `uext4 check {name}` reports what is damaged{read}")
        }
        Errno::EIO => anyhow::anyhow!("{name}: {e}; is the image complete?"),
        Errno::EOPNOTSUPP if e.to_string().contains("its journal is on") => {
            anyhow::anyhow!("{name}: {e}; --journal DEVICE names it")
        }
        _ => anyhow::anyhow!("{name}: {e}"),
    }
}

/// Why a server does not give an image, or fails; nothing if it may only not be written.
pub fn of_server(image: &Path, e: &Error) -> Option<String> {
    if !ImageName::parse(image).is_remote() || e.errno() == Errno::EROFS {
        return None;
    }
    let first = std::error::Error::source(e);
    let mut causes = std::iter::successors(first, |e| e.source());
    let cause = causes.find_map(|e| e.downcast_ref::<io::Error>())?;
    Some(match e.to_string() {
        // The name is that of the image.
        opening if opening.starts_with("can't open ") => cause.to_string(),
        whole => whole,
    })
}

/// The command that mounts an image whose journal is damaged, if that is why it can't be opened.
fn if_readable_without_journal(image: &Path) -> String {
    let options = ImageOptions::read_only().skip_recovery(true);
    let quoted = quoted::path(image);
    match device::offset() == 0 && Filesystem::open(image, &options).is_ok() {
        true => {
            format!(", and `uext4 mount -o ro,noload {quoted} DIR` reads it without its journal")
        }
        false => String::new(),
    }
}

/// Whether the file or block device has the magic number of ext4.
pub fn has_magic(image: &Path) -> bool {
    const MAGIC_OFFSET: u64 = SUPERBLOCK_OFFSET + 56;
    // Opening a pipe would wait.
    let name = ImageName::parse(image);
    let holds_data = || fs::metadata(name.path()).is_ok_and(|there| holds_data(&there));
    if !name.is_remote() && !device::is_kept(image) && !holds_data() {
        return false;
    }
    let mut magic = [0; 2];
    let device = device::open(image, &DeviceOptions::read_only().exclusive(false));
    let read = device.and_then(|device| device.read_at(MAGIC_OFFSET, &mut magic));
    read.is_ok() && u16::from_le_bytes(magic) == EXT4_MAGIC
}

/// Whether it is a file or a block device.
pub fn holds_data(there: &fs::Metadata) -> bool {
    there.is_file() || files::is_block_device(there.file_type())
}

/// A check that could not run.
pub fn checking(image: &Path, e: CheckError) -> anyhow::Error {
    match e {
        CheckError::Device(e) => device(image, e),
        CheckError::Format(_) if !has_magic(image) => not_an_image(image),
        e => anyhow::anyhow!("{}: {e}", image.display()),
    }
}

/// An image that can't be made.
pub fn making(image: &Path, e: MkfsError) -> anyhow::Error {
    let name = image.display();
    match e {
        MkfsError::NoSize => {
            anyhow::anyhow!(
                "{name}: size is missing; give --size 1G, or --from SOURCE to take it from"
            )
        }
        MkfsError::Device(BlockError::Open { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            anyhow::anyhow!("{name}: its directory does not exist; make that first")
        }
        MkfsError::Device(e) if is_full(&e) => host_is_full(image),
        MkfsError::Device(e @ BlockError::Io { .. }) => anyhow::anyhow!("{name}: {e}"),
        MkfsError::Device(e) => device(image, e),
        MkfsError::HostLimit { need, most } => anyhow::anyhow!(
            "{name}: the image needs {}, and the file system of its host has files of at most {}; \
             another one (xfs, btrfs, tmpfs) may have larger ones",
            show::bytes(need),
            show::bytes(most)
        ),
        MkfsError::TooLarge { size, most, why } => anyhow::anyhow!(
            "{name}: size can't be {}: it is at most {}: {why}",
            show::bytes(size),
            at_most(most)
        ),
        MkfsError::Cancelled => interrupt::check().err().unwrap_or_else(|| e.into()),
        e => anyhow::anyhow!("{name}: {e}"),
    }
}

/// A limit as a size that can be given, not above it: `254T`.
fn at_most(bytes: u64) -> String {
    let unit = 1 << (bytes.max(1).ilog2() / 10 * 10);
    size::human(bytes / unit * unit, 1024)
}

fn is_full(e: &BlockError) -> bool {
    let errno = e.raw_os_error().map(Errno);
    // Of a block device it would be the device's own end.
    matches!(errno, Some(Errno::ENOSPC | Errno::EDQUOT))
        && !matches!(e, BlockError::OutOfRange { .. })
}

/// A device that can't be opened or read.
pub fn device(image: &Path, e: BlockError) -> anyhow::Error {
    opening(image, &of_device(e))
}

/// The same as an error of an image.
pub fn of_device(e: BlockError) -> Error {
    Error::from_source(Errno(e.raw_os_error().unwrap_or(Errno::EIO.0)), e)
}

/// That an image ends before its file system does, if so.
pub fn truncated(image: &Path) -> Option<String> {
    let device = device::open(image, &DeviceOptions::read_only().exclusive(false)).ok()?;
    let sb = read_superblock(&*device).ok()?;
    let need = sb
        .geometry
        .blocks_count
        .checked_mul(sb.geometry.block_size.into())?;
    let have = device.len();
    (have < need).then(|| {
        let (bytes, name) = (device::offset().saturating_add(need), quoted::path(image));
        let (need, have) = (show::bytes(need), show::bytes(have));
        format!(
            "is truncated: its file system needs {need}, and it has {have}; was it copied as a whole? `truncate -s {bytes} {name}` \
             makes what is there readable"
        )
    })
}

/// That there is no image of this name; `hint` is for where none has a name like it.
fn missing(image: &Path, hint: &str) -> anyhow::Error {
    if image == Path::new("") {
        return anyhow::anyhow!("an operand is empty: no image is named");
    }
    let name = image.display();
    if ImageName::parse(image).is_remote() {
        return anyhow::anyhow!("{name}: the server is not there, or has no such export");
    }
    match near_names::of(image, has_magic) {
        Some(near) => {
            anyhow::anyhow!(
                "{name}: no such image; did you mean {}?",
                quoted::path(&near)
            )
        }
        None => anyhow::anyhow!("{name}: no such image{hint}"),
    }
}

fn not_an_image(image: &Path) -> anyhow::Error {
    let name = image.display();
    if image.is_dir() {
        return anyhow::anyhow!("{name}: is a directory of the host, not an image; {FORM}");
    }
    if device::offset() > 0 {
        let (at, hint) = (device::offset(), quoted::path(image));
        return anyhow::anyhow!(
            "{name}: no ext4 image begins at byte {at} of it; `uext4 info {hint}` lists its partitions, if it has some"
        );
    }
    match fs::metadata(ImageName::parse(image).path()) {
        Ok(there) if !holds_data(&there) => {
            anyhow::anyhow!("{name}: is neither a file nor a block device, so it holds no image")
        }
        _ => match probe::describe(image) {
            Ok(what) => anyhow::anyhow!("{name}: {what}"),
            Err(BlockError::Open { source, .. }) => on_host(image, source),
            Err(e @ BlockError::Image { .. }) => anyhow::anyhow!("{e}"),
            Err(e) => anyhow::anyhow!("{name}: {e}"),
        },
    }
}

fn busy(image: &Path, why: &str) -> String {
    let name = image.display().to_string();
    if let Some(dir) = mounts::mounted_at(image) {
        let (server, why) = match mounts::statistics(&dir) {
            Some(document) => (
                format!(" by process {}", document["pid"]),
                match document["as_stored"] == false {
                    true => " with other owners or in part",
                    false => "",
                },
            ),
            None => (String::new(), ""),
        };
        let dir = dir.display();
        return format!(
            "{name}: mounted on {dir}{server}{why}; use its files there, or `uext4 umount {name}` first"
        );
    }
    // Without the path, which may be another one of the same file.
    let why = why.find("image ").map_or(why, |at| &why[at..]);
    let what_to_do = if why.contains("loop") {
        "unmount it and detach the loop device (losetup -d) first"
    } else {
        "wait for the other program or unmount it first"
    };
    format!("{name}: {why}; {what_to_do}")
}

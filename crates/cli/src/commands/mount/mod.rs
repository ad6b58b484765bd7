//! `uext4 mount`.

mod list;

use crate::accounts::Accounts;
use crate::endpoint::Host;
use crate::location::Location;
use crate::system::mounts;
use crate::{diagnostics, images, quoted, show, superblock};
use anyhow::{Context, Result, bail};
use clap::{Args as _, FromArgMatches};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use uext4::unstable::Exclusion;
use uext4::{Errno, Error, ImageName};
use uext4_mountd::mountinfo::MountEntry;
use uext4_mountd::process::{background, monitor};
use uext4_mountd::remount::remount;
use uext4_mountd::second_mount;
use uext4_mountd::{Failure, Log, MountRequest, Source, WirePath, metrics};

/// What `-o` takes.
const OPTIONS: &str = "\
Options after -o, as for mount(8) and ext4(5); the last one wins:
  ro, noatime, nodiratime, relatime, strictatime, lazytime
  noexec, sync, dirsync
  suid, dev                      set-id programs and device files are honoured,
                                 for root (else nosuid, nodev)
  uid=ID, gid=ID                 all files are shown as this user's or group's,
                                 and new ones are stored so; others stay as
                                 stored
  umask=BITS                     permissions that no file is shown with, in
                                 octal
  fakeroot                       the mounting user has all rights, as root in
                                 the image; new files are stored as root's
  offset=BYTES, sizelimit=BYTES  the image is a part of the file, such as a
                                 partition
  subdir=PATH                    this directory of the image is mounted, not its
                                 root
  allow_other, noallow_other     others may use it, as permissions say (the
                                 default for root)
  data=ordered|writeback|journal, commit=SECONDS, barrier=0|1, noload (with ro)
  journal=DEVICE                 where the journal is, if not in the image
  sb=BLOCK                       with ro: read it with the backup of its
                                 superblock in this block
  exclusive_elsewhere            open it for writing though it is not known
                                 whether another host has it open (NBD): if one
                                 has, the image is destroyed
  fsverity=check|ignore          whether reads of files with fs-verity are
                                 compared with its hashes; check unless given
  usrquota, grpquota, prjquota   limits are enforced, of an image with the
                                 feature quota; usage is counted in any case
  errors=continue|remount-ro|panic, discard, dioread_nolock, dioread_lock
  transport=auto|dev|uring       how requests come: over io_uring where the
                                 kernel allows it
  threads=N                      how many threads answer; over io_uring, for
                                 each CPU
  writeback                      the kernel caches writes
  direct                         the image is read and written past the host's
                                 cache
  readahead=SIZE, fsname=NAME
  memory=SIZE                    what the server may have of address space; it
                                 ends if it needs more
  ialloc=, balloc=, generation=, icache=, dio-lock=, dir-lock=
                                 variants, as uext4 bench create-unlink --help
                                 and bench randrw --help list them; with
                                 generation=none a file handle may open another
                                 file that got its inode
  remount                        changes ro, rw, times of access, commit=,
                                 errors=, barrier=, discard, sync and the like
                                 of what is mounted on a directory:
                                 uext4 mount -o remount,ro DIR
Others of ext4(5) that tune what is done another way here are accepted and
change nothing. With UEXT4_LOG=debug in the environment each request is logged.

Examples:
  uext4 mount disk.img /mnt && ls /mnt && uext4 umount /mnt
  uext4 mount -o fakeroot rootfs.img ~/rootfs  write files of root in an image
                                               of your own
  uext4 mount -r 'disk.img?partition=1' /mnt   look into the first partition of
                                               a disk
  uext4 mount --no-sandbox s3://bucket/image /mnt
                                               an image in S3
  uext4 mount -r --no-sandbox --refresh s3://bucket/image /mnt
                                               the newest state of an image that
                                               another host writes
  uext4 mount                                  list what is mounted";

/// Mount an image, or list the mounts
///
/// A process without privileges serves the image, the kernel sends it requests through FUSE.
#[derive(Debug, clap::Args)]
#[command(after_help = OPTIONS)]
pub struct Args {
    #[command(flatten)]
    how: HowArgs,
    /// Take the place of an older state of the image, which another host writes: what is open stays at that
    #[arg(long, requires = "image", conflicts_with = "metrics")]
    refresh: bool,
    /// List the mounts as JSON
    #[arg(long, conflicts_with = "image")]
    json: bool,
    /// The image, a file or block device; without it, the mounts are listed; left out with -o remount
    image: Option<PathBuf>,
    /// An existing directory
    dir: Option<PathBuf>,
}

/// The options of every mount.
#[derive(Debug, clap::Args)]
pub struct HowArgs {
    /// Options, a comma list; see below
    #[arg(short = 'o', long, value_name = "OPTIONS")]
    options: Vec<OsString>,
    /// To be read only, as -o ro
    #[arg(short, long, overrides_with = "read_write")]
    read_only: bool,
    /// To be written too, as -o rw: the default
    #[arg(short = 'w', long)]
    read_write: bool,
    /// The type, as mount(8) takes it: ext2, ext3, ext4 or auto
    #[arg(short = 't', long = "types", value_name = "TYPE", value_parser = ["ext2", "ext3", "ext4", "auto", "uext4", "fuse.uext4"], hide_possible_values = true)]
    kind: Option<String>,
    /// Stay in the foreground until it is unmounted, and log there
    #[arg(short, long)]
    foreground: bool,
    /// Serve with the privileges of the caller
    #[arg(long)]
    no_sandbox: bool,
    /// Count what locks cost, for uext4 stats
    #[arg(long)]
    lock_stat: bool,
    /// Statistics for Prometheus at http://ADDRESS/metrics, an address of this machine alone
    #[arg(long, value_name = "ADDRESS", value_parser = metrics::parse_address)]
    metrics: Option<SocketAddr>,
}

impl Args {
    /// Reads a command line without the name of the program.
    ///
    /// # Errors
    /// What is wrong with it, for the user.
    pub fn read(words: Vec<OsString>) -> Result<Args, clap::Error> {
        let command = Args::augment_args(clap::Command::new("fuse2fs").no_binary_name(true));
        let matches = command
            .args_override_self(true)
            .try_get_matches_from(words)?;
        Args::from_arg_matches(&matches)
    }
}

pub fn run(args: Args) -> Result<()> {
    let options = args.how.options()?;
    let Some(image) = args.image else {
        if !options.is_empty() {
            match parse(&options)?.remount {
                true => bail!("no directory is named: `uext4 mount -o remount,OPTIONS DIR`"),
                false => bail!("no image is named: `uext4 mount -o OPTIONS IMAGE DIR`"),
            }
        }
        return list::list(args.json);
    };
    if parse(&options)?.remount {
        let dir = args.dir.unwrap_or(image);
        let done = remount(&dir, &options);
        return done.map_err(|e| anyhow::anyhow!("{}: {e}", dir.display()));
    }
    let Some(dir) = args.dir else {
        bail!(
            "no directory is named to mount on: `uext4 mount {} DIR`",
            quoted::path(&image)
        );
    };
    if let Location::Image(at) = Location::parse(image.clone().into()) {
        let mut options = options;
        options.push(format!("subdir={}", at.path.display()));
        let (options, of) = (quoted::quoted(options.join(",")), quoted::path(&at.image));
        bail!(
            "{at}: is a path in an image; `uext4 mount -o {options} {of} {}` mounts that directory",
            quoted::path(&dir)
        );
    }
    let name = ImageName::parse(&image);
    let found = absolute(&name).map(|path| name.with_path(&path));
    let image =
        found.map_err(|e| diagnostics::opening(&image, &Error::from_source(errno(&e), e)))?;
    let mut more = absolute_journal(&options)?;
    more.extend(other_superblock(&image, &options)?);
    let source = Source::Image(WirePath(image));
    let mut request = request(&args.how, source, more, &dir)?;
    if args.refresh && !parse(&request.options)?.open.mount.read_only {
        bail!(
            "--refresh: what is mounted to be written is always the newest; with -r it is only read"
        );
    }
    request.replaces = args.refresh;
    mount_as(&args.how, &request, &dir)
}

impl HowArgs {
    fn options(&self) -> Result<Vec<String>> {
        let text = |option: &OsString| match option.to_str() {
            Some(option) => Ok(option.to_owned()),
            None => bail!("option '{}' is not UTF-8", option.display()),
        };
        let options: Vec<String> = self.options.iter().map(text).collect::<Result<_>>()?;
        let numbered = options.iter().map(|list| with_numbers(list));
        let mut options: Vec<String> = numbered.collect::<Result<_>>()?;
        for (given, name) in [(self.read_only, "ro"), (self.read_write, "rw")] {
            options.extend(given.then(|| name.to_owned()));
        }
        Ok(options)
    }
}

/// A list of options, with the numbers of users and groups that `uid=` and `gid=` name.
fn with_numbers(list: &str) -> Result<String> {
    let mut numbered = Vec::new();
    // `\,` does not end an option.
    let mut goes_on = false;
    for option in list.split(',') {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let is_name = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let number = |find: fn(&Accounts, &str) -> Option<u32>, what| {
            let number = find(&Accounts::of(&Host), value);
            number.with_context(|| {
                format!("option '{name}': this host has no {what} '{value}'; give a number")
            })
        };
        numbered.push(match name {
            _ if goes_on => option.to_owned(),
            "uid" if is_name => format!("uid={}", number(Accounts::uid, "user")?),
            "gid" if is_name => format!("gid={}", number(Accounts::gid, "group")?),
            _ => option.to_owned(),
        });
        goes_on = option.ends_with('\\');
    }
    Ok(numbered.join(","))
}

/// Mounts `source` at `dir`, with what is given and `more` options.
pub fn mount(how: &HowArgs, source: Source, more: Vec<String>, dir: &Path) -> Result<()> {
    mount_as(how, &request(how, source, more, dir)?, dir)
}

fn mount_as(how: &HowArgs, request: &MountRequest, dir: &Path) -> Result<()> {
    // Before anything is started for it.
    let options = request.options().map_err(anyhow::Error::msg)?;
    let source = request.source();
    if !options.open.mount.read_only && mounted_at(request).is_none() {
        let is_alone = options.open.mount.exclusion == Exclusion::Alone;
        images::warn_before_opening(source, is_alone);
    }
    let failed = |e: Failure| match mounted_at(request) {
        Some(first) if how.foreground && e.errno == Some(Errno::EBUSY.0) => anyhow::anyhow!(
            "{}: image is already open: it is mounted on {}; without -f it is shown at a second directory",
            source.display(),
            first.display()
        ),
        _ => explained(source, &e),
    };
    if how.foreground {
        let served = monitor::run(request, &Log::Terminal, None, |warnings| {
            warn(source, warnings);
            show::warn(format_args!("{} is mounted", dir.display()));
            Ok(())
        });
        return served.map_err(failed);
    }
    match background::start(request) {
        Ok(warnings) => warn(source, &warnings),
        Err(e) if e.errno == Some(Errno::EBUSY.0) => {
            let Some(first) = show_again(request)? else {
                return Err(failed(e));
            };
            let first = first.display();
            show::warn(format_args!(
                "{}: already mounted on {first}; {} shows the same, with the options of the first",
                source.display(),
                dir.display()
            ));
        }
        Err(e) => return Err(failed(e)),
    }
    Ok(())
}

/// Where the image is mounted already.
fn mounted_at(request: &MountRequest) -> Option<PathBuf> {
    match &request.source {
        Source::Image(image) => second_mount::mounted_at(&image.0),
        Source::Queues => None,
    }
}

/// Shows an image that is mounted already at a second directory, and returns where the first is.
fn show_again(request: &MountRequest) -> Result<Option<PathBuf>> {
    let Source::Image(image) = &request.source else {
        return Ok(None);
    };
    let options = request.options().map_err(anyhow::Error::msg)?;
    let shown = second_mount::mount_second(&image.0, request.dir(), &options);
    shown.map_err(|e| {
        let statistics = mounted_at(request).and_then(|dir| mounts::statistics(&dir));
        let server = match statistics {
            Some(document) => format!(" (process {} serves it)", document["pid"]),
            None => String::new(),
        };
        anyhow::anyhow!("{}: {e}{server}", image.0.display())
    })
}

fn request(how: &HowArgs, source: Source, more: Vec<String>, dir: &Path) -> Result<MountRequest> {
    let found = dir.canonicalize().and_then(|at| Ok((at.metadata()?, at)));
    let (found, absolute_dir) = found.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotConnected => anyhow::anyhow!(
            "{0}: a mount whose server is gone; `uext4 umount {0}` takes it away",
            dir.display()
        ),
        // A mount of another user may hide its directory.
        std::io::ErrorKind::PermissionDenied => match in_the_way(dir) {
            Some(why) => anyhow::Error::msg(why),
            None => diagnostics::on_host(dir, e),
        },
        _ => diagnostics::on_host(dir, e),
    })?;
    if !found.is_dir() {
        bail!("{}: not a directory", dir.display());
    }
    let mut options = how.options()?;
    options.extend(more);
    options.extend(images::is_exclusive_elsewhere().then(|| "exclusive_elsewhere".to_owned()));
    let journal = images::journal().map(ImageName::parse);
    let journal = journal.as_ref().map(absolute).transpose();
    Ok(MountRequest {
        source,
        dir: WirePath(absolute_dir),
        options,
        journal: journal.context("--journal")?.map(WirePath),
        sandbox: !how.no_sandbox,
        lock_stat: how.lock_stat,
        metrics: how.metrics,
        keys: images::keys().to_vec(),
        replaces: false,
    })
}

/// Why nothing else can be mounted at a directory that may not be looked into, if something is mounted there.
fn in_the_way(dir: &Path) -> Option<String> {
    let dir = std::path::absolute(dir).ok()?;
    let above = dir.parent()?.canonicalize().ok()?;
    MountEntry::in_the_way(&above.join(dir.file_name()?))
}

/// The option that names the journal, as the server has another working directory.
fn absolute_journal(options: &[String]) -> Result<Vec<String>> {
    let Some(journal) = parse(options)?.open.journal else {
        return Ok(Vec::new());
    };
    let absolute =
        absolute(&ImageName::parse(&journal)).map_err(|e| diagnostics::on_host(&journal, e))?;
    let absolute = absolute.to_string_lossy();
    let escaped = absolute.replace('\\', r"\\").replace(',', r"\,");
    Ok(vec![format!("journal={escaped}")])
}

/// The option that names a backup of the superblock, for an image that is to be read and has a damaged one.
fn other_superblock(image: &Path, options: &[String]) -> Result<Option<String>> {
    let options = parse(options)?;
    let is_whole = (options.offset, options.size_limit) == (0, None);
    if !options.open.mount.read_only || options.superblock.is_some() || !is_whole {
        return Ok(None);
    }
    let block = superblock::backup_to_mount(image);
    Ok(block.map(|block| format!("sb={block}")))
}

fn parse(options: &[String]) -> Result<uext4_mountd::Options> {
    uext4_mountd::Options::parse(options).map_err(anyhow::Error::msg)
}

fn absolute(image: &ImageName) -> std::io::Result<PathBuf> {
    match image.is_remote() {
        true => image.remote_path().map_err(std::io::Error::other),
        false => image.path().canonicalize(),
    }
}

fn errno(e: &std::io::Error) -> Errno {
    e.raw_os_error().map_or(Errno::EIO, Errno)
}

fn explained(image: &Path, e: &Failure) -> anyhow::Error {
    let of_server = [Errno::ENOENT, Errno::EIO];
    match e.errno {
        Some(errno) if ImageName::parse(image).is_remote() && of_server.contains(&Errno(errno)) => {
            anyhow::anyhow!("{}", e.message)
        }
        Some(errno) => {
            let e = std::io::Error::other(e.message.clone());
            diagnostics::opening(image, &Error::from_source(Errno(errno), e))
        }
        None => anyhow::anyhow!("{e}"),
    }
}

fn warn(image: &Path, warnings: &[String]) {
    for warning in warnings {
        show::warn(format_args!("{}: {warning}", image.display()));
    }
}

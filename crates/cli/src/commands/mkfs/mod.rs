//! `uext4 mkfs`.
//!
//! | module | holds |
//! | --- | --- |
//! | [`id_maps`] | what `--map-uid` and `--map-gid` take |
//! | [`lists`] | the lists of `-E` and `-J` |
//! | [`uuid_arg`] | what `-U` takes |
//! | [`mke2fs`] | options of mke2fs that do nothing here, or that are refused |

mod id_maps;
mod lists;
mod mke2fs;
mod uuid_arg;

use crate::bar::Bar;
use crate::size::{Extra, FsSize};
use crate::system::files;
use crate::{diagnostics, images, interrupt, probe, show, size};
use anyhow::{Context, Result, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args as _, FromArgMatches};
use id_maps::IdMapArg;
use lists::{Extended, Journal};
pub use lists::{Salt, errors, salt};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use uext4::unstable::ondisk::Superblock;
use uext4::unstable::printable;
use uext4::unstable::{
    BuildOptions, FeatureSet, Input, Spare, VerityOptions, plan_mkfs, read_superblock,
};
use uext4::{
    BlockDevice, DeviceOptions, FileDevice, FsVerityFile, ImageFormat, ImageName, MkfsError,
    MkfsOptions, MkfsReport, VerityReport,
};
pub use uuid_arg::UuidArg;

/// Room for later data in an image that is filled from a tree, unless --spare says more.
const SPARE_DEFAULT: Spare = Spare::Percent(5.0);

/// Warnings that are printed.
const WARNINGS_MAX: usize = 10;

/// How the warning ends that counts those of an archive which are not kept.
const MORE: &str = " more such warnings";

/// How the warning starts that is about no file.
const NO_JOURNAL: &str = "image has no journal";

/// Make an image, empty or filled from a directory or an archive
///
/// The size is SIZE, or --size, or that of the file or block device that is there. Else, with --from, it follows from
/// the tree: its data and 5 % more, a journal, and a quarter more inodes than the tree has, at least 1000; --spare
/// gives more room, --compact is for an image that stays as it is. SIZE is that of mke2fs: without a suffix it counts
/// blocks of --block-size if that is given, else KiB.
///
/// A block device, and a file with any byte other than zero, is overwritten only with --force, or after a question on
/// a terminal, which names what is there; of a device, the first 256 KiB are read for that. A file that holds data is
/// replaced when the new image is complete, and stays as it is if that fails. With SOURCE_DATE_EPOCH set, the same
/// tree and --uuid give the same bytes. Options of mke2fs are understood.
///
/// SOURCE is a directory; another image, of whose files all is kept, flags, projects and fs-verity of SHA-256 too; a
/// file or - (standard input) with a tar archive, plain or compressed with gzip, zstd, xz or bzip2, or with a container
/// image, as `docker save` writes it or an OCI layout that was packed; or oci:PATH[:TAG][@DIGEST], the image with that
/// tag or digest in the OCI layout at PATH. tar:FILE is an archive whatever it holds. Data that can't be read twice is
/// kept in a file without a name beside the image. Whiteouts of layers hide what is below them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help())]
pub struct Args {
    /// The file to make, a block device, a partition that exists (disk.img?partition=2), or an image on a server
    image: PathBuf,
    /// Size as mke2fs takes it: 64M, 1.5G, 8192s (sectors), or a number of blocks
    #[arg(value_name = "SIZE", value_parser = FsSize::parse, conflicts_with = "size")]
    fs_size: Option<FsSize>,
    /// Bytes of the image, such as 4G
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// With --from and no size, room for later data: 200M or 10%; 5% unless given
    #[arg(long, visible_alias = "free", value_name = "SIZE|PERCENT", value_parser = Extra::parse, requires = "from", allow_hyphen_values = true, conflicts_with_all = ["size", "fs_size"])]
    spare: Option<Extra>,
    /// With --from and no size, an image that stays as it is: hardly any free inodes, and a journal only if it is large
    #[arg(long, aliases = ["minimal", "shrink", "minimize"], requires = "from", conflicts_with_all = ["spare", "size", "fs_size"])]
    compact: bool,
    /// Type of the file system: ext2 (no journal, block maps), ext3 (block maps) or ext4
    #[arg(
        long = "type",
        short = 't',
        value_name = "TYPE",
        default_value = "ext4"
    )]
    fs_type: String,
    /// What it is for, as mke2fs names it: default, floppy, small, big, huge, news, largefile, largefile4
    #[arg(long, short = 'T', value_name = "LIST")]
    usage: Option<String>,
    /// Bytes of a block: a power of two from 1024 to 65536; without --usage 4096, the most that Linux before 6.19 mounts on x86
    #[arg(long, short, value_parser = size::parse)]
    block_size: Option<u64>,
    /// Bytes of a cluster, with the feature bigalloc: a power of two from the block size on; 16 blocks unless given
    #[arg(long, short = 'C', value_parser = size::parse)]
    cluster_size: Option<u64>,
    /// Bytes of an inode: a power of two from 128 to the block size; 256 unless given
    #[arg(long, short = 'I')]
    inode_size: Option<u16>,
    /// Bytes of the image for every inode
    #[arg(long, short = 'i', value_parser = size::parse)]
    inode_ratio: Option<u64>,
    /// Percent of the blocks that are kept for root
    #[arg(long, short = 'm', value_name = "PERCENT")]
    reserved: Option<f64>,
    /// Features, as mke2fs names them: a,^b; none starts from nothing; listed below
    #[arg(long, short = 'O')]
    features: Option<String>,
    /// A journal, also with --type ext2
    #[arg(short = 'j')]
    with_journal: bool,
    /// The journal: size=MEGABYTES
    #[arg(short = 'J', value_name = "LIST", value_parser = Journal::parse, conflicts_with = "journal_size")]
    journal_list: Option<Journal>,
    /// Bytes of the journal
    #[arg(long, value_parser = size::parse)]
    journal_size: Option<u64>,
    /// Number of inodes
    #[arg(long, short = 'N')]
    inodes: Option<u32>,
    /// Blocks of a group: a multiple of 8
    #[arg(long, short = 'g', value_name = "BLOCKS")]
    blocks_per_group: Option<u32>,
    /// Groups whose metadata lies together: a power of two
    #[arg(long, short = 'G', value_name = "GROUPS")]
    flex_groups: Option<u32>,
    /// UUID, or clear, random or time; random unless given
    #[arg(long, short = 'U', value_parser = UuidArg::parse)]
    uuid: Option<UuidArg>,
    /// Label, at most 16 bytes
    #[arg(long, short = 'L', default_value = "")]
    label: String,
    /// What happens when damage is found: continue, remount-ro or panic
    #[arg(long, short = 'e', value_name = "BEHAVIOUR", value_parser = errors)]
    errors: Option<uext4::ErrorsBehaviour>,
    /// Directory that the superblock names as the last mount point
    #[arg(long, short = 'M', value_name = "DIR", default_value = "")]
    last_mounted: String,
    /// Extended options: root_owner[=UID:GID], hash_seed=UUID, encoding=, encoding_flags=, stride=, stripe_width=, quotatype=usrquota:grpquota:prjquota, and more that change nothing
    #[arg(long, short = 'E', value_name = "LIST", value_parser = Extended::parse)]
    extended: Vec<Extended>,
    /// What to fill the image from: a directory, a tar archive (- is standard input), a container image, another image; several are put
    /// on top of each other, and /PATH=SOURCE puts one below a path
    #[arg(long, short = 'd', value_name = "[/PATH=]SOURCE", value_parser = OsStringValueParser::new().map(|text| Input::parse(&text)))]
    from: Vec<Input>,
    /// Most bytes that archives may expand to, such as 200G; 64G unless given
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "from")]
    limit: Option<u64>,
    /// Which of several platforms' container images: linux/amd64, linux/arm/v7; that of this machine unless given
    #[arg(long, value_name = "OS/ARCH", requires = "from")]
    platform: Option<String>,
    /// Leave out what matches, and all below it: *.pyc, /var/cache; can be repeated
    #[arg(long, value_name = "GLOB", requires = "from")]
    exclude: Vec<String>,
    /// Users OUTSIDE, ... of SOURCE are INSIDE, ... of the image; `subuid` takes the ranges of the caller
    #[arg(long, value_name = "INSIDE:OUTSIDE:COUNT", value_parser = IdMapArg::users, requires = "from", conflicts_with = "owner")]
    map_uid: Vec<IdMapArg>,
    /// The same for groups; with --map-uid subuid, those of the caller
    #[arg(long, value_name = "INSIDE:OUTSIDE:COUNT", value_parser = IdMapArg::groups, requires = "from", conflicts_with = "owner")]
    map_gid: Vec<IdMapArg>,
    /// Owners, permission and attributes by pattern, and files to make; or mtree(5)
    #[arg(long, value_name = "FILE", requires = "from")]
    manifest: Option<PathBuf>,
    /// Labels of SELinux by path: a file_contexts
    #[arg(long, value_name = "FILE", requires = "from")]
    contexts: Option<PathBuf>,
    /// Give regular files that match fs-verity; can be repeated; --json lists digests
    #[arg(long, value_name = "GLOB", requires = "from")]
    fsverity: Vec<String>,
    /// Owner of all files, by number, instead of the owners that they have in SOURCE
    #[arg(long, value_name = "UID:GID", value_parser = lists::owner, requires = "from")]
    owner: Option<(u32, u32)>,
    /// Threads; 0 means one for each CPU
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Give all of the image its space on the host now, so that it never finds the host full
    #[arg(long)]
    preallocate: bool,
    /// Make a disk with a GPT and the image as its one partition, which has this name; SIZE is that of the disk
    #[arg(long, value_name = "LABEL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    partition: Option<String>,
    /// Format of the file: raw, or qcow2, which holds only what is in use
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "raw",
        conflicts_with = "preallocate"
    )]
    format: Format,
    /// Put the hash tree of dm-verity behind the image, and print its root hash
    #[arg(long)]
    verity: bool,
    /// With --verity, what each hash begins with, in hexadecimal digits; - for nothing; made from the UUID unless given
    #[arg(long, value_name = "HEX", value_parser = lists::salt, requires = "verity", allow_hyphen_values = true)]
    verity_salt: Option<lists::Salt>,
    /// Report as JSON, with the digest of the image, for which all of it is read once more
    #[arg(long)]
    json: bool,
    /// Overwrite a file or block device whatever it holds
    #[arg(long, short = 'F')]
    force: bool,
    /// Only show what would be made, with the places of the backup superblocks; writes nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Print nothing but errors, warnings about files of the directory, and the root hash of --verity; no progress
    #[arg(long, short)]
    quiet: bool,
    /// Show the superblock that was made, and the places of its backups
    #[arg(long, short, conflicts_with_all = ["quiet", "json"])]
    verbose: bool,
    #[command(flatten)]
    mke2fs: mke2fs::Mke2fsArgs,
}

/// What `--format` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Raw,
    Qcow2,
}

impl Args {
    /// Reads a command line without the name of the program.
    ///
    /// # Errors
    /// What is wrong with it, for the user.
    pub fn read(words: Vec<OsString>) -> Result<Args, clap::Error> {
        let command = Args::augment_args(clap::Command::new("mke2fs").no_binary_name(true));
        let matches = command.try_get_matches_from(words)?;
        Args::from_arg_matches(&matches)
    }

    /// What the image is made with.
    ///
    /// # Errors
    /// A value that can't be; what is there can't be opened for its size.
    pub fn made_with(&self) -> Result<MkfsOptions> {
        let made = self.options(options(self)?);
        let mut keys = images::keys().iter();
        Ok(keys.try_fold(made, |made, key| match key.descriptor() {
            None => made.encryption_key(key.as_bytes()),
            Some(descriptor) => made.encryption_key_named(key.as_bytes(), descriptor),
        })?)
    }

    /// What is made, of `build`.
    fn options(&self, build: BuildOptions) -> MkfsOptions {
        let mut options: MkfsOptions = build.into();
        if let Some(name) = &self.partition {
            options = options.partition(name);
        }
        if self.json {
            options = options.digest();
        }
        options = options.exclusive_elsewhere(images::is_exclusive_elsewhere());
        options.format(match self.format {
            Format::Raw => ImageFormat::Raw,
            Format::Qcow2 => ImageFormat::Qcow2,
        })
    }

    /// The name of the image that was made.
    fn made(&self) -> PathBuf {
        match self.partition {
            Some(_) => ImageName::in_disk(&self.image, 1),
            None => self.image.clone(),
        }
    }

    /// The size that the command line names.
    fn asked_size(&self) -> Option<u64> {
        let asked = self.fs_size.map(|size| size.bytes(self.block_size));
        self.size.or(asked)
    }
}

/// What lines of a manifest are.
const MANIFEST: &str = "Lines of a manifest, of which later ones count more:\n  \
    /etc/shadow mode=640 gid=42                  a path from the root of the image\n  \
    *.sh mode=755                                names at any depth\n  \
    /usr/bin/ping xattr.security.capability=0x0100...  text, or bytes after 0x\n  \
    /dev/null type=char major=1 minor=3 mode=666 also block, fifo, dir, file, link\n  \
    /etc/motd type=file contents=motd.txt        a file of the host\n  \
    /bin type=link target=usr/bin\n\
    With #mtree as its first line it is in the format of mtree(5).";

const EXAMPLES: &str = "Examples:\n  \
    uext4 mkfs disk.img 4G                        an empty image\n  \
    uext4 mkfs root.img --from rootfs --spare 1G  a directory, and room for a GiB\n  \
    uext4 mkfs root.img --from root.tar.zst       an archive; --from - reads one\n  \
    uext4 mkfs root.img --from oci:layout:latest  an image of an OCI layout\n  \
    uext4 mkfs root.img --from d --from /opt=a.tar  one below a path\n  \
    uext4 mkfs new.img --from old.img             the files of another image\n  \
    uext4 mkfs disk.qcow2 4G --format qcow2       for a virtual machine\n  \
    uext4 mkfs disk.img 4G --partition=root       a disk with a partition\n  \
    uext4 mkfs --size 10G s3://bucket/image       in S3; also rbd:pool/name\n  \
    uext4 mkfs -n -b 1024 disk.img                shows where its backups are";

/// Features that can be asked for, and what needs an explanation.
fn long_help() -> String {
    let mut lines = String::new();
    let mut line = String::from(" ");
    for name in uext4::feature_names() {
        if line.len() + name.len() > 78 {
            lines.push_str(&line);
            lines.push('\n');
            line = String::from(" ");
        }
        line.push(' ');
        line.push_str(name);
    }
    lines.push_str(&line);
    format!(
        "Features:\n{lines}\n\n\
         Those of mke2fs's ext4 are on unless left out with ^. meta_bg and\n\
         resize_inode exclude each other. inline_data, ea_inode and\n\
         stable_inodes are marked in the superblock; no file that --from copies makes\n\
         use of them. verity is on with --fsverity, and it and project where files of\n\
         an image in --from need them. A directory with more names than\n\
         two levels of a hash tree hold needs large_dir. With casefold, directories can\n\
         ignore case (`uext4 chattr +F`). quota counts what users and groups have, and\n\
         projects with project; -E quotatype= chooses. With bigalloc, space is\n\
         allocated in clusters of --cluster-size. With encrypt, the kernel can\n\
         encrypt files, which --encryption-key reads. journal_dev can't be made.\n\n\
         {MANIFEST}\n\n\
         {EXAMPLES}"
    )
}

#[derive(Serialize)]
struct Json<'a> {
    image: String,
    image_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    files: u64,
    directories: u64,
    symlinks: u64,
    others: u64,
    hard_links: u64,
    data_bytes: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    verity: Option<VerityJson>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fsverity: Vec<FsVerityJson>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct FsVerityJson {
    #[serde(flatten)]
    path: show::PathJson,
    digest: String,
}

fn digest_name(digest: [u8; 32]) -> String {
    format!("sha256:{}", show::hex(&digest))
}

impl From<&FsVerityFile> for FsVerityJson {
    fn from(file: &FsVerityFile) -> FsVerityJson {
        FsVerityJson {
            path: show::PathJson::new(&file.path),
            digest: digest_name(file.digest),
        }
    }
}

#[derive(Serialize)]
struct VerityJson {
    root_hash: String,
    salt: String,
    hash_offset: u64,
    bytes: u64,
}

impl From<&VerityReport> for VerityJson {
    fn from(verity: &VerityReport) -> VerityJson {
        VerityJson {
            root_hash: show::hex(&verity.root_hash),
            salt: show::hex(&verity.salt),
            hash_offset: verity.hash_offset,
            bytes: verity.bytes,
        }
    }
}

pub fn run(args: &Args) -> Result<()> {
    if args.dry_run {
        let text = super::info::summary(&plan(args)?);
        return Ok(std::io::stdout().lock().write_all(text.as_bytes())?);
    }
    args.mke2fs.refuse()?;
    let options = args.made_with()?;
    keep_what_is_there(args)?;
    let report = make(args, &options)?;
    warn(args, &report);
    if args.quiet && !args.json {
        // The root hash is stored nowhere: it is the result.
        return report.verity.as_ref().map_or(Ok(()), tell_verity);
    }
    tell(args, &report)?;
    match args.verbose {
        true => print_superblock(&args.made()),
        false => Ok(()),
    }
}

/// The superblock of the image that would be made.
///
/// # Errors
/// Options that can't be, or a tree that can't be read.
pub fn plan(args: &Args) -> Result<Superblock> {
    args.mke2fs.refuse()?;
    let options = args.made_with()?;
    plan_mkfs(&options, &uext4::NoProgress).map_err(|e| failed(args, e))
}

fn failed(args: &Args, e: MkfsError) -> anyhow::Error {
    match e {
        MkfsError::TooSmall { source, suffices } => anyhow::anyhow!(
            "{:#}; --size {}K suffices",
            diagnostics::making(&args.image, *source),
            suffices / 1024
        ),
        e => diagnostics::making(&args.image, e),
    }
}

/// Makes the image, whatever is there.
///
/// # Errors
/// One that says what to do.
pub fn make(args: &Args, options: &MkfsOptions) -> Result<MkfsReport> {
    interrupt::catch()?;
    if replaces_in_place(&args.image) {
        images::warn_before_opening(&args.image, images::is_exclusive_elsewhere());
    }
    let there = ImageName::parse(&args.image).path().exists();
    let bar = Bar::unless(args.quiet);
    let made = uext4::mkfs(&args.image, options, &bar);
    drop(bar);
    made.map_err(|e| {
        let is_full = matches!(
            e,
            MkfsError::NoSpace { .. } | MkfsError::NoInodes { .. } | MkfsError::TooSmall { .. }
        );
        match is_full && !args.from.is_empty() && args.asked_size().is_none() && there {
            true => anyhow::anyhow!(
                "{:#}; that is the size of what is there, and --spare 5% takes one that fits",
                diagnostics::making(&args.image, e)
            ),
            false => failed(args, e),
        }
    })
}

/// Prints the first warnings, and how many there are besides.
fn warn(args: &Args, report: &MkfsReport) {
    let is_shown = |warning: &&String| !(args.quiet && warning.starts_with(NO_JOURNAL));
    let shown = report.warnings.iter().filter(is_shown);
    // Of one archive, no more than some are kept, and the number of the others.
    let (counts, warnings): (Vec<&String>, Vec<&String>) =
        shown.partition(|warning| warning.ends_with(MORE));
    for list in [warnings, counts] {
        for warning in list.iter().take(WARNINGS_MAX) {
            show::warn(format_args!("warning: {warning}"));
        }
        if let Some(more) = list.len().checked_sub(WARNINGS_MAX + 1) {
            let more = more + 1;
            show::warn(format_args!("warning: {more} more, which --json lists"));
        }
    }
}

/// Shows the superblock that was made.
fn print_superblock(image: &Path) -> Result<()> {
    let options = DeviceOptions::read_only().exclusive(false);
    let device = uext4::open_image(image, &options).map_err(|e| diagnostics::device(image, e))?;
    let sb = read_superblock(&*device).map_err(|e| diagnostics::opening(image, &e.of_mount()))?;
    let text = super::info::summary(&sb);
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// Whether it is a device, whose multi-mount protection counts.
fn replaces_in_place(image: &Path) -> bool {
    let name = ImageName::parse(image);
    let is_device = |there: Metadata| files::is_block_device(there.file_type());
    name.is_within() || std::fs::metadata(name.path()).is_ok_and(is_device)
}

/// Refuses to overwrite what holds something, or asks.
fn keep_what_is_there(args: &Args) -> Result<()> {
    let name = args.image.display();
    let image = ImageName::parse(&args.image);
    let there = std::fs::metadata(image.path()).ok();
    if there.as_ref().is_some_and(Metadata::is_dir) {
        bail!("{name}: is a directory; name the file to make");
    }
    let is_device = |there: &Metadata| files::is_block_device(there.file_type());
    let is_block = !image.is_within() && there.as_ref().is_some_and(is_device);
    let is_file = there.as_ref().is_some_and(Metadata::is_file);
    if args.force || !(is_block || is_file || image.is_within()) {
        return Ok(());
    }
    let held = probe::holds(&args.image).map_err(|e| diagnostics::device(&args.image, e))?;
    let what = match (is_block, held) {
        (false, None) => return Ok(()),
        (false, Some(held)) => format!("holds {held}"),
        (true, None) => "is a block device".to_owned(),
        (true, Some(held)) => format!("is a block device that holds {held}"),
    };
    let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
    if !(stdin.is_terminal() && stderr.is_terminal()) {
        bail!("{name}: {what}; --force overwrites it");
    }
    let question = format!("{name}: {what}. Overwrite it?");
    write!(stderr, "uext4: {} [y/N] ", printable(&question))?;
    let mut answer = String::new();
    stdin.read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("{name}: left as it is"),
    }
}

fn options(args: &Args) -> Result<BuildOptions> {
    let mut options = BuildOptions {
        inodes: args.inodes,
        uuid: args.uuid.map(UuidArg::uuid),
        label: args.label.clone(),
        from: args.from.clone(),
        platform: args.platform.clone(),
        exclude: args.exclude.clone(),
        manifest: args.manifest.clone(),
        contexts: args.contexts.clone(),
        fsverity: args.fsverity.clone(),
        owner: args.owner,
        threads: args.threads,
        preallocate: args.preallocate,
        blocks_per_group: args.blocks_per_group,
        reserved_percent: args.reserved,
        last_mounted: args.last_mounted.clone(),
        find_size: true,
        spool: directory_of(&args.image),
        spare: match (args.compact, args.spare) {
            (true, _) => Spare::Compact,
            (false, None) => SPARE_DEFAULT,
            (false, Some(Extra::Percent(percent))) => Spare::Percent(percent),
            (false, Some(Extra::Bytes(bytes))) => Spare::Bytes(bytes),
        },
        ..BuildOptions::default()
    };
    options.verity = args.verity.then(|| VerityOptions {
        salt: args.verity_salt.clone().map(|salt| salt.0),
    });
    if let Some(limit) = args.limit {
        options.limit = limit;
    }
    let failed = |e| diagnostics::making(&args.image, e);
    if let Some(list) = &args.usage {
        options.set_usage(list).map_err(failed)?;
    }
    id_maps::apply(&args.map_uid, &args.map_gid, &mut options).map_err(failed)?;
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    options.block_size = args.block_size.map_or(options.block_size, narrow);
    options.cluster_size = args.cluster_size.map(narrow);
    options.inode_size = args.inode_size.unwrap_or(options.inode_size);
    options.flex_bg_size = args.flex_groups.unwrap_or(options.flex_bg_size);
    options.errors = args.errors.unwrap_or(options.errors);
    options.size = size(args)?;
    options.features = FeatureSet::of_type(&args.fs_type).map_err(failed)?;
    if args.with_journal {
        options.features.set("has_journal", true).map_err(failed)?;
    }
    if ImageName::parse(&args.image).is_remote() {
        // Else two hosts could write it at a time.
        options.features.set("mmp", true).map_err(failed)?;
    }
    if let Some(list) = &args.features {
        options.features = options.features.changed(list).map_err(failed)?;
    }
    options.inode_ratio = inode_ratio(args, &options);
    let listed = args.journal_list.as_ref().and_then(|list| list.bytes);
    options.journal_size = args.journal_size.or(listed);
    for list in &args.extended {
        list.apply(&mut options);
    }
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        let time = epoch
            .parse()
            .with_context(|| format!("SOURCE_DATE_EPOCH: `{epoch}` is not a number of seconds"));
        options.time = Some(time?);
    }
    Ok(options)
}

/// Bytes of the image for every inode: no more inodes than clusters, unless asked for.
fn inode_ratio(args: &Args, options: &BuildOptions) -> u32 {
    match args.inode_ratio {
        Some(bytes) => u32::try_from(bytes).unwrap_or(u32::MAX),
        None => options.inode_ratio.max(options.cluster_bytes()),
    }
}

/// The directory that the image is in, if it is in one.
fn directory_of(image: &Path) -> Option<PathBuf> {
    let name = ImageName::parse(image);
    let dir = name.path().parent();
    let dir = dir.filter(|dir| !dir.as_os_str().is_empty());
    (!name.is_remote()).then(|| dir.unwrap_or(Path::new(".")).to_owned())
}

/// The size that was asked for, or that of what is there, unless it is to follow from the tree.
fn size(args: &Args) -> Result<Option<u64>> {
    if let Some(bytes) = args.asked_size() {
        return Ok(Some(bytes));
    }
    if args.compact || args.spare.is_some() {
        return Ok(None);
    }
    let options = DeviceOptions::read_only().exclusive(false);
    let failed = |e| diagnostics::device(&args.image, e);
    let image = ImageName::parse(&args.image);
    if image.is_within() {
        let device = uext4::open_image(&args.image, &options).map_err(failed)?;
        return Ok(Some(device.len()));
    }
    match std::fs::metadata(image.path()) {
        Ok(there) if there.is_file() && there.len() > 0 && args.format == Format::Raw => {
            Ok(Some(there.len()))
        }
        Ok(there) if files::is_block_device(there.file_type()) => {
            let device = FileDevice::open(image.path(), &options).map_err(failed)?;
            Ok(Some(device.len()))
        }
        _ => Ok(None),
    }
}

fn tell(args: &Args, report: &MkfsReport) -> Result<()> {
    if args.json {
        return show::json(&Json {
            image: args.image.display().to_string(),
            image_bytes: report.image_bytes,
            digest: report.digest.map(digest_name),
            files: report.files,
            directories: report.directories,
            symlinks: report.symlinks,
            others: report.others,
            hard_links: report.hard_links,
            data_bytes: report.data_bytes,
            seconds: report.seconds,
            verity: report.verity.as_ref().map(VerityJson::from),
            fsverity: report.fsverity.iter().map(FsVerityJson::from).collect(),
            warnings: &report.warnings,
        });
    }
    let mut what = if !args.from.is_empty() {
        format!(
            ", {}, {}, {}, {} of data",
            show::count(report.files, "file", "files"),
            show::count(report.directories, "directory", "directories"),
            show::count(report.symlinks, "symlink", "symlinks"),
            show::bytes(report.data_bytes)
        )
    } else {
        String::new()
    };
    if !report.fsverity.is_empty() {
        what += &format!(", {} with fs-verity", report.fsverity.len());
    }
    let size = show::bytes(report.image_bytes);
    writeln!(
        std::io::stdout(),
        "{}: {size}{what}, {:.2} s",
        show::image(&args.image),
        report.seconds
    )?;
    report.verity.as_ref().map_or(Ok(()), tell_verity)
}

/// Prints what `veritysetup open` needs.
fn tell_verity(verity: &VerityReport) -> Result<()> {
    let (hash, offset) = (show::hex(&verity.root_hash), verity.hash_offset);
    let text = format!("root hash: {hash}\nhash offset: {offset}\n");
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

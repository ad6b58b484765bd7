//! `uext4 tune`.

use super::mkfs::{UuidArg, errors};
use crate::accounts::Accounts;
use crate::bar::Bar;
use crate::endpoint::Host;
use crate::{device, diagnostics, interrupt, quoted, show, size};
use anyhow::{Context, Error, Result, anyhow, bail};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::unstable::ondisk::{Feature, QuotaKind};
use uext4::unstable::{
    ChangeError, RepairError, RepairPlan, Reserved, Tuning, UndoPlace, apply_repair, plan_tune,
    resume_repair,
};
use uext4::{BlockDevice, CheckOptions, DeviceOptions, ErrorsBehaviour, Filesystem, ImageOptions};

/// Names of default mount options, as tune2fs has them, and their bits. Those of `data=` exclude each other.
const OPTIONS: &[(&str, u32)] = &[
    ("debug", 0x1),
    ("bsdgroups", 0x2),
    ("user_xattr", 0x4),
    ("acl", 0x8),
    ("uid16", 0x10),
    ("journal_data", 0x20),
    ("journal_data_ordered", 0x40),
    ("journal_data_writeback", DATA),
    ("nobarrier", 0x100),
    ("block_validity", 0x200),
    ("discard", 0x400),
    ("nodelalloc", 0x800),
];
/// Bits that say what the journal does with data.
const DATA: u32 = 0x60;
/// Seconds of a day.
const DAY: u32 = 86_400;

/// Change settings of an image: label, UUID, features and more
///
/// The image is checked first, unless only fields of the superblock change, and after the change in memory: nothing is written unless it
/// passes. The change is one transaction of the image's journal, so that a crash leaves it done or not done. Adding or removing the journal
/// itself is done in an order that `uext4 check -p` completes.
///
/// metadata_csum, 64bit, the size of inodes, and a new UUID where checksums follow from it (metadata_csum without metadata_csum_seed) rewrite
/// metadata of the whole image, by which its journal is found. They need --undo: run again after a crash, the command first puts back what
/// was begun.
///
/// Options of tune2fs are understood.
#[derive(Debug, clap::Args)]
#[command(
    alias = "tune2fs",
    arg_required_else_help = true,
    after_help = EXAMPLES,
    after_long_help = long_help(),
)]
pub struct Args {
    /// The image, which no one has open
    image: PathBuf,
    /// Label, at most 16 bytes
    #[arg(long, short = 'L')]
    label: Option<String>,
    /// UUID, or clear, random or time
    #[arg(long, short = 'U', value_parser = UuidArg::parse)]
    uuid: Option<UuidArg>,
    /// Percent of the blocks that only the reserved user may take
    #[arg(
        long,
        short = 'm',
        value_name = "PERCENT",
        conflicts_with = "reserved_blocks"
    )]
    reserved: Option<f64>,
    /// The same as a number of blocks
    #[arg(long, short = 'r', value_name = "BLOCKS")]
    reserved_blocks: Option<u64>,
    /// The reserved user, by number or by its name on this host
    #[arg(long, short = 'u', value_name = "USER", value_parser = user)]
    reserved_user: Option<u16>,
    /// The group whose members may take them too, as the user
    #[arg(long, short = 'g', value_name = "GROUP", value_parser = group)]
    reserved_group: Option<u16>,
    /// What happens when damage is found: continue, remount-ro or panic
    #[arg(long, short = 'e', value_name = "BEHAVIOUR", value_parser = errors)]
    errors: Option<ErrorsBehaviour>,
    /// Mount options that are on without being named: a,^b; listed below
    #[arg(long, short = 'o', value_name = "LIST", value_parser = default_options)]
    mount_options: Option<(u32, u32)>,
    /// Features, as tune2fs names them: a,^b; listed below
    #[arg(long, short = 'O', value_name = "LIST", value_parser = features)]
    features: Option<Features>,
    /// Kinds of owners whose usage is counted: usrquota,grpquota,prjquota, or without: ^usrquota
    #[arg(long, short = 'Q', value_name = "LIST", value_parser = quotas)]
    quotas: Option<Quotas>,
    /// Bytes of an inode, more than there are: 256 for 128
    #[arg(long, short = 'I', value_name = "BYTES")]
    inode_size: Option<u16>,
    /// The new journal: size=MEGABYTES
    #[arg(short = 'J', value_name = "LIST", value_parser = journal)]
    new_journal: Option<u64>,
    /// Extended options: stride=BLOCKS, stripe_width=BLOCKS, mount_opts=TEXT
    #[arg(long, short = 'E', value_name = "LIST", value_parser = extended)]
    extended: Option<Extended>,
    /// Mounts after which e2fsck checks the image; 0 or -1 for never
    #[arg(long, short = 'c', value_name = "MOUNTS", value_parser = mounts, allow_negative_numbers = true)]
    max_mounts: Option<u16>,
    /// Days after which e2fsck checks the image, or with w or m weeks or months; 0 for never
    #[arg(long, short = 'i', value_name = "DAYS", value_parser = interval)]
    check_interval: Option<u32>,
    /// Show the settings, which `uext4 info` does
    #[arg(short = 'l', hide = true)]
    list: bool,
    /// Keep in FILE what the image held before, for `uext4 undo`
    #[arg(long, value_name = "FILE")]
    undo: Option<PathBuf>,
    /// Threads of the check; 0 means one for each CPU
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors; no progress
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:\n  \
    uext4 tune -L data -m 1 disk.img                 a label, and 1 % reserved\n  \
    uext4 tune -U random clone.img                   a UUID of its own for a copy\n  \
    uext4 tune -O quota,project disk.img             counts what each owner has\n  \
    uext4 tune -Q ^grpquota disk.img                 that of groups no more\n  \
    uext4 tune -O ^has_journal disk.img              removes the journal\n  \
    uext4 tune -U random --undo u disk.img           `uext4 undo` undoes it";

fn long_help() -> String {
    let names: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
    let lines = names.chunks(4).map(|names| names.join(", "));
    let lines: Vec<String> = lines.collect();
    format!(
        "Features that can be enabled and disabled: 64bit, metadata_csum, has_journal,\n\
         orphan_file, fast_commit, quota, mmp, metadata_csum_seed, casefold (not once\n\
         a directory ignores case) and read-only. Enabled only: project, extra_isize,\n\
         dir_index, dir_nlink, ea_inode, encrypt, extent, flex_bg, huge_file,\n\
         inline_data, large_dir, large_file, stable_inodes, uninit_bg and verity.\n\
         Disabled only: resize_inode.\n\n\
         Mount options:\n{}.\n\n{EXAMPLES}",
        lines.join(",\n")
    )
}

/// What `-O` takes.
#[derive(Clone, Debug)]
pub struct Features(pub Vec<(Feature, bool)>);

/// What `-Q` takes.
#[derive(Clone, Debug)]
pub struct Quotas(pub Vec<(QuotaKind, bool)>);

/// What `-E` takes.
#[derive(Clone, Debug, Default)]
struct Extended {
    stride: Option<u16>,
    stripe_width: Option<u32>,
    mount_options: Option<String>,
}

/// Words of a list, each with whether it is on.
fn words(list: &str) -> impl Iterator<Item = (&str, bool)> {
    let words = list.split([',', ' ']).filter(|word| !word.is_empty());
    words.map(|word| match word.strip_prefix('^') {
        Some(name) => (name, false),
        None => (word, true),
    })
}

pub fn features(list: &str) -> Result<Features, String> {
    let known = words(list).map(|(name, on)| {
        let feature = Feature::parse_name(name);
        let feature = feature.ok_or_else(|| format!("there is no feature `{name}`"))?;
        Ok((feature, on))
    });
    known.collect::<Result<_, String>>().map(Features)
}

pub fn quotas(list: &str) -> Result<Quotas, String> {
    let known = words(list).map(|(name, on)| match name {
        "usr" | "usrquota" => Ok((QuotaKind::User, on)),
        "grp" | "grpquota" => Ok((QuotaKind::Group, on)),
        "prj" | "prjquota" => Ok((QuotaKind::Project, on)),
        _ => Err(format!("`{name}`: give usrquota, grpquota or prjquota")),
    });
    known.collect::<Result<_, String>>().map(Quotas)
}

pub fn default_options(list: &str) -> Result<(u32, u32), String> {
    let (mut set, mut clear) = (0, 0);
    for (name, on) in words(list) {
        let found = OPTIONS.iter().find(|(option, _)| *option == name);
        let (_, bits) = found.ok_or_else(|| format!("there is no mount option `{name}`"))?;
        let mask = if bits & DATA != 0 { DATA } else { *bits };
        clear |= mask;
        set &= !mask;
        set |= if on { *bits } else { 0 };
    }
    Ok((set, clear))
}

pub fn user(name: &str) -> Result<u16, String> {
    account(name, Accounts::uid)
}

pub fn group(name: &str) -> Result<u16, String> {
    account(name, Accounts::gid)
}

/// The number of an account of this host, or one that is given; the superblock has 16 bits for it.
fn account(name: &str, number: impl Fn(&Accounts, &str) -> Option<u32>) -> Result<u16, String> {
    let known = || number(&Accounts::of(&Host), name);
    let number = name.parse().ok().or_else(known);
    let number: u32 = number.ok_or("is neither a number nor a name that this host knows")?;
    u16::try_from(number).map_err(|_| "is more than 65535".to_owned())
}

fn mounts(text: &str) -> Result<u16, String> {
    match text {
        // As tune2fs writes it.
        "-1" => Ok(u16::MAX),
        _ => text
            .parse()
            .map_err(|_| "give a number up to 65535, or -1".to_owned()),
    }
}

pub fn journal(list: &str) -> Result<u64, String> {
    let text = list.strip_prefix("size=");
    let text = text.ok_or("there is size=MEGABYTES".to_owned())?;
    match text.parse::<u64>() {
        Ok(megabytes) => megabytes
            .checked_mul(1 << 20)
            .ok_or_else(|| format!("`{text}` is too large")),
        Err(_) => size::parse(text),
    }
}

fn extended(list: &str) -> Result<Extended, String> {
    let mut found = Extended::default();
    for word in list.split(',') {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<u32>().map_err(|_| not_a_number(name));
        match name {
            "stride" => {
                let blocks = u16::try_from(number()?).map_err(|_| not_a_number(name))?;
                found.stride = Some(blocks);
            }
            "stripe_width" | "stripe-width" => found.stripe_width = Some(number()?),
            "mount_opts" => found.mount_options = Some(value.to_owned()),
            _ => return Err("there is stride=, stripe_width= and mount_opts=".to_owned()),
        }
    }
    Ok(found)
}

fn not_a_number(name: &str) -> String {
    format!("{name}= takes a number of blocks")
}

/// Seconds of an interval.
pub fn interval(text: &str) -> Result<u32, String> {
    let (number, days) = match text.chars().last() {
        Some('d') => (text.strip_suffix('d'), 1),
        Some('w') => (text.strip_suffix('w'), 7),
        Some('m') => (text.strip_suffix('m'), 30),
        _ => (Some(text), 1),
    };
    let number = number.and_then(|number| number.parse::<u32>().ok());
    let seconds = number.and_then(|n| n.checked_mul(days)?.checked_mul(DAY));
    seconds.ok_or_else(|| "give a number of days, or with w or m weeks or months".to_owned())
}

/// What was changed, as JSON has it.
#[derive(Serialize)]
struct Json {
    changed: bool,
    bytes_written: u64,
}

pub fn run(args: &Args) -> Result<()> {
    if args.list {
        let name = quoted::path(&args.image);
        bail!("`uext4 info {name}` shows the settings");
    }
    let tuning = args.tuning()?;
    let plans = change(
        &args.image,
        &tuning,
        &CheckOptions::new().threads(args.threads),
        args.undo.as_deref(),
        args.quiet || args.json,
    )?;
    let units: usize = plans.iter().map(|plan| plan.edits.len()).sum();
    let bytes = units as u64 * uext4::unstable::EDIT_UNIT as u64;
    if args.json {
        return show::json(&Json {
            changed: !plans.is_empty(),
            bytes_written: bytes,
        });
    }
    Ok(())
}

/// Changes settings of an image, and returns what was written.
///
/// # Errors
/// The image can't be opened, checked or written; it has faults; the change can't be made.
pub fn change(
    image: &Path,
    tuning: &Tuning,
    options: &CheckOptions,
    undo: Option<&Path>,
    quiet: bool,
) -> Result<Vec<RepairPlan>> {
    let device = device::open(image, &DeviceOptions::read_write())
        .map_err(|e| diagnostics::device(image, e))?;
    if let Some(undo) = undo {
        resume_repair(&*device, &UndoPlace::new(undo))?;
    }
    let bar = Bar::unless(quiet);
    let mut plans = planned(image, &device, || {
        plan_tune(&*device, tuning, options, &bar)
    })?;
    drop(bar);
    if undo.is_some() && plans.len() > 1 {
        plans = vec![RepairPlan::join(plans)];
    }
    // None of the steps before it is carried out either.
    let refused = plans
        .iter()
        .find(|plan| undo.is_none() && plan.needs_undo());
    if let Some(plan) = refused {
        let why = RepairError::needs_undo(plan);
        return Err(why).with_context(|| image.display().to_string());
    }
    for plan in &plans {
        let applied = apply_repair(&device, plan, undo.map(UndoPlace::new).as_ref());
        applied.with_context(|| image.display().to_string())?;
    }
    Ok(plans)
}

/// Plans a change, after a recovery if the image was not unmounted.
///
/// # Errors
/// Why it can't be planned, for the user.
pub fn planned<T>(
    image: &Path,
    device: &Arc<dyn BlockDevice>,
    plan: impl Fn() -> Result<T, ChangeError>,
) -> Result<T> {
    let mut planned = plan();
    if matches!(planned, Err(ChangeError::Pending)) {
        recover(device).with_context(|| image.display().to_string())?;
        planned = plan();
    }
    interrupt::check()?;
    planned.map_err(|e| failed(image, e))
}

/// Recovers the journal and deletes orphans, as a mount does.
fn recover(device: &Arc<dyn BlockDevice>) -> uext4::Result<()> {
    Filesystem::open_device(Arc::clone(device), &ImageOptions::read_write())?.unmount()
}

fn failed(image: &Path, e: ChangeError) -> Error {
    let name = image.display();
    match e {
        ChangeError::Check(e) => diagnostics::checking(image, e),
        ChangeError::Faulty => {
            let arg = quoted::path(image);
            anyhow!(
                "{name}: has faults, so that nothing was changed; `uext4 check {arg}` lists them, `uext4 check -p {arg}` repairs what loses nothing"
            )
        }
        e => Error::new(e).context(name.to_string()),
    }
}

impl Args {
    fn tuning(&self) -> Result<Tuning> {
        let extended = self.extended.clone().unwrap_or_default();
        let journal_blocks = match self.new_journal {
            Some(bytes) => Some(self.blocks_of(bytes)?),
            None => None,
        };
        let percent = self.reserved.map(Reserved::Percent);
        let tuning = Tuning {
            label: self.label.as_ref().map(|label| label.clone().into_bytes()),
            uuid: self.uuid.map(|uuid| uuid.uuid().into_bytes()),
            reserved: self.reserved_blocks.map(Reserved::Blocks).or(percent),
            reserved_user: self.reserved_user,
            reserved_group: self.reserved_group,
            errors: self.errors,
            default_options: self.mount_options.unwrap_or_default(),
            mount_options: extended.mount_options.map(String::into_bytes),
            max_mounts: self.max_mounts,
            check_interval: self.check_interval,
            stride: extended.stride,
            stripe_width: extended.stripe_width,
            features: self.features.clone().map_or(Vec::new(), |f| f.0),
            quotas: self.quotas.clone().map_or(Vec::new(), |q| q.0),
            inode_size: self.inode_size,
            journal_blocks,
            ..Tuning::default()
        };
        if self.new_journal.is_some() && !tuning.adds_journal() {
            bail!("-J is for a new journal: -O has_journal");
        }
        if tuning == Tuning::default() {
            bail!("nothing to change; `uext4 tune --help` lists the settings");
        }
        Ok(tuning)
    }

    /// The blocks of the image that so many bytes are.
    fn blocks_of(&self, bytes: u64) -> Result<u32> {
        let options = DeviceOptions::read_only().exclusive(false);
        let device =
            device::open(&self.image, &options).map_err(|e| diagnostics::device(&self.image, e))?;
        let sb = uext4::unstable::read_superblock(&*device)
            .map_err(|e| diagnostics::opening(&self.image, &e.of_mount()))?;
        let blocks = bytes / u64::from(sb.geometry.block_size);
        u32::try_from(blocks).with_context(|| format!("{bytes} bytes are too much for a journal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_data_replace_each_other() {
        assert_eq!(default_options("acl,^user_xattr"), Ok((0x8, 0xc)));
        assert_eq!(default_options("journal_data"), Ok((0x20, 0x60)));
        let last = default_options("journal_data,journal_data_ordered");
        assert_eq!(last, Ok((0x40, 0x60)));
        assert!(default_options("none").is_err());
    }

    #[test]
    fn intervals_and_sizes() {
        assert_eq!(interval("0"), Ok(0));
        assert_eq!(interval("2w"), Ok(14 * DAY));
        assert!(interval("long").is_err());
        assert_eq!((mounts("20"), mounts("-1")), (Ok(20), Ok(u16::MAX)));
        assert!(mounts("-2").is_err());
        assert_eq!((user("7"), group("65536").is_err()), (Ok(7), true));
        assert_eq!(journal("size=4"), Ok(4 << 20));
        assert_eq!(extended("stride=2").unwrap().stride, Some(2));
        assert!(extended("stride=70000").is_err());
    }
}

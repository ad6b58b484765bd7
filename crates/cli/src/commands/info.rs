//! `uext4 info`.

use crate::probe;
use crate::system::mounts;
use crate::{diagnostics, failures, quoted, show, superblock, time_format};
use anyhow::Result;
use comfy_table::{Table, presets};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::unstable::ondisk::{
    ErrorsBehaviour, GroupDesc, GroupFlags, GroupNo, Incompat, Ino, NameEncoding, RoCompat,
    STATE_CLEAN, STATE_ERROR, Superblock, quota_inodes,
};
use uext4::unstable::{MmpHold, MmpHolder};
use uext4::{
    BlockDevice, BlockError, DeviceOptions, ImageFiles, ImageName, Partition, RangeDevice,
};
use uuid::Uuid;

/// Show superblock, features, journal and groups, as dumpe2fs does
///
/// Of a file or device that has partitions instead, those are listed, with what names each as an image.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    uext4 info --groups disk.img\n  \
    uext4 info --superblock 32768 damaged.img   with a backup of the superblock")]
pub struct Args {
    /// A table of the block groups too
    #[arg(long, short)]
    groups: bool,
    /// As JSON, with the groups
    #[arg(long)]
    json: bool,
    /// The images
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Json {
    label: String,
    uuid: String,
    state: &'static str,
    errors: &'static str,
    features: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    needs_recovery: bool,
    journal_bytes: Option<u64>,
    block_size: u32,
    cluster_size: u64,
    /// Kinds of owners whose usage is counted.
    quotas: Vec<&'static str>,
    inode_size: u16,
    blocks: u64,
    blocks_free: u64,
    blocks_reserved: u64,
    inodes: u32,
    inodes_free: u32,
    blocks_per_group: u32,
    inodes_per_group: u32,
    flex_bg_size: u32,
    desc_size: u16,
    first_block: u32,
    created: String,
    mounted: Option<String>,
    written: String,
    mount_count: u16,
    error_count: u32,
    open_on: Option<HolderJson>,
    groups: Vec<GroupJson>,
}

/// What is shown of an operand.
#[derive(Serialize)]
#[serde(untagged)]
enum Document {
    Image(Box<Json>),
    Disk { partitions: Vec<PartitionJson> },
}

/// A partition of a disk.
#[derive(Serialize)]
struct PartitionJson {
    number: u32,
    /// What names it as an image.
    image: String,
    name: String,
    start: u64,
    bytes: u64,
    #[serde(rename = "type")]
    kind: String,
    holds: Option<&'static str>,
}

/// The host that has an image with multi-mount protection open, or left it behind.
#[derive(Serialize)]
struct HolderJson {
    host: String,
    device: String,
    time: String,
    checks: bool,
}

impl HolderJson {
    fn of(holder: MmpHolder) -> HolderJson {
        HolderJson {
            host: holder.host,
            device: holder.device,
            time: time_format::utc(holder.time.cast_signed()),
            checks: holder.wait.is_none(),
        }
    }

    /// A name and what is shown of it.
    fn line(&self) -> (&'static str, String) {
        let HolderJson {
            host, device, time, ..
        } = self;
        match self.checks {
            true => ("checked on", format!("{host}, since {time}")),
            false => ("open on", format!("{host} ({device}), seen {time}")),
        }
    }
}

#[derive(Serialize)]
struct GroupJson {
    group: u32,
    first_block: u64,
    block_bitmap: u64,
    inode_bitmap: u64,
    inode_table: u64,
    blocks_free: u32,
    inodes_free: u32,
    directories: u32,
    inodes_unused: u32,
    flags: Vec<&'static str>,
    super_backup: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let mut documents = Vec::new();
    for image in &args.images {
        let shown = match read(args, image) {
            Ok(info) => show_image(args, image, info, &mut documents),
            // Of a disk, that is what there is to show.
            Err(e) => match partitions(image) {
                Some(found) => show_partitions(args, image, found, &mut documents),
                None => Err(e),
            },
        };
        shown.or_else(failures::report)?;
    }
    match args.json {
        true => show::json_of(&args.images, documents),
        false => Ok(()),
    }
}

fn show_image(args: &Args, image: &Path, info: Json, documents: &mut Vec<Document>) -> Result<()> {
    match args.json {
        true => {
            documents.push(Document::Image(Box::new(info)));
            Ok(())
        }
        false => print(args, image, &info),
    }
}

fn show_partitions(
    args: &Args,
    image: &Path,
    found: Vec<PartitionJson>,
    documents: &mut Vec<Document>,
) -> Result<()> {
    match args.json {
        true => {
            documents.push(Document::Disk { partitions: found });
            Ok(())
        }
        false => print_partitions(args, image, &found),
    }
}

fn read(args: &Args, image: &Path) -> Result<Json> {
    // What is in use is shown as it is at the moment.
    let options = DeviceOptions::read_only().exclusive(false);
    let device = superblock::open(image, &options)
        .map_err(|e| diagnostics::opening_device(image, e))?
        .device;
    let sb = uext4::unstable::read_superblock(&*device)
        .map_err(|e| diagnostics::opening(image, &e.of_mount()))?;
    if let Some(truncated) = diagnostics::truncated(image) {
        show::warn(format_args!("{}: {truncated}", image.display()));
    }
    let groups = if args.groups || args.json {
        groups(image, &*device, &sb)?
    } else {
        Vec::new()
    };
    // What is damaged of it is reported by what opens the image.
    let open_on = MmpHold::holder(&device).ok().flatten();
    Ok(info(&sb, open_on.map(HolderJson::of), groups))
}

fn print(args: &Args, image: &Path, info: &Json) -> Result<()> {
    let out = &mut std::io::stdout().lock();
    if args.images.len() > 1 {
        writeln!(out, "{}:", show::image(image))?;
    }
    out.write_all(text(info).as_bytes())?;
    if let Some(dir) = mounts::mounted_at(image) {
        writeln!(out, "{:<20} {}", "mounted on:", show::image(&dir))?;
    }
    if args.groups {
        writeln!(out, "\n{}", show::table(&groups_table(&info.groups)))?;
    }
    Ok(())
}

/// The partitions of a disk, if it has some.
fn partitions(image: &Path) -> Option<Vec<PartitionJson>> {
    let name = ImageName::parse(image);
    if name.partition().is_some() || diagnostics::has_magic(image) {
        return None;
    }
    let is_data = name.is_remote()
        || std::fs::metadata(name.path()).is_ok_and(|there| diagnostics::holds_data(&there));
    let options = DeviceOptions::read_only().exclusive(false);
    let open = || -> Result<_, BlockError> { ImageFiles::open(image, &options)?.partitions() };
    let (disk, found) = is_data.then(open)?.ok()?;
    // The boot code of a file system may look like a table; on a disc, which has none, a table is one.
    let what = probe::in_device(&*disk).ok().flatten()?;
    if !(what.starts_with("a partition table") || what.starts_with("an ISO 9660")) {
        return None;
    }
    let one = |partition: Partition| {
        let (start, len) = (partition.start, Some(partition.len));
        let part = RangeDevice::new(Arc::clone(&disk), start, len);
        let holds = part.and_then(|part| probe::in_device(&part));
        let named = ImageName::in_disk(name.path(), partition.number);
        PartitionJson {
            number: partition.number,
            image: named.display().to_string(),
            name: partition.name,
            start: partition.start,
            bytes: partition.len,
            kind: partition.kind,
            holds: holds.ok().flatten(),
        }
    };
    let found: Vec<PartitionJson> = found.into_iter().map(one).collect();
    (!found.is_empty()).then_some(found)
}

/// A line for each partition.
fn print_partitions(args: &Args, image: &Path, found: &[PartitionJson]) -> Result<()> {
    let out = &mut std::io::stdout().lock();
    if args.images.len() > 1 {
        writeln!(out, "{}:", show::image(image))?;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "partition",
        "name",
        "start",
        "size",
        "type",
        "holds",
        "image",
    ]);
    for partition in found {
        table.add_row([
            partition.number.to_string(),
            partition.name.clone(),
            partition.start.to_string(),
            show::bytes(partition.bytes),
            partition.kind.clone(),
            partition.holds.unwrap_or("").to_owned(),
            quoted::quoted(&partition.image),
        ]);
    }
    writeln!(out, "{}", show::table(&table))?;
    Ok(())
}

fn info(sb: &Superblock, open_on: Option<HolderJson>, groups: Vec<GroupJson>) -> Json {
    let (raw, geometry) = (&sb.raw, &sb.geometry);
    let features = [
        sb.compat.describe(),
        sb.incompat.describe(),
        sb.ro_compat.describe(),
    ];
    let features = features.iter().flat_map(|list| list.split([',', ' ']));
    let label = raw.volume_name.split(|b| *b == 0).next().unwrap_or(&[]);
    let state = raw.state.get();
    Json {
        label: label.escape_ascii().to_string(),
        uuid: Uuid::from_bytes(raw.uuid).to_string(),
        state: match (state & STATE_CLEAN != 0, state & STATE_ERROR != 0) {
            (_, true) => "with errors",
            (true, false) => "clean",
            (false, false) => "not clean",
        },
        errors: match raw.errors_behaviour() {
            ErrorsBehaviour::Continue => "continue",
            ErrorsBehaviour::RemountRo => "remount-ro",
            ErrorsBehaviour::Panic => "panic",
        },
        features: features
            .filter(|f| !f.is_empty())
            .map(str::to_owned)
            .collect(),
        encoding: encoding(sb),
        needs_recovery: sb.incompat.contains(Incompat::RECOVER),
        journal_bytes: (raw.jnl_backup_type == 1).then(|| {
            u64::from(raw.jnl_blocks[15].get()) << 32 | u64::from(raw.jnl_blocks[16].get())
        }),
        block_size: geometry.block_size,
        cluster_size: u64::from(geometry.block_size) * u64::from(geometry.cluster_ratio),
        quotas: quotas(sb),
        inode_size: geometry.inode_size,
        blocks: geometry.blocks_count,
        blocks_free: raw.free_blocks_count(),
        blocks_reserved: raw.reserved_blocks_count(),
        inodes: geometry.inodes_count,
        inodes_free: raw.free_inodes_count.get(),
        blocks_per_group: geometry.blocks_per_group,
        inodes_per_group: geometry.inodes_per_group,
        flex_bg_size: 1 << geometry.log_groups_per_flex.min(31),
        desc_size: geometry.desc_size,
        first_block: geometry.first_data_block,
        created: time_format::utc(raw.mkfs_time().cast_signed()),
        mounted: match raw.mount_time() {
            0 => None,
            time => Some(time_format::utc(time.cast_signed())),
        },
        written: time_format::utc(raw.write_time().cast_signed()),
        mount_count: raw.mnt_count.get(),
        error_count: raw.error_count.get(),
        open_on,
        groups,
    }
}

/// Kinds of owners whose usage is counted.
fn quotas(sb: &Superblock) -> Vec<&'static str> {
    let counted = sb.ro_compat.contains(RoCompat::QUOTA);
    let kinds = quota_inodes(&sb.raw).into_iter();
    let kinds = kinds.filter(|(_, ino)| counted && *ino != Ino::NONE);
    kinds.map(|(kind, _)| kind.name()).collect()
}

/// The encoding of names in directories that ignore case, if there can be some.
fn encoding(sb: &Superblock) -> Option<String> {
    let (number, flags) = (sb.raw.encoding.get(), sb.raw.encoding_flags.get());
    match NameEncoding::read(&sb.raw) {
        Ok(encoding) => encoding.map(|encoding| match encoding.strict {
            true => "utf8-12.1, strict".to_owned(),
            false => "utf8-12.1".to_owned(),
        }),
        Err(_) => Some(format!("unknown: {number}, flags {flags:#x}")),
    }
}

fn groups(image: &Path, device: &dyn BlockDevice, sb: &Superblock) -> Result<Vec<GroupJson>> {
    let geometry = &sb.geometry;
    let mut groups = Vec::new();
    let mut raw = vec![0; usize::from(geometry.desc_size)];
    for no in (0..geometry.groups_count).map(GroupNo) {
        let (block, at) = geometry.group_desc_location(no);
        let offset = geometry.block_offset(block) + at as u64;
        device
            .read_at(offset, &mut raw)
            .map_err(|e| diagnostics::device(image, e))?;
        let desc = GroupDesc::decode(&raw)
            .map_err(|e| anyhow::anyhow!("{}: group {no}: {e}", image.display()))?;
        let flags = [
            (GroupFlags::INODE_UNINIT, "INODE_UNINIT"),
            (GroupFlags::BLOCK_UNINIT, "BLOCK_UNINIT"),
            (GroupFlags::ITABLE_ZEROED, "ITABLE_ZEROED"),
        ];
        groups.push(GroupJson {
            group: no.0,
            first_block: geometry.group_first_block(no).0,
            block_bitmap: desc.block_bitmap.0,
            inode_bitmap: desc.inode_bitmap.0,
            inode_table: desc.inode_table.0,
            blocks_free: desc.free_blocks,
            inodes_free: desc.free_inodes,
            directories: desc.used_dirs,
            inodes_unused: desc.itable_unused,
            flags: flags
                .iter()
                .filter(|(f, _)| desc.flags.contains(*f))
                .map(|(_, n)| *n)
                .collect(),
            super_backup: geometry.has_super(no),
        });
    }
    Ok(groups)
}

/// The superblock as lines, and the places of its backups.
pub fn summary(sb: &Superblock) -> String {
    let backups: Vec<String> = backups(sb).iter().map(u64::to_string).collect();
    let backups = match backups.is_empty() {
        true => "<none>".to_owned(),
        false => backups.join(" "),
    };
    format!(
        "{}{:<20} {backups}\n",
        text(&info(sb, None, Vec::new())),
        "backups at:"
    )
}

/// The blocks of the backup superblocks.
fn backups(sb: &Superblock) -> Vec<u64> {
    let geometry = &sb.geometry;
    (1..geometry.groups_count)
        .map(GroupNo)
        .filter(|group| geometry.has_super(*group))
        .map(|group| geometry.group_first_block(group).0)
        .collect()
}

/// A line for each thing that is known.
fn text(info: &Json) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        text += &format!("{:<20} {value}\n", format!("{name}:"));
    };
    let unit = u64::from(info.block_size);
    let blocks = |n: u64| format!("{n} ({})", show::bytes(n.saturating_mul(unit)));
    line(
        "label",
        &if info.label.is_empty() {
            "<none>"
        } else {
            &info.label
        },
    );
    line("UUID", &info.uuid);
    line("state", &info.state);
    line("errors behaviour", &info.errors);
    line("features", &info.features.join(" "));
    if let Some(encoding) = &info.encoding {
        line("encoding", encoding);
    }
    if !info.quotas.is_empty() {
        line("usage counted of", &format!("{}s", info.quotas.join("s, ")));
    }
    match info.journal_bytes {
        Some(bytes) if info.needs_recovery => {
            line(
                "journal",
                &format!("{}, needs recovery", show::bytes(bytes)),
            );
        }
        Some(bytes) => line("journal", &format!("{}, empty", show::bytes(bytes))),
        None => line("journal", &"<none>"),
    }
    line("block size", &info.block_size);
    if info.cluster_size != unit {
        line("cluster size", &info.cluster_size);
    }
    line("blocks", &blocks(info.blocks));
    line("free blocks", &blocks(info.blocks_free));
    line("reserved blocks", &blocks(info.blocks_reserved));
    line("first block", &info.first_block);
    line("blocks per group", &info.blocks_per_group);
    line("inode size", &info.inode_size);
    line("inodes", &info.inodes);
    line("free inodes", &info.inodes_free);
    line("inodes per group", &info.inodes_per_group);
    line("flex group size", &info.flex_bg_size);
    line("descriptor size", &info.desc_size);
    line("created", &info.created);
    line(
        "last mounted",
        &info.mounted.as_deref().unwrap_or("<never>"),
    );
    line("last written", &info.written);
    line("mount count", &info.mount_count);
    if info.error_count > 0 {
        line("errors recorded", &info.error_count);
    }
    if let Some(holder) = &info.open_on {
        let (name, value) = holder.line();
        line(name, &value);
    }
    text
}

fn groups_table(groups: &[GroupJson]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "group",
        "first",
        "block bitmap",
        "inode bitmap",
        "inode table",
        "free blocks",
        "free inodes",
        "dirs",
        "unused",
        "flags",
    ]);
    for g in groups {
        let mut flags = g.flags.clone();
        if g.super_backup {
            flags.push("SUPER");
        }
        table.add_row([
            g.group.to_string(),
            g.first_block.to_string(),
            g.block_bitmap.to_string(),
            g.inode_bitmap.to_string(),
            g.inode_table.to_string(),
            g.blocks_free.to_string(),
            g.inodes_free.to_string(),
            g.directories.to_string(),
            g.inodes_unused.to_string(),
            flags.join(" "),
        ]);
    }
    table
}

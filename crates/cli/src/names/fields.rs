//! The superblock as `dumpe2fs -h` and `tune2fs -l` list it, field by field.

use crate::accounts::Accounts;
use crate::endpoint::Host;
use jiff::tz::TimeZone;
use std::fmt::Display;
use uext4::unstable::ondisk::{
    Compat, ErrorRecord, Incompat, RawSuperblock, RoCompat, STATE_CLEAN, STATE_ERROR, Superblock,
};
use uuid::Uuid;

/// Names of default mount options by bit; `data=` has two bits of its own.
const MOUNT_OPTIONS: [Option<&str>; 12] = [
    Some("debug"),
    Some("bsdgroups"),
    Some("user_xattr"),
    Some("acl"),
    Some("uid16"),
    None,
    None,
    Some("MNTOPT_7"),
    Some("nobarrier"),
    Some("block_validity"),
    Some("discard"),
    Some("nodelalloc"),
];
/// What the journal does with data, by those two bits.
const DATA_MODES: [Option<&str>; 4] = [
    None,
    Some("journal_data"),
    Some("journal_data_ordered"),
    Some("journal_data_writeback"),
];
const DATA_SHIFT: u32 = 5;
/// Operating systems, by number.
const SYSTEMS: [&str; 5] = ["Linux", "GNU/Hurd", "Masix", "FreeBSD", "Lites"];
/// Hashes of names, by number.
const HASHES: [&str; 7] = [
    "legacy",
    "half_md4",
    "tea",
    "legacy_unsigned",
    "half_md4_unsigned",
    "tea_unsigned",
    "siphash",
];
/// `s_flags` and their names.
const FLAGS: [(u32, &str); 3] = [
    (1, "signed_directory_hash"),
    (2, "unsigned_directory_hash"),
    (4, "test_filesystem"),
];
/// Seconds of units of an interval, largest first.
const UNITS: [(u32, &str); 3] = [
    (30 * 86_400, "month"),
    (7 * 86_400, "week"),
    (86_400, "day"),
];

/// Lines of names and values, with the values in one column.
#[derive(Default)]
pub struct Lines {
    /// What was written.
    pub bytes: Vec<u8>,
}

impl Lines {
    /// Adds a line.
    pub fn add(&mut self, name: &str, value: impl Display) {
        self.add_bytes(name, value.to_string().as_bytes());
    }

    fn add_bytes(&mut self, name: &str, value: &[u8]) {
        self.bytes
            .extend_from_slice(format!("{:<26}", format!("{name}:")).as_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.push(b'\n');
    }

    /// Adds a line if the value is not 0.
    fn add_unless_zero<T: Display + Default + PartialEq>(&mut self, name: &str, value: T) {
        if value != T::default() {
            self.add(name, value);
        }
    }
}

/// `Sun Nov 29 02:15:23 2026`, in the time zone of this host.
pub fn time(seconds: u64) -> String {
    let instant = jiff::Timestamp::from_second(seconds.cast_signed()).unwrap_or_default();
    let local = instant.to_zoned(TimeZone::system());
    local.strftime("%a %b %e %H:%M:%S %Y").to_string()
}

/// The fields of a superblock.
pub fn of(sb: &Superblock) -> Vec<u8> {
    let mut lines = Lines::default();
    identity(&mut lines, sb);
    sizes(&mut lines, sb);
    history(&mut lines, &sb.raw);
    files(&mut lines, sb);
    errors(&mut lines, &sb.raw);
    rest(&mut lines, sb);
    lines.bytes
}

fn text_of(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or(&[])
}

fn or<'a>(text: &'a [u8], empty: &'a str) -> &'a [u8] {
    if text.is_empty() {
        empty.as_bytes()
    } else {
        text
    }
}

fn joined<T: Display>(words: impl IntoIterator<Item = T>, empty: &str) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    match words.is_empty() {
        true => empty.to_owned(),
        false => words.join(" "),
    }
}

fn identity(lines: &mut Lines, sb: &Superblock) {
    let raw = &sb.raw;
    lines.add_bytes("Filesystem volume name", or(raw.label(), "<none>"));
    let mounted = or(text_of(&raw.last_mounted), "<not available>");
    lines.add_bytes("Last mounted on", mounted);
    lines.add("Filesystem UUID", uuid(&raw.uuid));
    lines.add(
        "Filesystem magic number",
        format!("0x{:04X}", raw.magic.get()),
    );
    let revision = raw.rev_level.get();
    let kind = if revision == 0 { "original" } else { "dynamic" };
    lines.add("Filesystem revision #", format!("{revision} ({kind})"));
    lines.add("Filesystem features", features(raw));
    let flags = FLAGS.iter().filter(|(flag, _)| raw.flags.get() & flag != 0);
    let flags = joined(flags.map(|(_, name)| name), "(none)");
    lines.add("Filesystem flags", format!("{flags} "));
    lines.add(
        "Default mount options",
        mount_options(raw.default_mount_opts.get()),
    );
    let options = text_of(&raw.mount_opts);
    if !options.is_empty() {
        lines.add_bytes("Mount options", options);
    }
    let state = raw.state.get();
    let clean = if state & STATE_CLEAN != 0 {
        "clean"
    } else {
        "not clean"
    };
    let faulty = if state & STATE_ERROR != 0 {
        " with errors"
    } else {
        ""
    };
    lines.add("Filesystem state", format!("{clean}{faulty}"));
    lines.add(
        "Errors behavior",
        match raw.errors.get() {
            1 => "Continue",
            2 => "Remount read-only",
            3 => "Panic",
            _ => "Unknown (continue)",
        },
    );
    let system = SYSTEMS.get(raw.creator_os.get() as usize);
    lines.add("Filesystem OS type", system.unwrap_or(&"(unknown os)"));
}

fn uuid(bytes: &[u8; 16]) -> String {
    match Uuid::from_bytes(*bytes) {
        uuid if uuid.is_nil() => "<none>".to_owned(),
        uuid => uuid.to_string(),
    }
}

fn features(raw: &RawSuperblock) -> String {
    let sets = [
        raw.compat().describe(),
        raw.incompat().describe(),
        raw.ro_compat().describe(),
    ];
    joined(sets.iter().filter(|set| !set.is_empty()), "(none)")
}

fn mount_options(bits: u32) -> String {
    let mode = DATA_MODES.get((bits >> DATA_SHIFT & 3) as usize);
    let mode = mode.copied().flatten().map(str::to_owned);
    let named = (0..u32::BITS).filter(|bit| bits >> bit & 1 != 0);
    let named = named.filter_map(|bit| match MOUNT_OPTIONS.get(bit as usize) {
        Some(name) => name.map(str::to_owned),
        None => Some(format!("MNTOPT_{bit}")),
    });
    joined(mode.into_iter().chain(named), "(none)")
}

fn sizes(lines: &mut Lines, sb: &Superblock) {
    let (raw, geometry) = (&sb.raw, &sb.geometry);
    lines.add("Inode count", geometry.inodes_count);
    lines.add("Block count", geometry.blocks_count);
    lines.add("Reserved block count", raw.reserved_blocks_count());
    lines.add_unless_zero("Overhead clusters", raw.overhead_clusters.get());
    lines.add("Free blocks", raw.free_blocks_count());
    lines.add("Free inodes", raw.free_inodes_count.get());
    lines.add("First block", geometry.first_data_block);
    lines.add("Block size", geometry.block_size);
    let clusters = sb.ro_compat.contains(RoCompat::BIGALLOC);
    let cluster = u64::from(geometry.block_size) * u64::from(geometry.cluster_ratio);
    let (unit, groups) = match clusters {
        true => ("Cluster size", "Clusters per group"),
        false => ("Fragment size", "Fragments per group"),
    };
    lines.add(unit, cluster);
    if sb.incompat.contains(Incompat::BIT64) {
        lines.add("Group descriptor size", geometry.desc_size);
    }
    lines.add_unless_zero("Reserved GDT blocks", raw.reserved_gdt_blocks.get());
    lines.add("Blocks per group", geometry.blocks_per_group);
    lines.add(groups, raw.clusters_per_group.get());
    lines.add("Inodes per group", geometry.inodes_per_group);
    let in_block = geometry.block_size / u32::from(geometry.inode_size).max(1);
    let table = geometry.inodes_per_group.div_ceil(in_block.max(1));
    lines.add("Inode blocks per group", table);
    lines.add_unless_zero("First meta block group", raw.first_meta_bg.get());
    lines.add_unless_zero("RAID stride", raw.raid_stride.get());
    lines.add_unless_zero("RAID stripe width", raw.raid_stripe_width.get());
    if raw.log_groups_per_flex > 0 {
        lines.add(
            "Flex block group size",
            1_u64 << raw.log_groups_per_flex.min(31),
        );
    }
}

fn history(lines: &mut Lines, raw: &RawSuperblock) {
    if raw.mkfs_time() > 0 {
        lines.add("Filesystem created", time(raw.mkfs_time()));
    }
    let mounted = match raw.mount_time() {
        0 => "n/a".to_owned(),
        seconds => time(seconds),
    };
    lines.add("Last mount time", mounted);
    lines.add("Last write time", time(raw.write_time()));
    lines.add("Mount count", raw.mnt_count.get());
    lines.add("Maximum mount count", raw.max_mnt_count.get().cast_signed());
    let checked = u64::from(raw.lastcheck_hi) << 32 | u64::from(raw.lastcheck.get());
    lines.add("Last checked", time(checked));
    let interval = raw.checkinterval.get();
    lines.add(
        "Check interval",
        format!("{interval} ({})", interval_text(interval)),
    );
    if interval > 0 {
        let next = checked.saturating_add(interval.into());
        lines.add("Next check after", time(next));
    }
    match raw.kbytes_written.get() {
        0 => {}
        kib => lines.add("Lifetime writes", written(kib)),
    }
    let host = Accounts::of(&Host);
    let (uid, gid) = (raw.def_resuid.get(), raw.def_resgid.get());
    let user = host
        .user_name(uid.into())
        .map_or_else(|| "unknown)".into(), |n| format!("user {n})"));
    let group = host
        .group_name(gid.into())
        .map_or_else(|| "unknown)".into(), |n| format!("group {n})"));
    lines.add("Reserved blocks uid", format!("{uid} ({user}"));
    lines.add("Reserved blocks gid", format!("{gid} ({group}"));
}

/// `2 weeks`, `1 day, 1:00:00`.
fn interval_text(seconds: u32) -> String {
    if seconds == 0 {
        return "<none>".to_owned();
    }
    let (mut rest, mut parts) = (seconds, Vec::new());
    for (unit, name) in UNITS {
        match rest / unit {
            0 => {}
            1 => parts.push(format!("1 {name}")),
            n => parts.push(format!("{n} {name}s")),
        }
        rest %= unit;
    }
    if rest > 0 {
        parts.push(format!(
            "{}:{:02}:{:02}",
            rest / 3600,
            rest / 60 % 60,
            rest % 60
        ));
    }
    parts.join(", ")
}

/// KiB in the unit that suits them, rounded.
fn written(kib: u64) -> String {
    let in_unit = |shift: u32| kib.saturating_add(1 << (shift - 1)) >> shift;
    match kib {
        _ if kib < 1 << 13 => format!("{kib} kB"),
        _ if kib < 1 << 23 => format!("{} MB", in_unit(10)),
        _ if kib < 1 << 33 => format!("{} GB", in_unit(20)),
        _ => format!("{} TB", in_unit(30)),
    }
}

fn files(lines: &mut Lines, sb: &Superblock) {
    let raw = &sb.raw;
    if raw.rev_level.get() >= 1 {
        lines.add("First inode", raw.first_ino.get());
        // The original has a tab here.
        let size = format!("Inode size:\t          {}\n", raw.inode_size.get());
        lines.bytes.extend_from_slice(size.as_bytes());
        lines.add_unless_zero("Required extra isize", raw.min_extra_isize.get());
        lines.add_unless_zero("Desired extra isize", raw.want_extra_isize.get());
    }
    if raw.journal_uuid != [0; 16] {
        lines.add("Journal UUID", uuid(&raw.journal_uuid));
    }
    lines.add_unless_zero("Journal inode", raw.journal_inum.get());
    if raw.journal_dev.get() != 0 {
        lines.add("Journal device", format!("0x{:04x}", raw.journal_dev.get()));
    }
    lines.add_unless_zero("First orphan inode", raw.last_orphan.get());
    let seed: Vec<u8> = raw
        .hash_seed
        .iter()
        .flat_map(|word| word.get().to_le_bytes())
        .collect();
    let seed: [u8; 16] = seed.try_into().unwrap_or_default();
    if raw.compat().contains(Compat::DIR_INDEX) || seed != [0; 16] {
        let hash = HASHES.get(usize::from(raw.def_hash_version));
        lines.add("Default directory hash", hash.unwrap_or(&"unknown"));
        lines.add("Directory Hash Seed", uuid(&seed));
    }
    match raw.jnl_backup_type {
        0 => {}
        1 => lines.add("Journal backup", "inode blocks"),
        other => lines.add("Journal backup", format!("type {other}")),
    }
    if raw.backup_bgs.iter().any(|group| group.get() > 0) {
        let groups = raw.backup_bgs.iter().map(|g| g.get()).filter(|g| *g > 0);
        lines.add(
            "Backup block groups",
            format!("{} ", joined(groups, "(none)")),
        );
    }
    if raw.snapshot_inum.get() > 0 {
        lines.add("Snapshot inode", raw.snapshot_inum.get());
        lines.add("Snapshot ID", raw.snapshot_id.get());
        lines.add(
            "Snapshot reserved blocks",
            raw.snapshot_r_blocks_count.get(),
        );
        lines.add_unless_zero("Snapshot list head", raw.snapshot_list.get());
    }
}

fn errors(lines: &mut Lines, raw: &RawSuperblock) {
    lines.add_unless_zero("FS Error count", raw.error_count.get());
    let Some(first) = raw.first_error() else {
        return;
    };
    let wide = |low: u32, high: u8| u64::from(high) << 32 | u64::from(low);
    let last = ErrorRecord {
        time: wide(raw.last_error_time.get(), raw.last_error_time_hi),
        ino: uext4::unstable::ondisk::Ino(raw.last_error_ino.get()),
        block: raw.last_error_block.get(),
        func: raw.last_error_func,
        line: raw.last_error_line.get(),
        errcode: raw.last_error_errcode,
    };
    for (which, error) in [("First", first), ("Last", last)] {
        if error.time == 0 {
            continue;
        }
        lines.add(&format!("{which} error time"), time(error.time));
        lines.add_bytes(&format!("{which} error function"), text_of(&error.func));
        lines.add(&format!("{which} error line #"), error.line);
        lines.add_unless_zero(&format!("{which} error inode #"), error.ino.0);
        lines.add_unless_zero(&format!("{which} error block #"), error.block);
    }
}

fn rest(lines: &mut Lines, sb: &Superblock) {
    let raw = &sb.raw;
    if sb.incompat.contains(Incompat::MMP) {
        lines.add("MMP block number", raw.mmp_block.get());
        lines.add("MMP update interval", raw.mmp_update_interval.get());
    }
    lines.add_unless_zero("User quota inode", raw.usr_quota_inum.get());
    lines.add_unless_zero("Group quota inode", raw.grp_quota_inum.get());
    lines.add_unless_zero("Project quota inode", raw.prj_quota_inum.get());
    if sb.ro_compat.contains(RoCompat::METADATA_CSUM) {
        lines.add("Checksum type", "crc32c");
        lines.add("Checksum", format!("0x{:08x}", raw.checksum.get()));
    }
    if sb.incompat.contains(Incompat::CSUM_SEED) {
        lines.add(
            "Checksum seed",
            format!("0x{:08x}", raw.checksum_seed.get()),
        );
    }
    if sb.incompat.contains(Incompat::CASEFOLD) {
        lines.add(
            "Character encoding",
            if raw.encoding.get() == 1 {
                "utf8-12.1"
            } else {
                "unknown"
            },
        );
    }
    if sb.compat.contains(Compat::ORPHAN_FILE) {
        lines.add("Orphan file inode", raw.orphan_file_inum.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_in_words() {
        for (seconds, text) in [
            (0, "<none>"),
            (7, "0:00:07"),
            (90_000, "1 day, 1:00:00"),
            (604_800, "1 week"),
            (15_552_000, "6 months"),
            (31_536_000, "12 months, 5 days"),
        ] {
            assert_eq!(interval_text(seconds), text);
        }
    }

    #[test]
    fn lifetime_writes_are_rounded() {
        for (kib, text) in [
            (5000, "5000 kB"),
            (1_000_000, "977 MB"),
            (12_345_678, "12 GB"),
            (1_234_567_890, "1177 GB"),
            (1_234_567_890_123, "1150 TB"),
        ] {
            assert_eq!(written(kib), text);
        }
    }

    #[test]
    fn mount_options_have_names() {
        assert_eq!(mount_options(0), "(none)");
        assert_eq!(mount_options(0xc), "user_xattr acl");
        assert_eq!(mount_options(0xa1), "journal_data debug MNTOPT_7");
    }
}

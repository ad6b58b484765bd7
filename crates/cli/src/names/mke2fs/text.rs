//! What mke2fs prints.

use std::fmt::Write;
use uext4::unstable::ondisk::{GroupNo, Superblock};
use uuid::Uuid;

/// Columns of the places of backups, without the tab before them.
const COLUMNS: usize = 71;

/// What is said of a file or device that was there.
pub const DISCARDED: &str = "Discarding device blocks: done                            \n";

/// The types, as `-v` lists them.
pub fn types(types: &[String]) -> String {
    let quoted: Vec<String> = types.iter().map(|name| format!("'{name}'")).collect();
    format!(
        "fs_types for mke2fs.conf resolution: {}\n",
        quoted.join(", ")
    )
}

/// How large the file system is, and where its backups are.
pub fn plan(sb: &Superblock) -> String {
    let geometry = &sb.geometry;
    format!(
        "Creating filesystem with {} {}k blocks and {} inodes\n{}",
        geometry.blocks_count,
        geometry.block_size / 1024,
        geometry.inodes_count,
        backups(sb)
    )
}

/// The UUID and the places of backups, if there are some.
pub fn backups(sb: &Superblock) -> String {
    let geometry = &sb.geometry;
    let groups = (1..geometry.groups_count).map(GroupNo);
    let places = groups.filter(|group| geometry.has_super(*group));
    let places: Vec<String> = places
        .map(|group| geometry.group_first_block(group).0.to_string())
        .collect();
    if geometry.groups_count < 2 {
        return String::new();
    }
    let uuid = Uuid::from_bytes(sb.raw.uuid);
    let mut text = format!("Filesystem UUID: {uuid}\nSuperblock backups stored on blocks: \n\t");
    let mut column = 0;
    for (n, place) in places.iter().enumerate() {
        if n > 0 {
            text += ", ";
            column += 2;
            if column + place.len() > COLUMNS {
                text += "\n\t";
                column = 0;
            }
        }
        text += place;
        column += place.len();
    }
    text.push('\n');
    text
}

/// What `-v` prints of the superblock.
pub fn details(sb: &Superblock) -> String {
    let (raw, geometry) = (&sb.raw, &sb.geometry);
    let mut text = String::new();
    let label = String::from_utf8_lossy(raw.label());
    let size = geometry.block_size;
    let log = size.trailing_zeros().saturating_sub(10);
    let reserved = raw.reserved_blocks_count();
    let share = 100.0 * reserved as f64 / geometry.blocks_count.max(1) as f64;
    let _ = writeln!(text, "Filesystem label={label}\nOS type: Linux");
    let _ = writeln!(
        text,
        "Block size={size} (log={log})\nFragment size={size} (log={log})"
    );
    let (stride, width) = (raw.raid_stride.get(), raw.raid_stripe_width.get());
    let _ = writeln!(text, "Stride={stride} blocks, Stripe width={width} blocks");
    let _ = writeln!(
        text,
        "{} inodes, {} blocks",
        geometry.inodes_count, geometry.blocks_count
    );
    let _ = writeln!(
        text,
        "{reserved} blocks ({share:.2}%) reserved for the super user"
    );
    let _ = writeln!(text, "First data block={}", geometry.first_data_block);
    let groups = geometry.groups_count;
    let _ = writeln!(
        text,
        "{groups} block group{}",
        if groups > 1 { "s" } else { "" }
    );
    let (blocks, clusters) = (geometry.blocks_per_group, raw.clusters_per_group.get());
    let _ = writeln!(
        text,
        "{blocks} blocks per group, {clusters} fragments per group"
    );
    let _ = writeln!(text, "{} inodes per group", geometry.inodes_per_group);
    text
}

/// What was done, behind the heading.
pub fn steps(sb: &Superblock, copied: bool) -> String {
    let mut text = "Allocating group tables: done                            \n\
                    Writing inode tables: done                            \n"
        .to_owned();
    if sb.journal_ino().is_some() {
        let bytes =
            u64::from(sb.raw.jnl_blocks[15].get()) << 32 | u64::from(sb.raw.jnl_blocks[16].get());
        let blocks = bytes / u64::from(sb.geometry.block_size).max(1);
        let _ = writeln!(text, "Creating journal ({blocks} blocks): done");
    }
    if copied {
        text += "Copying files into the device: done\n";
    }
    text + "Writing superblocks and filesystem accounting information: done\n\n"
}

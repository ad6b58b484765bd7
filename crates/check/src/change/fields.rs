//! Fields of the superblock that mean nothing for the rest of the image.

use super::{ChangeError, Reserved, Result, Tuning};
use uext4_ondisk::{Compat, ErrorsBehaviour, RawSuperblock, Superblock};

/// Bytes of a label at most.
const LABEL_MAX: usize = 16;
/// Bytes of mount options and of a directory at most: a zero ends them.
const TEXT_MAX: usize = 63;
/// Percent of the blocks that may be reserved at most.
const RESERVED_MAX: f64 = 50.0;

/// Makes the changes that are asked for in `raw`.
///
/// # Errors
/// A value that can't be.
pub(super) fn change(tuning: &Tuning, sb: &Superblock, raw: &mut RawSuperblock) -> Result<()> {
    if let Some(label) = &tuning.label {
        if label.len() > LABEL_MAX {
            let len = label.len();
            return Err(ChangeError::refused(format!(
                "a label has at most {LABEL_MAX} bytes, not {len}"
            )));
        }
        raw.set_label(label);
    }
    if let Some(uuid) = tuning.uuid {
        if sb.compat.contains(Compat::STABLE_INODES) {
            return Err(ChangeError::refused(
                "the UUID of a file system with stable_inodes can't change, as keys of encrypted files follow from it",
            ));
        }
        raw.uuid = uuid;
    }
    if let Some(reserved) = tuning.reserved {
        raw.set_reserved_blocks_count(blocks_of(reserved, sb)?);
    }
    if let Some(id) = tuning.reserved_user {
        raw.def_resuid = id.into();
    }
    if let Some(id) = tuning.reserved_group {
        raw.def_resgid = id.into();
    }
    if let Some(errors) = tuning.errors {
        raw.errors = match errors {
            ErrorsBehaviour::Continue => 1,
            ErrorsBehaviour::RemountRo => 2,
            ErrorsBehaviour::Panic => 3,
        }
        .into();
    }
    let (set, clear) = tuning.default_options;
    raw.default_mount_opts = (raw.default_mount_opts.get() & !clear | set).into();
    if let Some(options) = &tuning.mount_options {
        raw.mount_opts = text("mount options", options)?;
    }
    if let Some(mounts) = tuning.max_mounts {
        // As a signed number, which is how it is kept.
        raw.max_mnt_count = if mounts == 0 { u16::MAX } else { mounts }.into();
    }
    if let Some(seconds) = tuning.check_interval {
        raw.checkinterval = seconds.into();
    }
    if let Some(mounts) = tuning.mount_count {
        raw.mnt_count = mounts.into();
    }
    if let Some(time) = tuning.last_check {
        raw.set_lastcheck_time(time);
    }
    if let Some(dir) = &tuning.last_mounted {
        raw.last_mounted = text("a directory", dir)?;
    }
    if let Some(hash) = tuning.hash {
        raw.def_hash_version = hash as u8;
    }
    if let Some(blocks) = tuning.stride {
        raw.raid_stride = blocks.into();
    }
    if let Some(blocks) = tuning.stripe_width {
        raw.raid_stripe_width = blocks.into();
    }
    Ok(())
}

/// A text with zeros behind it.
fn text(what: &str, text: &[u8]) -> Result<[u8; 64]> {
    if text.len() > TEXT_MAX {
        let len = text.len();
        let verb = if what.ends_with('s') { "have" } else { "has" };
        return Err(ChangeError::refused(format!(
            "{what} {verb} at most {TEXT_MAX} bytes, not {len}"
        )));
    }
    let mut bytes = [0; 64];
    for (to, from) in bytes.iter_mut().zip(text) {
        *to = *from;
    }
    Ok(bytes)
}

fn blocks_of(reserved: Reserved, sb: &Superblock) -> Result<u64> {
    let all = sb.geometry.blocks_count;
    let blocks = match reserved {
        Reserved::Blocks(blocks) => blocks,
        Reserved::Percent(percent) if (0.0..=RESERVED_MAX).contains(&percent) => {
            (all as f64 * percent / 100.0) as u64
        }
        Reserved::Percent(_) => u64::MAX,
    };
    if blocks > all / 2 {
        return Err(ChangeError::refused(
            "at most half of the blocks can be reserved",
        ));
    }
    Ok(blocks)
}

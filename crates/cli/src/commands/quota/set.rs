//! Setting limits and grace times.

use super::owner::{Owner, image_of, quotas};
use crate::accounts::Accounts;
use crate::diagnostics;
use crate::images::Images;
use crate::size;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::time::Duration;
use uext4::{QuotaKind, QuotaLimits};

/// Set the limits of owners; those that are not given stay
///
/// Space is in bytes, or with K, M, G or T, where setquota(8) counts KiB. It is rounded up to KiB.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    uext4 quota set disk.img user:1000 --blocks-soft 1G --blocks-hard 2G\n  \
    uext4 quota set disk.img group:staff project:7 --blocks-hard 0    no limit")]
pub struct Args {
    /// Soft limit of space, in bytes; 0: no limit
    #[arg(long, visible_alias = "space-soft", value_name = "SIZE", value_parser = size::parse)]
    blocks_soft: Option<u64>,
    /// Hard limit of space, in bytes; 0: no limit
    #[arg(long, visible_alias = "space-hard", value_name = "SIZE", value_parser = size::parse)]
    blocks_hard: Option<u64>,
    /// Soft limit of inodes; 0: no limit
    #[arg(long, value_name = "NUMBER")]
    inodes_soft: Option<u64>,
    /// Hard limit of inodes; 0: no limit
    #[arg(long, value_name = "NUMBER")]
    inodes_hard: Option<u64>,
    /// The image
    image: PathBuf,
    /// user:NAME, group:NAME or project:NUMBER; names are those of the image's own /etc/passwd and /etc/group
    #[arg(required = true, value_name = "OWNER")]
    owners: Vec<Owner>,
}

/// Set how long soft limits may be exceeded
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: uext4 quota grace disk.img --blocks 3d --inodes 12h   users; -g groups"
)]
pub struct GraceArgs {
    /// Of users (default)
    #[arg(long, short)]
    user: bool,
    /// Of groups
    #[arg(long, short)]
    group: bool,
    /// Of projects
    #[arg(long, short = 'P')]
    project: bool,
    /// The soft limit of space: seconds, or a number with m, h, d or w
    #[arg(long, value_name = "TIME", value_parser = time)]
    blocks: Option<Duration>,
    /// That of inodes
    #[arg(long, value_name = "TIME", value_parser = time)]
    inodes: Option<Duration>,
    /// The image
    image: PathBuf,
}

/// `90`, `30m`, `12h`, `7d`, `2w`.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time: give seconds, or a number with m, h, d or w");
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd', 'w']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let unit = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => 1,
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(unit).filter(|s| *s <= u32::MAX.into());
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

pub fn run(args: &Args) -> Result<()> {
    let wanted = [
        args.blocks_soft,
        args.blocks_hard,
        args.inodes_soft,
        args.inodes_hard,
    ];
    if wanted.iter().all(Option::is_none) {
        bail!("quota set: give a limit, such as --blocks-hard 2G");
    }
    let mut images = Images::default();
    let name = image_of(&args.image);
    let image = images.get(&name, true)?;
    let accounts = Accounts::of(&*image);
    for owner in &args.owners {
        let id = owner.id(&accounts)?;
        let quotas = quotas(&image, owner.kind)?;
        let before = quotas.owners.iter().find(|of| of.id == id);
        let limits = QuotaLimits {
            space_soft: before.map_or(0, |of| of.space.soft),
            space_hard: before.map_or(0, |of| of.space.hard),
            inodes_soft: before.map_or(0, |of| of.inodes.soft),
            inodes_hard: before.map_or(0, |of| of.inodes.hard),
        };
        let limits = QuotaLimits {
            space_soft: args.blocks_soft.unwrap_or(limits.space_soft),
            space_hard: args.blocks_hard.unwrap_or(limits.space_hard),
            inodes_soft: args.inodes_soft.unwrap_or(limits.inodes_soft),
            inodes_hard: args.inodes_hard.unwrap_or(limits.inodes_hard),
        };
        let is_above = |soft: u64, hard: u64| hard != 0 && soft > hard;
        if is_above(limits.space_soft, limits.space_hard)
            || is_above(limits.inodes_soft, limits.inodes_hard)
        {
            bail!("quota set: a soft limit is above the hard one");
        }
        image
            .fs()
            .set_quota(owner.kind, id, &limits)
            .map_err(|e| diagnostics::opening_to_write(&name, &e))?;
    }
    drop(image);
    images.close()
}

pub fn run_grace(args: &GraceArgs) -> Result<()> {
    if args.blocks.is_none() && args.inodes.is_none() {
        bail!("quota grace: give a time, such as --blocks 7d");
    }
    let all = [
        (QuotaKind::User, args.user || !(args.group || args.project)),
        (QuotaKind::Group, args.group),
        (QuotaKind::Project, args.project),
    ];
    let mut images = Images::default();
    let name = image_of(&args.image);
    let image = images.get(&name, true)?;
    for (kind, _) in all.into_iter().filter(|(_, wanted)| *wanted) {
        let before = quotas(&image, kind)?;
        let space = args.blocks.unwrap_or(before.space_grace);
        let inodes = args.inodes.unwrap_or(before.inode_grace);
        image
            .fs()
            .set_quota_grace(kind, space, inodes)
            .map_err(|e| diagnostics::opening_to_write(&name, &e))?;
    }
    drop(image);
    images.close()
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("90", 90), ("2m", 120), ("1h", 3600), ("2w", 1_209_600)] {
            assert_eq!(time(text).map(|t| t.as_secs()), Ok(seconds));
        }
        assert!(
            ["", "d", "1y", "-1", "9999999d"]
                .iter()
                .all(|t| time(t).is_err())
        );
    }
}

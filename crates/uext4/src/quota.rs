//! Quotas of an open image.

use crate::filesystem::Filesystem;
use crate::operation;
use std::time::{Duration, SystemTime};
use uext4_ext4::{QuotaLimits, QuotaSettings};
use uext4_ondisk::{QUOTA_SPACE_UNIT, QuotaEntry, QuotaKind};
use uext4_vfs::Result;

/// How much of a resource an owner has, and may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QuotaUsage {
    /// Bytes or inodes in use.
    pub used: u64,
    /// The most for longer than the grace time, 0 for any.
    pub soft: u64,
    /// The most, 0 for any.
    pub hard: u64,
    /// When the grace time ends, if the soft limit is exceeded.
    pub grace_end: Option<SystemTime>,
}

/// What an owner has, and may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OwnerQuota {
    /// The number of the user, group or project.
    pub id: u32,
    /// Space, in bytes.
    pub space: QuotaUsage,
    /// Inodes.
    pub inodes: QuotaUsage,
}

/// What the owners of one kind have.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Quotas {
    /// Users, groups or projects.
    pub kind: QuotaKind,
    /// Whether limits are enforced.
    pub enforced: bool,
    /// How long the soft limit of space may be exceeded.
    pub space_grace: Duration,
    /// How long that of inodes may be.
    pub inode_grace: Duration,
    /// Every owner that has an entry, by its number.
    pub owners: Vec<OwnerQuota>,
}

impl From<QuotaEntry> for OwnerQuota {
    fn from(entry: QuotaEntry) -> OwnerQuota {
        let time = |seconds: u64| match seconds {
            0 => None,
            seconds => SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)),
        };
        let bytes = |units: u64| units.saturating_mul(QUOTA_SPACE_UNIT);
        OwnerQuota {
            id: entry.id,
            space: QuotaUsage {
                used: entry.space,
                soft: bytes(entry.space_soft),
                hard: bytes(entry.space_hard),
                grace_end: time(entry.space_time),
            },
            inodes: QuotaUsage {
                used: entry.inodes,
                soft: entry.inodes_soft,
                hard: entry.inodes_hard,
                grace_end: time(entry.inode_time),
            },
        }
    }
}

impl Filesystem {
    /// What the owners of a kind have, and may have; `None` if the image keeps no such quotas (features `quota`, and for projects
    /// `project`).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # let options = uext4::MkfsOptions::new().size(16 << 20).features("quota")?;
    /// # uext4::mkfs(&image, &options, &uext4::NoProgress)?;
    /// use uext4::{Filesystem, ImageOptions, QuotaKind, QuotaLimits};
    ///
    /// let fs = Filesystem::open(&image, &ImageOptions::read_write())?;
    /// let mut limits = QuotaLimits::default();
    /// limits.space_hard = 1 << 20;
    /// fs.set_quota(QuotaKind::User, 1000, &limits)?;
    /// let quotas = fs.quotas(QuotaKind::User).expect("the feature quota");
    /// let owner = quotas.owners.iter().find(|owner| owner.id == 1000);
    /// assert_eq!(owner.expect("an entry").space.hard, 1 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn quotas(&self, kind: QuotaKind) -> Option<Quotas> {
        let report = self.session.mount.fs().quota(kind)?;
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        Some(Quotas {
            kind,
            enforced: report.enforced,
            space_grace: seconds(report.space_grace),
            inode_grace: seconds(report.inode_grace),
            owners: report.entries.into_iter().map(OwnerQuota::from).collect(),
        })
    }

    /// Sets the limits of an owner; 0 for none. What it has more than that stays, and it can't have more.
    ///
    /// # Locks
    /// Waits for changes that run.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the image keeps no such quotas. `EINVAL`: all ones are not an owner. `ERANGE`: a limit above 2^63 - 1. `EROFS`. `EBUSY`: it is frozen. `ENOSPC`: the quota file finds no space.
    ///
    /// # Crash
    /// The limits are those before or those after.
    pub fn set_quota(&self, kind: QuotaKind, id: u32, limits: &QuotaLimits) -> Result<()> {
        self.change_quota(kind, &QuotaSettings::Limits(id, *limits))
    }

    /// Sets how long soft limits of a kind of owners may be exceeded, in whole seconds. Times that run are not changed.
    ///
    /// # Errors
    /// As [`Filesystem::set_quota`]; `EINVAL`: more than 2^32 seconds.
    pub fn set_quota_grace(
        &self,
        kind: QuotaKind,
        space: Duration,
        inodes: Duration,
    ) -> Result<()> {
        let seconds = |time: Duration| u32::try_from(time.as_secs());
        match (seconds(space), seconds(inodes)) {
            (Ok(space), Ok(inodes)) => {
                self.change_quota(kind, &QuotaSettings::Grace(space, inodes))
            }
            _ => Err(uext4_vfs::Errno::EINVAL.into()),
        }
    }

    fn change_quota(&self, kind: QuotaKind, settings: &QuotaSettings) -> Result<()> {
        operation::run("set_quota", None, b"", || {
            self.session.mount.fs().set_quota(kind, settings)
        })
    }
}

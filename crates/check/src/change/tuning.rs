//! What is asked for.

use uext4_ondisk::{Compat, ErrorsBehaviour, Feature, HashVersion, QuotaKind};

/// Blocks that only the reserved user may take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reserved {
    /// So many.
    Blocks(u64),
    /// A share of all, 0 to 50.
    Percent(f64),
}

/// Settings to change. The default changes nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tuning {
    /// The label, at most 16 bytes.
    pub label: Option<Vec<u8>>,
    /// The UUID.
    pub uuid: Option<[u8; 16]>,
    /// Blocks that only the reserved user may take.
    pub reserved: Option<Reserved>,
    /// That user.
    pub reserved_user: Option<u16>,
    /// The group whose members may take them too.
    pub reserved_group: Option<u16>,
    /// What happens when damage is found.
    pub errors: Option<ErrorsBehaviour>,
    /// Bits of `s_default_mount_opts` to set, and to clear before.
    pub default_options: (u32, u32),
    /// Options that the kernel takes before those of mount(8), at most 63 bytes.
    pub mount_options: Option<Vec<u8>>,
    /// Mounts after which e2fsck checks the file system; 0 for never.
    pub max_mounts: Option<u16>,
    /// Seconds after which e2fsck checks the file system; 0 for never.
    pub check_interval: Option<u32>,
    /// Mounts since the last check.
    pub mount_count: Option<u16>,
    /// When the file system was last checked, in seconds since 1970.
    pub last_check: Option<u64>,
    /// The directory that it was last mounted at, at most 63 bytes.
    pub last_mounted: Option<Vec<u8>>,
    /// How names in new hash trees are hashed.
    pub hash: Option<HashVersion>,
    /// Blocks that one disk of a RAID holds in a row.
    pub stride: Option<u16>,
    /// Blocks of a stripe.
    pub stripe_width: Option<u32>,
    /// Features to enable or to disable, in this order.
    pub features: Vec<(Feature, bool)>,
    /// Kinds of owners to count, or not to count any more, after the features are as they are to be.
    pub quotas: Vec<(QuotaKind, bool)>,
    /// Bytes of an inode, more than there are.
    pub inode_size: Option<u16>,
    /// Blocks of a new journal; by mke2fs's table if not given.
    pub journal_blocks: Option<u32>,
}

impl Tuning {
    /// Whether a feature is to be enabled or disabled, if either.
    pub fn sets(&self, feature: Feature) -> Option<bool> {
        let mut all = self.features.iter().rev();
        all.find(|(f, _)| *f == feature).map(|(_, on)| *on)
    }

    /// Whether it makes a journal.
    pub fn adds_journal(&self) -> bool {
        let journal = Feature::Compat(Compat::HAS_JOURNAL);
        self.features.contains(&(journal, true))
    }
}

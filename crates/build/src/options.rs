//! What can be asked of an image.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use uext4_ondisk::{CRC_INIT, ErrorsBehaviour, QuotaKind, crc32c};
use uuid::Uuid;

use crate::error::{MkfsError, Result};
use crate::features::FeatureSet;
use crate::fs_verity;
use crate::id_range::IdRange;
use crate::input::Input;
use crate::verity::{self, VerityOptions};

/// Most bytes that archives expand to, unless an option says otherwise.
const LIMIT_DEFAULT: u64 = 64 << 30;
/// The most blocks and inodes of a group.
const GROUP_MAX: u32 = 65528;

/// Room for later changes in an image whose size follows from a tree.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Spare {
    /// For an image that stays as it is: 5 % of blocks and inodes, and a journal only if the size that
    /// follows has one in mke2fs's table.
    #[default]
    Compact,
    /// Percent of the blocks of the tree. The image is large enough for a journal, and has a quarter more
    /// inodes than the tree, at least 1000 more, and at least one for each `inode_ratio` bytes.
    Percent(f64),
    /// As [`Spare::Percent`], but so many bytes.
    Bytes(u64),
}

/// What can be asked of an image. The default is an empty file system as mke2fs makes it; at least
/// `size` or `from` has to be set.
#[derive(Clone, Debug)]
pub struct MkfsOptions {
    /// Bytes of the image; `None` with `from` means as many as the tree needs and `spare`.
    pub size: Option<u64>,
    /// Where `size` is too small, a size that suffices is searched for: [`MkfsError::TooSmall`] has it.
    pub find_size: bool,
    /// What an image whose size follows from a tree has beyond it.
    pub spare: Spare,
    /// Bytes of a block: a power of two from 1024 to 65536. Linux mounts more than a page, 4096 on x86, since version 6.19.
    pub block_size: u32,
    /// Bytes of a cluster, with the feature `bigalloc`: a power of two from the block size to 128 MiB; `None` means 16 blocks.
    pub cluster_size: Option<u32>,
    /// Bytes of an inode: a power of two from 128 to the block size.
    pub inode_size: u16,
    /// Number of inodes, rounded to fill the inode tables; `None` takes it from `inode_ratio`, or from
    /// the tree if that needs more or the size follows from it.
    pub inodes: Option<u32>,
    /// Bytes of the image for every inode.
    pub inode_ratio: u32,
    /// Features.
    pub features: FeatureSet,
    /// The kinds of owners whose quotas are kept with the feature `quota`; `None` means users, groups, and projects with
    /// the feature `project`.
    pub quota_kinds: Option<Vec<QuotaKind>>,
    /// Bytes of the journal; `None` takes mke2fs's table.
    pub journal_size: Option<u64>,
    /// UUID; `None` makes a random one.
    pub uuid: Option<Uuid>,
    /// Label of at most 16 bytes.
    pub label: String,
    /// Share of the blocks kept for root, in percent, 0 to 50; `None` means 5, or 0 for an image
    /// whose size follows from a tree.
    pub reserved_percent: Option<f64>,
    /// Time of creation in seconds since 1970, as `SOURCE_DATE_EPOCH` has it; `None` means now. With a
    /// time given the image is to be reproducible: what a tree's file was changed at is that time at
    /// the latest, and its other times, which no copy of the tree keeps, are the same.
    pub time: Option<i64>,
    /// Blocks of a group, with `bigalloc` clusters, a multiple of 8 from 256 to the bits of a block; `None` means the most. Groups are
    /// smaller where there would be too few for the inodes.
    pub blocks_per_group: Option<u32>,
    /// Groups whose metadata lies together, a power of two.
    pub flex_bg_size: u32,
    /// All of the image gets its space on the host, not just what is written and the journal.
    pub preallocate: bool,
    /// What to fill the image with, in order: a later source replaces names of an earlier one.
    pub from: Vec<Input>,
    /// Most bytes that all archives in [`MkfsOptions::from`] together may expand to.
    pub limit: u64,
    /// Directory of the host for what of archives can't be read twice, in a file without a name; `None` means the
    /// host's directory for temporary files.
    pub spool: Option<PathBuf>,
    /// Which of several platforms' container images is meant, `os/architecture` or `os/architecture/variant`; `None` means Linux on
    /// this machine's.
    pub platform: Option<String>,
    /// Threads that read the tree and write the image; 0 means one for each CPU.
    pub threads: usize,
    /// Patterns of what is left out, with all below it: one with a slash matches paths from the root of the image, one without names at
    /// any depth. Files that have a name that is not left out keep it.
    pub exclude: Vec<String>,
    /// Users of the image, by those of the sources; without ranges, they are the same.
    pub map_uid: Vec<IdRange>,
    /// Groups of the image, by those of the sources; without ranges, they are the same.
    pub map_gid: Vec<IdRange>,
    /// A file with owners, permission, attributes of files, and files to make.
    pub manifest: Option<PathBuf>,
    /// A file of labels of SELinux, by regular expressions of paths.
    pub contexts: Option<PathBuf>,
    /// Patterns, as [`MkfsOptions::exclude`] has them, of regular files that get fs-verity.
    pub fsverity: Vec<String>,
    /// User and group that own everything, instead of those of the tree.
    pub owner: Option<(u32, u32)>,
    /// User and group that own the root directory.
    pub root_owner: Option<(u32, u32)>,
    /// What happens when damage is found.
    pub errors: ErrorsBehaviour,
    /// Directory that the file system was last mounted at, at most 63 bytes.
    pub last_mounted: String,
    /// Seed of name hashes; `None` derives it from a UUID that is given, else it is random.
    pub hash_seed: Option<Uuid>,
    /// Blocks of a stripe of a RAID that are on one disk; 0 means unknown.
    pub stride: u16,
    /// Blocks of a stripe of a RAID; 0 means unknown.
    pub stripe_width: u32,
    /// Names that are not UTF-8 are refused in directories that ignore case, with the feature `casefold`.
    pub strict_names: bool,
    /// A hash tree of dm-verity behind the image.
    pub verity: Option<VerityOptions>,
}

impl Default for MkfsOptions {
    fn default() -> Self {
        MkfsOptions {
            size: None,
            find_size: false,
            spare: Spare::default(),
            block_size: 4096,
            cluster_size: None,
            inode_size: 256,
            inodes: None,
            inode_ratio: 16384,
            features: FeatureSet::default(),
            quota_kinds: None,
            journal_size: None,
            uuid: None,
            label: String::new(),
            reserved_percent: None,
            time: None,
            blocks_per_group: None,
            flex_bg_size: 16,
            preallocate: false,
            from: Vec::new(),
            limit: LIMIT_DEFAULT,
            spool: None,
            platform: None,
            threads: 0,
            exclude: Vec::new(),
            map_uid: Vec::new(),
            map_gid: Vec::new(),
            manifest: None,
            contexts: None,
            fsverity: Vec::new(),
            owner: None,
            root_owner: None,
            errors: ErrorsBehaviour::Continue,
            last_mounted: String::new(),
            hash_seed: None,
            stride: 0,
            stripe_width: 0,
            strict_names: false,
            verity: None,
        }
    }
}

/// Blocks of a cluster unless an option says otherwise, and the most bytes.
const CLUSTER_BLOCKS: u32 = 16;
const CLUSTER_MAX: u32 = 128 << 20;

impl MkfsOptions {
    /// Bytes of a cluster; of a block without `bigalloc`.
    pub fn cluster_bytes(&self) -> u32 {
        self.block_size.saturating_mul(self.cluster_ratio())
    }

    /// Blocks of a cluster; 1 without `bigalloc`.
    pub(crate) fn cluster_ratio(&self) -> u32 {
        match (self.features.has_clusters(), self.cluster_size) {
            (false, _) => 1,
            (true, None) => CLUSTER_BLOCKS,
            (true, Some(bytes)) => (bytes / self.block_size).max(1),
        }
    }

    fn check_cluster(&self) -> Result<()> {
        let Some(bytes) = self.cluster_size else {
            return Ok(());
        };
        if !self.features.has_clusters() {
            let why = "one with the feature bigalloc: add it with -O bigalloc";
            return Err(MkfsError::option("cluster size", bytes, why));
        }
        if !bytes.is_power_of_two() || !(self.block_size..=CLUSTER_MAX).contains(&bytes) {
            let why = "a power of two from the block size to 128 MiB";
            return Err(MkfsError::option("cluster size", bytes, why));
        }
        Ok(())
    }

    /// The most blocks, and inodes, of a group: a bitmap has as many bits, and a descriptor counts them in 16.
    pub(crate) fn blocks_per_group_max(&self) -> u32 {
        (self.block_size * 8).min(GROUP_MAX)
    }

    /// Refuses what is out of range.
    ///
    /// # Errors
    /// [`MkfsError::Option`], and what [`FeatureSet::check`] says.
    pub fn check(&self) -> Result<()> {
        self.features.check()?;
        if !self.block_size.is_power_of_two() || !(1024..=65536).contains(&self.block_size) {
            let why = "a power of two from 1024 to 65536";
            return Err(MkfsError::option("block size", self.block_size, why));
        }
        self.check_cluster()?;
        let inode = u32::from(self.inode_size);
        if inode < 128 || !inode.is_power_of_two() || inode > self.block_size {
            let why = "a power of two from 128 to the block size";
            return Err(MkfsError::option("inode size", inode, why));
        }
        if inode == 128
            && self
                .features
                .incompat
                .contains(uext4_ondisk::Incompat::INLINE_DATA)
        {
            let why = "at least 256 with inline_data";
            return Err(MkfsError::option("inode size", inode, why));
        }
        if let Some(verity) = &self.verity {
            verity::check(verity, self.block_size)?;
        }
        fs_verity::check(&self.fsverity, self.block_size, &self.features)?;
        if self.inode_ratio < 1024 {
            return Err(MkfsError::option(
                "inode ratio",
                self.inode_ratio,
                "at least 1024",
            ));
        }
        if self.label.len() > 16 {
            return Err(MkfsError::option("label", &self.label, "at most 16 bytes"));
        }
        if !self.flex_bg_size.is_power_of_two() || self.flex_bg_size > 1 << 20 {
            let why = "a power of two up to 1048576";
            return Err(MkfsError::option("flex group size", self.flex_bg_size, why));
        }
        if let Some(n) = self.blocks_per_group
            && (!(256..=self.blocks_per_group_max()).contains(&n) || !n.is_multiple_of(8))
        {
            let why = "a multiple of 8 from 256 to 8 times the block size, and to 65528";
            return Err(MkfsError::option("group size", n, why));
        }
        if self.owner.is_some() && !(self.map_uid.is_empty() && self.map_gid.is_empty()) {
            let (uid, gid) = self.owner.unwrap_or_default();
            let why = "owners are mapped, so that files have several";
            return Err(MkfsError::option("owner", format!("{uid}:{gid}"), why));
        }
        // The field ends with a zero.
        if self.last_mounted.len() > 63 {
            let why = "at most 63 bytes";
            return Err(MkfsError::option(
                "mount directory",
                &self.last_mounted,
                why,
            ));
        }
        match self.reserved_percent {
            Some(p) if !(0.0..=50.0).contains(&p) => {
                Err(MkfsError::option("reserved share", p, "0 to 50 percent"))
            }
            _ => Ok(()),
        }
    }

    /// The number of threads to use.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n.min(256),
        }
    }

    /// What is random or read from the clock, decided once.
    pub(crate) fn identity(&self) -> Identity {
        let uuid = self.uuid.unwrap_or_else(Uuid::new_v4);
        let hash_seed = match (self.hash_seed, self.uuid) {
            (Some(seed), _) => seed,
            (None, Some(uuid)) => derived_seed(&uuid),
            (None, None) => Uuid::new_v4(),
        };
        let now = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |d| d.as_secs() as i64)
        };
        Identity {
            uuid,
            hash_seed,
            time: self.time.unwrap_or_else(now),
        }
    }
}

/// What makes one image differ from another of the same options and tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// UUID of the file system.
    pub uuid: Uuid,
    /// Seed of name hashes.
    pub hash_seed: Uuid,
    /// Time of creation.
    pub time: i64,
}

/// A seed that follows from the UUID, shaped as a random UUID so that tools can show it.
fn derived_seed(uuid: &Uuid) -> Uuid {
    let mut bytes = [0; 16];
    let mut state = CRC_INIT;
    for word in bytes.chunks_exact_mut(4) {
        state = crc32c(state ^ 0x5eed, uuid.as_bytes());
        word.copy_from_slice(&state.to_le_bytes());
    }
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_uuid_fixes_the_seed() {
        let options = MkfsOptions {
            uuid: Some(Uuid::from_u128(7)),
            time: Some(5),
            ..MkfsOptions::default()
        };
        let (a, b) = (options.identity(), options.identity());
        assert_eq!((a.hash_seed, a.time), (b.hash_seed, 5));
        assert_ne!(a.hash_seed, MkfsOptions::default().identity().hash_seed);
    }

    #[test]
    fn ranges_are_checked() {
        let with = |f: fn(&mut MkfsOptions)| {
            let mut options = MkfsOptions::default();
            f(&mut options);
            options.check()
        };
        with(|_| ()).unwrap();
        with(|o| o.block_size = 512).unwrap_err();
        with(|o| o.inode_size = 8192).unwrap_err();
        with(|o| o.reserved_percent = Some(51.0)).unwrap_err();
        with(|o| o.label = "seventeen letters".into()).unwrap_err();
        with(|o| o.blocks_per_group = Some(1024)).unwrap();
        with(|o| o.blocks_per_group = Some(1025)).unwrap_err();
        with(|o| o.blocks_per_group = Some(65536)).unwrap_err();
        with(|o| o.last_mounted = "/".repeat(64)).unwrap_err();
    }
}

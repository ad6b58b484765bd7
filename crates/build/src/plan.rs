//! An image that is planned: every place is known, nothing is written.

use uext4_ondisk::{GOOD_OLD_INODE_SIZE, GroupNo, Incompat, Ino, InodeFlags, QuotaKind, RoCompat};

use crate::error::{MkfsError, Result};
use crate::features::FeatureSet;
use crate::layout::{Layout, Request, inodes_by_ratio};
use crate::measure::{Format, Needs};
use crate::options::{Identity, MkfsOptions, Spare};
use crate::place::{Placer, Places};
use crate::quota::Owners;
use crate::source::{Data, Scan, describe};
use crate::space::Space;
use crate::system::System;
use crate::tree::{Node, NodeId, Tree};
use crate::verity::{self, BLOCK, VerityOptions};

/// Blocks that an image grows by when its last group was too short to be of use.
const GROW_MIN: u64 = 64;
/// Share of spare blocks and inodes in a compact image.
const SPARE_PERCENT: u64 = 5;
/// Fewest free inodes of an image that is not compact.
const FREE_INODES_MIN: u64 = 1000;
/// Fewest blocks of an image that gets a journal by mke2fs's table.
const JOURNALED_BLOCKS_MIN: u64 = 2048;
/// Bytes from which on a file needs `large_file`.
const LARGE_FILE: u64 = 1 << 31;
/// Attempts to find a size; each comes nearer, so that many are a bug.
const ATTEMPTS_MAX: u32 = 100_000;

/// Sizes that are tried where one is too small: each is larger than the one before by this fraction of it, so that the last is
/// 10^10 times the first.
const SIZES_MAX: u32 = 380;
const SIZE_STEP: u64 = 16;

/// An image that is planned.
#[derive(Debug)]
pub struct Plan {
    pub(crate) layout: Layout,
    pub(crate) tree: Tree,
    /// The data of the source tree.
    pub(crate) source: Option<Data>,
    pub(crate) needs: Needs,
    pub(crate) format: Format,
    pub(crate) id: Identity,
    /// Times of the tree end at the time of creation.
    pub(crate) reproducible: bool,
    pub(crate) threads: usize,
    /// All of the image gets its space on the host.
    pub(crate) preallocate: bool,
    pub(crate) system: System,
    pub(crate) places: Places,
    /// What stays free.
    pub(crate) space: Space,
    /// Directories per group; groups after the last with one are missing.
    directories: Vec<u32>,
    lost_and_found: NodeId,
    image_bytes: u64,
    pub(crate) verity: Option<VerityOptions>,
}

/// What of a plan depends on the size.
struct Fitted {
    layout: Layout,
    system: System,
    places: Places,
    space: Space,
}

impl Plan {
    /// Plans an image of `options.size` bytes, or the smallest that holds the tree and
    /// [`MkfsOptions::spare`]. [`MkfsOptions::from`] is not read here: the tree is `scan`.
    ///
    /// # Errors
    /// [`MkfsError::Option`], [`MkfsError::UnsupportedFeature`] and so on for options that can't be;
    /// [`MkfsError::NoSize`]; [`MkfsError::NoSpace`] and [`MkfsError::NoInodes`] if the tree does not
    /// fit; [`MkfsError::Unfit`] for a file that the format can't hold.
    pub fn new(options: &MkfsOptions, scan: Option<Scan>) -> Result<Plan> {
        options.check()?;
        let (mut options, id) = (options.clone(), options.identity());
        let (mut tree, source, manifest) = match scan {
            Some(scan) => (scan.tree, Some(scan.data), scan.manifest),
            None => (Tree::empty(id.time), None, None),
        };
        let lost_and_found = tree.lost_and_found(id.time);
        let lost_and_found =
            lost_and_found.map_err(|other| tree.unfit(other, "must be a directory"))?;
        describe(&options, manifest.as_ref(), &mut tree)?;
        drop_fs_verity(&mut tree, &options);
        add_features(&mut options.features, &mut tree, options.inode_size);
        let format = Format::new(&options, &id);
        let needs = Needs::of(&options, &format, &tree, lost_and_found)?;
        let fit = Fit {
            owners: Owners::of(&options, &tree),
            options: &options,
            id: &id,
            tree: &tree,
            needs: &needs,
            lost_and_found,
        };
        let (fitted, image_bytes) = match options.size {
            Some(size) => match fit.of_size(size) {
                Ok(fitted) => (fitted, size),
                Err(e) => return Err(fit.explained(e, size)),
            },
            None if source.is_none() => return Err(MkfsError::NoSize),
            None => {
                let fitted = fit.smallest()?;
                let geo = *fitted.layout.geo();
                (fitted, geo.blocks_count * u64::from(geo.block_size))
            }
        };
        let mut plan = Plan {
            layout: fitted.layout,
            system: fitted.system,
            places: fitted.places,
            space: fitted.space,
            tree,
            source,
            needs,
            format,
            id,
            reproducible: options.time.is_some(),
            threads: options.thread_count(),
            preallocate: options.preallocate,
            directories: Vec::new(),
            lost_and_found,
            image_bytes,
            verity: options.verity.clone(),
        };
        plan.count_directories();
        if options.features.has_journal() && !plan.layout.features.has_journal() {
            let warning = "image has no journal, as it is too small for one";
            plan.tree.warnings.push(warning.to_owned());
        }
        Ok(plan)
    }

    /// Bytes that the image has.
    pub fn image_bytes(&self) -> u64 {
        self.image_bytes
    }

    /// Bytes that a device for it needs: those of the image, and of a hash tree behind it.
    pub fn device_bytes(&self) -> u64 {
        match self.verity {
            Some(_) => verity::bytes_with_tree(self.image_bytes),
            None => self.image_bytes,
        }
    }

    /// The last inode in use; all before it are.
    pub(crate) fn last_ino(&self) -> Ino {
        Ino(self.places.first.0 + self.places.order.len() as u32 - 1)
    }

    /// The node that has an inode.
    pub(crate) fn node_of(&self, ino: Ino) -> Option<NodeId> {
        match ino {
            Ino::ROOT => Some(NodeId::ROOT),
            Ino::GOOD_OLD_FIRST => Some(self.lost_and_found),
            _ => {
                let i = ino.0.checked_sub(self.places.first.0)?;
                self.places.order.get(i as usize).copied()
            }
        }
    }

    /// Inodes of a group in use, the first ones.
    pub(crate) fn inodes_used(&self, g: GroupNo) -> u32 {
        let per_group = self.layout.geo().inodes_per_group;
        let before = u64::from(g.0) * u64::from(per_group);
        let used = u64::from(self.last_ino().0).saturating_sub(before);
        used.min(u64::from(per_group)) as u32
    }

    /// Directories whose inodes are in a group.
    pub(crate) fn directories_in(&self, g: GroupNo) -> u32 {
        self.directories.get(g.0 as usize).copied().unwrap_or(0)
    }

    fn count_directories(&mut self) {
        let per_group = self.layout.geo().inodes_per_group;
        let dirs = self.tree.ids().filter(|id| self.tree.node(*id).is_dir());
        for id in dirs {
            let g = (self.places.inos[id.at()].0 - 1) as usize / per_group as usize;
            if self.directories.len() <= g {
                self.directories.resize(g + 1, 0);
            }
            self.directories[g] += 1;
        }
    }
}

/// Enables the features that the files of a tree need.
fn add_features(features: &mut FeatureSet, tree: &mut Tree, inode_size: u16) {
    if ignores_case(tree) {
        features.incompat.insert(Incompat::CASEFOLD);
    }
    if has_projects(tree, inode_size) {
        features.ro_compat.insert(RoCompat::PROJECT);
    }
    if tree.nodes.iter().any(|n| n.attributes.size >= LARGE_FILE) {
        features.ro_compat.insert(RoCompat::LARGE_FILE);
    }
    if !tree.fsverity.is_empty() {
        features.ro_compat.insert(RoCompat::VERITY);
    }
}

/// Drops fs-verity that sources have and that the image can't have.
fn drop_fs_verity(tree: &mut Tree, options: &MkfsOptions) {
    let lost = tree.fsverity.len();
    let is_possible = options.block_size as usize == BLOCK
        && options.features.incompat.contains(Incompat::EXTENT);
    if !is_possible && lost > 0 {
        tree.fsverity.clear();
        let why = "it needs blocks of 4096 bytes and the feature extent";
        let warning = format!("fs-verity of files is not kept, {lost} in number: {why}");
        tree.warnings.push(warning);
    }
}

/// Whether a directory ignores case.
fn ignores_case(tree: &Tree) -> bool {
    let mut nodes = tree.nodes.iter();
    nodes.any(|node| node.attributes.flags.contains(InodeFlags::CASEFOLD))
}

/// Whether a file has a project; inodes without room for one lose theirs.
fn has_projects(tree: &mut Tree, inode_size: u16) -> bool {
    let with_project = |node: &&mut Node| node.attributes.project != 0;
    let found = tree.nodes.iter_mut().filter(with_project).count();
    if found == 0 || usize::from(inode_size) > GOOD_OLD_INODE_SIZE {
        return found > 0;
    }
    for node in &mut tree.nodes {
        node.attributes.project = 0;
    }
    let why = format!("inodes of {inode_size} bytes have no room for them");
    let warning = format!("projects of files are not kept, {found} in number: {why}");
    tree.warnings.push(warning);
    false
}

/// A number, and the spare on top of it.
fn spare(n: u64) -> u64 {
    n + (n * SPARE_PERCENT).div_ceil(100)
}

/// Fits a tree into an image.
struct Fit<'a> {
    options: &'a MkfsOptions,
    id: &'a Identity,
    tree: &'a Tree,
    needs: &'a Needs,
    lost_and_found: NodeId,
    owners: Vec<Owners>,
}

impl Fit<'_> {
    fn request(&self, blocks: u64, inodes: u64, reserved_percent: f64) -> Request {
        let percent = self.options.reserved_percent.unwrap_or(reserved_percent);
        Request {
            blocks,
            inodes: self.options.inodes.map_or(inodes, u64::from),
            reserved: (blocks as f64 * percent / 100.0) as u64,
        }
    }

    fn of_size(&self, size: u64) -> Result<Fitted> {
        let blocks = size / u64::from(self.options.block_size);
        let inodes = inodes_by_ratio(self.options, blocks).max(spare(self.inodes()));
        let request = self.request(blocks, inodes, 5.0);
        self.place(Layout::new(self.options, self.id, request)?)
    }

    /// The error of an image that is too small, with a size that suffices if [`MkfsOptions::find_size`] asks for one.
    fn explained(&self, e: MkfsError, size: u64) -> MkfsError {
        if !self.options.find_size || !matches!(e, MkfsError::NoSpace { .. }) {
            return e;
        }
        match self.suffices(size) {
            Some(suffices) => MkfsError::TooSmall {
                source: Box::new(e),
                suffices,
            },
            None => e,
        }
    }

    /// A size that is not far above the least, nor below `size`.
    fn suffices(&self, size: u64) -> Option<u64> {
        let block_size = u64::from(self.options.block_size);
        let mut size = size.max(self.least_of_tree().checked_mul(block_size)?);
        for _ in 0..SIZES_MAX {
            let more = (size / SIZE_STEP).max(1);
            size = size
                .checked_add(more)?
                .checked_next_multiple_of(block_size)?;
            match self.of_size(size) {
                Ok(_) => return Some(size),
                Err(MkfsError::NoSpace { .. }) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Blocks of the smallest image of the tree, which may hold fewer inodes than one whose size is asked for; 0 without a tree.
    fn least_of_tree(&self) -> u64 {
        if self.options.from.is_empty() {
            return 0;
        }
        let compact = MkfsOptions {
            size: None,
            spare: Spare::Compact,
            ..self.options.clone()
        };
        let least = Fit {
            options: &compact,
            owners: self.owners.clone(),
            ..*self
        };
        let fitted = least.smallest();
        fitted.map_or(0, |fitted| fitted.layout.geo().blocks_count)
    }

    /// Inodes in use: those of the tree, ten reserved ones, the orphan file, the quota file of projects.
    fn inodes(&self) -> u64 {
        let own = self.owners.iter();
        let projects = own.filter(|of| of.kind() == QuotaKind::Project).count();
        self.tree.nodes.len() as u64 + 10 + projects as u64
    }

    /// Blocks for the tree, and the least that an image has.
    fn blocks_wanted(&self) -> (u64, u64) {
        let (needed, block_size) = (self.needs.blocks, u64::from(self.options.block_size));
        let extra = match self.options.spare {
            Spare::Compact => return (spare(needed), 0),
            Spare::Percent(percent) => (needed as f64 * percent / 100.0).ceil() as u64,
            Spare::Bytes(bytes) => bytes.div_ceil(block_size),
        };
        let journaled = match self.options.journal_size {
            _ if !self.options.features.has_journal() => 0,
            Some(bytes) => bytes.div_ceil(block_size).saturating_mul(2),
            None => JOURNALED_BLOCKS_MIN,
        };
        (needed.saturating_add(extra), journaled)
    }

    /// Inodes of an image of `blocks`.
    fn inodes_wanted(&self, blocks: u64) -> u64 {
        let used = self.inodes();
        match self.options.spare {
            Spare::Compact => spare(used),
            _ => {
                (used + (used / 4).max(FREE_INODES_MIN)).max(inodes_by_ratio(self.options, blocks))
            }
        }
    }

    fn smallest(&self) -> Result<Fitted> {
        let (wanted, least) = self.blocks_wanted();
        let mut blocks = wanted.saturating_add(64).max(least);
        let mut more = 0;
        for _ in 0..ATTEMPTS_MAX {
            let inodes = self.inodes_wanted(blocks);
            let request = self.request(blocks, inodes + more, 0.0);
            let layout = match Layout::new(self.options, self.id, request) {
                Ok(layout) => layout,
                Err(MkfsError::NoSpace { .. }) => {
                    blocks += GROW_MIN;
                    continue;
                }
                Err(e) => return Err(e),
            };
            let short = inodes.saturating_sub(u64::from(layout.geo().inodes_count));
            if short > 0 && self.options.inodes.is_none() {
                // Inode counts are rounded down to whole bytes of bitmap.
                more += short.max(8);
                continue;
            }
            let cluster = u64::from(layout.geo().cluster_ratio);
            let files = [layout.journal_blocks, layout.orphan_blocks, 1].map(u64::from);
            let system: u64 = files.iter().map(|n| n.next_multiple_of(cluster)).sum();
            let missing = (wanted + system).saturating_sub(layout.space.free());
            let cut = blocks - layout.geo().blocks_count;
            if missing == 0 {
                match self.place(layout) {
                    // More extents than were guessed.
                    Err(MkfsError::NoSpace { .. }) => blocks += GROW_MIN.max(blocks / 100),
                    other => return other,
                }
            } else if cut > 0 {
                blocks += GROW_MIN.max(missing.saturating_sub(cut));
            } else {
                blocks += missing;
            }
        }
        let what = "the tree";
        Err(MkfsError::NoSpace { blocks, what })
    }

    fn place(&self, layout: Layout) -> Result<Fitted> {
        let mut space = layout.space.clone();
        let mut system = System::place(&layout, &mut space, self.id.time, &self.owners)?;
        let places = Placer::run(
            self.tree,
            self.needs,
            &layout,
            &mut space,
            self.lost_and_found,
            system.first_ino,
        )?;
        system.fill_quotas(&self.owners, &layout, self.tree, &places);
        Ok(Fitted {
            layout,
            system,
            places,
            space,
        })
    }
}

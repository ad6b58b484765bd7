//! What a tree needs in an image, before places are known.

use std::collections::HashMap;
use uext4_ondisk::{
    Compat, DirFormat, DirLayout, FileType, HashParams, HashVersion, Incompat, InodeFlags,
    NameEncoding, RoCompat, hashed_name, name_key,
};

use crate::error::{MkfsError, Result};
use crate::fs_verity;
use crate::mapping::Mapping;
use crate::options::{Identity, MkfsOptions};
use crate::tree::{Kind, NodeId, Tree};
use crate::xattrs::{self, Divided};
use crate::{blockmap, extents};

/// Most links of a file.
const LINKS_MAX: u32 = 65000;
/// Bytes that a symbolic link can keep in its inode.
const FAST_SYMLINK_MAX: u64 = 59;
/// Bytes of `lost+found`, and most blocks.
const LOST_AND_FOUND: (u32, u32) = (16 << 10, 12);

/// How the shape of directories and attributes follows from the options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Of directories.
    pub dir: DirFormat,
    /// How names are hashed.
    pub hash: HashParams,
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of an inode.
    pub inode_size: u16,
    /// Bytes of fields beyond 128.
    pub extra_isize: u16,
}

impl Format {
    /// The format that options ask for.
    pub fn new(options: &MkfsOptions, id: &Identity) -> Format {
        let features = options.features.settled();
        let mut seed = [0; 4];
        for (to, from) in seed.iter_mut().zip(id.hash_seed.as_bytes().as_chunks().0) {
            *to = u32::from_le_bytes(*from);
        }
        Format {
            dir: DirFormat {
                block_size: options.block_size as usize,
                has_tail: features.has_metadata_csum(),
                indexed: features.compat.contains(Compat::DIR_INDEX),
                large: features.incompat.contains(Incompat::LARGE_DIR),
                filetype: features.incompat.contains(Incompat::FILETYPE),
                version: HashVersion::HalfMd4,
            },
            hash: HashParams {
                seed,
                version: HashVersion::HalfMd4,
                unsigned: false,
            },
            block_size: options.block_size,
            inode_size: options.inode_size,
            extra_isize: if options.inode_size > 128 { 32 } else { 0 },
        }
    }
}

/// A range of a file's blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// First block in the file.
    pub lblk: u64,
    /// Number of blocks.
    pub len: u64,
}

/// What a tree needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// Directories of more than one block.
    pub dirs: HashMap<NodeId, DirLayout>,
    /// The tree's attributes, divided.
    pub xattrs: Vec<Divided>,
    /// Blocks of files, directories and attributes, and a guess at those of extent trees.
    pub blocks: u64,
    /// Bytes of files' data.
    pub data_bytes: u64,
}

/// The pieces of a regular file that need blocks.
pub(crate) fn pieces(tree: &Tree, id: NodeId, block_size: u32) -> impl Iterator<Item = Piece> {
    let bs = u64::from(block_size);
    let mut done = 0;
    tree.segments_of(id).filter_map(move |s| {
        // Two segments may share a block.
        let first = (s.start / bs).max(done);
        let end = s.end.div_ceil(bs);
        done = done.max(end);
        (end > first).then(|| Piece {
            lblk: first,
            len: end - first,
        })
    })
}

/// The piece of the hash tree of a regular file with fs-verity.
pub(crate) fn verity_piece(tree: &Tree, id: NodeId) -> Option<Piece> {
    let verity = tree.fsverity.get(&id)?;
    let (lblk, len) = fs_verity::blocks_of(tree.node(id).attributes.size, verity);
    Some(Piece { lblk, len })
}

/// True if the target of a symbolic link is kept in the inode.
pub(crate) fn is_fast_symlink(size: u64) -> bool {
    size <= FAST_SYMLINK_MAX
}

/// Blocks of `lost+found`: mke2fs takes one less where directories start inline, so that we do too.
fn lost_and_found_blocks(options: &MkfsOptions) -> u32 {
    let inline = options.features.incompat.contains(Incompat::INLINE_DATA);
    let blocks = (LOST_AND_FOUND.0 / options.block_size).min(LOST_AND_FOUND.1);
    // Blocks larger than the directory leave it one all the same.
    blocks.saturating_sub(u32::from(inline))
}

/// Refuses a directory that ignores case with names that are one there, or that its encoding does not accept.
fn check_folds(options: &MkfsOptions, tree: &Tree, id: NodeId) -> Result<()> {
    let encoding = NameEncoding {
        strict: options.strict_names,
    };
    let mut folds = HashMap::new();
    for entry in tree.entries_of(id) {
        let name = tree.bytes(entry.name);
        let shown = String::from_utf8_lossy(name);
        if !encoding.accepts(name) {
            let what = format!("ignores case and is strict, and `{shown}` is not UTF-8");
            return Err(tree.unfit(id, what));
        }
        if let Some(other) = folds.insert(name_key(name), name) {
            let other = String::from_utf8_lossy(other);
            let what = format!("ignores case, and has `{other}` and `{shown}`");
            return Err(tree.unfit(id, what));
        }
    }
    Ok(())
}

impl Needs {
    /// Measures a tree.
    ///
    /// # Errors
    /// [`MkfsError::Unfit`] for what the format can't hold.
    pub fn of(
        options: &MkfsOptions,
        format: &Format,
        tree: &Tree,
        lost_and_found: NodeId,
    ) -> Result<Needs> {
        let mut needs = Needs::default();
        let cluster = u64::from(options.cluster_ratio());
        if !tree.xattrs.is_empty() && !options.features.compat.contains(Compat::EXT_ATTR) {
            let what = "extended attributes need the feature ext_attr";
            return Err(MkfsError::unfit(tree.root.clone(), what));
        }
        for id in tree.ids() {
            check_links(options, tree, id)?;
            let node = tree.node(id);
            match node.kind {
                Kind::Directory(_) => {
                    let list_blocks = match id == lost_and_found {
                        true => lost_and_found_blocks(options),
                        false => 0,
                    };
                    let entries = tree.entries_of(id);
                    let name = |i: usize| tree.bytes(entries[i].name);
                    let ignores_case = node.attributes.flags.contains(InodeFlags::CASEFOLD);
                    if ignores_case {
                        check_folds(options, tree, id)?;
                    }
                    let hash = |name: &[u8]| match ignores_case {
                        true => format.hash.hash_default(&hashed_name(name)),
                        false => format.hash.hash_default(name),
                    };
                    let divided = format.dir.divide(entries.len(), &name, &hash, list_blocks);
                    let layout = divided.map_err(|_| tree.unfit(id, "too many names"))?;
                    let blocks = layout.as_ref().map_or(1, |l| u64::from(l.blocks()));
                    needs.blocks += blocks.next_multiple_of(cluster);
                    if Mapping::of(&options.features) == Mapping::Blocks {
                        let run = std::iter::once((0, blocks));
                        needs.blocks += blockmap::index_blocks(run, format.block_size);
                    }
                    if let Some(layout) = layout {
                        needs.dirs.insert(id, layout);
                    }
                }
                Kind::Regular(_) => needs.add_file(options, format, tree, id)?,
                Kind::Symlink(_) => needs.add_symlink(options, format, tree, id)?,
                Kind::Device(_) | Kind::Other => {}
            }
        }
        needs.add_xattrs(options, format, tree)?;
        Ok(needs)
    }

    fn add_file(
        &mut self,
        options: &MkfsOptions,
        format: &Format,
        tree: &Tree,
        id: NodeId,
    ) -> Result<()> {
        let (mut blocks, mut extents, mut covered) = (0, 0, 0);
        let cluster = u64::from(options.cluster_ratio());
        let verity = verity_piece(tree, id);
        for piece in pieces(tree, id, format.block_size).chain(verity) {
            // Pieces may share a cluster.
            let first = covered.max(piece.lblk / cluster);
            covered = (piece.lblk + piece.len).div_ceil(cluster);
            blocks += covered.saturating_sub(first) * cluster;
            extents += piece.len.div_ceil(32768);
        }
        let mapping = Mapping::of(&options.features);
        let size = tree.node(id).attributes.size;
        let end = size.div_ceil(u64::from(format.block_size));
        let end = verity.map_or(end, |piece| piece.lblk + piece.len);
        if end > mapping.blocks_max(format.block_size) {
            return Err(tree.unfit(id, "file is too large"));
        }
        let sectors = blocks * u64::from(format.block_size / 512);
        let huge_file = options.features.ro_compat.contains(RoCompat::HUGE_FILE);
        if sectors >= 1 << 32 && !huge_file {
            let what = "file needs the feature huge_file";
            return Err(tree.unfit(id, what));
        }
        self.blocks += blocks;
        self.data_bytes += tree.segments_of(id).map(|s| s.end - s.start).sum::<u64>();
        self.blocks += match mapping {
            Mapping::Extents => {
                // Metadata that lies in the way may cut a few more extents.
                let cut = if blocks > 32768 { extents + 8 } else { extents };
                extents::tree_blocks(cut as usize, format.block_size) as u64 * cluster
            }
            Mapping::Blocks => {
                let runs = pieces(tree, id, format.block_size).map(|p| (p.lblk, p.len));
                blockmap::index_blocks(runs, format.block_size)
            }
        };
        Ok(())
    }

    fn add_symlink(
        &mut self,
        options: &MkfsOptions,
        format: &Format,
        tree: &Tree,
        id: NodeId,
    ) -> Result<()> {
        let size = tree.node(id).attributes.size;
        if size == 0 || size >= u64::from(format.block_size) {
            let what = format!("target of {size} bytes does not fit a block");
            return Err(tree.unfit(id, what));
        }
        self.blocks += u64::from(!is_fast_symlink(size)) * u64::from(options.cluster_ratio());
        Ok(())
    }

    /// Files may share a list; each has a block of its own.
    fn add_xattrs(&mut self, options: &MkfsOptions, format: &Format, tree: &Tree) -> Result<()> {
        let (inode_size, extra) = (format.inode_size, format.extra_isize);
        let divide = |list| xattrs::divide(list, inode_size, extra, format.block_size);
        let divided: Vec<Option<Divided>> = tree.xattrs.iter().map(divide).collect();
        for id in tree.ids() {
            let Some(i) = tree.node(id).xattrs else {
                continue;
            };
            let Some(divided) = &divided[i as usize] else {
                let what = "extended attributes do not fit an inode and a block";
                return Err(tree.unfit(id, what));
            };
            let has_block = u64::from(!divided.block.is_empty());
            self.blocks += has_block * u64::from(options.cluster_ratio());
        }
        // Lists that no node has need no place.
        self.xattrs = divided.into_iter().map(Option::unwrap_or_default).collect();
        Ok(())
    }
}

/// Links of a directory on disk; 1 means too many to count.
pub(crate) fn dir_links(subdirectories: u32) -> u32 {
    match subdirectories.saturating_add(2) {
        n if n > LINKS_MAX => 1,
        n => n,
    }
}

fn check_links(options: &MkfsOptions, tree: &Tree, id: NodeId) -> Result<()> {
    let node = tree.node(id);
    let most = match node.file_type() {
        FileType::Directory if options.features.ro_compat.contains(RoCompat::DIR_NLINK) => u32::MAX,
        // Two are its own.
        FileType::Directory => LINKS_MAX - 2,
        _ => LINKS_MAX,
    };
    if node.links > most {
        let what = format!("{} links are more than {most}", node.links);
        return Err(tree.unfit(id, what));
    }
    Ok(())
}

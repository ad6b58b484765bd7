//! Finding, recovering and opening the journal.

use crate::mapping;
use crate::mount::external_journal;
use crate::options::MountOptions;
use crate::prelude::*;
use crate::volume::fixed_blocks::FixedBlocks;
use uext4_jbd2::{JournalOptions, LogRun, Opened};
use uext4_ondisk::Inode;

/// Replays the log if it holds anything; gives the fast commits on top of it then. A log that the superblock says is not needed
/// is emptied, as the kernel does, and left alone where nothing can be written.
pub(crate) fn recover_log(
    map: &LogMap,
    device: &Arc<dyn BlockDevice>,
    sb: &Superblock,
    torn: bool,
) -> Result<Option<Vec<FastCommitRecord>>> {
    if uext4_jbd2::is_empty(map)? {
        return Ok(None);
    }
    let is_needed = torn || sb.incompat.contains(Incompat::RECOVER);
    let is_read_only = device.is_read_only() || map.device().is_read_only();
    match (is_needed, is_read_only) {
        (true, true) => Err(Ext4Error::Unsupported(
            "mounting read-only an image whose journal needs recovery, without noload,",
        )),
        (true, false) => Ok(Some(uext4_jbd2::recover(map, &**device)?.fast_commits)),
        (false, true) => Ok(None),
        (false, false) => {
            uext4_jbd2::skip(map)?;
            Ok(Some(Vec::new()))
        }
    }
}

/// Where the journal lies, if there is one.
pub(crate) fn find_log(
    sb: &Superblock,
    device: &Arc<dyn BlockDevice>,
    journal_device: Option<&Arc<dyn BlockDevice>>,
    options: &MountOptions,
) -> Result<Option<LogMap>> {
    if !sb.compat.contains(Compat::HAS_JOURNAL) {
        return Ok(None);
    }
    let ino = Ino(sb.raw.journal_inum.get());
    if ino == Ino::NONE {
        return external_journal::find(sb, journal_device, options);
    }
    let block_size = sb.geometry.block_size as usize;
    let cache = BufferCache::new(Arc::clone(device), block_size, 64);
    let inode = read_inode(&cache, sb, ino)?;
    let seed = sb
        .has_metadata_csum()
        .then(|| inode.seed(sb.csum_seed, ino));
    let mut runs = Vec::new();
    let bounds = sb.geometry.block_bounds();
    mapping::walk(&cache, &inode, bounds, seed, ino, &mut |e| {
        runs.push(LogRun {
            first: e.lblk.0,
            pblk: e.pblk.0,
            len: u32::from(e.len),
        });
    })?;
    check_runs(&runs).map_err(|e| e.ino(ino))?;
    Ok(Some(LogMap::new(Arc::clone(device), block_size, runs)))
}

/// Reads an inode before there is a volume.
pub(crate) fn read_inode(cache: &BufferCache, sb: &Superblock, ino: Ino) -> Result<Inode> {
    let (no, index) = sb.geometry.group_of_ino(ino)?;
    let (desc_block, desc_at) = sb.geometry.group_desc_location(no);
    let desc_size = usize::from(sb.geometry.desc_size);
    let desc = cache.with(desc_block.0, |content| {
        GroupDesc::decode(&content.data()[desc_at..desc_at + desc_size])
    })??;
    desc.validate(&sb.geometry, no)
        .map_err(|e| e.pblk(desc_block))?;
    let (block, at) = sb.geometry.itable_position(index);
    let params = InodeParams::of(sb);
    let place = desc.inode_table.0 + u64::from(block);
    let inode = cache.with(place, |content| {
        let end = at + usize::from(params.inode_size);
        Inode::decode(&content.data()[at..end], &params)
    })?;
    Ok(inode.map_err(|e| e.ino(ino))?)
}

/// Refuses a log with a hole, or with a block twice: that would make it longer than the device, and be overwritten.
fn check_runs(runs: &[LogRun]) -> std::result::Result<(), Corrupt> {
    let damage = |what| Err(Corrupt::new(CorruptKind::JournalMaxLen).detail(what));
    let mut next = Some(0);
    for run in runs {
        if Some(run.first) != next {
            return damage("a hole");
        }
        next = run.first.checked_add(run.len);
    }
    let mut places: Vec<_> = runs
        .iter()
        .map(|r| (r.pblk, r.pblk + u64::from(r.len)))
        .collect();
    places.sort_unstable();
    let mut pairs = places.windows(2);
    match pairs.any(|pair| matches!(pair, [(_, end), (first, _)] if first < end)) {
        true => damage("a block twice"),
        false => Ok(()),
    }
}

/// Refuses a log that lies over the file system's own blocks.
pub(crate) fn check_log_apart(log: &LogMap, fixed: &FixedBlocks) -> Result<()> {
    let over = log
        .runs()
        .iter()
        .find(|run| fixed.overlaps(Pblk(run.pblk), u64::from(run.len)));
    match over {
        Some(run) => Err(Corrupt::new(CorruptKind::ExtentFixed)
            .pblk(Pblk(run.pblk))
            .detail("the journal")
            .into()),
        None => Ok(()),
    }
}

pub(crate) fn open_journal(
    sb: &Superblock,
    cache: &Arc<BufferCache>,
    log: Option<LogMap>,
    options: &MountOptions,
    opened: Opened,
) -> Result<Arc<Journal>> {
    let journal_options = JournalOptions {
        commit_interval: options.commit_interval,
        barrier: options.barrier,
        ..JournalOptions::default()
    };
    match log {
        Some(map) if !options.read_only => {
            let features = uext4_jbd2::LogFeatures {
                checksums: sb.has_metadata_csum(),
                wide: sb.incompat.contains(Incompat::BIT64),
                // A replay could not bring usage up to date.
                fast_commits: sb.compat.contains(Compat::FAST_COMMIT)
                    && !sb.ro_compat.contains(RoCompat::QUOTA),
            };
            let cache = Arc::clone(cache);
            Ok(Journal::open(
                cache,
                map,
                features,
                journal_options,
                opened,
            )?)
        }
        _ => Ok(Journal::without_log(Arc::clone(cache), journal_options)?),
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_each_of_its_blocks_once() {
        let check = |runs: &[(u32, u64, u32)]| {
            let run = |&(first, pblk, len): &_| LogRun { first, pblk, len };
            check_runs(&runs.iter().map(run).collect::<Vec<_>>()).is_ok()
        };
        assert!(check(&[(0, 100, 10), (10, 50, 50), (60, 110, 5)]));
        assert!(!check(&[(1, 100, 10)]), "a hole at the start");
        assert!(!check(&[(0, 100, 10), (11, 50, 5)]), "a hole");
        assert!(!check(&[(0, 100, 10), (9, 50, 5)]), "two runs of one block");
        assert!(!check(&[(0, 100, 10), (10, 50, 51)]), "a block twice");
        assert!(!check(&[(0, 50, 10), (10, 55, 1)]), "one run in another");
    }
}

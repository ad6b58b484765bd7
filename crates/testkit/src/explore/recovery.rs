//! What recovery makes of a state.

use super::base::{BLOCK, Base, free_blocks};
use crate::device::{ForkDevice, Image, RecordDevice, RecordLog};
use crate::external::*;
use crate::tree::{self, Tree};
use crate::{image, oracle};
use std::hash::{DefaultHasher, Hash, Hasher};
use uext4_sync::{Mutex, class};
use uext4_vfs::fiemap::FiemapOf;

/// A block and the bytes that recovery wrote there.
pub type Replayed = (u64, Vec<u8>);

/// What the journal's recovery alone leaves.
#[derive(Debug)]
pub struct Replay {
    /// The hash of all but the log: what a mount continues from.
    pub key: u64,
    /// The copies in the log that it wrote in place, in its order.
    pub writes: Vec<Replayed>,
}

/// Notes what recovery writes in place.
#[derive(Debug)]
struct Spy<'d> {
    device: &'d ForkDevice,
    writes: Mutex<Vec<Replayed>>,
}

impl BlockDevice for Spy<'_> {
    forward_device!(self => self.device;
        len, is_read_only, read_at, flush, discard, zero, set_len, identity);

    fn write_at(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        let mut writes = self.writes.lock();
        for (number, block) in (offset / BLOCK as u64..).zip(buf.chunks(BLOCK)) {
            writes.push((number, block.to_vec()));
        }
        drop(writes);
        self.device.write_at(offset, buf)
    }
}

/// Recovers the journal of `device` as a mount would, and nothing else; `None` where that takes more.
pub fn replay(base: &Base, device: &Arc<ForkDevice>) -> Result<Option<Replay>> {
    let Ok(sb) = read_superblock(&**device) else {
        return Ok(None);
    };
    if !base.config.has_journal {
        return Ok(None);
    }
    let map = base.log_map(device);
    let mut writes = Vec::new();
    if !uext4_jbd2::is_empty(&map)? {
        if !sb.incompat.contains(Incompat::RECOVER) {
            return Ok(None);
        }
        let spy = Spy {
            device,
            writes: Mutex::new(&class::DEVICE, Vec::new()),
        };
        let report = uext4_jbd2::recover(&map, &spy)?;
        if !report.fast_commits.is_empty() {
            return Ok(None);
        }
        writes = spy.writes.into_inner();
        let free = free_blocks(&**device)?;
        if let Some((block, _)) = writes.iter().find(|(block, _)| free.contains(*block)) {
            bail!("the log has a copy of block {block}, which is free");
        }
    }
    let log = base.log.clone();
    Ok(Some(Replay {
        key: device.hash_of(|block| !log.contains(&block)),
        writes,
    }))
}

/// What a mount leaves.
#[derive(Debug)]
pub struct Recovered {
    /// All that has a name.
    pub tree: Tree,
    /// The hash of all but data.
    pub shape: u64,
    /// Blocks of files whose data does not go through the journal.
    pub plain_data: HashSet<u64>,
    /// What mounting and unmounting wrote.
    pub log: RecordLog,
    /// The image after that.
    pub after: ForkDevice,
}

/// Mounts a fork of `device`, reads everything, unmounts, and lets the verifier judge what is left.
pub fn recover(base: &Base, device: &ForkDevice) -> Result<Recovered> {
    let after = Arc::new(device.fork());
    let recorder = Arc::new(RecordDevice::over(Arc::clone(&after), MemoryDevice::new(0)));
    let mut device = Arc::clone(&recorder) as Arc<dyn BlockDevice>;
    if let Some(bug) = base.bug {
        bug.before_orphans(base, &after)?;
        device = bug.in_recovery(base, device)?;
    }
    let fs = image::mount(device).context("recovery")?;
    let mut tree = tree::of_fs(&*fs).context("walk after recovery")?;
    let plain_data = plain_data(base, &fs).context("fiemap after recovery")?;
    fs.unmount().context("unmount after recovery")?;
    drop(fs);
    if let Some(bug) = base.bug {
        bug.in_tree(&mut tree);
        bug.before_check(&after)?;
    }
    oracle::check(&*after).context("after recovery and unmount")?;
    let log = recorder.log();
    drop(recorder);
    Ok(Recovered {
        shape: shape_of(&tree),
        tree,
        plain_data,
        log,
        after: after.fork(),
    })
}

/// The blocks of regular files whose data is never journalled.
fn plain_data(base: &Base, fs: &Ext4) -> Result<HashSet<u64>> {
    let mut blocks = HashSet::new();
    if base.config.data == DataMode::Journal {
        return Ok(blocks);
    }
    for (path, entry) in tree::of_fs(fs)? {
        if entry.kind != uext4_vfs::attr::FileKind::Regular {
            continue;
        }
        let node = crate::operation::find(fs, &path)?;
        if fs.files.flags(&node).contains(InodeFlags::JOURNAL_DATA) {
            continue;
        }
        for extent in fs
            .files
            .fiemap(&node, FiemapOf::Data, 0, u64::from(u32::MAX))?
        {
            let first = extent.physical / BLOCK as u64;
            blocks.extend(first..first + extent.len.div_ceil(BLOCK as u64));
        }
    }
    Ok(blocks)
}

fn shape_of(tree: &Tree) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, entry) in tree {
        (path, entry.kind.mode_bits(), entry.mode, entry.nlink).hash(&mut hasher);
        (entry.data.len(), &entry.xattrs).hash(&mut hasher);
    }
    hasher.finish()
}

/// Writes what a device holds to a file.
pub fn save(image: &Image, path: &std::path::Path) -> Result<()> {
    let mut bytes = Vec::with_capacity(image.len() as usize);
    for number in 0..image.len() / BLOCK as u64 {
        bytes.extend_from_slice(image.block(number));
    }
    Ok(std::fs::write(path, bytes)?)
}

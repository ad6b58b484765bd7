//! Images that sequences begin with: tiny, with stale data in every free block.

use super::bug::Bug;
use crate::device::{ForkDevice, Image};
use crate::external::*;
use crate::image::mount_in;
use crate::model::Model;
use crate::operation::{Op, apply_to_ext4};
use uext4_jbd2::{LogMap, LogRun};
use uext4_ondisk::JournalSuper;

/// Bytes of a block.
pub const BLOCK: usize = 1024;

/// What free blocks hold, so that data that was never written shows.
pub const STALE: u8 = 0xde;

/// The directory that a sequence works in: the name of the one worker.
pub const TOP: &str = "t0";

/// A kind of file system.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// For messages and results.
    pub name: &'static str,
    /// What the journal does with data.
    pub data: DataMode,
    /// Whether the log is nearly at its end at the start, so that it wraps.
    pub wraps: bool,
    /// Whether there is a journal.
    pub has_journal: bool,
    /// Features as `-O` of mke2fs lists them.
    features: &'static str,
}

/// The kinds that are explored.
pub const CONFIGS: [Config; 6] = [
    Config {
        name: "ordered",
        data: DataMode::Ordered,
        wraps: false,
        has_journal: true,
        features: "",
    },
    Config {
        name: "journal",
        data: DataMode::Journal,
        wraps: false,
        has_journal: true,
        features: "",
    },
    Config {
        name: "writeback",
        data: DataMode::Writeback,
        wraps: false,
        has_journal: true,
        features: "^metadata_csum,^metadata_csum_seed,^orphan_file",
    },
    Config {
        name: "wrap",
        data: DataMode::Ordered,
        wraps: true,
        has_journal: true,
        features: "^orphan_file",
    },
    Config {
        name: "fast-commit",
        data: DataMode::Ordered,
        wraps: false,
        has_journal: true,
        features: "fast_commit",
    },
    Config {
        name: "no-journal",
        data: DataMode::Ordered,
        wraps: false,
        has_journal: false,
        features: "^has_journal",
    },
];

impl Config {
    /// The one of this name.
    pub fn find(name: &str) -> Result<Config> {
        let found = CONFIGS.into_iter().find(|config| config.name == name);
        found.with_context(|| format!("no configuration is called {name}"))
    }

    /// The data mode of the mount.
    pub fn data(&self) -> Option<DataMode> {
        self.has_journal.then_some(self.data)
    }
}

/// An image to begin with.
#[derive(Debug)]
pub struct Base {
    /// Its kind.
    pub config: Config,
    /// Its bytes.
    pub image: Image,
    /// What is in it.
    pub model: Model,
    /// The log's blocks on the device; empty without a journal.
    pub log: Range<u64>,
    /// A planted bug.
    pub bug: Option<Bug>,
}

impl Base {
    /// For sequences.
    pub fn new(config: Config) -> Result<Base> {
        let bytes = if config.has_journal { 2 << 20 } else { 1 << 20 };
        Self::with_tree(config, bytes, first_tree())
    }

    /// For sequences or, if `kind` is `random`, for random workloads: larger and empty.
    pub fn for_kind(config: Config, kind: &str) -> Result<Base> {
        match kind {
            "random" => Self::with_tree(config, 8 << 20, Vec::new()),
            _ => Self::new(config),
        }
    }

    fn with_tree(config: Config, bytes: u64, ops: Vec<Op>) -> Result<Base> {
        let device = Arc::new(make(&config, bytes)?);
        let fs = mount_in(Arc::clone(&device) as Arc<_>, 0, config.data())?;
        let mut model = Model::new();
        for op in ops {
            apply_to_ext4(&fs, &op).with_context(|| format!("{op:?}"))?;
            model
                .apply(&op)
                .map_err(|e| anyhow!("{op:?}: model: {e}"))?;
        }
        fs.unmount()?;
        drop(fs);
        let log = match config.has_journal {
            true => find_log(&device)?,
            false => 0..0,
        };
        let free = free_blocks(&*device)?;
        for block in (0..device.len() / BLOCK as u64).filter(|block| free.contains(*block)) {
            device.write_at(block * BLOCK as u64, &[STALE; BLOCK])?;
        }
        Ok(Base {
            config,
            image: Image::new(&device.snapshot(), BLOCK),
            model,
            log,
            bug: None,
        })
    }

    /// The log on `device`, a copy of this image.
    pub fn log_map(&self, device: &Arc<ForkDevice>) -> LogMap {
        let run = LogRun {
            first: 0,
            pblk: self.log.start,
            len: (self.log.end - self.log.start) as u32,
        };
        LogMap::new(Arc::clone(device) as Arc<_>, BLOCK, vec![run])
    }

    /// Whether the area of fast commits begins with one of an older transaction, for which e2fsck 1.47 gives the log up.
    pub fn has_old_fast_commits(&self, state: &ForkDevice) -> Result<bool> {
        if !self.config.features.contains("fast_commit") {
            return Ok(false);
        }
        let device = Arc::new(state.fork());
        let map = self.log_map(&device);
        let mut block = vec![0; BLOCK];
        map.read(0, &mut block)?;
        let sb = JournalSuper::parse(&block, BLOCK as u32)?;
        if sb.is_empty() || sb.fast_commit_area().is_empty() {
            return Ok(false);
        }
        map.read(sb.fast_commit_area().start, &mut block)?;
        let is_used = block.first().is_some_and(|byte| *byte != 0);
        Ok(is_used && uext4_jbd2::recover(&map, &*device)?.fast_commits.is_empty())
    }

    /// Mounts a copy of this image as sequences do.
    pub fn mount(&self, device: Arc<dyn BlockDevice>) -> Result<Arc<Ext4>> {
        let device = match self.bug {
            Some(bug) => bug.in_workload(self, device)?,
            None => device,
        };
        mount_in(device, 0, self.config.data())
    }
}

fn make(config: &Config, bytes: u64) -> Result<MemoryDevice> {
    let device = MemoryDevice::new(bytes);
    let options = MkfsOptions {
        size: Some(bytes),
        block_size: BLOCK as u32,
        journal_size: config.has_journal.then_some(1 << 20),
        inodes: Some(if bytes > 2 << 20 { 512 } else { 64 }),
        features: FeatureSet::parse(config.features)?,
        reserved_percent: Some(0.0),
        threads: 1,
        ..MkfsOptions::default()
    };
    uext4_build::mkfs(&device, &options, &NoProgress)?;
    Ok(device)
}

/// Where the log is: mkfs makes it in one piece.
fn find_log(device: &MemoryDevice) -> Result<Range<u64>> {
    let bytes = device.snapshot();
    for (number, block) in (0u64..).zip(bytes.chunks(BLOCK)) {
        if let Ok(sb) = JournalSuper::parse(block, BLOCK as u32) {
            return Ok(number..number + u64::from(sb.raw.maxlen.get()));
        }
    }
    bail!("there is no log")
}

/// The blocks that a bitmap says are free.
#[derive(Clone, Debug, Default)]
pub struct FreeBlocks {
    first: u64,
    blocks: u64,
    bitmap: Vec<u8>,
}

impl FreeBlocks {
    /// Whether this one is.
    pub fn contains(&self, block: u64) -> bool {
        let Some(bit) = block.checked_sub(self.first) else {
            return false;
        };
        let byte = self.bitmap.get((bit / 8) as usize).copied().unwrap_or(0xff);
        block < self.blocks && byte >> (bit % 8) & 1 == 0
    }
}

/// Reads the block bitmap of an image of one group.
pub fn free_blocks(device: &dyn BlockDevice) -> Result<FreeBlocks> {
    let sb = read_superblock(device)?;
    let (block, at) = sb.geometry.group_desc_location(GroupNo(0));
    let mut bytes = vec![0; BLOCK];
    device.read_at(block.0 * BLOCK as u64, &mut bytes)?;
    let desc = bytes.get(at..at + usize::from(sb.geometry.desc_size));
    let desc = GroupDesc::decode(desc.context("a group descriptor")?)?;
    let mut bitmap = vec![0; BLOCK];
    device.read_at(desc.block_bitmap.0 * BLOCK as u64, &mut bitmap)?;
    Ok(FreeBlocks {
        first: 1,
        blocks: sb.geometry.blocks_count,
        bitmap,
    })
}

/// What is in every image before a sequence: see the table in `alphabet.rs`.
fn first_tree() -> Vec<Op> {
    let path = |name: &str| match name {
        "" => TOP.as_bytes().to_vec(),
        _ => format!("{TOP}/{name}").into_bytes(),
    };
    let create = |name| Op::Create {
        path: path(name),
        mode: 0o644,
    };
    let mkdir = |name| Op::Mkdir {
        path: path(name),
        mode: 0o755,
    };
    let write = |name, at, len, byte: u8| Op::Write {
        path: path(name),
        at,
        data: vec![byte; len],
        direct: false,
    };
    vec![
        Op::Mkdir {
            path: b"shared".to_vec(),
            mode: 0o755,
        },
        mkdir(""),
        create("a"),
        write("a", 0, 4700, 0x11),
        create("b"),
        write("b", 0, 1024, 0x21),
        write("b", 3072, 1500, 0x22),
        Op::SetXattr {
            path: path("b"),
            name: b"user.x".to_vec(),
            value: vec![b'x'; 30],
        },
        mkdir("d"),
        create("d/x"),
        write("d/x", 0, 900, 0x31),
        mkdir("e"),
        Op::Symlink {
            path: path("l"),
            target: b"a".to_vec(),
        },
        create("j"),
        Op::JournalData {
            path: path("j"),
            on: true,
        },
        write("j", 0, 3000, 0x41),
    ]
}

//! Images to start from.

use crate::external::*;
use crate::oracle;
use crate::tree::{self, Tree};

/// An image's size and features.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// For messages.
    pub name: &'static str,
    /// Bytes.
    pub bytes: u64,
    /// Features as `-O` of mke2fs lists them.
    pub features: &'static str,
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of the journal.
    pub journal_bytes: Option<u64>,
    /// Inodes.
    pub inodes: Option<u32>,
    /// Arguments of mke2fs besides the size, if it makes the image: one that our mkfs does not make. Then
    /// what is said above of features, blocks, journal and inodes is not.
    pub mke2fs: Option<&'static str>,
    /// Files have no extents.
    pub block_maps: bool,
    /// Small files are in their inodes.
    pub inline_data: bool,
    /// Values of attributes may be in inodes of their own.
    pub large_values: bool,
    /// What ranges that move in a file are multiples of, in bytes: clusters, at least 4 KiB.
    pub moved_unit: u64,
}

impl Shape {
    /// The default features, 32 MiB.
    pub const DEFAULT: Shape = Shape {
        name: "default",
        bytes: 32 << 20,
        features: "",
        block_size: 4096,
        journal_bytes: None,
        inodes: None,
        mke2fs: None,
        block_maps: false,
        inline_data: false,
        large_values: false,
        moved_unit: 4096,
    };

    /// Images whose files have block maps; the first ones have a journal.
    pub const BLOCK_MAPPED: [Shape; 7] = [
        Shape::made_by_mke2fs("ext3, blocks of 1 KiB", "-t ext3 -b 1024 -J size=1"),
        Shape::made_by_mke2fs("ext3, blocks of 4 KiB", "-t ext3 -b 4096 -J size=4"),
        Shape::made_by_mke2fs(
            "ext4 without extents",
            "-t ext4 -O ^extent,^64bit -b 1024 -J size=1",
        ),
        Shape::made_by_mke2fs(
            "ext4 without extents and file types",
            "-t ext4 -O ^extent,^64bit,^filetype,^dir_index,orphan_file -b 2048 -J size=2",
        ),
        Shape::made_by_mke2fs("ext2, blocks of 1 KiB", "-t ext2 -b 1024"),
        Shape::made_by_mke2fs("ext2 without any feature", "-t ext2 -O none -b 4096 -I 128"),
        Shape::made_by_mke2fs("ext2, revision 0", "-t ext2 -r 0 -b 1024"),
    ];
    /// How many of them have a journal.
    pub const BLOCK_MAPPED_JOURNALED: usize = 4;

    const fn made_by_mke2fs(name: &'static str, args: &'static str) -> Shape {
        Shape {
            name,
            mke2fs: Some(args),
            block_maps: true,
            ..Shape::DEFAULT
        }
    }

    /// Images whose small files are in their inodes.
    pub const INLINE: [Shape; 5] = [
        Shape::inline(
            "inline data",
            "-t ext4 -O inline_data -b 4096 -I 256 -J size=4",
        ),
        Shape::inline(
            "inline data in large inodes, blocks of 1 KiB",
            "-t ext4 -O inline_data -b 1024 -I 1024 -J size=1",
        ),
        Shape::inline(
            "inline data without checksums",
            "-t ext4 -O inline_data,^metadata_csum,^64bit -b 1024 -I 256 -J size=1",
        ),
        Shape::inline(
            "inline data and an orphan file",
            "-t ext4 -O inline_data,orphan_file,metadata_csum_seed -b 4096 -I 1024 -J size=4",
        ),
        Shape {
            block_maps: true,
            ..Shape::inline(
                "inline data and block maps",
                "-t ext4 -O inline_data,^extent,^64bit,^metadata_csum -b 1024 -I 256 -J size=1",
            )
        },
    ];

    /// Images with attributes whose values have inodes of their own.
    pub const LARGE_VALUES: [Shape; 4] = [
        Shape::large_values(
            "large values",
            "-t ext4 -O ea_inode -b 4096 -I 256 -J size=4",
        ),
        Shape::large_values(
            "large values, blocks of 1 KiB",
            "-t ext4 -O ea_inode,orphan_file,metadata_csum_seed -b 1024 -I 256 -J size=1",
        ),
        Shape::large_values(
            "large values without checksums, inodes of 128 bytes",
            "-t ext4 -O ea_inode,^metadata_csum,^64bit -b 1024 -I 128 -J size=1",
        ),
        Shape {
            inline_data: true,
            ..Shape::large_values(
                "large values and inline data",
                "-t ext4 -O ea_inode,inline_data -b 4096 -I 512 -J size=4",
            )
        },
    ];

    /// Images that keep quotas.
    pub const QUOTA: [Shape; 3] = [
        Shape {
            name: "quotas",
            mke2fs: Some("-t ext4 -O quota,project -b 4096 -I 256 -J size=4"),
            ..Shape::DEFAULT
        },
        Shape {
            name: "quotas and an orphan file, blocks of 1 KiB",
            mke2fs: Some("-t ext4 -O quota,orphan_file -b 1024 -J size=1"),
            ..Shape::DEFAULT
        },
        Shape::inline(
            "quotas and inline data",
            "-t ext4 -O quota,inline_data -b 4096 -I 256 -J size=4",
        ),
    ];

    /// Images that allocate clusters of several blocks.
    pub const BIGALLOC: [Shape; 5] = [
        Shape::bigalloc(
            "clusters of 16 KiB",
            16 << 10,
            "-t ext4 -O bigalloc -C 16384 -b 4096 -J size=4",
        ),
        Shape::bigalloc(
            "clusters of 16 KiB, blocks of 1 KiB, an orphan file, quotas",
            16 << 10,
            "-t ext4 -O bigalloc,orphan_file,quota -C 16384 -b 1024 -N 2048 -J size=1",
        ),
        Shape::bigalloc(
            "clusters of 64 KiB",
            64 << 10,
            "-t ext4 -O bigalloc,fast_commit -C 65536 -b 4096 -J size=4",
        ),
        Shape::bigalloc(
            "clusters of 64 KiB, blocks of 1 KiB, no checksums",
            64 << 10,
            "-t ext4 -O bigalloc,^metadata_csum,^64bit -C 65536 -b 1024 -N 1024 -J size=1",
        ),
        Shape {
            inline_data: true,
            large_values: true,
            ..Shape::bigalloc(
                "clusters of 2 KiB, inline data and large values",
                4 << 10,
                "-t ext4 -O bigalloc,inline_data,ea_inode -C 2048 -b 1024 -I 512 -J size=1",
            )
        },
    ];

    const fn bigalloc(name: &'static str, moved_unit: u64, args: &'static str) -> Shape {
        Shape {
            name,
            bytes: 96 << 20,
            mke2fs: Some(args),
            moved_unit,
            ..Shape::DEFAULT
        }
    }

    const fn large_values(name: &'static str, args: &'static str) -> Shape {
        Shape {
            name,
            bytes: 96 << 20,
            mke2fs: Some(args),
            large_values: true,
            ..Shape::DEFAULT
        }
    }

    const fn inline(name: &'static str, args: &'static str) -> Shape {
        Shape {
            name,
            mke2fs: Some(args),
            inline_data: true,
            ..Shape::DEFAULT
        }
    }

    /// Journals of 1024 blocks, the fewest there may be.
    pub const SMALL_JOURNAL: [Shape; 2] = [
        Shape {
            name: "blocks of 1 KiB and a small journal",
            block_size: 1024,
            journal_bytes: Some(1 << 20),
            ..Shape::DEFAULT
        },
        Shape {
            name: "small journal",
            bytes: 48 << 20,
            journal_bytes: Some(4 << 20),
            ..Shape::DEFAULT
        },
    ];

    /// The shapes that tests go through.
    pub const ALL: [Shape; 5] = [
        Shape::DEFAULT,
        Shape {
            name: "without an orphan file",
            features: "^orphan_file",
            ..Shape::DEFAULT
        },
        Shape {
            name: "without metadata_csum",
            features: "^metadata_csum,^metadata_csum_seed,^orphan_file",
            ..Shape::DEFAULT
        },
        Shape::SMALL_JOURNAL[0],
        Shape::SMALL_JOURNAL[1],
    ];

    /// Makes an image in memory.
    pub fn make(&self) -> Result<MemoryDevice> {
        self.make_as(None)
    }

    /// The same; with a time, the bytes follow from the shape alone.
    pub fn make_as(&self, time: Option<i64>) -> Result<MemoryDevice> {
        if let Some(args) = self.mke2fs {
            return mke2fs(args, self.bytes);
        }
        let device = MemoryDevice::new(self.bytes);
        let options = MkfsOptions {
            size: Some(self.bytes),
            block_size: self.block_size,
            journal_size: self.journal_bytes,
            inodes: self.inodes,
            features: FeatureSet::parse(self.features)?,
            reserved_percent: Some(0.0),
            threads: 1,
            time,
            uuid: time.map(|_| uuid::Uuid::from_u128(1)),
            hash_seed: time.map(|_| uuid::Uuid::from_u128(2)),
            ..MkfsOptions::default()
        };
        uext4_build::mkfs(&device, &options, &NoProgress)?;
        Ok(device)
    }
}

/// An image in memory that mke2fs made.
pub fn mke2fs(args: &str, bytes: u64) -> Result<MemoryDevice> {
    let image = tempfile::NamedTempFile::new()?;
    let path = image.path().to_str().context("a path in UTF-8")?;
    let size = format!("{}K", bytes / 1024);
    let mut all = vec!["-q", "-F", "-m", "0"];
    all.extend(args.split(' '));
    all.extend([path, &size]);
    oracle::run("mke2fs", &all, 0)?;
    Ok(MemoryDevice::from_bytes(&std::fs::read(path)?))
}

/// Mounts a device as the tests do: few commits by age, a small cache.
pub fn mount(device: Arc<dyn BlockDevice>) -> Result<Arc<Ext4>> {
    mount_as(device, 0)
}

/// The same, in variants that `seed` chooses: every combination is as good as the default, which 0 gives.
pub fn mount_as(device: Arc<dyn BlockDevice>, seed: u64) -> Result<Arc<Ext4>> {
    mount_in(device, seed, None)
}

/// The same, with what the journal does with data, where there is a journal.
pub fn mount_in(
    device: Arc<dyn BlockDevice>,
    seed: u64,
    data: Option<DataMode>,
) -> Result<Arc<Ext4>> {
    let has_journal =
        read_superblock(&*device).is_ok_and(|sb| sb.compat.contains(Compat::HAS_JOURNAL));
    let mut options = MountOptions {
        commit_interval: Duration::from_secs(5),
        cache_bytes: 8 << 20,
        inodes_max: 1000,
        data: data.filter(|_| has_journal),
        // Where it is damaged, that would wait as hosts do.
        exclusion: Exclusion::Held,
        ..MountOptions::default()
    };
    if seed != 0 {
        let mut rng = Rng::with_seed(seed);
        options.ialloc = rng.choice(IallocVariant::ALL).unwrap_or_default();
        options.balloc = rng.choice(BallocVariant::ALL).unwrap_or_default();
        options.generation = rng.choice(GenerationVariant::ALL).unwrap_or_default();
        options.icache = rng.choice(IcacheVariant::ALL).unwrap_or_default();
        options.dio_lock = rng.choice(DioLock::ALL).unwrap_or_default();
        options.dir_lock = rng.choice(DirLockVariant::ALL).unwrap_or_default();
        options.dioread_nolock = rng.bool();
        options.lazytime = rng.bool();
        options.lazytime_max_age = Duration::from_millis(rng.u64(1..2000));
        // Few, so that inodes are evicted that other threads find.
        let inodes_max = if rng.bool() { 40 } else { 1000 };
        options.inodes_max = rng.usize(8..inodes_max);
        if rng.bool() {
            options.atime = AtimeUpdate::Strict;
        }
    }
    Ok(Ext4::mount(device, options)?)
}

/// The tree after our recovery of the image at `path`, in which the verifier and e2fsck then find no fault.
pub fn recovered_tree(path: &Path) -> Result<Tree> {
    let device = Arc::new(FileDevice::open(path, &OpenOptions::read_write())?);
    let fs = mount(Arc::clone(&device) as Arc<_>)?;
    let tree = tree::of_fs(&*fs)?;
    fs.unmount()?;
    drop(fs);
    oracle::check(&*device)?;
    drop(device);
    oracle::fsck(path)?;
    Ok(tree)
}

/// An image in memory, made by our mkfs, with nothing reserved for the superuser.
pub fn in_memory(bytes: u64, block_size: u32) -> Arc<MemoryDevice> {
    let device = MemoryDevice::new(bytes);
    let options = MkfsOptions {
        size: Some(bytes),
        block_size,
        journal_size: Some(4 << 20),
        reserved_percent: Some(0.0),
        threads: 1,
        ..MkfsOptions::default()
    };
    uext4_build::mkfs(&device, &options, &NoProgress).expect("mkfs");
    Arc::new(device)
}

/// Whether this machine mounts images of ours; says so on the terminal if not.
pub fn kernel_mounts() -> bool {
    let tried = || -> Result<()> {
        let dir = tempfile::tempdir()?;
        let image = dir.path().join("image");
        Shape::DEFAULT.make()?.save_to(&image)?;
        oracle::KernelMount::new(&image, &dir.path().join("mount"), "ro")?.unmount()
    };
    match tried() {
        Ok(()) => true,
        Err(why) => {
            eprintln!("SKIPPED: the kernel does not mount images here: {why:#}");
            false
        }
    }
}

//! The images.

/// How an image is made.
pub struct Shape {
    /// Arguments of mke2fs, besides size and name.
    pub mke2fs: &'static str,
    /// What debugfs then does to it.
    pub debugfs: &'static [&'static str],
    /// How the kernel mounts it to fill it.
    pub mount: &'static str,
    /// Directories are searched from their beginning, so they had better be small.
    pub linear_directories: bool,
}

const fn plain(mke2fs: &'static str) -> Shape {
    Shape {
        mke2fs,
        debugfs: &[],
        mount: "rw",
        linear_directories: false,
    }
}

const fn linear(mke2fs: &'static str) -> Shape {
    Shape {
        linear_directories: true,
        ..plain(mke2fs)
    }
}

const fn mounted(mke2fs: &'static str, mount: &'static str) -> Shape {
    Shape {
        mount,
        ..plain(mke2fs)
    }
}

const fn hashed(debugfs: &'static [&'static str]) -> Shape {
    Shape {
        debugfs,
        ..plain("-t ext4 -b 1024 -N 30000")
    }
}

/// All of them.
#[rustfmt::skip]
pub const SHAPES: &[Shape] = &[
    plain("-t ext4 -b 4096"),
    plain("-t ext4 -b 2048"),
    plain("-t ext4 -b 1024"),
    plain("-t ext3 -b 4096"),
    plain("-t ext3 -b 2048"),
    plain("-t ext3 -b 1024"),
    plain("-t ext2 -b 4096"),
    plain("-t ext2 -b 1024"),
    linear("-t ext2 -O none -b 1024 -I 128"),
    linear("-t ext2 -r 0 -b 4096"),
    // Each default feature off.
    plain("-t ext4 -O ^has_journal"),
    plain("-t ext4 -O ^ext_attr"),
    plain("-t ext4 -O ^resize_inode"),
    linear("-t ext4 -O ^dir_index"),
    plain("-t ext4 -O ^filetype"),
    plain("-t ext4 -O ^extent,^64bit"),
    plain("-t ext4 -O ^64bit"),
    plain("-t ext4 -O ^flex_bg"),
    plain("-t ext4 -O ^sparse_super,^resize_inode"),
    plain("-t ext4 -O ^large_file"),
    plain("-t ext4 -O ^huge_file"),
    plain("-t ext4 -O ^dir_nlink"),
    plain("-t ext4 -O ^extra_isize"),
    plain("-t ext4 -O ^metadata_csum"),
    plain("-t ext4 -O ^metadata_csum_seed"),
    plain("-t ext4 -O ^orphan_file"),
    // Others on.
    plain("-t ext4 -O ^metadata_csum,uninit_bg"),
    plain("-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,^flex_bg,^64bit"),
    plain("-t ext4 -O meta_bg,^resize_inode"),
    plain("-t ext4 -b 1024 -O meta_bg,^resize_inode,^flex_bg"),
    plain("-t ext4 -O sparse_super2,^resize_inode"),
    plain("-t ext4 -O large_dir"),
    plain("-t ext4 -b 1024 -O large_dir"),
    plain("-t ext4 -O stable_inodes"),
    plain("-t ext4 -O project"),
    plain("-t ext4 -O inline_data"),
    plain("-t ext4 -b 1024 -I 1024 -O inline_data,ea_inode"),
    plain("-t ext4 -O inline_data,^metadata_csum,^extent,^64bit"),
    plain("-t ext4 -O ea_inode"),
    plain("-t ext4 -O fast_commit"),
    plain("-t ext4 -b 4096 -O bigalloc"),
    plain("-t ext4 -b 1024 -O bigalloc -C 8192"),
    // Sizes of inodes and groups, and journals.
    plain("-t ext4 -b 1024 -I 128"),
    plain("-t ext4 -b 4096 -I 512"),
    plain("-t ext4 -b 4096 -I 1024 -O ^metadata_csum"),
    plain("-t ext4 -b 2048 -I 1024 -O inline_data"),
    plain("-t ext4 -b 1024 -g 2048"),
    plain("-t ext4 -b 4096 -g 8192 -G 4 -J size=4"),
    plain("-t ext4 -b 4096 -E lazy_itable_init=1,packed_meta_blocks=1"),
    mounted("-t ext4 -b 4096", "rw,data=journal"),
    mounted("-t ext4 -b 1024 -O ^metadata_csum,^64bit", "rw,data=journal,journal_checksum"),
    mounted("-t ext4 -b 4096 -O fast_commit", "rw,data=writeback,journal_async_commit"),
    // Hashes of names.
    hashed(&["ssv def_hash_version legacy", "ssv flags 1"]),
    hashed(&["ssv def_hash_version legacy", "ssv flags 2"]),
    hashed(&["ssv def_hash_version half_md4", "ssv flags 1"]),
    hashed(&["ssv def_hash_version half_md4", "ssv flags 2"]),
    hashed(&["ssv def_hash_version tea", "ssv flags 1"]),
    hashed(&["ssv def_hash_version tea", "ssv flags 2"]),
];

//! The table of ranks and lock classes; `docs/LOCKING.md` is generated from it.

use crate::counters::ClassStats;

/// A place in the lock order, outermost first. A thread that holds a lock of some rank takes only
/// locks of higher ranks, or of the same rank as [`SameRank`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rank {
    /// The table of mounts and the superblock registry's slow paths.
    MountTable = 1,
    /// A superblock being mounted, synced or unmounted.
    SUmount = 2,
    /// Changes of a file system against the beginning and the end of a freeze.
    Freeze = 3,
    /// The rename mutex of a file system, and pending timestamps that are written.
    Rename = 4,
    /// A directory's inode lock, ancestors first.
    DirIlock = 5,
    /// A leaf of a directory, ascending by the number of its block.
    DirLeaf = 6,
    /// Another inode's lock, ascending by (superblock, inode number).
    Ilock = 7,
    /// The tree of a quota file.
    QuotaFile = 8,
    /// Starting a journal handle; waiting for journal space counts as a lock.
    HandleStart = 9,
    /// An inode's extended attributes, a directory's tree of hashes.
    Xattr = 10,
    /// An inode's extent map.
    ExtentMap = 11,
    /// The orphan list.
    OrphanList = 12,
    /// A metadata block's content; parent before child.
    Buffer = 13,
    /// A block group.
    Group = 14,
    /// The journal's state.
    JournalState = 15,
    /// A list of buffers in a transaction.
    JournalList = 16,
    /// Leaves: nothing is taken under them but what the release of a lock needs.
    Leaf = 17,
    /// Inside a lock: held for a moment to queue for it or to wake other threads.
    Inner = 18,
}

impl Rank {
    /// Every rank, outermost first.
    pub const ALL: [Rank; 18] = [
        Rank::MountTable,
        Rank::SUmount,
        Rank::Freeze,
        Rank::Rename,
        Rank::DirIlock,
        Rank::DirLeaf,
        Rank::Ilock,
        Rank::QuotaFile,
        Rank::HandleStart,
        Rank::Xattr,
        Rank::ExtentMap,
        Rank::OrphanList,
        Rank::Buffer,
        Rank::Group,
        Rank::JournalState,
        Rank::JournalList,
        Rank::Leaf,
        Rank::Inner,
    ];

    /// Why the rank is where it is.
    const fn reason(self) -> &'static str {
        match self {
            Rank::MountTable => {
                "A mount, a remount and a call on an open file start with these and end in any other lock."
            }
            Rank::SUmount => {
                "Sync and unmount exclude each other before either locks an inode. Requests are paused before the file system is frozen."
            }
            Rank::Freeze => {
                "A change waits for the end of a freeze before it locks anything of the file system, so that reads find nothing locked; an unmount ends a freeze."
            }
            Rank::Rename => {
                "A rename compares the ancestors of two directories before it locks either; the tree must not change in between. Neither is taken under the writing of timestamps."
            }
            Rank::DirIlock => {
                "A look-up finds the target's inode in the locked directory, so the directory precedes it."
            }
            Rank::DirLeaf => {
                "A change of an entry shares the directory and locks the leaf of its name before the target. It locks no directory below it, which another that shares both may hold."
            }
            Rank::Ilock => {
                "An operation excludes others from a file before it starts a handle: if it started the handle first, it would wait for the others while commit waits for it."
            }
            Rank::QuotaFile => {
                "An operation gives a new owner an entry, with a handle of its own, while it has locked the inode that the owner is to get."
            }
            Rank::HandleStart => {
                "Starting a handle may wait for a commit, and commit waits for open handles: locks taken inside a handle must never be held while one starts."
            }
            Rank::Xattr => {
                "A change of attributes, and of a tree of hashes, is part of a handle, and may allocate blocks, which changes a mapping."
            }
            Rank::ExtentMap => {
                "A change of a mapping is part of a handle; it enters orphans, allocates blocks and changes buffers."
            }
            Rank::OrphanList => {
                "Entering or leaving the list changes the superblock's buffer and those of inodes. The block of multi-mount protection is read and written under its lock, and devices have locks."
            }
            Rank::Buffer => {
                "The owner of a structure locks its blocks last; under them only bits, counters and lists in memory change."
            }
            Rank::Group => {
                "A bit is claimed with journal access to the bitmap's buffer already held."
            }
            Rank::JournalState => "A transaction is joined with a buffer or a group locked.",
            Rank::JournalList => {
                "The journal's state names the transaction whose list a buffer enters. An inode's state is encoded into a buffer, and its holder takes the lock of the set of pending timestamps. What each CPU has of a user's bytes is changed under the lock of the totals, too."
            }
            Rank::Leaf => {
                "Each guards one structure in memory for a few instructions, and takes no lock but inner ones."
            }
            Rank::Inner => {
                "The implementation of locks and of reports needs them under any other lock."
            }
        }
    }

    /// Whether a thread may do I/O, wait or call back while it holds a lock of this rank.
    pub const fn may_block(self) -> bool {
        (self as u8) < Rank::Group as u8
    }
}

/// What a second lock of the same rank needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameRank {
    /// Refused.
    Refused,
    /// Only with a larger key (`lock_keyed`).
    Ascending,
    /// Allowed: the tree of the objects gives the order.
    ParentFirst,
}

/// A class of locks: a name, a rank and the statistics of all its locks.
#[derive(Debug)]
pub struct LockClass {
    /// The name in tables and in panics.
    pub name: &'static str,
    /// The place in the lock order.
    pub rank: Rank,
    /// What a second lock of the same rank needs.
    pub same_rank: SameRank,
    /// What it protects, for `docs/LOCKING.md`.
    pub guards: &'static str,
    /// The place in [`all`], for locks that have a byte for their class and not a pointer.
    pub(crate) id: u8,
    pub(crate) stats: ClassStats,
}

impl LockClass {
    const fn new(
        id: u8,
        name: &'static str,
        rank: Rank,
        same_rank: SameRank,
        guards: &'static str,
    ) -> LockClass {
        LockClass {
            name,
            rank,
            same_rank,
            guards,
            id,
            stats: ClassStats::new(),
        }
    }
}

macro_rules! classes {
    ($($id:ident = $name:literal, $rank:ident, $same:ident, $guards:literal;)*) => {
        /// The classes by number.
        #[allow(clippy::upper_case_acronyms, non_camel_case_types, reason = "named as the classes")]
        #[repr(u8)]
        enum Id {
            $($id),*
        }

        $(#[doc = $guards]
        pub static $id: LockClass =
            LockClass::new(Id::$id as u8, $name, Rank::$rank, SameRank::$same, $guards);)*

        /// Every class, in the order of the table.
        pub fn all() -> &'static [&'static LockClass] {
            static ALL: &[&LockClass] = &[$(&$id),*];
            ALL
        }
    };
}

classes! {
    MOUNT_TABLE = "mount_table", MountTable, Refused, "the mounts of this process";
    FILE_POS = "file_pos", MountTable, Refused, "the position of an open file";
    REMOUNT = "remount", MountTable, Refused, "the options of a mount while they change";
    S_UMOUNT = "s_umount", SUmount, Refused, "a superblock against unmounting";
    FUSE_CHANGES = "fuse_changes", SUmount, Refused, "requests that change something against being paused";
    FREEZE = "freeze", Freeze, Refused, "changes of a file system against freezing";
    LAZYTIME_WRITE = "lazytime_write", Rename, Refused, "pending timestamps that are being written";
    RENAME = "rename", Rename, Refused, "the shape of the directory tree";
    DIR_ILOCK = "dir_ilock", DirIlock, ParentFirst, "a directory's entries";
    DIR_LEAF = "dir_leaf", DirLeaf, Ascending, "the entries of a leaf of a directory, under its shared dir_ilock";
    ILOCK = "ilock", Ilock, Ascending, "changes of a file's size and data layout";
    RANGE = "range", Ilock, Ascending, "a range of a file, under its ilock";
    QUOTA_FILE = "quota_file", QuotaFile, Refused, "the tree of a quota file, and its free entries";
    HANDLE = "handle", HandleStart, Refused, "a running transaction against closing";
    XATTR = "xattr", Xattr, Ascending, "an inode's extended attributes";
    DIR_TREE = "dir_tree", Xattr, Refused, "the tree of hashes of a directory, its leaves' places included";
    EXTENT_MAP = "extent_map", ExtentMap, Ascending, "an inode's block mapping";
    ORPHAN_LIST = "orphan_list", OrphanList, Refused, "the on-disk orphan list";
    MMP = "mmp", OrphanList, Refused, "the block with which a file system is held against other hosts";
    BUFFER = "buffer", Buffer, ParentFirst, "a metadata block's content";
    DEVICE_EDGES = "device_edges", Buffer, ParentFirst, "sectors of a direct device that are read, changed and written back, per CPU";
    DEVICE_SYNC = "device_sync", Buffer, ParentFirst, "durable writes to a file, callers that wait to flush it, changes of its length";
    QCOW2 = "qcow2", Buffer, ParentFirst, "calls, new clusters and tables of a qcow2 image";
    OBJECTS = "objects", Buffer, ParentFirst, "the view, flushes and edges of an image in a store of objects";
    GROUP = "group", Group, Refused, "a block group's block bitmap";
    JOURNAL_STATE = "journal_state", JournalState, Refused, "which transactions run and commit";
    JOURNAL_LIST = "journal_list", JournalList, Refused, "the buffers of a transaction, one shard";
    FAST_CHANGES = "fast_changes", JournalList, Refused, "what of the running transaction a fast commit can say";
    INODE_STATE = "inode_state", JournalList, Refused, "an inode's attributes in memory, the size included";
    MQUEUE_ACCOUNTS = "mqueue_accounts", JournalList, Refused, "what the message queues of each user take";
    ICACHE = "icache", Leaf, Refused, "an inode cache bucket, or all of it";
    REGISTRY = "registry", Leaf, Refused, "a shard of the superblock registry";
    CHECKED_INODES = "checked_inodes", Leaf, Refused, "inodes of a check that are not ordinary, one chunk";
    BUFFER_CACHE = "buffer_cache", Leaf, Refused, "a shard of the metadata block cache";
    DQUOT = "dquot", Leaf, Refused, "what of the space and inodes of an owner with limits is reserved";
    GENERATION = "generation", Leaf, Refused, "the counter of inode generations";
    KEY_RING = "key_ring", Leaf, Refused, "keys of encrypted inodes, and ciphers made of them";
    FROZEN = "frozen", Leaf, Refused, "what waits for the end of a freeze";
    LAZYTIME = "lazytime", Leaf, Refused, "inodes with pending timestamps, one shard";
    DEVICE = "device", Leaf, Refused, "a chunk or a list of a device in memory";
    DIRECT = "direct", Leaf, Refused, "direct writes whose blocks are to become written";
    TRIM = "trim", Leaf, Refused, "discards of free blocks, and allocations that wait for them";
    PARTLY_FREED = "partly_freed", Leaf, Refused, "files that lost blocks of clusters that they keep";
    OPEN_FILES = "open_files", Leaf, Refused, "a table of open files";
    FUSE_NODES = "fuse_nodes", Leaf, Refused, "nodes that a kernel has references to, one shard";
    FUSE_INVALIDATIONS = "fuse_invalidations", Leaf, Refused, "the number of notifications to a kernel";
    MQUEUE = "mqueue", Leaf, Refused, "a message queue or its namespace";
    MQUEUE_CALLS = "mqueue_calls", Leaf, Refused, "calls of a mounted namespace that wait";
    REPORTS = "reports", Inner, Refused, "recent log messages of a process, and its open spans";
    LOCK_QUEUE = "lock_queue", Inner, Refused, "waiters for an ilock or a range";
    TEST_OUTER = "test_outer", Rename, Refused, "tests only";
    TEST_LEAF = "test_leaf", Leaf, Refused, "tests only";
}

/// The class with this number.
pub(crate) fn by_id(id: u8) -> &'static LockClass {
    all()[usize::from(id)]
}

/// The lock order as the Markdown of `docs/LOCKING.md`.
pub fn locking_markdown() -> String {
    let mut out = String::from(
        "# Lock order\n\nGenerated from `crates/sync/src/class.rs` by `make docs`; `make test` checks it.\n\
         Outermost first. A thread that holds a lock takes only locks further down, or of the same rank\n\
         where the table says so: *ascending* means by (superblock, inode number), an inode's\n\
         range after its ilock, leaves by block; *parent first* means that the tree of the objects gives the order. `try_`\n\
         variants are free of it, as they never wait. Which lock guards a field is in the head of its file; for\n\
         an inode, `crates/ext4/src/inode/mod.rs`.\n\
         No I/O, no waiting and no callback under a lock of rank 14 or more: debug builds panic.\n\n\
         | rank | class | guards | a second of the same rank |\n| --- | --- | --- | --- |\n",
    );
    for rank in Rank::ALL {
        for class in all()
            .iter()
            .filter(|c| c.rank == rank && !c.name.starts_with("test_"))
        {
            let same = match class.same_rank {
                SameRank::Refused => "no",
                SameRank::Ascending => "ascending",
                SameRank::ParentFirst => "parent first",
            };
            out.push_str(&format!(
                "| {} | `{}` | {} | {} |\n",
                rank as u8, class.name, class.guards, same
            ));
        }
    }
    out.push_str("\n## Reasons\n\n| rank | why it is there |\n| --- | --- |\n");
    for rank in Rank::ALL {
        out.push_str(&format!("| {} | {} |\n", rank as u8, rank.reason()));
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn locking_md_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/LOCKING.md");
        let want = super::locking_markdown();
        if std::env::var_os("UEXT4_WRITE_DOCS").is_some() {
            std::fs::write(path, &want).expect("write docs/LOCKING.md");
        }
        let have = std::fs::read_to_string(path).unwrap_or_default();
        assert!(have == want, "docs/LOCKING.md is stale: run `make docs`");
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = super::all().iter().map(|c| c.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), super::all().len());
    }
}

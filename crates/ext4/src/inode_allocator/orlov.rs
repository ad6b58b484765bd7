//! The group of a new directory, by the Orlov rules.
//!
//! Top-level directories spread: each is placed where few are, and inodes and blocks are free. Others stay
//! near their parent while there is room. With `flex_bg` all that holds of flex groups, as their
//! metadata lies together.
//!
//! What is free in all groups is summed once for many directories: the sum reads what every CPU counted in every group.
//! A directory may so be placed by what held up to [`REUSED_MAX`] directories of its CPU before, and in the same transaction.

use crate::group::Group;
use crate::inode::Inode;
use crate::inode_allocator::InodeAllocator;
use crate::prelude::*;
use arc_swap::{ArcSwapOption, Guard};
use uext4_sync::PerCpu;

/// A CPU places so many directories by one sum.
const REUSED_MAX: u32 = 64;

/// What is free in some groups, and the directories in them.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    inodes: u64,
    blocks: u64,
    dirs: u64,
}

impl Room {
    fn of(groups: &[Arc<Group>]) -> Room {
        groups.iter().fold(Room::default(), |sum, g| Room {
            inodes: sum.inodes + u64::from(g.free_inodes()),
            blocks: sum.blocks + u64::from(g.free_blocks.load(Relaxed)),
            dirs: sum.dirs + u64::from(g.used_dirs()),
        })
    }
}

/// The room of each flex group, as it was summed up.
#[derive(Debug)]
struct Rooms {
    flexes: Box<[Room]>,
    mean: Room,
    /// Top-level directories placed by it in each flex group.
    placed: Box<[AtomicU32]>,
    /// The transaction that ran then.
    tid: u64,
    /// Distinguishes this sum from others.
    number: u64,
}

impl Rooms {
    fn sum(groups: &[Arc<Group>], per_flex: usize, tid: u64, number: u64) -> Rooms {
        let flexes: Box<[Room]> = groups.chunks(per_flex).map(Room::of).collect();
        let count = flexes.len().max(1) as u64;
        let sum = |f: fn(&Room) -> u64| flexes.iter().map(f).sum::<u64>();
        let mean = Room {
            inodes: sum(|r| r.inodes) / count,
            blocks: sum(|r| r.blocks) / count,
            dirs: sum(|r| r.dirs) / count,
        };
        Rooms {
            placed: flexes.iter().map(|_| AtomicU32::new(0)).collect(),
            flexes,
            mean,
            tid,
            number,
        }
    }
}

/// The last sum, and how often each CPU may still use it.
#[derive(Debug)]
pub(super) struct SummedRooms {
    last: ArcSwapOption<Rooms>,
    next_number: AtomicU64,
    cpus: PerCpu<Reuse>,
}

/// What a CPU knows of the sum that it used.
#[derive(Debug)]
struct Reuse {
    number: AtomicU64,
    left: AtomicU32,
}

impl SummedRooms {
    pub(super) fn new() -> SummedRooms {
        SummedRooms {
            last: ArcSwapOption::empty(),
            next_number: AtomicU64::new(1),
            cpus: PerCpu::new(|_| Reuse {
                number: AtomicU64::new(0),
                left: AtomicU32::new(0),
            }),
        }
    }

    /// The last sum, if it is of the transaction that runs and this CPU has not used it for `most` directories.
    fn reuse(&self, tid: u64, most: u32) -> Option<Guard<Option<Arc<Rooms>>>> {
        let last = self.last.load();
        let rooms = last.as_ref().filter(|rooms| rooms.tid == tid)?;
        let cpu = self.cpus.get();
        if cpu.number.load(Relaxed) != rooms.number {
            cpu.number.store(rooms.number, Relaxed);
            cpu.left.store(most, Relaxed);
        }
        let left = cpu.left.load(Relaxed).checked_sub(1)?;
        cpu.left.store(left, Relaxed);
        Some(last)
    }
}

impl InodeAllocator {
    /// Where a child directory of `parent` goes, whose group is `home`.
    pub(super) fn orlov_group(&self, parent: &Inode, home: GroupNo) -> GroupNo {
        let geometry = self.volume.geometry();
        let per_flex = 1usize << geometry.log_groups_per_flex;
        let tid = self.volume.journal().running_tid();
        // In small groups a few directories make a difference.
        let inodes = geometry.inodes_per_group.saturating_mul(per_flex as u32);
        let reused = self.rooms.reuse(tid, (inodes / 256).min(REUSED_MAX));
        let reused = reused.as_ref().and_then(|last| last.as_deref());
        let found = reused.and_then(|rooms| self.flex_group(rooms, parent, home, per_flex));
        found.unwrap_or_else(|| {
            let number = self.rooms.next_number.fetch_add(1, Relaxed);
            let rooms = Rooms::sum(self.volume.groups(), per_flex, tid, number);
            let rooms = Arc::new(rooms);
            self.rooms.last.store(Some(Arc::clone(&rooms)));
            self.flex_group(&rooms, parent, home, per_flex)
                .or_else(|| self.any_group(home, rooms.mean.inodes / per_flex as u64))
                .unwrap_or(home)
        })
    }

    /// The group for a child directory of `parent` by what is free in all; `None` where those that are right have no room.
    fn flex_group(
        &self,
        rooms: &Rooms,
        parent: &Inode,
        home: GroupNo,
        per_flex: usize,
    ) -> Option<GroupNo> {
        let (flexes, mean) = (&*rooms.flexes, rooms.mean);
        let is_top = parent.ino == Ino::ROOT || parent.flags().contains(InodeFlags::TOPDIR);
        let chosen = if is_top {
            self.top_flex(rooms)
        } else {
            self.near_flex(flexes, mean, home.0 as usize / per_flex)
        };
        chosen.and_then(|flex| self.group_in_flex(flex, per_flex, home))
    }

    /// The flex group with the fewest directories of those that have more room than the mean. The
    /// search starts elsewhere each time.
    fn top_flex(&self, rooms: &Rooms) -> Option<usize> {
        let (flexes, mean) = (&*rooms.flexes, rooms.mean);
        let start = self.next_top_group.fetch_add(1, Relaxed) as usize;
        let (chosen, _, placed) = (0..flexes.len())
            .map(|i| (start + i) % flexes.len())
            .filter_map(|i| Some((i, flexes.get(i)?, rooms.placed.get(i)?)))
            .filter(|(_, r, _)| r.inodes >= mean.inodes.max(1) && r.blocks >= mean.blocks)
            .min_by_key(|(_, r, placed)| r.dirs + u64::from(placed.load(Relaxed)))?;
        placed.fetch_add(1, Relaxed);
        Some(chosen)
    }

    /// The first flex group from the parent's on that is not much poorer than the mean.
    fn near_flex(&self, flexes: &[Room], mean: Room, home: usize) -> Option<usize> {
        let geometry = self.volume.geometry();
        let per_flex = 1u64 << geometry.log_groups_per_flex;
        let inodes = u64::from(geometry.inodes_per_group) * per_flex;
        let blocks = u64::from(geometry.clusters_per_group) * per_flex;
        let dirs_max = mean.dirs + inodes / 16;
        let inodes_min = mean.inodes.saturating_sub(inodes / 4).max(1);
        let blocks_min = mean.blocks.saturating_sub(blocks / 4);
        (0..flexes.len())
            .map(|i| (home + i) % flexes.len())
            .find(|i| {
                flexes.get(*i).is_some_and(|r| {
                    r.dirs < dirs_max && r.inodes >= inodes_min && r.blocks >= blocks_min
                })
            })
    }

    /// The parent's group if it is in the flex group and has room, otherwise the first that has.
    fn group_in_flex(&self, flex: usize, per_flex: usize, home: GroupNo) -> Option<GroupNo> {
        let groups = self.volume.groups().chunks(per_flex).nth(flex)?;
        let has_room = |g: &&Arc<Group>| g.has_free_inode();
        groups
            .iter()
            .filter(has_room)
            .find(|g| g.no == home)
            .or_else(|| groups.iter().find(has_room))
            .map(|g| g.no)
    }

    /// The first group from the parent's on with at least `inodes` free.
    fn any_group(&self, home: GroupNo, inodes: u64) -> Option<GroupNo> {
        let (before, after) = self.volume.groups().split_at_checked(home.0 as usize)?;
        after
            .iter()
            .chain(before)
            .find(|g| u64::from(g.free_inodes()) >= inodes.max(1))
            .map(|g| g.no)
    }
}

#[cfg(all(test, not(shuttle), not(loom), not(virtual_cpus)))]
mod tests {
    use super::*;
    use crate::fixture::*;
    use crate::fs::Ext4;

    /// Two flex groups of two groups of 8192 blocks and 1024 inodes.
    fn two_flexes() -> Arc<Ext4> {
        let device = image_as(32 << 20, "", |options| {
            options.flex_bg_size = 2;
            options.inodes = Some(4096);
        });
        let fs = mount(&device);
        let geometry = fs.volume.geometry();
        let groups = (geometry.groups_count, geometry.log_groups_per_flex);
        assert_eq!(groups, (4, 1));
        let sizes = (geometry.blocks_per_group, geometry.inodes_per_group);
        assert_eq!(sizes, (8192, 1024));
        fs
    }

    fn room(inodes: u64, blocks: u64, dirs: u64) -> Room {
        Room {
            inodes,
            blocks,
            dirs,
        }
    }

    fn rooms(flexes: &[Room], mean: Room) -> Rooms {
        Rooms {
            flexes: flexes.into(),
            mean,
            placed: flexes.iter().map(|_| AtomicU32::new(0)).collect(),
            tid: 5,
            number: 1,
        }
    }

    #[test]
    fn a_directory_stays_near_unless_its_flex_group_is_much_poorer() {
        let fs = two_flexes();
        let mean = room(1000, 5000, 10);
        let near = |home: Room| {
            let flexes = [home, room(2000, 16000, 0)];
            fs.numbers.near_flex(&flexes, mean, 0)
        };
        // A quarter of its inodes and blocks below the mean, and a directory for each 16 inodes above.
        assert_eq!(near(room(488, 904, 137)), Some(0));
        assert_eq!(near(room(487, 904, 137)), Some(1));
        assert_eq!(near(room(488, 903, 137)), Some(1));
        assert_eq!(near(room(488, 904, 138)), Some(1));
        let rich = [room(2000, 16000, 0); 3];
        for home in 0..3 {
            assert_eq!(fs.numbers.near_flex(&rich, mean, home), Some(home));
        }
        let poor = room(0, 0, 0);
        let flexes = [rich[0], poor, poor];
        assert_eq!(fs.numbers.near_flex(&flexes, mean, 1), Some(0));
        assert_eq!(fs.numbers.near_flex(&[poor; 3], mean, 1), None);
    }

    #[test]
    fn top_level_directories_spread_over_those_that_are_not_poorer_than_the_mean() {
        let fs = two_flexes();
        let mean = room(1000, 5000, 10);
        let top = |flexes: &[Room]| fs.numbers.top_flex(&rooms(flexes, mean));
        let poor = room(999, 5000, 0);
        assert_eq!(top(&[poor, room(1000, 5000, 9), poor]), Some(1));
        assert_eq!(top(&[room(1000, 4999, 0), mean]), Some(1));
        assert_eq!(top(&[poor, poor]), None);
        let few = room(1000, 5000, 3);
        assert_eq!(top(&[mean, mean, few, mean]), Some(2));
        let equal = rooms(&[mean; 3], mean);
        let mut placed: Vec<_> = (0..3).filter_map(|_| fs.numbers.top_flex(&equal)).collect();
        placed.sort_unstable();
        assert_eq!(placed, [0, 1, 2]);
    }

    #[test]
    fn a_child_is_placed_in_its_parents_group() {
        let fs = two_flexes();
        let root = fs.namei.root().expect("root").clone();
        let parent = make(&fs, &root, "d", &DIR);
        let rooms = Rooms::sum(fs.volume.groups(), 2, 5, 1);
        for home in (0..4).map(GroupNo) {
            let found = fs.numbers.flex_group(&rooms, &parent, home, 2);
            assert_eq!(found, Some(home));
        }
    }

    #[test]
    fn the_mean_is_that_of_the_flex_groups() {
        let fs = two_flexes();
        let sum = Rooms::sum(fs.volume.groups(), 2, 5, 1);
        let [first, second] = &*sum.flexes else {
            panic!("{} flex groups", sum.flexes.len());
        };
        let of = |f: fn(&Room) -> u64| (f(&sum.mean), (f(first) + f(second)) / 2);
        for (mean, wanted) in [of(|r| r.inodes), of(|r| r.blocks), of(|r| r.dirs)] {
            assert_eq!(mean, wanted);
        }
        assert!(sum.mean.inodes > 2000 && sum.mean.dirs == 1);
    }

    #[test]
    fn any_group_has_so_many_inodes() {
        let fs = two_flexes();
        assert_eq!(fs.numbers.any_group(GroupNo(2), 1024), Some(GroupNo(2)));
        // Some of the first group's are reserved.
        assert_eq!(fs.numbers.any_group(GroupNo(0), 1024), Some(GroupNo(1)));
        assert_eq!(fs.numbers.any_group(GroupNo(2), 1025), None);
    }

    #[test]
    fn where_no_flex_group_has_both_a_group_with_inodes_is_taken() {
        let fs = two_flexes();
        let root = fs.namei.root().expect("root").clone();
        let parent = make(&fs, &root, "d", &DIR);
        for group in fs.volume.groups() {
            let bits = fs.numbers.inode_bits(group).expect("bits");
            match group.no.0 {
                0 | 1 => group.free_blocks.store(0, Relaxed),
                _ => bits.count(-1024, 0),
            }
        }
        // A sum is of one transaction.
        fs.volume.journal().sync().expect("sync");
        let found = fs.numbers.orlov_group(&parent, GroupNo(2));
        assert_eq!(found, GroupNo(0));
        fs.crash();
    }

    #[test]
    fn small_groups_are_summed_for_a_few_directories_each_time() {
        let fs = two_flexes();
        let root = fs.namei.root().expect("root").clone();
        for _ in 0..100 {
            fs.numbers.orlov_group(&root, GroupNo(0));
        }
        // One for each 256 inodes of a flex group on each CPU, and the one that found that it needs a sum.
        let most = 8 * uext4_sync::percpu::cpu_shards() as u64 + 1;
        let sums = fs.numbers.rooms.next_number.load(Relaxed) - 1;
        assert!(sums >= 100 / most, "{sums}");
    }

    #[test]
    fn a_sum_is_used_so_often_and_in_its_transaction_only() {
        let summed = SummedRooms::new();
        assert!(summed.reuse(5, 2).is_none());
        let sum = rooms(&[], room(0, 0, 0));
        summed.last.store(Some(Arc::new(sum)));
        assert!(summed.reuse(6, 2).is_none());
        assert!(summed.reuse(4, 2).is_none());
        // Each CPU may, and the thread moves between them.
        let uses = (0..1000).take_while(|_| summed.reuse(5, 2).is_some());
        let (uses, cpus) = (uses.count(), uext4_sync::percpu::cpu_shards());
        assert!((2..=2 * cpus).contains(&uses), "{uses}");
    }
}

//! Figures of the published work, given beside the projection and never fitted to.

use crate::model::result::Curve;

fn curve(name: &str, points: &[(f64, f64)], unit: &str, source: &str) -> Curve {
    Curve {
        name: name.to_owned(),
        points: points.to_vec(),
        unit: unit.to_owned(),
        source: source.to_owned(),
    }
}

const TASKS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
const SPINLOCK: [f64; 8] = [137.0, 224.0, 356.0, 439.0, 443.0, 598.0, 559.0, 385.0];
const ATOMIC: [f64; 8] = [140.0, 233.0, 372.0, 519.0, 585.0, 695.0, 707.0, 437.0];

/// Creates/s before and after the retry under the lock: the middle of what was reported.
pub const CREATES: (f64, f64) = (80_248.0, 812_317.0);

/// Inode allocation.
pub fn ialloc() -> Vec<Curve> {
    let source = "published for the kernel: mdtest, 48 processes, 30,000 files each; 79,033-81,463 became \
                  810,669-813,965";
    vec![
        curve("retry-unlocked", &[(48.0, CREATES.0)], "creates/s", source),
        curve("retry-locked", &[(48.0, CREATES.1)], "creates/s", source),
    ]
}

/// Inode generation.
pub fn generation() -> Vec<Curve> {
    let source =
        "published for the kernel: create and unlink by 1 to 128 tasks; in a unit that is not said";
    let both = [("spinlock", SPINLOCK), ("atomic", ATOMIC)];
    let points = |values: [f64; 8]| -> Vec<(f64, f64)> { TASKS.into_iter().zip(values).collect() };
    both.map(|(name, values)| curve(name, &points(values), "as published", source))
        .into()
}

/// The last points of the two.
pub const ATOMIC_OVER_SPINLOCK: f64 = 437.0 / 385.0;

/// Where a curve of the generations peaks and ends, in words.
pub fn generation_peak(variant: &str) -> String {
    let values = if variant == "atomic" {
        ATOMIC
    } else {
        SPINLOCK
    };
    let all = TASKS.into_iter().zip(values);
    let (tasks, peak) = all.fold(
        (0.0, 0.0),
        |best, one| if one.1 > best.1 { one } else { best },
    );
    let last = values[values.len() - 1];
    format!("published: {peak} at {tasks} tasks, {last} at 128")
}

/// How much slower lazytime made create and unlink with the global lock.
pub const LAZYTIME_SLOWER: f64 = 16.0;

/// The inode cache.
pub fn icache() -> Vec<Curve> {
    let source = "published for the kernel: with the global lock lazytime made create and unlink about 16 times \
                  slower; a ratio, no count of tasks is given";
    vec![curve(
        "global/no-lazytime over global/lazytime",
        &[(1.0, LAZYTIME_SLOWER)],
        "times",
        source,
    )]
}

/// Threads and the percent that shared-first gained over exclusive-first with dioread_nolock.
pub const DIO_GAIN: [(f64, f64); 7] = [
    (1.0, 5.0),
    (2.0, 10.0),
    (4.0, 30.0),
    (8.0, 50.0),
    (12.0, 60.0),
    (16.0, 65.0),
    (24.0, 70.0),
];

/// Direct I/O.
pub fn ilock() -> Vec<Curve> {
    let source = "published for the kernel on an NVMe device: 4 KiB, half reads, half writes; reads with \
                  dioread_nolock. Without it: within 3 %";
    vec![curve(
        "shared-first over exclusive-first, dioread_nolock",
        &DIO_GAIN,
        "percent",
        source,
    )]
}

/// Namespaces per second before and after.
pub const CLONES: (f64, f64) = (5948.45, 9137.06);

/// The superblock registry.
pub fn registry() -> Vec<Curve> {
    let source = "published for the kernel: clone stress, 32 workers, 20 s";
    vec![
        curve("keyed", &[(32.0, CLONES.0)], "ops/s", source),
        curve("nodev", &[(32.0, CLONES.1)], "ops/s", source),
    ]
}

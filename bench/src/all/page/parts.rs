//! The parts of the page, as data: which rows of the report each figure and table shows.

use super::figure::{FigureSpec, X};
use super::rows::{Row, Rows};
use crate::chart::Scale;
use crate::locks::acquisitions_of;
use crate::report::Spread;
use crate::tables::count;

/// A part of the page.
pub struct Part {
    /// Names it in links.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What is measured.
    pub text: &'static str,
    /// Its charts.
    pub figures: Vec<FigureSpec>,
    /// The sections whose locks it lists: of the operation, at the most threads.
    pub locks: &'static [(&'static str, &'static str)],
    /// The section whose stages of a create it lists.
    pub stages: Option<&'static str>,
    /// The sections of the report that it shows.
    pub sections: &'static [&'static str],
}

const TASKS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
const SPINLOCK: [f64; 8] = [137.0, 224.0, 356.0, 439.0, 443.0, 598.0, 559.0, 385.0];
const ATOMIC: [f64; 8] = [140.0, 233.0, 372.0, 519.0, 585.0, 695.0, 707.0, 437.0];
/// Gain in percent of 4 KiB reads, and of 1 MiB requests, at counts of threads.
const GAIN_4K: [(f64, f64); 7] = [
    (1.0, 5.0),
    (2.0, 10.0),
    (4.0, 30.0),
    (8.0, 50.0),
    (12.0, 60.0),
    (16.0, 65.0),
    (24.0, 70.0),
];
const GAIN_1M: [(f64, f64); 3] = [(1.0, 0.0), (8.0, 10.0), (24.0, 20.0)];

const KIB_4: u64 = 4096;
const MIB_1: u64 = 1 << 20;

fn rate(_: &Rows, row: &Row) -> Option<Spread> {
    Some(row.ops_per_s)
}

fn threads(row: &Row) -> Option<u64> {
    Some(row.threads)
}

fn variant(row: &Row) -> String {
    row.variant.clone()
}

/// The name of a variant without the mount mode, which the title gives.
fn variant_alone(row: &Row) -> String {
    let name = row.variant.split('/').next();
    name.unwrap_or_default().to_owned()
}

/// The rate over that of one thread.
fn over_one(rows: &Rows, row: &Row) -> Option<Spread> {
    let one = rows.rate(&row.variant, 1).filter(|one| *one > 0.0)?;
    Some(Spread::of(&[row.ops_per_s.median / one]))
}

/// The rate with lazytime over the rate without.
fn over_no_lazytime(rows: &Rows, row: &Row) -> Option<Spread> {
    let cache = row.variant.strip_suffix("/lazytime")?;
    let off = rows.rate(&format!("{cache}/no-lazytime"), row.threads)?;
    (off > 0.0).then(|| Spread::of(&[row.ops_per_s.median / off]))
}

fn group_locks(_: &Rows, row: &Row) -> Option<Spread> {
    let each = acquisitions_of(&row.locks, "group") as f64 / row.ops.max(1) as f64;
    (!row.locks.is_empty()).then(|| Spread::of(&[each]))
}

/// The rate of the kernel, which keeps no namespaces alive.
fn namespaces_of_linux(rows: &Rows) -> Option<String> {
    let kernel = rows.0.iter().find(|row| row.live.is_none())?;
    let (rate, cost) = (
        count(kernel.ops_per_s.median),
        kernel.cost_ns.map_or_else(String::new, count),
    );
    let workers = kernel.threads;
    Some(format!(
        "Linux, unshare(CLONE_NEWIPC) in a loop by {workers} workers: {rate} namespaces/s, {cost} ns of a CPU each."
    ))
}

/// Rates by threads, a line for each variant.
fn lines(
    id: &str,
    title: &str,
    sections: &'static [&'static str],
    x: &'static str,
    y: &'static str,
) -> FigureSpec {
    FigureSpec {
        id: id.to_owned(),
        title: title.to_owned(),
        subtitle: "image in memory",
        sections,
        keep: Box::new(|_| true),
        busiest: false,
        series: variant,
        x: X::Count(x, threads),
        y: (y, Scale::Linear),
        value: rate,
        add: false,
        published: Vec::new(),
        notes: Vec::new(),
        remark: |_| None,
    }
}

/// Rates in groups of bars, a bar for each variant.
fn bars(
    id: &str,
    title: &str,
    sections: &'static [&'static str],
    y: &'static str,
    group: fn(&Row) -> String,
) -> FigureSpec {
    FigureSpec {
        x: X::Groups("", group),
        ..lines(id, title, sections, "", y)
    }
}

/// Latencies of the rows of the most threads, a line for each variant.
fn latency(id: &str, title: &str, sections: &'static [&'static str]) -> FigureSpec {
    FigureSpec {
        busiest: true,
        x: X::Percentiles,
        ..lines(id, title, sections, "", "latency (us)")
    }
    .log()
}

impl FigureSpec {
    fn log(self) -> FigureSpec {
        FigureSpec {
            y: (self.y.0, Scale::Log),
            ..self
        }
    }

    fn about(self, subtitle: &'static str) -> FigureSpec {
        FigureSpec { subtitle, ..self }
    }

    fn only(self, keep: impl Fn(&Row) -> bool + 'static) -> FigureSpec {
        FigureSpec {
            keep: Box::new(keep),
            ..self
        }
    }

    fn op(self, op: &'static str) -> FigureSpec {
        self.only(move |row| row.op == op)
    }

    fn note(mut self, note: &'static str) -> FigureSpec {
        self.notes.push(note);
        self
    }
}

/// Every part, in the order of the page.
pub fn parts() -> [Part; 8] {
    [
        allocation(),
        generation(),
        timestamps(),
        direct_io(),
        namespaces(),
        queues(),
        fsync(),
        mounted(),
    ]
}

const BESIDE_LINUX: &str = "both images on tmpfs, Linux through a loop device";

fn allocation() -> Part {
    let delayed = "journal calls sleep 50 us, as they do while a transaction closes";
    Part {
        id: "inode-allocation",
        title: "Inode allocation",
        text: "Each worker creates files in a directory of its own, then removes them; each phase ends with a sync inside \
               its time. With retry-unlocked a worker searches for a free inode, requests write access from the journal, \
               and only then takes the lock of the group: a worker that lost the race starts again. With retry-locked it \
               searches again under the lock. lock-free claims the bit with one atomic operation.",
        figures: vec![
            lines("alloc-create", "Creates by workers", &["mdtest"], "workers", "creates/s").op("create"),
            lines("alloc-remove", "Removes by workers", &["mdtest"], "workers", "removes/s").op("remove"),
            lines("alloc-delay-create", "Creates by workers while transactions close", &["mdtest-delay"], "workers", "creates/s")
                .op("create").log().about(delayed),
            lines("alloc-delay-remove", "Removes by workers while transactions close", &["mdtest-delay"], "workers", "removes/s")
                .op("remove").log().about(delayed),
            FigureSpec {
                value: group_locks,
                ..lines("alloc-acquisitions", "Acquisitions of the group lock for a create", &["mdtest-delay"], "workers", "acquisitions per create")
            }
            .op("create").log()
            .about("journal calls sleep 50 us; claims without a lock count as one")
            .note("Published: 180,899,929 acquisitions of spin locks of every kind for 1,440,000 creates by 48 processes, 126 for each."),
            bars("alloc-kernel", "Creates and removes beside Linux", &["mdtest-kernel"], "operations/s",
                 |row| format!("{}, {}", row.op, row.threads)).about("by workers; both images on tmpfs, Linux through a loop device"),
        ],
        locks: &[("mdtest", "create"), ("mdtest-delay", "create")],
        stages: Some("mdtest-delay"),
        sections: &["mdtest", "mdtest-delay", "mdtest-kernel"],
    }
}

fn generation() -> Part {
    let curve = |name, values: [f64; 8]| {
        let over_first = values.map(|value| value / values[0]);
        (name, TASKS.into_iter().zip(over_first).collect())
    };
    Part {
        id: "inode-generation",
        title: "Inode generation",
        text: "Every new inode gets a generation, so that a stale handle of a reused inode is refused. Each task creates and \
               unlinks one file in a directory of its own, in a loop: one generation for each pair.",
        figures: vec![
            lines("generation", "Create+unlink by tasks", &["create-unlink"], "tasks", "pairs/s"),
            FigureSpec {
                value: over_one,
                published: vec![curve("spinlock", SPINLOCK), curve("atomic", ATOMIC)],
                ..lines("generation-scaling", "What more tasks gain", &["create-unlink"], "tasks", "times the rate of one task")
            }
            .about("rate over that of one task; the published machine has many cores")
            .note("Published: 137, 224, 356, 439, 443, 598, 559, 385 with the lock at 1 to 128 tasks; 140, 233, 372, 519, \
                   585, 695, 707, 437 with one atomic counter. No variant can gain more than there are CPUs."),
            lines("generation-kernel", "Create+unlink beside Linux", &["create-unlink-kernel"], "tasks", "pairs/s")
                .log().about(BESIDE_LINUX),
            lines("generation-draws", "Generations drawn", &["generation"], "threads", "draws/s").about("drawing alone"),
            latency("generation-latency", "Latency of create+unlink with the most tasks", &["create-unlink"])
                .note("With more tasks than CPUs the tail is a task that waits for a CPU."),
        ],
        locks: &[("create-unlink", "create+unlink")],
        stages: None,
        sections: &["create-unlink", "create-unlink-kernel", "generation"],
    }
}

fn timestamps() -> Part {
    const SECTIONS: &[&str] = &["create-unlink-lazytime"];
    Part {
        id: "lazy-timestamps",
        title: "Lazy timestamps and the inode cache",
        text: "With lazytime, writing one inode also writes the pending timestamps of the others in its block of the \
               inode table, for which each is looked up in the inode cache: 16 look-ups. With one lock for the cache \
               they wait for each other; global-nowait skips a cache that is locked; per-bucket looks up all of them in one bucket.",
        figures: vec![
            lines("lazytime", "Create+unlink with and without lazytime", SECTIONS, "tasks", "pairs/s"),
            FigureSpec {
                value: over_no_lazytime,
                ..lines("lazytime-ratio", "What lazytime leaves", SECTIONS, "tasks", "times the rate without")
            }
            .about("rate with lazytime over the rate without")
            .note("Published: with one lock lazytime made create and unlink about 16 times slower, which is 0.06 here."),
            latency("icache-shrink", "Reading while the cache shrinks", &["icache-shrink"]).op("lookup+getattr")
                .about("look-up and attributes of 256 files, beside a creator of many")
                .note("A reader should not be delayed while the cache shrinks."),
        ],
        locks: &[("create-unlink-lazytime", "create+unlink")],
        stages: None,
        sections: &["create-unlink-lazytime", "icache-shrink"],
    }
}

/// The sizes of requests, and the modes of a mount.
const SIZES: [(u64, &str, &str); 2] = [(KIB_4, "4k", "4K"), (MIB_1, "1m", "1M")];
const MODES: [(&str, &str, &str); 2] = [
    ("dioread_nolock", "nolock", "dioread_nolock"),
    ("dioread_lock", "lock", "without dioread_nolock"),
];

fn direct_io() -> Part {
    const MODELLED: &[&str] = &["randrw", "randrw-large"];
    const KERNEL: &[&str] = &["randrw-kernel"];
    let mut figures = Vec::new();
    for (mode, short, words) in MODES {
        for (bytes, stem, size) in SIZES {
            figures.push(gain(MODELLED, mode, short, words, bytes, stem, size));
        }
    }
    for (bytes, stem, size) in SIZES {
        for (mode, _, words) in MODES {
            let title = format!("Random direct I/O of {size}, {words}");
            figures.push(
                FigureSpec {
                    series: variant_alone,
                    add: true,
                    ..lines(
                        &format!("dio-{stem}-{mode}"),
                        &title,
                        MODELLED,
                        "threads",
                        "requests/s",
                    )
                }
                .only(move |row| row.block_size == Some(bytes) && of_mode(row, mode))
                .log()
                .about("reads and writes together, medians added; modelled device"),
            );
        }
    }
    figures.push(
        FigureSpec {
            series: variant_alone,
            ..latency(
                "dio-latency",
                "Latency of writes of 4K with the most threads",
                MODELLED,
            )
        }
        .only(|row| {
            row.op == "write" && row.block_size == Some(KIB_4) && of_mode(row, "dioread_nolock")
        })
        .about("dioread_nolock, modelled device of 80 us"),
    );
    for (bytes, stem, size) in SIZES {
        let title = format!("Random direct I/O of {size} beside Linux");
        figures.push(
            FigureSpec {
                add: true,
                ..bars(
                    &format!("dio-kernel-{stem}"),
                    &title,
                    KERNEL,
                    "requests/s",
                    |row| format!("{} threads", row.threads),
                )
            }
            .only(move |row| row.block_size == Some(bytes))
            .about("reads and writes together; both images on tmpfs, Linux through a loop device"),
        );
    }
    Part {
        id: "direct-io",
        title: "Direct I/O and the inode lock",
        text: "Every thread reads and writes blocks at random offsets of one file, half and half, direct, on a modelled \
               device that serves 32 requests at a time in 80 us each. exclusive-first takes the inode lock exclusively for a \
               write and only then finds that it overwrites; shared-first starts shared. Without dioread_nolock both \
               write exclusively.",
        figures,
        locks: &[("randrw", "write")],
        stages: None,
        sections: &["randrw", "randrw-large", "randrw-kernel"],
    }
}

/// Whether a row is of that mount mode, or of the bare device, which has none.
fn of_mode(row: &Row, mode: &str) -> bool {
    row.variant == "bare" || row.variant.split('/').nth(1) == Some(mode)
}

/// The gain of shared-first over exclusive-first.
fn gain(
    sections: &'static [&'static str],
    mode: &'static str,
    short: &str,
    words: &str,
    bytes: u64,
    stem: &str,
    size: &str,
) -> FigureSpec {
    let title = format!("What shared-first gains, {size}, {words}");
    let (published, note) = match (mode, bytes) {
        ("dioread_nolock", KIB_4) => (
            vec![("reads", GAIN_4K.to_vec())],
            "The published machine is a kernel with an NVMe device.",
        ),
        ("dioread_nolock", _) => (
            vec![("both", GAIN_1M.to_vec())],
            "The published machine is a kernel with an NVMe device.",
        ),
        _ => (Vec::new(), "Published: within 3 %."),
    };
    FigureSpec {
        series: |row| format!("{}s", row.op),
        value: |_, row| row.gain_percent.map(|percent| Spread::of(&[percent])),
        published,
        ..lines(
            &format!("dio-gain-{stem}-{short}"),
            &title,
            sections,
            "threads",
            "gain (%)",
        )
    }
    .only(move |row| {
        row.block_size == Some(bytes) && row.variant.strip_prefix("shared-first/") == Some(mode)
    })
    .about("over exclusive-first, by threads; random reads and writes, half and half")
    .note(note)
}

fn namespaces() -> Part {
    Part {
        id: "namespaces",
        title: "Superblock registry and namespaces",
        text: "Each worker creates an IPC namespace with its superblock of message queues and drops its oldest, in a \
               loop. keyed searches all live superblocks for a key that cannot be present; nodev does not search; beyond \
               writes no global lock.",
        figures: vec![
            FigureSpec {
                x: X::Count("live namespaces", |row| row.live),
                value: |_, row| row.cost_ns.map(|ns| Spread::of(&[ns])),
                remark: namespaces_of_linux,
                ..lines("clone-cost", "Cost of a namespace by how many are alive", &["clone", "clone-many"], "", "ns of a CPU")
            }
            .log().about("CPU time for creating one and dropping one, 32 workers")
            .note("A namespace of Linux also has semaphores, shared memory and sysctls, and is freed later."),
            lines("clone-workers", "Namespaces by workers", &["clone-workers"], "workers", "namespaces/s").log()
                .about("1,000 alive")
                .note("Published for nodev over keyed, 32 workers: 5948.45 to 9137.06 ops/s, +54 %."),
            latency("clone-latency", "Latency of creating and dropping a namespace", &["clone-workers"])
                .about("1,000 alive, the most workers"),
        ],
        locks: &[("clone-workers", "create+drop")],
        stages: None,
        sections: &["clone", "clone-many", "clone-workers"],
    }
}

fn queues() -> Part {
    let group = |row: &Row| format!("{}, {}", row.op, row.queues.unwrap_or(0));
    Part {
        id: "message-queues",
        title: "Message queues",
        text: "64-byte messages through queues of 10: stream one way, mixed with priorities, ping-pong there and back. \
               Linux has its own POSIX message queues beside ours, with the same calls.",
        figures: vec![
            bars("mq", "Messages between threads", &["mq"], "messages/s", group)
                .about("by queues; an operation of ping-pong is a round trip"),
            bars("mq-mounted", "Messages between processes", &["mq-mounted"], "messages/s", group)
                .about("by queues; ours through a mount, for unchanged programs")
                .note("A message through a mount is two requests of FUSE, so the kernel's own queues are faster."),
        ],
        locks: &[],
        stages: None,
        sections: &["mq", "mq-mounted"],
    }
}

fn fsync() -> Part {
    Part {
        id: "fsync-on-a-disk",
        title: "fsync",
        text: "Threads append 4 KiB to a file of their own and fsync it. Both images are fully written files on the \
               same disk; ours is opened, the other one mounted through a loop device with direct I/O. An fsync \
               returns when the disk has flushed, on both sides.",
        figures: vec![
            lines(
                "fsync",
                "fsync beside Linux",
                &["fsync"],
                "threads",
                "fsyncs/s",
            )
            .log()
            .about("appends of 4 KiB with fsync, a file for each thread, one disk"),
            latency(
                "fsync-latency",
                "Latency of an fsync with the most threads",
                &["fsync"],
            )
            .about("one disk"),
        ],
        locks: &[],
        stages: None,
        sections: &["fsync"],
    }
}

fn mounted() -> Part {
    let workload = |name: &'static str, ops: &'static [&'static str]| {
        move |row: &Row| row.workload.as_deref() == Some(name) && ops.contains(&&*row.op)
    };
    let by_op = |row: &Row| row.op.clone();
    Part {
        id: "mounted",
        title: "Mounted directories",
        text: "The same directory by uext4 mount, by fuse2fs and by Linux's ext4; null keeps names in memory and has no \
               image, which bounds what any server can reach. What a figure counts is durable when its time ends: each \
               directory, or the one file, is fsynced inside it, and a tree is unmounted. Each turn has an image of its own, \
               and e2fsck -fn finds nothing.",
        figures: vec![
            bars(
                "fuse-create",
                "Files through a mounted directory",
                &["fuse"],
                "files/s",
                by_op,
            )
            .only(workload("create", &["create", "remove"]))
            .about("processes, each in a directory of its own"),
            lines(
                "fuse-randrw",
                "Random direct I/O through a mounted directory",
                &["fuse"],
                "threads",
                "requests/s",
            )
            .only(workload("randrw", &["randrw"]))
            .about("4 KiB, half reads, one file"),
            bars(
                "fuse-seq",
                "One large file through a mounted directory",
                &["fuse"],
                "MiB/s",
                by_op,
            )
            .only(workload(
                "seq",
                &[
                    "write-buffered",
                    "read-buffered",
                    "write-direct",
                    "read-direct",
                ],
            ))
            .about(""),
            bars(
                "fuse-tar",
                "A tree unpacked and removed",
                &["fuse"],
                "files/s",
                by_op,
            )
            .only(workload("tar", &["extract", "remove"]))
            .about(""),
        ],
        locks: &[],
        stages: None,
        sections: &["fuse"],
    }
}

//! The same calls on every CPU, each with a directory, a file, a namespace and a queue of its own: which lines more than
//! one CPU writes.

use super::super::ConflictsArgs;
use super::call::{Call, What, World};
use super::cases::{Case, Scope};
use super::cpu::Cpu;
use super::place::{Place, Places};
use super::queues::{self, Queues};
use super::record::{Recording, Site};
use super::recorded::record_on;
use crate::quiet_image::mounted_for;
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use uext4_ext4::MountOptions;
use uext4_sync::stat;
use uext4_testkit::operation::{Op, apply, find};

const FILE_BYTES: usize = 16 << 10;
/// Files that each CPU creates while locks are counted.
const COUNTED: usize = 16;

/// What each CPU does with files.
const CALLS: [(What, &str); 6] = [
    (What::Create, "new"),
    (What::Unlink, "old"),
    (What::Lookup, "file"),
    (What::Stat, "file"),
    (What::ReadDirect, "file"),
    (What::WriteDirect, "file"),
];

/// A line, or several of one place, that more than one CPU writes or that some write and others read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    pub place: Rc<Place>,
    /// The most CPUs that write such a line, and those that only read it.
    pub writers: usize,
    pub readers: usize,
}

/// What the calls of all CPUs came to.
pub struct Found {
    /// Those of most writers first.
    pub written: Vec<Written>,
    /// Locks taken for each create, atomic claims among them, and how many of those had to be tried again.
    pub locks_per_create: f64,
    pub retries_per_create: f64,
}

/// What the CPUs did to a line.
#[derive(Default)]
struct Line {
    writers: BTreeSet<usize>,
    readers: BTreeSet<usize>,
    site: Option<Site>,
}

fn path(cpu: usize, name: &str) -> Vec<u8> {
    format!("d{cpu}/{name}").into_bytes()
}

fn call(cpu: usize, what: What, name: &str) -> Call {
    Call {
        what,
        path: path(cpu, name),
        new: Vec::new(),
        at: 0,
    }
}

/// What a CPU makes, and does before: the calls that it will do, and back.
fn prepared(cpu: usize) -> Vec<Op> {
    let create = |name: &str| Op::Create {
        path: path(cpu, name),
        mode: 0o644,
    };
    let unlink = |name: &str| Op::Unlink {
        path: path(cpu, name),
        keep: false,
    };
    let write = || Op::Write {
        path: path(cpu, "file"),
        at: 0,
        data: vec![7; super::call::IO_BYTES],
        direct: true,
    };
    let dir = Op::Mkdir {
        path: format!("d{cpu}").into_bytes(),
        mode: 0o755,
    };
    let content = Op::Append {
        path: path(cpu, "file"),
        data: vec![7; FILE_BYTES],
    };
    let mut ops = vec![dir, create("file"), create("old"), content];
    for _ in 0..2 {
        ops.extend([create("new"), unlink("new"), write()]);
    }
    ops
}

fn world(cpus: &[Cpu], options: &MountOptions) -> Result<Arc<World>> {
    let fs = mounted_for(cpus.len(), 0, options)?;
    for (number, cpu) in cpus.iter().enumerate() {
        let fs = Arc::clone(&fs);
        cpu.run(move || {
            for op in prepared(number) {
                let done = apply(&*fs, &op);
                done.with_context(|| format!("preparing: {op:?}"))?;
            }
            Ok(())
        })?;
    }
    let mut nodes = HashMap::new();
    for cpu in 0..cpus.len() {
        for path in [format!("d{cpu}").into_bytes(), path(cpu, "file")] {
            let node = find(&*fs, &path)?;
            nodes.insert(path, node);
        }
    }
    let world = Arc::new(World { fs, nodes });
    // What a call that only reads needs once is not counted.
    for (number, cpu) in cpus.iter().enumerate() {
        let world = Arc::clone(&world);
        cpu.run(move || {
            let calls = CALLS
                .into_iter()
                .map(|(what, name)| call(number, what, name));
            for call in calls.filter(Call::only_reads) {
                call.run(&world, &mut call.buffer())?;
            }
            Ok(())
        })?;
    }
    Ok(world)
}

/// Counts the locks of creates, one CPU after the other.
fn count_locks(cpus: &[Cpu], world: &Arc<World>) -> Result<(f64, f64)> {
    stat::enable(true);
    stat::reset();
    for (number, cpu) in cpus.iter().enumerate() {
        let world = Arc::clone(world);
        cpu.run(move || {
            for file in 0..COUNTED {
                let call = call(number, What::Create, &format!("counted{file}"));
                call.run(&world, &mut call.buffer())?;
            }
            Ok(())
        })?;
    }
    stat::enable(false);
    let creates = (cpus.len() * COUNTED) as f64;
    let rows = stat::snapshot();
    let per_create =
        |of: fn(&stat::LockStat) -> u64| rows.iter().map(of).sum::<u64>() as f64 / creates;
    Ok((
        per_create(|row| row.acquisitions),
        per_create(|row| row.contended),
    ))
}

/// Records the calls on `count` CPUs, and counts the locks of creates.
///
/// # Errors
/// A call that fails; ptrace(2) is not allowed here.
pub fn measure(count: usize, args: &ConflictsArgs, options: &MountOptions) -> Result<Found> {
    let cpus: Vec<Cpu> = (0..count).map(Cpu::start).collect::<Result<_>>()?;
    let world = world(&cpus, options)?;
    let queues = Queues::new(args.mqueue_super, &cpus, &cpus[0])?;
    let mut lines = Lines::default();
    for (number, cpu) in cpus.iter().enumerate() {
        for (what, name) in CALLS {
            let (scope, call) = (Scope::Own, call(number, what, name));
            let case = Case { scope, call };
            lines.note(number, record_on(cpu, &case, &world)?);
        }
        for case in queues::Case::all(number) {
            if case.is_own() {
                lines.note(number, record_on(cpu, &case, &queues)?);
            }
        }
    }
    let (locks_per_create, retries_per_create) = count_locks(&cpus, &world)?;
    Ok(Found {
        written: lines.written(),
        locks_per_create,
        retries_per_create,
    })
}

/// What all CPUs did to each line.
#[derive(Default)]
struct Lines(HashMap<u64, Line>);

impl Lines {
    fn note(&mut self, cpu: usize, recording: Recording) {
        for (line, touch) in recording.lines {
            let of_allocator =
                |site: &Option<Site>| site.as_ref().is_some_and(|site| site.by_allocator);
            if of_allocator(&touch.write) || of_allocator(&touch.read) {
                continue;
            }
            let line = self.0.entry(line).or_default();
            match touch.write {
                Some(site) => {
                    line.writers.insert(cpu);
                    line.site = Some(site);
                }
                None => drop(line.readers.insert(cpu)),
            }
        }
    }

    /// The places that share lines, those of most writers first.
    fn written(self) -> Vec<Written> {
        let mut places = Places::default();
        let mut found: BTreeMap<Rc<Place>, Written> = BTreeMap::new();
        for line in self.0.into_values() {
            let only_read = line.readers.difference(&line.writers).count();
            let Some(site) = line.site.filter(|_| line.writers.len() + only_read > 1) else {
                continue;
            };
            let Some(place) = places.of(&site).filter(|place| !place.is_of_device()) else {
                continue;
            };
            let written = found.entry(Rc::clone(&place)).or_insert(Written {
                place,
                writers: 0,
                readers: 0,
            });
            written.writers = written.writers.max(line.writers.len());
            written.readers = written.readers.max(only_read);
        }
        let mut found: Vec<Written> = found.into_values().collect();
        found.sort_by_key(|written| std::cmp::Reverse((written.writers, written.readers)));
        found
    }
}

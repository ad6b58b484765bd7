//! Mechanism 1: inode allocation. An operation creates a file.
//!
//! # Protocols
//! All workers' directories belong to one group, whose bitmap they search. Bits are claimed and never given back.
//! * `retry-unlocked`: finds the first clear bit; the journal's handle is started, once a create; write access to
//!   the bitmap; then the group's lock, and the bit is set. Who finds it set meanwhile lets the lock go and goes on
//!   behind that bit: search, write access, lock.
//! * `retry-locked`: as that, but a loser searches again with the lock held, and so has a bit for sure.
//! * `lock-free`: start and write access first, then one atomic operation on a line of the bitmap that is the core's
//!   own as long as there are enough: 8,192 inodes of a group are 16 lines.
//!
//! In the document with `--journal-delay` start and write access sleep; the kernel's timer slack lets sleeps of one
//! core end together. In the other one they take CPU time, and a race is lost only within that.
//!
//! # What is left out of projections
//! The sync that ends a phase, and what starting the workers takes: what a counted run takes beside its creates, at one
//! worker, is added for every create to what the model says for this machine.

mod group;

use crate::model::document::Document;
use crate::model::engine::{Machine, Run, Setup};
use crate::model::fit::{self, Subject};
use crate::model::parameters::Parameters;
use crate::model::published;
use crate::model::result::{Cost, Mechanism, VariantModel};
use crate::model::{Omitted, split};
use group::{Journal, SEARCH_NS, play};

const OPS: &[&str] = &["create"];
/// Two workers are done within a few milliseconds, sometimes before the scheduler has moved one of them to the idle
/// CPU: that point is fitted, beside a longer run, and the longer runs are the check.
const FITTED: &[usize] = &[1, 2, 32];
/// What sleeping takes of the CPUs shows only where they are busy with it, with many workers.
const FITTED_SLEEPING: &[usize] = &[1, 32, 48];
const CLASS: &str = "group";
/// Creates of each worker that are simulated, at most; fewer where each takes many tries.
const QUOTA_MAX: usize = 100;
const QUOTA_MAX_SLEEPING: usize = 60;
/// Steps of a create.
const STEPS: usize = 12;
/// What going to sleep and waking may take of a CPU, in nanoseconds.
const SLEEP_CPU: (f64, f64) = (300.0, 20_000.0);

/// Journal calls that sleep.
pub fn sleeping(document: &Document, parameters: &Parameters) -> Mechanism {
    let title = "Inode allocation, journal calls sleep";
    mechanism(document, parameters, "ialloc-delayed", title, true)
}

/// Journal calls that take CPU time.
pub fn awake(document: &Document, parameters: &Parameters) -> Mechanism {
    let title = "Inode allocation, nothing sleeps";
    mechanism(document, parameters, "ialloc", title, false)
}

fn mechanism(
    document: &Document,
    parameters: &Parameters,
    name: &str,
    title: &str,
    sleeps: bool,
) -> Mechanism {
    let mut remarks = Vec::new();
    let mut known = Vec::new();
    for variant in document.variants(OPS) {
        match Times::of(document, &variant, sleeps) {
            Ok(times) => known.push((variant, times)),
            Err(why) => remarks.push(format!("{variant} is left out: {why}.")),
        }
    }
    if sleeps {
        share_sleeps(&mut known);
    }
    let fit = |(variant, times): &(String, Times)| {
        fitted_variant(document, parameters, variant, times, sleeps)
    };
    let variants: Vec<VariantModel> = known.iter().map(fit).collect();
    remarks.extend(compare(&variants, sleeps));
    Mechanism {
        name: name.to_owned(),
        title: title.to_owned(),
        unit: "creates/s".to_owned(),
        counts: "workers".to_owned(),
        variants,
        published: published::ialloc(),
        remarks,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    RetryUnlocked,
    RetryLocked,
    LockFree,
}

/// What a create takes of one worker, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    variant: Variant,
    /// Beside the journal calls.
    cpu: f64,
    /// Starting a handle.
    start: f64,
    /// Getting write access.
    access: f64,
    hold: f64,
    /// Beside the create: starting workers, and the sync.
    beside: f64,
}

impl Times {
    fn of(document: &Document, name: &str, sleeps: bool) -> Result<Times, Omitted> {
        let variant = match name {
            "retry-unlocked" => Variant::RetryUnlocked,
            "retry-locked" => Variant::RetryLocked,
            "lock-free" => Variant::LockFree,
            _ => return Err("its protocol is not known".to_owned()),
        };
        let alone_ns = split::alone_ns(&document.measured(name, OPS))?;
        let row = document
            .row(name, OPS, 1)
            .ok_or("one worker was not measured")?;
        let stage = |stage| {
            let why = || format!("stage {stage} was not counted at one worker");
            row.stage_ns(stage).ok_or_else(why)
        };
        let counted_ns = row.seconds * 1e9 / row.ops.max(1.0);
        // Sleeps of the round that counted were longer or shorter than those of the others, by chance.
        let (clock, scale) = match sleeps {
            true => (0.0, (alone_ns / counted_ns.max(1.0)).clamp(0.5, 2.0)),
            false => (document.clock_ns(), 1.0),
        };
        let create = stage("create")? * scale;
        let start = (stage("journal start")? * scale - clock).max(1.0);
        let access = (stage("journal write access")? * scale - clock).max(1.0);
        let beside = (counted_ns * scale - create).clamp(0.0, alone_ns / 2.0);
        let hold = match variant {
            Variant::LockFree => 0.0,
            _ => split::net_hold_ns(document, name, OPS, CLASS)?,
        };
        // The counted run is slower by what counting takes: where nothing sleeps the plain rate tells the CPU time.
        let created = if sleeps { create } else { alone_ns - beside };
        Ok(Times {
            variant,
            cpu: (created - start - access).max(created * 0.01),
            start,
            access,
            hold: hold.min(alone_ns / 4.0),
            beside,
        })
    }

    fn costs(&self, sleeps: bool) -> Vec<Cost> {
        let stage = if sleeps {
            "the stage's average at one worker, scaled to the plain rate, over all variants; it sleeps"
        } else {
            "the stage's average at one worker, less the clock"
        };
        vec![
            Cost::new(
                "CPU time",
                self.cpu,
                "ns",
                "of a create beside the journal calls, one worker",
            ),
            Cost::new("journal start", self.start, "ns", stage),
            Cost::new("journal write access", self.access, "ns", stage),
            split::hold_cost(self.hold),
            Cost::new(
                "search",
                SEARCH_NS,
                "ns",
                "of the bitmap, for each try; assumed",
            ),
            Cost::new(
                "beside the creates",
                self.beside,
                "ns",
                "a create, of starting workers and the sync: what the counted run took longer than its creates, \
                 at one worker; not in projections",
            ),
        ]
    }
}

/// How long a journal call sleeps is not the variant's: all have the average.
fn share_sleeps(known: &mut [(String, Times)]) {
    let count = known.len().max(1) as f64;
    let mean =
        |of: fn(&Times) -> f64| known.iter().map(|(_, times)| of(times)).sum::<f64>() / count;
    let (start, access) = (mean(|times| times.start), mean(|times| times.access));
    for (_, times) in known {
        (times.start, times.access) = (start, access);
    }
}

fn fitted_variant(
    document: &Document,
    parameters: &Parameters,
    name: &str,
    times: &Times,
    sleeps: bool,
) -> VariantModel {
    let points = document.measured(name, OPS);
    let journal = |workers: usize, value: f64| match sleeps {
        true => Journal::Sleeps(value.min(times.access.min(times.start) / 2.0)),
        false => Journal::Computes(if workers > 1 { value } else { 1.0 }),
    };
    let (counts, bounds, quota_max) = match sleeps {
        true => (FITTED_SLEEPING, SLEEP_CPU, QUOTA_MAX_SLEEPING),
        false => (FITTED, split::SLOWDOWN, QUOTA_MAX),
    };
    let simulate = |machine: &Machine, workers: usize, value: f64| {
        let ops = document.row(name, OPS, workers).map_or(0.0, |row| row.ops);
        let each = (ops / workers.max(1) as f64) as usize;
        let setup = Setup {
            workers,
            quota: Some(each.clamp(20, quota_max)),
            ..Setup::default()
        };
        let run = play(times, journal(workers, value), machine, setup);
        Run {
            ops_per_s: 1e9 / (1e9 / run.ops_per_s + times.beside),
            ..run
        }
    };
    let subject = Subject {
        points,
        counts,
        bounds,
        simulate: &simulate,
    };
    let fitted = subject.fit(&parameters.here(document.cpus()));
    let value = fitted.value;
    let mut costs = times.costs(sleeps);
    costs.push(match sleeps {
        true => {
            let source = "fitted: CPU time of going to sleep and waking";
            Cost::new("sleeping", value, "ns", source)
        }
        false => split::slowdown_cost(value),
    });
    let measured = |count| match times.variant {
        Variant::LockFree => None,
        _ => Some(document.row(name, OPS, count)?.lock(CLASS)?.per_op),
    };
    let rate = |machine: &Machine| {
        let operations = match times.variant {
            // Each takes as many tries as there are workers.
            Variant::RetryUnlocked => machine.cores * 6,
            _ => parameters.operations_of(machine.cores, STEPS),
        };
        let setup = Setup {
            workers: machine.cores,
            operations,
            ..Setup::default()
        };
        play(times, journal(machine.cores, value), machine, setup).ops_per_s
    };
    let projected = fit::project(parameters, |m| m, rate);
    fitted.variant(name, costs, projected, measured)
}

/// What the projection says beside the published figures.
fn compare(variants: &[VariantModel], sleeps: bool) -> Vec<String> {
    let of = |name: &str| variants.iter().find(|variant| variant.name == name);
    let (Some(before), Some(after)) = (of("retry-unlocked"), of("retry-locked")) else {
        return Vec::new();
    };
    let published = published::CREATES.1 / published::CREATES.0;
    let both = before.projected.iter().zip(&after.projected);
    let gains: Vec<String> = both
        .map(|(b, a)| format!("{:.1} at {} cores", a.ops_per_s / b.ops_per_s, b.cores))
        .collect();
    let why = if sleeps {
        "Here every journal call sleeps, as it does in the kernel while a transaction closes; between such moments \
         no race is long, so the kernel's gain may well lie between this and that without sleeps."
    } else {
        "Nothing sleeps between search and claim here, so a race is lost only within some tens of nanoseconds; in the \
         kernel's runs most lost races presumably came of calls that slept."
    };
    let mut remarks = vec![format!(
        "retry-locked over retry-unlocked: {} times; published {published:.1} at 48 processes. {why}",
        gains.join(", ")
    )];
    let many = before.acquisitions_per_op.last();
    if let Some(many) = many {
        remarks.push(format!(
            "At {} workers retry-unlocked takes the group's lock {:.1} times a create ({:.1} by the model); the \
             published system took 126 spin locks of all classes a create, and asked 51 times for write access.",
            many.count, many.measured, many.modelled
        ));
    }
    if let Some(free) = of("lock-free")
        && let (Some((_, free)), Some((_, after))) = (split::ends(free), split::ends(after))
    {
        let times = free.ops_per_s / after.ops_per_s;
        let why = if times < 1.2 {
            "Nearly all of a create is sleep, so the group's lock is free most of the time."
        } else {
            "All directories are taken to lie in one group, whose lock and bitmap line everybody needs with \
             retry-locked; in a large run they spread over groups as those fill up, which the model leaves out."
        };
        remarks.push(format!(
            "lock-free over retry-locked at {} cores: {times:.1} times. {why} The published work has no such variant.",
            free.cores,
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquisitions(variant: Variant, workers: usize) -> f64 {
        let times = Times {
            variant,
            cpu: 3000.0,
            start: 110_000.0,
            access: 110_000.0,
            hold: 20.0,
            beside: 0.0,
        };
        let setup = Setup {
            workers,
            quota: Some(100),
            ..Setup::default()
        };
        let here = Parameters::default().here(2);
        play(&times, Journal::Sleeps(2000.0), &here, setup).acquisitions_per_op
    }

    /// All who sleep between search and claim have seen the same bit, and one of them gets it.
    #[test]
    fn sleeping_loses_nearly_every_race_without_the_lock_and_none_with_it() {
        assert_eq!(acquisitions(Variant::RetryUnlocked, 1), 1.0);
        let many = acquisitions(Variant::RetryUnlocked, 48);
        assert!((25.0..49.0).contains(&many), "{many}");
        assert_eq!(acquisitions(Variant::RetryLocked, 48), 1.0);
        assert_eq!(acquisitions(Variant::LockFree, 48), 0.0);
    }
}

//! Mechanism 4: direct I/O and the inode lock. An operation is a request, half reads, half writes, at random.
//!
//! # Protocols
//! Reads share the inode's lock while they are at the device. Writes overwrite, and
//! * *share* it too (`shared-first` with dioread_nolock, `shared-always`, `range`);
//! * *demote*: take it alone, and share it as soon as they see that they overwrite (`exclusive-first` with
//!   dioread_nolock): each waits for every reader inside, and lets in those that came meanwhile;
//! * are *alone* until they end (`exclusive-first` and `shared-first` without dioread_nolock).
//!
//! Taking the lock alone looks at the readers' counter of each CPU, 64 at most. Who waits sleeps, and it takes
//! a while until who was let in runs: the number that is fitted where writes exclude others. Where nothing does, the
//! CPU time around a request is.
//!
//! The device serves 32 requests at a time, each in its nominal time and, on average, what it was late by at one
//! thread.

use crate::model::document::Document;
use crate::model::engine::{Machine, Outcome, Protocol, Run, Setup, Simulation, Step, ticks};
use crate::model::fit::{self, Subject};
use crate::model::parameters::Parameters;
use crate::model::published;
use crate::model::result::{Cost, Mechanism, OtherMachine, VariantModel};
use crate::model::{Omitted, split};
use fastrand::Rng;

const OPS: &[&str] = &["read", "write"];
const FITTED: &[usize] = &[1, 4, 24];
/// Requests that the device serves at a time.
const SERVERS: usize = 32;
/// Readers' counters that there are at most.
const COUNTERS: usize = 64;
/// What the CPU may do around a request, in nanoseconds.
const CPU: (f64, f64) = (100.0, 20_000.0);
/// How long it may take until a sleeper runs, in nanoseconds.
const HAND_OVER: (f64, f64) = (100.0, 100_000.0);

/// Fits, checks and projects.
pub fn model(document: &Document, parameters: &Parameters) -> Mechanism {
    let mut remarks = Vec::new();
    let mut variants = Vec::new();
    for name in document.variants(OPS) {
        match variant(document, parameters, &name) {
            Ok(Some(variant)) => variants.push(variant),
            Ok(None) => {}
            Err(why) => remarks.push(format!("{name} is left out: {why}.")),
        }
    }
    remarks.extend(compare(&variants));
    Mechanism {
        name: "dio-lock".to_owned(),
        title: "Direct I/O and the inode lock".to_owned(),
        unit: "reads and writes/s".to_owned(),
        counts: "threads".to_owned(),
        variants,
        published: published::ilock(),
        remarks,
    }
}

/// What a write does with the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Shares,
    Demotes,
    Alone,
}

impl Write {
    /// Nothing for what has no lock.
    fn of(name: &str) -> Result<Option<Write>, Omitted> {
        Ok(Some(match name {
            "bare" => return Ok(None),
            "exclusive-first/dioread_nolock" => Write::Demotes,
            "exclusive-first/dioread_lock" | "shared-first/dioread_lock" => Write::Alone,
            _ => match name.split_once('/') {
                Some(("shared-first" | "shared-always" | "range", _)) => Write::Shares,
                _ => return Err("its protocol is not known".to_owned()),
            },
        }))
    }
}

#[derive(Clone, Copy, Debug)]
struct Times {
    write: Write,
    cpu_ns: f64,
    nominal_ns: f64,
    late_ns: f64,
}

impl Times {
    fn of(document: &Document, name: &str, write: Write, alone_ns: f64) -> Result<Times, Omitted> {
        let row = document.row(name, OPS, 1);
        let device = row.and_then(|row| row.device_latency_us);
        let device = device.filter(|device| device.nominal > 0.0 && device.nominal.is_finite());
        let device = device.ok_or("its document has no latency of a modelled device")?;
        let late_us = (device.mean - device.nominal).clamp(0.0, device.nominal);
        Ok(Times {
            write,
            cpu_ns: (alone_ns - (device.nominal + late_us) * 1000.0).clamp(CPU.0, CPU.1),
            nominal_ns: device.nominal * 1000.0,
            late_ns: late_us * 1000.0,
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    step: u8,
    writes: bool,
}

struct File {
    times: Times,
    /// Looking at the readers' counters.
    look_ns: f64,
    threads: Vec<Thread>,
    rng: Rng,
}

impl Protocol for File {
    fn next(&mut self, worker: usize, _core: usize, _outcome: Outcome) -> Step {
        let Thread { step, writes } = self.threads[worker];
        let times = self.times;
        let is_alone = writes && times.write != Write::Shares;
        self.threads[worker].step = step + 1;
        match step {
            0 => {
                self.threads[worker].writes = self.rng.bool();
                let spread = 0.5 + self.rng.f64();
                Step::Compute(ticks(times.cpu_ns * spread))
            }
            1 if is_alone => Step::Exclusive(0),
            1 => Step::Shared(0),
            2 if is_alone => Step::Compute(ticks(self.look_ns)),
            3 if is_alone && times.write == Write::Demotes => Step::Demote(0),
            2 | 3 => Step::Compute(0),
            4 => {
                let late_ns = -times.late_ns * (1.0 - self.rng.f64()).ln();
                Step::Device(ticks(times.nominal_ns + late_ns))
            }
            5 => Step::Release(0),
            _ => {
                self.threads[worker].step = 0;
                Step::Done
            }
        }
    }
}

/// Which number is fitted: hand-over or CPU time.
fn play(
    times: Times,
    value: f64,
    machine: &Machine,
    threads: usize,
    parameters: &Parameters,
) -> Run {
    let mut machine = machine.clone();
    let mut times = times;
    match times.write {
        Write::Shares => times.cpu_ns = value,
        Write::Demotes | Write::Alone => machine.wake_ns = value,
    }
    let setup = Setup {
        workers: threads,
        rwlocks: 1,
        operations: parameters.operations_of(threads, 8),
        ..Setup::default()
    };
    let mut file = File {
        times,
        look_ns: machine.cores.min(COUNTERS) as f64 * machine.line_ns,
        threads: vec![Thread::default(); threads],
        rng: Rng::with_seed(1),
    };
    Simulation::run(&machine, setup, &mut file)
}

fn variant(
    document: &Document,
    parameters: &Parameters,
    name: &str,
) -> Result<Option<VariantModel>, Omitted> {
    let Some(write) = Write::of(name)? else {
        return Ok(None);
    };
    let points = document.measured(name, OPS);
    let times = Times::of(document, name, write, split::alone_ns(&points)?)?;
    let serving = |servers: usize| move |machine: Machine| Machine { servers, ..machine };
    let simulate = |machine: &Machine, threads: usize, value: f64| {
        play(times, value, machine, threads, parameters)
    };
    let subject = Subject {
        points,
        counts: FITTED,
        bounds: if write == Write::Shares {
            CPU
        } else {
            HAND_OVER
        },
        simulate: &simulate,
    };
    let here = serving(SERVERS)(parameters.here(document.cpus()));
    let fitted = subject.fit(&here);
    let value = fitted.value;
    let rate = |machine: &Machine| simulate(machine, machine.cores, value).ops_per_s;
    let as_many = |machine: Machine| Machine {
        servers: machine.cores.max(SERVERS),
        ..machine
    };
    let variant = OtherMachine {
        name: format!("a device that serves {SERVERS} requests at a time"),
        projected: fit::project(parameters, serving(SERVERS), rate),
    };
    let late = "what its mean was above that at one thread";
    let nominal = "the modelled device's nominal latency";
    let costs = vec![
        Cost::new("request", times.nominal_ns, "ns", nominal),
        Cost::new("late by", times.late_ns, "ns", late),
        match write {
            Write::Shares => Cost::new("CPU time", value, "ns", "fitted: around a request"),
            _ => Cost::new(
                "hand-over",
                value,
                "ns",
                "fitted: until who sleeps for the lock runs",
            ),
        },
    ];
    let projected = fit::project(parameters, as_many, rate);
    Ok(Some(VariantModel {
        other_machines: vec![variant],
        ..fitted.variant(name, costs, projected, |_| None)
    }))
}

/// What the projection says beside the published gains.
fn compare(variants: &[VariantModel]) -> Vec<String> {
    let mut remarks = vec![format!(
        "There are as many threads as cores. The device that is drawn serves as many requests at a time as there are \
         cores, and at least {SERVERS}; one that serves {SERVERS} is given beside it: it bounds every variant that shares."
    )];
    let of = |name: &str| variants.iter().find(|variant| variant.name == name);
    let percent = |a: f64, b: f64| (a / b - 1.0) * 100.0;
    if let (Some(before), Some(after)) = (
        of("exclusive-first/dioread_nolock"),
        of("shared-first/dioread_nolock"),
    ) {
        let gains = published::DIO_GAIN.iter().filter_map(|&(threads, gain)| {
            let at = |variant: &VariantModel| {
                let mut points = variant.points.iter();
                points.find(|p| p.count as f64 == threads).copied()
            };
            let (before, after) = (at(before)?, at(after)?);
            let here = percent(after.modelled, before.modelled);
            Some(format!("{here:.0} at {threads} ({gain} published)"))
        });
        remarks.push(format!(
            "shared-first over exclusive-first with dioread_nolock, percent by threads, modelled for this machine: {}. \
             The published gains level off and these do not: here the lock is phase-fair, so exclusive-first runs \
             about one writer with the readers that waited in each service time whatever the threads, and nothing \
             but the device bounds shared-first. In the kernel readers may come in past waiting writers, which makes \
             exclusive-first less slow, and the device and the CPU's work for each request bound shared-first.",
            gains.collect::<Vec<_>>().join(", ")
        ));
    }
    if let (Some(before), Some(after)) = (
        of("exclusive-first/dioread_lock"),
        of("shared-first/dioread_lock"),
    ) && let (Some((_, before)), Some((_, after))) = (split::ends(before), split::ends(after))
    {
        remarks.push(format!(
            "Without dioread_nolock shared-first is within {:.1} % of exclusive-first at {} cores (published: 3 %): \
             they do the same.",
            percent(after.ops_per_s, before.ops_per_s).abs(),
            before.cores
        ));
    }
    remarks
}

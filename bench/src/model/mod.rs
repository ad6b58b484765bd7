//! What each variant would reach on machines with more cores: its protocol, played through event by event.
//!
//! # What it is
//! A model, not a measurement. Each variant's protocol (which locks it takes, how long it holds them, which lines it
//! writes, where it sleeps) is simulated on this machine's CPUs, compared with what was measured at each count of
//! workers, and then simulated on 16 to 192 cores, one worker a core.
//!
//! # What goes in
//! Service times come from the documents that `uext4 bench … --json` prints: the CPU time of an operation is the
//! plain rate of one worker; how often a lock is taken and how long it is held come from the lock statistics, less
//! what reading the clock takes; sleeps and journal calls from the stages of a create; the latency of the
//! device from its own report. What moving a cache line takes on the larger machine is a parameter with its source
//! ([`Parameters`]), and each projection is given at half and double of it.
//!
//! # What is fitted
//! One number for each variant, to some counts of workers, never more than are left for the check; the error of every
//! point is in the result, and says whether it was fitted.
//! * CPU-bound variants: by how much two busy CPUs slow each other down (shared caches, hyperthreads, allocator).
//! * Inode allocation with sleeping journal calls: the CPU time of going to sleep and waking.
//! * Direct I/O: the CPU time around a request where all requests share the lock; else the time until
//!   somebody who sleeps for the lock runs.
//!
//! Which counts: two workers (how much two busy CPUs slow each other down) and many (what waiting for a CPU does), and
//! one worker, whose rate gives the CPU time; where sleeps or a device make the rate, a middle and the largest
//! count, as only there the CPUs have much to do.
//!
//! Nothing is fitted to a published curve. Those are given beside the projection, and where the shapes differ the
//! remarks say so, with the numbers of the run and a reason.
//!
//! # What it leaves out
//! Memory bandwidth, caches that are too small, sockets, what the allocator and the journal's commit share, and the
//! sync that ends a phase of mdtest. A simulation of a variant that only computes is about as long as a time slice, so
//! what it costs to lose the core with a lock held hardly shows in it. Two workers of a short measurement may share
//! one CPU for a while until the scheduler moves one of them, which the model does not know either.
//!
//! | module | holds |
//! | --- | --- |
//! | [`engine`] | the simulator: cores, run queue, locks, lines, device |
//! | `script` | operations that are the same steps each time |
//! | [`ialloc`], [`generation`], [`icache`], [`ilock`], [`registry`] | the protocols |
//! | [`fit`] | fitting and checking |
//! | [`document`], [`result`] | what is read, and what is given |
//! | [`parameters`], `published` | what is assumed of machines; figures of the published work |
//!
//! # Invariants
//! The same documents and parameters give the same result. Documents that are missing, empty or odd leave their
//! mechanism or variant out, with a remark.

pub mod document;
pub mod engine;
pub mod fit;
pub mod generation;
pub mod ialloc;
pub mod icache;
pub mod ilock;
pub mod parameters;
mod published;
pub mod registry;
pub mod result;
mod script;
mod split;
#[cfg(test)]
mod tests;

pub use document::Document;
pub use parameters::Parameters;
pub use result::{FitPoint, Mechanism, Projection, VariantModel};

/// The documents; what is missing is left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// `mdtest --ialloc all --journal-delay 50us --lock-stat`.
    pub ialloc_delayed: Option<&'a Document>,
    /// The same without the delay.
    pub ialloc: Option<&'a Document>,
    /// `create-unlink --generation all --lock-stat`.
    pub generation: Option<&'a Document>,
    /// `create-unlink --icache all --lazytime off,on --lock-stat`.
    pub icache: Option<&'a Document>,
    /// `randrw --device-latency 80us --dio-lock all --dioread-nolock on,off --lock-stat`.
    pub dio: Option<&'a Document>,
    /// `clone --mqueue-super all --lock-stat`.
    pub registry: Option<&'a Document>,
}

/// Why a variant or a mechanism is left out.
pub(crate) type Omitted = String;

/// Fits, checks and projects every mechanism that was measured.
pub fn project(inputs: &Inputs<'_>, parameters: &Parameters) -> Projection {
    let mut mechanisms = Vec::new();
    let mut remarks = Vec::new();
    let mut add = |name: &str, document: Option<&Document>, of: Model| match document
        .map(|document| of(document, parameters))
    {
        None => remarks.push(format!("{name}: not measured, so not modelled.")),
        Some(mechanism) if mechanism.variants.is_empty() => remarks.push(format!(
            "{name}: the document has no variant that can be modelled. {}",
            mechanism.remarks.join(" ")
        )),
        Some(mechanism) => mechanisms.push(mechanism),
    };
    add("ialloc-delayed", inputs.ialloc_delayed, ialloc::sleeping);
    add("ialloc", inputs.ialloc, ialloc::awake);
    add("generation", inputs.generation, generation::model);
    add("icache", inputs.icache, icache::model);
    add("dio-lock", inputs.dio, ilock::model);
    add("mqueue-super", inputs.registry, registry::model);
    Projection {
        parameters: parameters.costs(),
        assumptions: assumptions(),
        mechanisms,
        remarks,
    }
}

type Model = fn(&Document, &Parameters) -> Mechanism;

fn assumptions() -> Vec<String> {
    [
        "This is a model: the variants' protocols played through event by event, with times measured here. uext4 has not \
         run on the machines that it projects to.",
        "One worker runs on each core, and each core is as fast as a CPU of this machine while its other CPU is \
         busy too.",
        "Only what a variant does differently contends. The rest of an operation costs what it costs here, however \
         many cores there are: memory bandwidth, the allocator and the journal's commit are left out, and so is the \
         sync that ends a phase of mdtest. Rates of variants that share nothing are therefore upper bounds.",
        "A cache line that another core wrote takes a fixed time to come, longer with each core that waits for it. \
         That time is no measurement of this machine but a parameter with its source; results at half and \
         double of it stand beside each.",
        "All cores are equally far from each other: there are no sockets and no core complexes.",
        "Who finds a lock taken looks again ten times within some two microseconds, offering its core to others, then \
         sleeps; whoever looks while a lock is free has it.",
        "What is computed outside a lock takes between half and one and a half times its mean.",
        "The model knows of no other work on the machine, so it is fitted to and compared with the fastest round of each \
         count, which was disturbed least; the error against the median stands beside it.",
        "One number is fitted for each variant, to some of the counts of workers; the errors at the others are given. \
         Nothing is fitted to published curves.",
    ]
    .map(str::to_owned)
    .into()
}

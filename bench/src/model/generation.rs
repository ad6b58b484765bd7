//! Mechanism 2: inode generations. One draw a pair of create and unlink.
//!
//! # Protocols
//! * `spinlock`: the lock's line moves, the lock is held, and let go.
//! * `atomic`: a line moves.
//! * `percpu`, `percpu-range`, `percpu-stride`: a line of the core's own; there are 64 at most, so that on larger
//!   machines a few cores share one.
//! * `random`, `beyond`: nothing is shared.

use crate::model::document::Document;
use crate::model::parameters::Parameters;
use crate::model::published;
use crate::model::result::{Cost, Mechanism, VariantModel};
use crate::model::script::Part;
use crate::model::split::Scripted;
use crate::model::{Omitted, split};

const OPS: &[&str] = &["create+unlink"];
/// Two tasks show how much two busy CPUs slow each other down, more of them what waiting for a CPU does.
const FITTED: &[usize] = &[1, 2, 8, 64];
const CLASS: &str = "generation";
/// Counters per CPU that there are at most.
const SHARDS: usize = 64;

/// Fits, checks and projects.
pub fn model(document: &Document, parameters: &Parameters) -> Mechanism {
    let (variants, mut remarks) =
        split::variants(document, OPS, |name| variant(document, parameters, name));
    let published = published::generation();
    remarks.extend(compare(&variants));
    Mechanism {
        name: "generation".to_owned(),
        title: "Inode generation".to_owned(),
        unit: "create and unlink pairs/s".to_owned(),
        counts: "tasks".to_owned(),
        variants,
        published,
        remarks,
    }
}

fn variant(
    document: &Document,
    parameters: &Parameters,
    name: &str,
) -> Result<VariantModel, Omitted> {
    let cpu_ns = split::alone_ns(&document.measured(name, OPS))?;
    let mut costs = vec![split::cpu_cost(cpu_ns)];
    // What all draw from, if it is shared, and how long it is held.
    let (shared, hold_ns) = match name {
        "spinlock" => {
            let hold_ns = split::net_hold_ns(document, name, OPS, CLASS)?.min(cpu_ns / 2.0);
            costs.push(split::hold_cost(hold_ns));
            (Some(Part::Locked { shards: 1, hold_ns }), hold_ns)
        }
        "atomic" => (Some(Part::Line { shards: 1 }), 0.0),
        "percpu" | "percpu-range" | "percpu-stride" => (Some(Part::Line { shards: SHARDS }), 0.0),
        "random" | "beyond" => (None, 0.0),
        _ => return Err("its protocol is not known".to_owned()),
    };
    let variant = Scripted {
        document,
        parameters,
        name,
        ops: OPS,
        counts: FITTED,
        class: matches!(shared, Some(Part::Locked { .. })).then_some(CLASS),
    };
    Ok(variant.model(costs, |slowdown| {
        let half = Part::Compute((cpu_ns - hold_ns) * slowdown / 2.0);
        let shared = shared.map(|part| match part {
            Part::Locked { shards, hold_ns } => Part::Locked {
                shards,
                hold_ns: hold_ns * slowdown,
            },
            other => other,
        });
        [Some(half), shared, Some(half)]
            .into_iter()
            .flatten()
            .collect()
    }))
}

/// What the projection says beside the published curves.
fn compare(variants: &[VariantModel]) -> Vec<String> {
    let of = |name: &str| variants.iter().find(|variant| variant.name == name);
    let mut remarks = Vec::new();
    for name in ["spinlock", "atomic"] {
        let Some((first, last)) = of(name).and_then(split::ends) else {
            continue;
        };
        let (from, to) = (first.cores, last.cores);
        let times = last.ops_per_s / first.ops_per_s;
        let beside = match times {
            ..0.9 => "it falls, as the published curve does from its peak on",
            0.9..1.1 => {
                "it stays about the same, where the published curve falls from its peak on: that kernel's \
                 waiters all spun on the lock's line, and these sleep after a while"
            }
            _ => {
                "it grows, where the published curve falls from its peak on: other locks of that kernel, \
                 which are not in this model, may have been full by then"
            }
        };
        remarks.push(format!(
            "{name}: {times:.2} times as much at {to} cores as at {from}; {beside} ({}).",
            published::generation_peak(name)
        ));
    }
    if let (Some((_, lock)), Some((_, line))) = (
        of("spinlock").and_then(split::ends),
        of("atomic").and_then(split::ends),
    ) {
        remarks.push(format!(
            "atomic over spinlock at {} cores: {:.2} times; published {:.2} at 128 tasks. In the model every core \
             that wants the counter waits in the line's queue and makes it slower, while most of those that want \
             the lock sleep; which of the two is worse depends on the growth per waiter.",
            lock.cores,
            line.ops_per_s / lock.ops_per_s,
            published::ATOMIC_OVER_SPINLOCK,
        ));
    }
    if let (Some(before), Some(free)) = (of("spinlock"), of("beyond"))
        && let (Some((_, a)), Some((_, b))) = (split::ends(before), split::ends(free))
    {
        remarks.push(format!(
            "At {} cores what shares nothing reaches {:.1} times as much as the lock: a pair takes {:.0} ns of \
             CPU here, and the lock lets one through in {:.0} ns, so it is full with few cores. Where a pair takes \
             longer, as one of a kernel does, the lock has more room.",
            a.cores,
            b.ops_per_s / a.ops_per_s,
            free.costs.first().map_or(0.0, |cost: &Cost| cost.value),
            1e9 / a.ops_per_s,
        ));
    }
    remarks
}

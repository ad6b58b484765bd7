//! Mechanism 3: the inode cache and lazytime. An operation is a pair of create and unlink.
//!
//! # Protocols
//! A pair takes the cache's lock a few times. With lazytime each inode that is written looks up the 16 inodes of its
//! block of the inode table: `global` waits for the lock each time, `global-nowait` tries it and gives up,
//! `per-bucket` asks the block itself and has many locks, so that nothing here is shared.
//!
//! How many look-ups there are, and what they cost, is the difference between the variant with lazytime and the one
//! without, at one worker.

use crate::model::document::Document;
use crate::model::parameters::Parameters;
use crate::model::published;
use crate::model::result::{Cost, Mechanism, VariantModel};
use crate::model::script::Part;
use crate::model::split::Scripted;
use crate::model::{Omitted, split};

const OPS: &[&str] = &["create+unlink"];
/// Two tasks show how much two busy CPUs slow each other down, the most tasks what waiting for a CPU does.
const FITTED: &[usize] = &[1, 2, 32];
const CLASS: &str = "icache";
/// Look-ups in a row: the inodes of a block of 4 KiB.
const HINT: usize = 16;
/// A pair takes the lock no more often than this.
const ACQUISITIONS_MAX: f64 = 1000.0;

/// Fits, checks and projects.
pub fn model(document: &Document, parameters: &Parameters) -> Mechanism {
    let (variants, mut remarks) =
        split::variants(document, OPS, |name| variant(document, parameters, name));
    remarks.extend(compare(&variants));
    Mechanism {
        name: "icache".to_owned(),
        title: "Inode cache and lazytime".to_owned(),
        unit: "create and unlink pairs/s".to_owned(),
        counts: "tasks".to_owned(),
        variants,
        published: published::icache(),
        remarks,
    }
}

/// What one worker does with the cache's lock in a pair.
struct Use {
    cpu_ns: f64,
    acquisitions: f64,
    hold_ns: f64,
}

fn used(document: &Document, name: &str) -> Result<Use, Omitted> {
    let row = document.row(name, OPS, 1).and_then(|row| row.lock(CLASS));
    let acquisitions = row.map_or(0.0, |lock| lock.per_op);
    if !(0.5..ACQUISITIONS_MAX).contains(&acquisitions) {
        return Err(format!("its pairs take {CLASS} {acquisitions} times"));
    }
    Ok(Use {
        cpu_ns: split::alone_ns(&document.measured(name, OPS))?,
        acquisitions,
        hold_ns: split::net_hold_ns(document, name, OPS, CLASS)?,
    })
}

/// The steps of a pair.
struct Pair {
    shards: usize,
    /// Acquisitions that wait whatever the variant.
    plain: usize,
    plain_hold_ns: f64,
    /// Look-ups for neighbours.
    hints: usize,
    hint_hold_ns: f64,
    /// Between two look-ups.
    gap_ns: f64,
    gives_up: bool,
    outside_ns: f64,
}

impl Pair {
    fn of(document: &Document, name: &str) -> Result<Pair, Omitted> {
        let (icache, times) = name.split_once('/').ok_or("its name tells no lazytime")?;
        let (shards, gives_up) = match icache {
            "global" => (1, false),
            "global-nowait" => (1, true),
            "per-bucket" => (crate::model::script::SHARDS_MAX, false),
            _ => return Err("its protocol is not known".to_owned()),
        };
        let own = used(document, name)?;
        let base = match times {
            "lazytime" => used(document, &format!("{icache}/no-lazytime"))?,
            _ => used(document, name)?,
        };
        let plain = (base.acquisitions.round() as usize).max(1);
        let hints = (own.acquisitions - base.acquisitions).round().max(0.0);
        let plain_hold_ns = base.hold_ns.min(base.cpu_ns * 0.5 / plain as f64);
        let each_ns = (own.cpu_ns - base.cpu_ns).max(own.cpu_ns * 0.05) / hints.max(1.0);
        let hint_hold_ns = own.hold_ns.min(each_ns * 0.9);
        let gap_ns = each_ns - hint_hold_ns;
        let inside_ns = plain as f64 * plain_hold_ns + hints * each_ns;
        Ok(Pair {
            shards,
            plain,
            plain_hold_ns,
            hints: hints as usize,
            hint_hold_ns,
            gap_ns,
            gives_up,
            outside_ns: (own.cpu_ns - inside_ns).max(own.cpu_ns * 0.05),
        })
    }

    /// The plain acquisitions and the blocks of look-ups, one after the other, evenly apart.
    fn parts(&self, slowdown: f64) -> Vec<Part> {
        let bursts = self.hints.div_ceil(HINT);
        let apart_ns = self.outside_ns * slowdown / (self.plain + bursts) as f64;
        let mut parts = Vec::new();
        for _ in 0..self.plain {
            parts.push(Part::Compute(apart_ns));
            parts.push(Part::Locked {
                shards: self.shards,
                hold_ns: self.plain_hold_ns * slowdown,
            });
        }
        let hold_ns = self.hint_hold_ns * slowdown;
        for at in 0..self.hints {
            if at % HINT == 0 {
                parts.push(Part::Compute(apart_ns));
            }
            parts.push(Part::Compute(self.gap_ns * slowdown));
            parts.push(match self.gives_up {
                true => Part::Tried { hold_ns },
                false => Part::Locked {
                    shards: self.shards,
                    hold_ns,
                },
            });
        }
        parts
    }
}

fn variant(
    document: &Document,
    parameters: &Parameters,
    name: &str,
) -> Result<VariantModel, Omitted> {
    let pair = Pair::of(document, name)?;
    let cpu_ns = split::alone_ns(&document.measured(name, OPS))?;
    let look_ups = "at one worker, the difference between lazytime on and off";
    let plain = "lock statistics without lazytime";
    let costs = vec![
        split::cpu_cost(cpu_ns),
        Cost::new("acquisitions", pair.plain as f64, "a pair", plain),
        split::hold_cost(pair.plain_hold_ns),
        Cost::new(
            "look-ups of neighbours",
            pair.hints as f64,
            "a pair",
            look_ups,
        ),
        Cost::new("hold of a look-up", pair.hint_hold_ns, "ns", look_ups),
        Cost::new("between look-ups", pair.gap_ns, "ns", look_ups),
    ];
    let variant = Scripted {
        document,
        parameters,
        name,
        ops: OPS,
        counts: FITTED,
        class: Some(CLASS),
    };
    Ok(variant.model(costs, |slowdown| pair.parts(slowdown)))
}

/// What the projection says beside the published ratio.
fn compare(variants: &[VariantModel]) -> Vec<String> {
    let of = |name: String| variants.iter().find(|variant| variant.name == name);
    let mut remarks = Vec::new();
    for icache in ["global", "global-nowait", "per-bucket"] {
        let (Some(off), Some(on)) = (
            of(format!("{icache}/no-lazytime")),
            of(format!("{icache}/lazytime")),
        ) else {
            continue;
        };
        let pairs = off.projected.iter().zip(&on.projected);
        let slower: Vec<String> = pairs
            .map(|(off, on)| format!("{:.1} at {} cores", off.ops_per_s / on.ops_per_s, off.cores))
            .collect();
        let beside = match icache {
            "global" => format!(
                " Published: about {} times; each pair then takes the one lock some {} times instead of {}, and \
                 a lock that is full gives less the more often an operation needs it.",
                published::LAZYTIME_SLOWER,
                on.costs.get(3).map_or(0.0, |c| c.value) + on.costs.get(1).map_or(0.0, |c| c.value),
                on.costs.get(1).map_or(0.0, |c| c.value),
            ),
            "global-nowait" => {
                " A try that fails costs the line all the same, and those that succeed keep \
                                others out: giving up helps, but the line stays shared."
                    .to_owned()
            }
            _ => " Nothing is shared, so lazytime costs what it costs one worker.".to_owned(),
        };
        remarks.push(format!(
            "{icache}: lazytime makes it slower by {}.{beside}",
            slower.join(", ")
        ));
    }
    remarks
}

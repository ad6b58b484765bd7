//! Mechanism 5: the superblock registry. An operation creates a namespace and drops one.
//!
//! # Protocols
//! Creating takes the registry's lock once, to publish the new superblock; dropping twice, to let go of the last
//! reference and to take the entry out.
//! * `keyed`: searches all live superblocks while it has the lock, in vain.
//! * `nodev`: does not search.
//! * `beyond`: 256 shards with a lock each, of which every thread has its own as long as there are enough.
//!
//! The statistics average all acquisitions. Those of `nodev` are all short, so what `keyed` holds longer on average is
//! its one search.

use crate::model::document::Document;
use crate::model::parameters::Parameters;
use crate::model::published;
use crate::model::result::{Cost, Mechanism, VariantModel};
use crate::model::script::Part;
use crate::model::split::Scripted;
use crate::model::{Omitted, split};

const OPS: &[&str] = &["create+drop"];
/// Two workers show how much two busy CPUs slow each other down, the most workers what waiting for a CPU does.
const FITTED: &[usize] = &[1, 2, 32];
const CLASS: &str = "registry";
const ACQUISITIONS: f64 = 3.0;
const SHARDS: usize = 256;

/// Fits, checks and projects.
pub fn model(document: &Document, parameters: &Parameters) -> Mechanism {
    let (variants, mut remarks) =
        split::variants(document, OPS, |name| variant(document, parameters, name));
    remarks.extend(compare(&variants));
    Mechanism {
        name: "mqueue-super".to_owned(),
        title: "Superblock registry".to_owned(),
        unit: "namespaces created and dropped/s".to_owned(),
        counts: "workers".to_owned(),
        variants,
        published: published::registry(),
        remarks,
    }
}

fn variant(
    document: &Document,
    parameters: &Parameters,
    name: &str,
) -> Result<VariantModel, Omitted> {
    let cpu_ns = split::alone_ns(&document.measured(name, OPS))?;
    let shards = match name {
        "keyed" | "nodev" => 1,
        "beyond" => SHARDS,
        _ => return Err("its protocol is not known".to_owned()),
    };
    let hold_ns = split::net_hold_ns(document, name, OPS, CLASS)?;
    let short_ns = match name {
        "keyed" => split::net_hold_ns(document, "nodev", OPS, CLASS).unwrap_or(hold_ns),
        _ => hold_ns,
    };
    // The locks cannot take more than the operation.
    let fits = (cpu_ns * 0.9 / (hold_ns * ACQUISITIONS)).min(1.0);
    let short_ns = short_ns.min(hold_ns) * fits;
    let create_ns = hold_ns * fits * ACQUISITIONS - 2.0 * short_ns;
    let outside_ns = cpu_ns - create_ns - 2.0 * short_ns;
    let search = "lock statistics at one worker, less the clock; for keyed, the search is what it holds longer than nodev";
    let costs = vec![
        split::cpu_cost(cpu_ns),
        Cost::new("hold of a create", create_ns, "ns", search),
        Cost::new(
            "hold of each half of a drop",
            short_ns,
            "ns",
            "as that of nodev",
        ),
    ];
    let variant = Scripted {
        document,
        parameters,
        name,
        ops: OPS,
        counts: FITTED,
        class: Some(CLASS),
    };
    Ok(variant.model(costs, |slowdown| {
        let half = Part::Compute(outside_ns * slowdown / 2.0);
        let [create, short] = [create_ns, short_ns].map(|hold_ns| Part::Locked {
            shards,
            hold_ns: hold_ns * slowdown,
        });
        vec![half, create, half, short, short]
    }))
}

/// What the projection says beside the published figures.
fn compare(variants: &[VariantModel]) -> Vec<String> {
    let of = |name: &str| {
        variants
            .iter()
            .find(|variant| variant.name == name)
            .and_then(split::ends)
    };
    let mut remarks = Vec::new();
    let published = published::CLONES.1 / published::CLONES.0;
    if let (Some((keyed, keyed_last)), Some((nodev, nodev_last))) = (of("keyed"), of("nodev")) {
        let gain = nodev.ops_per_s / keyed.ops_per_s;
        let gain_last = nodev_last.ops_per_s / keyed_last.ops_per_s;
        remarks.push(format!(
            "nodev over keyed: {gain:.2} times at {} cores and {gain_last:.2} at {}; published {published:.2} at 32 \
             workers. Creating a namespace in the kernel takes far longer outside the registry's lock (a clone \
             call, semaphores, shared memory, sysctls), so there the search is a smaller part of it.",
            keyed.cores, keyed_last.cores,
        ));
    }
    if let (Some((_, nodev)), Some((_, beyond))) = (of("nodev"), of("beyond")) {
        remarks.push(format!(
            "beyond over nodev at {} cores: {:.1} times. nodev still takes one lock three times for each namespace; \
             beyond has {SHARDS} locks, so two threads meet only on machines with more cores than that. The \
             published work has no such variant.",
            nodev.cores,
            beyond.ops_per_s / nodev.ops_per_s,
        ));
    }
    remarks.push(
        "The search of keyed is taken to cost the same on every machine; where other cores wrote the \
         superblocks meanwhile, it would cost more."
            .to_owned(),
    );
    remarks
}

//! Running the workloads.
//!
//! | module | holds |
//! | --- | --- |
//! | `workload` | what each worker does, and where |
//! | `execution` | one run under the scheduler, and what it counts |
//! | `unsafe_allocator` | every object on lines of its own |
//! | `report` | what is printed |

mod execution;
mod report;
mod unsafe_allocator;
mod workload;

use super::{TransfersArgs, Workload};
use anyhow::Result;
use execution::Phase;
use std::io::Write;
use uext4_ext4::MountOptions;
use uext4_vfs::SuperVariant;

/// What varies.
#[derive(Clone, Debug)]
struct Choice {
    name: String,
    options: MountOptions,
    registry: SuperVariant,
}

/// What one run counted.
struct Run {
    workload: Workload,
    variant: String,
    cpus: usize,
    phase: Phase,
}

/// As [`super::run`].
pub fn run(args: &TransfersArgs, out: &mut dyn Write) -> Result<()> {
    let mut runs = Vec::new();
    for workload in &args.workload.0 {
        for choice in choices(args, *workload) {
            for cpus in args.cpus.iter().map(|cpus| usize::from(*cpus)) {
                let phases = execution::execute(args, *workload, &choice, cpus)?;
                runs.extend(phases.into_iter().map(|phase| Run {
                    workload: *workload,
                    variant: choice.name.clone(),
                    cpus,
                    phase,
                }));
            }
        }
    }
    report::print(args, &runs, out)
}

/// The variants that matter to a workload.
fn choices(args: &TransfersArgs, workload: Workload) -> Vec<Choice> {
    if workload == Workload::Clone {
        let list = args.mqueue_super.clone();
        let list = list.map_or_else(|| vec![SuperVariant::default()], |list| list.0);
        let choice = |registry: SuperVariant| Choice {
            name: registry.name().to_owned(),
            options: MountOptions::default(),
            registry,
        };
        return list.into_iter().map(choice).collect();
    }
    let variants = args.variants.variants().into_iter();
    variants
        .map(|variant| Choice {
            name: variant.name,
            options: variant.options,
            registry: SuperVariant::default(),
        })
        .collect()
}

//! What workloads do to each other on up to 1,023 CPUs, by the code that ships, under a seeded scheduler.
//!
//! Every worker is a virtual CPU of its own. At each lock, atomic access and call of the journal the scheduler draws which of
//! them runs next, so that all advance at the same rate, and a run with the same seed is the same run. Counted are, for each
//! operation: lines that moved from one CPU to another, locks taken, locks that were waited for, and rounds that
//! another CPU's success made necessary. What this cannot show: time, memory bandwidth, NUMA, the length of a hold, what is
//! shared between two atomics without either, and lines of locks as they are in a release, since Shuttle's are larger.
//!
//! | module | holds |
//! | --- | --- |
//! | `scheduled` | all of it, in a program that is built with Shuttle and virtual CPUs |

#[cfg(all(shuttle, virtual_cpus))]
mod scheduled;

use crate::fxmark;
use crate::variants::{Named, VariantArgs, VariantList, parse_list, parse_some_names};
use clap::Args;
use std::io::Write;
use uext4_vfs::SuperVariant;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Creates files in a directory of each worker, and removes them.
    Mdtest,
    /// Creates and removes one file, in a loop, in a directory of each worker.
    CreateUnlink,
    /// Direct reads and overwrites in turn, anywhere in one file.
    Randrw,
    /// One of FxMark's, or `fallocate2` of will-it-scale.
    Task(fxmark::Workload),
    /// Creates and drops a namespace of message queues.
    Clone,
}

impl Named for Workload {
    const NAMES: &'static [(Self, &'static str)] = &[
        (Workload::Mdtest, "mdtest"),
        (Workload::CreateUnlink, "create-unlink"),
        (Workload::Randrw, "randrw"),
        (Workload::Task(fxmark::Workload::Drbl), "DRBL"),
        (Workload::Task(fxmark::Workload::Drbm), "DRBM"),
        (Workload::Task(fxmark::Workload::Drbh), "DRBH"),
        (Workload::Task(fxmark::Workload::Dwol), "DWOL"),
        (Workload::Task(fxmark::Workload::Dwom), "DWOM"),
        (Workload::Task(fxmark::Workload::Dwal), "DWAL"),
        (Workload::Task(fxmark::Workload::Dwtl), "DWTL"),
        (Workload::Task(fxmark::Workload::Dwsl), "DWSL"),
        (Workload::Task(fxmark::Workload::Mrpl), "MRPL"),
        (Workload::Task(fxmark::Workload::Mrpm), "MRPM"),
        (Workload::Task(fxmark::Workload::Mrph), "MRPH"),
        (Workload::Task(fxmark::Workload::Mrdl), "MRDL"),
        (Workload::Task(fxmark::Workload::Mrdm), "MRDM"),
        (Workload::Task(fxmark::Workload::Mwcl), "MWCL"),
        (Workload::Task(fxmark::Workload::Mwcm), "MWCM"),
        (Workload::Task(fxmark::Workload::Mwul), "MWUL"),
        (Workload::Task(fxmark::Workload::Mwum), "MWUM"),
        (Workload::Task(fxmark::Workload::Mwrl), "MWRL"),
        (Workload::Task(fxmark::Workload::Mwrm), "MWRM"),
        (Workload::Task(fxmark::Workload::Fallocate2), "FALLOCATE2"),
        (Workload::Clone, "clone"),
    ];
}

/// A comma list of them.
fn parse_workloads(text: &str) -> Result<VariantList<Workload>, String> {
    let of_fxmark = fxmark::Workload::of_paper().iter().map(|one| one.name());
    let of_fxmark = of_fxmark.collect::<Vec<_>>().join(",");
    parse_some_names(&text.replace("fxmark", &of_fxmark))
}

/// Options of `transfers`.
#[derive(Clone, Debug, Args)]
pub struct TransfersArgs {
    /// Workloads: mdtest, create-unlink, randrw, clone, DRBL and the others that `fxmark` has, or fxmark for its nineteen
    #[arg(long, value_name = "LIST", default_value = "mdtest", value_parser = parse_workloads)]
    pub workload: VariantList<Workload>,
    /// Workers, each on a CPU of its own, 1 to 1023; a comma list runs each count
    #[arg(long, default_value = "1,2,4,8,16,32,48,64,128,256", value_delimiter = ',', value_name = "LIST",
          value_parser = clap::value_parser!(u16).range(1..=1023))]
    pub cpus: Vec<u16>,
    /// Operations of each worker
    #[arg(short = 'n', long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub items: u32,
    /// What the scheduler draws from
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Places between which lines move, to print of each run
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub lines: usize,
    /// How the registry finds and makes superblocks, of clone: keyed, nodev, beyond, or all
    #[arg(long, value_name = "LIST", value_parser = |text: &str| parse_list(text, &SuperVariant::ALL))]
    pub mqueue_super: Option<VariantList<SuperVariant>>,
    /// Prints one JSON document
    #[arg(long)]
    pub json: bool,
    /// The variants.
    #[command(flatten)]
    pub variants: VariantArgs,
}

/// Runs it.
///
/// # Errors
/// The program was built without virtual CPUs; an operation fails.
#[cfg(all(shuttle, virtual_cpus))]
pub fn run(args: &TransfersArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    scheduled::run(args, out)
}

/// Says how to build it.
///
/// # Errors
/// Always.
#[cfg(not(all(shuttle, virtual_cpus)))]
pub fn run(_: &TransfersArgs, _: &mut dyn Write) -> anyhow::Result<()> {
    anyhow::bail!(
        "transfers needs a program built with Shuttle and virtual CPUs: `make transfers` builds and runs it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fxmark_is_its_nineteen() {
        let of = |text| parse_workloads(text).map(|list| list.0);
        assert_eq!(of("fxmark,mdtest").expect("they are there").len(), 20);
        assert!(of("all").expect("they are there").len() > 20);
        assert_eq!(
            of("FALLOCATE2"),
            Ok(vec![Workload::Task(fxmark::Workload::Fallocate2)])
        );
        of("fxmark,nothing").expect_err("it is none");
    }
}

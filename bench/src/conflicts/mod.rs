//! Which cache lines two calls on two CPUs share, by the code that ships.
//!
//! What decides whether operations scale is the cache lines that one writes and another accesses: a line that no two CPUs
//! need costs nothing, however many there are. Each call is recorded once for each of two virtual CPUs, instruction by
//! instruction, from the same initial state; the recordings of every two are intersected. The reference model says which
//! pairs commute, so that they could do without a shared line. What this cannot show: memory bandwidth, NUMA, and how
//! long a line that is shared is fought over.
//!
//! | module | holds |
//! | --- | --- |
//! | `recorded` | all of it, in a program that is built with virtual CPUs |

#[cfg(all(virtual_cpus, target_arch = "x86_64"))]
mod recorded;

use crate::variants::VariantArgs;
use clap::Args;
use std::io::Write;
use uext4_vfs::SuperVariant;

/// Options of `conflicts`.
#[derive(Clone, Debug, Args)]
pub struct ConflictsArgs {
    /// CPUs that the machine seems to have, 1 to 1024; at least 3 without --every-cpu
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cpus: u16,
    /// The two of them that the calls are made on
    #[arg(
        long,
        default_value = "1,17",
        value_delimiter = ',',
        value_name = "A,B"
    )]
    pub on: Vec<usize>,
    /// Only calls of which the name contains this (Create, Read, "own directory")
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub only: String,
    /// Each call is the first of a transaction, instead of somewhere in it
    #[arg(long)]
    pub cold: bool,
    /// Shared lines to print of each variant
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub lines: usize,
    /// Instead of pairs: create, unlink, lookup, stat, direct read and overwrite on every CPU, each in its own directory, and
    /// queues in its own namespace, which is made and dropped
    #[arg(long, conflicts_with_all = ["gate", "on", "only", "cold", "pairs"])]
    pub every_cpu: bool,
    /// Prints every pair that shares a line
    #[arg(long)]
    pub pairs: bool,
    /// Fails if in three runs the same two calls share a line that have no file, queue or names in common and allocate no blocks
    #[arg(long)]
    pub gate: bool,
    /// Prints one JSON document
    #[arg(long)]
    pub json: bool,
    /// How the registry finds and makes superblocks of queues: keyed, nodev or beyond
    #[arg(long, value_name = "VARIANT", default_value = "beyond")]
    pub mqueue_super: SuperVariant,
    /// The variants.
    #[command(flatten)]
    pub variants: VariantArgs,
}

/// Runs it.
///
/// # Errors
/// The program was built without virtual CPUs; the host forbids ptrace(2); the gate found a new shared line.
#[cfg(all(virtual_cpus, target_arch = "x86_64"))]
pub fn run(args: &ConflictsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    recorded::run(args, out)
}

/// Says how to build it.
///
/// # Errors
/// Always.
#[cfg(not(all(virtual_cpus, target_arch = "x86_64")))]
pub fn run(_: &ConflictsArgs, _: &mut dyn Write) -> anyhow::Result<()> {
    anyhow::bail!(
        "conflicts needs a program built with virtual CPUs, on x86-64: `make conflicts` builds and runs it"
    )
}

//! The machine a figure is from.

use serde::{Deserialize, Serialize};

/// The machine a figure is from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// CPUs that may be used.
    pub cpus: usize,
    /// The model of the CPU.
    pub cpu: String,
    pub kernel: String,
}

impl Host {
    /// This machine.
    pub fn here() -> Host {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo")
            .lines()
            .find_map(|l| {
                l.strip_prefix("model name")
                    .map(|m| m.trim_matches([' ', '\t', ':']).to_owned())
            })
            .unwrap_or_default();
        Host {
            cpus: cpus(),
            cpu,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// CPUs that may be used.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

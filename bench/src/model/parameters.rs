//! What the projection assumes of machines, with the source of each value.

use crate::model::engine::Machine;
use crate::model::result::Cost;

/// What the projection assumes. None of it is fitted to anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// A projected machine; cores and servers are those of each projection.
    pub machine: Machine,
    /// Cores to project to.
    pub cores: Vec<usize>,
    /// Operations of a simulation, about.
    pub operations: usize,
    /// Moving a line between the CPUs of the machine that was measured, in nanoseconds.
    pub line_here_ns: f64,
}

impl Default for Parameters {
    /// `line_ns`: compare-exchange between two cores, medians: 44 to 51 ns within a socket of Xeons (Broadwell
    /// to Ice Lake), 46 of Graviton, 23 within and 107 across the core complexes of an EPYC Milan, 108 to 197
    /// between sockets (github.com/nviennot/core-to-core-latency); 60 is a single-socket machine of
    /// many cores, and its half and double cover the rest but for two sockets of EPYC.
    ///
    /// `growth_per_waiter`: a lock's hand-over grows linearly with those that wait for its line (Boyd-Wickizer,
    /// Kaashoek, Morris, Zeldovich, "Non-scalable locks are dangerous", Linux Symposium 2012); there the
    /// slope is steep, as all of them read the line after each hand-over. Here waiters pause for longer and
    /// longer, so at 48 it is taken to be about twice, not twenty times as slow.
    fn default() -> Parameters {
        let machine = Machine {
            cores: 1,
            line_ns: 60.0,
            growth_per_waiter: 0.02,
            slice_ns: 3e6,
            switch_ns: 1500.0,
            pause_ns: 15.0,
            yield_ns: 300.0,
            wake_ns: 5000.0,
            notify_ns: 1500.0,
            slack_ns: 50_000.0,
            servers: 1,
        };
        Parameters {
            machine,
            cores: vec![16, 48, 96, 192],
            operations: 4000,
            line_here_ns: 23.0,
        }
    }
}

/// No machine has more cores.
const CORES_MAX: usize = 1024;

impl Parameters {
    /// The machine that was measured.
    pub fn here(&self, cpus: usize) -> Machine {
        self.machine(cpus, self.line_here_ns)
    }

    /// A machine of `cores`, where a line moves in `line_ns`.
    pub fn machine(&self, cores: usize, line_ns: f64) -> Machine {
        Machine {
            cores,
            line_ns,
            ..self.machine.clone()
        }
    }

    /// The counts of cores that make sense.
    pub fn sane_cores(&self) -> impl Iterator<Item = usize> + '_ {
        let counts = self.cores.iter().copied();
        counts.filter(|cores| (1..=CORES_MAX).contains(cores))
    }

    /// Operations to simulate of `workers`, each of which takes about so many steps.
    pub fn operations_of(&self, workers: usize, steps: usize) -> usize {
        let of_steps = self.operations.saturating_mul(16) / steps.max(16);
        let of_workers = workers * (2 + 40 / steps.max(8));
        of_steps.clamp(of_workers, 100_000)
    }

    /// All of them, for the page.
    pub fn costs(&self) -> Vec<Cost> {
        let machine = &self.machine;
        [
            ("line", machine.line_ns, "ns", "moving a contended cache line between cores of the projected machine; compare-exchange measured \
                 between cores: 44 to 51 ns within a Xeon socket, 46 Graviton, 23 within and 107 across core \
                 complexes of EPYC Milan, 108 to 197 between sockets (github.com/nviennot/core-to-core-latency)"),
            ("growth per waiter", machine.growth_per_waiter, "of a line", "each core that waits for a line makes its next move longer; that it grows linearly is published \
                 (Boyd-Wickizer et al., Non-scalable locks are dangerous, 2012), the slope is assumed: waiters of \
                 these locks pause, so it is taken far below that of ticket locks"),
            ("line here", self.line_here_ns, "ns", "the same between the CPUs that were measured, which share a cache; 23 ns within a core complex of \
                 EPYC Milan in the same table"),
            ("time slice", machine.slice_ns, "ns", "of Linux's scheduler, its default for few CPUs"),
            ("switch", machine.switch_ns, "ns", "from one worker to another on a core; assumed"),
            ("pause", machine.pause_ns, "ns", "one spin-loop hint; who finds a lock taken pauses for 2, 4 and 8 of them, offers the core 7 times, \
                 and then sleeps, as parking_lot's documentation of SpinWait says; its length is assumed"),
            ("yield", machine.yield_ns, "ns", "sched_yield(2) where nobody else wants the core; assumed"),
            ("wake", machine.wake_ns, "ns", "from the notice until a sleeper runs; assumed"),
            ("notify", machine.notify_ns, "ns", "a futex call of who wakes another; assumed"),
            ("timer slack", machine.slack_ns, "ns", "Linux's default (prctl(2), PR_SET_TIMERSLACK)"),
        ]
        .map(|(name, value, unit, source)| Cost::new(name, value, unit, source))
        .into()
    }
}

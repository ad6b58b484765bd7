//! The simulation at length: see `uext4_testkit::simulate`.
//!
//! `simulate --seeds 0..10000` runs seeds, and minimises the first that fails; `simulate --seed N` runs one.

#[cfg(not(shuttle))]
fn main() {
    eprintln!("simulate needs Shuttle's locks: `make simulate` builds and runs it");
    std::process::exit(2);
}

#[cfg(shuttle)]
fn main() -> std::process::ExitCode {
    command::main()
}

#[cfg(shuttle)]
mod command {
    use clap::Parser;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::ExitCode;
    use std::sync::Mutex;
    use uext4_testkit::explore::results::{Chunk, Results};
    use uext4_testkit::prelude::*;
    use uext4_testkit::simulate::plan::{Plan, Skipped};
    use uext4_testkit::simulate::{Tally, minimise::minimise, run};

    /// Seeds of one line of results.
    const CHUNK: u64 = 250;

    #[derive(Parser)]
    #[command(
        about = "Simulates mounts: schedule, faults, power losses, remounts and clock from one seed",
        after_help = "Examples:\n  simulate --seeds 0..1000\n  simulate --seed 17 --threads 2 --no-faults"
    )]
    struct Cli {
        /// One seed
        #[arg(long, conflicts_with = "seeds", required_unless_present = "seeds")]
        seed: Option<u64>,
        /// Seeds, FIRST..END
        #[arg(long, value_parser = parse_range)]
        seeds: Option<Range<u64>>,
        /// Operations of each seed
        #[arg(long, default_value_t = 1000)]
        operations: usize,
        /// Lives at most
        #[arg(long)]
        lives: Option<usize>,
        /// Workers, 1 to 4; the seed decides
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=4))]
        threads: Option<u8>,
        /// The seed of the schedule, if that is another
        #[arg(long, requires = "seed")]
        schedule: Option<u64>,
        /// No thread beside the workers
        #[arg(long)]
        no_contest: bool,
        /// The power is never lost
        #[arg(long)]
        no_power_losses: bool,
        /// No call of the device fails
        #[arg(long)]
        no_faults: bool,
        /// Mounts with the default options
        #[arg(long)]
        no_variants: bool,
        /// Operations to leave out: LIFE.THREAD.FIRST-LAST, with commas between
        #[arg(long, default_value = "")]
        skip: Skipped,
        /// Seconds to spend on finding a smaller plan that fails
        #[arg(long, default_value_t = 120)]
        minimise: u64,
        /// Threads of this machine, each with a seed
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// A file of results to continue
        #[arg(long)]
        results: Option<PathBuf>,
        /// Starts no seed after so many seconds
        #[arg(long)]
        seconds: Option<u64>,
    }

    fn parse_range(text: &str) -> Result<Range<u64>> {
        let (first, end) = text.split_once("..").context("FIRST..END is expected")?;
        Ok(first.parse()?..end.parse()?)
    }

    impl Cli {
        fn plan(&self, seed: u64) -> Plan {
            let mut plan = Plan::of(seed);
            plan.operations = self.operations;
            plan.lives = self.lives.unwrap_or(plan.lives);
            plan.threads = self.threads.map_or(plan.threads, usize::from);
            plan.schedule = self.schedule.unwrap_or(plan.schedule);
            plan.contest &= !self.no_contest;
            plan.power_losses &= !self.no_power_losses;
            plan.faults &= !self.no_faults;
            plan.variants &= !self.no_variants;
            plan.skipped = self.skip.clone();
            plan
        }
    }

    /// Runs a plan; what a panic says is an error.
    fn try_run(plan: &Plan) -> Result<Tally, String> {
        match catch_unwind(AssertUnwindSafe(|| run(plan))) {
            Ok(Ok(tally)) => Ok(tally),
            Ok(Err(why)) => Err(format!("{why:#}")),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Err(format!("panic: {}", text.unwrap_or_default()))
            }
        }
    }

    pub fn main() -> ExitCode {
        let cli = Cli::parse();
        let done = match cli.seed {
            Some(seed) => one(&cli.plan(seed)),
            None => many(&cli),
        };
        match done {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(why) => {
                eprintln!("simulate: {why:#}");
                ExitCode::from(2)
            }
        }
    }

    fn one(plan: &Plan) -> Result<bool> {
        match try_run(plan) {
            Ok(tally) => {
                println!("{tally:?}");
                Ok(true)
            }
            Err(why) => {
                println!("{why}");
                Ok(false)
            }
        }
    }

    fn many(cli: &Cli) -> Result<bool> {
        let seeds = cli.seeds.clone().unwrap_or_default();
        let mut results = cli.results.as_deref().map(Results::open).transpose()?;
        let end = cli.seconds.map(|s| Instant::now() + Duration::from_secs(s));
        let mut all = Tally::default();
        let mut first = seeds.start;
        while first < seeds.end && end.is_none_or(|end| Instant::now() < end) {
            let chunk = Chunk {
                kind: "simulation".to_owned(),
                config: format!("{} operations", cli.operations),
                first,
                count: CHUNK.min(seeds.end - first),
            };
            first += chunk.count;
            if results.as_ref().is_some_and(|results| results.has(&chunk)) {
                continue;
            }
            let start = Instant::now();
            let (tally, failed) = run_chunk(cli, &chunk);
            all.add(&tally);
            let seconds = start.elapsed().as_secs_f64();
            println!("seeds to {first}: {seconds:.0} s, {all:?}");
            if let Some((plan, why)) = failed {
                report(cli, &plan, &why);
                return Ok(false);
            }
            if let Some(results) = &mut results {
                results.add(chunk, &tally.json(), Vec::new(), seconds)?;
            }
        }
        Ok(true)
    }

    /// Runs seeds until one fails: the first that did.
    fn run_chunk(cli: &Cli, chunk: &Chunk) -> (Tally, Option<(Plan, String)>) {
        let next = AtomicU64::new(chunk.first);
        let shared = Mutex::new((Tally::default(), None));
        thread::scope(|scope| {
            for _ in 0..cli.jobs {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= chunk.first + chunk.count {
                            return;
                        }
                        let plan = cli.plan(seed);
                        let done = try_run(&plan);
                        let mut shared = shared.lock().expect("no panic");
                        match done {
                            Ok(tally) => shared.0.add(&tally),
                            Err(why) => {
                                next.store(u64::MAX / 2, Ordering::Relaxed);
                                shared.1.get_or_insert((plan, why));
                            }
                        }
                    }
                });
            }
        });
        shared.into_inner().expect("no panic")
    }

    /// Says which seed failed, and how to see it again, as small as it gets.
    fn report(cli: &Cli, plan: &Plan, why: &str) {
        println!("failed: {why}\n  simulate {}", plan.arguments().join(" "));
        if cli.minimise == 0 {
            return;
        }
        let small = minimise(plan, Instant::now() + Duration::from_secs(cli.minimise));
        println!("minimised:\n  simulate {}", small.arguments().join(" "));
    }
}

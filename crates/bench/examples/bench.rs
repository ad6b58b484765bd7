//! `uext4 bench` alone, for profiling.
fn main() -> anyhow::Result<()> {
    uext4_bench::run(std::env::args_os().skip(1).collect())
}

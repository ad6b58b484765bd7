//! Exploring schedules.

/// Schedules per scenario, variant and scheduler, unless `UEXT4_SHUTTLE_RUNS` says otherwise.
const RUNS: usize = 2000;

/// Explores `scenario` at random, and by random priorities that change at three places.
pub fn explore(scenario: impl Fn() + Clone + Send + Sync + 'static) {
    let runs = std::env::var("UEXT4_SHUTTLE_RUNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(RUNS);
    shuttle::check_random(scenario.clone(), runs);
    shuttle::check_pct(scenario, runs, 3);
}

//! What the runs of a series at one block size and count of threads say, beside the others.

use super::RandrwArgs;
use super::arithmetic::Exclusion;
use super::handover::Nanos;
use super::series::{AllSeries, Case, CaseRuns};
use crate::grid::Grid;
use crate::histogram::Histogram;
use crate::report::Row;
use crate::variants::{Choice, Variant};
use fastrand::Rng;
use serde::Serialize;
use std::time::Duration;
use uext4_block::LatencyReport;
use uext4_vfs::ilock::DioLock;

/// So many service times stand for all that were measured.
const SERVICE_VALUES: usize = 1024;

/// The operations that a run has a sample of, by their places in a [`Parts`].
pub const OPS: [&str; 3] = ["readwrite", "read", "write"];
/// Reads and writes together.
pub const BOTH: usize = 0;
pub const READS: usize = 1;
pub const WRITES: usize = 2;

/// Something for each of [`OPS`].
pub type Parts<T> = [T; 3];

/// What a modelled device achieved, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DeviceLatency {
    /// What it should take.
    pub nominal: f64,
    /// The mean over all requests.
    pub mean: f64,
    /// The longest.
    pub max: f64,
}

/// A series at a block size and count of threads.
#[derive(Debug)]
pub struct Point {
    /// Block size and count of threads.
    pub case: Case,
    /// What was measured.
    pub rows: Parts<Row>,
    /// What the bare device reached, in operations per second.
    pub bare: Option<Parts<f64>>,
    /// Percent over the variant that differs in being `exclusive-first`.
    pub gain: Option<Parts<f64>>,
    /// What arithmetic allows a variant whose writes exclude others, in operations per second.
    pub allowed: Option<f64>,
    /// What the modelled device achieved.
    pub device: Option<DeviceLatency>,
    /// Rounds that ended early, all holes being filled.
    pub used_up: usize,
}

/// A row of JSON.
#[derive(Debug, Serialize)]
pub struct RandrwRow {
    #[serde(flatten)]
    row: Row,
    block_size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bare_ops_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gain_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_ops_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_latency_us: Option<DeviceLatency>,
    rounds_ended_early: usize,
}

impl Point {
    /// The medians, in operations per second.
    pub fn medians(&self) -> Parts<f64> {
        self.rows.each_ref().map(|row| row.ops_per_s.median)
    }

    /// What was reached over what is allowed.
    pub fn reached(&self) -> Option<f64> {
        let allowed = self.allowed.filter(|allowed| *allowed > 0.0)?;
        Some(self.medians()[BOTH] / allowed)
    }

    /// Its rows of JSON: one of the reads and one of the writes. `reads` is the share of the requests
    /// that read.
    pub fn into_json(self, reads: f64) -> [RandrwRow; 2] {
        let row = |row, part: usize, share: f64| RandrwRow {
            row,
            block_size: self.case.block_bytes,
            bare_ops_per_s: self.bare.map(|bare| bare[part]),
            gain_percent: self.gain.map(|gain| gain[part]),
            allowed_ops_per_s: self.allowed.map(|both| both * share),
            device_latency_us: self.device,
            rounds_ended_early: self.used_up,
        };
        let [_, of_reads, of_writes] = self.rows;
        [
            row(of_reads, READS, reads),
            row(of_writes, WRITES, 1.0 - reads),
        ]
    }
}

/// The points of a run: those of a series together, the variants first.
pub struct Points {
    pub all: Vec<Point>,
    cases: usize,
}

impl Points {
    /// Of all runs of `series`.
    pub fn of(
        all_series: &AllSeries<'_>,
        grid: &Grid,
        variants: &[Variant],
        names: &[String],
    ) -> Points {
        let cases = all_series.cases.len();
        let mut all = Vec::new();
        for (series, name) in names.iter().enumerate() {
            for (place, &case) in all_series.cases.iter().enumerate() {
                let row = |part: usize| {
                    let cell = grid.cell(series, place, part);
                    Row::of(name, OPS[part], case.threads, cell)
                };
                let rows = [BOTH, READS, WRITES].map(row);
                let runs = all_series.of(series, place);
                all.push(measured(all_series.args, case, rows, runs));
            }
        }
        let mut points = Points { all, cases };
        points.compare_variants(variants);
        if let Some(bare) = names.iter().position(|name| name == "bare") {
            points.compare_with_bare(bare);
            points.allow(all_series, grid, variants, bare);
        }
        points
    }

    pub fn of_series(&self, series: usize) -> &[Point] {
        &self.all[series * self.cases..][..self.cases]
    }

    fn medians(&self, series: usize) -> Vec<Parts<f64>> {
        self.of_series(series).iter().map(Point::medians).collect()
    }

    fn compare_with_bare(&mut self, bare: usize) {
        let bare = self.medians(bare);
        for (point, of_bare) in self.all.iter_mut().zip(bare.iter().cycle()) {
            point.bare = Some(*of_bare);
        }
    }

    fn compare_variants(&mut self, variants: &[Variant]) {
        let apart = |variant: &Variant| Choice {
            dio_lock: None,
            ..variant.choice
        };
        let is_before = |variant: &Variant| variant.options.dio_lock == DioLock::ExclusiveFirst;
        for (series, variant) in variants.iter().enumerate() {
            let matches = |b: &Variant| is_before(b) && apart(b) == apart(variant);
            let Some(before) = variants.iter().position(matches).filter(|&b| b != series) else {
                continue;
            };
            let before = self.medians(before);
            for (point, before) in self.all[series * self.cases..].iter_mut().zip(before) {
                point.gain = gain(point.medians(), before);
            }
        }
    }

    /// Says what arithmetic allows the variants whose writes exclude others.
    fn allow(
        &mut self,
        all_series: &AllSeries<'_>,
        grid: &Grid,
        variants: &[Variant],
        bare: usize,
    ) {
        let args = all_series.args;
        let writes = 1.0 - f64::from(args.rwmixread) / 100.0;
        let holes = f64::from(args.holes) / 100.0;
        for (series, variant) in variants.iter().enumerate() {
            let options = &variant.options;
            let (dio_lock, nolock) = (options.dio_lock, options.dioread_nolock);
            let Some(exclusion) = Exclusion::of(dio_lock, nolock, writes, holes) else {
                continue;
            };
            for (place, case) in all_series.cases.iter().enumerate() {
                let own = self.all[series * self.cases + place].device;
                let times = service_ns(all_series, grid, bare, case.block_bytes, own);
                let draw = |rng: &mut Rng| rng.choice(&times).copied().unwrap_or(0);
                let jobs = case.threads * args.iodepth;
                let allowed = exclusion.ops_per_s(jobs, all_series.handover_ns, &draw);
                let point = &mut self.all[series * self.cases + place];
                let most = point.bare.map_or(f64::INFINITY, |bare| bare[BOTH]);
                point.allowed = Some(allowed.min(most));
            }
        }
    }
}

/// How long requests of the bare device take with the fewest threads; spread so around the mean of a run's
/// `own` requests, where that is known: large blocks of many threads are copied more slowly than those of
/// one.
fn service_ns(
    all_series: &AllSeries<'_>,
    grid: &Grid,
    bare: usize,
    block_bytes: u64,
    own: Option<DeviceLatency>,
) -> Vec<Nanos> {
    let cases = all_series.cases.iter().enumerate();
    let alike = cases.filter(|(_, case)| case.block_bytes == block_bytes);
    let Some((place, _)) = alike.min_by_key(|(_, case)| case.threads) else {
        return Vec::new();
    };
    let runs = all_series.of(bare, place);
    let mut latency = Histogram::default();
    for sample in &grid.cell(bare, place, 0).plain {
        latency.add(&sample.work.latency);
    }
    let nominal = own.map_or(0.0, |own| own.nominal);
    let scale = match (own, achieved(nominal, &runs.device)) {
        (Some(own), Some(of_bare)) if of_bare.mean > 0.0 => own.mean / of_bare.mean,
        _ => 1.0,
    };
    let mut times = latency.spread_ns(SERVICE_VALUES);
    for time in &mut times {
        *time = (*time as f64 * scale) as Nanos;
    }
    times
}

fn measured(args: &RandrwArgs, case: Case, rows: Parts<Row>, runs: &CaseRuns) -> Point {
    Point {
        case,
        rows,
        bare: None,
        gain: None,
        allowed: None,
        device: args
            .setup
            .device_latency
            .and_then(|nominal| achieved(nominal.as_secs_f64() * 1e6, &runs.device)),
        used_up: runs.used_up,
    }
}

fn achieved(nominal: f64, reports: &[LatencyReport]) -> Option<DeviceLatency> {
    let requests: u64 = reports.iter().map(|r| r.count).sum();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let total: f64 = reports.iter().map(|r| us(r.mean) * r.count as f64).sum();
    (requests > 0).then(|| DeviceLatency {
        nominal,
        mean: total / requests as f64,
        max: reports.iter().map(|r| us(r.max)).fold(0.0, f64::max),
    })
}

fn gain(of: Parts<f64>, over: Parts<f64>) -> Option<Parts<f64>> {
    let percent = |part: usize| match over[part] > 0.0 {
        true => (of[part] / over[part] - 1.0) * 100.0,
        false => 0.0,
    };
    (over[BOTH] > 0.0).then(|| [BOTH, READS, WRITES].map(percent))
}

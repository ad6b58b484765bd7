//! What is read of the documents that `uext4 bench … --json` prints.
//!
//! Keys that are not named here are ignored, and any may be missing: a row without a rate is no row.

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Document {
    /// Where it was measured.
    pub host: Host,
    /// One for each variant, operation and count.
    pub rows: Vec<Row>,
}

/// The machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Host {
    /// CPUs; 0 where it is not said.
    pub cpus: usize,
}

/// One variant, operation and count.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Row {
    /// The variant's name.
    #[serde(rename = "arm")]
    pub variant: String,
    /// The operation.
    pub op: String,
    /// Threads, tasks or workers.
    pub threads: usize,
    /// Operations of the round that counted locks.
    pub ops: f64,
    /// How long that round took.
    pub seconds: f64,
    /// Over the rounds that did not count.
    pub ops_per_s: Spread,
    /// Lock statistics.
    pub locks: Vec<LockRow>,
    /// Stages of creating a file.
    pub stages: Vec<StageRow>,
    /// What a modelled device achieved.
    pub device_latency_us: Option<DeviceLatency>,
}

/// Minimum, median and maximum.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The one in the middle.
    pub median: f64,
    /// The most.
    pub max: f64,
}

/// A lock class and mode.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LockRow {
    /// Its name; `-R` at the end is shared.
    pub class: String,
    /// How often it was taken.
    pub acquisitions: f64,
    /// How often for each operation.
    pub per_op: f64,
    /// Total holding, in microseconds.
    pub hold_us: f64,
}

/// A stage of creating a file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StageRow {
    /// Its name.
    pub stage: String,
    /// How often it ran.
    pub calls: f64,
    /// All calls together, in microseconds.
    pub total_us: f64,
}

/// Latencies of a modelled device, in microseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceLatency {
    /// What it should take.
    pub nominal: f64,
    /// The mean over all requests.
    pub mean: f64,
}

/// What was measured at a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Workers.
    pub count: usize,
    /// Operations per second, the least of the rounds.
    pub min: f64,
    /// The one in the middle.
    pub median: f64,
    /// The most.
    pub max: f64,
    /// How long a round took; for ever where the document does not say how much was done.
    pub seconds: f64,
}

impl Measured {
    /// Operations per second of the round that was disturbed least, which is the fastest: what else a machine does
    /// only takes time, and the model knows of nothing else. Host and guest may halve the rate of a round, and of
    /// more than half of them.
    pub fn undisturbed(&self) -> f64 {
        self.max.max(self.median)
    }
}

/// No row counts more workers: it would be no measurement, and simulating it would take for ever.
const COUNT_MAX: usize = 1024;
/// Operations per second that anything can do.
const RATES: std::ops::Range<f64> = 1e-2..1e11;
/// Holds are averaged over at least so many acquisitions.
const ACQUISITIONS_MIN: f64 = 500.0;
/// Reading the clock takes no longer than this, in nanoseconds.
const CLOCK_NS_MAX: f64 = 60.0;

impl Document {
    /// CPUs of the machine; two where it is not said.
    pub fn cpus(&self) -> usize {
        match self.host.cpus {
            cpus @ 1..=COUNT_MAX => cpus,
            _ => 2,
        }
    }

    /// The names of the variants that did one of `ops`, in the order of the rows.
    pub fn variants(&self, ops: &[&str]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for row in self.rows.iter().filter(|row| row.is_of(ops)) {
            if !names.contains(&row.variant) {
                names.push(row.variant.clone());
            }
        }
        names
    }

    /// What a variant reached at each count, the rates of all `ops` added, by count.
    pub fn measured(&self, variant: &str, ops: &[&str]) -> Vec<Measured> {
        let mut points: Vec<Measured> = Vec::new();
        for row in self
            .rows
            .iter()
            .filter(|row| row.variant == variant && row.is_of(ops))
        {
            let (count, rate) = (row.threads, row.ops_per_s);
            match points.iter_mut().find(|point| point.count == count) {
                Some(point) => {
                    point.min += rate.min;
                    point.median += rate.median;
                    point.max += rate.max;
                }
                None => points.push(Measured {
                    count,
                    min: rate.min,
                    median: rate.median,
                    max: rate.max,
                    seconds: match row.ops > 0.0 {
                        true => row.ops / rate.median,
                        false => f64::INFINITY,
                    },
                }),
            }
        }
        points.sort_by_key(|point| point.count);
        points
    }

    /// The row of a variant, operation and count.
    pub fn row(&self, variant: &str, ops: &[&str], count: usize) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.variant == variant && row.threads == count && row.is_of(ops))
    }

    /// About what reading the clock adds to a hold that was measured: the shortest average hold of any class at
    /// one worker.
    pub fn clock_ns(&self) -> f64 {
        let alone = self.rows.iter().filter(|row| row.threads == 1);
        let locks = alone.flat_map(|row| &row.locks);
        let many = locks.filter(|lock| lock.acquisitions >= ACQUISITIONS_MIN && lock.hold_us > 0.0);
        many.map(LockRow::hold_ns).fold(CLOCK_NS_MAX, f64::min)
    }
}

impl Row {
    fn is_of(&self, ops: &[&str]) -> bool {
        let rate = self.ops_per_s.median;
        let is_measured = RATES.contains(&rate) && (1..=COUNT_MAX).contains(&self.threads);
        is_measured && ops.contains(&self.op.as_str())
    }

    /// A lock class, exclusive.
    pub fn lock(&self, class: &str) -> Option<&LockRow> {
        self.locks.iter().find(|lock| lock.class == class)
    }

    /// The average of a stage, in nanoseconds.
    pub fn stage_ns(&self, stage: &str) -> Option<f64> {
        let row = self.stages.iter().find(|row| row.stage == stage)?;
        (row.calls > 0.0).then(|| row.total_us * 1000.0 / row.calls)
    }
}

impl LockRow {
    /// The average hold, in nanoseconds, with what the clock took.
    pub fn hold_ns(&self) -> f64 {
        self.hold_us * 1000.0 / self.acquisitions.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(rows: &str) -> Document {
        serde_json::from_str(&format!("{{\"rows\": {rows}}}")).expect("is JSON")
    }

    #[test]
    fn rates_of_operations_are_added() {
        let both = document(
            r#"[{"arm":"a","op":"read","threads":2,"ops_per_s":{"min":1,"median":2,"max":3}},
                {"arm":"a","op":"write","threads":2,"ops_per_s":{"min":10,"median":20,"max":30}},
                {"arm":"a","op":"write","threads":1,"ops_per_s":{"median":7},"live":null}]"#,
        );
        let points = both.measured("a", &["read", "write"]);
        assert_eq!(points.iter().map(|p| p.count).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(points[1].median, 22.0);
        assert_eq!(both.cpus(), 2);
    }

    #[test]
    fn a_row_without_a_rate_is_none() {
        let odd = document(
            r#"[{}, {"arm":"a","op":"x","threads":1}, {"arm":"a","op":"x","threads":999999,
                "ops_per_s":{"median":1}}, {"arm":"a","op":"x","ops_per_s":{"median":1}}]"#,
        );
        assert!(odd.variants(&["x"]).is_empty() && odd.measured("a", &["x"]).is_empty());
        assert_eq!(odd.clock_ns(), CLOCK_NS_MAX);
    }

    #[test]
    fn the_clock_is_the_shortest_hold() {
        let held = document(
            r#"[{"threads":1,"locks":[{"class":"a","acquisitions":1000,"hold_us":25},
                {"class":"b","acquisitions":1000,"hold_us":40},
                {"class":"c","acquisitions":3,"hold_us":0.001}]}]"#,
        );
        assert_eq!(held.clock_ns(), 25.0);
    }
}

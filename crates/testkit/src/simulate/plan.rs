//! What a seed decides, and the command line that repeats it.

use crate::external::*;
use std::fmt;

/// What to simulate. Besides what the fields say, the seed decides what is done, and how each life is mounted and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Decides all that no other field does.
    pub seed: u64,
    /// Decides the order of threads; the seed unless said otherwise.
    pub schedule: u64,
    /// Lives follow each other until so many operations were done.
    pub operations: usize,
    /// Lives at most.
    pub lives: usize,
    /// Workers.
    pub threads: usize,
    /// Whether three more threads change names that they contend for.
    pub contest: bool,
    /// Whether the power may be lost.
    pub power_losses: bool,
    /// Whether calls of the device may fail.
    pub faults: bool,
    /// Whether mounts are in variants that the seed chooses.
    pub variants: bool,
    /// Operations that are left out.
    pub skipped: Skipped,
}

/// Operations of a run by life, thread and number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<(usize, usize), Vec<Range<usize>>>);

impl Skipped {
    /// Whether an operation is among them.
    pub fn contains(&self, place: (usize, usize), number: usize) -> bool {
        let ranges = self.0.get(&place);
        ranges.is_some_and(|ranges| ranges.iter().any(|range| range.contains(&number)))
    }

    /// Adds operations.
    pub fn add(&mut self, place: (usize, usize), numbers: Range<usize>) {
        let ranges = self.0.entry(place).or_default();
        ranges.push(numbers);
        ranges.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<usize>> = Vec::new();
        for range in std::mem::take(ranges) {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        *ranges = merged;
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.values().flatten().map(Range::len).sum()
    }

    /// Whether none is left out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `LIFE.THREAD.FIRST-LAST`, with commas between.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for ((life, thread), ranges) in &self.0 {
            for range in ranges {
                write!(
                    f,
                    "{comma}{life}.{thread}.{}-{}",
                    range.start,
                    range.end - 1
                )?;
                comma = ",";
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Skipped {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Skipped> {
        let mut skipped = Skipped::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let numbers: Option<Vec<usize>> =
                part.split(['.', '-']).map(|n| n.parse().ok()).collect();
            match numbers.as_deref() {
                Some(&[life, thread, first, last]) if first <= last => {
                    skipped.add((life, thread), first..last + 1);
                }
                _ => bail!("{part}: LIFE.THREAD.FIRST-LAST is expected"),
            }
        }
        Ok(skipped)
    }
}

impl Plan {
    /// All that `seed` decides.
    pub fn of(seed: u64) -> Plan {
        let mut rng = Rng::with_seed(seed);
        Plan {
            seed,
            schedule: seed,
            operations: 1000,
            lives: usize::MAX,
            threads: rng.usize(1..=4),
            contest: rng.u8(..4) > 0,
            power_losses: true,
            faults: true,
            variants: rng.u8(..4) > 0,
            skipped: Skipped::default(),
        }
    }

    /// The arguments that give this plan.
    pub fn arguments(&self) -> Vec<String> {
        let of_seed = Plan::of(self.seed);
        let mut all = vec!["--seed".to_owned(), self.seed.to_string()];
        let mut number = |name: &str, value: usize, default: usize| {
            if value != default {
                all.extend([name.to_owned(), value.to_string()]);
            }
        };
        number("--operations", self.operations, of_seed.operations);
        number("--lives", self.lives, of_seed.lives);
        number("--threads", self.threads, of_seed.threads);
        if self.schedule != self.seed {
            all.extend(["--schedule".to_owned(), self.schedule.to_string()]);
        }
        let without = [
            ("--no-contest", self.contest, of_seed.contest),
            ("--no-power-losses", self.power_losses, of_seed.power_losses),
            ("--no-faults", self.faults, of_seed.faults),
            ("--no-variants", self.variants, of_seed.variants),
        ];
        for (name, value, default) in without {
            if value != default {
                all.push(name.to_owned());
            }
        }
        if !self.skipped.is_empty() {
            all.extend(["--skip".to_owned(), self.skipped.to_string()]);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_skipped_is_read_as_it_is_printed() {
        let mut skipped = Skipped::default();
        skipped.add((0, 1), 5..8);
        skipped.add((0, 1), 8..9);
        skipped.add((2, 0), 0..1);
        assert_eq!(skipped.to_string(), "0.1.5-8,2.0.0-0");
        assert_eq!(skipped.to_string().parse::<Skipped>().unwrap(), skipped);
        assert!(skipped.contains((0, 1), 8) && !skipped.contains((0, 1), 9));
        assert_eq!(skipped.len(), 5);
        assert!("0.1".parse::<Skipped>().is_err());
    }
}

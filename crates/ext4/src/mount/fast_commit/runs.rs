//! A set of blocks, kept as runs that neither touch nor overlap.

use std::collections::BTreeMap;

/// The set: first block of a run, and the block after it.
#[derive(Debug, Default)]
pub(super) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// Adds the blocks from `from` to before `to`; false if some were there.
    pub fn insert(&mut self, from: u64, to: u64) -> bool {
        if from >= to {
            return true;
        }
        let (mut start, mut end, mut anew) = (from, to, true);
        if let Some((&before, &upto)) = self.0.range(..from).next_back()
            && upto >= from
        {
            anew &= upto == from;
            start = before;
            end = end.max(upto);
        }
        while let Some((&next, &upto)) = self.0.range(from..=end).next() {
            anew &= next >= to;
            end = end.max(upto);
            self.0.remove(&next);
        }
        self.0.insert(start, end);
        anew
    }

    /// The block after the run that has `block`, if one has.
    pub fn end_of_run(&self, block: u64) -> Option<u64> {
        let (_, &end) = self.0.range(..=block).next_back()?;
        (end > block).then_some(end)
    }

    /// Runs of this set that are not in `other`.
    pub fn minus(&self, other: &Runs) -> Vec<(u64, u64)> {
        let mut left = Vec::new();
        for (&from, &to) in &self.0 {
            let mut at = from;
            while at < to {
                if let Some(end) = other.end_of_run(at) {
                    at = end;
                    continue;
                }
                let next = other.0.range(at..to).next().map_or(to, |(&next, _)| next);
                left.push((at, next));
                at = next;
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn as_a_plain_set() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..300 {
            let (mut runs, mut set) = (Runs::default(), BTreeSet::new());
            let (mut other, mut other_set) = (Runs::default(), BTreeSet::new());
            for _ in 0..rng.usize(1..20) {
                let from = rng.u64(..60);
                let to = from + rng.u64(..12);
                let anew = (from..to).all(|b| !set.contains(&b));
                assert_eq!(runs.insert(from, to), anew);
                set.extend(from..to);
                let from = rng.u64(..60);
                let to = from + rng.u64(..5);
                other.insert(from, to);
                other_set.extend(from..to);
            }
            let all: BTreeSet<u64> = runs.0.iter().flat_map(|(f, t)| *f..*t).collect();
            assert_eq!(all, set);
            let left: BTreeSet<u64> = runs
                .minus(&other)
                .iter()
                .flat_map(|(f, t)| *f..*t)
                .collect();
            assert_eq!(left, &set - &other_set);
            let block = rng.u64(..80);
            let end = (block..)
                .find(|b| !set.contains(b))
                .filter(|end| *end > block);
            assert_eq!(runs.end_of_run(block), end);
        }
    }
}

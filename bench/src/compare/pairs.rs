//! The rows of two results, matched by what they are of.

use super::change::{Ratio, Verdict};
use super::key::RowKey;
use crate::report::Spread;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// A row that both have.
#[derive(Debug, Serialize)]
pub struct Pair {
    /// What it is of.
    #[serde(flatten)]
    pub key: RowKey,
    /// Operations per second in A.
    pub a: Spread,
    /// Operations per second in B.
    pub b: Spread,
    /// B over A.
    pub ratio: Ratio,
    /// Whether that is more than the spread.
    pub verdict: Verdict,
}

/// All rows.
#[derive(Debug)]
pub struct Pairs {
    /// Those that both have, in the order of A.
    pub both: Vec<Pair>,
    /// Those that only A has.
    pub only_a: Vec<RowKey>,
    /// Those that only B has.
    pub only_b: Vec<RowKey>,
}

impl Pairs {
    /// Matches them. Of equal rows in one result the first belongs to the first of the other, and so on.
    pub fn of(a: &[(RowKey, Spread)], b: &[(RowKey, Spread)]) -> Pairs {
        let mut places: HashMap<&RowKey, VecDeque<usize>> = HashMap::new();
        for (place, (key, _)) in b.iter().enumerate() {
            places.entry(key).or_default().push_back(place);
        }
        let mut pairs = Pairs {
            both: Vec::new(),
            only_a: Vec::new(),
            only_b: Vec::new(),
        };
        for (key, of_a) in a {
            let place = places.get_mut(key).and_then(VecDeque::pop_front);
            match place.and_then(|place| b.get(place)) {
                Some((_, of_b)) => pairs.both.push(Pair {
                    key: key.clone(),
                    a: *of_a,
                    b: *of_b,
                    ratio: Ratio::of(of_a, of_b),
                    verdict: Verdict::of(of_a, of_b),
                }),
                None => pairs.only_a.push(key.clone()),
            }
        }
        let mut left: Vec<usize> = places.into_values().flatten().collect();
        left.sort_unstable();
        let left = left.into_iter().filter_map(|place| b.get(place));
        pairs.only_b = left.map(|(key, _)| key.clone()).collect();
        pairs
    }
}

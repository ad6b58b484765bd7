//! Owners of the host and of the image, as user namespaces have them.
//!
//! Source: user_namespaces(7).

use crate::error::{MkfsError, Result};
use crate::id_range::IdRange;

/// Which owner of the image each of the host is.
pub(crate) struct IdMap {
    /// By the number on the host.
    ranges: Vec<IdRange>,
}

impl IdMap {
    /// By ranges; `None` without any, which changes nothing.
    ///
    /// # Errors
    /// [`MkfsError::Option`]: ranges overlap. `name` is the option.
    pub fn new(name: &'static str, ranges: &[IdRange]) -> Result<Option<IdMap>> {
        let mut ranges = ranges.to_vec();
        ranges.sort_by_key(|range| range.outside);
        let overlap = ranges
            .windows(2)
            .find(|two| two[1].outside - two[0].outside < two[0].count);
        match overlap {
            Some(two) => {
                let outside = two[1].outside;
                let why = "ranges of the host overlap there";
                Err(MkfsError::option(name, outside, why))
            }
            None => Ok((!ranges.is_empty()).then_some(IdMap { ranges })),
        }
    }

    /// The owner in the image; `None` if no range has the one of the host.
    pub fn inside(&self, outside: u32) -> Option<u32> {
        let after = self
            .ranges
            .partition_point(|range| range.outside <= outside);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        let n = outside - range.outside;
        (n < range.count).then(|| range.inside + n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_moved() {
        let ranges = ["0:1000:1", "1:100000:65536"].map(|text| IdRange::parse(text).unwrap());
        let map = IdMap::new("map-uid", &ranges).unwrap().unwrap();
        let found = [1000, 100_000, 165_535, 165_536, 999, 0].map(|id| map.inside(id));
        assert_eq!(found, [Some(0), Some(1), Some(65_536), None, None, None]);
        assert!(IdMap::new("map-uid", &[]).unwrap().is_none());
        let overlap = ["0:10:5", "9:14:1"].map(|text| IdRange::parse(text).unwrap());
        assert!(IdMap::new("map-uid", &overlap).is_err());
        for wrong in ["", "0:1", "0:1:0", "0:1:x", "4294967295:0:2", "0:1:2:3"] {
            assert!(IdRange::parse(wrong).is_err(), "{wrong}");
        }
    }
}

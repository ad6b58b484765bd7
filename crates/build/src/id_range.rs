//! Owners in a row, as user namespaces map them.

/// Owners that follow each other in the image and on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdRange {
    /// The first in the image.
    pub inside: u32,
    /// The first on the host.
    pub outside: u32,
    /// How many there are.
    pub count: u32,
}

impl IdRange {
    /// Reads `INSIDE:OUTSIDE:COUNT`.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> std::result::Result<IdRange, String> {
        let numbers: Vec<Option<u32>> = text.split(':').map(|n| n.parse().ok()).collect();
        let [Some(inside), Some(outside), Some(count)] = numbers[..] else {
            return Err(format!(
                "`{text}`: give INSIDE:OUTSIDE:COUNT, such as 0:100000:65536"
            ));
        };
        let is_in_range = |first: u32| count > 0 && first.checked_add(count - 1).is_some();
        match is_in_range(inside) && is_in_range(outside) {
            true => Ok(IdRange {
                inside,
                outside,
                count,
            }),
            false => Err(format!(
                "`{text}`: a range has 1 to 4294967295 numbers, none above 4294967295"
            )),
        }
    }
}

//! Requests that stay inside an object: ranges that follow each other are one, and a long range is several.

/// Buffers of one request at most, as many as a vectored call of the host takes.
const BUFFERS_MAX: usize = crate::batch::IOV_MAX;

/// Memory that can be cut.
pub trait Buffer: Sized {
    fn bytes(&self) -> usize;
    fn cut(self, at: usize) -> (Self, Self);
}

impl Buffer for &[u8] {
    fn bytes(&self) -> usize {
        self.len()
    }
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }
}

impl Buffer for &mut [u8] {
    fn bytes(&self) -> usize {
        self.len()
    }
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }
}

/// Where a request begins, and its buffers.
pub type Buffers<B> = (u64, Vec<B>);

/// The requests for ranges of a device whose objects have so many bytes.
pub fn in_objects<B: Buffer>(
    ranges: impl IntoIterator<Item = (u64, B)>,
    object_bytes: u64,
) -> Vec<Buffers<B>> {
    let mut requests: Vec<Buffers<B>> = Vec::new();
    // Where the last request ends.
    let mut end = None;
    for (offset, buffer) in ranges {
        let (mut at, mut rest) = (offset, buffer);
        while rest.bytes() > 0 {
            let space = object_bytes - at % object_bytes;
            let bytes = space.min(rest.bytes() as u64);
            let (now, after) = rest.cut(bytes as usize);
            let next = at + bytes;
            match requests.last_mut() {
                Some((_, buffers))
                    if end == Some(at)
                        && !at.is_multiple_of(object_bytes)
                        && buffers.len() < BUFFERS_MAX =>
                {
                    buffers.push(now);
                }
                _ => requests.push((at, vec![now])),
            }
            (at, rest, end) = (next, after, Some(next));
        }
    }
    requests
}

/// The parts of a range that are in one group of so many bytes each.
pub fn parts(offset: u64, len: u64, group_bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        let len = (group_bytes - at % group_bytes).min(end - at);
        at += len;
        (len > 0).then_some((at - len, len))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(ranges: &[(u64, usize)], object_bytes: u64) -> Vec<(u64, Vec<usize>)> {
        let bytes = [0; 5000];
        let ranges = ranges.iter().map(|&(at, len)| (at, &bytes[..len]));
        let requests = in_objects(ranges, object_bytes).into_iter();
        requests
            .map(|(at, bufs)| (at, bufs.iter().map(|b| b.len()).collect()))
            .collect()
    }

    #[test]
    fn a_request_is_in_one_object() {
        assert_eq!(
            lengths(&[(4000, 200), (4200, 10), (0, 0), (8000, 4096)], 4096),
            [
                (4000, vec![96]),
                (4096, vec![104, 10]),
                (8000, vec![192]),
                (8192, vec![3904])
            ]
        );
        assert_eq!(lengths(&[], 4096), []);
        assert_eq!(
            lengths(&[(10, 5), (20, 5), (15, 5)], 4096),
            [(10, vec![5]), (20, vec![5]), (15, vec![5])]
        );
        let many: Vec<_> = (0..1100).map(|at| (at, 1)).collect();
        let counts: Vec<_> = lengths(&many, 4096)
            .iter()
            .map(|(at, bufs)| (*at, bufs.len()))
            .collect();
        assert_eq!(counts, [(0, 1024), (1024, 76)]);
    }

    #[test]
    fn parts_make_up_the_range() {
        let found: Vec<_> = parts(10, 25, 16).collect();
        assert_eq!(found, [(10, 6), (16, 16), (32, 3)]);
        assert_eq!(parts(16, 0, 16).count(), 0);
        assert_eq!(parts(16, 16, 16).collect::<Vec<_>>(), [(16, 16)]);
    }
}

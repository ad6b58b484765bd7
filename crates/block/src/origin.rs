//! Where on the host the bytes of a device are kept.

use crate::device_id::DeviceId;

/// Where bytes of a device are kept, and how many lie there in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    place: Option<Place>,
    len: u64,
}

/// What holds the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    Device(DeviceId),
    /// A file system of the host, where several files have them.
    #[cfg(any(target_os = "linux", test))]
    Host {
        st_dev: u64,
    },
}

/// A place on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    store: Store,
    at: u64,
    /// How far the bytes are in what is expanded from there, if they are compressed.
    expanded: Option<u64>,
}

impl Place {
    fn new(store: Store, at: u64) -> Place {
        Place {
            store,
            at,
            expanded: None,
        }
    }
}

impl Origin {
    /// `len` bytes of which nothing is known.
    pub fn unknown(len: u64) -> Origin {
        Origin { place: None, len }
    }

    /// `len` bytes of a file or block device of the host, from `at` on.
    pub fn of_file(file: Option<DeviceId>, at: u64, len: u64) -> Origin {
        let place = file.map(|file| Place::new(Store::Device(file), at));
        Origin { place, len }
    }

    /// `len` bytes that several files of a file system of the host share, which are at `at` there.
    #[cfg(any(target_os = "linux", test))]
    pub(crate) fn of_host(st_dev: u64, at: u64, len: u64) -> Origin {
        let place = Some(Place::new(Store::Host { st_dev }, at));
        Origin { place, len }
    }

    /// The same `len` bytes of what is expanded from there, from `skipped` on.
    pub(crate) fn expanded(self, skipped: u64, len: u64) -> Origin {
        let place = self.place.filter(|place| place.expanded.is_none());
        let place = place.map(|place| Place {
            expanded: Some(skipped),
            ..place
        });
        Origin { place, len }
    }

    /// How many bytes it is of.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Whether both begin at the same place of the host, so that as many bytes as both have are the same.
    pub fn is_same_as(&self, other: &Origin) -> bool {
        self.place.is_some() && self.place == other.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_places_are_the_same() {
        let file = |ino| {
            Some(DeviceId::File {
                st_dev: 1,
                st_ino: ino,
            })
        };
        let origin = Origin::of_file(file(2), 4096, 10);
        assert!(origin.is_same_as(&Origin::of_file(file(2), 4096, 99)));
        for other in [
            Origin::unknown(10),
            Origin::of_file(None, 4096, 10),
            Origin::of_file(file(3), 4096, 10),
            Origin::of_file(file(2), 4097, 10),
            Origin::of_host(1, 4096, 10),
            origin.expanded(0, 10),
        ] {
            assert!(!origin.is_same_as(&other) && !other.is_same_as(&origin));
        }
        let of_host = Origin::of_host(1, 4096, 10);
        assert!(of_host.is_same_as(&Origin::of_host(1, 4096, 20)));
        assert!(!of_host.is_same_as(&Origin::of_host(2, 4096, 10)));
        let unknown = Origin::unknown(10);
        assert!(!unknown.is_same_as(&unknown));
        let expanded = origin.expanded(5, 10);
        assert!(expanded.is_same_as(&origin.expanded(5, 7)));
        assert!(!expanded.is_same_as(&origin.expanded(6, 10)));
        // Nothing is known of what is expanded twice.
        let twice = expanded.expanded(5, 10);
        assert!(!twice.is_same_as(&twice));
    }
}

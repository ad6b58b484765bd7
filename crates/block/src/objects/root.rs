//! The root of an image: what it was at a flush.

use super::names;
use super::page::{ENTRIES, Page};
use super::store::{ObjectStore, StoreError, StoreResult, again};
use uuid::Uuid;

/// What a root begins with.
const MAGIC: [u8; 8] = *b"uext4obj";
/// The version of the format.
const VERSION: u32 = 1;
/// Bytes before the table.
const HEADER: usize = 160;
/// Where the byte is that says whether the image was removed.
const REMOVED: usize = 144;
/// Numbers that no image has reached: what follows them does not overflow.
const NUMBER_MAX: u64 = 1 << 62;
/// Segments of an epoch; the number of one has 48 bits.
const SEGMENTS_MAX: u64 = 1 << 47;
/// Bytes of a host's name.
const HOST: usize = 64;
/// How often a root is searched that is collected meanwhile.
const TRIES: u32 = 10;
/// Blocks below an entry of the table.
pub const TABLE_ENTRY: u64 = (ENTRIES * ENTRIES) as u64;
/// The longest image: 64 TiB, whose table has 1 MiB.
pub const LEN_MAX: u64 = 1 << 46;

/// A root, in the order of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// From 1; the name is made of it.
    pub number: u64,
    /// Of its writer; 0 of the first root, which no writer made.
    pub epoch: u32,
    /// The number of the first root of the epoch.
    pub first: u64,
    /// Differs between writers.
    pub writer: Uuid,
    /// The host of the writer.
    pub host: String,
    /// The size of the image in bytes.
    pub len: u64,
    /// The next segment of the epoch.
    pub next_segment: u64,
    /// What roots before this one need may be gone, but for those that readers named before.
    pub floor: u64,
    /// Bytes that were written since garbage was collected.
    pub written: u64,
    /// Whether the image was removed: the root stays, so that a host that still writes it fails.
    pub is_removed: bool,
    /// Where the pages are that hold where the pages are, of [`TABLE_ENTRY`] blocks each.
    pub table: Page,
}

/// Bits of the first epoch of a writer.
const FIRST_EPOCH_MASK: u32 = 0x3fff_ffff;

impl Root {
    /// The first of an image of zeros.
    pub fn new(len: u64) -> Root {
        Root {
            number: 1,
            epoch: 0,
            first: 1,
            writer: Uuid::new_v4(),
            host: crate::host_name(),
            len,
            next_segment: 0,
            floor: 1,
            written: 0,
            is_removed: false,
            table: Page::empty(table_len(len)),
        }
    }

    /// The first of an image of zeros, where another image may have been removed; `None`: there is an image.
    ///
    /// # Errors
    /// As [`Root::newest`].
    pub fn of_new(store: &dyn ObjectStore, len: u64) -> StoreResult<Option<Root>> {
        match Root::last(store) {
            Ok(last) if last.is_removed => Ok(Some(Root {
                len,
                written: 0,
                is_removed: false,
                table: Page::empty(table_len(len)),
                ..last.taken_over()
            })),
            Ok(_) => Ok(None),
            Err(StoreError::NotFound) => Ok(Some(Root::new(len))),
            Err(why) => Err(why),
        }
    }

    /// The last of an image that is removed.
    #[cfg(feature = "s3")]
    pub fn removed(&self) -> Root {
        Root {
            len: 0,
            is_removed: true,
            table: Page::empty(0),
            ..self.taken_over()
        }
    }

    /// The first of another writer, which reads what this one holds.
    pub fn taken_over(&self) -> Root {
        Root {
            number: self.number + 1,
            epoch: match self.epoch {
                // So that an image which was made anew has other segments than the one before of its name, which caches may hold.
                0 => 1 + (self.writer.as_u128() as u32 & FIRST_EPOCH_MASK),
                epoch => epoch + 1,
            },
            first: self.number + 1,
            writer: Uuid::new_v4(),
            host: crate::host_name(),
            next_segment: 0,
            ..self.clone()
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.table.len() * 16 + 4);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.epoch.to_le_bytes());
        for word in [
            self.number,
            self.first,
            self.len,
            self.next_segment,
            self.floor,
            self.written,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.writer.as_bytes());
        let mut end = self.host.len().min(HOST);
        while !self.host.is_char_boundary(end) {
            end -= 1;
        }
        bytes.extend(self.host.as_bytes().get(..end).unwrap_or_default());
        bytes.resize(REMOVED, 0);
        bytes.push(self.is_removed.into());
        bytes.resize(HEADER, 0);
        bytes.extend(self.table.encode());
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it: the end of a sentence.
    pub fn decode(bytes: &[u8]) -> Result<Root, &'static str> {
        let (body, crc) = bytes.split_last_chunk().ok_or("is too short")?;
        if body.len() < HEADER {
            return Err("is too short");
        }
        if !body.starts_with(&MAGIC) {
            return Err("is not a root of an image");
        }
        if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
            return Err("has a wrong checksum");
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| body[at + i]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| body[at + i]));
        if word(8) != VERSION {
            return Err("is of a version that this program does not know");
        }
        let host = &body[80..80 + HOST];
        let host = host.split(|byte| *byte == 0).next().unwrap_or_default();
        let root = Root {
            epoch: word(12),
            number: long(16),
            first: long(24),
            len: long(32),
            next_segment: long(40),
            floor: long(48),
            written: long(56),
            is_removed: body[REMOVED] != 0,
            writer: Uuid::from_bytes(std::array::from_fn(|i| body[64 + i])),
            host: String::from_utf8_lossy(host).into_owned(),
            table: Page::decode(&body[HEADER..]),
        };
        if root.len > LEN_MAX || root.table.len() != table_len(root.len) {
            return Err("has a table that does not fit the size");
        }
        let numbers = [root.number, root.first, root.floor, root.written];
        let are_fine = numbers.iter().all(|number| *number < NUMBER_MAX);
        if !are_fine || root.epoch == u32::MAX || root.next_segment >= SEGMENTS_MAX {
            return Err("has a number that no image reaches");
        }
        Ok(root)
    }

    /// The newest root of an image.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]: there is no image; it is damaged; the store's.
    pub fn newest(store: &dyn ObjectStore) -> StoreResult<Root> {
        let last = Root::last(store)?;
        match last.is_removed {
            true => Err(StoreError::NotFound),
            false => Ok(last),
        }
    }

    /// The newest root, of an image that was removed too.
    fn last(store: &dyn ObjectStore) -> StoreResult<Root> {
        let mut tries = 0;
        loop {
            tries += 1;
            let number = Root::newest_number(store)?;
            match Root::read(store, number) {
                // Collected meanwhile.
                Err(StoreError::NotFound) if tries < TRIES => {}
                Err(StoreError::NotFound) => {
                    let why = format!("it lists {}, which it has not", names::root(number));
                    return Err(StoreError::Failed(why));
                }
                found => return found,
            }
        }
    }

    /// The number of the newest root.
    ///
    /// # Errors
    /// As [`Root::newest`].
    pub fn newest_number(store: &dyn ObjectStore) -> StoreResult<u64> {
        let roots = again(store, || store.list(names::ROOTS))?;
        let numbers = roots
            .iter()
            .filter_map(|root| names::root_number(&root.name));
        numbers.max().ok_or(StoreError::NotFound)
    }

    /// The root of a number.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]: there is none; it is damaged; the store's.
    pub fn read(store: &dyn ObjectStore, number: u64) -> StoreResult<Root> {
        let name = names::root(number);
        let damaged = |why: &str| StoreError::Failed(format!("{name} {why}"));
        let root = Root::decode(&again(store, || store.get(&name, None))?).map_err(damaged)?;
        match root.number == number {
            true => Ok(root),
            false => Err(damaged("has the number of another")),
        }
    }
}

/// Entries of the table of an image.
fn table_len(len: u64) -> usize {
    len.div_ceil(TABLE_ENTRY * super::page::BLOCK as u64) as usize
}

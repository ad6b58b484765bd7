//! Hosts that take an image in a store over from each other, as a seed says: what they write, what the network does to it, and which of them
//! is stopped, dies or is cut off.
//!
//! What is checked: a host that takes over reads what was durable, or what a flush without an answer would have made; a host that was taken over has
//! no flush that says Ok; a reader reads one root, whatever is collected; and nothing is left that nothing needs.

use crate::external::*;
use crate::object_store::{Bucket, Bug, HostStore, Trouble};
use uext4_block::{BlockError, ObjectDevice};

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// The image: three tables of pages.
const LEN: u64 = 3 << 30;
/// Blocks that are written: neighbours, and those of other pages.
const BLOCKS: [u64; 14] = [
    0, 1, 2, 3, 510, 511, 512, 513, 4096, 262_143, 262_144, 262_145, 524_288, 786_431,
];
/// Steps of a seed.
const STEPS: u32 = 120;

/// What each block holds: the number that was written, 0 of none.
type Content = [u64; BLOCKS.len()];

/// A host with an image, and whether it was taken over.
struct Host {
    store: Arc<HostStore>,
    device: ObjectDevice,
}

struct World {
    rng: Rng,
    bucket: Arc<Bucket>,
    owner: Option<Host>,
    /// Writers that were taken over, or failed, but live.
    fenced: Vec<Host>,
    /// Ways to the store with requests that may be late.
    stores: Vec<Arc<HostStore>>,
    /// A host that has opened the image to write it, and has not written: it may do so at any time.
    standby: Option<Host>,
    /// A reader, and what it reads.
    reader: Option<(Host, Content)>,
    /// What the owner reads.
    written: Content,
    /// What was durable last, and what flushes without an answer may have made durable since.
    may_be: Vec<Content>,
    next: u64,
    takeovers: u64,
}

/// What came of a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// How often a host took over.
    pub takeovers: u64,
    /// Requests of all hosts.
    pub requests: u64,
}

/// Runs a seed, with a planted bug or none.
///
/// # Errors
/// What was lost, or was acknowledged and should not be.
pub fn run(seed: u64, bug: Option<Bug>) -> Result<Outcome> {
    let bucket = Arc::new(Bucket::default());
    let mut world = World {
        rng: Rng::with_seed(seed),
        owner: None,
        fenced: Vec::new(),
        stores: Vec::new(),
        standby: None,
        reader: None,
        written: Content::default(),
        may_be: vec![Content::default()],
        next: 1,
        takeovers: 0,
        bucket,
    };
    let first = world.host();
    drop(world.open(&first, &OpenOptions::create(LEN))?);
    if let Some(bug) = bug {
        world.bucket.plant(bug);
    }
    for _ in 0..STEPS {
        world.step()?;
    }
    world.end()
}

impl World {
    fn host(&mut self) -> Arc<HostStore> {
        let store = HostStore::new(&self.bucket, self.rng.u64(..));
        self.stores.push(Arc::clone(&store));
        store
    }

    fn open(&self, store: &Arc<HostStore>, options: &OpenOptions) -> Result<ObjectDevice> {
        Ok(ObjectDevice::open(store.clone(), None, "image", options)?)
    }

    fn step(&mut self) -> Result<()> {
        match self.rng.u8(..100) {
            0..40 => self.write(),
            40..60 => self.flush(),
            60..66 => self.read(),
            66..72 => self.trouble(),
            72..80 => {
                let at = self.rng.usize(..self.stores.len());
                self.stores[at].deliver();
                Ok(())
            }
            80..88 => self.take_over(),
            88..93 => self.write_late(),
            93..95 => self.read_elsewhere(),
            95 => self.stand_by(),
            96..98 => {
                if let Some(owner) = &self.owner {
                    // What it can't do it does later.
                    let _ = owner.device.collect();
                }
                Ok(())
            }
            _ => {
                // The owner dies.
                self.owner = None;
                Ok(())
            }
        }
    }

    fn write(&mut self) -> Result<()> {
        let Some(owner) = &self.owner else {
            return self.take_over();
        };
        let at = self.rng.usize(..BLOCKS.len());
        let offset = BLOCKS[at] * BLOCK;
        let (value, written) = match self.rng.u8(..5) {
            0 => (0, owner.device.zero(offset, BLOCK)),
            _ => {
                self.next += 1;
                let bytes = block(self.next);
                (self.next, owner.device.write_at(offset, &bytes))
            }
        };
        match written {
            Ok(()) => self.written[at] = value,
            Err(BlockError::Failed { .. }) => self.fence(),
            Err(_) => {}
        }
        Ok(())
    }

    /// The owner has failed, or was taken over.
    fn fence(&mut self) {
        self.fenced.extend(self.owner.take());
    }

    fn flush(&mut self) -> Result<()> {
        let Some(owner) = &self.owner else {
            return Ok(());
        };
        match owner.device.flush() {
            Ok(()) => self.may_be = vec![self.written],
            Err(_) => {
                self.may_be.push(self.written);
                self.fence();
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let Some(owner) = &self.owner else {
            return Ok(());
        };
        let at = self.rng.usize(..BLOCKS.len());
        // A read may fail, but not be wrong.
        if let Ok(found) = content_at(&owner.device, at) {
            let expected = self.written[at];
            ensure!(
                found == expected,
                "the owner reads {found}, wrote {expected}"
            );
        }
        Ok(())
    }

    fn trouble(&mut self) -> Result<()> {
        let calm = self.rng.bool();
        let mut part = |most: u8| if calm { 0 } else { self.rng.u8(..most) };
        let trouble = Trouble {
            lost: part(30),
            unanswered: part(30),
            late: part(40),
        };
        if let Some(owner) = &self.owner {
            owner.store.set_trouble(trouble);
        }
        Ok(())
    }

    /// Another host reads all, and writes.
    fn take_over(&mut self) -> Result<()> {
        let store = self.host();
        let device = self.open(&store, &OpenOptions::read_write())?;
        let found = content(&device)?;
        ensure!(
            self.may_be.contains(&found),
            "a host that takes over reads {found:?}, which is none of {:?}",
            self.may_be
        );
        if self.rng.u8(..4) == 0 {
            // What is late may be there before the first write.
            self.stores[self.rng.usize(..self.stores.len())].deliver();
        }
        self.next += 1;
        if device.write_at(0, &block(self.next)).is_err() {
            return Ok(());
        }
        self.takeovers += 1;
        self.fence();
        self.may_be = vec![found];
        self.written = found;
        self.written[0] = self.next;
        self.owner = Some(Host { store, device });
        Ok(())
    }

    /// A host opens the image to write it, or writes it at last: it may, if nothing was written meanwhile.
    fn stand_by(&mut self) -> Result<()> {
        let Some(host) = self.standby.take() else {
            let store = self.host();
            let device = self.open(&store, &OpenOptions::read_write())?;
            self.standby = Some(Host { store, device });
            return Ok(());
        };
        let found = content(&host.device);
        self.next += 1;
        if host.device.write_at(0, &block(self.next)).is_err() {
            return Ok(());
        }
        let found = found?;
        ensure!(
            self.may_be.contains(&found),
            "a host that stood by became the writer of an old root"
        );
        self.takeovers += 1;
        self.fence();
        self.may_be = vec![found];
        self.written = found;
        self.written[0] = self.next;
        self.owner = Some(host);
        Ok(())
    }

    /// A writer that was taken over wakes up, and writes.
    fn write_late(&mut self) -> Result<()> {
        if self.fenced.is_empty() {
            return Ok(());
        }
        let host = &self.fenced[self.rng.usize(..self.fenced.len())];
        host.store.set_trouble(Trouble::default());
        self.next += 1;
        let written = match self.rng.u8(..3) {
            0 => host.device.zero(BLOCK, BLOCK),
            _ => host.device.write_at(BLOCK, &block(self.next)),
        };
        let done = written.and_then(|()| host.device.flush());
        ensure!(done.is_err(), "a writer that was taken over has an Ok");
        Ok(())
    }

    /// A reader begins, or reads again.
    fn read_elsewhere(&mut self) -> Result<()> {
        if let Some((reader, expected)) = self.reader.take() {
            let found = content(&reader.device)?;
            ensure!(
                found == expected,
                "a reader read {expected:?}, then {found:?}"
            );
            return Ok(());
        }
        let store = self.host();
        let device = self.open(&store, &OpenOptions::read_only())?;
        let at = self.rng.usize(..BLOCKS.len());
        let one = content_at(&device, at)?;
        let known: Vec<Content> = self
            .may_be
            .iter()
            .filter(|c| c[at] == one)
            .copied()
            .collect();
        ensure!(!known.is_empty(), "a reader reads {one} of block {at}");
        // The rest is read later.
        if let [only] = known[..] {
            self.reader = Some((Host { store, device }, only));
        }
        Ok(())
    }

    fn end(mut self) -> Result<Outcome> {
        self.reader = None;
        self.standby = None;
        for store in &self.stores {
            store.set_trouble(Trouble::default());
        }
        self.take_over()?;
        for store in &self.stores {
            while store.deliver() {}
        }
        if self.owner.is_none() {
            self.take_over()?;
        }
        self.flush()?;
        if self.owner.is_none() {
            self.take_over()?;
            self.flush()?;
        }
        let owner = self.owner.as_ref().context("no host takes over")?;
        let found = content(&owner.device)?;
        ensure!(
            found == self.written,
            "at the end: {found:?}, not {:?}",
            self.written
        );
        owner.device.collect()?;
        // Blocks, their seven pages, and the three pages of those; a half of a segment may be garbage.
        let most = 2 * (BLOCKS.len() as u64 + 2 * (7 + 3)) * BLOCK;
        let segments = self.bucket.list("segment/");
        let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        ensure!(bytes <= most, "{bytes} bytes of segments are left");
        Ok(Outcome {
            takeovers: self.takeovers,
            requests: self.stores.iter().map(|store| store.requests()).sum(),
        })
    }
}

fn block(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK as usize / 8)
}

fn content_at(device: &ObjectDevice, at: usize) -> Result<u64> {
    let mut bytes = vec![0; BLOCK as usize];
    device.read_at(BLOCKS[at] * BLOCK, &mut bytes)?;
    let (words, _) = bytes.as_chunks();
    let value = u64::from_le_bytes(words[0]);
    ensure!(bytes == block(value), "block {at} is torn");
    Ok(value)
}

fn content(device: &ObjectDevice) -> Result<Content> {
    let mut content = Content::default();
    for (at, value) in content.iter_mut().enumerate() {
        *value = content_at(device, at)?;
    }
    Ok(content)
}

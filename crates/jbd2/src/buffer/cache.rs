//! The shards of the cache.

use super::freeze::FreezeHook;
use super::{Buffer, BufferRead};
use hashbrown::HashTable;
use std::sync::{Arc, OnceLock};
use uext4_block::{BlockDevice, BlockError};
use uext4_sync::atomic::Ordering;
use uext4_sync::percpu::cpu_shards;
use uext4_sync::{CachePadded, Mutex, class};

/// Shards, at least, and for each CPU: each CPU has some blocks that it needs in every operation, and two that need
/// different ones should hardly ever meet.
const SHARDS_MIN: usize = 64;
const SHARDS_PER_CPU: usize = 16;
/// Blocks that lie together share a shard, so that a run of them stays in one table.
const SHARD_SHIFT: u32 = 4;

/// Why a block is not available.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] BlockError),
    /// The block lies past the end of the device.
    #[error("block {block} lies past the end of the device ({blocks} blocks)")]
    OutOfRange {
        /// The block asked for.
        block: u64,
        /// How many the device has.
        blocks: u64,
    },
    /// The block is in use as something else, or something else's.
    #[error("block {block} is used for two purposes")]
    TwoRoles {
        /// The block asked for.
        block: u64,
    },
}

/// The cached metadata blocks of one device.
pub struct BufferCache {
    device: Arc<dyn BlockDevice>,
    block_size: usize,
    hook: OnceLock<Arc<dyn FreezeHook>>,
    /// A power of two.
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// What leaves as many bits of a hash as number the shards: the highest, which keep apart what CPUs use at regular distances.
    hash_shift: u32,
}

struct Shard {
    table: HashTable<Arc<Buffer>>,
    /// Sweep when the table grows past this.
    sweep_at: usize,
    capacity: usize,
}

fn hash(block: u64) -> u64 {
    block.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl std::fmt::Debug for BufferCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BufferCache")
            .field("block_size", &self.block_size)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl BufferCache {
    #[expect(
        clippy::indexing_slicing,
        reason = "the mask is below the number of shards, a power of two"
    )]
    fn shard(&self, block: u64) -> &Mutex<Shard> {
        let hashed = hash(block >> SHARD_SHIFT) >> self.hash_shift;
        &self.shards[hashed as usize & (self.shards.len() - 1)]
    }

    /// An empty cache of blocks of `block_size` bytes that aims at `capacity` unreferenced blocks.
    pub fn new(device: Arc<dyn BlockDevice>, block_size: usize, capacity: usize) -> BufferCache {
        let shards = SHARDS_MIN.max(SHARDS_PER_CPU * cpu_shards());
        let per_shard = (capacity / shards).max(16);
        BufferCache {
            device,
            block_size,
            hook: OnceLock::new(),
            hash_shift: u64::BITS - shards.ilog2(),
            shards: (0..shards)
                .map(|_| {
                    CachePadded::new(Mutex::new(
                        &class::BUFFER_CACHE,
                        Shard {
                            table: HashTable::new(),
                            sweep_at: per_shard,
                            capacity: per_shard,
                        },
                    ))
                })
                .collect(),
        }
    }

    /// Sets the hook that completes blocks; at most once.
    pub fn set_hook(&self, hook: Arc<dyn FreezeHook>) {
        let _ = self.hook.set(hook);
    }

    /// Completes `data`, the content of `buffer`.
    pub fn freeze(&self, buffer: &Buffer, data: &mut [u8]) {
        if let Some(hook) = self.hook.get() {
            hook.freeze(buffer, data);
        }
    }

    /// The device underneath.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// The size of a block in bytes.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// How many blocks are cached.
    ///
    /// # Locks
    /// Takes each shard's leaf lock.
    pub fn len(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.lock().table.len()).sum()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The buffer of `block`, whose content may have been neither read nor made yet.
    ///
    /// # Locks
    /// Takes a leaf lock; does no I/O.
    pub fn get_unread(&self, block: u64) -> Arc<Buffer> {
        let mut shard = self.shard(block).lock();
        let hashed = hash(block);
        if let Some(found) = shard.table.find(hashed, |b| b.block() == block) {
            if found.referenced.load(Ordering::Relaxed) == 0 {
                found.referenced.store(1, Ordering::Relaxed);
            }
            return Arc::clone(found);
        }
        if shard.table.len() >= shard.sweep_at {
            shard.sweep();
        }
        let buffer = Arc::new(Buffer::new(block, self.block_size));
        shard
            .table
            .insert_unique(hashed, Arc::clone(&buffer), |b| hash(b.block()));
        buffer
    }

    /// The buffer of `block` if it is in memory with its content.
    ///
    /// # Locks
    /// Takes a leaf lock; does no I/O.
    pub fn peek(&self, block: u64) -> Option<Arc<Buffer>> {
        let shard = self.shard(block).lock();
        let found = shard.table.find(hash(block), |b| b.block() == block)?;
        found.is_uptodate().then(|| Arc::clone(found))
    }

    /// The buffer of `block`, read from the device unless it is cached.
    ///
    /// # Locks
    /// Takes the buffer's lock; may sleep.
    ///
    /// # Errors
    /// The device's, or [`BufferError::OutOfRange`].
    pub fn get(&self, block: u64) -> Result<Arc<Buffer>, BufferError> {
        let buffer = self.get_unread(block);
        if !buffer.is_uptodate() {
            self.fill(&buffer)?;
        }
        Ok(buffer)
    }

    fn fill(&self, buffer: &Buffer) -> Result<(), BufferError> {
        let block = buffer.block();
        let offset = self.offset(block)?;
        let mut content = buffer.write();
        if !buffer.is_uptodate() {
            self.device.read_at(offset, content.data_mut())?;
            buffer.set_uptodate(&mut content);
        }
        Ok(())
    }

    fn offset(&self, block: u64) -> Result<u64, BufferError> {
        let size = self.block_size as u64;
        let blocks = self.device.len() / size;
        if block >= blocks {
            return Err(BufferError::OutOfRange { block, blocks });
        }
        Ok(block * size)
    }

    /// The buffer of `block` in a role: what is kept there, and the seed of its owner. It is read unless cached, and
    /// checked by `verify` unless that was done in this role; no block has two.
    ///
    /// # Errors
    /// The device's, [`BufferError::TwoRoles`], or what `verify` says; a block that fails is read and checked again
    /// the next time.
    pub fn get_verified<E: From<BufferError>>(
        &self,
        block: u64,
        (kind, seed): (u8, u32),
        verify: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Arc<Buffer>, E> {
        let buffer = self.get(block)?;
        if buffer.is_verified() && buffer.has_role(kind, seed) {
            return Ok(buffer);
        }
        let mut content = buffer.write();
        if !buffer.is_verified() {
            if let Err(why) = verify(content.data()) {
                if buffer.tid() == 0 && buffer.kind() == 0 {
                    buffer.clear_uptodate(&mut content);
                }
                return Err(why);
            }
            if buffer.kind() == 0 || buffer.has_role(kind, seed) {
                buffer.set_verified(&mut content);
            }
        }
        match buffer.take_role(&mut content, kind, seed) {
            true => drop(content),
            false => return Err(BufferError::TwoRoles { block }.into()),
        }
        Ok(buffer)
    }

    /// Runs `f` on the content of `block`.
    ///
    /// # Errors
    /// The device's.
    pub fn with<R>(
        &self,
        block: u64,
        f: impl FnOnce(&BufferRead<'_>) -> R,
    ) -> Result<R, BufferError> {
        let buffer = self.get(block)?;
        let content = buffer.read();
        Ok(f(&content))
    }

    /// Takes `block` out of the cache; other references to its buffer stay valid.
    ///
    /// Only for a block that was freed and whose transaction is durable.
    pub fn remove(&self, block: u64) {
        let mut shard = self.shard(block).lock();
        if let Ok(found) = shard.table.find_entry(hash(block), |b| b.block() == block)
            && Arc::strong_count(found.get()) == 1
        {
            found.remove();
        }
    }
}

impl Shard {
    /// Evicts the unreferenced buffers that were not used since the last sweep.
    fn sweep(&mut self) {
        self.table
            .retain(|b| Arc::strong_count(b) > 1 || b.referenced.swap(0, Ordering::Relaxed) != 0);
        let left = self.table.len();
        // A shard full of blocks in use may grow; look again when it has by an eighth.
        self.sweep_at = self.capacity.max(left + left / 8 + 16);
    }
}

#[cfg(test)]
mod tests;

//! Master keys of encrypted inodes, and the ciphers that follow from them.

use crate::encryption::ciphers::{Encrypted, InodeCipher, NoCipher};
use crate::encryption::derivation::MasterKey;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uext4_ondisk::{EncryptionContext, Ino, KeyName, NameHash, siphash};
use uext4_sync::{Mutex, class};

/// Bytes of a master key.
pub const MASTER_KEY_BYTES: RangeInclusive<usize> = 16..=64;

/// The most ciphers that are kept.
const CIPHERS_MAX: usize = 4096;

/// Which inode a cipher is of: the number, as vectors may have it, the context, and what is encrypted.
type CipherOf = (Ino, EncryptionContext, Encrypted, [u8; 16]);

#[derive(Default)]
struct Keys {
    masters: BTreeMap<KeyName, Arc<MasterKey>>,
    ciphers: HashMap<CipherOf, Arc<InodeCipher>>,
}

impl Keys {
    fn sum(&self) -> u64 {
        let names = self.masters.keys();
        names.fold(0, |sum, name| {
            let start = name.as_bytes().first_chunk().copied().unwrap_or_default();
            sum.wrapping_add(u64::from_le_bytes(start))
        })
    }
}

struct Ring {
    keys: Mutex<Keys>,
    /// The sum of the names, which are as good as random.
    names: AtomicU64,
}

/// Master keys; a clone is the same ring. Their bytes are overwritten when they are removed.
#[derive(Clone)]
pub struct KeyRing(Arc<Ring>);

impl Default for KeyRing {
    fn default() -> KeyRing {
        KeyRing(Arc::new(Ring {
            keys: Mutex::new(&class::KEY_RING, Keys::default()),
            names: AtomicU64::new(0),
        }))
    }
}

/// Two rings are equal if they have the same keys. Takes no lock, as options are compared under that of the registry.
impl PartialEq for KeyRing {
    fn eq(&self, other: &KeyRing) -> bool {
        let names = |ring: &KeyRing| ring.0.names.load(Ordering::Relaxed);
        names(self) == names(other)
    }
}

impl Eq for KeyRing {}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl KeyRing {
    /// A ring without keys.
    pub fn new() -> KeyRing {
        KeyRing::default()
    }

    /// Adds a master key: its names, for policies of version 1 and of version 2. None if its length is none of [`MASTER_KEY_BYTES`].
    pub fn add(&self, raw: &[u8]) -> Option<[KeyName; 2]> {
        if !MASTER_KEY_BYTES.contains(&raw.len()) {
            return None;
        }
        let master = Arc::new(MasterKey::new(raw));
        let names = master.names();
        let mut keys = self.0.keys.lock();
        for name in names {
            keys.masters.insert(name, Arc::clone(&master));
        }
        self.0.names.store(keys.sum(), Ordering::Relaxed);
        Some(names)
    }

    /// Removes the key with a name, and with its other name. Whether it was there.
    pub fn remove(&self, name: &KeyName) -> bool {
        let mut keys = self.0.keys.lock();
        let Some(gone) = keys.masters.remove(name) else {
            return false;
        };
        let names = gone.names();
        keys.masters.retain(|name, _| !names.contains(name));
        keys.ciphers
            .retain(|(_, context, ..), _| !names.contains(&context.policy.key));
        self.0.names.store(keys.sum(), Ordering::Relaxed);
        true
    }

    /// The names of all keys, two for each.
    pub fn names(&self) -> Vec<KeyName> {
        self.0.keys.lock().masters.keys().copied().collect()
    }

    /// Whether the key with this name is there.
    pub fn has(&self, name: &KeyName) -> bool {
        self.0.keys.lock().masters.contains_key(name)
    }

    /// The hash of a folded name in an encrypted directory that ignores case; zeros without the master key, and in a directory of version 1, which has none.
    pub(crate) fn hash_name(&self, context: &EncryptionContext, fold: &[u8]) -> NameHash {
        let KeyName::Identifier(_) = context.policy.key else {
            return NameHash::default();
        };
        let master = self.0.keys.lock().masters.get(&context.policy.key).cloned();
        master.map_or_else(NameHash::default, |master| {
            siphash(&master.dir_hash_key(context), fold)
        })
    }

    /// The cipher of an inode of the file system `uuid`; none without its master key.
    pub(crate) fn cipher(
        &self,
        ino: Ino,
        context: &EncryptionContext,
        what: Encrypted,
        uuid: &[u8; 16],
    ) -> Result<Option<Arc<InodeCipher>>, NoCipher> {
        let of = (ino, *context, what, *uuid);
        let mut keys = self.0.keys.lock();
        if let Some(cipher) = keys.ciphers.get(&of) {
            return Ok(Some(Arc::clone(cipher)));
        }
        let Some(master) = keys.masters.get(&context.policy.key) else {
            return Ok(None);
        };
        let cipher = Arc::new(InodeCipher::new(master, context, ino, what, uuid)?);
        if keys.ciphers.len() >= CIPHERS_MAX {
            keys.ciphers.clear();
        }
        keys.ciphers.insert(of, Arc::clone(&cipher));
        Ok(Some(cipher))
    }
}

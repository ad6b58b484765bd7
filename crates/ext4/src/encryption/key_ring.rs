//! Master keys of encrypted inodes, and the ciphers that follow from them.

use crate::encryption::ciphers::{Encrypted, InodeCipher, NoCipher};
use crate::encryption::derivation::MasterKey;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uext4_ondisk::{EncryptionContext, Ino, KeyDescriptor, KeyName, NameHash, siphash};
use uext4_sync::{Mutex, class};

/// Bytes of a master key.
pub const MASTER_KEY_BYTES: RangeInclusive<usize> = 16..=64;

/// The most ciphers that are kept.
const CIPHERS_MAX: usize = 4096;

/// Which inode a cipher is of: the number, as vectors may have it, the context, and what is encrypted.
type CipherOf = (Ino, EncryptionContext, Encrypted, [u8; 16]);

/// A master key, and its identifier, which is the same by whatever name it is found.
struct Named {
    master: MasterKey,
    identifier: KeyName,
}

#[derive(Default)]
struct Keys {
    masters: BTreeMap<KeyName, Arc<Named>>,
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

// Keys are added and removed whole: one that panicked left the others as they were.
impl std::panic::UnwindSafe for KeyRing {}
impl std::panic::RefUnwindSafe for KeyRing {}

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
        self.add_as(raw, None)
    }

    /// The same, with the descriptor that policies of version 1 have for it; none for the one that follows from the key. A key that had the descriptor
    /// loses it.
    pub fn add_as(&self, raw: &[u8], descriptor: Option<KeyDescriptor>) -> Option<[KeyName; 2]> {
        if !MASTER_KEY_BYTES.contains(&raw.len()) {
            return None;
        }
        let master = MasterKey::new(raw);
        let identifier = master.identifier();
        let descriptor = KeyName::Descriptor(descriptor.unwrap_or_else(|| master.descriptor()));
        let names = [descriptor, identifier];
        let named = Arc::new(Named { master, identifier });
        let mut keys = self.0.keys.lock();
        for name in names {
            keys.masters.insert(name, Arc::clone(&named));
        }
        keys.ciphers
            .retain(|(_, context, ..), _| context.policy.key != descriptor);
        self.0.names.store(keys.sum(), Ordering::Relaxed);
        Some(names)
    }

    /// Removes the key with a name, and with its other names. Whether it was there.
    pub fn remove(&self, name: &KeyName) -> bool {
        let mut keys = self.0.keys.lock();
        let Some(gone) = keys.masters.get(name).map(|named| named.identifier) else {
            return false;
        };
        keys.masters.retain(|_, named| named.identifier != gone);
        let Keys { masters, ciphers } = &mut *keys;
        ciphers.retain(|(_, context, ..), _| masters.contains_key(&context.policy.key));
        self.0.names.store(keys.sum(), Ordering::Relaxed);
        true
    }

    /// The names of all keys.
    pub fn names(&self) -> Vec<KeyName> {
        self.0.keys.lock().masters.keys().copied().collect()
    }

    /// The descriptors of each key, by its identifier.
    pub fn descriptors(&self) -> BTreeMap<KeyName, Vec<KeyName>> {
        let mut found = BTreeMap::<KeyName, Vec<KeyName>>::new();
        for (name, named) in &self.0.keys.lock().masters {
            let descriptors = found.entry(named.identifier).or_default();
            if *name != named.identifier {
                descriptors.push(*name);
            }
        }
        found
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
        let named = self.0.keys.lock().masters.get(&context.policy.key).cloned();
        named.map_or_else(NameHash::default, |named| {
            siphash(&named.master.dir_hash_key(context), fold)
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
        let Some(named) = keys.masters.get(&context.policy.key) else {
            return Ok(None);
        };
        let cipher = InodeCipher::new(&named.master, context, ino, what, uuid)?;
        let cipher = Arc::new(cipher);
        if keys.ciphers.len() >= CIPHERS_MAX {
            keys.ciphers.clear();
        }
        keys.ciphers.insert(of, Arc::clone(&cipher));
        Ok(Some(cipher))
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    const OTHER: KeyDescriptor = [9; 8];

    #[test]
    fn a_key_is_found_by_each_of_its_descriptors_until_it_is_removed_by_one() {
        let keys = KeyRing::new();
        let [derived, identifier] = keys.add(&[3; 32]).expect("a key");
        let other = KeyName::Descriptor(OTHER);
        assert_eq!(
            keys.add_as(&[3; 32], Some(OTHER)),
            Some([other, identifier])
        );
        let mut both = vec![derived, other];
        both.sort_unstable();
        assert_eq!(keys.descriptors(), [(identifier, both)].into());
        assert!(keys.remove(&other));
        assert_eq!(keys.names(), []);
        assert!(!keys.remove(&derived));
        assert_eq!(keys, KeyRing::new());
    }

    #[test]
    fn a_descriptor_is_of_the_key_that_was_added_last() {
        let keys = KeyRing::new();
        let [_, first] = keys.add_as(&[3; 32], Some(OTHER)).expect("a key");
        let [other, second] = keys.add_as(&[4; 32], Some(OTHER)).expect("a key");
        let listed = [(first, vec![]), (second, vec![other])];
        assert_eq!(keys.descriptors(), listed.into());
        assert!(keys.remove(&first));
        assert!(keys.has(&other));
        assert_eq!(keys.add_as(&[4; 15], Some(OTHER)), None);
    }
}

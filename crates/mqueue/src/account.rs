//! What the queues of each user take, over all namespaces that share the accounts.
//!
//! # Data model
//! The totals have, for each user, how many bytes are reserved: those of all charges, and those that CPUs have in advance.
//! While a user is far from the limit, a CPU reserves several charges at once, and charges and drops what it has in
//! advance without writing a line that another CPU writes. What does not fit beside what is reserved is refused only after
//! all that CPUs have in advance was taken back. Users whose numbers differ share no lock, but for a few.
//! A user near the limit, such as one with a default queue under the default limit, which nine of them fill, is charged in the totals each time.
//!
//! # Invariants
//! - A user's bytes are what is reserved less what all CPUs have in advance. A user without either has no entry.
//! - What CPUs have in advance was reserved under one limit, that of the totals' entry, and at most that much is
//!   reserved. So a charge under this limit that a CPU has the bytes for fits; one under another limit takes
//!   everything back first.
//! - While the totals are locked, a CPU without an entry for a user can neither charge nor drop. So when the entries of
//!   all CPUs have been removed, what is reserved is what is charged, and a refusal is exact.
//!
//! # Locking
//! The totals have locks of class `mqueue_accounts`, of which one is held at a time; under it, one CPU's entries at a time are locked (class
//! `mqueue`).

use std::collections::HashMap;
use std::sync::Arc;
use uext4_sync::{CachePadded, Mutex, PerCpu, class, percpu};
use uext4_vfs::{Errno, Result};

/// How many charges of the same size a CPU reserves in advance.
const CHARGES_IN_ADVANCE: u64 = 8;
/// Of how many users a CPU has bytes in advance; before it gets some of another, all are released.
const USERS_IN_ADVANCE_MAX: usize = 16;

/// Bytes by user.
#[derive(Debug)]
pub struct Accounts {
    /// A user's are in a table by the hash of its number.
    totals: Box<[CachePadded<Mutex<Totals>>]>,
    advances: PerCpu<Mutex<Vec<Advance>>>,
}

/// By user.
type Totals = HashMap<u32, Total>;

/// Odd, so that numbers at regular distances, as the users of containers have, are in different tables.
const HASH: u32 = 0x9E37_79B1;
/// Tables of totals for each CPU.
const TABLES_OF_CPU: usize = 4;

/// What is reserved for a user.
#[derive(Debug)]
struct Total {
    reserved: u64,
    /// The limit that CPUs have bytes in advance under.
    max: u64,
}

/// What a CPU has in advance for a user.
#[derive(Debug)]
struct Advance {
    uid: u32,
    bytes: u64,
    /// The limit that they were reserved under.
    max: u64,
    /// A drop that would exceed this is released in the totals.
    bytes_max: u64,
}

/// One of several references to the same accounts, so that few threads count references on the same cache line: padding
/// keeps the count of each on a line of its own.
#[derive(Debug)]
pub(crate) struct SharedAccounts(CachePadded<Arc<Accounts>>);

impl SharedAccounts {
    pub fn new(accounts: Arc<Accounts>) -> Arc<SharedAccounts> {
        Arc::new(SharedAccounts(CachePadded::new(accounts)))
    }

    pub fn accounts(&self) -> &Arc<Accounts> {
        &self.0
    }
}

impl Default for Accounts {
    fn default() -> Accounts {
        let table = |_| CachePadded::new(Mutex::new(&class::MQUEUE_ACCOUNTS, Totals::new()));
        Accounts {
            totals: (0..TABLES_OF_CPU * percpu::cpu_shards())
                .map(table)
                .collect(),
            advances: PerCpu::new(|_| Mutex::new(&class::MQUEUE, Vec::new())),
        }
    }
}

impl Accounts {
    /// Accounts without charges.
    pub fn new() -> Arc<Accounts> {
        Arc::default()
    }

    /// The table that has the user's totals.
    fn totals_of(&self, uid: u32) -> &Mutex<Totals> {
        let hash = u64::from(uid.wrapping_mul(HASH));
        &self.totals[((hash * self.totals.len() as u64) >> u32::BITS) as usize]
    }

    /// Whether all CPUs together might take more than half of `room` if each got charges of so many bytes in advance.
    fn is_too_much(&self, bytes: u64, room: u64) -> bool {
        let cpus = self.advances.iter().count() as u64;
        bytes.saturating_mul(2 * CHARGES_IN_ADVANCE * cpus) > room
    }

    /// What `uid` is charged.
    pub fn bytes_of(&self, uid: u32) -> u64 {
        let mut totals = self.totals_of(uid).lock();
        self.take_back(&mut totals, uid);
        totals.get(&uid).map_or(0, |total| total.reserved)
    }

    /// Charges what this CPU has in advance; whether it had enough.
    fn charge_in_advance(&self, uid: u32, bytes: u64, max: u64) -> bool {
        let mut advances = self.advances.get().lock();
        let found = advances.iter_mut().find(|advance| advance.uid == uid);
        let Some(advance) = found.filter(|advance| advance.max == max && advance.bytes >= bytes)
        else {
            return false;
        };
        advance.bytes -= bytes;
        true
    }

    /// Reserves the bytes of a charge, and more in advance if there is room for that.
    fn reserve(&self, uid: u32, bytes: u64, max: u64) -> Result<()> {
        self.make_room(uid, bytes, max);
        let mut totals = self.totals_of(uid).lock();
        let fits = |total: &Total| total.max == max && total.reserved.saturating_add(bytes) <= max;
        if !totals.get(&uid).is_some_and(fits) {
            self.take_back(&mut totals, uid);
        }
        let reserved = totals.get(&uid).map_or(0, |total| total.reserved);
        let reserved = reserved.saturating_add(bytes);
        if reserved > max {
            return Err(Errno::EMFILE.into());
        }
        let more = self.advance(uid, bytes, (reserved, max));
        let reserved = reserved + more;
        totals.insert(uid, Total { reserved, max });
        Ok(())
    }

    /// Releases what this CPU has in advance if that is of as many users as it may be, and another is to have some.
    fn make_room(&self, uid: u32, bytes: u64, max: u64) {
        if self.is_too_much(bytes, max) {
            return;
        }
        let advances = self.advances.get();
        let users: Vec<u32> = advances.lock().iter().map(|advance| advance.uid).collect();
        if users.len() < USERS_IN_ADVANCE_MAX || users.contains(&uid) {
            return;
        }
        for uid in users {
            take_back_from(advances, &mut self.totals_of(uid).lock(), uid);
        }
    }

    /// Gives this CPU bytes in advance, and how many: none if all CPUs together might take more than half of what is left, or if it has some of
    /// too many users.
    fn advance(&self, uid: u32, bytes: u64, (reserved, max): (u64, u64)) -> u64 {
        if self.is_too_much(bytes, max - reserved) {
            return 0;
        }
        let more = bytes * CHARGES_IN_ADVANCE;
        let mut advances = self.advances.get().lock();
        if let Some(advance) = advances.iter_mut().find(|advance| advance.uid == uid) {
            advance.bytes += more;
            advance.bytes_max = advance.bytes_max.max(2 * more);
            return more;
        }
        if advances.len() >= USERS_IN_ADVANCE_MAX {
            return 0;
        }
        advances.push(Advance {
            uid,
            bytes: more,
            max,
            bytes_max: 2 * more,
        });
        more
    }

    /// Takes back what CPUs have in advance for a user.
    fn take_back(&self, totals: &mut Totals, uid: u32) {
        for cpu in self.advances.iter() {
            take_back_from(cpu, totals, uid);
        }
    }

    /// Ends a charge.
    fn drop_charge(&self, uid: u32, bytes: u64) {
        let mut advances = self.advances.get().lock();
        if let Some(advance) = advances.iter_mut().find(|advance| advance.uid == uid)
            && advance.bytes + bytes <= advance.bytes_max
        {
            advance.bytes += bytes;
            return;
        }
        drop(advances);
        release(&mut self.totals_of(uid).lock(), uid, bytes);
    }
}

/// Takes back what a CPU has in advance for a user.
fn take_back_from(cpu: &Mutex<Vec<Advance>>, totals: &mut Totals, uid: u32) {
    let mut advances = cpu.lock();
    if let Some(at) = advances.iter().position(|advance| advance.uid == uid) {
        release(totals, uid, advances.swap_remove(at).bytes);
    }
}

/// Releases bytes that are reserved for a user.
fn release(totals: &mut Totals, uid: u32, bytes: u64) {
    // Of a user whose entry is gone, CPUs can have entries without bytes.
    let total = totals.get_mut(&uid);
    debug_assert!(
        total.is_some() || bytes == 0,
        "bytes of user {uid} that are not reserved"
    );
    if let Some(total) = total {
        total.reserved = total.reserved.saturating_sub(bytes);
        if total.reserved == 0 {
            totals.remove(&uid);
        }
    }
}

impl SharedAccounts {
    /// Charges `uid` until the charge is dropped.
    ///
    /// # Errors
    /// `EMFILE`: that is more than `max`, with what there is.
    pub(crate) fn charge(
        self: &Arc<SharedAccounts>,
        uid: u32,
        bytes: u64,
        max: u64,
    ) -> Result<Charge> {
        if !self.0.charge_in_advance(uid, bytes, max) {
            self.0.reserve(uid, bytes, max)?;
        }
        Ok(Charge {
            accounts: Arc::clone(self),
            uid,
            bytes,
        })
    }
}

/// What one queue takes.
#[derive(Debug)]
pub(crate) struct Charge {
    accounts: Arc<SharedAccounts>,
    uid: u32,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.accounts.0.drop_charge(self.uid, self.bytes);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn accounts() -> Arc<SharedAccounts> {
        SharedAccounts::new(Accounts::new())
    }

    fn known_users(accounts: &SharedAccounts) -> usize {
        accounts
            .0
            .totals
            .iter()
            .map(|table| table.lock().len())
            .sum()
    }

    #[test]
    fn users_of_different_numbers_share_no_lock() {
        let accounts = accounts();
        let table = |uid| std::ptr::from_ref(accounts.0.totals_of(uid));
        assert_eq!(table(1000), table(1000));
        assert_ne!(table(1000), table(1001));
        assert_ne!(table(100_000), table(165_536), "roots of two containers");
        let _held = accounts.0.totals_of(1000).lock();
        std::thread::scope(|scope| {
            let charged = scope.spawn(|| accounts.charge(1001, 10, 10).is_ok());
            assert!(charged.join().expect("ends"));
        });
    }

    #[test]
    fn a_user_is_charged_up_to_the_limit_and_no_further() {
        for max in [10, 1000, 100_000] {
            let accounts = accounts();
            let charges: Vec<Charge> =
                std::iter::from_fn(|| accounts.charge(1, 10, max).ok()).collect();
            assert_eq!(charges.len() as u64, max / 10);
            assert_eq!(accounts.0.bytes_of(1), max);
            assert!(accounts.charge(2, 10, max).is_ok(), "another user");
            drop(charges);
            assert!(accounts.charge(1, max, max).is_ok());
            assert_eq!(accounts.0.bytes_of(1), 0);
            assert!(accounts.0.totals_of(1).lock().get(&1).is_none());
        }
    }

    #[test]
    fn bytes_in_advance_under_one_limit_are_none_under_another() {
        let accounts = accounts();
        let _first = accounts.charge(1, 10, 1 << 20).expect("fits");
        let _second = accounts.charge(1, 10, 1 << 20).expect("fits");
        assert!(accounts.charge(1, 10, 29).is_err());
        let _third = accounts.charge(1, 10, 30).expect("fits exactly");
        assert!(accounts.charge(1, 1 << 20, 1 << 20).is_err());
        assert_eq!(accounts.0.bytes_of(1), 30);
    }

    #[test]
    fn a_charge_without_an_advance_releases_none() {
        let accounts = accounts();
        let of_all = |accounts: &SharedAccounts| -> usize {
            accounts.0.advances.iter().map(|cpu| cpu.lock().len()).sum()
        };
        for uid in 0..USERS_IN_ADVANCE_MAX as u32 {
            drop(accounts.charge(uid, 10, 1 << 20).expect("fits"));
        }
        let before = of_all(&accounts);
        assert!(before > 0);
        drop(accounts.charge(99, 10, 10).expect("fits"));
        let charge = |_| accounts.charge(0, 10, 1 << 20).expect("fits");
        let _charges: Vec<Charge> = (0..2 * CHARGES_IN_ADVANCE).map(charge).collect();
        assert!(of_all(&accounts) >= before);
    }

    #[test]
    fn a_cpu_has_bytes_in_advance_of_few_users() {
        let accounts = accounts();
        let users = 4 * USERS_IN_ADVANCE_MAX as u32;
        for uid in 0..users {
            drop(accounts.charge(uid, 10, 1 << 20).expect("fits"));
        }
        let (most, known) = (
            USERS_IN_ADVANCE_MAX * accounts.0.advances.iter().count(),
            known_users(&accounts),
        );
        assert!(known <= most, "{known} users of {most}");
        assert!((0..users).all(|uid| accounts.0.bytes_of(uid) == 0));
        assert_eq!(known_users(&accounts), 0);
    }
}

//! Atomics that count how their lines move (`crate::transfers`). As large as those of `std`, so that they lie on the lines that
//! they lie on in a release.

use crate::transfers;
use std::sync::atomic as real;
pub use std::sync::atomic::{Ordering, fence};

macro_rules! counted {
    ($name:ident, $type:ty) => {
        /// As that of `std`.
        #[derive(Debug, Default)]
        pub struct $name {
            value: real::$name,
        }

        #[allow(missing_docs, reason = "as those of std")]
        impl $name {
            pub const fn new(value: $type) -> $name {
                $name {
                    value: real::$name::new(value),
                }
            }
            fn address(&self) -> usize {
                std::ptr::from_ref(self).addr()
            }
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $type {
                transfers::atomic(self.address(), false);
                self.value.load(order)
            }
            #[track_caller]
            pub fn store(&self, value: $type, order: Ordering) {
                transfers::atomic(self.address(), true);
                self.value.store(value, order);
            }
            #[track_caller]
            pub fn compare_exchange(
                &self,
                old: $type,
                new: $type,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$type, $type> {
                transfers::atomic(self.address(), true);
                self.value.compare_exchange(old, new, success, failure)
            }
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                old: $type,
                new: $type,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$type, $type> {
                self.compare_exchange(old, new, success, failure)
            }
            /// A load, and a compare-exchange until one succeeds: others may come between.
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($type) -> Option<$type>,
            ) -> Result<$type, $type> {
                let mut old = self.load(failure);
                while let Some(new) = change(old) {
                    match self.compare_exchange(old, new, success, failure) {
                        Ok(old) => return Ok(old),
                        Err(now) => old = now,
                    }
                }
                Err(old)
            }
            pub fn get_mut(&mut self) -> &mut $type {
                self.value.get_mut()
            }
            pub fn into_inner(self) -> $type {
                self.value.into_inner()
            }
        }
    };
}

/// The changes that give what was there.
macro_rules! changes {
    ($name:ident, $type:ty: $($change:ident)+) => {
        #[allow(missing_docs, reason = "as those of std")]
        impl $name {
            $(#[track_caller]
            pub fn $change(&self, value: $type, order: Ordering) -> $type {
                transfers::atomic(self.address(), true);
                self.value.$change(value, order)
            })+
        }
    };
}

macro_rules! counted_number {
    ($name:ident, $type:ty) => {
        counted!($name, $type);
        changes!($name, $type: swap fetch_and fetch_or fetch_add fetch_sub fetch_max fetch_min);
    };
}

counted!(AtomicBool, bool);
changes!(AtomicBool, bool: swap fetch_and fetch_or);
counted_number!(AtomicU8, u8);
counted_number!(AtomicU16, u16);
counted_number!(AtomicU32, u32);
counted_number!(AtomicU64, u64);
counted_number!(AtomicUsize, usize);
counted_number!(AtomicI32, i32);
counted_number!(AtomicI64, i64);
counted_number!(AtomicIsize, isize);

//! A memory barrier of two sides: what is done often costs the side that does it nothing, and the other side executes both.
//!
//! Where the kernel has no membarrier(2), or forbids it, each side executes its own.

#[cfg(all(target_os = "linux", not(any(shuttle, loom, miri))))]
mod imp {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::OnceLock;
    use std::sync::atomic::{
        AtomicBool, Ordering::Relaxed, Ordering::SeqCst, compiler_fence, fence,
    };
    use std::time::Duration;

    /// Whether the kernel executes the barriers of other threads. Set before the first gate is there.
    static BY_KERNEL: AtomicBool = AtomicBool::new(false);

    /// By then no processor keeps a store to itself.
    const STORES_ARE_SEEN: Duration = Duration::from_millis(10);

    pub fn prepare() {
        static PREPARED: OnceLock<()> = OnceLock::new();
        PREPARED.get_or_init(|| {
            let can = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
                && membarrier(MembarrierCommand::PrivateExpedited).is_ok();
            BY_KERNEL.store(can, Relaxed);
        });
    }

    #[inline(always)]
    pub fn of_caller() {
        match BY_KERNEL.load(Relaxed) {
            true => compiler_fence(SeqCst),
            false => fence(SeqCst),
        }
    }

    pub fn of_all_threads() {
        fence(SeqCst);
        if BY_KERNEL.load(Relaxed) && membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            // What filters system calls was installed since.
            std::thread::sleep(STORES_ARE_SEEN);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(shuttle, loom, miri)))))]
mod imp {
    #[cfg(loom)]
    use loom::sync::atomic::fence;
    use std::sync::atomic::Ordering::SeqCst;
    #[cfg(not(loom))]
    use std::sync::atomic::fence;

    pub fn prepare() {}

    #[inline(always)]
    pub fn of_caller() {
        fence(SeqCst);
    }

    pub fn of_all_threads() {
        fence(SeqCst);
    }
}

/// Prepares the process; before the first call of the others.
pub(super) use imp::prepare;

/// The side of what is done often.
pub(super) use imp::of_caller;

/// The other side: after it, each thread has executed a barrier since it was called.
pub(super) use imp::of_all_threads;

//! Running a test on a mount of ours and on Linux's.

use crate::calls::Mount;
use crate::directory::Directory;
use crate::kernel::Kernel;
use std::fmt::Debug;
use uext4_testkit::exclusive::Exclusive;
use uext4_testkit::require;

/// A fresh namespace on each side.
pub struct Sides<Ours> {
    pub ours: Ours,
    pub kernel: Directory<Kernel>,
}

impl<Ours: Mount> Sides<Ours> {
    /// Does the same on both, and gives the answer, which must be the same.
    #[track_caller]
    pub fn same<T: Debug + PartialEq>(&self, what: &str, call: impl Fn(&dyn Mount) -> T) -> T {
        let kernel = call(&self.kernel);
        let ours = call(&self.ours);
        assert_eq!(
            ours, kernel,
            "{what}: uext4 on the left, Linux on the right"
        );
        ours
    }

    /// Does the same on both, where a difference is documented: first ours, then Linux's.
    pub fn differ<T: Debug + PartialEq>(&self, call: impl Fn(&dyn Mount) -> T) -> (T, T) {
        let kernel = call(&self.kernel);
        (call(&self.ours), kernel)
    }
}

static USER_BYTES: Exclusive<&str> = Exclusive::new("users' bytes, counted over all namespaces");

/// Runs a test in a thread with its own namespaces, if the machine allows it. Our side is made there, after the kernel's.
pub fn run<Ours: Mount + 'static>(
    ours: impl FnOnce() -> Ours + Send + 'static,
    test: fn(&Sides<Ours>),
) {
    let _bytes = USER_BYTES.take();
    let ran = std::thread::spawn(move || {
        let kernel = require!(some Kernel::mount());
        let ours = ours();
        test(&Sides { ours, kernel });
    });
    if let Err(panic) = ran.join() {
        std::panic::resume_unwind(panic);
    }
}

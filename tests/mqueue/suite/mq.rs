//! Running a test on the library and on the kernel.

use crate::kernel::Kernel;
use crate::library::Library;

pub use crate::calls::*;

/// Runs a test on the library, then on the kernel.
pub fn both(test: fn(&dyn Mq)) {
    test(&Library::default());
    Kernel::run(test);
}

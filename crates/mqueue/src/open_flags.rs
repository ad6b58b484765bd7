//! The flags of mq_open(3).

use bitflags::bitflags;

bitflags! {
    /// How a queue is opened.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MqOpen: u8 {
        /// To receive (`O_RDONLY`, `O_RDWR`).
        const READ = 1;
        /// To send (`O_WRONLY`, `O_RDWR`).
        const WRITE = 2;
        /// Never wait (`O_NONBLOCK`).
        const NONBLOCK = 4;
        /// Create the queue if it does not exist (`O_CREAT`).
        const CREATE = 8;
        /// Fail if there is one; with `CREATE` (`O_EXCL`).
        const EXCLUSIVE = 16;
    }
}

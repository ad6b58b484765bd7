//! Devices that only tests need, and the contract of every device as a suite of tests.
//!
//! | module | holds |
//! | --- | --- |
//! | [`contract`] | what every device does |
//! | [`fault`] | [`FaultDevice`]: fails chosen calls |
//! | [`volatile`] | [`VolatileDevice`]: has a cache, and loses what a failed flush covers |
//! | [`power_cut`] | [`PowerCut`]: ends the process at a chosen request |
//! | [`record`] | [`RecordDevice`]: logs every change |
//! | [`replay`] | [`Replayer`]: the image after a crash at a chosen point of such a log |
//! | [`fork`] | [`ForkDevice`]: the changes to an [`Image`]; forks and hashes of the content |

pub mod contract;
pub mod fault;
pub mod fork;
pub mod power_cut;
pub mod record;
pub mod replay;
pub mod volatile;

pub use fault::{FaultCall, FaultDevice, FaultErrno, FaultPlan, FaultRule};
pub use fork::{ForkDevice, Image};
pub use power_cut::{Moment, PowerCut, lose_power};
pub use record::{Mark, RecordDevice, RecordLog, RecordOp};
pub use replay::{CrashPoint, Cut, Replayer};
pub use volatile::{AfterLoss, LostData, VolatileDevice};

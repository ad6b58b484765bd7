//! mq_open(3) and the other calls of `<mqueue.h>` on the queues of a mount, as a library for programs that know
//! nothing of it: preloaded (`LD_PRELOAD`), or linked in front of the C library's (`include/uext4_mq.h`).
//!
//! # Data model
//! `UEXT4_MQ_DIR` in the environment names the directory; a queue descriptor is a descriptor of the queue's file. There is
//! no state in the process, so fork(2) needs no care; what there is to know of a queue is in [`uext4_mqueue::client`].
//!
//! # Invariants
//! Nothing is logged, and no thread is started but the one that delivers a notification by `SIGEV_THREAD`.
//!
//! | module | holds |
//! | --- | --- |
//! | [`abi`] | the calls |
//! | `delivery` | the thread that calls the function of a notification |

pub mod abi;
mod delivery;

//! Block devices keep their contract, and fail for good once writes are lost.

mod contract;
mod nbd_tls;
mod objects;
mod permanent_failure;
mod qcow2;
#[cfg(feature = "rbd")]
mod rbd_rates;
mod refresh;
mod remote_crashes;
mod remote_models;
#[cfg(feature = "rbd")]
mod remote_rbd;
#[cfg(feature = "rbd")]
mod remote_rbd_claim;
#[cfg(feature = "rbd")]
mod remote_rbd_takeover;
#[cfg(feature = "s3")]
mod remote_s3;
mod store_latency;
mod two_hosts;

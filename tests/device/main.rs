//! Block devices keep their contract, and fail for good once writes are lost.

mod contract;
mod permanent_failure;
mod qcow2;

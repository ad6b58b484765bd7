//! What a crash leaves: what was durable before it is there after recovery, and nothing else has changed.

mod durability;
mod edit;
mod explorer;
mod fs_verity;
mod grow;
mod orphan_recovery;
mod random_workloads;
mod takeover;

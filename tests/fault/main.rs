//! Device calls that fail: the operation fails or succeeds as a whole, and what was durable stays.

mod every_device_call;
mod every_read;
mod full_host;
mod lazytime_writes;
mod quota;

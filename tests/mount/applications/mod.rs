//! Programs that people use, on a mount: what they say must be as on any file system, and e2fsck finds nothing
//! after them. Each is skipped, visibly, where it is not installed.
//!
//! | file | holds |
//! | --- | --- |
//! | `archives` | trees copied by tar, cp and rsync |
//! | `building` | Cargo, with its target directory in the mount |
//! | `coherence` | direct writes, several at a time, beside reads through the kernel's cache |
//! | `databases` | SQLite in each journal mode: locks, and what a killed server leaves |
//! | `devices` | fio, which verifies what it wrote |
//! | `repositories` | git |
//! | `transports` | running them on a mount of each transport |

mod archives;
mod building;
mod coherence;
mod databases;
mod devices;
mod repositories;
mod transports;

//! How mounts begin and end that are not the superuser's, or not of one image alone, and what is said of it where
//! nobody looks.
//!
//! | file | holds |
//! | --- | --- |
//! | `users` | mounts of a user, through fusermount3 |
//! | `handles` | handles of files, across mounts |
//! | `journals` | images whose journal is on another device |
//! | `logs` | what goes wrong in the background |

mod handles;
mod journals;
mod logs;
mod users;

//! How mounts begin and end: of users, with several images, in the background.
//!
//! | file | holds |
//! | --- | --- |
//! | `users` | mounts of a user, through fusermount3 |
//! | `handles` | handles of files, across mounts |
//! | `journals` | images whose journal is on another device |
//! | `logs` | messages of a mount in the background |

mod handles;
mod journals;
mod logs;
mod users;

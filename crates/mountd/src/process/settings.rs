//! The server's part in a remount, a freeze, a thaw and the kernel's writing back: what the image and the requests' handling have of them.
//!
//! # Locking
//! One of them at a time (`remount`), over those of requests and of the file system.

use crate::encryption_keys::{KeyNames, key_name};
use crate::options::Options;
use crate::question::{ADD_KEY, Answer, FREEZE, REMOVE_KEY, Refusal, THAW, WRITE_BACK};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use uext4::unstable::ondisk::ErrorsBehaviour;
use uext4::unstable::{Ext4, MountOptions, key_from_hex, split_key_descriptor};
use uext4::{AtimeUpdate, DataMode, Errno};
use uext4_fuse::settings::{Requests, Settings, Synchronous};
use uext4_sync::{Mutex, class};

/// How long a reason may be, so that an answer has room for it however it is written.
const MESSAGE_CHARS_MAX: usize = 500;

/// What of a mounted image can change.
#[derive(Debug)]
pub struct ImageSettings {
    fs: Arc<Ext4>,
    /// How it was mounted.
    mounted: MountOptions,
    synchronous: Arc<Synchronous>,
    /// The mounting user.
    owner: u32,
    options: Mutex<Options>,
}

impl ImageSettings {
    /// Those of an image that `owner` has mounted with `options`.
    pub fn new(
        fs: Arc<Ext4>,
        options: &Options,
        synchronous: Arc<Synchronous>,
        owner: u32,
    ) -> ImageSettings {
        let mut now = options.clone();
        // What was left to the image and to the user's rights, as mount(8) says it when it remounts.
        now.allow_other = Some(options.allows_others(owner == 0));
        now.open.mount.data = Some(fs.volume.data());
        now.open.mount.read_only = fs.volume.is_read_only();
        ImageSettings {
            mounted: options.open.mount.clone(),
            fs,
            synchronous,
            owner,
            options: Mutex::new(&class::REMOUNT, now),
        }
    }

    fn try_change(&self, uid: u32, question: &[u8], requests: &dyn Requests) -> Answer {
        if uid != 0 && uid != self.owner {
            return Err(refused("it is another user's mount"));
        }
        let list = std::str::from_utf8(question).map_err(refused)?;
        if let Some(ticket) = list.strip_prefix(WRITE_BACK) {
            // A frozen image takes no writes.
            return match self.fs.is_frozen() {
                true => Err(refused("it is frozen; `uext4 thaw` ends that")),
                false => write_back(ticket, requests),
            };
        }
        if let Some(digits) = list.strip_prefix(ADD_KEY) {
            return self.add_key(digits, requests);
        }
        if let Some(name) = list.strip_prefix(REMOVE_KEY) {
            return self.remove_key(name, requests);
        }
        let mut options = self.options.lock();
        match list {
            FREEZE => return self.freeze(requests),
            THAW => return self.thaw(requests),
            _ if self.fs.is_frozen() => {
                return Err(refused(
                    "it is frozen, and keeps its options until `uext4 thaw` ends that",
                ));
            }
            _ => {}
        }
        // As the file system is: damage makes it read-only as well.
        options.open.mount.read_only = self.fs.volume.is_read_only();
        let wanted = options.changed(&[list]).map_err(refused)?;
        let mount = MountOptions {
            data: self.mounted.data,
            ..wanted.open.mount.clone()
        };
        self.fs
            .volume
            .report(self.fs.remount(&mount))
            .map_err(|e| refused_by_image(&e, &options))?;
        self.synchronous.set(wanted.sync, wanted.dirsync);
        *options = wanted;
        Ok(())
    }
}

impl ImageSettings {
    fn freeze(&self, requests: &dyn Requests) -> Answer {
        if self.fs.is_frozen() {
            return Err(refused("it is frozen already; `uext4 thaw` ends that"));
        }
        requests.pause().map_err(|_| {
            refused(
                "its requests come over io_uring, where changes that wait leave no room for others; mount it with -o transport=dev",
            )
        })?;
        let frozen = self.fs.volume.report(self.fs.freeze());
        frozen.map_err(|e| {
            requests.resume();
            refused(e)
        })
    }

    fn add_key(&self, digits: &str, requests: &dyn Requests) -> Answer {
        let (descriptor, digits) = split_key_descriptor(digits.as_bytes());
        let key = std::str::from_utf8(digits).ok().and_then(key_from_hex);
        let key = key.ok_or_else(|| refused("the key is not in hexadecimal digits"))?;
        let added = self.fs.volume.keys().add_as(&key, descriptor);
        added.ok_or_else(|| refused("a key has 16 to 64 bytes"))?;
        requests.begin_drop_cached();
        Ok(())
    }

    fn remove_key(&self, name: &str, requests: &dyn Requests) -> Answer {
        let key = key_name(name).ok_or_else(|| {
            refused("a key is named by the 16 digits of its descriptor or the 32 of its identifier")
        })?;
        if !self.fs.volume.keys().remove(&key) {
            return Err(refused(format_args!("it has no key {name}")));
        }
        requests.begin_drop_cached();
        Ok(())
    }

    fn thaw(&self, requests: &dyn Requests) -> Answer {
        if !self.fs.is_frozen() {
            return Err(refused("it is not frozen"));
        }
        let thawed = self.fs.volume.report(self.fs.thaw());
        requests.resume();
        thawed.map_err(|e| refused(format_args!("it is read-only from now on: {e}")))
    }
}

/// Makes the kernel send what it keeps, or waits for that for a moment.
fn write_back(ticket: &str, requests: &dyn Requests) -> Answer {
    let ticket = match ticket {
        "" => requests.begin_write_back(),
        ticket => ticket.parse().map_err(refused)?,
    };
    match requests.is_written_back(ticket) {
        true => Ok(()),
        false => Err(Refusal {
            is_busy: true,
            ..refused(format_args!("{ticket} {}", requests.writes()))
        }),
    }
}

fn refused(why: impl fmt::Display) -> Refusal {
    Refusal {
        is_busy: false,
        message: why.to_string().chars().take(MESSAGE_CHARS_MAX).collect(),
    }
}

fn refused_by_image(e: &uext4::Error, now: &Options) -> Refusal {
    match e.errno() {
        Errno::EROFS if now.open.mount.read_only => refused(
            "it was mounted read-only, or has become so for damage or a device's error; unmount it, and mount it again",
        ),
        Errno::EBUSY => Refusal {
            is_busy: true,
            ..refused("has lost its name")
        },
        _ => refused(e),
    }
}

impl Settings for ImageSettings {
    fn change(&self, uid: u32, question: &[u8], requests: &dyn Requests) -> Vec<u8> {
        serde_json::to_vec(&self.try_change(uid, question, requests))
            .expect("strings and flags become JSON")
    }

    fn describe(&self) -> Value {
        let options = self.options.lock();
        let mount = &options.open.mount;
        json!({
            "read_only": self.fs.volume.is_read_only(),
            "frozen": self.fs.is_frozen(),
            "atime": match mount.atime {
                AtimeUpdate::Relative => "relatime",
                AtimeUpdate::Strict => "strictatime",
                AtimeUpdate::Never => "noatime",
            },
            "nodiratime": mount.nodiratime,
            "lazytime": mount.lazytime,
            "data": match self.fs.volume.data() {
                DataMode::Ordered => "ordered",
                DataMode::Writeback => "writeback",
                DataMode::Journal => "journal",
            },
            "commit_s": mount.commit_interval.as_secs(),
            "barrier": mount.barrier,
            "discard": mount.discard,
            "errors": match self.fs.errors_behaviour() {
                ErrorsBehaviour::Continue => "continue",
                ErrorsBehaviour::RemountRo => "remount-ro",
                ErrorsBehaviour::Panic => "panic",
            },
            "encryption_keys": KeyNames::of(self.fs.volume.keys()),
            "sync": options.sync,
            "dirsync": options.dirsync,
        })
    }
}

//! Ioctls, the state of the file system, and the statistics of the mount.

use super::{Answer, Server};
use crate::abi::{Opcode, input, output};
use crate::filesystem::{FuseFileSystem, IoctlCall};
use crate::handler::{put, put_bytes};
use crate::request::Request;
use crate::settings::{Requests, SETTINGS_BYTES, SETTINGS_IOCTL};
use serde_json::{Value, json};
use std::time::Duration;
use uext4_sync::stat;
use uext4_vfs::{Capabilities, Errno, FileSystem};

/// How long one question waits for data that the kernel sends.
const WRITE_BACK_WAIT: Duration = Duration::from_millis(10);
/// How often an ioctl waits for closes that the kernel has not reported yet, and how long.
const CLOSE_WAITS: u32 = 40;
const CLOSE_WAIT: Duration = Duration::from_millis(5);

impl<F: FuseFileSystem> Requests for Server<F> {
    fn begin_write_back(&self) -> u64 {
        self.invalidator.drop_data(self.nodes.writable())
    }

    fn begin_drop_cached(&self) -> u64 {
        self.invalidator.drop_data(self.nodes.all())
    }

    fn is_written_back(&self, ticket: u64) -> bool {
        self.invalidator.wait(ticket, WRITE_BACK_WAIT)
    }

    fn writes(&self) -> u64 {
        self.statistics.answered(Opcode::Write)
    }

    fn pause(&self) -> Result<(), Errno> {
        self.changes.pause()
    }

    fn resume(&self) {
        self.changes.resume();
    }
}

impl<F: FuseFileSystem> Server<F> {
    pub(super) fn statfs(&self, out: &mut [u8]) -> Answer {
        let found = self.fs().statfs()?;
        let reply = output::Statfs {
            blocks: found.blocks,
            bfree: found.blocks_free,
            bavail: found.blocks_available,
            files: found.inodes,
            ffree: found.inodes_free,
            bsize: found.block_size,
            namelen: found.name_bytes_max,
            frsize: found.block_size,
            ..output::Statfs::default()
        };
        Ok(put(out, &reply)?)
    }

    pub(super) fn ioctl(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let arg: input::Ioctl = request.arg()?;
        if arg.cmd == SETTINGS_IOCTL {
            return self.change_settings(request, out);
        }
        let node = self.node(request.header.nodeid)?;
        let input = request.payload();
        let call = IoctlCall {
            command: arg.cmd,
            input: input.get(..arg.in_size as usize).ok_or(Errno::EIO)?,
        };
        if self.adapter.excludes_writers(arg.cmd) {
            self.check_no_writers(request.header.nodeid)?;
        }
        let head = put(out, &output::Ioctl::default())?;
        let room = out.len().min(head + arg.out_size as usize);
        let room = out.get_mut(head..room).ok_or(Errno::EIO)?;
        let mut caller = self.caller(request);
        if caller.uid != 0 {
            // The kernel checks the ioctls for flags. For others, the caller has the rights of its user id.
            caller.capabilities = Capabilities::empty();
        }
        let len = self.adapter.ioctl(&caller, &node, &call, room)?;
        let stale = self.adapter.invalidated_by(arg.cmd);
        self.invalidator
            .invalidate_and_wait(request.header.nodeid, stale);
        self.sync_if_sync(&node)?;
        Ok(head + len)
    }

    /// Waits until a file is closed by all that opened it for writing: the kernel reports a close after close(2) has returned.
    ///
    /// # Errors
    /// `ETXTBSY`: it is open for writing all the time.
    fn check_no_writers(&self, id: u64) -> Result<(), Errno> {
        for _ in 0..CLOSE_WAITS {
            if !self.nodes.has_writers(id) {
                return Ok(());
            }
            std::thread::sleep(CLOSE_WAIT);
        }
        Err(Errno::ETXTBSY)
    }

    /// A request for the mount itself. Every process that can open a directory of the mount may send it.
    fn change_settings(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let settings = self.options.settings.as_ref().ok_or(Errno::ENOTTY)?;
        let question = request.payload();
        let question = question.split(|byte| *byte == 0).next().unwrap_or(question);
        let mut answer = settings.change(request.header.uid, question, self);
        answer.resize(SETTINGS_BYTES, 0);
        let head = put(out, &output::Ioctl::default())?;
        let room = out.get_mut(head..).ok_or(Errno::EIO)?;
        Ok(head + put_bytes(room, &answer)?)
    }

    /// A caller got a signal. Of its requests only one that waits for the end of a pause takes long.
    pub(super) fn interrupt(&self, request: &Request<'_>) -> Answer {
        let arg: input::Interrupt = request.arg()?;
        self.changes.interrupt(arg.unique);
        Ok(0)
    }

    /// The statistics of the mount as one JSON document.
    pub(super) fn statistics_json(&self) -> Vec<u8> {
        let mut all = self.options.facts.clone();
        all.insert("pid".into(), json!(std::process::id()));
        all.insert(
            "uptime_s".into(),
            json!(self.started.elapsed().as_secs_f64()),
        );
        all.insert("operations".into(), json!(self.statistics.operations()));
        all.insert("locks".into(), locks());
        if let Some(size) = self.adapter.size_statistics() {
            all.insert("size".into(), size);
        }
        if let Some(journal) = self.adapter.journal_statistics() {
            all.insert("journal".into(), journal);
        }
        if let Some(remote) = self.adapter.remote_statistics() {
            all.insert("remote".into(), remote);
        }
        let mut cache = self.adapter.cache_statistics();
        cache["nodes"] = json!(self.nodes.count());
        all.insert("cache".into(), cache);
        if let Some(settings) = &self.options.settings {
            all.insert("options".into(), settings.describe());
        }
        Value::Object(all).to_string().into_bytes()
    }
}

/// The locks that were taken, longest wait first.
fn locks() -> Value {
    let taken = stat::snapshot();
    let taken = taken.iter().filter(|stat| stat.acquisitions > 0);
    taken
        .map(|stat| {
            json!({
                "class": stat.class,
                "mode": format!("{:?}", stat.mode).to_lowercase(),
                "acquisitions": stat.acquisitions,
                "contended": stat.contended,
                "wait_us": stat.wait_ns as f64 / 1000.0,
                "hold_us": stat.hold_ns as f64 / 1000.0,
            })
        })
        .collect()
}

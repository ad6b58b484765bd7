//! A mount in the background: the command that the user started, and how the monitor reports to it.

use super::descriptors::close_on_exec;
use super::request::{MountRequest, ToParent};
use super::wire::Channel;
use super::{death, monitor};
use crate::failure::Failure;
use crate::log::Log;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use uext4::unstable::Severity;

/// Mounts what `request` asks for. Returns warnings for the user once it is served.
///
/// # Errors
/// It can't be mounted.
pub fn start(request: &MountRequest) -> Result<Vec<String>, Failure> {
    close_on_exec();
    let (channel, theirs) = Channel::pair()?;
    let mut monitor = Command::new("/proc/self/exe")
        .arg0("uext4")
        .args(["serve", "--monitor"])
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| Failure::new(format_args!("the monitor can't be started: {e}")))?;
    channel.send(request, None)?;
    match channel.receive()? {
        Some((ToParent::Serving(warnings), _)) => Ok(warnings),
        Some((ToParent::Failed(failure), _)) => {
            let _ = monitor.wait();
            Err(failure)
        }
        None => {
            let status = monitor.wait()?;
            Err(Failure::new(format_args!(
                "the monitor died ({})",
                death(status)
            )))
        }
    }
}

/// What the process does that [`start`] started.
///
/// # Errors
/// It was started by hand, or the mount failed. The failure was sent to the parent, if it still waits.
pub fn run() -> Result<(), Failure> {
    rustix::thread::set_name(c"uext4-monitor").map_err(io::Error::from)?;
    let parent = Channel::inherited()?;
    rustix::process::setsid().map_err(io::Error::from)?;
    // The user's working directory must not stay in use by a background process.
    std::env::set_current_dir("/")?;
    let Some((request, _)) = parent.receive::<MountRequest>()? else {
        return Err(Failure::new("no request for a mount"));
    };
    let log = Log::system();
    let asker = parent.as_fd().try_clone_to_owned()?;
    let mut waiting = Some(parent);
    let outcome = monitor::run(&request, &log, Some(asker), |warnings| {
        let parent = waiting.take().ok_or(io::ErrorKind::NotConnected)?;
        parent.send(&ToParent::Serving(warnings.to_vec()), None)
    });
    if let Err(failure) = &outcome {
        let is_reported = waiting.is_some_and(|parent| {
            // An interrupted parent no longer waits.
            let sent = parent.send(&ToParent::Failed(failure.clone()), None);
            sent.is_ok()
        });
        if !is_reported {
            log.say(Severity::Error, failure);
        }
    }
    outcome
}

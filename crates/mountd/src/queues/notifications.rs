//! mq_notify(3): registering for a notification, delivering it, waiting for it.

use super::call::{Answer, Call};
use super::process::{self, Target};
use super::registrations::Outcome;
use super::server::QueueServer;
use super::waiting_calls::WaitsFor;
use std::cell::Cell;
use uext4::unstable::mqueue::protocol::{self, Notify};
use uext4::unstable::mqueue::{Notification, Wait};
use uext4::{Errno, Result};
use uext4_fuse::abi::output;
use uext4_fuse::handler::put;

thread_local! {
    /// The sender of the message that this thread delivers: the process that it claims to be, its thread, and its user.
    static SENDER: Cell<(u32, u32, u32)> = const { Cell::new((0, 0, 0)) };
}

/// Runs `send` for `sender`: a notification that it delivers names that sender.
pub fn with_sender<T>(sender: (u32, u32, u32), send: impl FnOnce() -> T) -> T {
    SENDER.set(sender);
    send()
}

impl QueueServer {
    pub(super) fn notify(&self, mut call: Call<'_>) -> Answer {
        let (mut arg, _) = call.argument::<Notify>()?;
        call.check_memory::<Notify>()?;
        let tid = call.request.header.pid;
        let process = process::process_of(arg.process, tid);
        let description = &call.opened.description;
        arg.id = 0;
        if process == 0 && arg.kind == protocol::TAKE_BACK {
            // The caller's process is not known, only its description.
            let own = description.number();
            let queue = &description.node().queue;
            queue.unregister(|registrant| registrant.process == 0 && registrant.description == own);
            let len = put(call.memory(), &arg)?;
            return call.done(len);
        }
        let notification = match arg.kind {
            protocol::TAKE_BACK => None,
            protocol::BY_NOTHING => Some(Notification::None),
            protocol::BY_AWAIT => {
                let guard = self.registrations.add(call.opened.fh);
                arg.id = guard.id();
                Some(Notification::Call(Box::new(move || guard.deliver())))
            }
            protocol::BY_SIGNAL => Some(by_signal(process, call.request.header.uid, &arg)?),
            _ => return Err(Errno::EINVAL.into()),
        };
        let registered = description.notify(process, notification);
        if registered.is_err() && arg.id != 0 {
            self.registrations.forget((call.opened.fh, arg.id));
        }
        registered?;
        let len = put(call.memory(), &arg)?;
        call.done(len)
    }

    pub(super) fn wait_for_registration(&self, mut call: Call<'_>) -> Answer {
        let (id, _) = call.argument::<u64>()?;
        let (fh, unique) = (call.opened.fh, call.request.header.unique);
        let what = WaitsFor::Registration(fh, id);
        let later = self.later(&call, what.clone(), &Wait::default())?;
        let outcome = self.registrations.wait((fh, id), later);
        match outcome {
            Ok(None) => {
                if let Some(why) = self.waiting_calls.ended(unique) {
                    self.end_call(unique, what, why);
                }
                Ok(None)
            }
            Ok(Some(outcome)) => {
                self.waiting_calls.end(unique);
                put_outcome(&mut call, outcome)
            }
            Err(e) => {
                self.waiting_calls.end(unique);
                Err(e.into())
            }
        }
    }
}

fn put_outcome(call: &mut Call<'_>, outcome: Outcome) -> Answer {
    let reply = output::Ioctl {
        result: outcome as i32,
        ..output::Ioctl::default()
    };
    Ok(Some(put(call.out, &reply)?))
}

/// A signal to a process, on behalf of user `uid`.
///
/// # Errors
/// `EPERM`: the server may not signal it.
fn by_signal(process: u32, uid: u32, arg: &Notify) -> Result<Notification> {
    let (signo, value) = (arg.signo, arg.value);
    let target = Target::new(process, uid)?;
    Ok(Notification::Signal {
        signo,
        deliver: Box::new(move || {
            let (claimed, tid, uid) = SENDER.get();
            target.signal(signo, value, process::process_of(claimed, tid), uid);
        }),
    })
}

//! Registrations for a notification (mq_notify(3)): made, delivered, waited for.

use super::calls::WaitsFor;
use super::process::{self, Target};
use super::registrations::Outcome;
use super::{Answer, Call, QueueServer};
use crate::abi::output;
use crate::handler::put;
use std::cell::Cell;
use uext4::mqueue::protocol::{self, Notify};
use uext4::mqueue::{Notification, Wait};
use uext4::{Errno, Result};

thread_local! {
    /// Who sends what this thread hands over: the process that he says he is, his thread, and his user.
    static SENDER: Cell<(u32, u32, u32)> = const { Cell::new((0, 0, 0)) };
}

/// Lets `send` send for somebody: a notification that it delivers says who it was.
pub fn sent_by<T>(sender: (u32, u32, u32), send: impl FnOnce() -> T) -> T {
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
            // Nothing is known of the caller but which description he has.
            let mine = description.number();
            let queue = &description.node().queue;
            queue.unregister(|who| who.process == 0 && who.description == mine);
            let len = put(call.memory(), &arg)?;
            return call.done(len);
        }
        let how = match arg.kind {
            protocol::TAKE_BACK => None,
            protocol::BY_NOTHING => Some(Notification::None),
            protocol::BY_AWAIT => {
                let guard = self.registrations.make(call.opened.fh);
                arg.id = guard.id();
                Some(Notification::Call(Box::new(move || guard.deliver())))
            }
            protocol::BY_SIGNAL => Some(by_signal(process, call.request.header.uid, &arg)?),
            _ => return Err(Errno::EINVAL.into()),
        };
        let registered = description.notify(process, how);
        if registered.is_err() && arg.id != 0 {
            self.registrations.forget((call.opened.fh, arg.id));
        }
        registered?;
        let len = put(call.memory(), &arg)?;
        call.done(len)
    }

    pub(super) fn wait_for_registration(&self, mut call: Call<'_>) -> Answer {
        let (id, _) = call.argument::<u64>()?;
        let replier = self.replier(call.worker, call.request)?;
        let (fh, unique) = (call.opened.fh, call.request.header.unique);
        let what = WaitsFor::Registration(fh, id);
        self.calls.begin(unique, what.clone(), &Wait::default())?;
        let outcome = self.registrations.wait((fh, id), (unique, replier));
        match outcome {
            Ok(None) => {
                if let Some(why) = self.calls.ended(unique) {
                    self.end_call(unique, what, why);
                }
                Ok(None)
            }
            Ok(Some(outcome)) => {
                self.calls.end(unique);
                put_outcome(&mut call, outcome)
            }
            Err(e) => {
                self.calls.end(unique);
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

/// A signal for that process of that user.
///
/// # Errors
/// `EPERM`: the server may not send it.
fn by_signal(process: u32, uid: u32, arg: &Notify) -> Result<Notification> {
    let (signo, value) = (arg.signo, arg.value);
    let target = Target::new(process, uid)?;
    Ok(Notification::Signal {
        signo,
        deliver: Box::new(move || {
            let (claimed, tid, uid) = SENDER.get();
            target.tell(signo, value, process::process_of(claimed, tid), uid);
        }),
    })
}

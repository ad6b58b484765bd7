//! Threads of `/dev/fuse`: a request is read however long others take.

use crate::*;
use std::io::ErrorKind;
use std::sync::{Condvar, Mutex};
use uext4_fuse::abi::{Opcode, ROOT_ID, output};
use uext4_fuse::handler::{Handler, put};
use uext4_fuse::{
    KernelOptions, Mountpoint, Request, ServeOptions, TransportKind, TransportResources,
    serve_handler,
};
use uext4_vfs::Errno;

/// The name whose look-up ends all others.
const LAST: &str = "last";

/// How long a look-up waits for the last one, until the test has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers no look-up before that of [`LAST`] has come.
#[derive(Default)]
struct Meeting {
    waiting: Mutex<usize>,
    has_come: Mutex<bool>,
    came: Condvar,
}

impl Meeting {
    fn wait(&self) -> Result<(), Errno> {
        *self.waiting.lock().expect("no test panics here") += 1;
        let until = self.has_come.lock().expect("no test panics here");
        let waited = self
            .came
            .wait_timeout_while(until, PATIENCE, |has_come| !*has_come);
        match waited.expect("no test panics here").1.timed_out() {
            true => Err(Errno(libc::ETIMEDOUT)),
            false => Ok(()),
        }
    }

    fn waiting(&self) -> usize {
        *self.waiting.lock().expect("no test panics here")
    }
}

/// Serves a [`Meeting`].
struct Server(Arc<Meeting>);

impl Handler for Server {
    fn handle(
        &self,
        _worker: usize,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        let len = match request.opcode {
            Opcode::Lookup if request.name()? == LAST.as_bytes() => {
                *self.0.has_come.lock().expect("no test panics here") = true;
                self.0.came.notify_all();
                Err(Errno::ENOENT)
            }
            Opcode::Lookup => {
                self.0.wait()?;
                Err(Errno::ENOENT)
            }
            Opcode::Getattr => {
                let mut reply = output::AttrReply::default();
                (reply.attr.ino, reply.attr.nlink) = (ROOT_ID, 2);
                reply.attr.mode = 0o040_755;
                reply.attr_valid = 60;
                put(out, &reply)
            }
            Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt => Ok(0),
            _ => Err(Errno::ENOSYS),
        };
        len.map(Some)
    }
}

/// On few CPUs, each has a thread of its own, and all of these wait here for a request that another thread has to read.
#[test]
fn a_request_is_read_while_all_others_wait_for_it() -> Result<()> {
    if !can_mount() {
        return Ok(());
    }
    let options = ServeOptions {
        transport: TransportKind::Dev,
        ..ServeOptions::default()
    };
    let resources = TransportResources::new(&options)?;
    let others = resources.workers() - 1;
    let dir = tempfile::tempdir()?;
    let kernel = KernelOptions {
        fs_name: "meeting".to_owned(),
        ..KernelOptions::default()
    };
    let mountpoint = Mountpoint::mount(dir.path(), &kernel)?;
    let connection = mountpoint.connection().try_clone_to_owned()?;
    let negotiated = mountpoint.negotiated();
    let meeting = Arc::new(Meeting::default());
    let server = Server(Arc::clone(&meeting));
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let make = |_, _, _: &[_]| Ok(server);
            serve_handler(make, connection, resources, negotiated, &options, |_| ())
        });
        let look_up = |name: String| {
            let path = dir.path().join(name);
            move || std::fs::symlink_metadata(path).err().map(|e| e.kind())
        };
        let waiting: Vec<_> = (0..others)
            .map(|number| scope.spawn(look_up(number.to_string())))
            .collect();
        let until = Instant::now() + PATIENCE;
        while meeting.waiting() < others && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let waited = meeting.waiting();
        let last = look_up(LAST.to_owned())();
        let answers = waiting
            .into_iter()
            .map(|one| one.join().expect("it looks up"));
        let answers: Vec<_> = answers.chain([last]).collect();
        let unmounted = mountpoint.unmount();
        served.join().expect("it serves to the end")?;
        unmounted?;
        assert_eq!(waited, others, "requests that were read, of {others}");
        let is_none = |answer: &_| *answer == Some(ErrorKind::NotFound);
        assert!(answers.iter().all(is_none), "{answers:?}");
        Ok(())
    })
}

//! The monitor: mounts, watches the server, unmounts.
//!
//! # Invariants
//! Nothing of the mounted directory stays open, or it could not be unmounted.
//!
//! # Locking
//! None. One thread waits for the server and for signals; statistics over HTTP have their own.

use super::death;
use super::descriptors::close_on_exec;
use super::request::{Facts, FromServer, MountRequest, Source, ToServer};
use super::server_stderr::ServerStderr;
use super::wire::Channel;
use crate::ask::ask;
use crate::failure::Failure;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::mountinfo;
use crate::mountinfo::MountEntry;
use crate::options::Options;
use crate::question::THAW;
use crate::replace;
use crate::unmount::{UnmountError, UnmountMode, unmount};
use crate::write_back::write_back;
use rustix::event::{PollFd, PollFlags, poll};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use uext4::unstable::{Severity, printable};
use uext4_fuse::{KernelFlags, KernelOptions, Mountpoint};

/// The program that runs, whatever became of its file.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// How long the server may answer no write while the data of open files is written.
const HANG_TIMEOUT: Duration = Duration::from_secs(30);

/// What the monitor waits for.
enum Event {
    Message(FromServer),
    /// The server is gone.
    Gone,
    /// A signal asks for the end of the mount.
    Signal,
}

/// Mounts what `request` asks for, and returns when it is unmounted. `serving` is called once requests are
/// answered, with warnings for the user; later errors are reported to `log`. Until then it ends with the process at the other end of
/// `asker`.
///
/// # Errors
/// It can't be mounted, `serving` fails, or the image was not closed as it should be.
pub fn run(
    request: &MountRequest,
    log: &Log,
    asker: Option<OwnedFd>,
    serving: impl FnOnce(&[String]) -> io::Result<()>,
) -> Result<(), Failure> {
    let options = request.options()?;
    check_rights(&options)?;
    if request.replaces {
        replace::check(request.source(), request.dir())?;
    }
    // Before anything is begun that a signal would leave behind.
    let signals = catch_signals()?;
    let metrics = request.metrics.map(Metrics::bind).transpose()?;
    let mut monitor = Monitor::start(signals, request, log.clone())?;
    monitor.asker = asker;
    monitor
        .channel
        .send(&ToServer::Open(request.clone()), None)?;
    let facts = match monitor.next_but_reports()? {
        Event::Message(FromServer::Ready(facts)) => facts,
        Event::Message(FromServer::Failed(failure)) => return Err(failure),
        Event::Gone => return Err(monitor.died()),
        Event::Message(_) | Event::Signal => return Err(monitor.interrupted()),
    };
    monitor.asker = None;
    let kernel = kernel_options(request, &options, &facts);
    let replaced = match request.replaces {
        true => replace::take_away(request.dir()),
        false => Ok(None),
    };
    let mounted = replaced.and_then(|_replaced| {
        let mountpoint = Mountpoint::mount(request.dir(), &kernel);
        Mounted::new(
            request.dir(),
            mountpoint.map_err(|e| mounting(request, &e))?,
        )
    });
    let mounted = match mounted {
        Ok(mounted) => mounted,
        Err(failure) => {
            monitor.dismiss();
            return Err(failure);
        }
    };
    let outcome = monitor.serve(request, &options, &facts, &mounted, || {
        let mut warnings = Vec::new();
        warnings.extend(read_only_warning(&options, &facts));
        warnings.extend(volatile_warning(&facts));
        warnings.extend(quota_warning(&options, &facts));
        warnings.extend(sandbox_warning(&facts));
        if let Some(metrics) = metrics {
            metrics.serve(request.dir().to_owned());
        }
        serving(&warnings)
    });
    mounted.end(&monitor);
    outcome
}

/// The server, and what it is listened to by.
struct Monitor {
    channel: Channel,
    server: Child,
    server_stderr: ServerStderr,
    signals: OwnedFd,
    /// A socket of the process that waits for the mount.
    asker: Option<OwnedFd>,
    source: PathBuf,
    log: Log,
}

impl Monitor {
    fn start(signals: OwnedFd, request: &MountRequest, log: Log) -> Result<Monitor, Failure> {
        let (channel, theirs) = Channel::pair()?;
        close_on_exec();
        let mut server = Command::new(THIS_PROGRAM)
            .arg0("uext4")
            .arg("serve")
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Failure::new(format_args!("the server can't be started: {e}")))?;
        let stderr = server.stderr.take().expect("it is piped");
        Ok(Monitor {
            channel,
            server,
            server_stderr: ServerStderr::new(stderr.into()),
            signals,
            asker: None,
            source: request.source().to_owned(),
            log,
        })
    }

    /// Reports a warning about the mount at `dir`.
    fn warn(&self, dir: &Path, what: impl fmt::Display) {
        self.log
            .say(Severity::Warning, format_args!("{}: {what}", dir.display()));
    }

    /// The next event that is not an error report; error reports are printed.
    fn next_but_reports(&mut self) -> io::Result<Event> {
        loop {
            match self.next()? {
                Event::Message(FromServer::Wrong { severity, message }) => {
                    let source = self.source.display();
                    self.log.say(severity, format_args!("{source}: {message}"));
                }
                event => return Ok(event),
            }
        }
    }

    fn next(&mut self) -> io::Result<Event> {
        loop {
            let mut fds = vec![
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN),
            ];
            let words = self.server_stderr.source();
            fds.extend(words.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let has_words = fds.len() > 2;
            // That the other end is gone is reported always.
            let asker = self.asker.iter();
            fds.extend(asker.map(|asker| PollFd::new(asker, PollFlags::empty())));
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if has_words && ready[2] {
                self.server_stderr.read();
            }
            if ready.get(2 + usize::from(has_words)) == Some(&true) {
                return Ok(Event::Signal);
            }
            if ready[0] {
                rustix::io::read(&self.signals, &mut [0_u8; 64])?;
                return Ok(Event::Signal);
            }
            if ready[1] {
                return Ok(match self.channel.receive()? {
                    Some((message, _)) => Event::Message(message),
                    None => Event::Gone,
                });
            }
        }
    }

    fn serve(
        &mut self,
        request: &MountRequest,
        options: &Options,
        facts: &Facts,
        mounted: &Mounted,
        serving: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), Failure> {
        let connection = mounted.mountpoint.connection();
        let negotiated = mounted.mountpoint.negotiated();
        self.channel
            .send(&ToServer::Serve(negotiated), Some(connection))?;
        let mut serving = Some(serving);
        loop {
            match self.next_but_reports()? {
                Event::Message(FromServer::Serving) => {
                    mounted.set_readahead(options.readahead)?;
                    if let Some(serving) = serving.take()
                        && serving().is_err()
                    {
                        self.end(mounted, facts);
                    }
                }
                Event::Message(FromServer::PleaseStop) | Event::Signal => self.end(mounted, facts),
                Event::Message(FromServer::Closed(outcome)) => {
                    let _ = self.server.wait();
                    return outcome.map_err(|e| {
                        Failure::new(format_args!("{}: {e}", request.source().display()))
                    });
                }
                Event::Message(FromServer::Failed(failure)) => return Err(failure),
                Event::Message(FromServer::Ready(_) | FromServer::Wrong { .. }) => {}
                Event::Gone => return Err(self.died()),
            }
        }
    }

    /// Unmounts; what is still open is cut off after its data is written.
    fn end(&mut self, mounted: &Mounted, facts: &Facts) {
        let dir = mounted.dir();
        if !mounted.is_there() {
            // Lazily unmounted before, and a file is still open.
            let _ = self.channel.send(&ToServer::Stop, None);
            return;
        }
        match mounted.unmount(UnmountMode::Idle) {
            Ok(()) => return,
            Err(UnmountError::Busy) => {
                self.warn(dir, "in use; open files are closed, and get ENOTCONN");
            }
            Err(e) => self.warn(dir, e),
        }
        if !facts.read_only {
            self.write_back(dir);
        }
        if let Err(e) = mounted.unmount(UnmountMode::Forced) {
            self.warn(dir, e);
        }
        if !rustix::process::geteuid().is_root() {
            // Only the kernel can end the connection, and only root can ask it to.
            let _ = self.channel.send(&ToServer::Stop, None);
        }
    }

    /// Writes the kernel's dirty pages of the mount, unless the server or its device hangs.
    fn write_back(&self, dir: &Path) {
        let (progress, wait) = mpsc::channel();
        let of = dir.to_owned();
        thread::spawn(move || {
            // A frozen image takes no writes, and the end of the mount ends that.
            let _ = ask(&of, THAW);
            let written = write_back(&of, || {
                let _ = progress.send(None);
            });
            let _ = progress.send(Some(written));
        });
        let lost = loop {
            match wait.recv_timeout(HANG_TIMEOUT) {
                Ok(None) => {}
                Ok(Some(Ok(()))) => return,
                Ok(Some(Err(e))) => {
                    break format!("what open files had not written may be lost: {e}");
                }
                Err(_) => {
                    break "what open files had not written is lost: the server does not answer, or its device takes no writes"
                        .to_owned();
                }
            }
        };
        let dir = dir.display();
        self.log.say(Severity::Error, format_args!("{dir}: {lost}"));
    }

    /// Waits until the server, which has nothing to serve, has closed the image.
    fn dismiss(self) {
        let Monitor {
            channel,
            mut server,
            ..
        } = self;
        drop(channel);
        let _ = server.wait();
    }

    fn died(&mut self) -> Failure {
        match self.server.wait() {
            Ok(status) => Failure::new(format_args!(
                "the server died ({}){}; what was synced is in the journal, and the next mount recovers it",
                death(status),
                self.server_stderr.finish()
            )),
            Err(e) => Failure::from(e),
        }
    }

    fn interrupted(&mut self) -> Failure {
        let _ = self.server.kill();
        let _ = self.server.wait();
        Failure::new("interrupted before it was mounted")
    }
}

/// A mounted directory.
struct Mounted {
    entry: MountEntry,
    mountpoint: Mountpoint,
}

impl Mounted {
    fn new(dir: &Path, mountpoint: Mountpoint) -> Result<Mounted, Failure> {
        match MountEntry::at(dir)? {
            Some(entry) => Ok(Mounted { entry, mountpoint }),
            None => Err(Failure::new(format_args!(
                "{}: mounted, and /proc/self/mountinfo does not know it",
                dir.display()
            ))),
        }
    }

    fn dir(&self) -> &Path {
        &self.entry.dir
    }

    /// Whether it is this mount that is to be seen there.
    fn is_there(&self) -> bool {
        self.entry.is_seen()
    }

    /// Unmounts it while it is there, and wherever else it is mounted.
    fn unmount(&self, how: UnmountMode) -> Result<(), UnmountError> {
        // While it is mounted, no other file system has its device number.
        for other in self.entry.siblings().unwrap_or_default() {
            if other.is_seen()
                && let Err(UnmountError::Busy) = unmount(&other.dir, how)
            {
                return Err(UnmountError::Busy);
            }
        }
        // Where mounts propagate (mount_namespaces(7)), one of those was this.
        match self.is_there() {
            true => unmount(self.dir(), how),
            false => Ok(()),
        }
    }

    /// Sets how much the kernel reads ahead; only root may.
    fn set_readahead(&self, bytes: Option<u64>) -> Result<(), Failure> {
        let Some(bytes) = bytes else {
            return Ok(());
        };
        let path = format!("/sys/class/bdi/{}/read_ahead_kb", self.entry.device);
        std::fs::write(path, (bytes >> 10).to_string()).map_err(|e| {
            Failure::new(format_args!(
                "option 'readahead': {e}; only root can set it"
            ))
        })
    }

    /// Unmounts every directory of the mount: no process may be left with a directory whose server is gone.
    fn end(self, monitor: &Monitor) {
        if self.is_there()
            && let Err(e) = self.unmount(UnmountMode::Forced)
        {
            monitor.warn(self.dir(), e);
        }
        // Dropped, it would unmount whatever is mounted there now.
        std::mem::forget(self.mountpoint);
    }
}

fn catch_signals() -> Result<OwnedFd, Failure> {
    let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
    let (signals, on_signal) = rustix::pipe::pipe_with(flags).map_err(io::Error::from)?;
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        signal_hook::low_level::pipe::register_raw(signal, on_signal.try_clone()?)?;
    }
    Ok(signals)
}

/// Refuses what only root can have, as fusermount3 would with a line of its own, or without one.
fn check_rights(options: &Options) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for (name, is_asked) in [("suid", !options.nosuid), ("dev", !options.nodev)] {
        if is_asked {
            return Err(Failure::new(format_args!(
                "option '{name}' is root's; leave it out"
            )));
        }
    }
    if !options.allows_others(false) {
        return Ok(());
    }
    let conf = std::fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    match conf.lines().any(|line| line.trim() == "user_allow_other") {
        true => Ok(()),
        false => Err(Failure::new(
            "option 'allow_other' is root's, unless the line user_allow_other is in /etc/fuse.conf",
        )),
    }
}

fn kernel_options(request: &MountRequest, options: &Options, facts: &Facts) -> KernelOptions {
    let source = || request.source().to_string_lossy().into_owned();
    let fs_name = options.fs_name.clone().unwrap_or_else(source);
    let flags = KernelFlags {
        read_only: facts.read_only,
        ..options.kernel_flags()
    };
    KernelOptions {
        flags,
        allow_other: options.allows_others(rustix::process::geteuid().is_root()),
        fs_name: printable(&fs_name).into_owned(),
        subtype: mountinfo::SUBTYPE.to_owned(),
        writeback: options.writeback,
        uring: facts.rings,
        acl: matches!(request.source, Source::Image(_)) && !options.ownership.fakeroot,
        permissions: !options.ownership.fakeroot,
    }
}

fn mounting(request: &MountRequest, e: &io::Error) -> Failure {
    let helper = || Command::new("fusermount3").arg("--version").output();
    if !rustix::process::geteuid().is_root() && helper().is_err() {
        return Failure::new("fusermount3 is missing: install the package fuse3");
    }
    let is_denied = e.kind() == io::ErrorKind::PermissionDenied;
    // fusermount3 only says so.
    let may_be_denied = is_denied || !rustix::process::geteuid().is_root();
    if may_be_denied && let Some(why) = MountEntry::in_the_way(request.dir()) {
        return Failure::new(why);
    }
    let hint = match is_denied {
        true => "; it must be a directory of yours",
        false => "",
    };
    Failure::new(format_args!("{}: {e}{hint}", request.dir().display()))
}

fn read_only_warning(options: &Options, facts: &Facts) -> Option<String> {
    let warning = match facts.write_protected {
        true => "write-protected, mounted read-only",
        false => {
            "mounted read-only: it has features that are not written, or damaged quota files, which `uext4 check` finds"
        }
    };
    let surprising = facts.read_only && !options.open.mount.read_only;
    surprising.then(|| warning.to_owned())
}

fn volatile_warning(facts: &Facts) -> Option<String> {
    let warning = "in the host's memory (tmpfs): fsync makes nothing durable, all of it is lost when the machine stops";
    facts.volatile.then(|| warning.to_owned())
}

fn quota_warning(options: &Options, facts: &Facts) -> Option<String> {
    let asked = options.open.mount.quotas;
    let has = |kind: &str| facts.quotas.iter().any(|counted| counted == kind);
    let lacks = asked.user && !has("user") || asked.group && !has("group");
    let warning = "some limits are not enforced: the image lacks their quota, which `uext4 tune -Q usrquota,grpquota` enables";
    lacks.then(|| warning.to_owned())
}

fn sandbox_warning(facts: &Facts) -> Option<String> {
    let warning = facts.confinement.as_ref()?.warning()?;
    Some(warning.to_owned())
}

//! The server: confines itself, reads the image, or makes a namespace of queues, and answers.
//!
//! # Locking
//! None of its own. The main thread serves; another listens to the monitor and to `SIGTERM`.

use super::confined::{Confined, Devices, device_failure};
use super::request::{Facts, FromServer, MountRequest, ToServer};
use super::settings::ImageSettings;
use super::wire::Channel;
use crate::ext4_adapter::Ext4Adapter;
use crate::failure::Failure;
use crate::options::Options;
use crate::queues::serve_queues;
use crate::sandbox::Confinement;
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::thread;
use tracing::level_filters::LevelFilter;
use uext4::unstable::mqueue::{IpcNamespace, MqueueType};
use uext4::unstable::{BackupSuperblock, FileSystem, SetAttr};
use uext4::unstable::{Reporter, level_asked_for};
use uext4::{BlockDevice, BlockError, Caller, FileKind, Filesystem, ImageFiles, QuotaKind};
use uext4_fuse::{Negotiated, ServeOptions, Stopper, TransportResources};

/// What is served.
#[derive(Clone)]
enum Content {
    Image(Filesystem),
    Queues(IpcNamespace),
}

impl Content {
    fn is_read_only(&self) -> bool {
        match self {
            Content::Image(fs) => fs.is_read_only(),
            Content::Queues(_) => false,
        }
    }

    /// Kinds of owners whose usage is counted.
    fn quotas(&self) -> Vec<QuotaKind> {
        let kept = |kind: &QuotaKind| match self {
            Content::Image(fs) => fs.quotas(*kind).is_some(),
            Content::Queues(_) => false,
        };
        QuotaKind::ALL.into_iter().filter(kept).collect()
    }

    /// Makes all of it durable that can be.
    fn sync(&self) {
        if let Content::Image(fs) = self {
            // What fails is logged where it does.
            let _ = fs.sync();
        }
    }

    /// Closes it.
    fn close(self) -> Result<(), Failure> {
        match self {
            Content::Image(fs) => {
                let engine = Arc::clone(fs.engine());
                let closed = fs.unmount().map_err(Failure::new);
                // The process may end without a drop of it.
                engine.volume.device().release();
                closed
            }
            Content::Queues(_) => Ok(()),
        }
    }
}

/// Something to serve, and what serving it takes.
struct Opened {
    content: Content,
    /// The number of the directory that is mounted.
    root: u64,
    /// The user that mounts it.
    owner: u32,
    write_protected: bool,
    /// Its device is lost when the machine stops.
    volatile: bool,
    resources: TransportResources,
    options: ServeOptions,
    confinement: Option<Confinement>,
}

/// What the process does that `uext4 serve` is, from its first message to its last.
///
/// # Errors
/// It was started by hand, or the image was not closed cleanly. The error was sent to the monitor.
pub fn run() -> Result<(), Failure> {
    // Started through /proc/self/exe, it would be called "exe" by ps(1).
    rustix::thread::set_name(c"uext4-server").map_err(io::Error::from)?;
    // The terminal's signals are for the monitor.
    for signal in [libc::SIGINT, libc::SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
    let (terminated, on_signal) = rustix::pipe::pipe_with(flags).map_err(io::Error::from)?;
    signal_hook::low_level::pipe::register_raw(libc::SIGTERM, on_signal)?;
    let channel = Arc::new(Channel::inherited()?);
    let to_monitor = Arc::clone(&channel);
    let level = level_asked_for()
        .ok()
        .flatten()
        .unwrap_or(LevelFilter::WARN);
    Reporter::new(level, move |severity, message| {
        // Never waits for the monitor, which may be waiting for the server, or has ended.
        let _ = to_monitor.try_send(&FromServer::Wrong { severity, message });
    })
    .install()
    .map_err(Failure::new)?;
    let Some((ToServer::Open(request), _)) = channel.receive()? else {
        return Err(Failure::new("the monitor asks for nothing"));
    };
    let opened = match open(&request) {
        Ok(opened) => opened,
        Err(failure) => {
            channel.send(&FromServer::Failed(failure.clone()), None)?;
            return Err(failure);
        }
    };
    let facts = Facts {
        read_only: opened.content.is_read_only(),
        write_protected: opened.write_protected,
        volatile: opened.volatile && !opened.content.is_read_only(),
        rings: opened.resources.has_rings(),
        quotas: opened
            .content
            .quotas()
            .iter()
            .map(|kind| kind.name().to_owned())
            .collect(),
        confinement: opened.confinement.clone(),
    };
    channel.send(&FromServer::Ready(facts), None)?;
    // A monitor that can't mount ends silently.
    let served = match channel.receive()? {
        Some((ToServer::Serve(negotiated), Some(connection))) => {
            serve(opened, connection, negotiated, &channel, terminated)
        }
        _ => opened.content.close(),
    };
    let outcome = served.clone().map_err(|e| e.to_string());
    // The monitor need not be there any more.
    let _ = channel.send(&FromServer::Closed(outcome), None);
    served
}

fn open(request: &MountRequest) -> Result<Opened, Failure> {
    let Confined {
        options,
        devices,
        resources,
        serve: mut serve_options,
        owner,
        confinement,
    } = Confined::enter(request)?;
    if request.lock_stat {
        uext4::unstable::lock_stat::enable(true);
    }
    let facts = &mut serve_options.server.facts;
    let source = request.source().to_string_lossy().into_owned();
    facts.insert("image".into(), source.into());
    let as_stored = !options.shows_other_files();
    facts.insert("as_stored".into(), as_stored.into());
    facts.insert("pid".into(), std::process::id().into());
    facts.insert("monitor_pid".into(), parent().into());
    let sandbox = match &confinement {
        Some(confinement) => confinement.to_string(),
        None => "off".to_owned(),
    };
    facts.insert("sandbox".into(), sandbox.into());
    let asked = request.options()?.open.mount.read_only;
    let write_protected = options.open.mount.read_only && !asked;
    let is_volatile = |(image, journal): &Devices| {
        let first =
            |files: &ImageFiles| files.files().first().is_some_and(|file| file.is_volatile());
        first(image) || journal.as_ref().is_some_and(first)
    };
    let volatile = devices.as_ref().is_some_and(is_volatile);
    let mut root = 0;
    let content = match devices {
        Some((image, journal)) => {
            let image = part(&image, &options)?;
            let journal = journal.map(|files| files.device(0, None).map_err(device_failure));
            let journal = journal.transpose()?;
            let fs = Filesystem::open_devices(image, journal, &options.open.clone().into());
            let fs = fs.map_err(|e| Failure::opening(&e))?;
            let synchronous = Arc::clone(&serve_options.server.synchronous);
            root = root_number(&fs, options.subdir.as_deref())?;
            let inodes = Arc::clone(fs.engine());
            let settings = ImageSettings::new(inodes, &options, synchronous, owner);
            serve_options.server.settings = Some(Arc::new(settings));
            Content::Image(fs)
        }
        None => Content::Queues(new_namespace(&options)?),
    };
    Ok(Opened {
        content,
        root,
        owner,
        write_protected,
        volatile,
        resources,
        options: serve_options,
        confinement,
    })
}

/// The number of the directory of the image that is mounted.
fn root_number(fs: &Filesystem, subdir: Option<&Path>) -> Result<u64, Failure> {
    let dir = Path::new("/").join(subdir.unwrap_or(Path::new("")));
    let failed = |why: &dyn std::fmt::Display| {
        Failure::new(format_args!("subdir: {}: {why}", dir.display()))
    };
    let found = fs.metadata(&dir).map_err(|e| failed(&e))?;
    match found.kind {
        FileKind::Directory => Ok(found.ino),
        _ => Err(failed(&"not a directory")),
    }
}

/// What of the files is the image, with the superblock that it is read with.
fn part(files: &ImageFiles, options: &Options) -> Result<Arc<dyn BlockDevice>, Failure> {
    let (offset, size) = (options.offset, options.size_limit);
    let mut device = files.device(offset, size).map_err(|e| match e {
        BlockError::OutOfRange { .. } => Failure::new(format_args!("offset and sizelimit: {e}")),
        e => device_failure(e),
    })?;
    if let Some(block) = options.superblock {
        let found = BackupSuperblock::find(device, Some(block));
        device = found
            .ok_or_else(|| {
                Failure::new(format_args!(
                    "sb: block {block} holds no backup of the superblock; `dumpe2fs` or `uext4 mkfs -n` lists them"
                ))
            })?
            .device;
    }
    Ok(device)
}

/// A namespace whose directory belongs to the mounting user.
fn new_namespace(options: &Options) -> Result<IpcNamespace, Failure> {
    let namespace = MqueueType::default().create(options.limits);
    let owner = SetAttr {
        uid: Some(rustix::process::geteuid().as_raw()),
        gid: Some(rustix::process::getegid().as_raw()),
        ..SetAttr::default()
    };
    let root = namespace.root().map_err(Failure::new)?;
    namespace
        .setattr(&Caller::root(), root, &owner)
        .map_err(Failure::new)?;
    Ok(namespace)
}

fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

fn serve(
    opened: Opened,
    connection: OwnedFd,
    negotiated: Negotiated,
    channel: &Arc<Channel>,
    terminated: OwnedFd,
) -> Result<(), Failure> {
    let shutdown = Arc::new(Shutdown::new(opened.content.clone()));
    let (to_monitor, for_control) = (Arc::clone(channel), Arc::clone(&shutdown));
    thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || control(&to_monitor, &terminated, &for_control))?;
    let started = |stopper| {
        shutdown.started(stopper);
        // The monitor need not be there any more.
        let _ = channel.send(&FromServer::Serving, None);
    };
    let (resources, options) = (opened.resources, &opened.options);
    let served = match opened.content {
        Content::Image(fs) => {
            let fs = Ext4Adapter::new(Arc::clone(fs.engine()), opened.root, opened.owner);
            uext4_fuse::serve(fs, connection, resources, negotiated, options, started)
        }
        Content::Queues(queues) => {
            serve_queues(queues, connection, resources, negotiated, options, started)
        }
    };
    // Whatever became of the connection, what it asked for is kept.
    let closed = shutdown.close();
    served?;
    closed
}

/// Handles messages of the monitor and `SIGTERM` while other threads serve.
fn control(channel: &Channel, terminated: &OwnedFd, shutdown: &Shutdown) {
    let mut monitored = true;
    loop {
        let mut fds = vec![PollFd::new(terminated, PollFlags::IN)];
        if monitored {
            fds.push(PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN));
        }
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            let _ = rustix::io::read(terminated, &mut [0_u8; 64]);
            // Only the monitor can unmount. Without a monitor, changes are made durable and the server keeps running until
            // the mount is unmounted.
            let asked = monitored && channel.send(&FromServer::PleaseStop, None).is_ok();
            if !asked {
                shutdown.content.sync();
            }
        }
        if ready.get(1) == Some(&true) {
            match channel.receive() {
                Ok(Some((ToServer::Stop, _))) => stop(channel, shutdown),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => monitored = false,
            }
        }
    }
}

/// Closes the image while the kernel still has the connection, and ends the process, which ends the connection.
fn stop(channel: &Channel, shutdown: &Shutdown) -> ! {
    shutdown.wait_until_started();
    let closed = shutdown.close();
    let code = i32::from(closed.is_err());
    let _ = channel.send(&FromServer::Closed(closed.map_err(|e| e.to_string())), None);
    std::process::exit(code)
}

/// Stops the server and closes the image: after the last unmount, or earlier for the monitor.
struct Shutdown {
    content: Content,
    stopper: OnceLock<Stopper>,
    closed: OnceLock<Result<(), Failure>>,
}

impl Shutdown {
    fn new(content: Content) -> Shutdown {
        Shutdown {
            content,
            stopper: OnceLock::new(),
            closed: OnceLock::new(),
        }
    }

    /// Requests are answered from now on; `stopper` ends that.
    fn started(&self, stopper: Stopper) {
        // It starts once.
        let _ = self.stopper.set(stopper);
    }

    /// Waits until requests are answered.
    fn wait_until_started(&self) {
        let _ = self.stopper.wait();
    }

    /// Ends the answering of requests and closes the image, once; concurrent callers wait for that. Unlinked files that are
    /// open are deleted before it is closed: the connection may end while they are, and that must not close it earlier.
    fn close(&self) -> Result<(), Failure> {
        let close = || {
            if let Some(stopper) = self.stopper.get() {
                stopper.stop();
            }
            self.content.clone().close()
        };
        self.closed.get_or_init(close).clone()
    }
}

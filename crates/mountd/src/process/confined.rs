//! The server before it reads: what it opens, and what it gives up then.
//!
//! # Invariants
//! Of the image, nothing is read before the sandbox is entered, but its size, whether it is qcow2, and of a qcow2 image the header,
//! as that names a backing file. Nothing is opened afterwards: neither a path nor a ring.

use super::limits;
use super::request::{MountRequest, Source, WirePath};
use crate::failure::Failure;
use crate::options::Options;
use crate::sandbox::{self, Confinement, Serves};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::{BlockError, Errno, ImageFiles, ImageName};
use uext4_fuse::settings::Synchronous;
use uext4_fuse::{ServeOptions, ServerOptions, TransportResources};

/// Threads of the file system's own that read and write at a time, beside those that serve.
const OWN_THREADS: usize = 4;
/// Threads that mostly wait: for the replies of a server that has the image, and that of multi-mount protection.
const WAITING_THREADS: usize = 5;

/// The files of an image, and those of its journal if it has one of its own.
pub type Devices = (ImageFiles, Option<ImageFiles>);

/// A process with all that serving takes, and with nothing else within reach.
pub struct Confined {
    /// What the request's options say.
    pub options: Options,
    /// The image; `None` for queues.
    pub devices: Option<Devices>,
    /// Descriptors and rings for requests.
    pub resources: TransportResources,
    /// How they are served.
    pub serve: ServeOptions,
    /// The mounting user.
    pub owner: u32,
    /// What was given up; `None` if the request says that nothing is to be.
    pub confinement: Option<Confinement>,
}

impl Confined {
    /// Opens what `request` asks for, and confines the process, which must have one thread.
    ///
    /// # Errors
    /// The image or `/dev/fuse` can't be opened, or the sandbox can't be entered.
    pub fn enter(request: &MountRequest) -> Result<Confined, Failure> {
        let mut options = request.options()?;
        let owner = rustix::process::getuid().as_raw();
        // Each thread takes descriptors.
        limits::raise_open_files_max();
        if request.sandbox {
            check_confinable(request)?;
        }
        let devices = match &request.source {
            Source::Image(path) => Some(open_devices(&path.0, &options)?),
            Source::Queues => None,
        };
        let is_protected = |(image, journal): &Devices| {
            image.is_read_only() || journal.as_ref().is_some_and(|device| device.is_read_only())
        };
        options.open.mount.read_only |= devices.as_ref().is_some_and(is_protected);
        let mut serve = ServeOptions {
            transport: options.transport,
            threads: options.threads.or(match request.source {
                Source::Image(_) => None,
                Source::Queues => Some(crate::queues::threads()),
            }),
            server: ServerOptions {
                synchronous: Arc::new(Synchronous::new(options.sync, options.dirsync)),
                ownership: options.ownership,
                ..ServerOptions::default()
            },
        };
        let resources = TransportResources::new(&serve).map_err(|e| {
            let hint = match e.kind() {
                io::ErrorKind::PermissionDenied => "mounting takes the right to open it",
                io::ErrorKind::OutOfMemory => "ask for fewer threads (-o threads=N)",
                _ => "is the module fuse loaded?",
            };
            Failure::new(format_args!("/dev/fuse: {e}; {hint}"))
        })?;
        if let Some((image, journal)) = &devices {
            for file in [Some(image), journal.as_ref()]
                .into_iter()
                .flatten()
                .flat_map(ImageFiles::files)
            {
                file.make_rings(resources.workers() + OWN_THREADS);
            }
        }
        let memory_bytes_max = limits::bound(
            &options,
            resources.workers() + OWN_THREADS + WAITING_THREADS,
        )?;
        serve
            .server
            .facts
            .insert("memory_bytes_max".into(), memory_bytes_max.into());
        let confinement = match request.sandbox {
            true => Some(sandbox::enter(match devices {
                Some(_) => Serves::Image,
                None => Serves::Queues,
            })?),
            false => None,
        };
        Ok(Confined {
            options,
            devices,
            resources,
            serve,
            owner,
            confinement,
        })
    }
}

/// Refuses an image whose client the sandbox would end.
fn check_confinable(request: &MountRequest) -> Result<(), Failure> {
    let Source::Image(WirePath(image)) = &request.source else {
        return Ok(());
    };
    let journal = request.journal.as_ref().map(|path| &path.0);
    let connects = |path: &&PathBuf| ImageName::parse(path).connects();
    match [Some(image), journal].into_iter().flatten().find(connects) {
        None => Ok(()),
        Some(path) => Err(Failure::new(format_args!(
            "{}: its client opens connections, which the sandbox forbids; if the image is trusted, mount it with --no-sandbox",
            path.display()
        ))),
    }
}

fn open_devices(image: &Path, options: &Options) -> Result<Devices, Failure> {
    let device = open_device(image, options)?;
    let journal = &options.open.journal;
    let journal = journal.as_ref().map(|path| open_device(path, options));
    Ok((device, journal.transpose()?))
}

/// Opens a device; one that can't be written is opened to be read, as mount(8) has it.
fn open_device(path: &Path, options: &Options) -> Result<ImageFiles, Failure> {
    let mut config = options.open.clone();
    let mut opened = ImageFiles::open(path, &config.device());
    if !config.mount.read_only && opened.as_ref().is_err_and(is_write_protected) {
        config.mount.read_only = true;
        // If that fails too, the first error is reported.
        opened = ImageFiles::open(path, &config.device()).or(opened);
    }
    opened.map_err(device_failure)
}

/// A device that can't be opened.
pub fn device_failure(e: BlockError) -> Failure {
    let errno = e.raw_os_error().map_or(Errno::EIO, Errno);
    Failure::opening(&uext4::Error::from_source(errno, e))
}

fn is_write_protected(e: &BlockError) -> bool {
    let errno = e.raw_os_error().map(Errno);
    matches!(errno, Some(Errno::EROFS | Errno::EACCES | Errno::EPERM))
}

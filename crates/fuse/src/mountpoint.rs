//! A directory that the kernel sends requests for: mounted and negotiated through `fuser`.
//!
//! Requests are not served through `fuser`: it decodes them for `/dev/fuse` alone, and leaves out interrupts and
//! files without a name. So it mounts, as root or through `fusermount3`, agrees with the kernel on a protocol,
//! and unmounts; the connection it has is served by the transports here.

use crate::abi::DATA_BYTES_MAX;
use crate::kernel_flags::KernelFlags;
use crate::transport::open_device;
use fuser::{Config, InitFlags, KernelConfig, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, mount, unmount};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The most requests in flight that no caller waits for: read-ahead and writeback.
const BACKGROUND_MAX: u16 = 256;

/// The features that are always requested if the kernel has them.
const WANTED: InitFlags = InitFlags::FUSE_ASYNC_READ
    .union(InitFlags::FUSE_ATOMIC_O_TRUNC)
    .union(InitFlags::FUSE_EXPORT_SUPPORT)
    .union(InitFlags::FUSE_BIG_WRITES)
    .union(InitFlags::FUSE_DONT_MASK)
    .union(InitFlags::FUSE_HAS_IOCTL_DIR)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_ASYNC_DIO)
    .union(InitFlags::FUSE_NO_OPENDIR_SUPPORT)
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
    .union(InitFlags::FUSE_MAX_PAGES)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    .union(InitFlags::FUSE_EXPLICIT_INVAL_DATA)
    .union(InitFlags::FUSE_SETXATTR_EXT)
    .union(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);

/// The features that are required. With older kernels, requests have other forms and permission is not checked by the
/// kernel.
const NEEDED: InitFlags = InitFlags::FUSE_SETXATTR_EXT
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
    .union(InitFlags::FUSE_DONT_MASK);

/// How the kernel mounts a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelOptions {
    /// Flags of the mount.
    pub flags: KernelFlags,
    /// Users other than the mounting user may use the mount.
    pub allow_other: bool,
    /// What is mounted, as `/proc/mounts` shows it.
    pub fs_name: String,
    /// The kind of it, after `fuse.`.
    pub subtype: String,
    /// The kernel delays writes (writeback cache).
    pub writeback: bool,
    /// Request transport over io_uring.
    pub uring: bool,
    /// Its files have access control lists.
    pub acl: bool,
    /// The kernel checks permissions; else every user of the mount may do everything.
    pub permissions: bool,
}

impl KernelOptions {
    fn config(&self) -> Config {
        let flags = self.flags;
        let mut options = vec![
            MountOption::FSName(self.fs_name.clone()),
            MountOption::Subtype(self.subtype.clone()),
            if flags.read_only {
                MountOption::RO
            } else {
                MountOption::RW
            },
            if flags.nosuid {
                MountOption::NoSuid
            } else {
                MountOption::Suid
            },
            if flags.nodev {
                MountOption::NoDev
            } else {
                MountOption::Dev
            },
        ];
        let others = [
            (flags.noexec, MountOption::NoExec),
            (flags.noatime, MountOption::NoAtime),
            (flags.sync, MountOption::Sync),
            (flags.dirsync, MountOption::DirSync),
        ];
        options.extend(others.into_iter().filter(|o| o.0).map(|o| o.1));
        if self.permissions {
            options.push(MountOption::DefaultPermissions);
        }
        let mut config = Config::default();
        config.mount_options = options;
        config.acl = match self.allow_other {
            true => SessionACL::All,
            false => SessionACL::Owner,
        };
        config
    }
}

/// What kernel and server agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Negotiated {
    /// The kernel sends requests over io_uring, once its queues are there.
    pub uring: bool,
    /// The kernel delays writes (writeback cache).
    pub writeback: bool,
}

/// The file system that `fuser` uses for the handshake only.
struct Handshake {
    writeback: bool,
    uring: bool,
    acl: bool,
    agreed: Arc<OnceLock<Negotiated>>,
}

impl fuser::Filesystem for Handshake {
    fn init(&mut self, _request: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = WANTED;
        wanted.set(InitFlags::FUSE_WRITEBACK_CACHE, self.writeback);
        wanted.set(InitFlags::FUSE_OVER_IO_URING, self.uring);
        wanted.set(InitFlags::FUSE_POSIX_ACL, self.acl);
        let mut needed = NEEDED;
        needed.set(InitFlags::FUSE_POSIX_ACL, self.acl);
        let agreed = wanted & config.capabilities();
        if !agreed.contains(needed) {
            let why = "this kernel's FUSE is too old: Linux 5.12 or newer is needed";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let refused = |what: &str, bits| io::Error::other(format!("{what}: {bits:?}"));
        config
            .add_capabilities(agreed)
            .map_err(|bits| refused("capabilities", bits))?;
        let _ = config.set_max_write(DATA_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = self.agreed.set(Negotiated {
            uring: agreed.contains(InitFlags::FUSE_OVER_IO_URING),
            writeback: agreed.contains(InitFlags::FUSE_WRITEBACK_CACHE),
        });
        Ok(())
    }
}

/// A mounted directory.
pub struct Mountpoint {
    session: Session<Handshake>,
    negotiated: Negotiated,
    /// The directory, where this process mounted it itself.
    own: Option<PathBuf>,
}

impl Mountpoint {
    /// Mounts `dir` and does the handshake; requests wait until the connection is served.
    ///
    /// # Errors
    /// As the host says: no such directory, no permission, no `/dev/fuse`, no `fusermount3`. `Unsupported`: the
    /// kernel's FUSE is too old.
    pub fn mount(dir: &Path, options: &KernelOptions) -> io::Result<Mountpoint> {
        let agreed = Arc::new(OnceLock::new());
        let handshake = Handshake {
            writeback: options.writeback,
            uring: options.uring,
            acl: options.acl,
            agreed: Arc::clone(&agreed),
        };
        let config = options.config();
        let is_root = rustix::process::geteuid().is_root();
        let (session, own) = if is_root {
            let dir = dir.canonicalize()?;
            let device = mount_as_root(&dir, options)?;
            let session = Session::from_fd(handshake, device, config.acl, config);
            // Requests to this mount would never be answered.
            let session = session.inspect_err(|_| {
                let _ = unmount(&dir, UnmountFlags::DETACH);
            });
            (session?, Some(dir))
        } else {
            (Session::new(handshake, dir, &config)?, None)
        };
        let negotiated = agreed.get().copied().expect("the handshake sets it");
        Ok(Mountpoint {
            session,
            negotiated,
            own,
        })
    }

    /// The descriptor of `/dev/fuse` that the mount is bound to.
    pub fn connection(&self) -> BorrowedFd<'_> {
        self.session.as_fd()
    }

    /// What was agreed on.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Unmounts, also while files are open: they are of no use once the server has ended.
    ///
    /// # Errors
    /// As the host says.
    pub fn unmount(mut self) -> io::Result<()> {
        match &self.own {
            Some(dir) => Ok(unmount(dir, UnmountFlags::DETACH)?),
            None => self.session.unmount(),
        }
    }
}

/// Mounts as the superuser may: `fuser` would leave out the kind after `fuse.`.
fn mount_as_root(dir: &Path, options: &KernelOptions) -> io::Result<OwnedFd> {
    let device = open_device()?;
    let root_mode = std::fs::metadata(dir)?.mode() & libc::S_IFMT;
    let mut data = format!(
        "fd={},rootmode={root_mode:o},user_id=0,group_id=0",
        device.as_raw_fd()
    );
    if options.permissions {
        data.push_str(",default_permissions");
    }
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let kind = match &*options.subtype {
        "" => "fuse".to_owned(),
        subtype => format!("fuse.{subtype}"),
    };
    let data = CString::new(data).map_err(io::Error::other)?;
    mount(
        &*options.fs_name,
        dir,
        &*kind,
        options.flags.mount_flags(),
        &*data,
    )?;
    Ok(device)
}

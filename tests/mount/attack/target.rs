//! What is attacked: a file, sockets that listen, and a process of the same user.

use crate::User;
use crate::calls::{Handle, handle};
use io_uring::Parameters;
use rustix::fs::{Gid, Uid, chown};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Pid;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use uext4::{MkfsOptions, NoProgress, mkfs};
use uext4_mountd::{MountRequest, Source, WirePath};
use uext4_testkit::prelude::*;

const NOBODY: u32 = 65534;
const DIR: &str = "UEXT4_TEST_ATTACK_DIR";
const PID: &str = "UEXT4_TEST_ATTACK_PID";
const PORT: &str = "UEXT4_TEST_ATTACK_PORT";

/// The host, as the parent of all attacking processes has it ready.
pub struct Victim {
    dir: TempDir,
    process: Child,
    tcp: TcpListener,
    _sockets: [UnixListener; 2],
    _device: OpenDevice,
}

/// `/dev/fuse` for every user, as most systems have it.
struct OpenDevice(fs::Permissions);

impl OpenDevice {
    const PATH: &str = "/dev/fuse";

    fn new() -> OpenDevice {
        let before = fs::metadata(OpenDevice::PATH).unwrap().permissions();
        fs::set_permissions(OpenDevice::PATH, fs::Permissions::from_mode(0o666)).unwrap();
        OpenDevice(before)
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let _ = fs::set_permissions(OpenDevice::PATH, self.0.clone());
    }
}

fn abstract_name(dir: &Path) -> SocketAddr {
    SocketAddr::from_abstract_name(dir.as_os_str().as_encoded_bytes()).unwrap()
}

impl Victim {
    pub fn new(user: User) -> Victim {
        // Best without being a file system in memory, where nothing needs rings.
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(path("secret"), b"secret").unwrap();
        fs::create_dir(path("mnt")).unwrap();
        let options = MkfsOptions::new().size(16 << 20);
        mkfs(path("image"), &options, &NoProgress).unwrap();
        let by_path = UnixListener::bind(path("socket")).unwrap();
        fs::set_permissions(path("socket"), fs::Permissions::from_mode(0o777)).unwrap();
        let by_name = UnixListener::bind_addr(&abstract_name(dir.path())).unwrap();
        let mut process = Command::new("sleep");
        process.arg("1000").stdout(Stdio::null());
        if user == User::Other {
            process.uid(NOBODY).gid(NOBODY);
            let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            chown(path("image"), Some(uid), Some(gid)).unwrap();
        }
        // Where the kernel has it; it is the transport with rings.
        let _ = fs::write("/sys/module/fuse/parameters/enable_uring", "Y");
        Victim {
            process: process.spawn().unwrap(),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            _sockets: [by_path, by_name],
            _device: OpenDevice::new(),
            dir,
        }
    }

    pub fn describe(&self, command: &mut Command) {
        command.env(DIR, self.dir.path());
        command.env(PID, self.process.id().to_string());
        command.env(PORT, self.tcp.local_addr().unwrap().port().to_string());
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let mnt = self.dir.path().join("mnt");
        while rustix::mount::unmount(&mnt, rustix::mount::UnmountFlags::DETACH).is_ok() {}
    }
}

/// The same, as an attacking process sees it.
pub struct Target {
    pub dir: PathBuf,
    pub victim: Pid,
    /// Of the victim, readable memory.
    pub memory: usize,
    /// The handle of the secret file, and a file beside it that is open.
    pub handle: Handle,
    pub image: File,
    /// How rings look that the server has.
    pub shapes: [Parameters; 2],
    pub socket: OwnedFd,
    /// For signals about descriptors.
    pub pipe: (std::io::PipeReader, std::io::PipeWriter),
    port: u16,
}

impl Target {
    pub fn find() -> Target {
        let var = |name| std::env::var(name).unwrap();
        let dir = PathBuf::from(var(DIR));
        Target {
            handle: handle(&dir.join("secret")).unwrap(),
            image: File::open(dir.join("image")).unwrap(),
            shapes: crate::rings::shapes(),
            socket: rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap(),
            dir,
            victim: Pid::from_raw(var(PID).parse().unwrap()).unwrap(),
            memory: 0,
            pipe: std::io::pipe().unwrap(),
            port: var(PORT).parse().unwrap(),
        }
    }

    /// Finds memory of the victim's to read.
    pub fn look_into_the_victim(&mut self) {
        let maps = format!("/proc/{}/maps", self.victim.as_raw_nonzero());
        let maps = fs::read_to_string(maps).unwrap();
        let first = maps.split('-').next().unwrap();
        self.memory = usize::from_str_radix(first, 16).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn abstract_name(&self) -> SocketAddr {
        abstract_name(&self.dir)
    }

    pub fn connect_tcp(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.port))
    }

    /// A mount of the image with all kinds of rings.
    pub fn request(&self) -> MountRequest {
        MountRequest {
            source: Source::Image(WirePath(self.path("image"))),
            dir: WirePath(self.path("mnt")),
            options: vec!["direct".to_owned()],
            journal: None,
            sandbox: true,
            lock_stat: false,
            metrics: None,
            keys: Vec::new(),
            replaces: false,
        }
    }
}

/// The process becomes that of a user.
pub fn become_other_user() {
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
}

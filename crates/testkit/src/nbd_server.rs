//! Servers of NBD: qemu-nbd over a socket, nbdkit over TCP.

use crate::external::*;
use crate::program::is_installed;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

/// Longer than a server takes to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of one export, `disk`, which is a file; ended when dropped.
#[derive(Debug)]
pub struct NbdServer {
    dir: TempDir,
    process: Child,
    program: Program,
}

/// What a server listens at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A port of this host.
    Tcp,
    /// A socket.
    Socket,
}

/// What serves.
#[derive(Clone, Debug)]
enum Program {
    /// So many clients at a time, over a socket.
    Qemu { clients: usize },
    /// Over a port of this host.
    Nbdkit { port: u16 },
    /// With these certificates, over a port of this host or a socket.
    NbdkitTls {
        certificates: PathBuf,
        port: Option<u16>,
    },
}

impl NbdServer {
    /// Serves a new file of so many zeros. `None`, with a line on stderr, where qemu-nbd is not installed.
    pub fn new(bytes: u64) -> Option<NbdServer> {
        NbdServer::of_clients(bytes, 8)
    }

    /// The same of a server that lets one client in.
    pub fn of_one_client(bytes: u64) -> Option<NbdServer> {
        NbdServer::of_clients(bytes, 1)
    }

    fn of_clients(bytes: u64, clients: usize) -> Option<NbdServer> {
        is_installed("qemu-nbd").then(|| NbdServer::of(bytes, Program::Qemu { clients }))
    }

    /// Serves over TCP, with a cache in the server: what was not made durable is lost if it is killed. `None`, with a line on stderr, where
    /// nbdkit is not installed.
    pub fn with_cache(bytes: u64) -> Option<NbdServer> {
        is_installed("nbdkit").then(|| NbdServer::of(bytes, Program::Nbdkit { port: free_port() }))
    }

    /// Serves with TLS alone, by the certificates in a directory, and asks clients for theirs. `None`, with a line on stderr, where nbdkit is
    /// not installed.
    pub fn with_tls(bytes: u64, certificates: &Path, over: Over) -> Option<NbdServer> {
        let program = || Program::NbdkitTls {
            certificates: certificates.to_owned(),
            port: (over == Over::Tcp).then(free_port),
        };
        is_installed("nbdkit").then(|| NbdServer::of(bytes, program()))
    }

    fn of(bytes: u64, program: Program) -> NbdServer {
        let dir = tempfile::tempdir().expect("a directory");
        let file = File::create(dir.path().join("file")).expect("a file");
        file.set_len(bytes).expect("its length");
        let process = program.serve(dir.path());
        NbdServer {
            dir,
            process,
            program,
        }
    }

    /// The name of the export.
    pub fn name(&self) -> String {
        let socket = self.dir.path().join("s");
        let socket = socket.display();
        match &self.program {
            Program::Qemu { .. } => format!("nbd+unix:///disk?socket={socket}"),
            Program::Nbdkit { port } => format!("nbd://127.0.0.1:{port}/disk"),
            Program::NbdkitTls { port: None, .. } => format!("nbds+unix:///disk?socket={socket}"),
            Program::NbdkitTls {
                port: Some(port), ..
            } => format!("nbds://127.0.0.1:{port}/disk"),
        }
    }

    /// What it serves.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Serves again what is in the file.
    pub fn start_again(&mut self) {
        self.process = self.program.serve(self.dir.path());
    }
}

/// One that no program listens at now.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

impl Program {
    fn serve(&self, dir: &Path) -> Child {
        let (socket, file) = (dir.join("s"), dir.join("file"));
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(match self {
            Program::Qemu { .. } => "qemu-nbd",
            _ => "nbdkit",
        });
        let port = match self {
            Program::Qemu { clients } => {
                command.args(["--persistent", "--discard=unmap", "-f", "raw", "-x", "disk"]);
                command.arg(format!("--shared={clients}"));
                None
            }
            Program::Nbdkit { port } => {
                command.arg("--filter=cache");
                Some(*port)
            }
            Program::NbdkitTls { certificates, port } => {
                command.args(["--tls=require", "--tls-verify-peer"]);
                command.arg(format!("--tls-certificates={}", certificates.display()));
                *port
            }
        };
        match (self, port) {
            (Program::Qemu { .. }, _) => command.arg("-k").arg(&socket).arg(file),
            (_, port) => {
                command.args(["--foreground", "--exit-with-parent"]);
                match port {
                    Some(port) => command.args(["--ipaddr=127.0.0.1", &format!("--port={port}")]),
                    None => command.arg("--unix").arg(&socket),
                };
                command.arg("file").arg(file)
            }
        };
        if let Program::Nbdkit { .. } = self {
            command.arg("cache=writeback");
        }
        // It reports each client that goes early, as those do that only try the socket.
        let process = command.stderr(Stdio::null()).spawn();
        let process = process.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let begin = Instant::now();
        let answers = || match port {
            None => UnixStream::connect(&socket).is_ok(),
            Some(port) => TcpStream::connect(("127.0.0.1", port)).is_ok(),
        };
        while !answers() {
            assert!(begin.elapsed() < PATIENCE, "{command:?} does not begin");
            thread::sleep(Duration::from_millis(5));
        }
        process
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

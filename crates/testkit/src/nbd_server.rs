//! Servers of NBD: qemu-nbd over a socket.

use crate::external::*;

/// Longer than a server takes to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of one export, `disk`, which is a file; ended when dropped.
#[derive(Debug)]
pub struct NbdServer {
    dir: TempDir,
    process: Child,
    /// How many it lets in at a time.
    clients: usize,
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
        if !crate::program::is_installed("qemu-nbd") {
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let file = File::create(dir.path().join("file")).expect("a file");
        file.set_len(bytes).expect("its length");
        let process = serve(dir.path(), clients);
        Some(NbdServer {
            dir,
            process,
            clients,
        })
    }

    /// The name of the export.
    pub fn name(&self) -> String {
        format!(
            "nbd+unix:///disk?socket={}",
            self.dir.path().join("s").display()
        )
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
        self.process = serve(self.dir.path(), self.clients);
    }
}

fn serve(dir: &Path, clients: usize) -> Child {
    let (socket, file) = (dir.join("s"), dir.join("file"));
    let _ = fs::remove_file(&socket);
    let mut command = Command::new("qemu-nbd");
    command.args([
        "--persistent",
        &format!("--shared={clients}"),
        "--discard=unmap",
        "-f",
        "raw",
        "-x",
        "disk",
    ]);
    command.arg("-k").arg(&socket).arg(file);
    // It reports each client that goes early, as those do that only try the socket.
    let process = command.stderr(Stdio::null()).spawn();
    let process = process.expect("qemu-nbd");
    let begin = Instant::now();
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(begin.elapsed() < PATIENCE, "qemu-nbd does not begin");
        thread::sleep(Duration::from_millis(5));
    }
    process
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

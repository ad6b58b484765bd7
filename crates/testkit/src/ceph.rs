//! A cluster of Ceph on this machine: `tools/ceph.sh`, once for each process that runs tests.
//!
//! librbd takes its configuration from the environment. A test that is a client therefore runs itself again, as a process with the
//! configuration of the cluster: [`is_client`].

use crate::external::*;
use crate::partition::Partition;
use std::io::{BufRead, BufReader};
use std::process::{ChildStdin, ChildStdout};
use std::sync::LazyLock;

/// What `tools/ceph.sh` returns where Ceph is not installed.
const SKIPPED: i32 = 77;
/// For how long a client may be silent.
const WATCH_SECONDS: &str = "5";
/// The group of the first peer of a process; each has one of its own, by which its packets are known.
const FIRST_GROUP: u32 = 1 << 30;
/// Which is set in the processes that are clients.
const CLIENT: &str = "UEXT4_CEPH_CLIENT";
/// What a test that acts for another is asked to do.
const ROLE: &str = "UEXT4_CEPH_ROLE";

/// `None` where Ceph is not installed.
static CLUSTER: LazyLock<Option<Cluster>> = LazyLock::new(Cluster::start);

struct Cluster {
    /// What clients need in their environment.
    variables: Vec<(String, String)>,
    /// Ends the cluster when its standard input is closed, which the end of this process does.
    _stopper: Child,
}

impl Cluster {
    fn start() -> Option<Cluster> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/ceph.sh");
        let dir = tempfile::tempdir().expect("a directory").keep();
        let mut stopper = stop_at_end(&script, &dir);
        let output = Command::new(&script)
            .args([Path::new("start"), &dir])
            .envs([("CEPH_OSDS", "2"), ("CEPH_WATCH_SECONDS", WATCH_SECONDS)])
            .stderr(Stdio::inherit())
            .output()
            .expect("tools/ceph.sh");
        if output.status.code() == Some(SKIPPED) {
            // This closes its standard input.
            stopper.wait().expect("it ends");
            return None;
        }
        assert!(output.status.success(), "tools/ceph.sh: {}", output.status);
        let lines = String::from_utf8(output.stdout).expect("UTF-8");
        let variables = lines.lines().filter_map(|line| line.split_once('='));
        let cache = dir.join("cache").to_string_lossy().into_owned();
        Some(Cluster {
            variables: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .chain([("UEXT4_CACHE_DIR".to_owned(), cache)])
                .collect(),
            _stopper: stopper,
        })
    }
}

/// A process that ends the cluster when this one has ended, however it does.
fn stop_at_end(script: &Path, dir: &Path) -> Child {
    Command::new("sh")
        .args([
            "-c",
            "cat >/dev/null; \"$1\" stop \"$2\"; rm -rf \"$2\"",
            "sh",
        ])
        .args([script, dir])
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("sh")
}

/// Whether this process is a client of a cluster. If it is not, runs the test of this name, which calls this, as one, and fails if that
/// fails.
pub fn is_client(test: &str) -> bool {
    is_client_with(test, &[])
}

/// The same, with variables of the environment.
pub fn is_client_with(test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(CLIENT).is_some() {
        return true;
    }
    if let Some(cluster) = &*CLUSTER {
        let status = this_test(test)
            .env(CLIENT, "1")
            .envs(cluster.variables.iter().cloned())
            .envs(variables.iter().copied())
            .status();
        let status = status.expect("the program of the test");
        assert!(status.success(), "{test}: {status}");
    }
    false
}

fn this_test(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args([test, "--exact", "--ignored", "--nocapture"]);
    command
}

/// Another client of the same cluster, which runs a test of this program; killed when dropped.
#[derive(Debug)]
pub struct Peer {
    process: Child,
    group: u32,
    input: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Peer {
    /// Runs the test of that name in another process, where [`role`] returns `role`.
    pub fn start(test: &str, role: &str) -> Peer {
        Peer::start_with(test, role, &[])
    }

    /// The same, with variables of the environment.
    pub fn start_with(test: &str, role: &str, variables: &[(&str, &str)]) -> Peer {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed) as u32;
        let group = FIRST_GROUP + (std::process::id() << 8) + number;
        let mut command = this_test(test);
        command.env(ROLE, role).envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            command.gid(group);
        }
        let mut process = command.spawn().expect("the program of the test");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Peer {
            group,
            input: process.stdin.take().expect("a pipe"),
            process,
            lines,
        }
    }

    /// The next line with this mark that it prints, without the mark; `None` if it has ended.
    pub fn line(&mut self, mark: &str) -> Option<String> {
        loop {
            let line = self.lines.next()?.expect("a line");
            if let Some(rest) = line.strip_prefix(mark) {
                return Some(rest.to_owned());
            }
        }
    }

    /// How it has ended.
    pub fn end(mut self) -> std::process::ExitStatus {
        self.process.wait().expect("a child")
    }

    /// Lets it continue where it waits in [`wait_for_parent`].
    pub fn proceed(&mut self) {
        self.input.write_all(b"\n").expect("it waits");
    }

    /// Sends it a signal, if it has not ended.
    pub fn signal(&mut self, signal: rustix::process::Signal) {
        if self.process.try_wait().expect("a child").is_none() {
            let pid = rustix::process::Pid::from_child(&self.process);
            rustix::process::kill_process(pid, signal).expect("it runs");
        }
    }

    /// Drops what it sends to all ports, or to one, until what this returns is dropped.
    pub fn partition(&self, port: Option<u16>) -> Partition {
        Partition::new(self.process.id(), self.group, port)
    }
}

/// Waits in a peer until its parent calls [`Peer::proceed`].
pub fn wait_for_parent() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the parent");
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What [`Peer::start`] asks of this process.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Runs `rbd` on the cluster of this client.
pub fn rbd(arguments: &[&str]) -> String {
    run_on_cluster("rbd", arguments)
}

/// Runs `ceph` on the cluster of this client.
pub fn ceph(arguments: &[&str]) -> String {
    run_on_cluster("ceph", arguments)
}

fn run_on_cluster(program: &str, arguments: &[&str]) -> String {
    let printed = crate::program::run(Command::new(program).args(arguments));
    printed.expect(program).out
}

/// The OSD that has an object of the pool `rbd`.
pub fn osd_of(object: &str) -> u64 {
    let place = ceph(&["osd", "map", "rbd", object, "--format", "json"]);
    let place: serde_json::Value = serde_json::from_str(&place).expect("JSON");
    place["acting_primary"].as_u64().expect("an OSD")
}

/// The port of an OSD.
pub fn port_of(osd: u64) -> u16 {
    let found = ceph(&["osd", "find", &osd.to_string(), "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    let address = found["addrs"]["addrvec"][0]["addr"].as_str();
    let port = address.and_then(|address| address.rsplit(':').next());
    port.and_then(|port| port.parse().ok()).expect("a port")
}

/// The id of an image of the pool `rbd`, which is part of the names of its objects.
pub fn id_of(image: &str) -> String {
    let info = rbd(&["info", image, "--format", "json"]);
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    info["id"].as_str().expect("an id").to_owned()
}

/// Makes an image of so many bytes, of objects of 64 KiB, in the pool `rbd`; returns its name there.
pub fn new_image(bytes: u64) -> String {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("image-{}-{number}", std::process::id());
    let size = format!("{bytes}B");
    rbd(&["create", &name, "--size", &size, "--object-size", "64K"]);
    name
}

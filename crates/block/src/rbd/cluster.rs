//! The connection to a cluster, with the configuration that Ceph's own commands find.

use super::address::RbdAddress;
use super::librbd::{Cluster, Pool};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// Options of Ceph's commands, separated by spaces.
const ARGUMENTS: &str = "CEPH_ARGS";
/// For how long an owner stays blocklisted whose lock was broken: ten years.
pub const BLOCKLIST_SECONDS: u32 = 10 * 365 * 24 * 60 * 60;
/// Options that must be in effect for an image that is written, and their values; of those without one the value depends on the connection.
///
/// A cache of librbd has writes that are not durable; a persistent one would make them durable on this host alone. Without a copy a
/// request that is late would send what its memory has by then.
pub const OPTIONS: [(&str, Option<&str>); 6] = [
    ("rbd_cache", Some("false")),
    ("rbd_plugins", Some("")),
    ("rbd_persistent_cache_mode", Some("disabled")),
    ("rbd_disable_zero_copy_writes", Some("true")),
    ("rbd_blocklist_on_break_lock", None),
    ("rbd_blocklist_expire_seconds", None),
];
const ENOENT: i32 = 2;
const ETIMEDOUT: i32 = 110;
/// For how long the monitors are waited for, in seconds: an option, its default, and the value here.
const CONNECT: (&str, f64, &str) = ("client_mount_timeout", 300.0, "30");
const OSD_TIMEOUT: &str = "rados_osd_op_timeout";
/// For how long an answer is waited for, which is forever by default. Longer than a cluster takes to replace an OSD.
const ANSWERS: [(&str, f64, &str); 2] = [
    (OSD_TIMEOUT, 0.0, "60"),
    ("rados_mon_op_timeout", 0.0, "60"),
];

/// What the arguments say of the client itself.
#[derive(Debug, PartialEq, Eq)]
struct Client {
    cluster: String,
    name: String,
    config: Option<String>,
}

impl Client {
    fn of(arguments: &[String]) -> Client {
        let mut client = Client {
            cluster: "ceph".to_owned(),
            name: "client.admin".to_owned(),
            config: None,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (option, value) = match argument.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let mut value = || value.clone().or_else(|| rest.next().cloned());
            match option {
                "--cluster" => client.cluster = value().unwrap_or(client.cluster),
                "--id" | "--user" => {
                    client.name = value().map_or(client.name, |id| format!("client.{id}"));
                }
                "--name" | "-n" => client.name = value().unwrap_or(client.name),
                "--conf" | "-c" => client.config = value(),
                _ => {}
            }
        }
        client
    }
}

/// Whether librbd blocklists an owner whose lock it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaking {
    /// It does, without practical expiry. librbd 16 can't, and leaves the lock as it is.
    Blocklists,
    /// The owner was blocklisted before.
    AfterBlocklisting,
}

/// Connects to the cluster and opens a pool.
///
/// # Errors
/// librbd is not installed; the cluster can't be reached; no such pool.
pub fn connect(address: &RbdAddress, breaking: Breaking) -> io::Result<Arc<Pool>> {
    let variable = std::env::var(ARGUMENTS).unwrap_or_default();
    let mut arguments = vec!["uext4".to_owned()];
    arguments.extend(variable.split_whitespace().map(str::to_owned));
    let client = Client::of(&arguments);
    let cluster = Cluster::new(&client.cluster, &client.name)?;
    match cluster.read_config(client.config.as_deref()) {
        // The arguments may say all that is needed.
        Err(e) if client.config.is_none() && e.raw_os_error() == Some(ENOENT) => {}
        read => read.map_err(|e| io::Error::new(e.kind(), format!("Ceph's configuration: {e}")))?,
    }
    cluster.parse_arguments(&arguments)?;
    for (option, value) in OPTIONS {
        let Some(value) = value else { continue };
        match cluster.set(option, value) {
            // librbd has no such option.
            Err(e) if e.raw_os_error() == Some(ENOENT) => {}
            set => set?,
        }
    }
    // librbd itself breaks the lock of an owner that dies between two checks. What it blocklists without a time expires after an hour, even
    // if the cluster had it for longer.
    let blocklists = breaking == Breaking::Blocklists;
    let seconds = BLOCKLIST_SECONDS.to_string();
    cluster.set("rbd_blocklist_on_break_lock", &blocklists.to_string())?;
    cluster.set("rbd_blocklist_expire_seconds", &seconds)?;
    for (option, default, value) in ANSWERS.iter().chain([&CONNECT]) {
        if cluster.get(option)?.parse() == Ok(*default) {
            cluster.set(option, value)?;
        }
    }
    cluster.connect().map_err(|e| unreachable_cluster(&e))?;
    let pool = Pool::open(cluster, &address.pool, address.namespace.as_deref());
    pool.map(Arc::new).map_err(|e| match e.raw_os_error() {
        Some(ENOENT) => {
            let why = format!(
                "the cluster has not a pool {}; `ceph osd pool ls` lists those that it has",
                address.pool
            );
            io::Error::new(ErrorKind::NotFound, why)
        }
        _ => e,
    })
}

/// For how long an answer of an OSD is waited for, or the lock of an image.
///
/// # Errors
/// The cluster's.
pub fn answer_timeout(cluster: &Cluster) -> io::Result<Duration> {
    let seconds = cluster
        .get(OSD_TIMEOUT)?
        .parse()
        .map_err(io::Error::other)?;
    Duration::try_from_secs_f64(seconds).map_err(io::Error::other)
}

fn unreachable_cluster(e: &io::Error) -> io::Error {
    let why = match e.raw_os_error() {
        Some(ENOENT) => {
            "Ceph's configuration names no monitors, or has no key; CEPH_CONF names its file"
        }
        Some(ETIMEDOUT) => "no monitor of the cluster answers",
        _ => "the cluster can't be reached",
    };
    io::Error::new(e.kind(), format!("{why}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_other_commands() {
        let of = |text: &str| {
            let arguments: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            let client = Client::of(&arguments);
            (client.cluster, client.name, client.config)
        };
        let admin = ("ceph".to_owned(), "client.admin".to_owned(), None);
        assert_eq!(of(""), admin);
        assert_eq!(of("--mon-host a --id"), admin);
        let user = ("ceph".to_owned(), "client.u".to_owned(), None);
        assert_eq!(of("--id u"), user);
        assert_eq!(of("--user=u"), user);
        assert_eq!(of("--x=y -n client.u"), user);
        let other = (
            "c".to_owned(),
            "client.admin".to_owned(),
            Some("/f".to_owned()),
        );
        assert_eq!(of("--conf=/f --cluster c"), other);
    }
}

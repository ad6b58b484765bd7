//! A process that the network cuts off: what it sends is dropped, and arrives late once TCP sends it again.

use crate::external::*;

/// Drops packets of a process until it is dropped.
#[derive(Debug)]
pub struct Partition {
    rules: Vec<Vec<String>>,
}

/// Whether this process may drop packets of others; if not, prints that the test is skipped.
pub fn can_partition() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let can = is_root && iptables("-S", &[]).is_ok();
    if !can {
        eprintln!("skipped: needs root and iptables");
    }
    can
}

impl Partition {
    /// Of the process `pid`, which alone is in `group`: its connections on the loopback interface, or those to a port.
    pub(crate) fn new(pid: u32, group: u32, port: Option<u16>) -> Partition {
        // Connections that are closed while something is on its way have no owner.
        let ports = connections(pid).into_iter();
        let ports = ports.filter(|(_, remote)| port.is_none_or(|port| port == *remote));
        let mut rules: Vec<Vec<String>> = ports
            .map(|(local, remote)| {
                let (local, remote) = (local.to_string(), remote.to_string());
                words(&["-p", "tcp", "--sport", &local, "--dport", &remote])
            })
            .collect();
        let mut all = words(&[
            "-p",
            "tcp",
            "-m",
            "owner",
            "--gid-owner",
            &group.to_string(),
        ]);
        if let Some(port) = port {
            all.extend(words(&["--dport", &port.to_string()]));
        }
        rules.push(all);
        for rule in &rules {
            iptables("-I", rule).expect("iptables");
        }
        Partition { rules }
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        for rule in &self.rules {
            iptables("-D", rule).expect("iptables");
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn iptables(action: &str, rule: &[String]) -> Result<()> {
    let mut command = Command::new("iptables");
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    command.args(["-w", action, "OUTPUT"]);
    if !rule.is_empty() {
        command.args(["-o", "lo"]).args(rule).args(["-j", "DROP"]);
    }
    crate::program::run(&mut command).map(|_| ())
}

/// The local and the remote port of each TCP connection of a process, by IPv4.
fn connections(pid: u32) -> Vec<(u16, u16)> {
    let dir = fs::read_dir(format!("/proc/{pid}/fd")).expect("its files");
    let links = dir.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let sockets: HashSet<String> = links
        .filter_map(|link| {
            let name = link.to_str()?.strip_prefix("socket:[")?;
            Some(name.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("its connections");
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    let connection = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_its = sockets.contains(*fields.get(9)?);
        is_its.then_some((port(fields[1])?, port(fields[2])?))
    };
    table.lines().filter_map(connection).collect()
}

//! Statistics of a mount for Prometheus, over HTTP.
//!
//! Each request reads the server's statistics anew. The names of metrics and labels do not change; counters begin at
//! the mount.

use crate::failure::Failure;
use crate::stats;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// The most bytes of a request that are read.
const REQUEST_BYTES_MAX: u64 = 8 << 10;

/// Time limit of a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// A listening port.
pub struct Metrics(TcpListener);

impl Metrics {
    /// Listens at `address`, which must be a loopback address because every client is answered.
    ///
    /// # Errors
    /// The address is not loopback, or is in use.
    pub fn bind(address: SocketAddr) -> Result<Metrics, Failure> {
        check_loopback(address).map_err(Failure::new)?;
        let listener = TcpListener::bind(address)
            .map_err(|e| Failure::new(format_args!("--metrics {address}: {e}")))?;
        Ok(Metrics(listener))
    }

    /// The address at which it listens.
    ///
    /// # Errors
    /// The host's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers requests in a thread of its own until the process ends.
    pub fn serve(self, dir: PathBuf) {
        thread::spawn(move || {
            for client in self.0.incoming() {
                match client {
                    // Fails if the client has gone away.
                    Ok(client) => drop(answer(&client, || {
                        stats::read(&dir).map_err(|e| e.to_string())
                    })),
                    // Too many files are open; a later client may succeed.
                    Err(_) => thread::sleep(PATIENCE),
                }
            }
        });
    }
}

/// Reads a client's request within a time limit: a slow client delays the others.
struct Until<'a> {
    client: &'a TcpStream,
    end: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.client.set_read_timeout(Some(left))?;
        (&mut &*self.client).read(into)
    }
}

/// Answers one request and closes the connection.
fn answer(client: &TcpStream, document: impl FnOnce() -> Result<Value, String>) -> io::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    let until = Until {
        client,
        end: Instant::now() + PATIENCE,
    };
    let mut lines = BufReader::new(until.take(REQUEST_BYTES_MAX)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // The rest is read, so that closing does not cut off the answer.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics" | "/")) => match document() {
            Ok(document) => ("200 OK", prometheus(&document)),
            Err(e) => ("503 Service Unavailable", format!("{e}\n")),
        },
        (Some("GET"), _) => ("404 Not Found", "it is /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut client = client;
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

/// The statistics in Prometheus's text format.
pub fn prometheus(document: &Value) -> String {
    let image = document["image"].as_str().unwrap_or_default();
    let mut out = Exposition {
        text: String::new(),
        image: format!("image=\"{}\"", escaped(image)),
    };
    let uptime = [(vec![], document["uptime_s"].as_f64())];
    let head = "uext4_uptime_seconds gauge How long it has been mounted.";
    out.metric(head, uptime);
    operations(&mut out, &document["operations"]);
    for what in ["commit", "checkpoint"] {
        let name = format!("uext4_journal_{what}");
        durations(
            &mut out,
            &name,
            &format!("{what} of the journal"),
            &document["journal"][what],
        );
    }
    remote(&mut out, &document["remote"]);
    locks(&mut out, &document["locks"]);
    let mut values = Vec::new();
    numbers(&document["cache"], &mut String::new(), &mut values);
    let values = values
        .iter()
        .map(|(name, n)| (vec![("value", &**name)], Some(*n)));
    let head = "uext4_cache gauge What caches hold, and what became of look-ups in them.";
    out.metric(head, values);
    out.text
}

/// The text of metrics so far.
struct Exposition {
    text: String,
    /// The label that every sample has.
    image: String,
}

impl Exposition {
    /// Writes a metric, whose `head` is its name, type and description, with those samples that have a value.
    fn metric<'a>(
        &mut self,
        head: &str,
        samples: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, Option<f64>)>,
    ) {
        let name = head.split(' ').next().unwrap_or_default();
        let mut unwritten = Some(head);
        for (labels, value) in samples {
            let Some(value) = value else { continue };
            if let Some(head) = unwritten.take() {
                self.head(head);
            }
            self.sample(name, &labels, value);
        }
    }

    fn head(&mut self, head: &str) {
        let mut parts = head.splitn(3, ' ');
        let [name, kind, help] = [(); 3].map(|()| parts.next().unwrap_or_default());
        // Writing to a string does not fail, here and below.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.text, "{name}{{{}", self.image);
        for (label, of) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", escaped(of));
        }
        let _ = writeln!(self.text, "}} {value}");
    }
}

fn operations(out: &mut Exposition, operations: &Value) {
    let operations = || operations.as_object().into_iter().flatten();
    let label = |name| ("operation", String::as_str(name));
    for (head, field, unit) in [
        (
            "uext4_operations_total counter Requests of the kernel.",
            "count",
            1.0,
        ),
        (
            "uext4_operation_errors_total counter Those that failed.",
            "errors",
            1.0,
        ),
        (
            "uext4_operation_seconds_total counter How long they took together.",
            "total_us",
            1e6,
        ),
    ] {
        let value = |of: &Value| of[field].as_f64().map(|value| value / unit);
        out.metric(
            head,
            operations().map(|(name, of)| (vec![label(name)], value(of))),
        );
    }
    let failures = operations().flat_map(|(name, of)| {
        let failures = of["failures"].as_object().into_iter().flatten();
        failures.map(move |(errno, n)| (vec![label(name), ("errno", errno)], n.as_f64()))
    });
    let head = "uext4_operation_failures_total counter Requests that failed, by error number.";
    out.metric(head, failures);
    let latencies = operations().flat_map(|(name, of)| {
        [("0.5", "p50"), ("0.99", "p99")].map(|(quantile, field)| {
            let seconds = of["latency_us"][field].as_f64().map(|us| us / 1e6);
            (vec![label(name), ("quantile", quantile)], seconds)
        })
    });
    let head = "uext4_operation_latency_seconds gauge How long they took.";
    out.metric(head, latencies);
}

/// What the client of a server did that has the image.
fn remote(out: &mut Exposition, remote: &Value) {
    durations(
        out,
        "uext4_remote_flush",
        "flush of the server",
        &remote["flush"],
    );
    let lease = remote["lease"].as_str();
    let held = lease.map(|state| (vec![("state", state)], Some(1.0)));
    let head = "uext4_remote_lease gauge Whether this host has the right to write the image: held, not held, lost.";
    out.metric(head, held);
    let mut values = Vec::new();
    let mut rest = remote.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("flush");
    }
    numbers(&rest, &mut String::new(), &mut values);
    let values = values
        .iter()
        .map(|(name, n)| (vec![("value", &**name)], Some(*n)));
    let head =
        "uext4_remote gauge Epoch, root, connections and caches of the client of the server.";
    out.metric(head, values);
}

/// Durations, as a histogram and its maximum; `what` is what took so long.
fn durations(out: &mut Exposition, name: &str, what: &str, durations: &Value) {
    let Some(buckets) = durations["buckets"].as_array() else {
        return;
    };
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let seconds = |value: &Value| number(value) / 1e6;
    let longest = format!("{name}_max_seconds gauge How long the longest {what} took.");
    let name = format!("{name}_seconds");
    out.head(&format!("{name} histogram How long each {what} took."));
    let (bucket_name, mut count) = (format!("{name}_bucket"), 0.0);
    for bucket in buckets {
        count += number(&bucket["count"]);
        let bound = seconds(&bucket["up_to_us"]).to_string();
        out.sample(&bucket_name, &[("le", &bound)], count);
    }
    let count = number(&durations["count"]);
    out.sample(&bucket_name, &[("le", "+Inf")], count);
    out.sample(&format!("{name}_sum"), &[], seconds(&durations["total_us"]));
    out.sample(&format!("{name}_count"), &[], count);
    out.metric(&longest, [(vec![], Some(seconds(&durations["max_us"])))]);
}

/// Locks are counted only if that was requested.
fn locks(out: &mut Exposition, locks: &Value) {
    let locks = locks.as_array().into_iter().flatten();
    let mut values = Vec::new();
    for lock in locks {
        let Some(class) = lock["class"].as_str() else {
            continue;
        };
        let mut labels = vec![("class", class)];
        labels.extend(lock["mode"].as_str().map(|mode| ("mode", mode)));
        let mut of_class = Vec::new();
        numbers(lock, &mut String::new(), &mut of_class);
        values.extend(
            of_class
                .into_iter()
                .map(|(name, n)| (labels.clone(), name, n)),
        );
    }
    let samples = values.iter().map(|(labels, name, n)| {
        let labels = labels.iter().copied().chain([("value", name.as_str())]);
        (labels.collect(), Some(*n))
    });
    out.metric("uext4_lock gauge What locks cost, by class.", samples);
}

/// Every number in a document, by its path.
fn numbers(value: &Value, path: &mut String, found: &mut Vec<(String, f64)>) {
    if let (Some(number), false) = (value.as_f64(), path.is_empty()) {
        found.push((path.clone(), number));
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let before = path.len();
        if before > 0 {
            path.push('_');
        }
        path.push_str(name);
        numbers(value, path, found);
        path.truncate(before);
    }
}

fn escaped(label: &str) -> String {
    let label = label.replace('\\', "\\\\").replace('"', "\\\"");
    label.replace('\n', "\\n")
}

/// Checks an address before anything is started.
///
/// # Errors
/// It is not an address, or not a loopback address.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| format!("'{text}' is not an address and port, such as 127.0.0.1:9464"))?;
    check_loopback(address)
}

fn check_loopback(address: SocketAddr) -> Result<SocketAddr, String> {
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(format!(
            "{address} is not an address of this machine alone; give one such as 127.0.0.1:9464"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        serde_json::json!({
            "image": "/tmp/a\"b.img",
            "uptime_s": 1.5,
            "operations": {
                "lookup": {
                    "count": 3, "errors": 1, "failures": {"ENOENT": 1}, "total_us": 2e6,
                    "latency_us": {"p50": 10, "p99": 2000}
                }
            },
            "journal": {"commit": {
                "count": 4, "total_us": 3e6, "max_us": 2e6,
                "buckets": [{"up_to_us": 16, "count": 1}, {"up_to_us": 64, "count": 2}]
            }},
            "remote": {
                "kind": "objects", "lease": "held", "epoch": 3, "root": 17,
                "flush": {"count": 2, "total_us": 5e5, "max_us": 4e5, "buckets": [{"up_to_us": 262144, "count": 1}]},
                "cache": {"memory_hits": 9, "disk_hits": 2, "misses": 1}
            },
            "locks": [{"class": "inode_state", "contended": 7}],
            "cache": {"inodes": {"hits": 5}}
        })
    }

    #[test]
    fn text_has_every_number() {
        let text = prometheus(&document());
        for line in [
            r#"uext4_uptime_seconds{image="/tmp/a\"b.img"} 1.5"#,
            r#"uext4_operations_total{image="/tmp/a\"b.img",operation="lookup"} 3"#,
            r#"uext4_operation_errors_total{image="/tmp/a\"b.img",operation="lookup"} 1"#,
            r#"uext4_operation_failures_total{image="/tmp/a\"b.img",operation="lookup",errno="ENOENT"} 1"#,
            "# TYPE uext4_journal_commit_seconds histogram",
            r#"uext4_journal_commit_seconds_bucket{image="/tmp/a\"b.img",le="0.000064"} 3"#,
            r#"uext4_journal_commit_seconds_bucket{image="/tmp/a\"b.img",le="+Inf"} 4"#,
            r#"uext4_journal_commit_seconds_sum{image="/tmp/a\"b.img"} 3"#,
            r#"uext4_journal_commit_max_seconds{image="/tmp/a\"b.img"} 2"#,
            r#"uext4_operation_seconds_total{image="/tmp/a\"b.img",operation="lookup"} 2"#,
            r#"uext4_operation_latency_seconds{image="/tmp/a\"b.img",operation="lookup",quantile="0.99"} 0.002"#,
            r#"uext4_remote_lease{image="/tmp/a\"b.img",state="held"} 1"#,
            r#"uext4_remote{image="/tmp/a\"b.img",value="root"} 17"#,
            r#"uext4_remote{image="/tmp/a\"b.img",value="cache_disk_hits"} 2"#,
            r#"uext4_remote_flush_seconds_bucket{image="/tmp/a\"b.img",le="0.262144"} 1"#,
            r#"uext4_remote_flush_seconds_count{image="/tmp/a\"b.img"} 2"#,
            r#"uext4_remote_flush_max_seconds{image="/tmp/a\"b.img"} 0.4"#,
            r#"uext4_lock{image="/tmp/a\"b.img",class="inode_state",value="contended"} 7"#,
            r#"uext4_cache{image="/tmp/a\"b.img",value="inodes_hits"} 5"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert_eq!(prometheus(&Value::Null), "");
    }

    #[test]
    fn only_loopback_is_listened_to() {
        assert!(Metrics::bind("0.0.0.0:0".parse().unwrap()).is_err());
        assert!(Metrics::bind("[::]:0".parse().unwrap()).is_err());
        assert!(parse_address("10.0.0.1:80").is_err());
        assert!(parse_address("localhost").is_err());
        assert!(parse_address("[::1]:80").is_ok());
    }

    #[test]
    fn http() {
        let ask = |request: &str| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.write_all(request.as_bytes()).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let (server, _) = listener.accept().unwrap();
            answer(&server, || Ok(document())).unwrap();
            drop(server);
            let mut said = String::new();
            client.read_to_string(&mut said).unwrap();
            said
        };
        let said = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
        assert!(said.contains("uext4_operations_total{"), "{said}");
        assert!(ask("GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask("POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }
}

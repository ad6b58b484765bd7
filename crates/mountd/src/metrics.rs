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
    let mut text = String::new();
    let image = document["image"].as_str().unwrap_or_default();
    let mount = format!("image=\"{}\"", escaped(image));
    if let Some(seconds) = document["uptime_s"].as_f64() {
        let head = (
            "uext4_uptime_seconds",
            "gauge",
            "How long it has been mounted.",
        );
        metric(&mut text, head, [(mount.clone(), seconds)]);
    }
    operations(&mut text, document, &mount);
    journal(&mut text, &document["journal"], &mount);
    locks(&mut text, document, &mount);
    let mut values = Vec::new();
    numbers(&document["cache"], &mut String::new(), &mut values);
    let head = (
        "uext4_cache",
        "gauge",
        "What caches hold, and what became of look-ups in them.",
    );
    let with_label = |(name, value)| (format!("{mount},value=\"{}\"", escaped(name)), value);
    let values = values
        .iter()
        .map(|(name, value)| with_label((name.as_str(), *value)));
    metric(&mut text, head, values);
    text
}

fn operations(text: &mut String, document: &Value, mount: &str) {
    let Some(operations) = document["operations"].as_object() else {
        return;
    };
    let each = |field: fn(&Value) -> Option<f64>| {
        operations.iter().filter_map(move |(name, operation)| {
            let labels = format!("{mount},operation=\"{}\"", escaped(name));
            Some((labels, field(operation)?))
        })
    };
    let head = (
        "uext4_operations_total",
        "counter",
        "Requests of the kernel.",
    );
    metric(text, head, each(|operation| operation["count"].as_f64()));
    let head = (
        "uext4_operation_errors_total",
        "counter",
        "Those that failed.",
    );
    metric(text, head, each(|operation| operation["errors"].as_f64()));
    let head = (
        "uext4_operation_seconds_total",
        "counter",
        "How long they took together.",
    );
    metric(
        text,
        head,
        each(|operation| Some(operation["total_us"].as_f64()? / 1e6)),
    );
    let failures = operations.iter().flat_map(|(name, operation)| {
        let failures = operation["failures"].as_object().into_iter().flatten();
        failures.filter_map(move |(errno, count)| {
            let labels = format!("{mount},operation=\"{}\",errno=\"{errno}\"", escaped(name));
            Some((labels, count.as_f64()?))
        })
    });
    let head = (
        "uext4_operation_failures_total",
        "counter",
        "Requests that failed, by error number.",
    );
    metric(text, head, failures);
    let quantiles = [("0.5", "p50"), ("0.99", "p99")];
    let latencies = operations.iter().flat_map(|(name, operation)| {
        quantiles.iter().filter_map(move |(quantile, field)| {
            let seconds = operation["latency_us"][field].as_f64()? / 1e6;
            let labels = format!(
                "{mount},operation=\"{}\",quantile=\"{quantile}\"",
                escaped(name)
            );
            Some((labels, seconds))
        })
    });
    let head = (
        "uext4_operation_latency_seconds",
        "gauge",
        "How long they took.",
    );
    metric(text, head, latencies);
}

/// The durations of commits and checkpoints as histograms.
fn journal(text: &mut String, journal: &Value, mount: &str) {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    for what in ["commit", "checkpoint"] {
        let durations = &journal[what];
        let Some(buckets) = durations["buckets"].as_array() else {
            continue;
        };
        let name = format!("uext4_journal_{what}_seconds");
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "# HELP {name} How long each {what} of the journal took.\n# TYPE {name} histogram\n"
        );
        let mut count = 0.0;
        for bucket in buckets {
            count += number(&bucket["count"]);
            let bound = number(&bucket["up_to_us"]) / 1e6;
            let _ = writeln!(text, "{name}_bucket{{{mount},le=\"{bound}\"}} {count}");
        }
        let (count, sum) = (number(&durations["count"]), number(&durations["total_us"]));
        let _ = writeln!(text, "{name}_bucket{{{mount},le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{{mount}}} {}", sum / 1e6);
        let _ = writeln!(text, "{name}_count{{{mount}}} {count}");
        let head = (
            format!("uext4_journal_{what}_max_seconds"),
            format!("How long the longest {what} took."),
        );
        let max = [(mount.to_owned(), number(&durations["max_us"]) / 1e6)];
        metric(text, (&head.0, "gauge", &head.1), max);
    }
}

/// Locks are counted only if that was requested.
fn locks(text: &mut String, document: &Value, mount: &str) {
    let locks = document["locks"].as_array().into_iter().flatten();
    let mut values = Vec::new();
    for lock in locks {
        let Some(class) = lock["class"].as_str().or(lock["name"].as_str()) else {
            continue;
        };
        let mut of_class = Vec::new();
        numbers(lock, &mut String::new(), &mut of_class);
        let mut labels = format!("{mount},class=\"{}\"", escaped(class));
        if let Some(mode) = lock["mode"].as_str() {
            let _ = write!(labels, ",mode=\"{}\"", escaped(mode));
        }
        values.extend(of_class.into_iter().map(|(name, value)| {
            let labels = format!("{labels},value=\"{}\"", escaped(&name));
            (labels, value)
        }));
    }
    let head = ("uext4_lock", "gauge", "What locks cost, by class.");
    metric(text, head, values);
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

fn metric(
    text: &mut String,
    (name, kind, help): (&str, &str, &str),
    values: impl IntoIterator<Item = (String, f64)>,
) {
    let mut values = values.into_iter().peekable();
    if values.peek().is_none() {
        return;
    }
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{{{labels}}} {value}");
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

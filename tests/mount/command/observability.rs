//! What a mount reports of its requests and its journal: statistics, metrics, spans.

use super::MountedImage;
use std::net::{SocketAddr, TcpListener, TcpStream};
use uext4_testkit::prelude::*;

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// The samples, name and labels apart from the value, after a check of the format.
fn samples(address: SocketAddr) -> Vec<(String, f64)> {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (_, text) = answer.split_once("\r\n\r\n").unwrap();
    let (mut helped, mut typed, mut samples) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["#", "HELP", name, _, ..] => assert!(helped.insert(name), "{line}"),
            ["#", "TYPE", name, "counter" | "gauge" | "histogram"] => {
                assert!(helped.contains(name) && typed.insert(name), "{line}");
            }
            _ => {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let (name, labels) = series.split_once('{').unwrap();
                let parts = ["_bucket", "_sum", "_count"];
                let of_histogram = parts.iter().find_map(|part| name.strip_suffix(part));
                assert!(typed.contains(name) || typed.contains(of_histogram.unwrap()));
                assert!(labels.ends_with("\"}") && labels.matches('"').count().is_multiple_of(2));
                samples.push((series.to_owned(), value.parse().unwrap()));
            }
        }
    }
    let series: BTreeSet<_> = samples.iter().map(|(series, _)| series).collect();
    assert_eq!(series.len(), samples.len(), "a series is there twice");
    samples
}

/// A request that fails, as the directory is not empty.
fn fail_to_remove(mounted: &MountedImage) {
    let dir = mounted.path("mnt/dir");
    fs::create_dir_all(dir.join("inner")).unwrap();
    fs::remove_dir(dir).unwrap_err();
}

#[test]
fn metrics_over_http() {
    let Some(mounted) = MountedImage::new() else {
        return;
    };
    let address = free_address();
    let metrics = ["--lock-stat", "--metrics", &address.to_string()];
    mounted.ok(&[&["mount", "a.img", "mnt"][..], &metrics].concat());
    fs::write(mounted.path("mnt/x"), b"x").unwrap();
    File::open(mounted.path("mnt/x"))
        .unwrap()
        .sync_all()
        .unwrap();
    fail_to_remove(&mounted);
    let samples = samples(address);
    let value = |name: &str, label: &str| {
        let mut found = samples
            .iter()
            .filter(|(series, _)| series.starts_with(&format!("{name}{{")));
        found.find(|(series, _)| series.contains(label)).unwrap().1
    };
    assert!(value("uext4_operations_total", "operation=\"lookup\"") >= 1.0);
    let not_empty = "operation=\"rmdir\",errno=\"ENOTEMPTY\"";
    assert_eq!(value("uext4_operation_failures_total", not_empty), 1.0);
    value("uext4_lock", "");
    let commits = value("uext4_journal_commit_seconds_count", "");
    assert!(commits >= 1.0);
    let last = value("uext4_journal_commit_seconds_bucket", "le=\"+Inf\"");
    assert_eq!(last, commits);
    let longest = value("uext4_journal_commit_max_seconds", "");
    assert!(0.0 < longest && longest <= value("uext4_journal_commit_seconds_sum", ""));
    let stats = mounted.stats();
    let rmdir = &stats["operations"]["rmdir"];
    assert_eq!(rmdir["failures"]["ENOTEMPTY"], 1, "{rmdir}");
    let commit = &stats["journal"]["commit"];
    assert!(commit["count"].as_f64() >= Some(commits), "{commit}");
    mounted.ok(&["umount", "mnt"]);
    mounted.assert_clean();
}

#[test]
fn spans_of_requests_are_reported_on_request() {
    let Some(mounted) = MountedImage::new() else {
        return;
    };
    for (level, reported) in [("debug", true), ("info", false)] {
        let mut command = mounted.command(&["mount", "-f", "a.img", "mnt"]);
        let mut child = mounted.started(command.env("UEXT4_LOG", level));
        fail_to_remove(&mounted);
        mounted.ok(&["umount", "mnt"]);
        let mut said = String::new();
        let stderr = child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{said}");
        let span = "fuse operation=rmdir inode=2 errno=ENOTEMPTY took ";
        assert_eq!(said.contains(span), reported, "{said}");
    }
}

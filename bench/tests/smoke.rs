//! Every workload for a blink, with all variants: that it runs, that its image is clean (checked inside), and
//! that its JSON has the keys of docs/BENCHMARKS.md. Never how fast.

use serde_json::Value;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

type Run = fn(Vec<OsString>, &mut dyn Write) -> anyhow::Result<()>;

/// One runs at a time: lock statistics are for the whole process.
static RUN: Mutex<Run> = Mutex::new(uext4_bench::run_to);

const SMALL: &str = "--image-size 128M --journal-size 8M";

/// Runs a command line after `uext4 bench`.
fn print(line: &str) -> anyhow::Result<String> {
    let run = RUN.lock().unwrap_or_else(|broken| broken.into_inner());
    let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let mut out = Vec::new();
    run(args, &mut out)?;
    Ok(String::from_utf8(out)?)
}

fn json(workload: &str, args: &str) -> Value {
    let text = print(&format!("{workload} {args} --json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["benchmark"], workload);
    assert!(document["host"]["cpus"].as_u64().unwrap() > 0);
    assert!(document["peak_resident_bytes"].as_u64().unwrap() > 0);
    for row in rows(&document) {
        assert!(row["arm"].is_string() && row["op"].is_string(), "{row}");
        assert!(row["threads"].as_u64().unwrap() > 0, "{row}");
        assert!(row["ops"].is_u64() && row["seconds"].is_f64(), "{row}");
        for key in ["min", "median", "max"] {
            assert!(row["ops_per_s"][key].is_f64(), "{row}");
        }
        assert!(row["resident_bytes"].is_u64(), "{row}");
        // Where there is no journal, nothing is said of it.
        let keys = ["commits", "journal_bytes", "checkpoint_bytes"];
        let said = keys.map(|key| row[key].is_u64());
        let has_journal = ["mdtest", "create-unlink"].contains(&workload);
        assert!(
            said == [true; 3] || said == [false; 3] && !has_journal,
            "{row}"
        );
        for lock in row["locks"].as_array().unwrap() {
            assert!(lock["class"].is_string(), "{lock}");
            for key in ["acquisitions", "contended", "wait_us", "hold_us"] {
                assert!(lock[key].is_u64(), "{lock}");
            }
        }
        for stage in row["stages"].as_array().unwrap() {
            assert!(stage["stage"].is_string() && stage["calls"].is_u64());
        }
    }
    assert_comparable(&document);
    document
}

/// Every document can be compared, here with itself.
fn assert_comparable(document: &Value) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("result.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let text = print(&format!("compare {file} {file} --json")).unwrap();
    let compared: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(rows(&compared).len(), rows(document).len());
    for row in rows(&compared) {
        assert_eq!(row["verdict"], "within", "{row}");
        assert_eq!(row["section"], document["benchmark"]);
    }
}

/// The values of a key of all rows.
fn strings(document: &Value, key: &str) -> String {
    let all = rows(document).iter().map(|row| row[key].as_str().unwrap());
    all.collect::<Vec<_>>().join(" ")
}

fn rows(document: &Value) -> &[Value] {
    document["rows"].as_array().unwrap()
}

fn assert_latency(row: &Value) {
    let us = |key| row["latency_us"][key].as_f64().unwrap();
    let all = ["p10", "p50", "p90", "p99", "p999", "p9999", "max"].map(us);
    assert!(all.is_sorted(), "{row}");
}

#[test]
fn mdtest_with_all_variants() {
    let variants = "--ialloc all --icache all --lazytime all --lock-stat";
    let args = "--np 1,3 -n 20 -i 2 -F -C -T -r -u";
    let document = json("mdtest", &format!("{SMALL} {args} {variants}"));
    assert_eq!(rows(&document).len(), 2 * 30 * 3);
    for row in rows(&document) {
        assert_eq!(row["ops"], 20 * row["threads"].as_u64().unwrap());
        assert_eq!(row["iterations"], 2);
        if row["op"] == "create" {
            assert!(!row["locks"].as_array().unwrap().is_empty());
            let stages = row["stages"].as_array().unwrap();
            let create = stages.iter().find(|s| s["stage"] == "create").unwrap();
            assert_eq!(create["calls"], row["ops"]);
        }
    }
}

#[test]
fn mdtest_with_all_its_flags() {
    let args = "-N 2 -n 10 -i 1 -C -T -E -r -w 5000 -e -y -p 0.01 --inodes 4096";
    let mount = "--journal-delay access:10us --inodes-max 64 --commit-interval 20ms";
    let document = json("mdtest", &format!("{SMALL} {args} {mount}"));
    let want = "dir_create dir_stat dir_remove create stat read remove";
    assert_eq!(strings(&document, "op"), want);
    let delayed = |row: &Value| row["journal_delay"] == "access:10us";
    assert!(rows(&document).iter().all(delayed));
}

/// A journal that sleeps at each start sleeps for as long at least.
#[test]
fn mdtest_says_under_which_condition_it_ran() {
    let args = "--np 1 -n 20 -i 1 -F -C --lock-stat --ialloc all";
    for (delay, least_us) in [("none", 0.0), ("start:2ms", 2000.0), ("access:2ms", 2000.0)] {
        let document = json("mdtest", &format!("{SMALL} {args} --journal-delay {delay}"));
        for row in rows(&document) {
            assert_eq!(row["journal_delay"], delay);
            let stages = row["stages"].as_array().unwrap();
            let average_us = |name: &str| {
                let stage = stages.iter().find(|s| s["stage"] == name).unwrap();
                stage["total_us"].as_f64().unwrap() / stage["calls"].as_f64().unwrap()
            };
            assert!(average_us("journal start") >= least_us);
            let sleeps = average_us("journal write access") >= 2000.0;
            assert_eq!(sleeps, delay == "access:2ms", "{delay}");
        }
    }
}

#[test]
fn mdtest_with_a_part_of_its_phases() {
    for phase in ["-C", "-T", "-r"] {
        let document = json("mdtest", &format!("{SMALL} -N 2 -n 10 -i 2 -F {phase}"));
        assert_eq!(rows(&document).len(), 1);
    }
}

/// In one block all neighbours are written along with a file whose block has pending timestamps, in each variant.
#[test]
fn lazytime_with_all_variants() {
    let args = "--tasks 1,3 --files 512 --passes 2 -i 1 --icache all --lock-stat";
    let document = json("lazytime", &format!("{SMALL} {args}"));
    assert_eq!(rows(&document).len(), 5 * 2 * 2);
    let looked_up = |row: &Value| {
        let locks = row["locks"].as_array().unwrap();
        let found = locks.iter().find(|lock| lock["class"] == "icache");
        found.map_or(0, |lock| lock["acquisitions"].as_u64().unwrap())
    };
    for row in rows(&document).iter().filter(|row| row["threads"] == 1) {
        let (op, ops) = (row["op"].as_str().unwrap(), row["ops"].as_u64().unwrap());
        assert!(ops > 16, "{row}");
        let each = match (row["arm"].as_str().unwrap(), op) {
            ("per-bucket" | "global-hint", "write-settled") => 0,
            ("per-bucket" | "per-bucket-nohint", _) => 1,
            _ => 16,
        };
        assert_eq!(looked_up(row), each * ops, "{row}");
    }
}

#[test]
fn create_unlink_with_all_variants() {
    let common = format!("{SMALL} --tasks 1,5 --time 0.005 -i 1");
    let document = json("create-unlink", &format!("{common} --generation all"));
    assert_eq!(rows(&document).len(), 10 * 2);
    rows(&document).iter().for_each(assert_latency);
    let caches = "--icache all --lazytime off,on --lock-stat";
    let text = print(&format!("create-unlink {common} {caches}")).unwrap();
    let extra = "per-bucket/lazytime, 5 tasks: extra icache acquisitions per inode written";
    assert!(text.contains(extra), "{text}");
    assert!(text.contains("TOTAL"), "{text}");
}

#[test]
fn generation_with_all_variants() {
    let args = "--threads 1,3 --time 0.002 -i 1 --reuses 2^14 --widths 8,9 --lock-stat";
    let document = json("generation", args);
    assert_eq!(rows(&document).len(), 10 * 2);
    let repeats = document["repeats"].as_array().unwrap();
    assert_eq!(repeats.len(), 10 * 3);
    for row in repeats {
        assert!(row["expected"]["earlier_handle"].is_f64());
        if row["arm"] == "beyond" && row["width_bits"] != 32 {
            assert_eq!(row["measured"]["back_to_back"], 0);
        }
    }
}

#[test]
fn fsync_beside_a_peer() {
    let dir = tempfile::tempdir().unwrap();
    let peer = dir.path().display();
    let args = format!("{SMALL} --threads 1,3 --time 0.01 -i 1 --peer {peer}");
    let document = json("fsync", &args);
    assert_eq!(rows(&document).len(), 2 * 2);
    assert_eq!(rows(&document)[3]["arm"], "peer");
    rows(&document).iter().for_each(assert_latency);
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

/// A directory of the host; in memory, where syncing it waits for its own files only.
fn peer_dir() -> tempfile::TempDir {
    match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm").unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// The rows of the peer, from a run in a directory that it leaves empty. The peer has no journal and no locks.
fn peer_rows(workload: &str, args: &str) -> Vec<Value> {
    let dir = peer_dir();
    let peer = dir.path().display();
    let text = print(&format!("{workload} {SMALL} {args} --peer {peer} --json")).unwrap();
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    let document: Value = serde_json::from_str(&text).unwrap();
    let (peers, ours): (Vec<&Value>, Vec<&Value>) =
        rows(&document).iter().partition(|row| row["arm"] == "peer");
    assert_eq!(ours.len(), peers.len());
    for (row, peer) in ours.iter().zip(&peers) {
        let same = ["op", "threads", "iterations"].map(|key| row[key] == peer[key]);
        assert_eq!(same, [true; 3], "{row} {peer}");
        assert!(peer["ops"].as_u64().unwrap() > 0, "{peer}");
        assert!(peer["ops_per_s"]["min"].as_f64().unwrap() > 0.0, "{peer}");
        assert!(peer["commits"].is_null(), "{peer}");
        assert_eq!(peer["locks"], Value::Array(Vec::new()), "{peer}");
        assert!(!row["locks"].as_array().unwrap().is_empty(), "{row}");
    }
    peers.into_iter().cloned().collect()
}

#[test]
fn mdtest_beside_a_peer() {
    for directories in ["-u", ""] {
        let phases = "-C -T -E -r -w 5000 -e -y";
        let args = format!("--np 1,3 -n 20 -i 2 --lock-stat {phases} {directories}");
        let peers = peer_rows("mdtest", &args);
        assert_eq!(peers.len(), 2 * 7);
        for row in peers {
            assert_eq!(row["ops"], 20 * row["threads"].as_u64().unwrap());
        }
    }
}

#[test]
fn create_unlink_beside_a_peer() {
    let peers = peer_rows("create-unlink", "--tasks 1,5 --time 0.01 -i 2 --lock-stat");
    assert_eq!(peers.len(), 2);
    peers.iter().for_each(assert_latency);
}

#[test]
fn fxmark_beside_a_peer() {
    let args = "--tasks 1,3 --operations 60 --time 0.01 -i 1";
    let peers = peer_rows("fxmark", &format!("{args} --lock-stat"));
    assert_eq!(peers.len(), 2 * 19);
    peers.iter().for_each(assert_latency);
    let limited = |row: &&Value| {
        ["DWAL", "DWTL", "MWCL", "MWUM", "MWRM"].contains(&row["op"].as_str().unwrap())
    };
    for row in peers.iter().filter(limited) {
        assert!((1..=60).contains(&row["ops"].as_u64().unwrap()), "{row}");
    }
    let allocating = peer_rows("fxmark", &format!("{args} --only fallocate2 --lock-stat"));
    assert_eq!(allocating.len(), 2);
    let all = format!("fxmark {args} --only FALLOCATE2 --balloc all {SMALL}");
    assert_parts(&print(&all).unwrap(), &["group-lock", "trylock", "percpu"]);
    let dir = peer_dir();
    let text = print(&format!(
        "fxmark {args} --only dwsl,MWRL {SMALL} --peer {}",
        dir.path().display()
    ))
    .unwrap();
    assert_parts(&text, &["over peer", "default: faster than peer in "]);
    let (one, two) = (peer_dir(), peer_dir());
    let text = print(&format!(
        "fxmark {args} --only dwsl {SMALL} --peer one={},two={}",
        one.path().display(),
        two.path().display()
    ))
    .unwrap();
    assert_parts(
        &text,
        &["over peer one", "peer two: faster than peer one in "],
    );
}

#[test]
fn peers_are_compared_in_print() {
    let dir = peer_dir();
    let common = format!("{SMALL} -i 1 --peer {}", dir.path().display());
    let text = print(&format!("mdtest -N 2 -n 10 {common}")).unwrap();
    assert_parts(
        &text,
        &[
            "(of 1 iterations), peer",
            "creates/s: default over peer: ",
            "removes/s: default over peer: ",
        ],
    );
    assert_eq!(text.matches("resident after create").count(), 1, "{text}");
    let text = print(&format!("create-unlink --tasks 2 --time 0.005 {common}")).unwrap();
    assert_parts(&text, &["2 tasks: default over peer: "]);
}

fn assert_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// A round of each of two runs, with e2fsck after it.
#[test]
fn age() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("age.img");
    let results = dir.path().join("aging.jsonl");
    let args = format!(
        "age --image {} --size 256M --workers 1 --seconds 0 --results {}",
        image.display(),
        results.display()
    );
    for run in 0..2 {
        let text = print(&args).unwrap();
        assert_parts(&text, &["round 0 ", "creates/s", "free run, KiB"]);
        let lines = std::fs::read_to_string(&results).unwrap();
        assert_eq!(lines.lines().count(), run + 1);
    }
    assert!(!image.exists(), "it is removed when all went well");
    let why = print(&args.replace("256M", "255M")).unwrap_err();
    assert!(why.to_string().contains("at least 256M"), "{why}");
}

#[test]
fn a_peer_is_left_as_it_was_after_an_error() {
    let dir = peer_dir();
    let garbage = dir.path().join("garbage.img");
    std::fs::write(&garbage, "no image").unwrap();
    let device = format!("file:{}", garbage.display());
    let peer = dir.path().join("peer");
    for (workload, size) in [
        ("mdtest", "-N 2 -n 10"),
        ("create-unlink", "--tasks 2 --time 0.01"),
    ] {
        let with = format!("--device {device} --peer {}", peer.display());
        let args = format!("{workload} -i 1 {with} {size}");
        let why = print(&args).unwrap_err().to_string();
        let top = format!("{}/uext4-bench-{workload}", peer.display());
        assert!(why.starts_with(&top), "{why}");
        std::fs::create_dir(&peer).unwrap();
        let why = format!("{:?}", print(&args).unwrap_err());
        assert!(why.contains("garbage.img"), "{why}");
        // Fails unless it is empty.
        std::fs::remove_dir(&peer).unwrap();
    }
}

fn randrw(args: &str) -> Value {
    let common = "--image-size 160M --journal-size 8M --size 2M --time 0.01 -i 1";
    let document = json("randrw", &format!("{common} {args}"));
    for row in rows(&document) {
        assert!(row["block_size"].as_u64().unwrap() >= 4096, "{row}");
        assert!(row["rounds_ended_early"].is_u64(), "{row}");
    }
    document
}

#[test]
fn randrw_with_all_variants() {
    let document = randrw(
        "--bs 4K,64K --threads 1,3 --dio-lock all --dioread-nolock on,off --holes 50 --hole-size 8M \
         --device-latency 20us --lock-stat",
    );
    // Eight variants and the bare device; two block sizes, two counts; reads and writes.
    assert_eq!(rows(&document).len(), 9 * 2 * 2 * 2);
    for row in rows(&document) {
        let variant = row["arm"].as_str().unwrap();
        assert!(row["bare_ops_per_s"].is_f64(), "{row}");
        assert!(row["device_latency_us"]["mean"].is_f64(), "{row}");
        let is_first = variant.starts_with("exclusive-first");
        let is_peer = variant == "bare";
        assert_eq!(row["gain_percent"].is_f64(), !is_first && !is_peer, "{row}");
        let excludes = !is_peer && !variant.starts_with("range");
        assert_eq!(row["allowed_ops_per_s"].is_f64(), excludes, "{row}");
    }
}

#[test]
fn randrw_on_a_file_beside_its_peers() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().display();
    let files = format!("--device file:{here}/u.img --direct --bare --peer {here}/peer");
    let args = "--bs 4K --numjobs 2 --iodepth 2 --rwmixread 70";
    let document = randrw(&format!("{files} {args}"));
    assert_eq!(
        strings(&document, "arm"),
        "default default bare bare peer peer"
    );
    rows(&document).iter().for_each(assert_latency);
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

#[test]
fn randrw_prints_gain_and_what_is_allowed() {
    let text = print(
        "randrw --image-size 160M --journal-size 8M --size 2M --runtime 0.01 -i 1 --bs 4K --threads 2 \
         --dio-lock exclusive-first,range --holes 100 --hole-size 64K",
    );
    assert_parts(
        &text.unwrap(),
        &[
            "range: percent gained over exclusive-first",
            "what arithmetic allows",
            "ended early, every hole being filled",
        ],
    );
}

#[test]
fn icache_shrink_with_all_variants() {
    let args = "--items 2000 --inodes-max 300 -i 1 --icache all";
    let document = json("icache-shrink", &format!("{SMALL} {args}"));
    assert_eq!(rows(&document).len(), 5 * 2 * 2);
    rows(&document).iter().step_by(2).for_each(assert_latency);
    assert_eq!(document["timelines"].as_array().unwrap().len(), 5 * 2);
}

/// What the kernel does, or nothing where it refuses.
fn is_peer(row: &Value) -> bool {
    row["arm"] == "kernel"
}

fn skipped_unless(any: bool, what: &str) {
    if !any {
        eprintln!("SKIPPED {what}: the kernel refuses");
    }
}

#[test]
fn clone_with_all_variants() {
    let args = "--workers 1,5 --live 3,40 --time 0.01 -i 2 --lock-stat --peer kernel";
    let document = json("clone", args);
    let (peers, ours): (Vec<&Value>, Vec<&Value>) =
        rows(&document).iter().partition(|r| is_peer(r));
    assert_eq!(ours.len(), 2 * 3 * 2);
    for row in &ours {
        assert!([3, 40].map(Value::from).contains(&row["live"]), "{row}");
        for key in ["create_us", "drop_us"] {
            assert!(
                row[key]["p50"].is_f64() && row[key]["p99"].is_f64(),
                "{row}"
            );
        }
        let locks = row["locks"].as_array().unwrap();
        assert!(
            locks.iter().any(|lock| lock["class"] == "registry"),
            "{row}"
        );
    }
    for row in rows(&document) {
        assert_eq!(row["op"], "create+drop");
        assert_eq!(row["iterations"], 2);
        assert!(row["ops"].as_u64().unwrap() > 0, "{row}");
        assert!(row["cost_ns"].as_f64().unwrap() > 0.0, "{row}");
        assert_latency(row);
    }
    assert!(peers.iter().all(|row| row["live"].is_null()));
    assert!([0, 2].contains(&peers.len()));
    skipped_unless(!peers.is_empty(), "unshare");
}

#[test]
fn clone_prints_how_costs_grow() {
    let args = "clone --threads 2 --live 8,2 --time 0.005 -i 1";
    let parts = [
        "cost of a namespace in ns",
        "keyed: 8 live over 2 live: ",
        "nodev over keyed, 8 live: ",
        "drop p50",
    ];
    assert_parts(&print(args).unwrap(), &parts);
    let text = print(&format!("{args} --mqueue-super beyond,beyond --lock-stat")).unwrap();
    let locks = "locks: beyond#2, create+drop, 2 threads";
    assert_parts(&text, &["beyond#2: 8 live over 2 live", locks]);
}

#[test]
fn mq_beside_the_kernel() {
    let args = "--queues 1,3 --time 0.01 -i 1 --lock-stat --peer kernel";
    let document = json("mq", args);
    let (peers, ours): (Vec<&Value>, Vec<&Value>) =
        rows(&document).iter().partition(|r| is_peer(r));
    assert_eq!(ours.len(), 3 * 2);
    for row in ours {
        assert_eq!(row["arm"], "uext4");
        let locks = row["locks"].as_array().unwrap();
        assert!(locks.iter().any(|lock| lock["class"] == "mqueue"), "{row}");
    }
    for row in rows(&document) {
        let queues = row["queues"].as_u64().unwrap();
        assert_eq!(row["threads"].as_u64().unwrap(), 2 * queues);
        assert!(row["ops"].as_u64().unwrap() > 0, "{row}");
        if row["op"] == "ping-pong" {
            assert_latency(row);
        }
    }
    assert!([0, 3 * 2].contains(&peers.len()));
    skipped_unless(!peers.is_empty(), "mq_open");
}

#[test]
fn mq_with_other_sizes() {
    let sizes = "--queues 2 --time 0.01 -i 1 --msgsize 9000 --maxmsg 20";
    let text = print(&format!("mq --op mixed,stream {sizes}")).unwrap();
    assert_parts(
        &text,
        &[
            "mixed: messages",
            "stream: messages",
            "9000 bytes, maxmsg 20",
        ],
    );
}

#[test]
fn an_image_that_is_there_is_used_and_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("u.img");
    let device = format!("file:{}", image.display());
    let on_it = format!("mdtest -N 2 -n 10 -i 1 -F -u --ialloc all --device {device}");
    print(&format!("{on_it} {SMALL} --keep")).unwrap();
    assert_clean(&image);
    let why = print(&format!("{on_it} {SMALL}")).unwrap_err();
    assert!(why.to_string().contains("is used as it is"), "{why}");
    print(&on_it).unwrap();
    print(&on_it).unwrap();
    assert_clean(&image);
}

fn assert_clean(image: &Path) {
    match Command::new("e2fsck").arg("-fn").arg(image).output() {
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stdout);
            assert_eq!(out.status.code(), Some(0), "{said}");
        }
        Err(e) => eprintln!("SKIPPED e2fsck: {e}"),
    }
}

#[test]
fn wrong_usage_is_an_error() {
    for line in [
        "mdtest --generation fast",
        "create-unlink --device disk",
        "mdtest --journal-delay 50us",
        "create-unlink --journal-delay start:50us",
        "randrw --bs 1000",
        "randrw --size 4K --bs 8K",
        "randrw --direct",
        "clone --mqueue-super hashed",
        "clone --live 0",
        "clone --workers 0",
        "clone --peer bsd",
        "clone --time 0",
        "mq --op pong",
        "mq --msgsize 7",
        "mq --queues none",
        "compare one.json",
    ] {
        assert!(print(line).is_err(), "{line}");
    }
}

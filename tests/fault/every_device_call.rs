//! Every call of the device fails, once and from then on, in workloads of one and of several threads.
//!
//! A share of the calls by default; `UEXT4_FAULT_SWEEP=1` for all of them, `UEXT4_FAULT_SEED` for another share.

use serde_json::json;
use std::sync::Mutex;
use uext4_block::Result;
use uext4_testkit::device::LostData;
use uext4_testkit::explore::results::record;
use uext4_testkit::faults::{CALLS, Fault, OPERATIONS, Outcome, Segment, run, run_on, segments};
use uext4_testkit::prelude::*;

/// A run that takes longer hangs.
const HANG: Duration = Duration::from_secs(240);

/// Ends the process, with what runs, if nothing ends for so long.
fn watch<T>(running: &Mutex<Vec<(Instant, String)>>, work: impl FnOnce() -> T) -> T {
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(100));
                for (since, what) in running.lock().unwrap().iter() {
                    if since.elapsed() > HANG {
                        eprintln!("HANGS: {what}");
                        std::process::abort();
                    }
                }
            }
        });
        let given = work();
        done.store(1, Ordering::Relaxed);
        given
    })
}

/// All faults of the segments, of which `step` takes one.
fn faults(segments: &[Segment], step: u64, first: u64) -> Vec<(usize, Fault)> {
    let mut all = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        for (call, count) in CALLS.into_iter().zip(segment.calls) {
            for number in 1..=count {
                for (for_good, lost_data) in [
                    (false, LostData::Cached),
                    (true, LostData::Cached),
                    (false, LostData::Evicted),
                ] {
                    // What reads see matters only where something is lost.
                    let loses = matches!(call, FaultCall::Flush | FaultCall::Write);
                    if lost_data == LostData::Evicted && !loses {
                        continue;
                    }
                    let fault = Fault {
                        call,
                        number,
                        for_good,
                        lost_data,
                    };
                    all.push((at, fault));
                }
            }
        }
    }
    all.into_iter()
        .skip((first % step) as usize)
        .step_by(step as usize)
        .collect()
}

fn sweep(name: &str, count: usize, threads: usize, step: u64) {
    let step = match env_number("UEXT4_FAULT_SWEEP", 0) {
        0 => step,
        _ => 1,
    };
    let segments = segments(count, threads).expect("a workload");
    let calls: u64 = segments.iter().flat_map(|segment| segment.calls).sum();
    let all = faults(&segments, step, env_number("UEXT4_FAULT_SEED", 0));
    let (next, total) = (AtomicU64::new(0), Mutex::new(Outcome::default()));
    let (running, bad) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    watch(&running, || {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                        let Some((segment, fault)) = all.get(at) else {
                            return;
                        };
                        let what = format!("{name}, segment {segment}, {fault:?}");
                        running.lock().unwrap().push((Instant::now(), what.clone()));
                        match run(&segments[*segment], fault) {
                            Ok(outcome) => total.lock().unwrap().add(&outcome),
                            Err(why) => bad.lock().unwrap().push(format!("{what}: {why:#}")),
                        }
                        running.lock().unwrap().retain(|(_, other)| *other != what);
                    }
                });
            }
        });
    });
    let (total, bad) = (total.into_inner().unwrap(), bad.into_inner().unwrap());
    println!(
        "{name}: {} operations, {calls} calls of the device; {total:?}, {} not as they must be",
        count * OPERATIONS,
        bad.len()
    );
    record(&json!({
        "kind": "faults", "workload": name, "operations": count * OPERATIONS, "calls": calls,
        "every_call": step == 1, "runs": total.runs, "failed": total.failed, "lost": total.lost,
        "guarantees": total.guarantees, "bad": bad.len(),
    }));
    assert!(
        bad.is_empty(),
        "{} of {}:\n{}",
        bad.len(),
        all.len(),
        bad.join("\n")
    );
    assert!(total.lost > 0 && total.guarantees > 0, "{total:?}");
}

/// An error that the file system would take for a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    Flush,
    DurableWrite,
    Write,
}

/// A device whose errors of one kind are hidden.
#[derive(Debug)]
struct Hides(Arc<dyn BlockDevice>, Hidden);

impl Hides {
    fn hide(&self, of: Hidden, result: Result<()>) -> Result<()> {
        if self.1 == of { Ok(()) } else { result }
    }
}

impl BlockDevice for Hides {
    forward_device!(self => self.0; len, is_read_only, read_at, discard, zero, set_len, identity);

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.hide(Hidden::Write, self.0.write_at(offset, buf))
    }
    fn flush(&self) -> Result<()> {
        self.hide(Hidden::Flush, self.0.flush())
    }
    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.hide(Hidden::DurableWrite, self.0.write_fua(offset, buf))
    }
}

#[test]
fn sweep_canaries_are_caught() {
    let segments = segments(2, 1).expect("a workload");
    for (hidden, call) in [
        (Hidden::Flush, FaultCall::Flush),
        (Hidden::DurableWrite, FaultCall::Write),
        (Hidden::Write, FaultCall::Write),
    ] {
        let count = segments[1].calls[CALLS.iter().position(|c| *c == call).unwrap()];
        let caught = (1..=count).find_map(|number| {
            let fault = Fault {
                call,
                number,
                for_good: false,
                lost_data: LostData::Cached,
            };
            let wrap = move |device| Arc::new(Hides(device, hidden)) as Arc<dyn BlockDevice>;
            run_on(&segments[1], &fault, &wrap).err()
        });
        let why = caught.unwrap_or_else(|| panic!("MISSED: a failed {hidden:?} is hidden"));
        println!("caught {hidden:?}: {why:#}");
    }
}

/// 2,000 operations of one thread.
#[test]
fn fault_sweep_of_one_thread() {
    sweep("one thread", 20, 1, 97);
}

/// Four threads, which sync beside each other.
#[test]
fn fault_sweep_of_four_threads() {
    sweep("four threads", 20, 4, 151);
}

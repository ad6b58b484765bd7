//! The crash explorer, for a minute; `make explore` tries the sequences that its results do not have yet.
//!
//! The operations are those of [`uext4_testkit::explore::alphabet`]: creating, linking, unlinking, every form of
//! rename, data, attributes. `make test` tries a sample of them; `make explore` tries all.
//!
//! `UEXT4_EXPLORE_SEED` chooses which sequences and workloads are tried, `UEXT4_EXPLORE_SHARE` how many times
//! as many as by default.

use uext4_testkit::explore::alphabet::Sequences;
use uext4_testkit::explore::base::{Base, Config};
use uext4_testkit::explore::canary::CANARIES;
use uext4_testkit::explore::results::Chunk;
use uext4_testkit::explore::run::{Plan, run};
use uext4_testkit::explore::shared::Shared;
use uext4_testkit::prelude::*;

/// Explores so many sequences of one, two and three operations, and workloads.
fn explore(config: &str, shares: [u64; 4]) {
    let (seed, times) = (
        env_number("UEXT4_EXPLORE_SEED", 0),
        env_number("UEXT4_EXPLORE_SHARE", 1),
    );
    let config = Config::find(config).expect("a configuration");
    let shared = Shared::new(uext4_testkit::image::kernel_mounts());
    for (kind, share) in ["one", "two", "three", "random"].iter().zip(shares) {
        let base = Base::for_kind(config, kind).expect("an image");
        let sequences = match *kind {
            "one" => Some(Sequences::of(1)),
            "two" => Some(Sequences::of(2)),
            "three" => Some(Sequences::of(3)),
            _ => None,
        };
        let count = share * times;
        let chunk = Chunk {
            kind: (*kind).to_owned(),
            config: config.name.to_owned(),
            first: seed * count,
            count,
        };
        let plan = Plan {
            sequences,
            range: chunk.first..chunk.first + count,
            threads: 1,
            until: None,
        };
        let (_, tally, failed) = run(&base, &plan, &shared).expect("runs");
        println!("{} {kind}: {tally:?}", config.name);
        let shown: Vec<String> = failed
            .iter()
            .map(|failed| format!("{}\n  {}", failed.command(&chunk), failed.why))
            .collect();
        assert!(shown.is_empty(), "{}", shown.join("\n"));
        assert!(tally.states >= count, "{tally:?}");
    }
}

#[test]
fn explore_ordered() {
    explore("ordered", [12, 32, 12, 2]);
}

#[test]
fn explore_journal() {
    explore("journal", [8, 16, 6, 1]);
}

#[test]
fn explore_writeback() {
    explore("writeback", [8, 16, 6, 1]);
}

#[test]
fn explore_wrap() {
    explore("wrap", [8, 16, 6, 1]);
}

#[test]
fn explore_fast_commit() {
    explore("fast-commit", [12, 32, 6, 1]);
}

#[test]
fn explore_no_journal() {
    explore("no-journal", [24, 24, 8, 0]);
}

/// Canaries whose reports are to be of the oracle that they are for.
const REPORTED_BY: [(&str, &str); 8] = [
    ("DataAfterCommit", "0xde"),
    ("RevokesForgotten", "which is free"),
    ("BitmapBitLost", "uext4-check"),
    ("LinkCountOff", "uext4-check"),
    ("FreeBlockInLog", "which is free"),
    ("DataBlockInLog", "which holds a file's data"),
    ("SyncedByteChanged", "no step"),
    ("NameLost", "is missing"),
];

#[test]
fn explorer_canaries_are_caught() {
    let all_well = AtomicBool::new(true);
    std::thread::scope(|scope| {
        for canaries in CANARIES.chunks(CANARIES.len().div_ceil(2)) {
            let all_well = &all_well;
            scope.spawn(move || {
                for canary in canaries {
                    let (name, what) = (format!("{:?}", canary.bug), canary.what);
                    let said = canary.caught(96).expect("runs");
                    let must_say = REPORTED_BY.iter().find(|(of, _)| *of == name);
                    let is_well = said
                        .as_ref()
                        .is_some_and(|said| must_say.is_none_or(|(_, part)| said.contains(part)));
                    let verdict = if is_well { "caught" } else { "MISSED" };
                    println!("{verdict} {name}: {what}\n    {said:?}");
                    if !is_well {
                        all_well.store(false, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(all_well.into_inner(), "a planted bug was not caught");
}

//! One field damaged at a time: whenever e2fsck finds a fault, so must we, and the reverse.
//!
//! `UEXT4_MUTATIONS` sets the number of images for each shape, `UEXT4_SEED` where to start.

use crate::support::shapes::{self, CLUSTERED, SHAPES, Shape};
use crate::support::*;
use uext4_testkit::damage::{DamagedImage, mutate, targets_of};
use uext4_testkit::require;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

/// Our verdict, faults and notes.
fn verdict(bytes: &[u8]) -> (bool, Vec<String>, bool) {
    match check_bytes(bytes, 1) {
        Ok(r) => (
            r.is_clean() && !r.incomplete,
            r.faults.iter().map(ToString::to_string).collect(),
            r.notes_total > 0,
        ),
        Err(e) => (false, vec![e.to_string()], false),
    }
}

#[test]
fn as_sharp_as_e2fsck() {
    require!(have_tools());
    let seed = number("UEXT4_SEED", 1);
    let only = std::env::var("UEXT4_SHAPE")
        .ok()
        .and_then(|v| v.parse::<usize>().ok());
    let shapes = (0..SHAPES.len()).filter(|n| only.is_none_or(|o| o == *n));
    let wrong: Vec<String> = shapes
        .flat_map(|n| differences(&SHAPES[n], n, seed))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn as_sharp_as_e2fsck_with_clusters() {
    require!(have_tools());
    let seed = number("UEXT4_SEED", 1);
    let shapes = (SHAPES.len()..).zip(CLUSTERED);
    let wrong: Vec<String> = shapes
        .flat_map(|(n, shape)| differences(shape, n, seed))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Damages an image of one shape many times and says where the verdicts differ.
fn differences(shape: &Shape, n: usize, seed: u64) -> Vec<String> {
    let options = shape.options;
    let dir = scratch();
    let path = shapes::make(shape, dir.path(), 300);
    assert_clean(&path, options);
    let base = DamagedImage::new(std::fs::read(&path).expect("image"));
    let targets = targets_of(&base);
    let mut wrong = Vec::new();
    for i in 0..number("UEXT4_MUTATIONS", 16) {
        let mut rng = fastrand::Rng::with_seed(seed * 1_000_000 + n as u64 * 100_000 + i);
        let mut image = base.clone();
        let what = mutate(&mut rng, &mut image, &targets);
        if image.bytes == base.bytes {
            continue;
        }
        std::fs::write(&path, &image.bytes).expect("write");
        let (theirs, text) = e2fsck(&path);
        let (ours, faults, noted) = verdict(&image.bytes);
        if text == NO_VERDICT {
            continue;
        }
        // Some faults of superblock and descriptors e2fsck reports but exits with 0. The least is a
        // note, and a fault what keeps the kernel from mounting.
        let told = theirs && complains(&text);
        let differ = if told { ours && !noted } else { theirs != ours };
        if differ {
            let first = |lines: &[String]| {
                lines
                    .iter()
                    .take(6)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(" | ")
            };
            let told = |l: &&str| !l.is_empty() && !l.starts_with("Pass") && !l.contains("****");
            let text: Vec<String> = text.lines().filter(told).map(str::to_owned).collect();
            wrong.push(format!(
                "[{n}: {options}] #{i} {what}\n  e2fsck clean: {theirs}; {}\n  we: {}",
                first(&text),
                first(&faults)
            ));
        }
    }
    wrong
}

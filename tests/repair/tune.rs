//! Settings that are changed: every image of every shape stays sound, keeps its files, and has the setting; a crash at any write leaves the
//! old settings or the new ones.
//!
//! `UEXT4_TUNE_SHARE` sets that each feature is changed on every so many shapes: 1 for all.

use crate::support::changes::{Crashes, carried_out, problems, superblock};
use crate::support::{Base, contents::Contents, plan, repaired};
use crate::verifier::{have_tools, scratch, shapes::SHAPES};
use uext4_check::{ChangeError, CheckOptions, NoProgress, Plan, Reserved, Tuning, plan_tune};
use uext4_ondisk::{Feature, Superblock};
use uext4_testkit::prelude::*;

/// Features that are changed one at a time, each from what the image has.
const FEATURES: &[&str] = &[
    "has_journal",
    "orphan_file",
    "fast_commit",
    "dir_index",
    "stable_inodes",
    "mmp",
    "metadata_csum_seed",
    "casefold",
    "ea_inode",
    "large_dir",
    "inline_data",
    "encrypt",
    "large_file",
    "huge_file",
    "dir_nlink",
    "extra_isize",
    "uninit_bg",
    "quota",
    "project",
    "verity",
    "read-only",
    "metadata_csum",
    "64bit",
];

fn has(sb: &Superblock, feature: Feature) -> bool {
    match feature {
        Feature::Compat(f) => sb.compat.contains(f),
        Feature::Incompat(f) => sb.incompat.contains(f),
        Feature::RoCompat(f) => sb.ro_compat.contains(f),
    }
}

fn tuned(bytes: &[u8], tuning: &Tuning) -> Result<Vec<Plan>, ChangeError> {
    let device = MemoryDevice::from_bytes(bytes);
    let options = CheckOptions {
        threads: 1,
        faults_max: 1000,
    };
    plan_tune(&device, tuning, &options, &NoProgress)
}

fn fields() -> Tuning {
    Tuning {
        label: Some(b"sixteen bytes of".to_vec()),
        reserved: Some(Reserved::Percent(1.0)),
        reserved_user: Some(7),
        reserved_group: Some(8),
        errors: Some(uext4_ondisk::ErrorsBehaviour::RemountRo),
        default_options: (0x8, 0x4),
        mount_options: Some(b"noatime".to_vec()),
        max_mounts: Some(20),
        check_interval: Some(86_400),
        stride: Some(16),
        stripe_width: Some(32),
        ..Tuning::default()
    }
}

fn one(feature: Feature, on: bool) -> Tuning {
    Tuning {
        features: vec![(feature, on)],
        ..Tuning::default()
    }
}

fn another_uuid() -> Tuning {
    Tuning {
        uuid: Some(*b"another UUID ..."),
        ..Tuning::default()
    }
}

fn inodes_of(bytes: u16) -> Tuning {
    Tuning {
        inode_size: Some(bytes),
        ..Tuning::default()
    }
}

/// The plans of a change, but for images that it can't be made on.
fn made(bytes: &[u8], tuning: &Tuning, name: &str) -> Option<Vec<Plan>> {
    match tuned(bytes, tuning) {
        Ok(plans) => Some(plans),
        Err(ChangeError::Refused(why)) if !why.contains("has a fault") => None,
        Err(e) => panic!("{name}: {e}"),
    }
}

#[test]
fn fields_and_the_uuid_change_on_every_shape() {
    require!(have_tools());
    let dir = scratch();
    let (path, undo) = (dir.path().join("tuned.img"), dir.path().join("undo"));
    let mut failed = Vec::new();
    let share = env_number("UEXT4_TUNE_SHARE", 6) as usize;
    for shape in (0..SHAPES.len()).step_by(share) {
        let base = Base::make(shape, dir.path());
        let before = Contents::read(base.bytes());
        let name = base.options;
        let plans = made(base.bytes(), &fields(), name).expect("no value is refused");
        let after = carried_out(base.bytes(), &plans, &undo);
        let raw = superblock(&after).raw;
        assert_eq!(raw.label(), b"sixteen bytes of", "{name}");
        assert_eq!(raw.errors.get(), 2, "{name}");
        assert_eq!(raw.def_resuid.get(), 7, "{name}");
        assert!(raw.mount_opts.starts_with(b"noatime\0"), "{name}");
        let share = raw.blocks_count() / 100;
        assert_eq!(raw.reserved_blocks_count(), share, "{name}");
        let wrong = problems(&before, &after, &path);
        failed.extend(wrong.iter().map(|wrong| format!("{name}: fields: {wrong}")));
        let Some(plans) = made(&after, &another_uuid(), name) else {
            // Hashes of attributes, or names without case, would be others.
            let with = uext4_ondisk::Incompat::EA_INODE | uext4_ondisk::Incompat::CASEFOLD;
            assert!(superblock(&after).incompat.intersects(with), "{name}");
            continue;
        };
        let after = carried_out(&after, &plans, &undo);
        assert_eq!(superblock(&after).raw.uuid, *b"another UUID ...", "{name}");
        let wrong = problems(&before, &after, &path);
        failed.extend(wrong.iter().map(|wrong| format!("{name}: UUID: {wrong}")));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn features_change_on_every_shape() {
    require!(have_tools());
    let dir = scratch();
    let (path, undo) = (dir.path().join("tuned.img"), dir.path().join("undo"));
    let (mut changed, mut failed) = (BTreeMap::new(), Vec::new());
    let share = env_number("UEXT4_TUNE_SHARE", 12) as usize;
    for shape in 0..SHAPES.len() {
        let base = Base::make(shape, dir.path());
        let before = Contents::read(base.bytes());
        for (i, word) in FEATURES.iter().enumerate() {
            if (shape + i) % share != 0 {
                continue;
            }
            let feature = Feature::parse_name(word).expect("feature");
            let on = !has(&superblock(base.bytes()), feature);
            let name = format!("[{}] {word} {on}", base.options);
            let Some(plans) = made(base.bytes(), &one(feature, on), &name) else {
                continue;
            };
            let after = carried_out(base.bytes(), &plans, &undo);
            assert_eq!(has(&superblock(&after), feature), on, "{name}");
            *changed.entry((*word, on)).or_insert(0) += 1;
            let wrong = problems(&before, &after, &path);
            failed.extend(wrong.iter().map(|wrong| format!("{name}: {wrong}")));
            // And back, where that is possible.
            if let Some(plans) = made(&after, &one(feature, !on), &name) {
                let back = carried_out(&after, &plans, &undo);
                assert_eq!(has(&superblock(&back), feature), !on, "{name}");
                let wrong = problems(&before, &back, &path);
                failed.extend(wrong.iter().map(|wrong| format!("{name}, back: {wrong}")));
            }
        }
    }
    println!("{changed:?}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    for word in FEATURES.iter().filter(|_| share == 1) {
        let made = [true, false].map(|on| changed.contains_key(&(*word, on)));
        assert!(made[0] || made[1], "{word} was never changed");
    }
}

/// Checksums are also on what the same change adds.
#[test]
fn several_features_change_at_once() {
    require!(have_tools());
    let dir = scratch();
    let (path, undo) = (dir.path().join("tuned.img"), dir.path().join("undo"));
    let base = Base::make(0, dir.path());
    let before = Contents::read(base.bytes());
    let feature = |word: &str| Feature::parse_name(word).expect("feature");
    let mut bytes = base.bytes().to_vec();
    for (words, on) in [
        (&["metadata_csum"][..], false),
        (&["orphan_file", "mmp", "quota", "metadata_csum"], true),
        (&["mmp", "orphan_file", "metadata_csum", "64bit"], false),
    ] {
        let tuning = Tuning {
            features: words.iter().map(|word| (feature(word), on)).collect(),
            ..Tuning::default()
        };
        let plans = made(&bytes, &tuning, &words.concat()).expect("none is refused");
        bytes = carried_out(&bytes, &plans, &undo);
        let sb = superblock(&bytes);
        let all = words.iter().all(|word| has(&sb, feature(word)) == on);
        assert!(all, "{words:?}");
        assert_eq!(problems(&before, &bytes, &path), [""; 0], "{words:?}");
    }
}

#[test]
fn inodes_get_larger_on_every_shape() {
    require!(have_tools());
    let dir = scratch();
    let (path, undo) = (dir.path().join("tuned.img"), dir.path().join("undo"));
    let (mut larger, mut failed) = (0, Vec::new());
    let share = env_number("UEXT4_TUNE_SHARE", 5) as usize;
    for shape in (0..SHAPES.len()).step_by(share) {
        let base = Base::make(shape, dir.path());
        let before = Contents::read(base.bytes());
        let bytes = 2 * superblock(base.bytes()).geometry.inode_size;
        let Some(plans) = made(base.bytes(), &inodes_of(bytes), base.options) else {
            continue;
        };
        let after = carried_out(base.bytes(), &plans, &undo);
        assert_eq!(superblock(&after).geometry.inode_size, bytes);
        larger += 1;
        let wrong = problems(&before, &after, &path);
        failed.extend(
            wrong
                .iter()
                .map(|wrong| format!("[{}]: {wrong}", base.options)),
        );
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(larger > 0);
}

#[test]
fn a_crash_leaves_the_old_settings_or_the_new() {
    require!(have_tools());
    let dir = scratch();
    let path = dir.path().join("tuned.img");
    let base = Base::make(0, dir.path()).bytes().to_vec();
    let before = Contents::read(&base);
    let mut changes = vec![fields(), another_uuid()];
    for word in [
        "has_journal",
        "orphan_file",
        "quota",
        "mmp",
        "metadata_csum_seed",
    ] {
        let feature = Feature::parse_name(word).expect("feature");
        changes.push(one(feature, !has(&superblock(&base), feature)));
    }
    let mut crashes = Crashes::new(&path, env_number("UEXT4_TUNE_SHARE", 8));
    for tuning in &changes {
        let planned = made(&base, tuning, "crash").unwrap_or_default();
        let name = format!("{tuning:?}");
        let mut bytes = base.clone();
        // What moves the journal takes an undo file.
        for planned in planned.iter().filter(|plan| !plan.is_whole) {
            let new = repaired(&bytes, planned);
            let settings = |sb: &Superblock| {
                let features = (sb.compat, sb.incompat, sb.ro_compat);
                (sb.raw.uuid, sb.raw.volume_name, features)
            };
            let either = [&bytes, &new].map(|bytes| settings(&superblock(bytes)));
            bytes = crashes.of(&name, &before, &bytes, planned, &|sb| {
                either.contains(&settings(sb))
            });
        }
    }
    crashes.end();
}

#[test]
fn what_does_not_fit_is_refused() {
    require!(have_tools());
    let dir = scratch();
    let base = Base::make(0, dir.path());
    let refused = [
        Tuning {
            label: Some(vec![b'x'; 17]),
            ..Tuning::default()
        },
        Tuning {
            reserved: Some(Reserved::Percent(51.0)),
            ..Tuning::default()
        },
        Tuning {
            mount_options: Some(vec![b'x'; 64]),
            ..Tuning::default()
        },
        one(Feature::parse_name("filetype").expect("feature"), false),
        one(Feature::parse_name("bigalloc").expect("feature"), true),
    ];
    for tuning in refused {
        let result = tuned(base.bytes(), &tuning);
        assert!(matches!(result, Err(ChangeError::Refused(_))), "{tuning:?}");
    }
    let (damaged, _) = (0..)
        .find_map(|i| {
            base.damaged(1, i).filter(|(b, _)| {
                plan(b).is_ok_and(|p| !p.before.is_clean() && !p.before.needs_recovery)
            })
        })
        .expect("damage");
    let change = one(Feature::parse_name("quota").expect("feature"), true);
    assert!(matches!(tuned(&damaged, &change), Err(ChangeError::Faulty)));
}

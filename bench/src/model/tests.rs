//! The whole model on documents that were measured once on two CPUs, and on odd ones.

use super::engine::Machine;
use super::{Document, Inputs, Mechanism, Parameters, Projection, VariantModel, project};
use std::path::Path;
use std::sync::OnceLock;

const NAMES: [&str; 6] = [
    "ialloc_delayed",
    "ialloc",
    "generation",
    "icache",
    "dio",
    "registry",
];

fn documents() -> [Document; 6] {
    NAMES.map(|name| {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/model/data");
        let text = std::fs::read_to_string(data.join(format!("{name}.json"))).expect("is there");
        serde_json::from_str(&text).expect("is a document")
    })
}

fn inputs(documents: &[Document; 6]) -> Inputs<'_> {
    let [ialloc_delayed, ialloc, generation, icache, dio, registry] = documents;
    Inputs {
        ialloc_delayed: Some(ialloc_delayed),
        ialloc: Some(ialloc),
        generation: Some(generation),
        icache: Some(icache),
        dio: Some(dio),
        registry: Some(registry),
    }
}

fn quick() -> Parameters {
    Parameters {
        cores: vec![16, 48],
        ..Parameters::default()
    }
}

/// One projection for all tests.
fn projection() -> &'static Projection {
    static ONCE: OnceLock<Projection> = OnceLock::new();
    ONCE.get_or_init(|| project(&inputs(&documents()), &quick()))
}

fn mechanism(name: &str) -> &'static Mechanism {
    let mut all = projection().mechanisms.iter();
    all.find(|m| m.name == name).expect("was measured")
}

fn variant(of: &'static str, name: &str) -> &'static VariantModel {
    let mut variants = mechanism(of).variants.iter();
    variants
        .find(|variant| variant.name == name)
        .expect("was measured")
}

fn at(of: &'static str, name: &str, cores: usize) -> f64 {
    let mut points = variant(of, name).projected.iter();
    points
        .find(|p| p.cores == cores)
        .expect("was asked for")
        .ops_per_s
}

#[test]
fn every_variant_is_within_a_quarter_of_what_it_was_not_fitted_to() {
    let variants: Vec<usize> = projection()
        .mechanisms
        .iter()
        .map(|m| m.variants.len())
        .collect();
    assert_eq!(variants, [3, 3, 7, 6, 8, 3]);
    for mechanism in &projection().mechanisms {
        for variant in &mechanism.variants {
            let fitted = variant.points.iter().filter(|p| p.fitted).count();
            assert!(
                fitted > 0 && fitted * 2 <= variant.points.len() + 1,
                "{}",
                variant.name
            );
            let worst = variant.worst_error_percent.expect("some are held out");
            assert!(
                worst <= 25.0,
                "{}, {}: {worst}",
                mechanism.name,
                variant.name
            );
            let all = variant.points.iter().filter(|p| !p.fitted);
            let most = all.map(|p| p.error_percent.abs()).fold(0.0, f64::max);
            assert_eq!(worst, most);
        }
    }
}

#[test]
fn who_retries_without_the_lock_takes_it_as_often_as_measured() {
    let counted = &variant("ialloc-delayed", "retry-unlocked").acquisitions_per_op;
    let last = counted.last().expect("was counted");
    assert_eq!(last.count, 48);
    assert!(
        (last.modelled / last.measured - 1.0).abs() < 0.25,
        "{last:?}"
    );
    let locked = variant("ialloc-delayed", "retry-locked")
        .acquisitions_per_op
        .last();
    assert!(locked.is_some_and(|last| (last.modelled - 1.0).abs() < 1e-9));
}

/// Each variant is at least as fast as the one it replaces, on many cores.
#[test]
fn variants_stand_in_their_order() {
    let order: [(&str, &[&str]); 6] = [
        (
            "ialloc-delayed",
            &["retry-unlocked", "retry-locked", "lock-free"],
        ),
        ("ialloc", &["retry-unlocked", "retry-locked", "lock-free"]),
        ("generation", &["spinlock", "percpu"]),
        (
            "icache",
            &[
                "global/lazytime",
                "global-nowait/lazytime",
                "per-bucket/lazytime",
            ],
        ),
        (
            "dio-lock",
            &[
                "exclusive-first/dioread_nolock",
                "shared-first/dioread_nolock",
            ],
        ),
        ("mqueue-super", &["keyed", "nodev", "beyond"]),
    ];
    for (name, variants) in order {
        for pair in variants.windows(2) {
            let (before, after) = (at(name, pair[0], 48), at(name, pair[1], 48));
            assert!(
                after >= before * 0.99,
                "{name}: {pair:?}: {before}, {after}"
            );
        }
    }
}

#[test]
fn what_shares_nothing_grows_with_the_cores_and_one_lock_does_not() {
    for (name, variant) in [("generation", "beyond"), ("icache", "per-bucket/lazytime")] {
        let growth = at(name, variant, 48) / at(name, variant, 16);
        assert!((2.8..3.2).contains(&growth), "{variant}: {growth}");
    }
    for (name, variant) in [("icache", "global/lazytime"), ("mqueue-super", "keyed")] {
        assert!(
            at(name, variant, 48) < 1.2 * at(name, variant, 16),
            "{variant}"
        );
    }
}

#[test]
fn a_cheaper_line_is_never_worse() {
    for mechanism in &projection().mechanisms {
        for variant in &mechanism.variants {
            for p in &variant.projected {
                let name = &variant.name;
                assert!(p.at_half_line_cost >= p.ops_per_s * 0.97, "{name}: {p:?}");
                assert!(p.at_double_line_cost <= p.ops_per_s * 1.03, "{name}: {p:?}");
            }
        }
    }
}

#[test]
fn a_device_with_few_servers_bounds_those_that_share() {
    let [variant] = &variant("dio-lock", "shared-first/dioread_nolock").other_machines[..] else {
        panic!("there is one");
    };
    let [few, many] = &variant.projected[..] else {
        panic!("two counts of cores");
    };
    assert!(many.ops_per_s < 32.1 / 80e-6 && many.ops_per_s > 1.8 * few.ops_per_s);
    assert!(at("dio-lock", "shared-first/dioread_nolock", 48) > 1.3 * many.ops_per_s);
}

#[test]
fn published_curves_and_what_differs_stand_beside() {
    for mechanism in &projection().mechanisms {
        assert!(!mechanism.published.is_empty() && !mechanism.remarks.is_empty());
    }
    assert!(projection().remarks.is_empty() && !projection().assumptions.is_empty());
}

#[test]
fn the_same_each_time() {
    let documents = documents();
    let only = Inputs {
        registry: Some(&documents[5]),
        ialloc_delayed: Some(&documents[0]),
        ..Inputs::default()
    };
    let text = || serde_json::to_string(&project(&only, &quick())).expect("is JSON");
    assert_eq!(text(), text());
}

#[test]
fn what_was_not_measured_is_left_out() {
    let nothing = project(&Inputs::default(), &quick());
    assert!(nothing.mechanisms.is_empty());
    assert_eq!(nothing.remarks.len(), 6);
}

/// Documents that say nothing, or what cannot be.
#[test]
fn odd_documents_give_remarks_and_no_panic() {
    let odd = [
        "{}",
        r#"{"rows":[]}"#,
        r#"{"rows":[{}]}"#,
        r#"{"host":{"cpus":0},"rows":[{"arm":"spinlock","op":"create+unlink","threads":1,"ops_per_s":{"median":-3}}]}"#,
        r#"{"rows":[{"arm":"keyed","op":"create+drop","threads":2,"ops_per_s":{"median":5}}]}"#,
        r#"{"rows":[{"arm":"nodev","op":"create+drop","threads":1,"ops_per_s":{"median":1e300}}]}"#,
        r#"{"rows":[{"arm":"what","op":"create","threads":1,"ops_per_s":{"median":5}}]}"#,
        r#"{"rows":[{"arm":"global/lazytime","op":"create+unlink","threads":1,"ops_per_s":{"median":5},
            "locks":[{"class":"icache","acquisitions":1,"per_op":1e9,"hold_us":1}]}]}"#,
        r#"{"rows":[{"arm":"bare","op":"read","threads":1,"ops_per_s":{"median":5}},
            {"arm":"range/dioread_lock","op":"read","threads":1,"ops_per_s":{"median":5},
            "device_latency_us":{"nominal":-1}}]}"#,
    ];
    for text in odd {
        let document: Document = serde_json::from_str(text).expect("is JSON");
        let all = std::array::from_fn(|_| document.clone());
        let projection = project(&inputs(&all), &quick());
        assert!(projection.mechanisms.is_empty(), "{text}");
        assert_eq!(projection.remarks.len(), 6);
    }
}

/// Numbers that are far off, but are numbers: something comes out, soon.
#[test]
fn extreme_documents_are_played_through() {
    let extreme = [
        r#"{"rows":[{"arm":"keyed","op":"create+drop","threads":1,"ops_per_s":{"median":1e10},
            "locks":[{"class":"registry","acquisitions":1,"per_op":3,"hold_us":1e300}]},
            {"arm":"spinlock","op":"create+unlink","threads":1,"ops_per_s":{"median":0.02},
            "locks":[{"class":"generation","acquisitions":1000,"per_op":1,"hold_us":0}]}]}"#,
        r#"{"host":{"cpus":1000},"rows":[{"arm":"retry-unlocked","op":"create","threads":1,
            "ops":1e300,"seconds":1e300,"ops_per_s":{"median":3},
            "locks":[{"class":"group","acquisitions":1,"per_op":1,"hold_us":1e300}],"stages":[
            {"stage":"create","calls":1,"total_us":1e300},
            {"stage":"journal start","calls":1,"total_us":1e300},
            {"stage":"journal write access","calls":1e300,"total_us":1}]}]}"#,
    ];
    let few = Parameters {
        operations: 50,
        cores: vec![0, 3, usize::MAX],
        machine: Machine {
            line_ns: f64::NAN,
            growth_per_waiter: -5.0,
            ..Parameters::default().machine
        },
        ..Parameters::default()
    };
    for text in extreme {
        let document: Document = serde_json::from_str(text).expect("is JSON");
        let all = std::array::from_fn(|_| document.clone());
        let projection = project(&inputs(&all), &few);
        assert!(!projection.mechanisms.is_empty());
        for mechanism in &projection.mechanisms {
            assert!(
                mechanism
                    .variants
                    .iter()
                    .all(|variant| variant.projected.len() == 1)
            );
        }
    }
}

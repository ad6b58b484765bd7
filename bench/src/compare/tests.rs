//! Results that agree, differ, miss rows or are none.

use super::*;
use serde_json::{Value, json};

fn row(variant: &str, threads: u64, rates: [f64; 3]) -> Value {
    let [min, median, max] = rates;
    json!({
        "arm": variant, "op": "create", "threads": threads, "ops": 7, "locks": [],
        "ops_per_s": {"min": min, "median": median, "max": max},
    })
}

fn host() -> Value {
    json!({"cpus": 2, "cpu": "a CPU", "kernel": "6.18"})
}

fn of_workload(rows: &[Value]) -> Value {
    json!({"benchmark": "mdtest", "host": host(), "peak_resident_bytes": 1, "rows": rows})
}

fn of_all(quick: bool, sections: &[Value]) -> Value {
    json!({"benchmark": "all", "host": host(), "quick": quick, "sections": sections})
}

fn section(name: &str, benchmark: &str, rows: &[Value]) -> Value {
    let document = json!({"benchmark": benchmark, "rows": rows});
    json!({"name": name, "command": "uext4 bench", "document": document})
}

fn parse(file: &str, document: &Value) -> RunResult {
    RunResult::parse(file, document.to_string().as_bytes()).unwrap()
}

fn why_not(text: &str) -> String {
    RunResult::parse("A.json", text.as_bytes())
        .unwrap_err()
        .to_string()
}

/// As JSON, and printed in short and in full.
fn compare(a: &Value, b: &Value) -> (Value, String, String) {
    let (a, b) = (parse("A.json", a), parse("B.json", b));
    let comparison = Comparison::of(&a, &b);
    let printed = |all| {
        let mut out = Vec::new();
        print::print(&comparison, all, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let json = serde_json::to_value(&comparison).unwrap();
    (json, printed(false), printed(true))
}

#[test]
fn equal_results_differ_by_nothing() {
    let rows = [
        row("x", 1, [90.0, 100.0, 110.0]),
        row("y", 2, [5.0, 5.0, 5.0]),
    ];
    let (json, short, full) = compare(&of_workload(&rows), &of_workload(&rows));
    for of_row in json["rows"].as_array().unwrap() {
        assert_eq!(of_row["verdict"], "within");
        assert_eq!(of_row["ratio"]["median"], 1.0);
    }
    let expected = json!([{
        "section": "mdtest", "rows": 2, "faster": 0, "slower": 0, "within": 2,
        "ratio": 1.0, "without_ratio": 0,
    }]);
    assert_eq!(json["sections"], expected);
    for key in ["only_a", "only_b", "notes"] {
        assert_eq!(json[key], json!([]), "{key}");
    }
    assert!(
        short.contains("no row differs by more than its spread"),
        "{short}"
    );
    assert!(!short.contains("mdtest: x"), "{short}");
    assert!(full.contains("mdtest: x, create, 1 threads"), "{full}");
}

#[test]
fn a_row_twice_as_slow_is_marked() {
    let a = [
        row("x", 1, [90.0, 100.0, 120.0]),
        row("x", 8, [10.0, 20.0, 30.0]),
    ];
    let b = [
        row("x", 1, [45.0, 50.0, 60.0]),
        row("x", 8, [30.0, 40.0, 50.0]),
    ];
    let (json, short, _) = compare(&of_workload(&a), &of_workload(&b));
    let slow = &json["rows"][0];
    assert_eq!(slow["verdict"], "slower");
    assert_eq!(
        slow["ratio"],
        json!({"min": 0.375, "median": 0.5, "max": 60.0 / 90.0})
    );
    assert_eq!(slow["a"]["max"], 120.0);
    // Ranges that touch are within the spread.
    assert_eq!(json["rows"][1]["verdict"], "within");
    // 0.5 and 2.
    assert!((json["sections"][0]["ratio"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    let line = short.lines().find(|line| line.contains("mdtest: x"));
    let cells: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(
        cells[5..],
        ["100", "50.00", "0.50", "0.38-0.67", "slower"],
        "{short}"
    );
    assert!(!short.contains("8 threads"), "{short}");
    let (json, ..) = compare(&of_workload(&b), &of_workload(&a));
    assert_eq!(json["rows"][0]["verdict"], "faster");
    assert_eq!(json["sections"][0]["faster"], 1);
}

#[test]
fn rows_of_one_result_are_named() {
    let some: Vec<Value> = (1..=12).map(|n| row("x", n, [1.0; 3])).collect();
    let other = [row("y", 1, [1.0; 3])];
    let (json, short, _) = compare(&of_workload(&some), &of_workload(&other));
    assert_eq!(json["rows"], json!([]));
    assert_eq!(json["only_a"].as_array().unwrap().len(), 12);
    let only_b = json!([{
        "section": "mdtest", "benchmark": "mdtest", "arm": "y", "op": "create", "threads": 1,
    }]);
    assert_eq!(json["only_b"], only_b);
    for part in [
        "no row is in both",
        "only in A.json: 12",
        "10 threads\n  and 2 more",
        "only in B.json: 1\n  mdtest: y",
    ] {
        assert!(short.contains(part), "{short}");
    }
    assert!(!short.contains("11 threads"), "{short}");
}

#[test]
fn a_row_given_twice_is_matched_in_turn() {
    let a = [row("x", 1, [1.0; 3]), row("x", 1, [10.0; 3])];
    let b = [
        row("x", 1, [1.0; 3]),
        row("x", 1, [10.0; 3]),
        row("x", 1, [7.0; 3]),
    ];
    let (json, ..) = compare(&of_workload(&a), &of_workload(&b));
    let verdicts = json["rows"].as_array().unwrap().iter();
    assert!(verdicts.clone().all(|row| row["verdict"] == "within"));
    assert_eq!(verdicts.count(), 2);
    assert_eq!(json["only_b"].as_array().unwrap().len(), 1);
}

#[test]
fn each_key_tells_rows_apart() {
    let plain = row("x", 1, [1.0; 3]);
    let keys = [
        ("op", json!("remove")),
        ("threads", json!(2)),
        ("block_size", json!(4096)),
        ("live", json!(10)),
        ("queues", json!(4)),
        ("workload", json!("tar")),
        ("clients", json!(3)),
    ];
    for (key, value) in keys {
        let mut other = plain.clone();
        other[key] = value;
        let (json, ..) = compare(
            &of_workload(std::slice::from_ref(&plain)),
            &of_workload(&[other]),
        );
        assert_eq!(json["rows"], json!([]), "{key}");
    }
    // A row that says it has none is as one that does not say.
    let mut none = plain.clone();
    none["live"] = Value::Null;
    let (json, ..) = compare(&of_workload(&[plain]), &of_workload(&[none]));
    assert_eq!(json["rows"].as_array().unwrap().len(), 1);
}

#[test]
fn sections_are_matched_by_name_and_workload() {
    let rate = |n: f64| [row("x", 1, [n; 3])];
    let a = of_all(
        false,
        &[
            section("one", "mdtest", &rate(1.0)),
            section("two", "mdtest", &rate(2.0)),
            section("three", "mq", &rate(3.0)),
            json!({"name": "four", "skipped": "no root"}),
        ],
    );
    let b = of_all(
        true,
        &[
            section("two", "mdtest", &rate(4.0)),
            section("one", "mdtest", &rate(1.0)),
            section("three", "clone", &rate(3.0)),
            section("four", "fuse", &rate(1.0)),
        ],
    );
    let (json, short, _) = compare(&a, &b);
    let ratios: Vec<(&str, f64)> = json["sections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["section"].as_str().unwrap(), s["ratio"].as_f64().unwrap()))
        .collect();
    assert_eq!(ratios, [("one", 1.0), ("two", 2.0)]);
    assert_eq!(json["only_a"][0]["section"], "three");
    let only_b: Vec<&Value> = json["only_b"].as_array().unwrap().iter().collect();
    assert_eq!(
        only_b.iter().map(|key| &key["section"]).collect::<Vec<_>>(),
        ["three", "four"]
    );
    for part in [
        "note: B.json is of a quick run, A.json is not",
        "note: A.json skipped four: no root",
        "together",
    ] {
        assert!(short.contains(part), "{short}");
    }
}

#[test]
fn other_hosts_are_noted() {
    let mut other = of_workload(&[]);
    other["host"] = json!({"cpus": 96, "cpu": "another", "kernel": "6.18"});
    let (json, ..) = compare(&of_workload(&[]), &other);
    let notes = json!([
        "the hosts differ: cpu `a CPU` and `another`",
        "the hosts differ: cpus `2` and `96`",
    ]);
    assert_eq!(json["notes"], notes);
}

#[test]
fn zeros_have_no_ratio() {
    let a = [
        row("x", 1, [0.0; 3]),
        row("x", 2, [0.0; 3]),
        row("x", 3, [4.0; 3]),
        row("x", 4, [4.0; 3]),
    ];
    let b = [
        row("x", 1, [0.0; 3]),
        row("x", 2, [3.0; 3]),
        row("x", 3, [0.0; 3]),
        row("x", 4, [8.0; 3]),
    ];
    let (json, short, _) = compare(&of_workload(&a), &of_workload(&b));
    let of = |key: &str| -> Vec<Value> {
        let rows = json["rows"].as_array().unwrap().iter();
        rows.map(|row| row[key].clone()).collect()
    };
    assert_eq!(of("verdict"), ["within", "faster", "slower", "faster"]);
    let medians: Vec<Value> = of("ratio").iter().map(|r| r["median"].clone()).collect();
    assert_eq!(medians, [Value::Null, Value::Null, json!(0.0), json!(2.0)]);
    let of_section = &json["sections"][0];
    assert_eq!(of_section["without_ratio"], 3);
    assert!((of_section["ratio"].as_f64().unwrap() - 2.0).abs() < 1e-9);
    assert!(short.contains("2.00 (without 3)"), "{short}");
}

#[test]
fn an_empty_list_of_rows_is_a_result() {
    let (json, short, _) = compare(&of_workload(&[]), &of_workload(&[]));
    assert_eq!((&json["rows"], &json["sections"]), (&json!([]), &json!([])));
    assert!(short.contains("no row is in both"), "{short}");
    let (json, ..) = compare(&of_all(false, &[]), &of_workload(&[row("x", 1, [1.0; 3])]));
    assert_eq!(json["only_b"].as_array().unwrap().len(), 1);
}

#[test]
fn huge_numbers_are_compared_and_fit() {
    let a = [row("x", u64::MAX, [1e-300; 3]), row("x", 2, [1e300; 3])];
    let b = [row("x", u64::MAX, [1e300; 3]), row("x", 2, [f64::MAX; 3])];
    let (json, short, _) = compare(&of_workload(&a), &of_workload(&b));
    assert_eq!(json["rows"][0]["ratio"]["median"], Value::Null);
    assert_eq!(json["rows"][0]["verdict"], "faster");
    assert!(json["rows"][1]["ratio"]["median"].as_f64().unwrap() > 1e8);
    assert!(json["sections"][0]["ratio"].is_f64());
    assert!(short.lines().all(|line| line.len() < 120), "{short}");
    let too_large = of_workload(&a).to_string().replace("1e-300", "1e400");
    assert!(why_not(&too_large).contains("out of range"));
    let no_count = of_workload(&a).to_string();
    let no_count = no_count.replace(&u64::MAX.to_string(), "18446744073709551616");
    assert!(why_not(&no_count).contains("expected u64"));
}

#[test]
fn what_is_no_result_is_refused_by_what_is_missing() {
    for garbage in ["", "uext4", "[]", "7", "null", "\u{0}\u{1}", "{\"a\": 1"] {
        assert!(!why_not(garbage).is_empty(), "{garbage}");
    }
    let whole = of_workload(&[row("x", 1, [1.0, 2.0, 3.0])]);
    for key in ["benchmark", "host", "rows"] {
        let mut part = whole.clone();
        part.as_object_mut().unwrap().remove(key);
        let why = why_not(&part.to_string());
        assert!(why.contains(&format!("missing field `{key}`")), "{why}");
    }
    for key in ["arm", "op", "threads", "ops_per_s"] {
        let mut part = whole.clone();
        part["rows"][0].as_object_mut().unwrap().remove(key);
        let why = why_not(&part.to_string());
        assert!(why.contains(&format!("missing field `{key}`")), "{why}");
    }
    for key in ["quick", "sections"] {
        let mut part = of_all(true, &[]);
        part.as_object_mut().unwrap().remove(key);
        let why = why_not(&part.to_string());
        assert!(why.contains(&format!("missing field `{key}`")), "{why}");
    }
    let empty_section = of_all(true, &[json!({"name": "one"})]);
    let why = why_not(&empty_section.to_string());
    assert_eq!(why, "section `one`: missing field `document`");
    let disorder = of_workload(&[row("x", 1, [2.0, 1.0, 3.0])]);
    assert!(why_not(&disorder.to_string()).contains("not 0 <= min <= median <= max"));
    let below = of_workload(&[row("x", 1, [-1.0, 1.0, 3.0])]);
    assert!(why_not(&below.to_string()).contains("not 0 <= min"));
}

#[test]
fn a_result_that_was_cut_off_is_refused() {
    let whole = of_all(true, &[section("one", "mq", &[row("x", 1, [1.0; 3])])]).to_string();
    for end in 0..whole.len() {
        let part = whole.as_bytes().get(..end).unwrap();
        assert!(RunResult::parse("A.json", part).is_err(), "{end}");
    }
    assert!(RunResult::parse("A.json", whole.as_bytes()).is_ok());
}

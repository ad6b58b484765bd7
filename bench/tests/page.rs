//! The sample page and the page of a short run in Chromium, wide and narrow: nothing overlaps, nothing is cut off,
//! nothing uses the network. `make page` runs these tests; `make test` shows them as ignored.

mod all_run;
mod sample;

use all_run::Run;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The chart of the sample that shows how a chart without data looks.
const EMPTY: &str = "empty";
/// Returns a list of sentences; its argument is the list of the figures that may have no data.
const CHECKS: &str = include_str!("checks.js");

/// A headless Chromium with `--window-size=1400,1600` and more arguments, in a directory of its own.
fn chromium(url: &Path, argument: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let mut chromium = Command::new("chromium");
    chromium.args([
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
    ]);
    chromium.args([
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--allow-file-access-from-files",
    ]);
    chromium.args([
        "--disable-background-networking",
        "--window-size=1400,1600",
        argument,
    ]);
    chromium.arg(format!("--user-data-dir={}", profile.path().display()));
    let out = chromium
        .arg(format!("file://{}", url.display()))
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// What is wrong with a page on a screen of that width, a sentence each: scripts, requests to the network, what is wider
/// than the screen, texts that overlap, are cut off or are too small. Only the figures named in `may_be_empty` may
/// show no data. Where `UEXT4_SCREENSHOTS` names a directory, a picture of the page is put there.
fn faults(page: &str, width: u32, may_be_empty: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let frame = dir.path().join("frame.html");
    fs::write(dir.path().join("page.html"), page).unwrap();
    // A window cannot be as narrow as a telephone, but a frame can.
    let html = format!(
        "<!DOCTYPE html><meta charset=utf-8><body style='margin:0'>\
         <iframe id=page src=page.html width={width} height=1600 style='border:0'></iframe><pre id=found></pre>\
         <script>page.onload = () => {{\
         const checks = new page.contentWindow.Function({});\
         found.textContent = JSON.stringify(checks({may_be_empty:?})) }}</script>",
        serde_json::to_string(CHECKS).unwrap().replace("</", "<\\/"),
    );
    fs::write(&frame, html).unwrap();
    if let Some(to) = std::env::var_os("UEXT4_SCREENSHOTS") {
        let picture = Path::new(&to).join(format!("{width}.png"));
        chromium(&frame, &format!("--screenshot={}", picture.display()));
    }
    let dom = chromium(&frame, "--dump-dom");
    let found = dom
        .split("<pre id=\"found\">")
        .nth(1)
        .and_then(|rest| rest.split("</pre>").next());
    let found = found.unwrap_or_else(|| panic!("no result: {dom}"));
    let found = found
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    serde_json::from_str(&found).unwrap_or_else(|e| panic!("{e}: {found}"))
}

#[test]
#[ignore = "needs Chromium: make page"]
fn the_page_looks_good_on_a_desk_and_on_a_telephone() {
    let html = sample::page().html().unwrap();
    for width in [1280, 390] {
        assert_eq!(
            faults(&html, width, &[EMPTY]),
            Vec::<String>::new(),
            "{width}"
        );
    }
}

/// The canary: each check finds the page that was broken for it.
#[test]
#[ignore = "needs Chromium: make page"]
fn broken_pages_are_caught() {
    let html = sample::page().html().unwrap();
    let before_end = |text: &str| html.replace("</body>", &format!("{text}</body>"));
    let image = "<img src=\"http://127.0.0.1:9/x.png\">";
    let outside = "text-anchor=\"start\" transform=\"translate(-200)\"";
    let text_of = |size| html.replace("font-size=\"16.12", &format!("font-size=\"{size}.12"));
    for (page, wanted) in [
        (before_end("<script>nothing.there()</script>"), "a script"),
        (before_end(image), "asks the network"),
        (
            html.replace("figure id=\"empty\"", "figure id=\"lost\""),
            "lost: no data",
        ),
        (
            html.replace("overflow: auto", "overflow: visible"),
            "does not scroll",
        ),
        (
            before_end("<div style=\"width: 900px\">wide</div>"),
            "the page is 9",
        ),
        (text_of(40), "overlaps"),
        (html.replace("text-anchor=\"end\"", outside), "outside"),
        (text_of(8), "px: "),
    ] {
        assert_ne!(page, html, "{wanted}: nothing was broken");
        let found = faults(&page, 390, &[EMPTY]);
        assert!(
            found.iter().any(|fault| fault.contains(wanted)),
            "{wanted}: {found:?}"
        );
    }
    // Nothing may be empty unless it is named.
    assert_eq!(faults(&html, 390, &[]), ["empty: no data"]);
}

#[test]
#[ignore = "needs Chromium: make page"]
fn the_page_is_good_at_every_width() {
    let run = Run::of_everything();
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    assert_eq!(run.left, Vec::<String>::new());
    for width in [1280, 390] {
        let faults = faults(run.text("report.html"), width, &may_be_empty(run));
        assert_eq!(faults, Vec::<String>::new(), "{width} wide");
    }
}

/// The figures that have nothing to show where the machine lacks what their sections need.
fn may_be_empty(run: &Run) -> Vec<&'static str> {
    let figures = [
        ("mdtest-kernel", &["alloc-kernel"][..]),
        ("create-unlink-kernel", &["generation-kernel"]),
        ("randrw-kernel", &["dio-kernel-4k", "dio-kernel-1m"]),
        ("mq-mounted", &["mq-mounted"]),
        ("fsync", &["fsync", "fsync-latency"]),
    ];
    let lacking = figures
        .iter()
        .filter(|(section, _)| run.rows(section).is_none());
    lacking
        .flat_map(|(_, figures)| figures.iter().copied())
        .collect()
}

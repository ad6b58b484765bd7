//! The sample page and the page of a short run in Chromium, wide and narrow: nothing overlaps, nothing is cut off,
//! nothing uses the network. `make page` runs these tests; `make test` shows them as ignored.

mod all_run;
mod browser;
mod sample;

use all_run::Run;

use browser::Browser;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// The chart of the sample that shows how a chart without data looks.
const EMPTY: &str = "empty";

/// Where `UEXT4_SCREENSHOTS` names a directory, the page is put there, and pictured a screen at a time.
fn picture(browser: &Browser, width: u32) {
    let Some(dir) = std::env::var_os("UEXT4_SCREENSHOTS") else {
        return;
    };
    let dir = Path::new(&dir);
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("index.html"), sample::page().html()).unwrap();
    let screens = "return Math.ceil(document.scrollingElement.scrollHeight / innerHeight)";
    let screens = browser.eval(screens).unwrap().as_u64().unwrap();
    for screen in 0..screens {
        let scroll = format!("scrollTo({{top: {screen} * innerHeight, behavior: 'instant'}})");
        browser.eval(&scroll).unwrap();
        browser
            .screenshot(&dir.join(format!("{width}-{screen:02}.png")))
            .unwrap();
    }
}

fn looks_good(width: u32, height: u32, side_by_side: bool) {
    let browser = Browser::start(width, height);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.html");
    fs::write(&path, sample::page().html()).unwrap();
    let found = browser.faults_of_page(&path, &[EMPTY]).unwrap();
    let inner = browser.eval("return innerWidth").unwrap();
    picture(&browser, width);
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(inner, width, "not the width that was asked for");
    let tops = "return [...document.querySelectorAll('figure')].slice(0, 2)\
                .map((figure) => figure.getBoundingClientRect().top)";
    let tops = browser.eval(tops).unwrap();
    assert_eq!(tops[0] == tops[1], side_by_side, "{tops}");
}

#[test]
#[ignore = "needs Chromium: make page"]
fn the_page_looks_good_on_a_desk() {
    looks_good(1280, 1600, true);
}

#[test]
#[ignore = "needs Chromium: make page"]
fn the_page_looks_good_on_a_telephone() {
    looks_good(390, 1600, false);
}

/// The canary: each check finds the page that was broken for it.
#[test]
#[ignore = "needs Chromium: make page"]
fn broken_pages_are_caught() {
    let browser = Browser::start(390, 800);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.html");
    let html = sample::page().html();
    let wide = "<div style=\"width: 900px\">wide</div></body>";
    for (what, page, wanted) in [
        (
            "script",
            html.replace("</body>", "<script>nothing.there()</script></body>"),
            "console: ",
        ),
        (
            "image",
            html.replace("</body>", "<img src=\"http://127.0.0.1:9/x.png\"></body>"),
            "asks the network",
        ),
        (
            "marks",
            html.replace("class=\"marks\"", "class=\"gone\""),
            "no marks",
        ),
        (
            "empty chart",
            html.replace("figure id=\"empty\"", "figure id=\"lost\""),
            "lost: no marks",
        ),
        (
            "scroll",
            html.replace("overflow: auto", "overflow: visible"),
            "does not scroll",
        ),
        ("width", html.replace("</body>", wide), "the page is 9"),
        (
            "overlap",
            html.replace(" textLength=\"", " textLength=\"2"),
            "overlaps",
        ),
        (
            "outside",
            html.replace(
                "text-anchor=\"end\"",
                "text-anchor=\"start\" transform=\"translate(-90)\"",
            ),
            "outside",
        ),
        (
            "small",
            html.replace("font-size=\"15\"", "font-size=\"11\""),
            "px: ",
        ),
    ] {
        assert_ne!(page, html, "{what}: nothing was broken");
        fs::write(&path, page).unwrap();
        let found = browser.faults_of_page(&path, &[EMPTY]).unwrap();
        assert!(
            found.iter().any(|fault| fault.contains(wanted)),
            "{what}: {found:?}"
        );
    }
    fs::write(&path, &html).unwrap();
    let found = browser.faults_of_page(&path, &[EMPTY]).unwrap();
    assert_eq!(found, Vec::<String>::new());
    // Nothing may be empty unless it is named.
    let found = browser.faults_of_page(&path, &[]).unwrap();
    assert_eq!(found, ["empty: no marks"]);
}

/// The font files of this machine, one of each name.
fn fonts(dir: &Path, found: &mut BTreeMap<OsString, PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.extension().and_then(OsStr::to_str) {
            _ if path.is_dir() => fonts(&path, found),
            Some("ttf" | "otf") => drop(found.insert(entry.file_name(), path)),
            _ => {}
        }
    }
}

/// A configuration of fontconfig that knows one font.
fn only(font: &Path, dir: &Path) -> PathBuf {
    let (fonts, cache) = (dir.join("fonts"), dir.join("cache"));
    fs::create_dir_all(&fonts).unwrap();
    fs::copy(font, fonts.join(font.file_name().unwrap())).unwrap();
    let config = dir.join("fonts.conf");
    let (fonts, cache) = (fonts.display(), cache.display());
    let text = format!("<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>");
    fs::write(&config, text).unwrap();
    config
}

#[test]
#[ignore = "needs Chromium: make page"]
fn the_charts_fit_in_every_font() {
    let mut found = BTreeMap::new();
    fonts(Path::new("/usr/share/fonts"), &mut found);
    // Wide, bold, of one width, with serifs: what Debian installs beside Chromium, and the one that charts ask for.
    let known = [
        "DejaVuSans.ttf",
        "DejaVuSans-Bold.ttf",
        "DejaVuSansMono.ttf",
        "DejaVuSerif.ttf",
        "LiberationSans-Regular.ttf",
    ];
    found.retain(|name, _| known.iter().any(|known| name == known));
    if found.is_empty() {
        eprintln!("skipped: this machine has none of {known:?}");
    }
    let mut widths = BTreeSet::new();
    for font in found.values() {
        let dir = tempfile::tempdir().unwrap();
        let config = only(font, dir.path());
        let browser = Browser::start_with_fonts(1280, 1600, &config);
        let path = dir.path().join("index.html");
        fs::write(&path, sample::page().html()).unwrap();
        let faults = browser.faults_of_page(&path, &[EMPTY]).unwrap();
        assert_eq!(faults, Vec::<String>::new(), "{}", font.display());
        // That each browser has the font that it was started with.
        let width = "const span = document.body.appendChild(document.createElement('span'));\
                     span.textContent = 'Within its picture';\
                     return span.getBoundingClientRect().width";
        widths.insert(browser.eval(width).unwrap().to_string());
    }
    assert_eq!(widths.len(), found.len(), "{found:?}: {widths:?}");
}

#[test]
#[ignore = "needs Chromium: make page"]
fn the_page_is_good_at_every_width() {
    let run = Run::of_everything();
    assert_eq!(run.code, Some(0), "{}\n{}", run.out, run.err);
    assert_eq!(run.left, Vec::<String>::new());
    let dir = run.put();
    for width in [1280, 390] {
        let browser = Browser::start(width, 1600);
        let page = dir.path().join("report.html");
        let faults = browser.faults_of_page(&page, &may_be_empty(run)).unwrap();
        assert_eq!(faults, Vec::<String>::new(), "{width} wide");
    }
}

/// The figures that have nothing to show where the machine lacks what their sections need.
fn may_be_empty(run: &Run) -> Vec<&'static str> {
    let mut figures = Vec::new();
    for (section, of_it) in [
        ("mdtest-kernel", &["alloc-kernel"][..]),
        ("create-unlink-kernel", &["generation-kernel"]),
        ("randrw-kernel", &["dio-kernel-4k", "dio-kernel-1m"]),
        ("mq-mounted", &["mq-mounted"]),
        ("fsync", &["fsync", "fsync-latency"]),
    ] {
        if run.rows(section).is_none() {
            figures.extend(of_it);
        }
    }
    figures
}

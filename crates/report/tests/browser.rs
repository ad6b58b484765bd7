//! The sample page in a real browser, wide and narrow: nothing overlaps, nothing is cut off,
//! nothing asks the network. Skipped, with a line, where no browser is installed.

mod sample;

use std::path::Path;
use uext4_browser::Browser;

/// The chart of the sample that shows how a chart without data looks.
const EMPTY: &str = "empty";

/// Where `UEXT4_SCREENSHOTS` names a directory, the page is put there, and pictured a screen at a time.
fn picture(browser: &Browser, width: u32) {
    let Some(dir) = std::env::var_os("UEXT4_SCREENSHOTS") else {
        return;
    };
    let dir = Path::new(&dir);
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("index.html"), sample::page().html()).unwrap();
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
    let Some(browser) = Browser::start(width, height) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.html");
    std::fs::write(&path, sample::page().html()).unwrap();
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
fn the_page_looks_good_on_a_desk() {
    looks_good(1280, 1600, true);
}

#[test]
fn the_page_looks_good_on_a_telephone() {
    looks_good(390, 1600, false);
}

/// The canary: each check finds the page that was broken for it.
#[test]
fn broken_pages_are_caught() {
    let Some(browser) = Browser::start(390, 800) else {
        return;
    };
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
            html.replace(
                ">create<",
                ">one name that is so long that it covers its neighbours<",
            ),
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
        std::fs::write(&path, page).unwrap();
        let found = browser.faults_of_page(&path, &[EMPTY]).unwrap();
        assert!(
            found.iter().any(|fault| fault.contains(wanted)),
            "{what}: {found:?}"
        );
    }
    std::fs::write(&path, &html).unwrap();
    let found = browser.faults_of_page(&path, &[EMPTY]).unwrap();
    assert_eq!(found, Vec::<String>::new());
    // Nothing may be empty unless it is named.
    let found = browser.faults_of_page(&path, &[]).unwrap();
    assert_eq!(found, ["empty: no marks"]);
}

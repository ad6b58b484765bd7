//! What a chart and a page are made of, read back as XML.

mod sample;

use roxmltree::{Document, Node};
use sample::{axis, charts, create_unlink, empty, names, page, series};
use uext4_bench::chart::{Block, Chart, Kind, Mark, Page, Point, Scale, Section, Table};

/// The texts of all elements of a name.
fn texts(document: &Document<'_>, name: &str) -> Vec<String> {
    let named = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name)));
    named
        .filter_map(|node| node.text().map(str::to_owned))
        .collect()
}

fn marks<'a>(document: &'a Document<'a>) -> impl Iterator<Item = Node<'a, 'a>> {
    document
        .descendants()
        .filter(|node| node.attribute("class") == Some("marks"))
}

/// Parses the chart; fails where a number in it is none.
fn check(svg: &str) {
    let document = Document::parse(svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
    for node in document.descendants().filter(Node::is_element) {
        for attribute in node.attributes() {
            let value = attribute.value();
            assert!(!value.contains("NaN") && !value.contains("inf"), "{value}");
        }
    }
    assert_eq!(document.root_element().attribute("role"), Some("img"));
}

#[test]
fn every_chart_is_xml_without_bad_numbers() {
    for chart in charts() {
        check(&chart.svg());
    }
}

#[test]
fn every_point_says_what_it_is() {
    let svg = create_unlink().svg();
    let document = Document::parse(&svg).unwrap();
    let titles = texts(&document, "title");
    let wanted = "published: lock: 128 tasks, 385 k pairs/s";
    assert!(titles.iter().any(|title| title == wanted), "{titles:?}");
    let spread = titles
        .iter()
        .filter(|title| title.starts_with("atomic: ") && title.contains(" to "));
    assert_eq!(spread.count(), 8);
    // Eight series of eight points, and the chart itself.
    assert_eq!(titles.len(), 8 * 8 + 1);
    assert_eq!(marks(&document).count(), 8);
}

#[test]
fn a_unit_in_brackets_replaces_the_name_of_the_axis() {
    let mut chart = create_unlink();
    chart.y.label = "creates (/s)".to_owned();
    let svg = chart.svg();
    assert!(svg.contains("published: lock: 128 tasks, 385 k/s"), "{svg}");
}

#[test]
fn markup_in_names_stays_text() {
    let nasty = "<b>&\"'\u{1}";
    let mut chart = create_unlink();
    chart.id = "a b/<c>".to_owned();
    chart.title = nasty.to_owned();
    chart.subtitle = nasty.to_owned();
    chart.x.label = nasty.to_owned();
    chart.y.label = nasty.to_owned();
    chart.series = vec![series(nasty, Kind::Variant, Mark::Bars, &[(1.0, 2.0)], 0.0)];
    let svg = chart.svg();
    check(&svg);
    let document = Document::parse(&svg).unwrap();
    assert!(
        texts(&document, "text")
            .iter()
            .any(|text| text.contains("<b>&\"'"))
    );
    assert!(
        document
            .descendants()
            .any(|node| node.attribute("id") == Some("a-b--c--title"))
    );
}

#[test]
fn without_points_there_are_axes_and_a_word() {
    let mut none = empty();
    none.series.clear();
    for chart in [empty(), none] {
        let svg = chart.svg();
        check(&svg);
        let document = Document::parse(&svg).unwrap();
        let words = texts(&document, "text");
        assert!(words.iter().any(|word| word == "no data"), "{words:?}");
        assert!(words.iter().any(|word| word == "ops/s"));
        assert!(
            !words.iter().any(|word| word == "lost"),
            "an empty series is in the legend"
        );
    }
}

#[test]
fn logarithmic_axes_leave_out_zeros_and_ends_of_spread() {
    let mut chart = create_unlink();
    chart.y.scale = Scale::Log;
    let point = |x, y, low| Point {
        x,
        y,
        low: Some(low),
        high: None,
    };
    chart.series.truncate(1);
    chart.series[0].points = vec![
        point(1.0, 0.0, 0.0),
        point(2.0, 30.0, -1.0),
        point(4.0, 40.0, 35.0),
    ];
    let svg = chart.svg();
    check(&svg);
    let document = Document::parse(&svg).unwrap();
    let titles = texts(&document, "title");
    assert_eq!(titles.len(), 3, "{titles:?}");
    assert!(
        titles.iter().any(|t| t.ends_with("2 tasks, 30 pairs/s")),
        "{titles:?}"
    );
    assert!(
        titles.iter().any(|t| t.ends_with("(from 35)")),
        "{titles:?}"
    );
}

#[test]
fn any_mark_kind_scale_and_count_of_points_can_be_drawn() {
    let scales = [
        Scale::Linear,
        Scale::Log,
        names(&["one", "two"]),
        names(&[]),
    ];
    let counts = [0, 1, 2, 100];
    let values = [
        0.0,
        1.0,
        -3.0,
        1e-9,
        1e12,
        1e99,
        -1e99,
        f64::NAN,
        f64::MAX,
        f64::NEG_INFINITY,
    ];
    let mut seen = 0;
    for mark in [Mark::Line, Mark::Bars, Mark::Dots] {
        for kind in [Kind::Variant, Kind::Peer, Kind::Published, Kind::Model] {
            for (i, x) in scales.iter().enumerate() {
                for (j, y) in scales.iter().enumerate() {
                    for count in counts {
                        let point =
                            |at: usize| (at as f64, values[(at * 7 + i * 3 + j) % values.len()]);
                        let points: Vec<(f64, f64)> = (0..count).map(point).collect();
                        let chart = Chart {
                            x: axis("x", x.clone()),
                            y: axis("y", y.clone()),
                            series: vec![series("s", kind, mark, &points, 10.0)],
                            ..create_unlink()
                        };
                        check(&chart.svg());
                        seen += 1;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 3 * 4 * 16 * 4);
}

#[test]
fn patterns_are_defined_once_on_the_page_and_every_reference_has_one() {
    let html = page().html();
    let ids: Vec<&str> = html
        .split(" id=\"")
        .skip(1)
        .filter_map(|s| s.split('"').next())
        .collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(ids.len(), unique.len(), "an id is there twice");
    let references: Vec<&str> = html
        .split("url(#")
        .skip(1)
        .filter_map(|s| s.split(')').next())
        .collect();
    assert!(references.len() > 20);
    for reference in references {
        assert!(unique.binary_search(&reference).is_ok(), "{reference}");
    }
}

#[test]
fn columns_of_words_are_told_from_columns_of_numbers() {
    let line = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
    let table = Table {
        header: line(["arm", "rate", "from", "none"]),
        rows: vec![
            line(["a", "1.20 M (1.10-1.30)", "the clock (of the CPU)", ""]),
            line(["b", "-3", "", ""]),
        ],
    };
    let caption = "Rates".to_owned();
    let html = Page {
        sections: vec![Section {
            id: "s".to_owned(),
            title: "S".to_owned(),
            blocks: vec![Block::Table { caption, table }],
        }],
        ..page()
    }
    .html();
    for part in [
        "<th scope=\"col\">rate</th>",
        "<th scope=\"col\" class=\"words\">from</th>",
        "<th scope=\"col\">none</th>",
        "<td>1.20 M <small>(1.10-1.30)</small></td>",
        "<td class=\"words\"><span>the clock (of the CPU)</span></td>",
        "<td>-3</td>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[test]
fn a_page_needs_nothing_else() {
    let page = page();
    let html = page.html();
    assert_eq!(page.charts().count(), charts().len());
    assert_eq!(html.matches("<figure ").count(), charts().len());
    assert_eq!(
        html.matches("http").count(),
        html.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(!html.contains("<script"));
    assert!(html.contains("group &lt;lock&gt;") && html.contains("href=\"#dio\""));
    assert!(html.contains("<th scope=\"row\"><span>group"));
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("@media print"));
}

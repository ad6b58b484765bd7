//! What a chart and a page are made of, read back as XML.

mod sample;

use roxmltree::{Document, Node};
use sample::{charts, create_unlink, empty, names, page, series};
use uext4_bench::chart::{Axis, Block, Chart, Kind, Mark, Page, Scale, Section, Table, number};

/// The texts of all elements of a name.
fn texts(document: &Document<'_>, name: &str) -> Vec<String> {
    let named = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name)));
    named
        .filter_map(|node| node.text().map(|text| text.trim().to_owned()))
        .collect()
}

/// Parses the chart; fails where a number in it is none.
fn check(chart: &Chart) -> String {
    let svg = chart.svg().unwrap();
    let document = Document::parse(&svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
    for node in document.descendants().filter(Node::is_element) {
        for attribute in node.attributes() {
            let value = attribute.value();
            assert!(!value.contains("NaN") && !value.contains("inf"), "{value}");
        }
    }
    svg
}

#[test]
fn every_chart_is_xml_with_its_series_axes_and_ticks() {
    for chart in charts() {
        let svg = check(&chart);
        let words = texts(&Document::parse(&svg).unwrap(), "text");
        let drawn = chart.series.iter().filter(|series| series.name != "lost");
        for name in drawn
            .map(|series| &series.name)
            .chain([&chart.x.label, &chart.y.label])
        {
            assert!(name.is_empty() || words.contains(name), "{name}: {words:?}");
        }
        let ticks = words
            .iter()
            .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        assert!(ticks.count() >= 3, "{}: {words:?}", chart.id);
    }
}

#[test]
fn every_value_is_in_the_table_below_its_chart() {
    let html = page()
        .html()
        .unwrap()
        .replace("<small>", "")
        .replace("</small>", "");
    let chart = create_unlink();
    let figure = html.split("<figure id=\"create-unlink\"").nth(1).unwrap();
    let figure = figure.split("</figure>").next().unwrap();
    for series in chart
        .series
        .iter()
        .filter(|series| series.kind != Kind::Published)
    {
        assert!(figure.contains(&format!("<th scope=\"col\">{}</th>", series.name)));
        for point in &series.points {
            let cell = number::spread(point.spread.0, point.y, point.spread.1);
            assert!(
                figure.contains(&format!("<td>{cell}</td>")),
                "{}: {cell}",
                series.name
            );
        }
    }
    assert!(figure.contains("<span>128</span>"), "{figure}");
}

#[test]
fn series_differ_without_their_colour() {
    let ten = charts()
        .into_iter()
        .find(|chart| chart.id == "bars")
        .unwrap();
    let mut seen = Vec::new();
    for series in &ten.series {
        let mut chart = ten.clone();
        chart.series.iter_mut().for_each(|s| s.mark = Mark::Line);
        let at = chart
            .series
            .iter()
            .position(|s| s.name == series.name)
            .unwrap();
        // Alone, but with its look.
        for (i, other) in chart.series.iter_mut().enumerate() {
            other.points.truncate(if i == at { 2 } else { 0 });
            other
                .points
                .iter_mut()
                .for_each(|p| (p.x, p.y) = (p.x, 5.0));
        }
        let svg = check(&chart).replace(&series.name, "");
        let document = Document::parse(&svg).unwrap();
        let shapes = document.descendants().filter(|node| {
            ["circle", "rect", "polygon", "polyline", "line"].contains(&node.tag_name().name())
        });
        let hollow = svg.matches("#FFFFFF").count();
        seen.push((
            shapes.count(),
            svg.matches("<circle").count(),
            hollow,
            svg.len(),
        ));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), ten.series.len(), "{seen:?}");
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
    let svg = check(&chart);
    let words = texts(&Document::parse(&svg).unwrap(), "text");
    assert!(
        words.iter().any(|text| text.contains("<b>&\"'")),
        "{words:?}"
    );
}

#[test]
fn without_points_there_are_axes_and_a_word() {
    let mut none = empty();
    none.series.clear();
    for chart in [empty(), none] {
        let svg = check(&chart);
        let words = texts(&Document::parse(&svg).unwrap(), "text");
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
    chart.series.truncate(1);
    let points = &mut chart.series[0].points;
    points.truncate(3);
    (points[0].y, points[0].spread.0, points[1].spread.0) = (0.0, 0.0, -1.0);
    let svg = check(&chart);
    // Two circles for each marker: that of the legend, and two of the three points.
    assert_eq!(svg.matches("<circle").count(), 2 * (1 + 2), "{svg}");
}

#[test]
fn any_mark_kind_scale_and_count_of_points_can_be_drawn() {
    let scales = [Scale::Linear, Scale::Log, names("one two"), names("")];
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
    for mark in [Mark::Line, Mark::Bars] {
        for kind in [Kind::Variant, Kind::Peer, Kind::Published] {
            for (i, x) in scales.iter().enumerate() {
                for (j, y) in scales[..2].iter().enumerate() {
                    for count in [0, 1, 2, 100] {
                        let value = |at: usize| values[(at * 7 + i * 3 + j) % values.len()];
                        let points: Vec<(f64, f64)> =
                            (0..count).map(|at| (at as f64, value(at))).collect();
                        check(&Chart {
                            x: Axis::new("x", x.clone()),
                            y: Axis::new("y", y.clone()),
                            series: vec![series("s", kind, mark, &points, 10.0)],
                            ..create_unlink()
                        });
                        seen += 1;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 2 * 3 * 8 * 4);
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
    .html()
    .unwrap();
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
    let html = page.html().unwrap();
    assert_eq!(page.charts().count(), charts().len());
    assert_eq!(html.matches("<figure ").count(), charts().len());
    assert_eq!(
        html.matches("http").count(),
        html.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(!html.contains("<script"));
    assert!(html.contains("group&lt;lock&gt;") && html.contains("href=\"#charts\""));
    assert!(html.contains("<th scope=\"row\"><span>group"));
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("@media print"));
}

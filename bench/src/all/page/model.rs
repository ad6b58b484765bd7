//! What a simulation projects for machines with more cores, and how well it meets what was measured here.

use super::figure::published;
use crate::chart::{Axis, Block, Chart, Kind, Mark, Point, Scale, Section, Series, Table};
use crate::model::result::{CorePoint, Cost, Curve};
use crate::model::{FitPoint, Mechanism, Projection, VariantModel};
use crate::tables::count;

/// A variant that is further off somewhere is counted in a warning.
const ERROR_MAX_PERCENT: f64 = 25.0;
/// Measurements and model of more variants are in a second chart.
const VARIANTS_SHOWN: usize = 4;
/// Acquisitions that the model has within this part of what was measured at the fewest workers say nothing.
const ACQUISITIONS_ALIKE: f64 = 0.05;

pub fn section(projection: &Projection) -> Section {
    let text = |text: &String| Block::Text(text.clone());
    let parameters = projection
        .parameters
        .iter()
        .map(|cost| (cost.name.clone(), cost));
    let mut blocks = vec![Block::Warning(
        "This part is a model, not a measurement: the protocol of each variant is simulated, with service times from this \
         machine's lock statistics."
            .to_owned(),
    )];
    blocks.extend(projection.assumptions.iter().skip(1).map(text));
    blocks.push(table("Parameters of the model", costs(parameters)));
    blocks.push(table(
        "Error of the model at the counts it was not fitted to",
        errors(projection),
    ));
    blocks.extend(too_far(projection));
    blocks.extend(projection.mechanisms.iter().flat_map(of_mechanism));
    blocks.extend(projection.remarks.iter().map(text));
    Section {
        id: "beyond-this-machine".to_owned(),
        title: "Beyond this machine: a projection".to_owned(),
        blocks,
    }
}

fn table(caption: &str, table: Table) -> Block {
    let caption = caption.to_owned();
    Block::Table { caption, table }
}

fn of_mechanism(mechanism: &Mechanism) -> Vec<Block> {
    let title = &mechanism.title;
    let mut blocks = vec![
        Block::Heading(title.clone()),
        Block::Figure(projected(mechanism)),
        Block::Figure(over_first(mechanism)),
    ];
    let parts = mechanism.variants.chunks(VARIANTS_SHOWN).enumerate();
    blocks.extend(parts.map(|(part, some)| Block::Figure(checked(mechanism, part, some))));
    blocks.push(table(
        &format!("{title}: the model beside what was measured"),
        points(mechanism),
    ));
    blocks.extend(mechanism.remarks.iter().cloned().map(Block::Text));
    let named = mechanism.variants.iter().flat_map(|variant| {
        let name = |cost: &Cost| format!("{}: {}", variant.name, cost.name);
        variant.costs.iter().map(move |cost| (name(cost), cost))
    });
    blocks.push(table(
        &format!("{title}: the inputs of the simulation"),
        costs(named),
    ));
    let acquisitions = acquisitions(mechanism);
    if !acquisitions.rows.is_empty() {
        blocks.push(table(
            &format!("{title}: acquisitions for each operation"),
            acquisitions,
        ));
    }
    blocks
}

/// A chart with logarithmic axes. `labels`: how it was measured, and the labels of the axes.
fn chart(id: String, title: String, [subtitle, x, y]: [&str; 3], series: Vec<Series>) -> Chart {
    Chart {
        id,
        title,
        subtitle: subtitle.to_owned(),
        x: Axis::new(x, Scale::Log),
        y: Axis::new(y, Scale::Log),
        series,
        notes: Vec::new(),
    }
}

/// A line for each variant over counts of cores.
fn lines(
    mechanism: &Mechanism,
    point: impl Fn(&VariantModel, &CorePoint) -> Option<Point>,
) -> Vec<Series> {
    let line = |variant: &VariantModel| {
        let points = variant.projected.iter().filter_map(|p| point(variant, p));
        series(&variant.name, Kind::Model, Mark::Line, points)
    };
    mechanism.variants.iter().map(line).collect()
}

fn series(name: &str, kind: Kind, mark: Mark, points: impl Iterator<Item = Point>) -> Series {
    let (name, points) = (name.to_owned(), points.collect());
    Series {
        name,
        kind,
        mark,
        points,
    }
}

/// Rates by cores, with the published ones where they are of the same kind.
fn projected(mechanism: &Mechanism) -> Chart {
    let mut series = lines(mechanism, |_, p| {
        let spread = (p.at_double_line_cost, p.at_half_line_cost);
        Some(Point {
            spread,
            ..Point::new(p.cores as f64, p.ops_per_s)
        })
    });
    let alike = |curve: &&Curve| mechanism.unit.ends_with(&curve.unit);
    let curves = mechanism.published.iter().filter(alike);
    series.extend(curves.map(|curve| published(&curve.name, &curve.points)));
    let bracket = "In brackets: with a cache line that moves in double and in half the time.";
    let mut notes = vec![bracket.to_owned()];
    for same in mechanism.published.chunk_by(|a, b| a.source == b.source) {
        let names: Vec<&str> = same.iter().map(|curve| &*curve.name).collect();
        let source = same.first().map_or("", |curve| &curve.source);
        notes.push(format!("{}: {source}.", names.join(", ")));
    }
    let labels = ["model: one worker a core", "cores", &mechanism.unit];
    let id = format!("model-{}", mechanism.name);
    let title = format!("Projection: {}", mechanism.title);
    Chart {
        notes,
        ..chart(id, title, labels, series)
    }
}

/// Each variant over the one that was replaced, which is the first.
fn over_first(mechanism: &Mechanism) -> Chart {
    let first = mechanism.variants.first();
    let base = first.map_or("", |variant| &variant.name);
    let mut series = lines(mechanism, |_, p| {
        let of_base = first?
            .projected
            .iter()
            .find(|other| other.cores == p.cores)?
            .ops_per_s;
        (of_base > 0.0).then(|| Point::new(p.cores as f64, p.ops_per_s / of_base))
    });
    series.extend(published_ratio(&mechanism.published, base));
    let (about, over) = (
        format!("model: rate over that of {base}"),
        format!("times {base}"),
    );
    let id = format!("model-{}-gain", mechanism.name);
    let title = format!("Projected gain: {}", mechanism.title);
    chart(id, title, [&about, "cores", &over], series)
}

/// What was published of the same: one curve over that of `base`, or a gain over it.
fn published_ratio(curves: &[Curve], base: &str) -> Option<Series> {
    let variant = base.split('/').next().unwrap_or_default();
    match curves {
        [before, after] if before.unit == after.unit && before.name == base => {
            let both = before.points.iter().zip(&after.points);
            let alike = both.filter(|(a, b)| a.0 == b.0 && a.1 > 0.0);
            let points: Vec<(f64, f64)> = alike.map(|(a, b)| (a.0, b.1 / a.1)).collect();
            Some(published(&after.name, &points))
        }
        [gain] if gain.unit == "percent" && gain.name.contains(&format!("over {variant}")) => {
            let ratio = |&(x, percent): &(f64, f64)| (x, 1.0 + percent / 100.0);
            let points: Vec<(f64, f64)> = gain.points.iter().map(ratio).collect();
            Some(published(&gain.name, &points))
        }
        _ => None,
    }
}

/// Model and measurement of some variants on this machine.
fn checked(mechanism: &Mechanism, part: usize, variants: &[VariantModel]) -> Chart {
    let of_variant = |variant: &VariantModel| {
        let points = || variant.points.iter();
        let measured = points().map(|p| Point {
            spread: (p.measured_min, p.measured_max),
            ..Point::new(p.count as f64, p.measured)
        });
        let modelled = points().map(|p| Point::new(p.count as f64, p.modelled));
        [
            series(&variant.name, Kind::Variant, Mark::Dots, measured),
            series(
                &format!("{}, model", variant.name),
                Kind::Model,
                Mark::Line,
                modelled,
            ),
        ]
    };
    let nth = match part {
        0 => String::new(),
        part => format!("-{}", part + 1),
    };
    let about = "markers: measured, whiskers up to the fastest round; dashed: model";
    let labels = [about, &mechanism.counts, &mechanism.unit];
    let id = format!("model-{}-check{nth}", mechanism.name);
    let title = format!("The model on this machine: {}", mechanism.title);
    chart(
        id,
        title,
        labels,
        variants.iter().flat_map(of_variant).collect(),
    )
}

fn costs<'a>(named: impl Iterator<Item = (String, &'a Cost)>) -> Table {
    let line = |(name, cost): (String, &Cost)| {
        let value = match cost.value {
            v if v.abs() >= 100.0 => count(v),
            v if v.abs() >= 10.0 => format!("{v:.1}"),
            v => format!("{v:.3}"),
        };
        vec![name, format!("{value} {}", cost.unit), cost.source.clone()]
    };
    Table::new(&["", "value", "from"], named.map(line).collect())
}

fn points(mechanism: &Mechanism) -> Table {
    let line = |variant: &VariantModel, p: &FitPoint| {
        vec![
            format!("{}, {}", variant.name, p.count),
            format!("{:+.1}", p.error_percent),
            format!("{:+.1}", p.error_to_median_percent),
            if p.fitted { "fitted" } else { "checked" }.to_owned(),
        ]
    };
    let of_variant = |variant: &VariantModel| -> Vec<Vec<String>> {
        variant.points.iter().map(|p| line(variant, p)).collect()
    };
    let first = format!("arm, {}", mechanism.counts);
    Table::new(
        &[&first, "error (%)", "to the median (%)", ""],
        mechanism.variants.iter().flat_map(of_variant).collect(),
    )
}

fn errors(projection: &Projection) -> Table {
    let counts = |variant: &VariantModel, fitted: bool| {
        let some = variant.points.iter().filter(|p| p.fitted == fitted);
        some.map(|p| p.count.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut rows = Vec::new();
    for mechanism in &projection.mechanisms {
        for variant in &mechanism.variants {
            rows.push(vec![
                format!("{}: {}", mechanism.title, variant.name),
                counts(variant, true),
                counts(variant, false),
                variant
                    .worst_error_percent
                    .map_or_else(|| "not checked".to_owned(), |worst| format!("{worst:.1}")),
            ]);
        }
    }
    Table::new(&["arm", "fitted at", "checked at", "worst error (%)"], rows)
}

fn too_far(projection: &Projection) -> Option<Block> {
    let variants: Vec<&VariantModel> = projection
        .mechanisms
        .iter()
        .flat_map(|m| &m.variants)
        .collect();
    let is_far = |variant: &&&VariantModel| variant.worst_error_percent > Some(ERROR_MAX_PERCENT);
    let (far, all) = (variants.iter().filter(is_far).count(), variants.len());
    (far > 0).then(|| {
        Block::Warning(format!(
            "In this run {far} of {all} variants are off by more than {ERROR_MAX_PERCENT} % at some count. Where the rounds \
             of that count are far apart, other work on the machine may be why; where they are not, the model is wrong."
        ))
    })
}

fn acquisitions(mechanism: &Mechanism) -> Table {
    let mut rows = Vec::new();
    let says = |variant: &&VariantModel| {
        let first = variant
            .acquisitions_per_op
            .first()
            .map_or(0.0, |a| a.measured);
        let differs = |value: f64| (value - first).abs() > ACQUISITIONS_ALIKE * first;
        variant
            .acquisitions_per_op
            .iter()
            .any(|a| differs(a.measured) || differs(a.modelled))
    };
    for variant in mechanism.variants.iter().filter(says) {
        for a in &variant.acquisitions_per_op {
            rows.push(vec![
                format!("{}, {}", variant.name, a.count),
                format!("{:.2}", a.measured),
                format!("{:.2}", a.modelled),
            ]);
        }
    }
    Table::new(
        &[&format!("arm, {}", mechanism.counts), "measured", "model"],
        rows,
    )
}

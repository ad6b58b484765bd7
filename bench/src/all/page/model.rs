//! What a simulation projects for machines with more cores, and how well it meets what was measured here.

use super::figure::published;
use crate::chart::{Axis, Block, Chart, Kind, Mark, Point, Scale, Section, Series, Table, number};
use crate::model::result::{Cost, Curve};
use crate::model::{FitPoint, Mechanism, Projection, VariantModel};
use crate::tables::count;

/// A variant that is further off somewhere is counted in a warning.
const ERROR_MAX_PERCENT: f64 = 25.0;
/// Measurements and model of more variants are in a second chart.
const ARMS_SHOWN: usize = 4;
/// Acquisitions that the model has within this part of what was measured at the fewest workers say nothing.
const ACQUISITIONS_ALIKE: f64 = 0.05;

/// The section.
pub fn section(projection: &Projection) -> Section {
    let mut blocks = vec![Block::Warning(
        "This part is a model, not a measurement: the protocol of each variant is simulated, with service times from this \
         machine's lock statistics."
            .to_owned(),
    )];
    let text = |text: &String| Block::Text(text.clone());
    blocks.extend(projection.assumptions.iter().skip(1).map(text));
    blocks.push(Block::Table {
        caption: "Parameters of the model".to_owned(),
        table: costs(
            projection
                .parameters
                .iter()
                .map(|cost| (cost.name.clone(), cost)),
        ),
    });
    blocks.push(Block::Table {
        caption: "Error of the model at the counts it was not fitted to".to_owned(),
        table: errors(projection),
    });
    blocks.extend(too_far(projection));
    for mechanism in &projection.mechanisms {
        blocks.extend(of_mechanism(mechanism));
    }
    blocks.extend(projection.remarks.iter().map(text));
    Section {
        id: "beyond-this-machine".to_owned(),
        title: "Beyond this machine: a projection".to_owned(),
        blocks,
    }
}

fn of_mechanism(mechanism: &Mechanism) -> Vec<Block> {
    let mut blocks = vec![
        Block::Heading(mechanism.title.clone()),
        projected(mechanism),
        over_first(mechanism),
    ];
    let parts = mechanism.variants.chunks(ARMS_SHOWN).enumerate();
    blocks.extend(parts.map(|(part, variants)| checked(mechanism, part, variants)));
    blocks.extend(
        mechanism
            .remarks
            .iter()
            .map(|remark| Block::Text(remark.clone())),
    );
    let all = mechanism.variants.iter();
    let named = all.flat_map(|variant| {
        let name = |cost: &Cost| format!("{}: {}", variant.name, cost.name);
        variant.costs.iter().map(move |cost| (name(cost), cost))
    });
    blocks.push(Block::Table {
        caption: format!("{}: the inputs of the simulation", mechanism.title),
        table: costs(named),
    });
    let acquisitions = acquisitions(mechanism);
    if !acquisitions.rows.is_empty() {
        blocks.push(Block::Table {
            caption: format!("{}: acquisitions for each operation", mechanism.title),
            table: acquisitions,
        });
    }
    blocks
}

/// A chart with logarithmic axes. `labels`: how it was measured, and the labels of the axes.
fn figure(
    id: String,
    title: String,
    labels: [&str; 3],
    series: Vec<Series>,
    table: Table,
    notes: Vec<String>,
) -> Block {
    let [subtitle, x, y] = labels;
    let chart = Chart {
        id,
        title,
        subtitle: subtitle.to_owned(),
        x: Axis::new(x, Scale::Log),
        y: Axis::new(y, Scale::Log),
        series,
    };
    Block::figure(chart, table, notes)
}

/// Rates by cores, with the published ones where they are of the same kind.
fn projected(mechanism: &Mechanism) -> Block {
    let line = |variant: &VariantModel| Series {
        name: variant.name.clone(),
        kind: Kind::Model,
        mark: Mark::Line,
        points: variant
            .projected
            .iter()
            .map(|p| Point::new(p.cores as f64, p.ops_per_s))
            .collect(),
    };
    let mut series: Vec<Series> = mechanism.variants.iter().map(line).collect();
    let alike = |curve: &&Curve| mechanism.unit.ends_with(&curve.unit);
    for curve in mechanism.published.iter().filter(alike) {
        series.push(published(&curve.name, &curve.points));
    }
    let cell = |variant: &VariantModel, cores: usize| {
        let found = variant.projected.iter().find(|p| p.cores == cores);
        found.map_or_else(String::new, |p| {
            let (half, double) = (
                number::number(p.at_half_line_cost),
                number::number(p.at_double_line_cost),
            );
            format!("{} ({half} / {double})", number::number(p.ops_per_s))
        })
    };
    let table = by_cores(mechanism, cell);
    let bracket = "In brackets: with a cache line that moves in half and in double the time.";
    let mut notes = vec![bracket.to_owned()];
    for same in mechanism.published.chunk_by(|a, b| a.source == b.source) {
        let names: Vec<&str> = same.iter().map(|curve| &*curve.name).collect();
        let source = same.first().map_or("", |curve| &curve.source);
        notes.push(format!("{}: {source}.", names.join(", ")));
    }
    let labels = ["model: one worker a core", "cores", &mechanism.unit];
    figure(
        format!("model-{}", mechanism.name),
        format!("Projection: {}", mechanism.title),
        labels,
        series,
        table,
        notes,
    )
}

fn by_cores(mechanism: &Mechanism, cell: impl Fn(&VariantModel, usize) -> String) -> Table {
    let mut header = vec!["arm".to_owned()];
    let cores: Vec<usize> = mechanism
        .variants
        .first()
        .map(|variant| variant.projected.iter().map(|p| p.cores).collect())
        .unwrap_or_default();
    header.extend(cores.iter().map(|cores| format!("{cores} cores")));
    let line = |variant: &VariantModel| {
        let mut line = vec![variant.name.clone()];
        line.extend(cores.iter().map(|&cores| cell(variant, cores)));
        line
    };
    Table {
        header,
        rows: mechanism.variants.iter().map(line).collect(),
    }
}

/// Each variant over the one that was replaced, which is the first.
fn over_first(mechanism: &Mechanism) -> Block {
    let first = mechanism.variants.first();
    let ratio = |variant: &VariantModel, cores: usize| {
        let rate = |variant: &VariantModel| {
            variant
                .projected
                .iter()
                .find(|p| p.cores == cores)
                .map(|p| p.ops_per_s)
        };
        let (rate, base) = (rate(variant)?, rate(first?)?);
        (base > 0.0).then(|| rate / base)
    };
    let line = |variant: &VariantModel| {
        let point = |cores: usize| Some(Point::new(cores as f64, ratio(variant, cores)?));
        Series {
            name: variant.name.clone(),
            kind: Kind::Model,
            mark: Mark::Line,
            points: variant
                .projected
                .iter()
                .filter_map(|p| point(p.cores))
                .collect(),
        }
    };
    let mut series: Vec<Series> = mechanism.variants.iter().map(line).collect();
    series.extend(published_ratio(
        &mechanism.published,
        first.map_or("", |variant| &variant.name),
    ));
    let cell = |variant: &VariantModel, cores| {
        ratio(variant, cores).map_or_else(String::new, |r| format!("{r:.2}"))
    };
    let table = by_cores(mechanism, cell);
    let base = first.map_or("", |variant| &variant.name);
    let labels = [
        &format!("model: rate over that of {base}"),
        "cores",
        &format!("times {base}"),
    ];
    figure(
        format!("model-{}-gain", mechanism.name),
        format!("Projected gain: {}", mechanism.title),
        labels,
        series,
        table,
        Vec::new(),
    )
}

/// What was published of the same: one curve over that of `base`, or a gain over it.
fn published_ratio(curves: &[Curve], base: &str) -> Option<Series> {
    let variant = base.split('/').next().unwrap_or_default();
    match curves {
        [before, after] if before.unit == after.unit && before.name == base => {
            let points: Vec<(f64, f64)> = before
                .points
                .iter()
                .zip(&after.points)
                .filter(|(a, b)| a.0 == b.0 && a.1 > 0.0)
                .map(|(a, b)| (a.0, b.1 / a.1))
                .collect();
            Some(published(&after.name, &points))
        }
        [gain] if gain.unit == "percent" && gain.name.contains(&format!("over {variant}")) => {
            let points: Vec<(f64, f64)> = gain
                .points
                .iter()
                .map(|&(x, percent)| (x, 1.0 + percent / 100.0))
                .collect();
            Some(published(&gain.name, &points))
        }
        _ => None,
    }
}

/// Model and measurement of some variants on this machine.
fn checked(mechanism: &Mechanism, part: usize, variants: &[VariantModel]) -> Block {
    let mut series = Vec::new();
    for variant in variants {
        let measured = |p: &FitPoint| Point {
            x: p.count as f64,
            y: p.measured,
            low: Some(p.measured_min),
            high: Some(p.measured_max),
        };
        series.push(Series {
            name: variant.name.clone(),
            kind: Kind::Variant,
            mark: Mark::Dots,
            points: variant.points.iter().map(measured).collect(),
        });
        series.push(Series {
            name: format!("{}, model", variant.name),
            kind: Kind::Model,
            mark: Mark::Line,
            points: variant
                .points
                .iter()
                .map(|p| Point::new(p.count as f64, p.modelled))
                .collect(),
        });
    }
    let mut rows = Vec::new();
    for variant in variants {
        for p in &variant.points {
            rows.push(vec![
                format!("{}, {}", variant.name, p.count),
                number::spread(p.measured_min, p.measured, p.measured_max),
                number::number(p.modelled),
                format!("{:+.1}", p.error_percent),
                format!("{:+.1}", p.error_to_median_percent),
                if p.fitted { "fitted" } else { "checked" }.to_owned(),
            ]);
        }
    }
    let header = ["measured", "model", "error (%)", "to the median (%)", ""].map(str::to_owned);
    let table = Table {
        header: [vec![format!("arm, {}", mechanism.counts)], header.to_vec()].concat(),
        rows,
    };
    let nth = match part {
        0 => String::new(),
        part => format!("-{}", part + 1),
    };
    let labels = [
        "markers: measured, whiskers up to the fastest round; dashed: model",
        &mechanism.counts,
        &mechanism.unit,
    ];
    figure(
        format!("model-{}-check{nth}", mechanism.name),
        format!("The model on this machine: {}", mechanism.title),
        labels,
        series,
        table,
        Vec::new(),
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
    Table {
        header: ["", "value", "from"].map(str::to_owned).to_vec(),
        rows: named.map(line).collect(),
    }
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
    Table {
        header: ["arm", "fitted at", "checked at", "worst error (%)"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    }
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
    Table {
        header: vec![
            format!("arm, {}", mechanism.counts),
            "measured".to_owned(),
            "model".to_owned(),
        ],
        rows,
    }
}

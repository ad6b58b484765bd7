//! Numbers as people read them: `400 k`, `1.2 M`, `0.05`.

const UNITS: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
/// Below this a plain fraction is mostly zeros.
const PLAIN_MIN: f64 = 1e-3;
/// Above this even thousands of millions are too long to read.
const UNIT_MAX: f64 = 1e13;

/// The value to three significant digits; a whole number of up to four digits as it is.
pub fn number(value: f64) -> String {
    if value.abs() < 1e4 && value.fract() == 0.0 && value % 100.0 != 0.0 {
        return with_minus(format!("{value}"));
    }
    let rounded = significant(value);
    let unit = UNITS.iter().find(|(size, _)| rounded.abs() >= *size);
    written(rounded, unit.copied(), |x| {
        (2.0 - x.abs().log10().floor()).max(0.0)
    })
}

/// A median with its minimum and maximum, all in the median's unit: `1.50 M (1.36-2.02)`. The median alone where they
/// are the same, as those of one round are.
pub fn spread(min: f64, median: f64, max: f64) -> String {
    let alone = number(median);
    if min >= max {
        return alone;
    }
    let unit = alone
        .split_once(' ')
        .and_then(|(_, name)| UNITS.iter().find(|(_, unit)| *unit == name));
    let size = unit.map_or(1.0, |(size, _)| *size);
    let digits = |value: f64| {
        let scaled = value / size;
        let digits = (2.0 - scaled.abs().max(1.0).log10().floor()).clamp(0.0, 2.0) as usize;
        format!("{scaled:.digits$}")
    };
    let middle = unit.map_or(alone, |(_, name)| format!("{} {name}", digits(median)));
    format!("{middle} ({}-{})", digits(min), digits(max))
}

fn written(value: f64, unit: Option<(f64, &'static str)>, decimals: impl Fn(f64) -> f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() < PLAIN_MIN || value.abs() >= UNIT_MAX {
        let text = format!("{value:.2e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return with_minus(format!("{}e{exponent}", without_zeros(mantissa)));
    }
    let (size, suffix) = unit.unwrap_or((1.0, ""));
    let scaled = value / size;
    let digits = decimals(scaled).min(9.0) as usize;
    let text = format!("{scaled:.digits$}");
    let text = without_zeros(&text);
    with_minus(match suffix {
        "" => text.to_owned(),
        _ => format!("{text} {suffix}"),
    })
}

fn significant(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    // Through text, so that 0.1 stays 0.1 and does not gain a hair by the way.
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

fn with_minus(text: String) -> String {
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::{number, spread};

    #[test]
    fn the_ends_of_a_spread_are_in_the_unit_of_its_middle() {
        assert_eq!(spread(1.36e6, 1.5e6, 2.02e6), "1.50 M (1.36-2.02)");
        assert_eq!(spread(90_000.0, 1.0e6, 1.06e6), "1.00 M (0.09-1.06)");
        assert_eq!(
            spread(741_039.0, 999_999.0, 1_061_000.0),
            "1.00 M (0.74-1.06)"
        );
        assert_eq!(spread(850.0, 997.0, 4751.0), "997 (850-4751)");
        assert_eq!(spread(0.0, 0.0, 100.0), "0 (0.00-100)");
        assert_eq!(spread(28_000.0, 28_000.0, 28_000.0), "28 k");
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (value, want) in [
            (0.0, "0"),
            (1.0, "1"),
            (128.0, "128"),
            (1000.0, "1 k"),
            (1024.0, "1024"),
            (5948.0, "5948"),
            (5948.45, "5.95 k"),
            (276_400.0, "276 k"),
            (400_000.0, "400 k"),
            (999_999.0, "1 M"),
            (1_234_000.0, "1.23 M"),
            (2.5e9, "2.5 G"),
            (0.05, "0.05"),
            (0.123_45, "0.123"),
            (0.000_012, "1.2e\u{2212}5"),
            (-12.34, "\u{2212}12.3"),
            (1e40, "1e40"),
        ] {
            assert_eq!(number(value), want, "{value}");
        }
    }
}

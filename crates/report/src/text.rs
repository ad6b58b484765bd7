//! How wide a text is, and where it breaks. SVG has no line breaking and no measuring, so widths
//! are estimated from the proportions of Helvetica and the fonts made to its measure.

/// The fonts of a chart: all have the widths that [`width`] estimates.
pub(crate) const FONTS: &str = "Helvetica, Arial, 'Liberation Sans', Arimo, sans-serif";

/// The estimated width at a font size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

fn em(c: char) -> f64 {
    // Helvetica's advance widths, a little rounded up for the fonts that stand in for it.
    match c {
        'i' | 'j' | 'l' | '\'' | '|' => 0.25,
        'f' | 't' | 'I' | '.' | ',' | ':' | ';' | '!' | ' ' | '/' | '[' | ']' => 0.3,
        'r' | '(' | ')' | '-' => 0.35,
        'c' | 'k' | 's' | 'v' | 'x' | 'y' | 'z' | 'J' => 0.52,
        'w' | 'C' | 'D' | 'H' | 'N' | 'R' | 'U' => 0.75,
        'm' | 'G' | 'M' | 'O' | 'Q' | '%' => 0.87,
        'W' | '@' | '\u{2026}' | '\u{1100}'.. => 1.02,
        'A'..='Z' | '&' => 0.69,
        ' '..='~' => 0.58,
        _ => 0.62,
    }
}

/// The text with a space for what neither XML nor HTML has a way to write: most control characters, and two that
/// are no characters.
pub(crate) fn written(text: &str) -> String {
    let has_none = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.replace(has_none, " ")
}

/// The text in lines of at most `width_max`. A word that is wider by itself is cut.
pub(crate) fn wrap(text: &str, size: f64, width_max: f64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in pieces(text) {
        let together = format!("{line}{piece}");
        if width(together.trim_end(), size) <= width_max {
            line = together;
            continue;
        }
        if !line.trim().is_empty() {
            lines.push(line.trim().to_owned());
        }
        line = String::new();
        for c in piece.chars() {
            line.push(c);
            let full = width(line.trim_end(), size) > width_max;
            if full && line.chars().nth(1).is_some() {
                line.pop();
                lines.push(line.trim().to_owned());
                line = c.to_string();
            }
        }
    }
    if !line.trim().is_empty() {
        lines.push(line.trim().to_owned());
    }
    lines
}

/// The width of the widest piece that [`wrap`] would rather not cut.
pub(crate) fn widest_piece(text: &str, size: f64) -> f64 {
    pieces(text)
        .map(|piece| width(piece.trim_end(), size))
        .fold(0.0, f64::max)
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', '-', '/', '_', ','])
}

/// The text, or as much of its head as fits with an ellipsis.
pub(crate) fn shorten(text: &str, size: f64, width_max: f64) -> String {
    if width(text, size) <= width_max {
        return text.to_owned();
    }
    let head = head(text.chars(), width_max / size - em(ELLIPSIS));
    format!("{}{ELLIPSIS}", head.trim_end())
}

/// The text, or its head and its tail, which is where names of one family differ.
pub(crate) fn shorten_middle(text: &str, size: f64, width_max: f64) -> String {
    if width(text, size) <= width_max {
        return text.to_owned();
    }
    let half = (width_max / size - em(ELLIPSIS)) / 2.0;
    let tail: String = head(text.chars().rev(), half).chars().rev().collect();
    format!(
        "{}{ELLIPSIS}{}",
        head(text.chars(), half).trim_end(),
        tail.trim_start()
    )
}

const ELLIPSIS: char = '\u{2026}';

fn head(text: impl Iterator<Item = char>, ems: f64) -> String {
    let mut used = 0.0;
    text.take_while(|c| {
        used += em(*c);
        used <= ems
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{shorten, shorten_middle, widest_piece, width, wrap, written};

    #[test]
    fn what_has_no_way_to_be_written_is_a_space() {
        assert_eq!(written("a\0b\u{1b}c\u{fffe}d\u{ffff}e\nf"), "a b c d e\nf");
    }

    #[test]
    fn lines_keep_to_their_width_and_lose_nothing() {
        let text = "random direct writes of 4 KiB, shared-first against exclusive-first";
        let lines = wrap(text, 14.0, 150.0);
        assert!(lines.len() > 2, "{lines:?}");
        assert!(lines.iter().all(|line| width(line, 14.0) <= 150.0));
        let glued: String = lines.concat().replace(' ', "");
        assert_eq!(glued, text.replace(' ', ""));
    }

    #[test]
    fn one_long_word_is_cut() {
        let word = "abcdefghijklmnopqrstuvwxyz";
        let lines = wrap(word, 14.0, 60.0);
        assert!(lines.iter().all(|line| width(line, 14.0) <= 60.0));
        assert_eq!(lines.concat(), word);
        assert_eq!(widest_piece(word, 14.0), width(word, 14.0));
        assert_eq!(wrap("ab", 14.0, 1.0), ["a", "b"]);
        assert!(wrap("", 14.0, 10.0).is_empty());
    }

    #[test]
    fn an_ellipsis_says_that_something_is_missing() {
        assert_eq!(shorten("short", 14.0, 100.0), "short");
        let cut = shorten("a name that is much too long", 14.0, 100.0);
        assert!(cut.ends_with('\u{2026}') && width(&cut, 14.0) <= 100.0);
        let names = ["random reads of 4 KiB", "random reads of 1 MiB"];
        let cut = names.map(|name| shorten_middle(name, 14.0, 100.0));
        assert!(cut.iter().all(|name| width(name, 14.0) <= 100.0), "{cut:?}");
        assert_ne!(cut[0], cut[1]);
        assert_eq!(shorten_middle("short", 14.0, 100.0), "short");
    }
}

//! How wide a text is, and where it breaks. SVG has no line breaking and no measuring, so widths
//! are estimated from the proportions of Helvetica and the fonts made to its measure.

/// The fonts of a chart: all have the widths that [`width`] estimates.
pub(crate) const FONTS: &str = "Helvetica, Arial, 'Liberation Sans', Arimo, sans-serif";

/// The estimated width at a font size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' | '|' | '.' | ',' | ':' | ';' | '!' | 'I' => 0.29,
        'f' | 't' | 'r' | '(' | ')' | ' ' | '-' | '/' | '[' | ']' => 0.34,
        'm' | 'M' | 'W' | '%' | '@' | '\u{2026}' => 0.95,
        'w' | 'A'..='Z' | '&' => 0.74,
        ' '..='~' => 0.58,
        '\u{1100}'.. => 1.0,
        _ => 0.62,
    }
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
    let mut head = String::new();
    for c in text.chars() {
        if width(&head, size) + (em(c) + em('\u{2026}')) * size > width_max {
            break;
        }
        head.push(c);
    }
    format!("{}\u{2026}", head.trim_end())
}

#[cfg(test)]
mod tests {
    use super::{shorten, widest_piece, width, wrap};

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
    }
}

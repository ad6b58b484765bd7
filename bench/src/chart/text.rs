//! How wide a text is, and where it breaks. SVG has no line breaking and no measuring, so a text is laid out in
//! Helvetica's widths, and every `<text>` has its width as `textLength`: another font is squeezed or stretched into it.

/// The fonts of a chart: all but the last have the widths that [`width`] calculates.
pub(crate) const FONTS: &str = "Helvetica, Arial, 'Liberation Sans', Arimo, sans-serif";

/// Bold letters are wider by this factor.
pub(crate) const BOLD: f64 = 1.07;

/// Helvetica's advance widths from space to tilde, in thousandths of the font size.
const ADVANCES: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278,
    278, // ' '..='/'
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584,
    556, // '0'..='?'
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722,
    778, // '@'..='O'
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469,
    556, // 'P'..='_'
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556,
    556, // '`'..='o'
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, // 'p'..='~'
];

/// The width at a font size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

/// The `textLength` of a text that is laid out in `width` units.
pub(crate) fn length(width: f64) -> String {
    // Zero would be an error to some viewers.
    format!("{:.1}", width.max(0.1))
}

fn em(c: char) -> f64 {
    let at = u32::from(c).checked_sub(u32::from(' '));
    match at.and_then(|at| ADVANCES.get(at as usize)) {
        Some(advance) => f64::from(*advance) / 1000.0,
        None if c == ELLIPSIS || c >= '\u{1100}' => 1.0,
        None => 0.62,
    }
}

/// The text with a space for what neither XML nor HTML has a way to write: most control characters, and two that
/// are not characters.
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

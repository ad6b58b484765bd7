//! Shell patterns for one name: `*`, `?`, `[a-z]`, `[!a]` and `\`.

/// Whether `name` matches `pattern` as a whole.
///
/// After a mismatch only the last star is tried again, so the time is at most the product of the lengths.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, n));
            p += 1;
        } else if let Some(next) = match_one(&pattern[p..], name[n]) {
            p += next;
            n += 1;
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            (p, n) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

/// Whether it is more than a name: it has `*`, `?`, `[` or `\`.
pub fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|b| b"*?[\\".contains(b))
}

/// As [`matches`], but a dot at the start has to be spelled, as in a shell.
pub fn matches_file_name(pattern: &[u8], name: &[u8]) -> bool {
    let is_hidden = name.starts_with(b".");
    (!is_hidden || pattern.starts_with(b".") || pattern.starts_with(b"\\."))
        && matches(pattern, name)
}

/// The text without the backslashes that take the meaning of a character away.
pub fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let byte = if *byte == b'\\' {
            bytes.next()
        } else {
            Some(byte)
        };
        plain.extend(byte);
    }
    plain
}

/// How much of the pattern `byte` matches, at its start.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((true, len)) => Some(len + 1),
            Some((false, _)) => None,
            None => (byte == b'[').then_some(1),
        },
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// Whether the set that `pattern` continues holds `byte`, and its length; `None` if it does not end.
fn set(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let first = usize::from(negated);
    let (mut at, mut found) = (first, false);
    loop {
        match pattern.get(at..)? {
            [b']', ..] if at > first => return Some((found != negated, at + 1)),
            [low, b'-', high, ..] if *high != b']' => {
                found |= (*low..=*high).contains(&byte);
                at += 3;
            }
            [one, ..] => {
                found |= *one == byte;
                at += 1;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{matches, matches_file_name, unescaped};

    #[test]
    fn patterns() {
        let yes = [
            ("*", ""),
            ("*.rs", "a.rs"),
            ("a*b*c", "aXbYbc"),
            ("?b", "ab"),
            ("[a-c]x", "bx"),
            ("[!a]x", "bx"),
            ("\\*", "*"),
            ("[]]", "]"),
            ("[", "["),
            ("a**", "a"),
        ];
        for (pattern, name) in yes {
            assert!(
                matches(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
        for (pattern, name) in [
            ("*.rs", "a.rsx"),
            ("?", ""),
            ("[a-c]", "d"),
            ("a", "ab"),
            ("\\*", "x"),
        ] {
            assert!(
                !matches(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn names_with_a_dot_are_hidden_from_patterns_without() {
        assert!(!matches_file_name(b"*", b".profile"));
        assert!(matches_file_name(b".*", b".profile"));
        assert!(matches_file_name(b"\\.p*", b".profile"));
        assert!(matches_file_name(b"*", b"a.b"));
        assert_eq!(unescaped(br"a\*b\\"), br"a*b\");
    }
}

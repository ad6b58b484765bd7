//! Requests as lines: their words, and numbers in them.

/// The words of a request: separated by blanks, with quotes around those that hold some. A quote within quotes is doubled.
pub fn split(line: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match quote {
            Some(mark) if byte == mark => {
                if bytes.peek() == Some(&mark) {
                    bytes.next();
                    word.get_or_insert_default().push(mark);
                } else {
                    quote = None;
                }
            }
            Some(_) => word.get_or_insert_default().push(byte),
            None => match byte {
                b'"' | b'\'' => {
                    quote = Some(byte);
                    word.get_or_insert_default();
                }
                b' ' | b'\t' | b'\r' => words.extend(word.take()),
                byte => word.get_or_insert_default().push(byte),
            },
        }
    }
    words.extend(word);
    words
}

/// A number as strtoull(3) reads it: decimal, `0x` hexadecimal, `0` octal.
pub fn number(word: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(word).ok()?;
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    if let Some(rest) = text.strip_prefix('-') {
        return rest.parse::<u64>().ok().map(u64::wrapping_neg);
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        let words = |line: &str| -> Vec<String> {
            let text = |word: Vec<u8>| String::from_utf8(word).unwrap();
            split(line.as_bytes()).into_iter().map(text).collect()
        };
        assert_eq!(words("write \"a b\" c"), ["write", "a b", "c"]);
        assert_eq!(words("  sif x\tmode 0x1 "), ["sif", "x", "mode", "0x1"]);
        assert_eq!(words("a \"\" \"b\"\"c\""), ["a", "", "b\"c"]);
        assert_eq!(number(b"0x41ed"), Some(0o40755));
        assert_eq!(number(b"010644"), Some(0o10644));
        assert_eq!(number(b"12"), Some(12));
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"12a"), None);
    }
}

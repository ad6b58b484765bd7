//! Names as a shell reads them.

use std::path::Path;

/// A name for a command line that the user may copy: as it is where a shell takes it so, else quoted.
pub fn quoted(name: impl AsRef<[u8]>) -> String {
    let name = name.as_ref();
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(b) || *b >= 0x80;
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_empty() && name.iter().all(is_plain) => text.to_owned(),
        _ => always(name),
    }
}

/// A path for such a command line.
pub fn path(path: &Path) -> String {
    quoted(path.as_os_str().as_encoded_bytes())
}

/// A name in quotes, as the options `-v` of coreutils print it.
pub fn always(name: impl AsRef<[u8]>) -> String {
    let name = name.as_ref();
    match std::str::from_utf8(name) {
        Ok(text) if !text.contains(char::is_control) => {
            match text.contains('\'') && !text.contains(['"', '$', '`', '\\', '!']) {
                true => format!("\"{text}\""),
                false => format!("'{}'", text.replace('\'', r"'\''")),
            }
        }
        _ => escaped(name),
    }
}

/// With what a terminal could obey, or is not text, as numbers in `$'...'`.
fn escaped(name: &[u8]) -> String {
    let mut text = String::from("'");
    let mut escaping = false;
    let mut switch = |text: &mut String, to: bool| {
        if escaping != to {
            text.push_str(if to { "'$'" } else { "''" });
            escaping = to;
        }
    };
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            switch(&mut text, c.is_control());
            match c {
                '\'' => text.push_str(r"'\''"),
                '\n' => text.push_str(r"\n"),
                '\t' => text.push_str(r"\t"),
                c if c.is_control() => {
                    let mut bytes = [0; 4];
                    for byte in c.encode_utf8(&mut bytes).bytes() {
                        text.push_str(&format!(r"\{byte:03o}"));
                    }
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            switch(&mut text, true);
            text.push_str(&format!(r"\{byte:03o}"));
        }
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_name_again() {
        for (name, hint, verbose) in [
            (&b"a.img:/etc"[..], "a.img:/etc", "'a.img:/etc'"),
            (b"with space", "'with space'", "'with space'"),
            (b"it's", "\"it's\"", "\"it's\""),
            (b"it's $1", r"'it'\''s $1'", r"'it'\''s $1'"),
            (b"", "''", "''"),
            (b"a\nb", r"'a'$'\n''b'", r"'a'$'\n''b'"),
            (b"\xe9", r"''$'\351'", r"''$'\351'"),
            (b"a\n\tb", r"'a'$'\n\t''b'", r"'a'$'\n\t''b'"),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}", "'caf\u{e9}'"),
            (b"a?b", "'a?b'", "'a?b'"),
        ] {
            assert_eq!(quoted(name), hint);
            assert_eq!(always(name), verbose);
        }
    }
}

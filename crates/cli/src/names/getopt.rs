//! Command lines as getopt(3) reads them: `-qF`, `-b4096`, `-b 4096`, options behind operands, and `--`.

use crate::system::paths;
use std::ffi::{OsStr, OsString};

/// A command line.
#[derive(Debug, Default)]
pub struct Words {
    /// Options in their order, each with its value.
    options: Vec<(char, Option<OsString>)>,
    /// The other words.
    pub operands: Vec<OsString>,
}

/// Why a command line is wrong, as getopt(3) says it.
#[derive(Debug, PartialEq, Eq)]
pub struct BadOption(pub String);

impl Words {
    /// Reads a command line. `letters` has the options, each with a colon behind it if it takes a value, and with two if the value is
    /// left out unless it is in the same word.
    ///
    /// # Errors
    /// An option that is not among them, or one without its value.
    pub fn read(words: &[OsString], letters: &str) -> Result<Words, BadOption> {
        let mut read = Words::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let bytes = word.as_encoded_bytes();
            match bytes.strip_prefix(b"-") {
                Some(b"-") => {
                    read.operands.extend(rest.cloned());
                    break;
                }
                Some(group) if !group.is_empty() => {
                    read.group(group, letters, || rest.next().cloned())?;
                }
                _ => read.operands.push(word.clone()),
            }
        }
        Ok(read)
    }

    /// Reads the letters behind a dash; `next` is the word that follows.
    fn group(
        &mut self,
        mut group: &[u8],
        letters: &str,
        next: impl FnOnce() -> Option<OsString>,
    ) -> Result<(), BadOption> {
        while let Some((letter, behind)) = group.split_first() {
            let letter = char::from(*letter);
            let Some((_, known)) = letters.split_once(letter).filter(|_| letter != ':') else {
                return Err(BadOption(format!("invalid option -- '{letter}'")));
            };
            if !known.starts_with(':') {
                self.options.push((letter, None));
                group = behind;
                continue;
            }
            let value = match behind.is_empty() {
                true if known.starts_with("::") => {
                    self.options.push((letter, None));
                    break;
                }
                true => next(),
                false => Some(paths::word(behind.to_vec())),
            };
            let Some(value) = value else {
                let why = format!("option requires an argument -- '{letter}'");
                return Err(BadOption(why));
            };
            self.options.push((letter, Some(value)));
            break;
        }
        Ok(())
    }

    /// Whether an option is there.
    pub fn has(&self, letter: char) -> bool {
        self.options.iter().any(|(l, _)| *l == letter)
    }

    /// The last value of an option.
    pub fn value(&self, letter: char) -> Option<&OsStr> {
        let mut all = self.options.iter().rev();
        all.find(|(l, _)| *l == letter)?.1.as_deref()
    }

    /// The same as text; bytes that are not UTF-8 are replaced, so that what reads it reports them.
    pub fn text(&self, letter: char) -> Option<String> {
        self.value(letter)
            .map(|value| value.to_string_lossy().into_owned())
    }

    /// All values of an option as one list with commas, as programs add them up.
    pub fn list(&self, letter: char) -> Option<String> {
        let all = self.options.iter().filter(|(l, _)| *l == letter);
        let values: Vec<String> = all
            .filter_map(|(_, value)| Some(value.as_ref()?.to_string_lossy().into_owned()))
            .collect();
        (!values.is_empty()).then(|| values.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Words, BadOption> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Words::read(&words, "qFb:E:k::")
    }

    #[test]
    fn options_are_anywhere() {
        let words = read("-qF disk.img -b 4096 -Ea=1 100M -E b -b1024").unwrap();
        assert!(words.has('q') && words.has('F') && words.list('q').is_none());
        assert_eq!(words.text('b').as_deref(), Some("1024"));
        assert_eq!(words.list('E').as_deref(), Some("a=1,b"));
        assert_eq!(words.operands, ["disk.img", "100M"]);
        assert_eq!(read("-q -- -F").unwrap().operands, ["-F"]);
        assert_eq!(read("-q -").unwrap().operands, ["-"]);
        let words = read("-k 4 -qk8").unwrap();
        assert_eq!((words.operands, words.options.len()), (vec!["4".into()], 3));
    }

    #[test]
    fn wrong_options_are_named() {
        assert_eq!(read("-qx").unwrap_err().0, "invalid option -- 'x'");
        assert_eq!(read("-:").unwrap_err().0, "invalid option -- ':'");
        let missing = read("a -b").unwrap_err().0;
        assert_eq!(missing, "option requires an argument -- 'b'");
    }
}

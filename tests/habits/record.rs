//! The lines, as the files have them.

use crate::*;

/// A line, and what may differ.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What is typed; `@` is the image.
    pub line: String,
    /// What the original is given, if that is another line.
    pub theirs: Option<String>,
    /// Why a comparison is not made, by its name.
    pub excuses: BTreeMap<String, String>,
}

impl Record {
    /// Why this is not compared, if it is not.
    pub fn excuse(&self, what: &str) -> Option<&str> {
        self.excuses.get(what).map(String::as_str)
    }
}

/// The records of a file.
pub fn of_file(name: &str) -> Vec<Record> {
    let path = Path::new(WORKSPACE).join(format!("tests/habits/lines/{name}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    parse(&text)
}

/// The records of a text.
pub fn parse(text: &str) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with('#') {
            continue;
        }
        if let Some(typed) = line.strip_prefix("$ ") {
            records.push(Record {
                line: typed.to_owned(),
                ..Record::default()
            });
            continue;
        }
        let (record, (key, value)) = match (records.last_mut(), line.split_once(": ")) {
            (Some(record), Some(field)) => (record, field),
            _ => panic!("neither `$ LINE` nor `KEY: VALUE`: {line}"),
        };
        match key {
            "theirs" => record.theirs = Some(value.to_owned()),
            "output" | "exit" | "errors" | "effect" => {
                record.excuses.insert(key.to_owned(), value.to_owned());
            }
            _ => panic!("unknown key: {line}"),
        }
    }
    records
}

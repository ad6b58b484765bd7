//! What is compared: output without what is random or of one program, and images as e2fsprogs see them.

use uext4_testkit::prelude::*;

/// Lines that scripts do not read: of progress, of the program's version, and advice.
const NOT_READ: &[&str] = &[
    "1.47.",
    "64-bit filesystem support is not enabled",
    "Discard succeeded",
    "Begin pass",
    "Scanning inode table",
    "Relocating blocks",
    "Updating inode references",
    "old_desc_blocks",
    "Maximum filesystem blocks",
];

/// Standard output, without such lines, random UUIDs and times.
pub fn output(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !NOT_READ.iter().any(|start| line.contains(start)));
    lines.map(line).collect::<Vec<_>>().join("\n")
}

/// A line as it is compared.
fn line(line: &str) -> String {
    for name in [
        "Filesystem UUID:",
        "Directory Hash Seed:",
        "Filesystem created:",
        "Last write time:",
        "Last mount time:",
        "Last checked:",
        "Checksum:",
        "Checksum seed:",
        "Lifetime writes:",
    ] {
        if line.starts_with(name) {
            return name.to_owned();
        }
    }
    // `Writing inode tables: 0/2^H^H^Hdone`.
    match line.split_once(": ") {
        Some((what, rest))
            if rest.trim_end().ends_with("done") && rest.contains(['\u{8}', ' ']) =>
        {
            format!("{what}: done")
        }
        _ => line.trim_end().to_owned(),
    }
}

/// Standard error without the version.
pub fn errors(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.contains("1.47.") && !line.trim().is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// An image, as e2fsprogs see it.
pub struct Image {
    /// Names and values.
    fields: Vec<(String, String)>,
}

/// Fields that are random, or count what a program wrote.
const OF_THE_RUN: &[&str] = &[
    "Filesystem UUID",
    "Directory Hash Seed",
    "Filesystem created",
    "Last write time",
    "Last mount time",
    "Last checked",
    "Next check after",
    "Checksum",
    "Checksum seed",
    "Lifetime writes",
    // A change is a transaction of the journal here.
    "Journal features",
    "Journal sequence",
    "Journal start",
    "Journal checksum type",
    "Journal checksum",
];

impl Image {
    /// Reads the fields of the superblock, the length, and whether e2fsck finds faults.
    pub fn of(path: &Path) -> Image {
        let name = path.to_str().unwrap();
        let run = |program: &str, args: &[&str]| {
            let out = Command::new(program)
                .args(args)
                .env("LC_ALL", "C")
                .output()
                .unwrap();
            (
                out.status.code(),
                String::from_utf8_lossy(&out.stdout).into_owned(),
            )
        };
        let (code, text) = run("dumpe2fs", &["-h", name]);
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let fields = fields.filter(|(field, _)| !OF_THE_RUN.contains(field));
        let mut fields: Vec<(String, String)> = fields
            .map(|(field, value)| (field.to_owned(), value.trim().to_owned()))
            .collect();
        fields.push((
            "bytes".to_owned(),
            fs::metadata(path).unwrap().len().to_string(),
        ));
        if code == Some(0) {
            let (code, text) = run("e2fsck", &["-fn", name]);
            let faults = if code == Some(0) { String::new() } else { text };
            fields.push(("faults".to_owned(), faults));
        }
        Image { fields }
    }

    /// Fields that differ from another's, with both values.
    pub fn beside(&self, other: &Image) -> Vec<(String, String, String)> {
        let value = |image: &Image, field: &str| {
            let found = image.fields.iter().find(|(name, _)| name == field);
            found.map_or("<none>".to_owned(), |(_, value)| value.clone())
        };
        let mut names: Vec<&String> = self
            .fields
            .iter()
            .chain(&other.fields)
            .map(|f| &f.0)
            .collect();
        names.sort();
        names.dedup();
        let both = names
            .into_iter()
            .map(|name| (name.clone(), value(self, name), value(other, name)));
        both.filter(|(_, theirs, ours)| theirs != ours).collect()
    }
}

//! An image among the host's files: what it was made as, where its content differs from one that another program made.

use crate::*;

/// What `dumpe2fs -h` says, without times, what is random, and counts that follow from the rest.
const FIELDS: &[&str] = &[
    "Filesystem volume name",
    "Last mounted on",
    "Filesystem UUID",
    "Filesystem revision #",
    "Filesystem features",
    "Filesystem flags",
    "Default mount options",
    "Filesystem state",
    "Errors behavior",
    "Filesystem OS type",
    "Inode count",
    "Block count",
    "Reserved block count",
    "Overhead clusters",
    "Free blocks",
    "Free inodes",
    "First block",
    "Block size",
    "Group descriptor size",
    "Reserved GDT blocks",
    "Blocks per group",
    "Inodes per group",
    "Flex block group size",
    "RAID stride",
    "RAID stripe width",
    "First inode",
    "Inode size",
    "Required extra isize",
    "Journal inode",
    "Default directory hash",
    "Total journal size",
];

/// The image in lines; `None` if the file holds none.
pub fn described(path: &Path) -> Option<Vec<String>> {
    let said = Command::new("dumpe2fs")
        .arg("-h")
        .arg(path)
        .output()
        .unwrap();
    if !said.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&said.stdout);
    let mut lines: Vec<String> = text.lines().filter_map(field).collect();
    lines.push(format!("root: {}", root(path)));
    Some(lines)
}

fn field(line: &str) -> Option<String> {
    let (name, value) = line.split_once(':')?;
    let value = value.trim();
    if !FIELDS.contains(&name) {
        return None;
    }
    match (name, value.chars().nth(14)) {
        // Of versions that differ each time.
        ("Filesystem UUID", Some(version @ ('1' | '4'))) => {
            Some(format!("{name}: version {version}"))
        }
        _ => Some(format!("{name}: {value}")),
    }
}

/// Mode and owner of the root directory.
fn root(path: &Path) -> String {
    let mut debugfs = Command::new("debugfs");
    let said = debugfs.args(["-R", "stat <2>"]).arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    let line = text.lines().find(|line| line.starts_with("User:"));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    words.iter().take(4).copied().collect::<Vec<_>>().join(" ")
}

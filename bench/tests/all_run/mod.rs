//! `uext4 bench all` as a process, in directories that are gone when it ends.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A run: what it said, what it wrote, and what it left.
pub struct Run {
    /// 0, 1 or 2.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// The files of the report directory.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Files, mounts and loop devices in the places where images were.
    pub left: Vec<String>,
}

/// Where images are for the time of a run.
struct Places {
    memory: TempDir,
    disk: TempDir,
    /// Of processes that ask for a directory for what is temporary.
    other: TempDir,
}

impl Places {
    fn new() -> Places {
        let place = |parent: &str| tempfile::tempdir_in(parent).unwrap();
        Places {
            memory: place("/dev/shm"),
            disk: place("/var/tmp"),
            other: tempfile::tempdir().unwrap(),
        }
    }

    fn left(&self) -> Vec<String> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let devices = Command::new("losetup").arg("-a").output();
        let devices = devices.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
        let known = mounts + &devices.unwrap_or_default();
        let mut left = Vec::new();
        for dir in [&self.memory, &self.disk, &self.other] {
            let name = dir.path().to_str().unwrap();
            left.extend(
                known
                    .lines()
                    .filter(|l| l.contains(name))
                    .map(str::to_owned),
            );
            let entries = fs::read_dir(dir).unwrap().flatten();
            left.extend(entries.map(|entry| entry.path().display().to_string()));
        }
        left
    }
}

/// Runs it with `args` and the report directory `dir`, which is kept. Images are in places of the run's own, but for
/// those that `args` name.
pub fn run_in(dir: &Path, args: &[&str]) -> Run {
    let places = Places::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_uext4-bench"));
    command.args(["all", "--report"]).arg(dir).args(args);
    for (option, place) in [("--memory", &places.memory), ("--disk", &places.disk)] {
        if !args.contains(&option) {
            command.arg(option).arg(place.path());
        }
    }
    command.env("TMPDIR", places.other.path());
    let out = command.output().unwrap();
    Run::new(out, dir, places.left())
}

impl Run {
    fn new(out: Output, dir: &Path, left: Vec<String>) -> Run {
        Run {
            code: out.status.code(),
            out: String::from_utf8(out.stdout).unwrap(),
            err: String::from_utf8(out.stderr).unwrap(),
            files: files(dir),
            left,
        }
    }

    /// The one run of everything, which all tests check.
    pub fn of_everything() -> &'static Run {
        static RUN: OnceLock<Run> = OnceLock::new();
        RUN.get_or_init(|| {
            let dir = tempfile::tempdir().unwrap();
            run_in(dir.path(), &["--smoke"])
        })
    }

    /// A file as text.
    pub fn text(&self, name: &str) -> &str {
        let bytes = self
            .files
            .get(name)
            .unwrap_or_else(|| panic!("no {name}: {}", self.err));
        std::str::from_utf8(bytes).unwrap()
    }

    /// `report.json`.
    pub fn json(&self) -> Value {
        serde_json::from_str(self.text("report.json")).unwrap()
    }

    /// The rows of a section; `None` where the machine lacks what it needs.
    pub fn rows(&self, section: &str) -> Option<Vec<Value>> {
        let json = self.json();
        let mut sections = json["sections"].as_array().unwrap().iter();
        let found = sections.find(|s| s["name"] == section);
        let found = found.unwrap_or_else(|| panic!("no section {section}"));
        if let Some(why) = found["skipped"].as_str() {
            eprintln!("skipped: {section}: {why}");
            assert!(!why.is_empty());
            return None;
        }
        let rows = found["document"]["rows"].as_array();
        Some(rows.unwrap_or_else(|| panic!("{section}: {found}")).clone())
    }
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entry = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    };
    fs::read_dir(dir).unwrap().flatten().map(entry).collect()
}

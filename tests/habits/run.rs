//! A line, run by both.

use crate::record::Record;
use crate::stage::Stage;
use crate::*;

/// What a run left.
struct Ran {
    out: String,
    err: String,
    code: Option<i32>,
    /// The image and the directory of host files.
    trees: Vec<String>,
}

/// The commands that the lines use, each a function of the shell. One that is left out here fails as the host's program.
const COMMANDS: &str = "cat chattr check chgrp chmod chown cp create df du find fsck getfacl info label ln ls lsattr mkdir mkfifo mkfs mknod mount mv \
                        readlink rm rmdir setfacl stat touch tree trim truncate umount xattr";

fn functions() -> String {
    let function = |name: &str| format!("{name}() {{ \"$UEXT4\" {name} \"$@\"; }}\n");
    COMMANDS.split_whitespace().map(function).collect()
}

/// Runs a line both ways; what differs, if anything does that may not.
pub fn difference(stage: &Stage, record: &Record) -> Option<String> {
    let theirs = theirs(stage, record.theirs.as_deref().unwrap_or(&record.line));
    let ours = ours(stage, &record.line);
    let mut differing = Vec::new();
    let mut compare = |excuse: &str, what: &str, theirs: &str, ours: &str| {
        if record.excuse(excuse).is_none() && theirs != ours {
            differing.push(format!(
                "  {what}\n    theirs: {theirs}\n    ours:   {ours}"
            ));
        }
    };
    compare(
        "output",
        "standard output",
        &format!("{:?}", theirs.out),
        &format!("{:?}", ours.out),
    );
    compare(
        "exit",
        "exit code",
        &format!("{:?}", theirs.code),
        &format!("{:?}", ours.code),
    );
    if theirs.err.is_empty() != ours.err.is_empty() {
        compare("errors", "standard error", &theirs.err, &ours.err);
    }
    let (only_theirs, only_ours) = only(&theirs.trees, &ours.trees);
    compare("effect", "the tree afterwards", &only_theirs, &only_ours);
    if differing.is_empty() {
        return None;
    }
    if !ours.err.is_empty() {
        differing.push(format!("  said: {}", ours.err.trim_end()));
    }
    Some(format!("$ {}\n{}", record.line, differing.join("\n")))
}

/// The lines that only one of both has.
fn only(theirs: &[String], ours: &[String]) -> (String, String) {
    let not_in = |one: &[String], other: &[String]| -> String {
        let lines: Vec<&str> = one
            .iter()
            .filter(|line| !other.contains(line))
            .map(String::as_str)
            .collect();
        lines.join("\n            ")
    };
    (not_in(theirs, ours), not_in(ours, theirs))
}

fn theirs(stage: &Stage, line: &str) -> Ran {
    let copy = stage.copy();
    let (image, dir) = (copy.path().join("test.img"), copy.path().join("mnt"));
    let mount = KernelMount::new(&image, &dir, "noatime").unwrap();
    let at = dir.to_str().unwrap();
    let (out, err, code) = shell(&copy.path().join("host"), &line.replace('@', at), at);
    let mut trees = snapshot::of(&dir);
    mount.unmount().unwrap();
    trees.extend(snapshot::of(&copy.path().join("host")));
    Ran {
        out,
        err,
        code,
        trees,
    }
}

fn ours(stage: &Stage, line: &str) -> Ran {
    let copy = stage.copy();
    let (image, dir) = (copy.path().join("test.img"), copy.path().join("mnt"));
    let at = format!("{}:", image.display());
    let line = format!("{}{}", functions(), line.replace('@', &at));
    let (out, err, code) = shell(&copy.path().join("host"), &line, &at);
    // True of where the tests run, not of what the line does.
    let is_about_memory = |line: &&str| line.contains("in the host's memory (tmpfs)");
    let said = err.lines().filter(|line| !is_about_memory(line));
    let err = said.collect::<Vec<_>>().join("\n");
    oracle::fsck(&image).unwrap();
    let mount = KernelMount::new(&image, &dir, "ro,noload").unwrap();
    let mut trees = snapshot::of(&dir);
    mount.unmount().unwrap();
    trees.extend(snapshot::of(&copy.path().join("host")));
    Ran {
        out,
        err,
        code,
        trees,
    }
}

/// Runs a line; in what it prints, paths of the image start at its root.
fn shell(dir: &Path, line: &str, at: &str) -> (String, String, Option<i32>) {
    let mut sh = Command::new("bash");
    sh.args(["-c", line])
        .current_dir(dir)
        .env("UEXT4", built::uext4());
    sh.env("TZ", "UTC").env("LC_ALL", "C").stdin(Stdio::null());
    let defaults = Path::new(WORKSPACE).join("tests/habits/mke2fs.conf");
    sh.env("MKE2FS_CONFIG", defaults);
    let out = sh.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(at, "");
    (text(&out.stdout), text(&out.stderr), out.status.code())
}

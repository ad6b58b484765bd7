//! `uext4 mqueue ls`.

use super::place::{Place, no_mount};
use crate::{diagnostics, show};
use anyhow::Result;
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use uext4_mqueue::client::{Attributes, Descriptor, Mounted, OpenArgs};

/// Room for a status line.
const STATUS_BYTES: usize = 256;

/// List the queues of a mounted directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 mqueue ls -l /run/mq")]
pub struct Args {
    /// Mode, owner, group, messages of the most that there can be, longest message and bytes of all, and the process that
    /// is notified; - for what only readers of the queue can see
    #[arg(short)]
    long: bool,
    /// As JSON, with all of that
    #[arg(long)]
    json: bool,
    /// The directory
    dir: PathBuf,
}

/// A queue as JSON has it; `None` is what only its readers can see.
#[derive(Debug, Serialize)]
struct Line {
    name: String,
    #[serde(skip)]
    raw_name: Vec<u8>,
    mode: String,
    uid: u32,
    gid: u32,
    messages: Option<i64>,
    maxmsg: Option<i64>,
    msgsize: Option<i64>,
    bytes: Option<u64>,
    notify: Option<Notify>,
}

/// The notified process, and how.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Notify {
    process: u32,
    by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<u32>,
}

/// What a status line says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    bytes: Option<u64>,
    notify: Option<Notify>,
}

pub fn run(args: &Args) -> Result<()> {
    let fail = |e: Errno| match e {
        Errno::NOSYS => no_mount(&args.dir),
        e => diagnostics::on_host(&args.dir, e),
    };
    Mounted::new(&args.dir).check().map_err(fail)?;
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(&args.dir).map_err(|e| diagnostics::on_host(&args.dir, e))? {
        let entry = entry.map_err(|e| diagnostics::on_host(&args.dir, e))?;
        lines.extend(line(&entry.path())?);
    }
    lines.sort_by(|a, b| a.raw_name.cmp(&b.raw_name));
    if args.json {
        return show::json(&lines);
    }
    print(args.long, &lines)
}

/// A queue; `None` if it is gone.
fn line(path: &Path) -> Result<Option<Line>> {
    let place = Place::new(path)?;
    let stat = match rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat.map_err(|e| place.failure(e))?,
    };
    let how = OpenArgs {
        flags: OFlags::RDONLY,
        mode: 0,
        size: None,
    };
    let (attr, status) = match place.open(&how) {
        Ok(fd) => {
            let attr = Descriptor::new(fd.as_fd()).getattr();
            let status = status(fd.as_fd()).map_err(|e| place.failure(e))?;
            (Some(attr.map_err(|e| place.failure(e))?), status)
        }
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::ACCESS) => (None, Status::default()),
        Err(e) => return Err(place.failure(e)),
    };
    let raw_name = path.file_name().unwrap_or_default().to_owned().into_vec();
    let number = |of: fn(Attributes) -> i64| attr.map(of);
    Ok(Some(Line {
        name: String::from_utf8_lossy(&raw_name).into_owned(),
        raw_name,
        mode: format!("{:04o}", stat.st_mode & 0o7777),
        uid: stat.st_uid,
        gid: stat.st_gid,
        messages: number(|a| a.curmsgs),
        maxmsg: number(|a| a.maxmsg),
        msgsize: number(|a| a.msgsize),
        bytes: status.bytes,
        notify: status.notify,
    }))
}

/// Reads a queue's status line.
fn status(fd: BorrowedFd<'_>) -> Result<Status, Errno> {
    let mut text = [0; STATUS_BYTES];
    let len = rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut text))?;
    Ok(parse(&String::from_utf8_lossy(&text[..len])))
}

/// Reads `QSIZE:0 NOTIFY:0 SIGNO:0 NOTIFY_PID:0`.
fn parse(status: &str) -> Status {
    let field = |name: &str| {
        let mut words = status.split_whitespace();
        let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.parse::<u64>().ok())
    };
    let small = |name| field(name).and_then(|n| u32::try_from(n).ok());
    let process = small("NOTIFY_PID").filter(|process| *process != 0);
    let by = match field("NOTIFY") {
        Some(0) => "signal",
        Some(1) => "nothing",
        _ => "thread",
    };
    Status {
        bytes: field("QSIZE"),
        notify: process.map(|process| Notify {
            process,
            by,
            signal: small("SIGNO").filter(|_| by == "signal"),
        }),
    }
}

fn print(long: bool, lines: &[Line]) -> Result<()> {
    const HEADS: [&str; 7] = [
        "mode", "owner", "group", "messages", "longest", "bytes", "notified",
    ];
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let rows: Vec<[String; 7]> = lines.iter().map(cells).collect();
    let width = |c: usize| {
        rows.iter()
            .map(|r| r[c].len())
            .chain([HEADS[c].len()])
            .max()
    };
    let widths: [usize; 7] = std::array::from_fn(|c| width(c).unwrap_or(0));
    if long && !lines.is_empty() {
        for (head, width) in HEADS.iter().zip(widths) {
            write!(out, "{head:>width$} ")?;
        }
        writeln!(out, "name")?;
    }
    for (line, row) in lines.iter().zip(&rows) {
        if long {
            for (cell, width) in row.iter().zip(widths) {
                write!(out, "{cell:>width$} ")?;
            }
        }
        out.write_all(&show::name(&line.raw_name))?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

fn cells(line: &Line) -> [String; 7] {
    let or_dash = |n: Option<String>| n.unwrap_or_else(|| "-".to_owned());
    let messages = line.messages.zip(line.maxmsg);
    [
        line.mode.clone(),
        line.uid.to_string(),
        line.gid.to_string(),
        or_dash(messages.map(|(now, most)| format!("{now}/{most}"))),
        or_dash(line.msgsize.map(|n| n.to_string())),
        or_dash(line.bytes.map(|n| n.to_string())),
        or_dash(line.notify.as_ref().map(|n| n.process.to_string())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines_say_who_is_notified() {
        let notify = |process, by, signal| {
            Some(Notify {
                process,
                by,
                signal,
            })
        };
        let line = "QSIZE:129        NOTIFY:0     SIGNO:10    NOTIFY_PID:8260  \n";
        let status = parse(line);
        assert_eq!(status.bytes, Some(129));
        assert_eq!(status.notify, notify(8260, "signal", Some(10)));
        let line = "QSIZE:0          NOTIFY:2     SIGNO:0     NOTIFY_PID:7     \n";
        assert_eq!(parse(line).notify, notify(7, "thread", None));
        let line = "QSIZE:0          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n";
        assert_eq!(parse(line).notify, None);
        assert_eq!(parse(""), Status::default());
    }
}

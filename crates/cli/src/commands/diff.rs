//! `uext4 diff`.

use super::export::{self, Pack};
use crate::bar::Bar;
use crate::location::InImage;
use crate::system::paths;
use crate::{images, interrupt, show, time_format};
use anyhow::Result;
use serde::Serialize;
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use uext4::{Change, ChangeKind, Difference, ExportError, Filesystem};

/// What the process exits with when the images can't be compared.
pub const TROUBLE: u8 = 2;

/// Show in what the files of two images differ
///
/// A line for each file: A was added, D was removed, M was changed, and in what. Compared are names, types, permissions,
/// owners, data, targets, times of the last change of data, extended attributes and hard links. The exit status is 0
/// where nothing differs, 1 where something does, 2 if an image can't be read.
///
/// With -o, the changes are written as a layer of a container image, with whiteouts for what was removed; the exit
/// status is 0 then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 diff old.img new.img
  uext4 diff old.img:/etc new.img:/etc
  uext4 diff -o layer.tar.zst base.img new.img")]
pub struct Args {
    /// The older image, and which directory of it
    #[arg(value_name = "OLD[:/path]")]
    old: OsString,
    /// The newer image
    #[arg(value_name = "NEW[:/path]")]
    new: OsString,
    /// Write a layer to this file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pack: Pack,
    /// As JSON; of a layer its report
    #[arg(long)]
    json: bool,
    /// Print nothing; the exit status says whether anything differs
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Serialize)]
struct Json {
    change: &'static str,
    #[serde(flatten)]
    path: show::PathJson,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<DifferenceJson>,
}

#[derive(Serialize)]
struct DifferenceJson {
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<String>,
}

/// Why a comparison ended.
enum Ended {
    Export(ExportError),
    Other(anyhow::Error),
}

impl From<ExportError> for Ended {
    fn from(e: ExportError) -> Ended {
        Ended::Export(e)
    }
}

/// Two images, open.
struct Images {
    at: [InImage; 2],
    fs: [Filesystem; 2],
}

pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::catch()?;
    let at = [&args.old, &args.new].map(|text| InImage::parse(text.clone()));
    let fs = [
        images::open(&at[0].image, false)?,
        images::open(&at[1].image, false)?,
    ];
    let images = Images { at, fs };
    match &args.output {
        Some(file) => layer(args, &images, file),
        None => compare(args, &images),
    }
}

impl Images {
    fn paths(&self) -> [Cow<'_, [u8]>; 2] {
        [0, 1].map(|n| paths::bytes(&self.at[n].path))
    }

    /// An error, with the name of the image that it is about, if it is about one.
    fn failed(&self, e: ExportError) -> anyhow::Error {
        let of_old = matches!(&e, ExportError::Image { of_old: true, .. });
        let which = usize::from(!of_old);
        export::failed(&self.fs[which], &self.at[which], e)
    }
}

fn layer(args: &Args, images: &Images, file: &Path) -> Result<ExitCode> {
    let options = args.pack.options_for(file)?.digests(args.json);
    let bar = Bar::unless(args.quiet);
    let [old, new] = images.paths();
    let written = export::write(file, |out| {
        let done = images.fs[0].export_diff(old, &images.fs[1], new, out, &options, &bar);
        done.map_err(|e| images.failed(e))
    });
    drop(bar);
    interrupt::check()?;
    let quiet = args.quiet || file.as_os_str() == "-";
    export::report_of(&written?, args.json, quiet, &file.into())?;
    Ok(ExitCode::SUCCESS)
}

fn compare(args: &Args, images: &Images) -> Result<ExitCode> {
    let bar = Bar::unless(args.quiet);
    let (mut differs, mut documents) = (false, Vec::new());
    let mut out = BufWriter::new(std::io::stdout().lock());
    let [old, new] = images.paths();
    let done = images.fs[0].diff(old, &images.fs[1], new, &bar, |change| {
        differs = true;
        match (args.quiet, args.json) {
            (true, _) => {}
            (_, true) => documents.push(as_json(&change)),
            _ => print(&mut out, &change).map_err(|e| Ended::Other(e.into()))?,
        }
        Ok(())
    });
    drop(bar);
    interrupt::check()?;
    done.map_err(|e| match e {
        Ended::Export(e) => images.failed(e),
        Ended::Other(e) => e,
    })?;
    out.flush()?;
    drop(out);
    if args.json {
        show::json(&documents)?;
    }
    Ok(ExitCode::from(u8::from(differs)))
}

fn print(out: &mut impl Write, change: &Change) -> std::io::Result<()> {
    let letter = match change.kind {
        ChangeKind::Added => b"A ",
        ChangeKind::Removed => b"D ",
        ChangeKind::Changed => b"M ",
    };
    out.write_all(letter)?;
    out.write_all(&show::name(&change.path))?;
    for (at, difference) in change.differences.iter().enumerate() {
        let DifferenceJson { what, old, new } = shown(difference);
        out.write_all(if at == 0 { b": " } else { b", " })?;
        out.write_all(what.as_bytes())?;
        match (old, new) {
            (Some(old), Some(new)) => write!(out, " {old} -> {new}")?,
            (None, Some(new)) => write!(out, " {new}")?,
            _ => {}
        }
    }
    out.write_all(b"\n")
}

fn as_json(change: &Change) -> Json {
    Json {
        change: match change.kind {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::Changed => "changed",
        },
        path: show::PathJson::new(&change.path),
        kind: show::kind(change.file_kind),
        differences: change.differences.iter().map(shown).collect(),
    }
}

/// A difference in words.
fn shown(difference: &Difference) -> DifferenceJson {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&show::name(bytes)).into_owned();
    let (what, old, new) = match difference {
        Difference::Kind(a, b) => ("type", show::kind(*a).to_owned(), show::kind(*b).to_owned()),
        Difference::Permissions(a, b) => ("permissions", format!("{a:04o}"), format!("{b:04o}")),
        Difference::Owner(a, b) => (
            "owner",
            format!("{}:{}", a.0, a.1),
            format!("{}:{}", b.0, b.1),
        ),
        Difference::Len(a, b) => ("size", a.to_string(), b.to_string()),
        Difference::Target(a, b) => ("target", text(a), text(b)),
        Difference::Device(a, b) => {
            let number = |n: &(u32, u32)| format!("{},{}", n.0, n.1);
            ("device", number(a), number(b))
        }
        Difference::Modified(a, b) => ("mtime", time_format::exact(*a), time_format::exact(*b)),
        Difference::Links(a, b) => {
            let path = |path: &[u8]| text(&[b"/", path].concat());
            ("link to", path(a), path(b))
        }
        Difference::Xattr(name) => {
            let new = Some(text(name));
            let (what, old) = ("xattr", None);
            return DifferenceJson { what, old, new };
        }
        _ => {
            let (what, old, new) = ("data", None, None);
            return DifferenceJson { what, old, new };
        }
    };
    let (old, new) = (Some(old), Some(new));
    DifferenceJson { what, old, new }
}

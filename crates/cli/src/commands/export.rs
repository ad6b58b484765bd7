//! `uext4 export`.

use crate::bar::Bar;
use crate::location::InImage;
use crate::system::{files, paths};
use crate::{diagnostics, images, interrupt, quoted, show};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use uext4::{Compression, ExportError, ExportOptions, ExportReport, Filesystem};

/// Write the files of an image to a tar archive or OCI layout
///
/// Owners by number, times to the nanosecond, extended attributes, ACLs, devices and hard links are kept; sockets are
/// left out, and an empty lost+found. The same files give the same bytes, with any number of threads.
///
/// FILE is compressed as its name says: .tar, .tar.gz, .tar.zst, .tar.xz or .tar.bz2; - is standard output. oci:DIR[:TAG]
/// adds an image of one layer to the OCI layout in DIR, which is made if it is not there; without TAG it is latest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 export disk.img root.tar.zst
  uext4 export disk.img:/etc - | tar -t
  uext4 export disk.img oci:layout:v2
  uext4 export --compress gzip disk.img oci:layout")]
pub struct Args {
    /// The image, and which directory of it: IMAGE or IMAGE:/path
    #[arg(value_name = "IMAGE[:/path]")]
    source: OsString,
    /// The file to write, - for standard output, or oci:DIR[:TAG]
    #[arg(value_name = "FILE|-|oci:DIR[:TAG]")]
    to: OsString,
    #[command(flatten)]
    pack: Pack,
    /// Platform that a container image is for: linux/arm64
    #[arg(long, value_name = "OS/ARCH")]
    platform: Option<String>,
    /// Report as JSON, with digests
    #[arg(long)]
    json: bool,
    /// Print nothing but errors and warnings; no progress
    #[arg(long, short)]
    quiet: bool,
}

/// How an archive is packed.
#[derive(Debug, clap::Args)]
pub struct Pack {
    /// Compression: none, gzip, zstd, xz or bzip2; zstd for a layout
    #[arg(long, value_name = "NAME")]
    compress: Option<Format>,
    /// Level of the compression: 1 to 9, for zstd to 22
    #[arg(long)]
    level: Option<u32>,
    /// Threads that compress; 0 means one for each CPU
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    None,
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl From<Format> for Compression {
    fn from(format: Format) -> Compression {
        match format {
            Format::None => Compression::None,
            Format::Gzip => Compression::Gzip,
            Format::Zstd => Compression::Zstd,
            Format::Xz => Compression::Xz,
            Format::Bzip2 => Compression::Bzip2,
        }
    }
}

impl Pack {
    /// The options, with `named` where no compression is asked for.
    fn options(&self, named: Compression) -> ExportOptions {
        let compression = self.compress.map_or(named, Compression::from);
        let options = ExportOptions::new().compression(compression);
        let options = options.threads(self.threads);
        match self.level {
            Some(level) => options.level(level),
            None => options,
        }
    }

    /// The options for a file of that name.
    ///
    /// # Errors
    /// The name has none of the endings, and no compression is asked for.
    pub fn options_for(&self, file: &Path) -> Result<ExportOptions> {
        let named = match Compression::of_name(file.as_os_str().as_encoded_bytes()) {
            None if self.compress.is_none() && !is_standard_output(file) => bail!(
                "{}: a name ends in .tar, .tar.gz, .tar.zst, .tar.xz or .tar.bz2; --compress takes any other",
                file.display()
            ),
            named => named.unwrap_or_default(),
        };
        Ok(self.options(named))
    }
}

fn is_standard_output(file: &Path) -> bool {
    file.as_os_str() == "-"
}

#[derive(Serialize)]
struct Json<'a> {
    files: u64,
    directories: u64,
    symlinks: u64,
    others: u64,
    hard_links: u64,
    whiteouts: u64,
    archive_bytes: u64,
    written_bytes: u64,
    digest: Option<&'a str>,
    diff_id: Option<&'a str>,
    warnings: &'a [String],
}

pub fn run(args: &Args) -> Result<()> {
    interrupt::catch()?;
    let at = InImage::parse(args.source.clone());
    let layout = args.to.as_encoded_bytes().strip_prefix(b"oci:");
    if layout.is_none() && args.platform.is_some() {
        bail!("--platform is for container images: oci:DIR[:TAG]");
    }
    let fs = images::open(&at.image, false)?;
    let bar = Bar::unless(args.quiet);
    let path = paths::bytes(&at.path);
    let exported = match layout {
        Some(text) => {
            let (dir, tag) = layout_and_tag(text)?;
            let options = args.pack.options(Compression::Zstd);
            let platform = args.platform.as_deref();
            let done = fs.export_to_layout(&path, dir, &tag, platform, &options, &bar);
            done.map_err(|e| failed(&fs, &at, e))
        }
        None => {
            let file = Path::new(&args.to);
            let options = args.pack.options_for(file)?.digests(args.json);
            write(file, |out| {
                let done = fs.export(&path, out, &options, &bar);
                done.map_err(|e| failed(&fs, &at, e))
            })
        }
    };
    drop(bar);
    // What it was cut off by says more than that it was.
    interrupt::check()?;
    let report = exported?;
    let to_stdout = is_standard_output(Path::new(&args.to));
    report_of(&report, args.json, args.quiet || to_stdout, &args.to)
}

/// The directory of a layout, and a tag. A colon before a slash is one of a directory that is there, and begins no tag.
fn layout_and_tag(text: &[u8]) -> Result<(PathBuf, String)> {
    let path = |bytes: &[u8]| PathBuf::from(paths::word(bytes.to_vec()));
    let colon = text.iter().rposition(|b| *b == b':');
    let (dir, tag) = match colon.map(|at| (&text[..at], &text[at + 1..])) {
        Some((dir, tag)) if !dir.is_empty() => (dir, String::from_utf8_lossy(tag)),
        _ => return Ok((path(text), "latest".to_owned())),
    };
    let Some(slash) = tag.find('/') else {
        return Ok((path(dir), tag.into_owned()));
    };
    let with_colon = path(&text[..=dir.len() + slash]);
    if !with_colon.is_dir() {
        bail!(
            "oci:{}: {tag:?} is not a tag, which has no slash, and {} is not a directory",
            path(text).display(),
            with_colon.display()
        );
    }
    Ok((path(text), "latest".to_owned()))
}

/// An error about a file of the image as other commands have it.
pub fn failed(fs: &Filesystem, at: &InImage, e: ExportError) -> anyhow::Error {
    match e {
        ExportError::Image { path, source, .. } => {
            let path = paths::path_buf(path);
            diagnostics::changing(fs, &at.beside(&path), source)
        }
        e => e.into(),
    }
}

/// Has `write` fill the file, which is replaced once it is complete; or standard output.
pub fn write<T>(file: &Path, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    if is_standard_output(file) {
        let mut out = std::io::stdout().lock();
        if out.is_terminal() {
            bail!("standard output is a terminal; name a file, or use a pipe");
        }
        return write(&mut out);
    }
    let on_host = |e| diagnostics::creating_on_host(file, e);
    let there = fs::metadata(file);
    if there.as_ref().is_ok_and(|there| !there.is_file()) {
        let mut out = BufWriter::new(File::create(file).map_err(on_host)?);
        let done = write(&mut out)?;
        out.flush().map_err(on_host)?;
        return Ok(done);
    }
    let file = match there {
        // A link to it stays a link.
        Ok(_) => &file.canonicalize().map_err(on_host)?,
        Err(_) => file,
    };
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let beside = tempfile::Builder::new()
        .prefix(".uext4-export.")
        .tempfile_in(dir.unwrap_or(Path::new(".")))
        .map_err(on_host)?;
    let mode = match there {
        Ok(there) => files::permissions(&there) & 0o777,
        Err(_) => 0o666 & !crate::mode::umask(),
    };
    let done = write(&mut beside.as_file())?;
    files::set_mode_of_open(beside.as_file(), mode).map_err(on_host)?;
    beside.persist(file).map_err(|e| on_host(e.error))?;
    Ok(done)
}

/// Shows what was written.
pub fn report_of(report: &ExportReport, json: bool, quiet: bool, to: &OsString) -> Result<()> {
    for warning in &report.warnings {
        show::warn(format_args!("warning: {warning}"));
    }
    if json {
        return show::json(&Json {
            files: report.files,
            directories: report.directories,
            symlinks: report.symlinks,
            others: report.others,
            hard_links: report.hard_links,
            whiteouts: report.whiteouts,
            archive_bytes: report.archive_bytes,
            written_bytes: report.written_bytes,
            digest: report.digest.as_deref(),
            diff_id: report.diff_id.as_deref(),
            warnings: &report.warnings,
        });
    }
    if quiet {
        return Ok(());
    }
    let others = report.directories + report.symlinks + report.others;
    let entries = report.files + others + report.hard_links + report.whiteouts;
    let name = quoted::path(Path::new(to));
    let (entries, bytes) = (
        show::count(entries, "entry", "entries"),
        show::bytes(report.written_bytes),
    );
    writeln!(std::io::stdout(), "{name}: {entries}, {bytes}").context("standard output")
}

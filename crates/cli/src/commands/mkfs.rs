//! `uext4 mkfs`.

use crate::bar::Bar;
use crate::{diagnostics, interrupt, probe, show, size};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use uext4::MkfsReport;
use uext4::unstable::{BuildOptions, FeatureSet};
use uext4_mountd::printable;
use uuid::Uuid;

/// Make an image, empty or filled from a directory.
///
/// What holds something already is overwritten only with --force, or after a question on a terminal; a file
/// that holds data is replaced when the new image is complete, and stays as it is if that fails. With --from and
/// no --size the image is just as large as the tree needs. With SOURCE_DATE_EPOCH set, the same tree and --uuid
/// give the same bytes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: uext4 mkfs root.img --from rootfs --label root",
    after_long_help = long_help()
)]
pub struct Args {
    /// The file to make, or a block device
    image: PathBuf,
    /// Bytes of the image, such as 4G
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Type of the file system: ext2 (no journal, block maps), ext3 (block maps) or ext4
    #[arg(
        long = "type",
        short = 't',
        value_name = "TYPE",
        default_value = "ext4"
    )]
    fs_type: String,
    /// What it is for, as mke2fs names it: default, floppy, small, big, huge, news, largefile, largefile4
    #[arg(long, short = 'T', value_name = "LIST")]
    usage: Option<String>,
    /// Bytes of a block: 1024, 2048 or 4096; without --usage 4096
    #[arg(long, short, value_parser = size::parse)]
    block_size: Option<u64>,
    /// Bytes of an inode: a power of two from 128 to the block size; 256 unless given
    #[arg(long, short = 'I')]
    inode_size: Option<u16>,
    /// Bytes of the image for every inode
    #[arg(long, short = 'i', value_parser = size::parse)]
    inode_ratio: Option<u64>,
    /// Percent of the blocks that are kept for root
    #[arg(long, short = 'm', value_name = "PERCENT")]
    reserved: Option<f64>,
    /// Features, as mke2fs names them: a,^b; none starts from nothing; --help lists them
    #[arg(long, short = 'O')]
    features: Option<String>,
    /// Bytes of the journal
    #[arg(long, value_parser = size::parse)]
    journal_size: Option<u64>,
    /// Number of inodes
    #[arg(long, short = 'N')]
    inodes: Option<u32>,
    /// UUID; random unless given
    #[arg(long, short = 'U')]
    uuid: Option<Uuid>,
    /// Label, at most 16 bytes
    #[arg(long, short = 'L', default_value = "")]
    label: String,
    /// Directory to fill the image from
    #[arg(long, short = 'd')]
    from: Option<PathBuf>,
    /// Threads; 0 means one for each CPU
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Give all of the image its space on the host now, so that it never finds the host full
    #[arg(long)]
    preallocate: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Overwrite a file or block device whatever it holds
    #[arg(long)]
    force: bool,
}

/// Features that can be asked for, and what needs an explanation.
fn long_help() -> String {
    let mut lines = String::new();
    let mut line = String::from(" ");
    for name in uext4::feature_names() {
        if line.len() + name.len() > 78 {
            lines.push_str(&line);
            lines.push('\n');
            line = String::from(" ");
        }
        line.push(' ');
        line.push_str(name);
    }
    lines.push_str(&line);
    format!(
        "Features:\n{lines}\n\n\
         Those of mke2fs's ext4 are on unless left out with ^. meta_bg and resize_inode exclude each\n\
         other. inline_data, ea_inode, verity, project and stable_inodes are marked in the superblock; no\n\
         file that --from copies makes use of them. A directory with more names than two levels of a hash\n\
         tree hold needs large_dir. mmp, encrypt, casefold, bigalloc, quota and journal_dev can't be made.\n\n\
         Example: uext4 mkfs root.img --from rootfs --label root"
    )
}

#[derive(Serialize)]
struct Json<'a> {
    image: String,
    image_bytes: u64,
    files: u64,
    directories: u64,
    symlinks: u64,
    others: u64,
    hard_links: u64,
    data_bytes: u64,
    seconds: f64,
    warnings: &'a [String],
}

pub fn run(args: &Args) -> Result<()> {
    keep_what_is_there(args)?;
    interrupt::catch()?;
    let bar = Bar::new();
    let made = uext4::mkfs(&args.image, &options(args)?.into(), &bar);
    drop(bar);
    let report = made.map_err(|e| diagnostics::making(&args.image, e))?;
    for warning in &report.warnings {
        show::warn(format_args!("warning: {warning}"));
    }
    tell(args, &report)
}

/// Refuses to overwrite what holds something, or asks.
fn keep_what_is_there(args: &Args) -> Result<()> {
    let name = args.image.display();
    let Ok(there) = std::fs::metadata(&args.image) else {
        return Ok(());
    };
    if there.is_dir() {
        bail!("{name}: is a directory; name the file to make");
    }
    let is_block = there.file_type().is_block_device();
    if args.force || !(is_block || there.is_file()) {
        return Ok(());
    }
    let held = probe::holds(&args.image).map_err(|e| diagnostics::on_host(&args.image, e))?;
    let what = match (is_block, held) {
        (false, None) => return Ok(()),
        (false, Some(held)) => format!("holds {held}"),
        (true, None) => "is a block device".to_owned(),
        (true, Some(held)) => format!("is a block device that holds {held}"),
    };
    let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
    if !(stdin.is_terminal() && stderr.is_terminal()) {
        bail!("{name}: {what}; --force overwrites it");
    }
    let question = format!("{name}: {what}. Overwrite it?");
    write!(stderr, "uext4: {} [y/N] ", printable(&question))?;
    let mut answer = String::new();
    stdin.read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("{name}: left as it is"),
    }
}

fn options(args: &Args) -> Result<BuildOptions> {
    let mut options = BuildOptions {
        size: args.size,
        journal_size: args.journal_size,
        inodes: args.inodes,
        uuid: args.uuid,
        label: args.label.clone(),
        from: args.from.clone(),
        threads: args.threads,
        preallocate: args.preallocate,
        ..BuildOptions::default()
    };
    let failed = |e| diagnostics::making(&args.image, e);
    if let Some(list) = &args.usage {
        options.set_usage(list).map_err(failed)?;
    }
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    options.block_size = args.block_size.map_or(options.block_size, narrow);
    options.inode_ratio = args.inode_ratio.map_or(options.inode_ratio, narrow);
    options.inode_size = args.inode_size.unwrap_or(options.inode_size);
    options.reserved_percent = args.reserved;
    options.features = FeatureSet::of_type(&args.fs_type).map_err(failed)?;
    if let Some(list) = &args.features {
        options.features = options.features.changed(list).map_err(failed)?;
    }
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        let time = epoch
            .parse()
            .with_context(|| format!("SOURCE_DATE_EPOCH: `{epoch}` is not a number of seconds"));
        options.time = Some(time?);
    }
    Ok(options)
}

fn tell(args: &Args, report: &MkfsReport) -> Result<()> {
    if args.json {
        return show::json(&Json {
            image: args.image.display().to_string(),
            image_bytes: report.image_bytes,
            files: report.files,
            directories: report.directories,
            symlinks: report.symlinks,
            others: report.others,
            hard_links: report.hard_links,
            data_bytes: report.data_bytes,
            seconds: report.seconds,
            warnings: &report.warnings,
        });
    }
    let what = if args.from.is_some() {
        format!(
            ", {} files, {} directories, {} symlinks, {} of data",
            report.files,
            report.directories,
            report.symlinks,
            show::bytes(report.data_bytes)
        )
    } else {
        String::new()
    };
    let size = show::bytes(report.image_bytes);
    writeln!(
        std::io::stdout(),
        "{}: {size}{what}, {:.2} s",
        show::image(&args.image),
        report.seconds
    )?;
    Ok(())
}

//! `uext4 device`: images of servers as a whole.

use crate::{device, diagnostics, show, size};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use uext4::unstable::{MmpHold, RemoteAddress, images_of};
use uext4::{BlockError, DeviceOptions};

/// Make, list and remove images on servers, and take them over
///
/// Of Ceph (rbd:POOL[/NAMESPACE]/NAME) and of S3 (s3://BUCKET/PREFIX), in builds that have their clients.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    uext4 device create --size 10G s3://images/root\n  \
    uext4 device ls s3://images\n  \
    uext4 device info rbd:rbd/root\n  \
    uext4 device break-lock rbd:rbd/root    keeps its writer out\n\
    Access, owners and readers: uext4 help servers")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    Ls(Place),
    /// Remove images
    ///
    /// One that a host has open, or left open, is not removed: of Ceph never, of S3 only with --force, and then its writer and its
    /// readers fail.
    #[command(
        after_help = "Examples:\n  uext4 device rm s3://images/root\n  uext4 device rm rbd:rbd/root"
    )]
    Rm(Remove),
    Info(Info),
    /// Take the right to write from the host that has it, alive or not
    ///
    /// What that host still writes has no effect, and its mount fails. Of S3 it also forgets the readers, so that garbage which they
    /// keep can be collected.
    #[command(
        after_help = "Examples:\n  uext4 device break-lock rbd:rbd/root\n  uext4 device break-lock s3://images/root"
    )]
    BreakLock(Images),
}

/// Make an image of zeros, which uext4 mkfs fills
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  uext4 device create --size 10G s3://images/root")]
struct Create {
    /// How large it is
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: u64,
    /// The image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
}

/// List the images of a pool, or of a bucket
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uext4 device ls rbd:POOL\n  uext4 device ls s3://BUCKET/PREFIX"
)]
struct Place {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// rbd:POOL[/NAMESPACE] or s3://BUCKET[/PREFIX]
    #[arg(value_name = "PLACE")]
    place: String,
}

#[derive(Debug, clap::Args)]
struct Images {
    /// The images
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Remove {
    /// Of S3 also images that hosts have open
    #[arg(long, short)]
    force: bool,
    #[command(flatten)]
    images: Images,
}

/// Show the size of an image, and which host writes it, or in S3 wrote it last
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  uext4 device info --json s3://images/root")]
struct Info {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// The image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
}

#[derive(Serialize)]
struct Json {
    image: String,
    bytes: u64,
    writer: Option<String>,
    epoch: Option<u64>,
    readers: Option<u64>,
}

pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Create(args) => {
            let address = address(&args.image)?;
            failed(&args.image, address.create(args.size))
        }
        Command::Ls(args) => list(&args),
        Command::Rm(args) => remove(&args),
        Command::Info(args) => info(&args),
        Command::BreakLock(args) => each(&args, RemoteAddress::break_lock),
    }
}

fn address(image: &Path) -> Result<RemoteAddress> {
    let name = image.to_str().context("a name that is not UTF-8")?;
    RemoteAddress::parse(name).map_err(|why| anyhow::anyhow!("{name}: {why}"))
}

fn failed<T>(image: &Path, done: Result<T, BlockError>) -> Result<T> {
    done.map_err(|e| match e {
        // It says all, and asks no server again.
        BlockError::Image { .. } => e.into(),
        e => diagnostics::device(image, e),
    })
}

fn each(args: &Images, what: impl Fn(&RemoteAddress) -> Result<(), BlockError>) -> Result<()> {
    for image in &args.images {
        failed(image, what(&address(image)?))?;
    }
    Ok(())
}

fn remove(args: &Remove) -> Result<()> {
    for image in &args.images.images {
        let address = address(image)?;
        if !args.force {
            refuse_in_use(image, &address)?;
        }
        failed(image, address.remove())?;
    }
    Ok(())
}

/// Refuses an image of a store that hosts have open, as far as it says so; Ceph refuses such ones itself.
fn refuse_in_use(image: &Path, address: &RemoteAddress) -> Result<()> {
    let readers = failed(image, address.info())?.readers.unwrap_or(0);
    let Ok(device) = device::open(image, &DeviceOptions::read_only().exclusive(false)) else {
        return Ok(());
    };
    let holder = MmpHold::holder(&device).ok().flatten();
    let users = match (holder, readers) {
        (Some(holder), _) => format!("host {} has it open, or left it open", holder.host),
        (None, 0) => return Ok(()),
        (None, readers) => format!("{readers} readers have it open, or were killed"),
    };
    let name = image.display();
    bail!("{name}: {users}; --force removes it all the same")
}

fn list(args: &Place) -> Result<()> {
    let images = failed(Path::new(&args.place), images_of(&args.place))?;
    if args.json {
        return show::json(&images);
    }
    let mut stdout = std::io::stdout().lock();
    for image in images {
        writeln!(stdout, "{}", show::image(Path::new(&image)))?;
    }
    Ok(())
}

fn info(args: &Info) -> Result<()> {
    let found = failed(&args.image, address(&args.image)?.info())?;
    if args.json {
        return show::json(&Json {
            image: args.image.display().to_string(),
            bytes: found.bytes,
            writer: found.writer,
            epoch: found.epoch,
            readers: found.readers,
        });
    }
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "size:     {}", show::bytes(found.bytes))?;
    writeln!(
        stdout,
        "writer:   {}",
        found.writer.as_deref().unwrap_or("none")
    )?;
    if let Some(epoch) = found.epoch {
        writeln!(stdout, "epoch:    {epoch}")?;
    }
    if let Some(readers) = found.readers {
        writeln!(stdout, "readers:  {readers}")?;
    }
    Ok(())
}

//! `uext4 fsverity`.

use super::mkfs::{Salt, salt};
use crate::images::{self, Images};
use crate::location::InImage;
use crate::system::paths;
use crate::{expand, failures, show, size};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use uext4::{Errno, FsVerity, FsVerityDescriptor, HashAlgorithm};

/// Give files hashes by which reads are checked, as fsverity(1)
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 fsverity enable disk.img:/bin/app   it can't be written then
  uext4 fsverity measure disk.img:/bin/app  its digest, of fsverity(1)
  uext4 mkfs new.img --from tree --fsverity '/bin/*'
                                            the same while an image is made")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Enable(EnableArgs),
    Measure(MeasureArgs),
}

/// Give files fs-verity, for good; the image needs the feature verity
#[derive(Debug, clap::Args)]
struct EnableArgs {
    /// The hash function: sha256 or sha512
    #[arg(long, value_name = "NAME", default_value = "sha256", value_parser = algorithm)]
    hash_alg: HashAlgorithm,
    /// Bytes of a block that is hashed: 1024 to those of a block of the file system; by default these, at most 4096
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    block_size: Option<u64>,
    /// What each hash begins with, at most 32 bytes in hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = salt)]
    salt: Option<Salt>,
    /// A file with a signature of the digest, which is kept in the image and not checked
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// Show the digests of files with fs-verity
#[derive(Debug, clap::Args)]
struct MeasureArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// A file as JSON has it.
#[derive(Serialize)]
struct Json {
    name: String,
    algorithm: &'static str,
    digest: String,
    block_size: u32,
    salt: String,
    signature_bytes: usize,
}

fn algorithm(name: &str) -> Result<HashAlgorithm, String> {
    match name {
        "sha256" => Ok(HashAlgorithm::Sha256),
        "sha512" => Ok(HashAlgorithm::Sha512),
        _ => Err("sha256 or sha512".to_owned()),
    }
}

fn name_of(algorithm: HashAlgorithm) -> &'static str {
    match algorithm {
        HashAlgorithm::Sha256 => "sha256",
        HashAlgorithm::Sha512 => "sha512",
    }
}

pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Enable(args) => enable(args),
        Command::Measure(args) => measure(&args),
    }
}

fn enable(args: EnableArgs) -> Result<()> {
    let signature = match &args.signature {
        Some(file) => std::fs::read(file).with_context(|| file.display().to_string())?,
        None => Vec::new(),
    };
    let mut verity = FsVerity {
        algorithm: args.hash_alg,
        salt: args.salt.map(|salt| salt.0).unwrap_or_default(),
        signature,
        ..FsVerity::default()
    };
    images::change_each(args.paths, |fs, at| {
        let block_size = u64::from(fs.metadata(paths::bytes(&at.path))?.block_size);
        let wanted = args.block_size.unwrap_or(block_size.min(4096));
        verity.block_bytes = u32::try_from(wanted).unwrap_or(u32::MAX);
        match fs.enable_fs_verity(paths::bytes(&at.path), &verity) {
            Ok(_) => Ok(()),
            Err(e) if e == Errno::EEXIST => {
                bail!("{at}: has fs-verity; `uext4 fsverity measure` shows its digest")
            }
            Err(e) => Err(e.into()),
        }
    })
}

fn measure(args: &MeasureArgs) -> Result<()> {
    let (mut images, mut json) = (Images::default(), Vec::new());
    for path in &args.paths {
        let at = InImage::parse(path.clone());
        let done = images.get(&at.image, false).and_then(|image| {
            for at in expand::expand(&*image, &at)? {
                let found = image.fs().fs_verity(paths::bytes(&at.path));
                match found.map_err(|e| image.fail(&at.path, e))? {
                    Some(found) if args.json => json.push(as_json(&at, &found)),
                    Some(found) => line(&at, &found)?,
                    None => {
                        bail!("{at}: does not have fs-verity; `uext4 fsverity enable` gives it")
                    }
                }
            }
            Ok(())
        });
        done.or_else(failures::report)?;
    }
    if args.json {
        show::json(&json)?;
    }
    images.close()
}

/// As `fsverity measure` prints it.
fn line(at: &InImage, found: &FsVerityDescriptor) -> Result<()> {
    let (algorithm, digest) = (name_of(found.verity.algorithm), found.digest());
    let digest = show::hex(digest.as_bytes());
    Ok(writeln!(std::io::stdout(), "{algorithm}:{digest} {at}")?)
}

fn as_json(at: &InImage, found: &FsVerityDescriptor) -> Json {
    Json {
        name: at.to_string(),
        algorithm: name_of(found.verity.algorithm),
        digest: show::hex(found.digest().as_bytes()),
        block_size: found.verity.block_bytes,
        salt: show::hex(&found.verity.salt),
        signature_bytes: found.verity.signature.len(),
    }
}

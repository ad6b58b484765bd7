//! `uext4 key`: the encryption keys of a mount.

use crate::images;
use anyhow::{Result, anyhow};
use clap::Subcommand;
use std::io::Write;
use std::path::{Path, PathBuf};
use uext4_mountd::encryption_keys::{self, KeyError};
use uext4_mountd::second_mount;

/// Add, remove and list the encryption keys of a mounted image
///
/// Names and contents of files that are encrypted (fscrypt) are read with their keys. A key is given as its raw bytes, as in
/// FS_IOC_ADD_ENCRYPTION_KEY, and by no other way: it is in memory until it is removed or the image is unmounted. Encrypted files can't be written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    uext4 key add /mnt raw.key\n  \
    uext4 key status /mnt\n  \
    uext4 key remove /mnt 69b2f6edeee720cce0577937eb8a6751\n\n\
    uext4 mount and every command that reads an image take --encryption-key FILE.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add a key
    Add {
        /// A directory, or an image that is mounted
        #[arg(value_name = "DIR|IMAGE")]
        target: PathBuf,
        /// The raw bytes of the key, 16 to 64; - is the standard input
        file: PathBuf,
    },
    /// Remove a key: its files can no longer be opened; what is open stays readable
    Remove {
        /// A directory, or an image that is mounted
        #[arg(value_name = "DIR|IMAGE")]
        target: PathBuf,
        /// Its descriptor, 16 digits, or its identifier, 32, as `uext4 key status` lists them
        name: String,
    },
    /// List the keys: the descriptor of each, by which policies of version 1 find it, or the identifier for those of version 2
    Status {
        /// A directory, or an image that is mounted
        #[arg(value_name = "DIR|IMAGE")]
        target: PathBuf,
    },
}

pub fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Add { target, file } => {
            let key = images::read_key(file)?;
            on_mount(target, |dir| encryption_keys::add(dir, &key))
        }
        Action::Remove { target, name } => {
            on_mount(target, |dir| encryption_keys::remove(dir, name))
        }
        Action::Status { target } => {
            let names = on_mount(target, encryption_keys::names)?;
            let mut out = std::io::stdout().lock();
            names.iter().try_for_each(|name| writeln!(out, "{name}"))?;
            Ok(())
        }
    }
}

fn on_mount<T>(target: &Path, work: impl FnOnce(&Path) -> Result<T, KeyError>) -> Result<T> {
    let dir = match target.is_dir() {
        true => target.to_owned(),
        false => second_mount::named(target).unwrap_or_else(|| target.to_owned()),
    };
    work(&dir).map_err(|e| anyhow!("{}: {e}", target.display()))
}

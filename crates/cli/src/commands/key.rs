//! `uext4 key`: the encryption keys of a mount.

use crate::{images, show};
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
///
/// A policy names its key: one of version 2 by the identifier, which follows from the key; one of version 1 by a descriptor, which by habit (e4crypt)
/// follows from it, too, and is given with the key if it does not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    uext4 key add /mnt raw.key\n  \
    uext4 key add /mnt 0123456789abcdef:raw.key   # policies of version 1\n  \
    uext4 key status /mnt\n  \
    uext4 key remove /mnt 69b2f6edeee720cce0577937eb8a6751\n\n\
    uext4 mount, and every command that reads an image, takes\n\
    --encryption-key [DESCRIPTOR:]FILE.")]
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
        /// The raw bytes of the key, 16 to 64; - is the standard input. DESCRIPTOR, 16 digits, is what policies of version 1 have for the key
        #[arg(value_name = "[DESCRIPTOR:]FILE")]
        file: PathBuf,
    },
    /// Remove a key: its files can no longer be opened, nor read where they are open
    Remove {
        /// A directory, or an image that is mounted
        #[arg(value_name = "DIR|IMAGE")]
        target: PathBuf,
        /// Its identifier, 32 digits, or a descriptor of it, 16, as `uext4 key status` lists them
        name: String,
    },
    /// List the keys, one a line: the identifier, by which policies of version 2 find it, and the descriptors for those of version 1
    Status {
        /// A directory, or an image that is mounted
        #[arg(value_name = "DIR|IMAGE")]
        target: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
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
        Action::Status { target, json } => {
            let keys = on_mount(target, encryption_keys::names)?;
            if *json {
                return show::json(&keys);
            }
            let mut out = std::io::stdout().lock();
            for key in keys {
                write!(out, "identifier {}", key.identifier)?;
                let mut descriptors = key.descriptors.iter();
                descriptors.try_for_each(|name| write!(out, " descriptor {name}"))?;
                writeln!(out)?;
            }
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

//! `uext4 xattr`.

use crate::{diagnostics, images, show};
use anyhow::Result;
use clap::Subcommand;
use std::ffi::OsString;
use std::io::Write;
use uext4::XattrFlags;

/// Show and change extended attributes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 xattr set disk.img:/etc/hosts user.origin dhcp")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the names
    ///
    /// Example: uext4 xattr list disk.img:/etc/hosts
    List {
        /// IMAGE:/path
        path: OsString,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a value to standard output, as it is
    ///
    /// Example: uext4 xattr get disk.img:/etc/hosts user.origin
    Get {
        /// IMAGE:/path
        path: OsString,
        /// The name, with its namespace
        name: String,
    },
    /// Set a value
    ///
    /// Example: uext4 xattr set disk.img:/etc/hosts user.origin dhcp
    Set {
        /// IMAGE:/path
        path: OsString,
        /// The name, with its namespace
        name: String,
        /// The value
        value: OsString,
    },
    /// Remove an attribute
    ///
    /// Example: uext4 xattr remove disk.img:/etc/hosts user.origin
    Remove {
        /// IMAGE:/path
        path: OsString,
        /// The name, with its namespace
        name: String,
    },
}

pub fn run(args: Args) -> Result<()> {
    match args.action {
        Action::List { path, json } => images::read_each(vec![path], |endpoint, at| {
            let names: Vec<_> = endpoint.xattrs(&at.path)?;
            if json {
                let text = |(n, _): &(Vec<u8>, _)| String::from_utf8_lossy(n).into_owned();
                return show::json(&names.iter().map(text).collect::<Vec<_>>());
            }
            let mut out = std::io::stdout().lock();
            for (name, _) in names {
                out.write_all(&show::name(&name))?;
                out.write_all(b"\n")?;
            }
            Ok(())
        }),
        Action::Get { path, name } => images::read_each(vec![path], |endpoint, at| {
            let found = endpoint.xattrs(&at.path)?;
            let value = found.iter().find(|(n, _)| n == name.as_bytes());
            let Some((_, value)) = value else {
                anyhow::bail!(
                    "{at}: has no attribute {name}; `uext4 xattr list {at}` lists those that it has"
                );
            };
            Ok(std::io::stdout().lock().write_all(value)?)
        }),
        Action::Set { path, name, value } => images::change_each(vec![path], |fs, at| {
            let value = value.as_encoded_bytes();
            let set = fs.set_xattr(&at.path, &name, value, XattrFlags::empty());
            set.map_err(|e| diagnostics::setting_xattr(fs, at, name.as_bytes(), value.len(), e))
        }),
        Action::Remove { path, name } => images::change_each(vec![path], |fs, at| {
            let removed = fs.remove_xattr(&at.path, &name);
            removed.map_err(|e| diagnostics::setting_xattr(fs, at, name.as_bytes(), 0, e))
        }),
    }
}

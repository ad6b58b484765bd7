//! `uext4 xattr`.

use crate::location::{Location, Naming};
use crate::system::paths;
use crate::{diagnostics, glob, images, quoted, show};
use anyhow::{Result, bail};
use clap::Subcommand;
use serde::Serialize;
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
    /// List the names, with -d the values too
    ///
    /// With --json, the values too; a name or a value that is not UTF-8 is also there as `name_bytes` or `value_bytes`, in
    /// hexadecimal. With several operands or a pattern, --json prints an object for each file.
    #[command(after_help = "Example: uext4 xattr list -d disk.img:/etc/hosts")]
    #[command(visible_alias = "ls")]
    List {
        /// The values too: text in quotes, or in hexadecimal after 0x
        #[arg(short, long)]
        dump: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
        /// IMAGE:/path
        #[arg(required = true)]
        paths: Vec<OsString>,
    },
    /// Write a value to standard output, as it is
    #[command(after_help = "Example: uext4 xattr get disk.img:/etc/hosts user.origin")]
    Get {
        /// IMAGE:/path
        path: OsString,
        /// The name, with its namespace
        name: String,
    },
    /// Set a value
    #[command(after_help = "Example: uext4 xattr set disk.img:/etc/hosts user.origin dhcp")]
    Set {
        /// IMAGE:/path
        path: OsString,
        /// The name, with its namespace
        name: String,
        /// The value
        value: OsString,
    },
    /// Remove an attribute
    #[command(visible_aliases = ["rm", "unset"], after_help = "Example: uext4 xattr remove disk.img:/etc/hosts user.origin")]
    Remove {
        /// IMAGE:/path
        path: OsString,
        /// The name, with its namespace
        name: String,
    },
}

pub fn run(args: Args) -> Result<()> {
    match args.action {
        Action::List { paths, dump, json } => list(paths, dump, json),
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
        Action::Set { path, name, value } if is_last_the_file(&path, &value) => {
            let line = [&value, &path, &OsString::from(&name)]
                .map(|word| quoted::quoted(word.as_encoded_bytes()));
            bail!(
                "{}: the file precedes the name: `uext4 xattr set {}`",
                path.display(),
                line.join(" ")
            )
        }
        Action::Set { path, name, value } => images::change_each(vec![path], |fs, at| {
            let value = value.as_encoded_bytes();
            let set = fs.set_xattr(paths::bytes(&at.path), &name, value, XattrFlags::empty());
            set.map_err(|e| diagnostics::setting_xattr(fs, at, name.as_bytes(), value.len(), e))
        }),
        Action::Remove { path, name } => images::change_each(vec![path], |fs, at| {
            let removed = fs.remove_xattr(paths::bytes(&at.path), &name);
            removed.map_err(|e| diagnostics::setting_xattr(fs, at, name.as_bytes(), 0, e))
        }),
    }
}

/// Whether the operands are in the order of setfattr(1).
fn is_last_the_file(first: &OsString, last: &OsString) -> bool {
    let is_in_image =
        |operand: &OsString| matches!(Location::parse(operand.clone()), Location::Image(_));
    !is_in_image(first) && is_in_image(last)
}

/// An attribute as JSON has it.
#[derive(Serialize)]
struct XattrJson {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_bytes: Option<String>,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_bytes: Option<String>,
}

/// The attributes of a file as JSON has them.
#[derive(Serialize)]
struct FileJson {
    #[serde(flatten)]
    path: show::PathJson,
    xattrs: Vec<XattrJson>,
}

/// A value in a line.
fn shown(value: &[u8]) -> String {
    match str::from_utf8(value) {
        Ok(text) if !text.contains(char::is_control) => {
            format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#))
        }
        _ => format!("0x{}", show::hex(value)),
    }
}

fn list(paths: Vec<OsString>, with_values: bool, as_json: bool) -> Result<()> {
    let naming = Naming::of(&paths, as_json);
    let is_one = matches!(&*paths, [path] if !glob::is_pattern(path.as_encoded_bytes()));
    let mut files = Vec::new();
    images::read_each(paths, |endpoint, at| {
        let xattrs = endpoint.xattrs(&at.path)?;
        let name = naming.name(&at.image, &at.path);
        if as_json {
            let xattr = |(name, value): &(Vec<u8>, Vec<u8>)| XattrJson {
                name: String::from_utf8_lossy(name).into_owned(),
                name_bytes: show::hex_unless_text(name),
                value: String::from_utf8_lossy(value).into_owned(),
                value_bytes: show::hex_unless_text(value),
            };
            files.push(FileJson {
                path: show::PathJson::new(&name),
                xattrs: xattrs.iter().map(xattr).collect(),
            });
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        for (xattr, value) in xattrs {
            if !is_one {
                out.write_all(&show::name(&name))?;
                out.write_all(b": ")?;
            }
            out.write_all(&show::name(&xattr))?;
            if with_values {
                write!(out, "={}", shown(&value))?;
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    match (as_json, is_one) {
        (false, _) => Ok(()),
        // A failure was reported.
        (true, true) => files
            .first()
            .map_or(Ok(()), |file| show::json(&file.xattrs)),
        (true, false) => show::json(&files),
    }
}

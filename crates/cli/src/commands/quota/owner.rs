//! An owner as it is written: `user:1000`, `group:staff`, `project:7`.

use crate::accounts::Accounts;
use crate::endpoint::Image;
use anyhow::{Result, anyhow, bail};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use uext4::{QuotaKind, Quotas};

/// An owner; a name is looked up in the image.
#[derive(Clone, Debug)]
pub struct Owner {
    pub kind: QuotaKind,
    name: String,
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Owner, String> {
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let kind = match kind {
            "user" | "u" => QuotaKind::User,
            "group" | "g" => QuotaKind::Group,
            "project" | "P" => QuotaKind::Project,
            _ => return Err(wrong(text)),
        };
        match name {
            "" => Err(wrong(text)),
            name => Ok(Owner {
                kind,
                name: name.to_owned(),
            }),
        }
    }
}

fn wrong(text: &str) -> String {
    format!("`{text}` is not an owner: give user:NAME, group:NAME or project:NUMBER")
}

impl Owner {
    /// Its number.
    ///
    /// # Errors
    /// The image does not have the name.
    pub fn id(&self, accounts: &Accounts) -> Result<u32> {
        if let Ok(id) = self.name.parse() {
            return Ok(id);
        }
        let found = match self.kind {
            QuotaKind::User => accounts.uid(&self.name),
            QuotaKind::Group => accounts.gid(&self.name),
            QuotaKind::Project => None,
        };
        found.ok_or_else(|| {
            let (kind, name) = (self.kind.name(), &self.name);
            {
                let file = match self.kind {
                    QuotaKind::Group => "/etc/group",
                    _ => "/etc/passwd",
                };
                anyhow!("{kind} '{name}' is not in {file} of the image; give a number")
            }
        })
    }
}

/// The name that an owner has in the image.
pub fn name_of(kind: QuotaKind, id: u32, accounts: &Accounts) -> Option<&str> {
    match kind {
        QuotaKind::User => accounts.user_name(id),
        QuotaKind::Group => accounts.group_name(id),
        QuotaKind::Project => None,
    }
}

/// What the owners of a kind have.
///
/// # Errors
/// The image keeps no such quotas.
pub fn quotas(image: &Image, kind: QuotaKind) -> Result<Quotas> {
    match image.fs().quotas(kind) {
        Some(quotas) => Ok(quotas),
        None => bail!("{}", missing(image.image(), kind)),
    }
}

fn missing(image: &Path, kind: QuotaKind) -> String {
    let features = match kind {
        QuotaKind::Project => "project,quota",
        _ => "quota",
    };
    let (name, kind) = (image.display(), kind.name());
    format!("{name}: has no {kind} quota; `uext4 tune -O {features} {name}` adds it")
}

/// The image that an operand names, with a colon at the end or without.
pub fn image_of(operand: &Path) -> PathBuf {
    crate::location::InImage::parse(operand.as_os_str().to_owned()).image
}

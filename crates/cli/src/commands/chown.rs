//! `uext4 chown`.

use super::walk::{Next, walk};
use crate::endpoint::Image;
use crate::{images, interrupt};
use anyhow::Result;
use std::ffi::OsString;

/// Set owner and group, by number.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 chown -R 1000:1000 disk.img:/home/me")]
pub struct Args {
    /// All below directories too
    #[arg(short = 'R')]
    recursive: bool,
    /// UID, UID:GID or :GID
    #[arg(value_parser = owner)]
    owner: Owner,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// What is not given stays.
#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: Option<u32>,
    gid: Option<u32>,
}

fn owner(text: &str) -> Result<Owner, String> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| match text {
        "" => Ok(None),
        digits => match digits.parse() {
            // To chown(2) the last number means that the owner stays.
            Ok(id) if id < u32::MAX => Ok(Some(id)),
            _ => Err(format!(
                "`{digits}` is not an id: give a number of at most {}",
                u32::MAX - 1
            )),
        },
    };
    Ok(Owner {
        uid: number(uid)?,
        gid: number(gid)?,
    })
}

pub fn run(args: Args) -> Result<()> {
    interrupt::catch()?;
    let Owner { uid, gid } = args.owner;
    images::change_each(args.paths, |fs, at| {
        if !args.recursive {
            return Ok(fs.chown(&at.path, uid, gid)?);
        }
        let endpoint = Image::new(1, at.image.clone(), fs.clone());
        walk(&endpoint, &at.path, true, |met| {
            fs.chown(&met.path, uid, gid)
                .map_err(|e| endpoint.fail(&met.path, e))?;
            Ok(Next::Descend)
        })
    })
}

//! `uext4 dump`: structures as they are on disk, damaged ones too.
//!
//! | module | holds |
//! | --- | --- |
//! | [`view`] | an image read by block and by inode, nothing of it trusted |
//! | [`mapping`] | what names a file's blocks: extent trees and block maps |
//! | [`inode`], [`dir`], [`journal`], [`block`] | what is shown |

mod block;
mod dir;
mod inode;
mod journal;
mod mapping;
mod view;

pub use journal::{place_in_journal, superblock as journal_superblock};
pub use mapping::{NodeDump, RunDump, dump as mapping_of};
pub use view::View;

use crate::system::paths;
use crate::{images, show};
use anyhow::{Result, bail};
use clap::Subcommand;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use uext4::Filesystem;
use uext4::unstable::ondisk::Ino;

/// Show inodes, directories, journal and blocks as on disk
///
/// Nothing is recovered or changed first. The superblock and the groups are shown by `uext4 info`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uext4 dump disk.img inode /etc/passwd\n  uext4 dump disk.img journal"
)]
pub struct Args {
    /// The image
    image: PathBuf,
    /// As JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// An inode: every field, what names its blocks, its extended attributes
    Inode {
        /// A number, or a path in the image
        inode: String,
    },
    /// The blocks of a directory: entries, and the nodes of its hash tree
    Dir {
        /// A number, or a path in the image
        inode: String,
    },
    /// The journal: its superblock, and what each block of the log is
    Journal,
    /// A block in hexadecimal, and what says that it is in use
    Block {
        /// Its number
        block: u64,
    },
}

pub fn run(args: &Args) -> Result<()> {
    let view = View::open(&args.image)?;
    match &args.what {
        What::Inode { inode } => {
            let number = find(args, inode)?;
            match inode::dump(&view, number) {
                Ok(dump) => tell(args, &dump),
                Err(why) => match inode::damaged(&view, number, &why) {
                    Ok(dump) => tell(args, &dump),
                    Err(_) => Err(why),
                },
            }
        }
        What::Dir { inode } => tell(args, &dir::dump(&view, find(args, inode)?)?),
        What::Journal => tell(args, &journal::dump(&view)?),
        What::Block { block } => tell(args, &block::dump(&view, *block)?),
    }
}

/// What can be shown.
trait Dump: Serialize {
    /// As text.
    fn text(&self) -> String;
}

fn tell(args: &Args, dump: &impl Dump) -> Result<()> {
    if args.json {
        return show::json(dump);
    }
    Ok(std::io::stdout().lock().write_all(dump.text().as_bytes())?)
}

/// The number of an inode; a path is looked up in the image as it would be mounted.
fn find(args: &Args, text: &str) -> Result<Ino> {
    if !text.starts_with('/') {
        return match text.parse() {
            Ok(number) => Ok(Ino(number)),
            Err(_) => bail!("`{text}` is neither a number nor a path, which begins with a slash"),
        };
    }
    let image = &args.image;
    let fs = images::open(image, false)?;
    let path = Path::new(text);
    let fail = |e| anyhow::anyhow!("{}:{text}: {e}", image.display());
    match fs.symlink_metadata(paths::bytes(path)) {
        Ok(attr) => Ok(Ino(u32::try_from(attr.ino)?)),
        Err(e) => match named(&fs, path) {
            Some(number) => Ok(number),
            None => Err(fail(e)),
        },
    }
}

/// The number that a directory has for a name, of an inode that cannot be read.
fn named(fs: &Filesystem, path: &Path) -> Option<Ino> {
    let name = paths::bytes(path.file_name()?);
    let entries = fs.read_dir(paths::bytes(&path.parent()?)).ok()?;
    let entry = entries.flatten().find(|entry| entry.name() == &*name)?;
    Some(Ino(u32::try_from(entry.ino()).ok()?))
}

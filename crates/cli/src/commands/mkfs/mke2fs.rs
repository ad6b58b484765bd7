//! Options of mke2fs that do nothing here, or that are refused.

use anyhow::{Result, bail};
use std::ffi::OsString;

/// Options that scripts pass to mke2fs.
#[derive(Debug, clap::Args)]
pub struct Mke2fsArgs {
    /// Direct I/O, which changes nothing here
    #[arg(short = 'D', hide = true)]
    direct: bool,
    /// Operating system that makes it
    #[arg(short = 'o', hide = true, value_name = "OS")]
    creator_os: Option<String>,
    /// Revision of the format
    #[arg(short = 'r', hide = true, value_name = "NUMBER")]
    revision: Option<u32>,
    /// Search for bad blocks
    #[arg(short = 'c', hide = true, action = clap::ArgAction::Count)]
    bad_blocks: u8,
    /// A list of bad blocks
    #[arg(short = 'l', hide = true, value_name = "FILE")]
    bad_blocks_list: Option<OsString>,
    /// Write superblock and descriptors only
    #[arg(short = 'S', hide = true)]
    super_only: bool,
    /// Where to keep what is overwritten
    #[arg(short = 'z', hide = true, value_name = "FILE")]
    undo_file: Option<OsString>,
}

impl Mke2fsArgs {
    /// Refuses what can't be done.
    ///
    /// # Errors
    /// One that says what to do.
    pub fn refuse(&self) -> Result<()> {
        if let Some(os) = &self.creator_os
            && !["0", "linux", "Linux"].contains(&os.as_str())
        {
            bail!("-o {os}: only images of Linux can be made");
        }
        if let Some(revision) = self.revision
            && revision != 1
        {
            bail!("-r {revision}: only revision 1 can be made, which every kernel since 2.2 reads");
        }
        if self.bad_blocks > 0 || self.bad_blocks_list.is_some() {
            bail!("bad blocks can't be searched or listed here; `badblocks DEVICE` tests a disk");
        }
        if self.super_only {
            bail!(
                "-S writes superblocks over an image that exists; mke2fs of e2fsprogs does it, as a last resort before e2fsck"
            );
        }
        if self.undo_file.is_some() {
            bail!(
                "-z: no undo file can be written; a file that holds data is replaced only once its successor is complete"
            );
        }
        Ok(())
    }
}

//! The command line of cp.

use super::options::{Exists, Follow, Options, Preserve, Report, Sparse};
use super::plan::Operands;
use crate::commands::destination::Destination;
use clap::ValueEnum;
use std::ffi::OsString;

/// Copy files between the host and images, or within them
///
/// Files in an image belong to root unless -a or -p keeps the owner. Of pipes and devices the data is copied
/// unless -r or -a is given. A pipe or device that is named as the target is written to. `-` is standard input or
/// standard output. Ctrl-C ends the copy after the piece of data under way, with the image closed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 cp -a rootfs/. disk.img:/
  uext4 cp disk.img:/etc/passwd .
  uext4 cp -r 'disk.img:/var/log/*.log' logs/
  curl https://example.org/key | uext4 cp - disk.img:/etc/key
  date | uext4 cp --append - disk.img:/var/log/dates")]
pub struct Args {
    /// Directories and all in them too
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// All as it is: -r, and modes, owners, times, attributes, links, devices and holes kept
    #[arg(short, long)]
    archive: bool,
    /// Keep modes, owners and times
    #[arg(short = 'p')]
    keep: bool,
    /// Keep these: mode, ownership, timestamps, links, xattr, all; without a list the first three
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "mode,ownership,timestamps"
    )]
    preserve: Vec<Attribute>,
    /// Do not keep these
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        require_equals = true
    )]
    no_preserve: Vec<Attribute>,
    /// Copy symbolic links as links, and files with several names as one: -P --preserve=links
    #[arg(short = 'd')]
    links: bool,
    /// Of symbolic links, copy what they lead to
    #[arg(short = 'L', long, overrides_with_all = ["no_dereference", "dereference_named"])]
    dereference: bool,
    /// Copy symbolic links as links
    #[arg(short = 'P', long, overrides_with_all = ["dereference", "dereference_named"])]
    no_dereference: bool,
    /// Of symbolic links that are named, copy what they lead to
    #[arg(short = 'H', overrides_with_all = ["dereference", "no_dereference"])]
    dereference_named: bool,
    /// Replace what cannot be opened to be written, and an image by a file
    #[arg(short, long)]
    force: bool,
    /// Ask before a file is overwritten
    #[arg(short, long, overrides_with = "no_clobber")]
    interactive: bool,
    /// Leave files alone that exist
    #[arg(short, long, overrides_with = "interactive")]
    no_clobber: bool,
    /// Overwrite only files that are older
    #[arg(short, long)]
    update: bool,
    /// Append the data to a file of an image that exists, instead of replacing it
    #[arg(long, conflicts_with_all = APPENDS_NOT_WITH)]
    append: bool,
    /// Remove what is to be overwritten first
    #[arg(long)]
    remove_destination: bool,
    /// Make hard links instead of copies
    #[arg(short, long, conflicts_with = "symbolic_link")]
    link: bool,
    /// Make symbolic links instead of copies
    #[arg(short, long)]
    symbolic_link: bool,
    /// Blocks of zeros become holes: of files that have some, always, or never
    #[arg(long, value_enum, default_value = "auto", hide_possible_values = true)]
    sparse: Sparse,
    /// Accepted for cp(1): no copy shares blocks
    #[arg(long, hide = true, value_name = "WHEN", value_parser = ["auto", "never"])]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    reflink: Option<String>,
    /// Stay on the file system of each source
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Name each file that is copied
    #[arg(short, long)]
    verbose: bool,
    /// Threads that copy the files of directories; 0 means one for each CPU
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    destination: Destination,
    /// Files to copy, then what to copy to: paths, or IMAGE:/path
    #[arg(required = true, value_name = "FROM> <TO")]
    paths: Vec<OsString>,
}

/// What has no meaning for a file that is appended to.
const APPENDS_NOT_WITH: [&str; 15] = [
    "recursive",
    "archive",
    "keep",
    "preserve",
    "links",
    "no_dereference",
    "dereference_named",
    "force",
    "interactive",
    "no_clobber",
    "update",
    "remove_destination",
    "link",
    "symbolic_link",
    "sparse",
];

/// What of a file can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Attribute {
    Mode,
    #[value(alias = "owner")]
    Ownership,
    Timestamps,
    Links,
    Xattr,
    Context,
    All,
}

impl Args {
    /// What the options ask for.
    pub fn options(&self) -> Options {
        let recursive = self.recursive || self.archive;
        let follow = if self.dereference {
            Follow::Always
        } else if self.dereference_named {
            Follow::Named
        } else if self.no_dereference || self.links || (recursive && !self.link) {
            Follow::Never
        } else {
            Follow::Always
        };
        let exists = if self.no_clobber {
            Exists::Skip
        } else if self.interactive {
            Exists::Ask
        } else if self.append {
            Exists::Append
        } else {
            Exists::Overwrite
        };
        Options {
            recursive,
            follow,
            preserve: self.kept(),
            plain_mode: self.drops(Attribute::Mode),
            exists,
            update: self.update,
            force: self.force,
            remove_destination: self.remove_destination,
            hard_link: self.link,
            symbolic_link: self.symbolic_link,
            sparse: self.sparse,
            one_file_system: self.one_file_system,
            report: if self.verbose {
                Report::Copies
            } else {
                Report::Nothing
            },
            moves: false,
            threads: self.threads,
        }
    }

    fn drops(&self, what: Attribute) -> bool {
        let dropped = &self.no_preserve;
        dropped.contains(&what) || dropped.contains(&Attribute::All)
    }

    fn kept(&self) -> Preserve {
        let listed = |what| {
            self.archive || self.preserve.contains(&what) || self.preserve.contains(&Attribute::All)
        };
        let keeps = |what| listed(what) && !self.drops(what);
        let by_p = |what| (self.keep || listed(what)) && !self.drops(what);
        Preserve {
            mode: by_p(Attribute::Mode),
            ownership: by_p(Attribute::Ownership),
            timestamps: by_p(Attribute::Timestamps),
            links: (self.links || listed(Attribute::Links)) && !self.drops(Attribute::Links),
            xattr: keeps(Attribute::Xattr),
            context: keeps(Attribute::Context),
        }
    }

    /// The files that are named.
    pub fn operands(self, command: &'static str) -> anyhow::Result<Operands> {
        Operands::new(
            command,
            self.paths,
            self.destination.target_directory,
            self.destination.no_target_directory,
        )
    }
}

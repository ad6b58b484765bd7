//! What is asked for.

use clap::ValueEnum;

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// None.
    Never,
    /// Those that are named.
    Named,
    /// All.
    Always,
}

/// What becomes of a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exists {
    /// It is overwritten.
    Overwrite,
    /// The data is appended to it.
    Append,
    /// The user is asked.
    Ask,
    /// It stays.
    Skip,
}

/// Where blocks of zeros become holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sparse {
    /// In files that have holes.
    Auto,
    /// In all files.
    Always,
    /// Nowhere.
    Never,
}

/// What is printed for each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Nothing.
    Nothing,
    /// As `cp -v`.
    Copies,
    /// As `mv -v` between file systems.
    Moves,
}

/// What a copy keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preserve {
    /// Permission bits and access control lists.
    pub mode: bool,
    /// Owner and group.
    pub ownership: bool,
    /// Times of the last access and change.
    pub timestamps: bool,
    /// That several names are one file.
    pub links: bool,
    /// Extended attributes.
    pub xattr: bool,
    /// The context of SELinux.
    pub context: bool,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Directories and all in them; pipes and devices as they are.
    pub recursive: bool,
    /// Which symbolic links are followed.
    pub follow: Follow,
    /// What a copy keeps.
    pub preserve: Preserve,
    /// New files have the mode that any new file has.
    pub plain_mode: bool,
    /// What becomes of a file that exists.
    pub exists: Exists,
    /// Only files that are older are overwritten.
    pub update: bool,
    /// What cannot be written is replaced, and so is an image.
    pub force: bool,
    /// What is to be overwritten is removed first.
    pub remove_destination: bool,
    /// Hard links are made.
    pub hard_link: bool,
    /// Symbolic links are made.
    pub symbolic_link: bool,
    /// Where holes are made.
    pub sparse: Sparse,
    /// Other file systems are left out.
    pub one_file_system: bool,
    /// What is printed.
    pub report: Report,
    /// What is copied is listed, to be removed.
    pub moves: bool,
    /// How many threads copy the files of a directory; 0 means one for each CPU.
    pub threads: usize,
}

impl Options {
    /// All as it is, and listed.
    pub fn to_move() -> Options {
        Options {
            recursive: true,
            follow: Follow::Never,
            preserve: Preserve {
                mode: true,
                ownership: true,
                timestamps: true,
                links: true,
                xattr: true,
                context: true,
            },
            plain_mode: false,
            exists: Exists::Overwrite,
            update: false,
            force: false,
            remove_destination: false,
            hard_link: false,
            symbolic_link: false,
            sparse: Sparse::Auto,
            one_file_system: false,
            report: Report::Nothing,
            moves: true,
            threads: 0,
        }
    }
}

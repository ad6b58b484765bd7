//! The commands, a file for each.

mod apply;
mod batch;
mod bench;
mod cat;
mod change;
pub mod chattr;
pub mod check;
mod chmod;
mod chown;
mod complete;
mod completions;
mod cp;
mod destination;
mod device;
mod df;
mod diff;
mod du;
pub mod dump;
mod export;
mod find;
#[cfg(target_os = "linux")]
mod freeze;
mod fsverity;
mod getfacl;
pub mod help;
mod info;
#[cfg(target_os = "linux")]
mod key;
mod label;
mod ln;
mod ls;
pub mod lsattr;
mod man;
mod mkdir;
pub mod mkfs;
mod mknod;
#[cfg(target_os = "linux")]
pub mod mount;
#[cfg(target_os = "linux")]
mod mqueue;
mod mv;
mod quota;
mod readlink;
mod reference;
pub mod resize;
mod rm;
mod rmdir;
mod script;
#[cfg(target_os = "linux")]
mod serve;
mod setfacl;
mod stat;
#[cfg(target_os = "linux")]
mod stats;
mod touch;
mod tree;
mod trim;
mod truncate;
pub mod tune;
#[cfg(target_os = "linux")]
mod umount;
mod undo;
mod walk;
mod xattr;

use anyhow::Result;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// The commands, with their names and arguments.
macro_rules! commands {
    ($($(#[$attr:meta])* $command:ident $name:literal ($args:ty),)*) => {
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($(#[$attr])* #[command(name = $name)] $command($args),)*
        }

        impl Command {
            /// One command as clap has it; `None` if no command has that name.
            pub fn described(name: &str) -> Option<clap::Command> {
                match name {
                    $($(#[$attr])* $name => Some(<$args>::augment_args(clap::Command::new($name))),)*
                    _ => None,
                }
            }
        }
    };
}

commands! {
    Mkfs "mkfs" (Box<mkfs::Args>),
    Info "info" (info::Args),
    Ls "ls" (ls::Args),
    Tree "tree" (tree::Args),
    Stat "stat" (stat::Args),
    Cat "cat" (cat::Args),
    Readlink "readlink" (readlink::Args),
    Find "find" (find::Args),
    Du "du" (du::Args),
    Df "df" (df::Args),
    Cp "cp" (cp::Args),
    Mkdir "mkdir" (mkdir::Args),
    Rm "rm" (rm::Args),
    Rmdir "rmdir" (rmdir::Args),
    Mknod "mknod" (mknod::Args),
    Mkfifo "mkfifo" (mknod::FifoArgs),
    Mv "mv" (mv::Args),
    Ln "ln" (ln::Args),
    Chmod "chmod" (chmod::Args),
    Chown "chown" (chown::Args),
    Chgrp "chgrp" (chown::GroupArgs),
    Chattr "chattr" (chattr::Args),
    Setfacl "setfacl" (setfacl::Args),
    Lsattr "lsattr" (lsattr::Args),
    Getfacl "getfacl" (getfacl::Args),
    Touch "touch" (touch::Args),
    Truncate "truncate" (truncate::Args),
    Trim "trim" (trim::Args),
    Xattr "xattr" (xattr::Args),
    Fsverity "fsverity" (fsverity::Args),
    Apply "apply" (apply::Args),
    Check "check" (check::Args),
    Undo "undo" (undo::Args),
    Tune "tune" (tune::Args),
    Quota "quota" (quota::Args),
    Export "export" (export::Args),
    Diff "diff" (diff::Args),
    Dump "dump" (dump::Args),
    Label "label" (label::Args),
    Resize "resize" (resize::Args),
    Batch "batch" (batch::Args),
    Device "device" (device::Args),
    #[cfg(target_os = "linux")]
    Mount "mount" (mount::Args),
    #[cfg(target_os = "linux")]
    Umount "umount" (umount::Args),
    #[cfg(target_os = "linux")]
    Freeze "freeze" (freeze::Args),
    #[cfg(target_os = "linux")]
    Thaw "thaw" (freeze::ThawArgs),
    #[cfg(target_os = "linux")]
    Key "key" (key::Args),
    #[cfg(target_os = "linux")]
    Stats "stats" (stats::Args),
    #[cfg(target_os = "linux")]
    Mqueue "mqueue" (mqueue::Args),
    #[cfg(target_os = "linux")]
    Serve "serve" (serve::Args),
    Bench "bench" (bench::Args),
    Completions "completions" (completions::Args),
    Man "man" (man::Args),
    Help "help" (help::Args),
    Complete "complete" (complete::Args),
}

impl Command {
    /// What the process exits with when the command can't be done.
    pub fn failure_code(&self) -> u8 {
        match self {
            Command::Check(_) => check::OPERATIONAL,
            Command::Diff(_) => diff::TROUBLE,
            _ => 1,
        }
    }

    /// Whether it opens images that exist.
    pub fn opens_images(&self) -> bool {
        match self {
            Command::Mkfs(_) | Command::Batch(_) | Command::Bench(_) => false,
            #[cfg(target_os = "linux")]
            Command::Mount(_)
            | Command::Umount(_)
            | Command::Freeze(_)
            | Command::Thaw(_)
            | Command::Key(_)
            | Command::Stats(_)
            | Command::Mqueue(_) => false,
            _ => true,
        }
    }

    /// Whether it is the server of a mount.
    pub fn is_server(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Command::Serve(_) => true,
            _ => false,
        }
    }

    /// Whether it changes files of an image, so that it can be one of several.
    fn changes_files(&self) -> bool {
        matches!(
            self,
            Command::Cp(_)
                | Command::Mkdir(_)
                | Command::Rm(_)
                | Command::Rmdir(_)
                | Command::Mknod(_)
                | Command::Mkfifo(_)
                | Command::Mv(_)
                | Command::Ln(_)
                | Command::Chmod(_)
                | Command::Chown(_)
                | Command::Chgrp(_)
                | Command::Chattr(_)
                | Command::Setfacl(_)
                | Command::Touch(_)
                | Command::Truncate(_)
                | Command::Xattr(_)
        )
    }

    /// Does it.
    ///
    /// # Errors
    /// One that says what to do.
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Command::Check(args) => return check::run(&args),
            Command::Diff(args) => return diff::run(&args),
            Command::Apply(args) => return apply::run(&args),
            Command::Batch(args) => return batch::run(&args),
            Command::Export(args) => export::run(&args),
            Command::Mkfs(args) => mkfs::run(&args),
            Command::Info(args) => info::run(&args),
            Command::Ls(args) => ls::run(args),
            Command::Tree(args) => tree::run(args),
            Command::Stat(args) => stat::run(args),
            Command::Cat(args) => cat::run(args),
            Command::Readlink(args) => readlink::run(args),
            Command::Find(args) => find::run(args),
            Command::Du(args) => du::run(args),
            Command::Df(args) => df::run(&args),
            Command::Cp(args) => cp::run(args),
            Command::Mkdir(args) => mkdir::run(args),
            Command::Rm(args) => rm::run(args),
            Command::Rmdir(args) => rmdir::run(args),
            Command::Mknod(args) => mknod::run(args),
            Command::Mkfifo(args) => mknod::run_fifo(args),
            Command::Mv(args) => mv::run(args),
            Command::Ln(args) => ln::run(args),
            Command::Chmod(args) => chmod::run(args),
            Command::Chown(args) => chown::run(args),
            Command::Chgrp(args) => chown::run_group(args),
            Command::Chattr(args) => chattr::run(args),
            Command::Setfacl(args) => setfacl::run(args),
            Command::Lsattr(args) => lsattr::run(args),
            Command::Getfacl(args) => getfacl::run(args),
            Command::Touch(args) => touch::run(args),
            Command::Truncate(args) => truncate::run(args),
            Command::Device(args) => device::run(args),
            Command::Trim(args) => trim::run(&args),
            Command::Undo(args) => undo::run(&args),
            Command::Tune(args) => tune::run(&args),
            Command::Quota(args) => quota::run(&args),
            Command::Xattr(args) => xattr::run(args),
            Command::Fsverity(args) => fsverity::run(args),
            Command::Dump(args) => dump::run(&args),
            Command::Label(args) => label::run(&args),
            Command::Resize(args) => resize::run(&args),
            #[cfg(target_os = "linux")]
            Command::Mount(args) => mount::run(args),
            #[cfg(target_os = "linux")]
            Command::Umount(args) => umount::run(&args),
            #[cfg(target_os = "linux")]
            Command::Key(args) => key::run(&args),
            #[cfg(target_os = "linux")]
            Command::Freeze(args) => freeze::run(&args),
            #[cfg(target_os = "linux")]
            Command::Thaw(args) => freeze::run_thaw(&args),
            #[cfg(target_os = "linux")]
            Command::Stats(args) => stats::run(&args),
            #[cfg(target_os = "linux")]
            Command::Mqueue(args) => mqueue::run(args),
            #[cfg(target_os = "linux")]
            Command::Serve(args) => serve::run(&args),
            Command::Bench(args) => bench::run(args),
            Command::Completions(args) => completions::run(&args),
            Command::Man(args) => man::run(&args),
            Command::Help(args) => help::run(&args),
            Command::Complete(args) => complete::run(&args),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

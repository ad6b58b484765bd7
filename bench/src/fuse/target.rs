//! The targets, and what each needs of the machine.

use super::FuseArgs;
use super::workload::Workload;
use crate::mount::{self, this_program};
use crate::variants::{Named, once};
use std::path::Path;
use std::process::{Command, Stdio};
use uext4_fuse::TransportKind;

/// How the kernel reaches a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// read(2) and write(2) of /dev/fuse.
    Dev,
    /// FUSE over io_uring.
    Uring,
}

impl Named for Transport {
    const NAMES: &'static [(Transport, &'static str)] =
        &[(Transport::Dev, "dev"), (Transport::Uring, "uring")];
}

impl Transport {
    /// What the front end calls it.
    pub fn kind(self) -> TransportKind {
        match self {
            Transport::Dev => TransportKind::Dev,
            Transport::Uring => TransportKind::Uring,
        }
    }

    /// Why it is not available here.
    fn missing(self) -> Option<String> {
        if !Path::new("/dev/fuse").exists() {
            return Some("there is no /dev/fuse".to_owned());
        }
        let switch = "/sys/module/fuse/parameters/enable_uring";
        let on = || std::fs::read_to_string(switch).is_ok_and(|text| text.trim() == "Y");
        match self {
            Transport::Uring if !on() => Some(format!("as root, `echo Y > {switch}` allows it")),
            _ => None,
        }
    }
}

/// The peers of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// fuse2fs of e2fsprogs.
    Fuse2fs,
    /// The kernel's ext4 on a loop device.
    Kernel,
    /// A server that keeps nothing but names, over each transport.
    Null,
}

impl Named for Peer {
    const NAMES: &'static [(Peer, &'static str)] = &[
        (Peer::Fuse2fs, "fuse2fs"),
        (Peer::Kernel, "kernel"),
        (Peer::Null, "null"),
    ];
}

/// A measured target, which mounts an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `uext4 mount`.
    Ours {
        /// How the kernel reaches it.
        transport: Transport,
        /// More options of its mount.
        options: String,
    },
    /// fuse2fs of e2fsprogs.
    Fuse2fs,
    /// The kernel's ext4 on a loop device.
    Kernel,
    /// A server that keeps nothing but names, and has no image.
    Null {
        /// How the kernel reaches it.
        transport: Transport,
    },
}

impl Target {
    pub fn name(&self) -> String {
        match self {
            Target::Ours { transport, options } if options.is_empty() => {
                format!("uext4-{}", transport.name())
            }
            Target::Ours { transport, options } => {
                format!("uext4-{},{options}", transport.name())
            }
            Target::Fuse2fs => Peer::Fuse2fs.name().to_owned(),
            Target::Kernel => Peer::Kernel.name().to_owned(),
            Target::Null { transport } => {
                format!("{}-{}", Peer::Null.name(), transport.name())
            }
        }
    }

    /// The program that serves `dir` until it is unmounted; none for the kernel.
    pub fn server(&self, image: &Path, dir: &Path) -> Option<Command> {
        let mut command = match self {
            Target::Kernel => return None,
            Target::Fuse2fs => {
                let mut command = Command::new("fuse2fs");
                command.arg("-f").arg(image).arg(dir);
                command
            }
            Target::Null { transport } => {
                let mut command = this_program();
                command.args(["null-mount", "--transport", transport.name()]);
                command.arg(dir);
                command
            }
            Target::Ours { transport, options } => {
                let mut all = format!("transport={}", transport.name());
                if !options.is_empty() {
                    all = format!("{all},{options}");
                }
                mount::command(Some(image), dir, &all)
            }
        };
        command.stdin(Stdio::null());
        Some(command)
    }

    /// Whether it has an image.
    pub fn has_image(&self) -> bool {
        !matches!(self, Target::Null { .. })
    }

    /// Whether it does this workload.
    pub fn does(&self, workload: Workload) -> bool {
        self.has_image() || workload == Workload::Create
    }

    /// Why it can't run here.
    fn missing(&self) -> Option<String> {
        match self {
            Target::Ours { transport, .. } | Target::Null { transport } => transport.missing(),
            Target::Fuse2fs => {
                let dev = || Transport::Dev.missing();
                absent("fuse2fs", "the package fuse2fs").or_else(dev)
            }
            Target::Kernel => {
                let root = rustix::process::geteuid().is_root();
                (!root).then(|| "loop devices need root".to_owned())
            }
        }
    }
}

/// Why `program` can't be run.
fn absent(program: &str, package: &str) -> Option<String> {
    let tried = Command::new(program)
        .arg("--help")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.err().map(|_| format!("{package} is not installed"))
}

/// Those that the command line names and the machine has, peers first; says which it lacks.
pub fn all(args: &FuseArgs) -> Vec<Target> {
    let mut all = Vec::new();
    let transports = once(&args.transport.0);
    for peer in once(&args.peer.0) {
        match peer {
            Peer::Fuse2fs => all.push(Target::Fuse2fs),
            Peer::Kernel => all.push(Target::Kernel),
            Peer::Null => {
                // Without ours there is nothing to go by.
                let over = match transports.is_empty() {
                    true => vec![Transport::Dev, Transport::Uring],
                    false => transports.clone(),
                };
                all.extend(over.into_iter().map(|transport| Target::Null { transport }));
            }
        }
    }
    let plain = [String::new()];
    let options = match args.options.as_slice() {
        [] => &plain[..],
        some => some,
    };
    for transport in transports {
        for options in options {
            let options = options.clone();
            all.push(Target::Ours { transport, options });
        }
    }
    all.retain(|target| match target.missing() {
        None => true,
        Some(why) => {
            eprintln!("skipped: {}: {why}", target.name());
            false
        }
    });
    all
}

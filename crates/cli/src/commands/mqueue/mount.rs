//! `uext4 mqueue mount`.

use crate::commands::mount::{HowArgs, mount};
use anyhow::Result;
use std::path::PathBuf;
use uext4_mountd::Source;

/// What `-o` takes.
const OPTIONS: &str = "\
Options after -o; the last one wins:
  msg_max=N, msgsize_max=N, msg_default=N, msgsize_default=N, queues_max=N
                              limits, as /proc/sys/fs/mqueue has them (see
                              mq_overview(7))
  user_bytes_max=N            bytes that the queues of a user take, as
                              RLIMIT_MSGQUEUE
  allow_other, noallow_other  others may use it, as permissions say (the default
                              for root)
  nosuid, nodev, noexec, fsname=NAME, threads=N
A limit can be changed later: setfattr -n uext4.msg_max -v 100 DIR

Programs use the queues through libuext4_mq.so, unchanged; files there are
queues: cat shows a queue's state, touch makes one, rm unlinks one. uext4 umount
DIR ends it, and what is in the queues goes.

Examples:
  uext4 mqueue mount /run/mq
  UEXT4_MQ_DIR=/run/mq LD_PRELOAD=libuext4_mq.so program";

/// Mount a new namespace of message queues
#[derive(Debug, clap::Args)]
#[command(after_help = OPTIONS)]
pub struct Args {
    #[command(flatten)]
    how: HowArgs,
    /// An existing directory
    dir: PathBuf,
}

pub fn run(args: Args) -> Result<()> {
    mount(&args.how, Source::Queues, Vec::new(), &args.dir)
}

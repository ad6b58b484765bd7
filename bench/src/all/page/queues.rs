//! Message queues, from thread to thread and from process to process.

use super::figures::{bars, commands};
use super::rows::{Row, Rows};
use crate::all::result::Report;
use crate::chart::{Block, Section};

/// The section.
pub fn section(report: &Report) -> Section {
    let mut blocks = vec![Block::Text(
        "64-byte messages through queues of 10: stream one way, mixed with priorities, ping-pong there and back. \
         Linux has its own POSIX message queues beside ours, with the same calls."
            .to_owned(),
    )];
    let threads = Rows::of(report, "mq");
    blocks.push(bars(
        (
            "mq",
            "Messages between threads",
            "by queues; an operation of ping-pong is a round trip",
        ),
        "messages/s",
        &groups(&threads),
        Vec::new(),
    ));
    let mounted = Rows::of(report, "mq-mounted");
    blocks.push(bars(
        ("mq-mounted", "Messages between processes", "by queues; ours through a mount, for unchanged programs"),
        "messages/s",
        &groups(&mounted),
        vec!["A message through a mount is two requests of FUSE, so the kernel's own queues are faster.".to_owned()],
    ));
    blocks.extend(commands(report, &["mq", "mq-mounted"]));
    Section {
        id: "message-queues".to_owned(),
        title: "Message queues".to_owned(),
        blocks,
    }
}

fn groups(rows: &Rows) -> Vec<(String, Rows)> {
    let mut groups = Vec::new();
    for op in ["stream", "mixed", "ping-pong"] {
        let of_op = rows.op(op);
        for queues in of_op.values(|row| row.queues) {
            let is_it = |row: &Row| row.queues == Some(queues);
            groups.push((format!("{op}, {queues}"), of_op.filter(is_it)));
        }
    }
    groups
}

//! How peers are measured.

use crate::chart::{Block, Section};

const TEXTS: [&str; 6] = [
    "Peers take turns with ours in every round of the same run, with the same counts of threads and the same work.",
    "Linux's ext4 (mdtest-kernel, create-unlink-kernel, randrw-kernel, fsync): two images are made by the same mke2fs \
     command, of the same size, journal and inodes, in files that are fully written. One is opened by ours, the other \
     is mounted by Linux through a loop device. (The charts say tmpfs and disk; where --memory and --disk name other places, \
     those are among the facts above.) On both sides each worker works in a directory of its own with a \
     table of descriptors of its own; a phase of mdtest ends with syncfs inside its time, an fsync returns when the \
     device has flushed, and randrw is O_DIRECT. create-unlink has no sync on either side: both commit every five \
     seconds. On tmpfs a flush costs nothing on either side. For fsync the images are on a disk: ours writes through the \
     host's cache and flushes it, the loop device does direct I/O and flushes the disk. e2fsck -fn finds nothing in both in the end.",
    "What differs: ours is called in the same process, Linux by system calls, which is the point; and a loop device \
     copies each block that Linux writes once more through a thread of the kernel.",
    "fuse2fs and Linux's ext4 beside mounted directories (fuse): the same programs use the same directory through the \
     kernel; each turn has a new image by mke2fs. What was done is durable inside the time: each directory is fsynced where files are created and removed, the \
     file where one is read and written, and a tree is unmounted. fuse2fs keeps no journal, so its fsync promises less \
     than the others'.",
    "Linux's message queues (mq, mq-mounted): the same loop through mq_open(3), mq_send(3) and mq_receive(3); nothing is \
     durable on either side.",
    "Linux's IPC namespaces (clone): unshare(CLONE_NEWIPC) in a loop. Such a namespace also has semaphores, shared \
     memory and sysctls, and is freed later, so only the order of magnitude says anything.",
];

/// The section.
pub fn section() -> Section {
    Section {
        id: "peers".to_owned(),
        title: "How the peers are measured".to_owned(),
        blocks: TEXTS
            .iter()
            .map(|text| Block::Text((*text).to_owned()))
            .collect(),
    }
}

//! An IPC namespace, as far as it has message queues, or a mount of its queues: both are the same here.

use crate::namespace::Namespace;
use crate::namespace_id::NamespaceId;
use std::ops::Deref;
use uext4_vfs::SuperRef;

/// A namespace of message queues, shared by its clones and by the other mounts of it
/// ([`crate::mqueue_type::MqueueType::mount`]). It ends with the last of them. Open queues stay with their
/// descriptions and have no name then.
#[derive(Clone)]
pub struct IpcNamespace {
    superblock: SuperRef<NamespaceId, Namespace>,
}

impl IpcNamespace {
    pub(crate) fn new(superblock: SuperRef<NamespaceId, Namespace>) -> IpcNamespace {
        IpcNamespace { superblock }
    }
}

impl Deref for IpcNamespace {
    type Target = Namespace;

    #[inline(always)]
    fn deref(&self) -> &Namespace {
        &self.superblock
    }
}

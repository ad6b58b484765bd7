//! What a crash left on record: deleted or truncated by the next mount.

use crate::deletion::Deletion;
use crate::inode::reference::InodeRef;
use crate::prelude::*;

impl Deletion {
    /// Deletes or truncates what a crash left on record.
    pub(crate) fn recover_orphans(&self) -> Result<()> {
        // What is not finished stays on record.
        let note = |ino: Ino, finished: Result<()>| {
            if let Err(why) = finished {
                tracing::error!("orphan inode {ino} stays on record: {why}");
            }
        };
        let found = self.orphans.load_file()?;
        for inode in self.orphans.read_orphan_list()? {
            note(inode.ino, self.finish_orphan(inode));
        }
        for ino in found {
            let finished = match self.inodes.get_orphan(ino) {
                Ok(inode) => self.finish_orphan(inode),
                Err(Ext4Error::Stale) => self.orphans.forget_orphan(ino),
                Err(e) => Err(e),
            };
            note(ino, finished);
        }
        Ok(())
    }

    /// Ends the truncate of an orphan; one without links is deleted with this, its last reference.
    fn finish_orphan(&self, inode: InodeRef) -> Result<()> {
        if inode.state().links == 0 {
            inode.set_unlinked(true);
            return Ok(());
        }
        self.finish_truncate(&inode)
    }
}

//! Several components of a path at once, without references to the directories between.
//!
//! # Invariants
//! A number that was found by a name is used only if the name still had it when what lies beyond was found: so all that time it was
//! that directory's, and anyone could search it.

use crate::inode::acl_cache::Subject;
use crate::inode::reference::InodeRef;
use crate::namei::{Namei, check_directory};
use crate::prelude::*;
use crate::volume::name_cache::{Known, NameKey};
use std::borrow::Cow;
use uext4_ondisk::Ino;
use uext4_vfs::walk::component;

/// The bits of all three classes that let a directory be searched.
const ANYONE_SEARCHES: u16 = 0o111;

/// A name that was found, and where it ends in the path.
struct Step<'n> {
    known: Known<'n>,
    ino: Ino,
    end: usize,
}

impl Namei {
    /// Looks up leading components of `path` while their names are known, the last one only `with_last`: what they lead to, and how many bytes
    /// they take. None if the first is to be looked up alone. Neither dots nor symbolic links are followed.
    ///
    /// # Locks
    /// As [`Namei::lookup`], for the last inode only.
    ///
    /// # Errors
    /// As [`Namei::lookup`].
    pub(crate) fn lookup_known(
        &self,
        caller: &Caller,
        start: &InodeRef,
        path: &[u8],
        with_last: bool,
    ) -> Result<Option<(InodeRef, usize)>> {
        check_directory(start)?;
        self.attributes.may_search(caller, start)?;
        let names = &self.volume.names;
        let mut at = start.ino;
        let mut passed: Option<Step<'_>> = None;
        loop {
            let from = passed.as_ref().map_or(0, |step| step.end);
            let Some(next) = component(path, from) else {
                break;
            };
            if next.is_last && (!with_last || next.end != path.len()) || is_dots(next.name) {
                break;
            }
            // Directories that ignore case, and encrypted ones, have no passage.
            if at == start.ino && start.is_encrypted() {
                break;
            }
            let name = match at == start.ino {
                true => self.volume.name_key(start, next.name),
                false => Cow::Borrowed(next.name),
            };
            let found = names.get(names.key(at, &name));
            let Some((known, ino)) = found.and_then(|known| known.ino.map(|ino| (known, ino)))
            else {
                break;
            };
            if passed.as_ref().is_some_and(|step| !step.known.is_current()) {
                return Ok(None);
            }
            let step = Step {
                known,
                ino,
                end: next.end,
            };
            let passage = (!next.is_last).then(|| names.passage(ino));
            if passage.is_some_and(|passage| names.get(passage).is_some()) {
                at = ino;
                passed = Some(step);
                continue;
            }
            if let Some(found) = self.stop_at(&step, passage) {
                return Ok(Some(found));
            }
            break;
        }
        Ok(passed.and_then(|step| self.stop_at(&step, None)))
    }

    /// The inode where a walk stops, unless it is to be looked up alone. With the key of a passage: a directory, which is noted if
    /// anyone may search it.
    fn stop_at(&self, step: &Step<'_>, passage: Option<NameKey>) -> Option<(InodeRef, usize)> {
        let inode = self.inodes.get_inode(step.ino).ok()?;
        if !step.known.is_current() || inode.file_type == FileType::Symlink {
            return None;
        }
        if let Some(passage) = passage {
            check_directory(&inode).ok()?;
            self.note_passage(&inode, passage);
        }
        Some((inode, step.end))
    }

    /// Notes that anyone may search a directory, if so.
    fn note_passage(&self, dir: &InodeRef, passage: NameKey) {
        let Some(place) = self.volume.names.before_search(passage) else {
            return;
        };
        let mode = self.attributes.attr_snapshot(dir).mode;
        if mode & ANYONE_SEARCHES == ANYONE_SEARCHES
            && matches!(self.attributes.acl(dir, Subject::Access), Ok(None))
            && !dir.is_unlinked()
            && !self.volume.ignores_case(dir)
            && !dir.is_encrypted()
        {
            place.found(Some(dir.ino));
        }
    }
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

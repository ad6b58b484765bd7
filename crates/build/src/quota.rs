//! Quota files of an image: what each owner of a tree has.

use std::collections::BTreeMap;
use uext4_ondisk::{QUOTA_BLOCK, QuotaEntry, QuotaHeader, QuotaKind, RoCompat, quota_file};

use crate::options::MkfsOptions;
use crate::place::Places;
use crate::tree::{Attributes, Tree};

/// The owners of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    kind: QuotaKind,
    entries: BTreeMap<u32, QuotaEntry>,
}

fn id(kind: QuotaKind, attributes: &Attributes) -> u32 {
    match kind {
        QuotaKind::User => attributes.uid,
        QuotaKind::Group => attributes.gid,
        QuotaKind::Project => attributes.project,
    }
}

impl Owners {
    /// The owners of a tree, of each kind whose quotas the image is to keep.
    pub fn of(options: &MkfsOptions, tree: &Tree) -> Vec<Owners> {
        if !options.features.ro_compat.contains(RoCompat::QUOTA) {
            return Vec::new();
        }
        let has_projects = options.features.ro_compat.contains(RoCompat::PROJECT);
        let kinds = QuotaKind::ALL.into_iter().filter(|kind| {
            let possible = *kind != QuotaKind::Project || has_projects;
            let listed = options.quota_kinds.as_ref();
            possible && listed.is_none_or(|listed| listed.contains(kind))
        });
        let owners = kinds.map(|kind| {
            // The superuser's is in every file.
            let ids = tree.ids().map(|node| id(kind, &tree.node(node).attributes));
            let ids = ids.chain(std::iter::once(0));
            Owners {
                kind,
                entries: ids.map(|id| (id, QuotaEntry::new(id))).collect(),
            }
        });
        owners.collect()
    }

    /// Users, groups or projects.
    pub fn kind(&self) -> QuotaKind {
        self.kind
    }

    /// Blocks of 1 KiB in the file.
    pub fn blocks(&self) -> u64 {
        quota_file(&QuotaHeader::new(self.kind), &self.entries).len() as u64
    }

    /// The content of the file: what each owner has of a tree whose places are known.
    pub fn content(&self, tree: &Tree, places: &Places, block_size: u64) -> Vec<u8> {
        let mut entries = self.entries.clone();
        for node in tree.ids() {
            if let Some(entry) = entries.get_mut(&id(self.kind, &tree.node(node).attributes)) {
                entry.space += places.places[node.at()].blocks * block_size;
                entry.inodes += 1;
            }
        }
        quota_file(&QuotaHeader::new(self.kind), &entries).concat()
    }
}

/// Blocks of the file system that a quota file needs.
pub(crate) fn blocks_of_file(owners: &Owners, block_size: u32) -> u64 {
    (owners.blocks() * QUOTA_BLOCK as u64).div_ceil(u64::from(block_size))
}

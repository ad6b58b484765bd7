//! Files that a manifest describes as a whole.

use std::collections::BTreeMap;
use std::io;

use uext4_ondisk::FileType;

use super::{Described, Merge, What, last_name, wrong};
use crate::error::Result;
use crate::metadata::{Made, Manifest, Rule, Target};
use crate::source::data::Origin;
use crate::source::part::Part;
use crate::tree::directory;

/// Permission of what is made, unless the manifest has it.
const DIRECTORY_MODE: u16 = 0o755;
const FILE_MODE: u16 = 0o644;
const DEVICE_MODE: u16 = 0o600;
const LINK_MODE: u16 = 0o777;

impl Merge {
    /// Makes the files that lines of a manifest describe as a whole. Of those that a source has, only the content is
    /// replaced.
    ///
    /// # Errors
    /// [`crate::MkfsError::Line`]: a source has a file of another type; the file of the host with its content can't be read.
    pub fn make(&mut self, manifest: &Manifest) -> Result<()> {
        self.layer += 1;
        for rule in &manifest.rules {
            if let (Target::Path(path), Some(made)) = (&rule.target, &rule.made) {
                self.entries += 1;
                self.make_one(path, made, rule)
                    .map_err(|e| manifest.wrong(rule, e))?;
            }
        }
        Ok(())
    }

    fn make_one(&mut self, path: &[u8], made: &Made, rule: &Rule) -> io::Result<()> {
        let name = last_name(path);
        let there = match name {
            b"" => Some(0),
            _ => {
                let above = self.walk(&path[..path.len() - name.len()], false)?;
                let names = above.and_then(|dir| self.names(dir));
                names.and_then(|names| names.get(name)).map(|n| n.node)
            }
        };
        let Some(there) = there else {
            return self.make_new(path, made, rule);
        };
        if FileType::from_mode(self.nodes[there].attributes.mode) != file_type(made) {
            return Err(wrong("a source has a file of another type there"));
        }
        if matches!(
            made,
            Made::Link(_) | Made::Char(_) | Made::Block(_) | Made::File(Some(_))
        ) {
            let (what, _, size) = self.content(made)?;
            let node = &mut self.nodes[there];
            (node.what, node.attributes.size) = (what, size);
            node.verity = None;
        }
        Ok(())
    }

    fn make_new(&mut self, path: &[u8], made: &Made, rule: &Rule) -> io::Result<()> {
        if rule.optional {
            return Ok(());
        }
        if *made == Made::File(None) && rule.size.is_some_and(|size| size > 0) {
            return Err(wrong(
                "no source has the file, and no contents= names its content",
            ));
        }
        let (what, permission, size) = self.content(made)?;
        let mut attributes = directory(0, self.time).attributes;
        (attributes.mode, attributes.size) = (file_type(made).to_mode() | permission, size);
        let described = Described {
            attributes,
            xattrs: None,
            header: None,
        };
        let node = self.put(path, what, described)?;
        self.nodes[node].made = true;
        Ok(())
    }

    /// What a file is, its permission, and its bytes.
    fn content(&mut self, made: &Made) -> io::Result<(What, u16, u64)> {
        let regular = |origin| What::Regular {
            origin,
            segments: None,
        };
        Ok(match made {
            Made::Directory => (What::Directory(BTreeMap::new()), DIRECTORY_MODE, 0),
            Made::File(None) => (regular(Origin::Empty), FILE_MODE, 0),
            Made::File(Some(path)) => {
                let part = Part::of_path(path.clone());
                let part = part.map_err(|e| wrong(format!("{}: {e}", path.display())))?;
                let store = self.merged.add_store(part.store);
                (regular(Origin::Store { store, at: 0 }), FILE_MODE, part.len)
            }
            Made::Link(target) => {
                let what = What::Symlink(target[..].into());
                (what, LINK_MODE, target.len() as u64)
            }
            Made::Char(device) | Made::Block(device) => (What::Device(*device), DEVICE_MODE, 0),
            Made::Fifo | Made::Socket => (What::Other, FILE_MODE, 0),
        })
    }
}

fn file_type(made: &Made) -> FileType {
    match made {
        Made::Directory => FileType::Directory,
        Made::File(_) => FileType::Regular,
        Made::Link(_) => FileType::Symlink,
        Made::Char(_) => FileType::CharDevice,
        Made::Block(_) => FileType::BlockDevice,
        Made::Fifo => FileType::Fifo,
        Made::Socket => FileType::Socket,
    }
}

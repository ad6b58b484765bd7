//! An image that debugfs has open: what it holds on its device, and the mount that changes it.
//!
//! Requests that read see the device, nothing of it trusted. Those that change names and files go to the engine, which is mounted at the
//! first of them and unmounted before the next request that reads. Fields are changed in a [`Draft`].

use crate::commands::dump::View;
use anyhow::{Context, Result, anyhow, bail};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::unstable::ondisk::{
    GroupCsum, GroupDesc, GroupNo, Ino, Pblk, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE,
    Superblock, inode_checksum_set,
};
use uext4::unstable::{
    FileSystem, InodeRef, apply_repair, ondisk::FileType, plan_writes, read_superblock,
};
use uext4::{BlockDevice, Caller, Filesystem, ImageOptions, OverlayDevice};

pub use super::content::{Entry, NO_DIRECTORY, data, entries, inline, runs, text};

/// Links that a path follows at most.
const LINKS_MAX: u32 = 40;
/// What e2fsprogs say of a name that is not there.
pub const NOT_FOUND: &str = "File not found by ext2_lookup";

/// An image.
pub struct Image {
    /// Its name.
    pub name: PathBuf,
    device: Arc<dyn BlockDevice>,
    on_disk: View,
    mounted: Option<Mounted>,
    /// Whether it was opened to be changed.
    pub is_writable: bool,
    /// The directory that paths begin at.
    pub root: Ino,
    /// The directory that relative paths begin at.
    pub cwd: Ino,
}

/// The image, mounted.
struct Mounted {
    /// Inodes that lost their last name, and are kept until the mount ends.
    kept: Vec<InodeRef>,
    fs: Filesystem,
    mounts: u16,
    mount_time: u64,
}

/// What a request gets to change the image by.
pub struct Engine<'i> {
    /// The mount.
    pub fs: &'i Filesystem,
    kept: &'i mut Vec<InodeRef>,
}

impl Engine<'_> {
    /// An inode.
    ///
    /// # Errors
    /// It is not in use.
    pub fn node(&self, ino: Ino) -> uext4::Result<InodeRef> {
        self.fs.engine().inode_by_number(ino.0.into())
    }

    /// Keeps an inode until the mount ends.
    pub fn keep(&mut self, node: InodeRef) {
        self.kept.push(node);
    }
}

/// Changes of bytes, in memory.
pub struct Draft {
    /// The image with the changes.
    pub view: View,
    above: Arc<OverlayDevice>,
}

impl Image {
    /// The image on a device.
    pub fn new(
        name: &Path,
        device: Arc<dyn BlockDevice>,
        sb: Superblock,
        is_writable: bool,
    ) -> Image {
        Image {
            name: name.to_owned(),
            on_disk: View::new(Arc::clone(&device), sb),
            device,
            mounted: None,
            is_writable,
            root: Ino::ROOT,
            cwd: Ino::ROOT,
        }
    }

    /// What is on the device; what was changed is there too.
    ///
    /// # Errors
    /// The device's.
    pub fn view(&mut self) -> Result<&View> {
        self.settle()?;
        Ok(&self.on_disk)
    }

    /// The mount.
    ///
    /// # Errors
    /// The image can't be mounted.
    pub fn engine(&mut self) -> Result<Engine<'_>> {
        let mounted = match self.mounted.take() {
            Some(mounted) => mounted,
            None => {
                let raw = &self.on_disk.sb.raw;
                let (mounts, mount_time) = (raw.mnt_count.get(), raw.mount_time());
                let device = Arc::clone(&self.device);
                let fs = Filesystem::open_device(device, &ImageOptions::read_write())?;
                let fs = fs.with_caller(Caller::root().with_umask(0));
                Mounted {
                    kept: Vec::new(),
                    fs,
                    mounts,
                    mount_time,
                }
            }
        };
        let Mounted { fs, kept, .. } = self.mounted.insert(mounted);
        Ok(Engine { fs, kept })
    }

    /// Ends the mount, which is not counted as one.
    ///
    /// # Errors
    /// The device's.
    pub fn settle(&mut self) -> Result<()> {
        let Some(mounted) = self.mounted.take() else {
            return Ok(());
        };
        drop(mounted.kept);
        mounted.fs.unmount()?;
        self.reread();
        let draft = self.draft()?;
        draft.change_super(|raw| {
            raw.mnt_count = mounted.mounts.into();
            raw.set_mount_time(mounted.mount_time);
        })?;
        self.commit(draft)
    }

    fn reread(&mut self) {
        // A superblock that a request has damaged is shown as it was.
        if let Ok(sb) = read_superblock(&*self.device) {
            self.on_disk = View::new(Arc::clone(&self.device), sb);
        }
    }

    /// A draft of changes of bytes.
    ///
    /// # Errors
    /// The device's.
    pub fn draft(&mut self) -> Result<Draft> {
        self.settle()?;
        let above = Arc::new(OverlayDevice::new(Arc::clone(&self.device)));
        let sb = self.on_disk.sb.clone();
        Ok(Draft {
            view: View::new(Arc::clone(&above) as _, sb),
            above,
        })
    }

    /// Writes what a draft has changed: as one transaction of the journal, if there is one.
    ///
    /// # Errors
    /// The device's, or the journal's.
    pub fn commit(&mut self, draft: Draft) -> Result<()> {
        let block_size = u64::from(self.on_disk.sb.geometry.block_size);
        let mut runs = Vec::new();
        for block in draft.above.changed(block_size)? {
            let mut bytes = vec![0; block_size as usize];
            draft.above.read_at(block * block_size, &mut bytes)?;
            runs.push((block * block_size, bytes));
        }
        drop(draft);
        let plan = plan_writes(&*self.device, &runs)?;
        apply_repair(&self.device, &plan, None)?;
        self.reread();
        Ok(())
    }

    /// The inode that a path, or a number as `<12>`, names. A link at the end is not followed.
    ///
    /// # Errors
    /// There is none; the message is that of the original.
    pub fn find(&mut self, path: &[u8]) -> Result<Ino> {
        if let Some(number) = number(path) {
            let most = self.on_disk.sb.geometry.inodes_count;
            return match number {
                Some(ino) if (1..=most).contains(&ino) => Ok(Ino(ino)),
                _ => Err(anyhow!("{}: {NOT_FOUND} ", text(path))),
            };
        }
        let walked = self.walk(self.cwd, path, &mut 0);
        walked.map_err(|e| anyhow!("{}: {e} ", text(path)))
    }

    /// A directory that a path names; a link to it is followed.
    ///
    /// # Errors
    /// As [`Image::find`]; it is none.
    pub fn find_directory(&mut self, path: &[u8]) -> Result<Ino> {
        let ino = self.find(path)?;
        let is_dir = match self.mounted {
            Some(_) => {
                let engine = self.engine()?;
                let node = engine.node(ino)?;
                engine.fs.engine().kind(&node)? == uext4::FileKind::Directory
            }
            None => self.on_disk.inode(ino)?.inode.file_type() == FileType::Directory,
        };
        match is_dir {
            true => Ok(ino),
            false => Err(anyhow!("{}: {NO_DIRECTORY} ", text(path))),
        }
    }

    /// The directory of a new name, and that name.
    ///
    /// # Errors
    /// The directory does not exist.
    pub fn find_parent<'p>(&mut self, path: &'p [u8]) -> Result<(Ino, &'p [u8])> {
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
            return Ok((self.cwd, path));
        };
        let (dir, name) = path.split_at(slash);
        let name = name.get(1..).unwrap_or(&[]);
        if dir.is_empty() {
            return Ok((self.root, name));
        }
        let shown = text(dir);
        let ino = self.find(dir).map_err(|e| {
            uext4::unstable::to_stderr(format_args!("{e}while looking up \"{shown}\""));
            anyhow!("{NOT_FOUND} ")
        })?;
        Ok((ino, name))
    }

    fn walk(&mut self, start: Ino, path: &[u8], links: &mut u32) -> Result<Ino> {
        let mut at = if path.first() == Some(&b'/') {
            self.root
        } else {
            start
        };
        let names: Vec<&[u8]> = path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
            .collect();
        let ends_in_slash = path.last() == Some(&b'/');
        for (i, name) in names.iter().enumerate() {
            let dir = at;
            at = match *name {
                b"." => dir,
                name => self.lookup(dir, name)?,
            };
            let is_last = i + 1 == names.len() && !ends_in_slash;
            if !is_last && let Some(target) = self.link_target(at)? {
                *links += 1;
                if *links > LINKS_MAX {
                    bail!("Too many symbolic links encountered");
                }
                at = self.walk(dir, &target, links)?;
            }
        }
        Ok(at)
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Ino> {
        if self.mounted.is_some() {
            let engine = self.engine()?;
            let found = engine
                .node(dir)
                .and_then(|node| engine.fs.engine().lookup(&Caller::root(), &node, name));
            return match found {
                Ok(node) => Ok(node.ino),
                Err(e) if e == uext4::Errno::ENOTDIR => bail!("{NO_DIRECTORY}"),
                Err(e) if e == uext4::Errno::ENOENT => bail!("{NOT_FOUND}"),
                Err(e) => Err(e.into()),
            };
        }
        let entries = entries(&self.on_disk, dir, false)?;
        let found = entries
            .iter()
            .find(|entry| entry.ino != 0 && entry.name == name);
        found
            .map(|entry| Ino(entry.ino))
            .ok_or_else(|| anyhow!("{NOT_FOUND}"))
    }

    fn link_target(&mut self, ino: Ino) -> Result<Option<Vec<u8>>> {
        if self.mounted.is_some() {
            let engine = self.engine()?;
            let node = engine.node(ino)?;
            let fs = engine.fs.engine();
            return match fs.kind(&node)? {
                uext4::FileKind::Symlink => Ok(Some(fs.readlink(&Caller::root(), &node)?)),
                _ => Ok(None),
            };
        }
        let inode = self.on_disk.inode(ino)?.inode;
        if inode.file_type() != FileType::Symlink {
            return Ok(None);
        }
        let mut target = data(&self.on_disk, ino, &inode)?;
        target.truncate(usize::try_from(inode.size).unwrap_or(usize::MAX));
        Ok(Some(target))
    }
}

/// The number in `<12>`; `Some(None)` if it is not one.
fn number(path: &[u8]) -> Option<Option<u32>> {
    let inner = path.strip_prefix(b"<")?.strip_suffix(b">")?;
    Some(super::words::number(inner).and_then(|n| u32::try_from(n).ok()))
}

impl Draft {
    /// Replaces a block.
    ///
    /// # Errors
    /// There is none of that number.
    pub fn put_block(&self, at: Pblk, bytes: &[u8]) -> Result<()> {
        let geometry = &self.view.sb.geometry;
        if at.0 >= geometry.blocks_count {
            bail!("block {}: there are {}", at.0, geometry.blocks_count);
        }
        Ok(self.above.write_at(geometry.block_offset(at), bytes)?)
    }

    /// Changes the bytes of an inode; its checksum follows.
    ///
    /// # Errors
    /// It can't be read.
    pub fn change_inode(&self, ino: Ino, change: impl FnOnce(&mut [u8])) -> Result<()> {
        let raw = self.view.raw_inode(ino)?;
        let mut block = self.view.block(raw.block)?;
        let bytes = block
            .get_mut(raw.offset..raw.offset + raw.bytes.len())
            .context("the inode is not in its block")?;
        change(bytes);
        if self.view.sb.has_metadata_csum() {
            inode_checksum_set(bytes, self.view.seed(), ino);
        }
        self.put_block(raw.block, &block)
    }

    /// Changes the superblock; its checksum follows.
    ///
    /// # Errors
    /// The device's.
    pub fn change_super(&self, change: impl FnOnce(&mut RawSuperblock)) -> Result<()> {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        self.above.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
        let raw = RawSuperblock::mut_from(&mut bytes).context("no superblock")?;
        change(raw);
        raw.update_checksum();
        Ok(self.above.write_at(SUPERBLOCK_OFFSET, &bytes)?)
    }

    /// Changes the bytes of the superblock; its checksum follows.
    ///
    /// # Errors
    /// The device's.
    pub fn change_super_bytes(&self, change: impl FnOnce(&mut [u8])) -> Result<()> {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        self.above.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
        change(&mut bytes);
        self.above.write_at(SUPERBLOCK_OFFSET, &bytes)?;
        self.change_super(|_| {})
    }

    /// Changes the descriptor of a group; its checksum follows.
    ///
    /// # Errors
    /// It can't be read.
    pub fn change_group(&self, no: GroupNo, change: impl FnOnce(&mut GroupDesc)) -> Result<()> {
        let (at, offset) = self.view.sb.geometry.group_desc_location(no);
        let mut block = self.view.block(at)?;
        let end = offset + usize::from(self.view.sb.geometry.desc_size);
        let bytes = block.get_mut(offset..end).context("no descriptor")?;
        let mut desc = GroupDesc::decode(bytes)?;
        change(&mut desc);
        desc.encode_into(bytes);
        GroupCsum::of(&self.view.sb).set_desc_checksum(no, bytes);
        self.put_block(at, &block)
    }
}

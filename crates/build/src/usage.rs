//! Usage types (`mke2fs -T`): what an image is for, and so how large blocks are and how many inodes there are.

use crate::error::{MkfsError, Result};
use crate::options::MkfsOptions;

/// A usage type, as mke2fs.conf(5) comes with.
struct Usage {
    name: &'static str,
    block_size: Option<u32>,
    inode_ratio: u32,
    inode_size: Option<u16>,
}

const fn usage(name: &'static str, inode_ratio: u32) -> Usage {
    Usage {
        name,
        block_size: None,
        inode_ratio,
        inode_size: None,
    }
}

#[rustfmt::skip]
const USAGES: [Usage; 9] = [
    usage("default", 16384),
    Usage { block_size: Some(1024), ..usage("floppy", 8192) },
    Usage { block_size: Some(1024), ..usage("small", 4096) },
    usage("big", 32768),
    usage("huge", 65536),
    usage("news", 4096),
    usage("largefile", 1 << 20),
    usage("largefile4", 4 << 20),
    Usage { block_size: Some(4096), inode_size: Some(128), ..usage("hurd", 16384) },
];

impl MkfsOptions {
    /// Sets what a usage type says: `default`, `floppy`, `small`, `big`, `huge`, `news`, `largefile`,
    /// `largefile4`, `hurd`; of several, comma between them, the later ones win.
    ///
    /// # Errors
    /// [`MkfsError::Option`]: another type.
    pub fn set_usage(&mut self, list: &str) -> Result<()> {
        for name in list.split(',') {
            let Some(usage) = USAGES.iter().find(|usage| usage.name == name) else {
                let why = "default, floppy, small, big, huge, news, largefile, largefile4 or hurd";
                return Err(MkfsError::option("usage type", name, why));
            };
            self.inode_ratio = usage.inode_ratio;
            self.block_size = usage.block_size.unwrap_or(self.block_size);
            self.inode_size = usage.inode_size.unwrap_or(self.inode_size);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_type_wins() {
        let mut options = MkfsOptions::default();
        options.set_usage("small,largefile").unwrap();
        assert_eq!((options.block_size, options.inode_ratio), (1024, 1 << 20));
        let error = options.set_usage("tiny").unwrap_err().to_string();
        assert!(error.contains("default, floppy, small"), "{error}");
    }
}

//! Reading extended attributes from the host.

use std::path::PathBuf;

use rustix::io::Errno;
use uext4_ondisk::{XattrList, XattrOwnedValue};

use crate::error::{MkfsError, Result};
use crate::xattrs::on_disk;

/// The path of something found, for messages.
pub(crate) type FullPath<'a> = &'a dyn Fn() -> PathBuf;

/// Bytes of names or of a value that the host gives at most.
const HOST_MAX: usize = 64 << 10;

/// Reads attributes into buffers that it keeps.
pub(crate) struct Reader {
    names: Vec<u8>,
    value: Vec<u8>,
}

impl Reader {
    /// A reader.
    pub fn new() -> Reader {
        Reader {
            names: vec![0; HOST_MAX],
            value: vec![0; HOST_MAX],
        }
    }

    /// All attributes of a file that ext4 has a place for; `full` is the file in messages.
    ///
    /// # Errors
    /// [`MkfsError::Tree`].
    pub fn read(
        &mut self,
        path: &[u8],
        full: FullPath<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<XattrList>> {
        let fail = |e| MkfsError::tree("read attributes of", full(), e);
        let len = match rustix::fs::llistxattr(path, &mut self.names[..]) {
            Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(None),
            Ok(len) => len,
            Err(e) => return Err(fail(e)),
        };
        let mut list = XattrList::default();
        let names = self.names[..len].split(|b| *b == 0);
        for name in names.filter(|n| !n.is_empty()) {
            let size = match rustix::fs::lgetxattr(path, name, &mut self.value[..]) {
                Ok(size) => size,
                // Removed in between, or listed but not readable, as some network file systems do.
                Err(Errno::NODATA | Errno::OPNOTSUPP) => continue,
                Err(e) => return Err(fail(e)),
            };
            match on_disk(name, &self.value[..size]) {
                Some((index, rest, value)) => {
                    let value = XattrOwnedValue::Inline(value.into_owned());
                    list.set(index, rest, value);
                }
                None => warnings.push(format!(
                    "{}: attribute {} has no place in ext4",
                    full().display(),
                    String::from_utf8_lossy(name)
                )),
            }
        }
        Ok((!list.is_empty()).then_some(list))
    }
}
